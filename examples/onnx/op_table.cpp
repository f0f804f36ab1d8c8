// SPDX-License-Identifier: BSL-1.0
/// @file
/// The ops of ONNX by what they share, and those that onnxruntime adds for inference and for training.

#include "onnx/op_table.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace echo::format {
namespace {

struct row {
    op_kind kind;
    onnx_rerun rerun;
    onnx_inplace inplace;
    std::string_view domain; ///< of all names of the row; empty: ONNX's own
    std::string_view names;
};

using enum op_kind;
using enum onnx_rerun;
constexpr auto fresh = onnx_inplace::none;
constexpr auto over = onnx_inplace::elementwise;
constexpr std::string_view microsoft = "com.microsoft";

constexpr row rows[] = {
    {heavy, pure, fresh, "",
     "Conv ConvInteger ConvTranspose DeformConv QLinearConv MatMul MatMulInteger QLinearMatMul Gemm Einsum "
     "RNN "
     "GRU LSTM Attention Det DFT STFT"},
    {view, pure, fresh, "", "Reshape Squeeze Unsqueeze Flatten Identity"},
    {light, pure, over, "",
     "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil "
     "Celu "
     "Clip Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Max Mean Min Mish Mod Mul "
     "Neg "
     "Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub "
     "Sum "
     "Swish Tan Tanh ThresholdedRelu Xor"},
    {light, pure, fresh, "",
     "AffineGrid ArgMax ArgMin AveragePool BatchNormalization BlackmanWindow Cast CastLike CenterCropPad "
     "Col2Im "
     "Compress Concat ConstantOfShape CumSum DepthToSpace DequantizeLinear DynamicQuantizeLinear Equal "
     "Expand "
     "EyeLike Gather GatherElements GatherND GlobalAveragePool GlobalLpPool GlobalMaxPool Greater "
     "GreaterOrEqual "
     "GridSample GroupNormalization HammingWindow HannWindow Hardmax InstanceNormalization IsInf IsNaN "
     "LayerNormalization Less LessOrEqual LogSoftmax LpNormalization LpPool LRN MaxPool MaxRoiPool MaxUnpool "
     "MeanVarianceNormalization MelWeightMatrix NegativeLogLikelihoodLoss NonMaxSuppression NonZero OneHot "
     "Pad "
     "QuantizeLinear RMSNormalization Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
     "ReduceMean "
     "ReduceMin ReduceProd ReduceSum ReduceSumSquare Resize ReverseSequence RoiAlign RotaryEmbedding Scatter "
     "ScatterElements ScatterND Shape SimplifiedLayerNormalization Size Slice Softmax "
     "SoftmaxCrossEntropyLoss "
     "SpaceToDepth Split TensorScatter Tile TopK Transpose Trilu Unique Upsample Where"},
    {light, dropout, over, "", "Dropout"},
    {light, onnx_rerun::random, fresh, "",
     "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"},
    // Bodies are not looked into: what they keep while they run is not counted.
    {heavy, never, fresh, "", "If Loop Scan SequenceMap"},

    {heavy, pure, fresh, microsoft,
     "FusedMatMul FusedGemm FusedConv TransposeMatMul Attention MultiHeadAttention MatMulNBits ConvGrad "
     "ConvTransposeGrad LSTMTraining GRUTraining LSTMGrad GRUGrad"},
    {light, pure, over, microsoft,
     "Gelu FastGelu QuickGelu BiasGelu BiasFastGelu BiasSoftmax Scale ReluGrad SigmoidGrad TanhGrad GeluGrad "
     "FastGeluGrad QuickGeluGrad BiasGeluGrad_dX BiasFastGeluGrad_dX LeakyReluGrad HardSigmoidGrad EluGrad "
     "DropoutGrad SoftmaxGrad SoftmaxGrad_13 LogSoftmaxGrad LogSoftmaxGrad_13 AbsGrad"},
    {light, pure, fresh, microsoft,
     "BatchNormInternal BatchNormalizationGrad LayerNormalizationGrad SimplifiedLayerNormalizationGrad "
     "InvertibleLayerNormalizationGrad SkipLayerNormalization SoftmaxCrossEntropy SoftmaxCrossEntropyGrad "
     "SparseSoftmaxCrossEntropy SparseSoftmaxCrossEntropyGrad SoftmaxCrossEntropyLossInternal "
     "SoftmaxCrossEntropyLossGrad SoftmaxCrossEntropyLossInternalGrad BitmaskDropoutGrad SoftmaxDropoutGrad "
     "GatherGrad GatherElementsGrad GatherNDGrad SliceGrad MaxPoolGrad AveragePoolGrad GlobalAveragePoolGrad "
     "GlobalMaxPoolGrad ConcatTraining SplitTraining ReduceSumTraining BroadcastGradientArgs PadAndUnflatten "
     "IsAllFinite IsFinite ScaledSum ReduceAllL2 MixedPrecisionScale QuantizeLinear "
     "DequantizeLinear"},
    {light, dropout, fresh, microsoft, "BiasDropout BitmaskDropout BitmaskBiasDropout SoftmaxDropout"},
    {view, pure, fresh, microsoft, "PassThrough"},
    // What writes parameters stays where it is.
    {light, never, fresh, microsoft,
     "SGDOptimizer AdamOptimizer LambOptimizer InPlaceAccumulator InPlaceAccumulatorV2 ZeroGradient Group"},
    {light, never, fresh, "ai.onnx.preview.training", "Adam Adagrad Momentum"},
};

std::vector<std::pair<std::string, onnx_op>> sorted_table() {
    std::vector<std::pair<std::string, onnx_op>> made;
    for (const row& r : rows)
        for (auto rest = r.names; !rest.empty();) {
            const auto length = std::min(rest.find(' '), rest.size());
            std::string name(rest.substr(0, length));
            if (!r.domain.empty()) name = std::string(r.domain) + "::" + name;
            made.push_back({std::move(name), {{}, r.kind, r.rerun, r.inplace}});
            rest.remove_prefix(std::min(length + 1, rest.size()));
        }
    std::ranges::sort(made, {}, &std::pair<std::string, onnx_op>::first);
    for (auto& [name, op] : made) op.name = name;
    return made;
}

} // namespace

const onnx_op* find_onnx_op(std::string_view name) noexcept {
    static const auto table = sorted_table();
    const auto found = std::ranges::lower_bound(
        table, name, {}, [](const auto& entry) { return std::string_view(entry.first); });
    return found != table.end() && found->first == name ? &found->second : nullptr;
}

bool is_onnx_update_op(std::string_view name) noexcept {
    constexpr std::string_view updates[] = {
        "ai.onnx.preview.training::Adagrad",   "ai.onnx.preview.training::Adam",
        "ai.onnx.preview.training::Momentum",  "com.microsoft::AdamOptimizer",
        "com.microsoft::AdamWOptimizer",       "com.microsoft::InPlaceAccumulator",
        "com.microsoft::InPlaceAccumulatorV2", "com.microsoft::LambOptimizer",
        "com.microsoft::SGDOptimizer",         "com.microsoft::SGDOptimizerV2",
        "com.microsoft::ZeroGradient"};
    return std::ranges::find(updates, name) != std::end(updates);
}

} // namespace echo::format
