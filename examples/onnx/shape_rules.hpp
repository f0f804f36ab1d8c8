// SPDX-License-Identifier: BSL-1.0
/// @file
/// `shape_rules`: shapes of ops that the ONNX library does not know: gradients and fused ops of onnxruntime, and what
/// newer versions of ONNX added or changed. To be asked by `onnx::shape_inference`, whose own rules come first.
/// Compiled into model.cpp alone, since the headers of ONNX take long.
#pragma once

#include "onnx/newer_rules.hpp"
#include "onnx/rule_helpers.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

/// One word per output: `2` has type and shape of input 2; `b2` its shape and is boolean; `c2` is a vector as long as
/// the first extent of input 2; `v1.0` has the shape that input 1 holds and the type of input 0; `?` is not known.
/// Names are separated by spaces; those of onnxruntime's domain come without it.
struct shape_rule {
    std::string_view names, outputs;
};

inline constexpr shape_rule microsoft_shapes[] = {
    {"Gelu FastGelu QuickGelu BiasGelu BiasFastGelu BiasSoftmax Scale ReluGrad SigmoidGrad TanhGrad GeluGrad "
     "FastGeluGrad QuickGeluGrad BiasGeluGrad_dX BiasFastGeluGrad_dX LeakyReluGrad HardSigmoidGrad EluGrad "
     "DropoutGrad BitmaskDropoutGrad SoftmaxGrad SoftmaxGrad_13 LogSoftmaxGrad LogSoftmaxGrad_13 AbsGrad "
     "ZeroGradient InPlaceAccumulator GlobalAveragePoolGrad PassThrough",
     "0"},
    {"SoftmaxDropoutGrad SoftmaxCrossEntropyGrad SparseSoftmaxCrossEntropyGrad SoftmaxCrossEntropyLossGrad "
     "SoftmaxCrossEntropyLossInternalGrad",
     "1"},
    {"SoftmaxCrossEntropyLossInternal", "? 0"},
    {"BatchNormInternal", "0 3 3 3 3"},
    {"ConvGrad", "1 2 c2"},
    {"ConvTransposeGrad", "1 2 ?"},
    {"BatchNormalizationGrad LayerNormalizationGrad", "1 2 2"},
    {"SimplifiedLayerNormalizationGrad", "1 2"},
    {"BiasDropout", "0 b0"},
    {"GatherGrad GatherNDGrad", "v0.2"},
    {"GatherElementsGrad SliceGrad", "v1.0"},
    {"SGDOptimizer", "1 2"},
};

/// Since opset 18.
inline constexpr shape_rule newer_shapes[] = {
    {"BitwiseNot CumProd Gelu GroupNormalization Mish RMSNormalization RotaryEmbedding SwiGLU Swish "
     "TensorScatter",
     "0"},
    {"RegexFullMatch", "b0"},
};

/// What a newer version of ONNX added, or changed so that the library's rule would pass over an input or an attribute.
struct newer_rule {
    std::string_view names; ///< separated by spaces
    int since;              ///< the first version in which the library's rule does not hold
    void (*rule)(onnx::InferenceContext&);
};
inline constexpr newer_rule newer_rules[] = {
    {"Cast BitCast", 19, rule_cast},
    {"CastLike", 19, rule_cast_like},
    {"QuantizeLinear", 19, rule_quantize},
    {"DequantizeLinear", 19, rule_dequantize},
    {"OptionalHasElement", 18, rule_bool_scalar},
    {"AveragePool LpPool MaxPool", 18, rule_pool},
    {"DeformConv", 19, rule_deform_conv},
    {"Col2Im", 18, rule_col2im},
    {"GridSample", 20, rule_grid_sample},
    {"AffineGrid", 20, rule_affine_grid},
    {"CenterCropPad", 18, rule_center_crop_pad},
    {"Pad", 18, rule_pad},
    {"Resize", 18, rule_resize},
    {"DFT", 17, rule_dft_17},
    {"DFT", 20, rule_dft},
    {"Einsum", 12, rule_einsum},
    {"OptionalGetElement", 18, rule_optional_get},
    {"Attention", 23, rule_attention},
    {"LinearAttention", 27, rule_linear_attention},
    {"CausalConvWithState", 27, rule_causal_conv},
};

class shape_rules : public onnx::ISchemaRegistry {
public:
    shape_rules() {
        for (const auto& rule : microsoft_shapes) add(rule, "com.microsoft");
        for (const auto& rule : newer_shapes) add(rule, "");
        for (const auto* name : {"FusedMatMul", "TransposeMatMul"}) add(name, "com.microsoft", fused_matmul);
        for (const auto* name : {"SkipLayerNormalization"}) add(name, "com.microsoft", normalisation);
        add("ReduceSumTraining", "com.microsoft", reduction);
        add("LayerNormalization", "", normalisation); // onnxruntime has it before opset 17
        add("SimplifiedLayerNormalization", "", normalisation);
        for (const auto* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
            add(name, "", [](onnx::InferenceContext& c) {
                onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
                if (onnx::hasNInputShapes(c, 2))
                    onnx::bidirectionalBroadcastShapeInference(
                        onnx::getInputShape(c, 0), onnx::getInputShape(c, 1), *onnx::getOutputShape(c, 0));
            });
        for (const auto& one : newer_rules)
            for (const auto& name : words(one.names))
                newer_[name].emplace(one.since, schema(name, "", one.rule));
        add("FlexAttention", "ai.onnx.preview", rule_attention);
        add("TreeEnsemble", "ai.onnx.ml", rule_tree_ensemble);
        add("ArrayFeatureExtractor", "ai.onnx.ml", rule_array_feature_extractor);
        add("Binarizer", "ai.onnx.ml", [](onnx::InferenceContext& c) { give_like(c, 0, 0); });
        for (const auto* name : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                                 "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
            newer_[name].emplace(18, schema(name, "", reduction));
        }
        newer_["Split"].emplace(18, schema("Split", "", split));
    }

    const onnx::OpSchema* GetSchema(const std::string& name, int version,
                                    const std::string& domain) const override {
        if (const auto newer = newer_.find(name); domain.empty() && newer != newer_.end())
            if (const auto next = newer->second.upper_bound(version); next != newer->second.begin())
                return &std::prev(next)->second;
        const auto* known = onnx::OpSchemaRegistry::Instance()->GetSchema(name, version, domain);
        if (known != nullptr && (known->has_type_and_shape_inference_function() || known->HasFunction()))
            return known;
        const auto mine = schemas_.find({domain, name});
        return mine == schemas_.end() ? known : &mine->second;
    }

private:
    static onnx::OpSchema schema(const std::string& name, const std::string& domain,
                                 onnx::InferenceFunction rule) {
        onnx::OpSchema made(name, "", 0);
        made.SetDomain(domain).SinceVersion(1).TypeAndShapeInferenceFunction(std::move(rule));
        return made;
    }
    void add(const std::string& name, const std::string& domain, onnx::InferenceFunction rule) {
        schemas_.emplace(std::pair(domain, name), schema(name, domain, std::move(rule)));
    }

    static std::vector<std::string> words(std::string_view text) {
        std::vector<std::string> found;
        while (!text.empty()) {
            const auto length = std::min(text.find(' '), text.size());
            found.emplace_back(text.substr(0, length));
            text.remove_prefix(std::min(length + 1, text.size()));
        }
        return found;
    }

    void add(const shape_rule& rule, const std::string& domain) {
        const auto outputs = words(rule.outputs);
        for (const auto& name : words(rule.names))
            add(name, domain, [outputs](onnx::InferenceContext& c) {
                for (std::size_t k = 0; k < outputs.size() && k < c.getNumOutputs(); ++k)
                    follow(c, k, outputs[k]);
            });
    }

    static void follow(onnx::InferenceContext& c, std::size_t output, const std::string& word) {
        if (word == "?") return;
        const bool plain = word[0] >= '0' && word[0] <= '9';
        const auto source = static_cast<std::size_t>(word[plain ? 0 : 1] - '0');
        const auto* type = tensor_type(c, source);
        if (type == nullptr) return;
        auto* made = c.getOutputType(output)->mutable_tensor_type();
        if (word[0] == 'v') {
            const auto* like = tensor_type(c, static_cast<std::size_t>(word[3] - '0'));
            if (like == nullptr) return;
            made->set_elem_type(like->tensor_type().elem_type());
            if (const auto held = held_integers(c, source)) set_shape(*made, *held);
            return;
        }
        made->set_elem_type(word[0] == 'b' ? onnx::TensorProto::BOOL : type->tensor_type().elem_type());
        if (!type->tensor_type().has_shape()) return;
        const auto& shape = type->tensor_type().shape();
        if (word[0] != 'c')
            *made->mutable_shape() = shape;
        else if (shape.dim_size() > 0)
            *made->mutable_shape()->add_dim() = shape.dim(0);
    }

    static void fused_matmul(onnx::InferenceContext& c) {
        auto& made = typed_like_first(c);
        auto a = extents(c, 0), b = extents(c, 1);
        if (!a || !b || a->size() < 2 || b->size() < 2) return;
        if (flag(c, "transBatchA", false) || flag(c, "transBatchB", false)) return;
        if (flag(c, "transA", false)) std::swap(a->back(), (*a)[a->size() - 2]);
        if (flag(c, "transB", false)) std::swap(b->back(), (*b)[b->size() - 2]);
        std::vector<std::int64_t> shape(std::max(a->size(), b->size()), 1);
        for (const auto* side : {&*a, &*b})
            for (std::size_t i = 0; i + 2 < side->size(); ++i)
                if ((*side)[i] != 1) shape[shape.size() - side->size() + i] = (*side)[i];
        shape[shape.size() - 2] = (*a)[a->size() - 2];
        shape.back() = b->back();
        set_shape(made, shape);
    }

    /// With the statistics of each row as outputs 1 and 2.
    static void normalisation(onnx::InferenceContext& c) {
        auto& made = typed_like_first(c);
        auto shape = extents(c, 0);
        if (!shape) return;
        set_shape(made, *shape);
        const auto rank = static_cast<std::int64_t>(shape->size());
        auto axis = onnx::getAttribute(c, "axis", std::int64_t{-1});
        if (axis < 0) axis += rank;
        for (auto i = std::max<std::int64_t>(axis, 0); i < rank; ++i)
            (*shape)[static_cast<std::size_t>(i)] = 1;
        for (std::size_t k = 1; k < 3 && k < c.getNumOutputs(); ++k) {
            auto* type = c.getOutputType(k)->mutable_tensor_type();
            type->set_elem_type(onnx::TensorProto::FLOAT);
            set_shape(*type, *shape);
        }
    }

    static void reduction(onnx::InferenceContext& c) {
        auto& made = typed_like_first(c);
        const auto shape = extents(c, 0);
        if (!shape) return;
        std::vector<std::int64_t> axes;
        if (c.getNumInputs() > 1 && c.getInputType(1) != nullptr) {
            const auto held = held_integers(c, 1);
            if (!held) return;
            axes = *held;
        }
        const auto rank = static_cast<std::int64_t>(shape->size());
        std::vector<bool> reduced(shape->size(), axes.empty() && !flag(c, "noop_with_empty_axes", false));
        for (auto axis : axes) {
            if (axis < 0) axis += rank;
            if (axis < 0 || axis >= rank) return;
            reduced[static_cast<std::size_t>(axis)] = true;
        }
        std::vector<std::int64_t> kept;
        for (std::size_t i = 0; i < shape->size(); ++i) {
            if (!reduced[i])
                kept.push_back((*shape)[i]);
            else if (flag(c, "keepdims", true))
                kept.push_back(1);
        }
        set_shape(made, kept);
    }

    static void split(onnx::InferenceContext& c) {
        const auto count = c.getNumOutputs();
        for (std::size_t k = 0; k < count; ++k) onnx::propagateElemTypeFromInputToOutput(c, 0, k);
        auto shape = extents(c, 0);
        auto axis = onnx::getAttribute(c, "axis", std::int64_t{0});
        if (!shape || count == 0) return;
        if (axis < 0) axis += static_cast<std::int64_t>(shape->size());
        if (axis < 0 || axis >= static_cast<std::int64_t>(shape->size())) return;
        const auto parts = static_cast<std::int64_t>(count);
        auto& extent = (*shape)[static_cast<std::size_t>(axis)];
        const auto each = extent / parts + (extent % parts != 0);
        std::vector<std::int64_t> sizes(count, each);
        sizes.back() = extent - each * (parts - 1);
        if (c.getNumInputs() > 1 && c.getInputType(1) != nullptr) {
            const auto held = held_integers(c, 1);
            if (!held || held->size() != count) return;
            sizes = *held;
        }
        for (std::size_t k = 0; k < count; ++k) {
            extent = sizes[k];
            set_shape(*c.getOutputType(k)->mutable_tensor_type(), *shape);
        }
    }

    std::map<std::pair<std::string, std::string>, onnx::OpSchema> schemas_; ///< by domain and name
    std::map<std::string, std::map<int, onnx::OpSchema>>
        newer_; ///< by name and first version; of ONNX's own ops
};

} // namespace echo::format
