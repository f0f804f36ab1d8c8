// SPDX-License-Identifier: BSL-1.0
/// @file
/// The rows behind vocabulary/aten.hpp: ATen's ops by what they share. Facts come from ops/ where the op
/// stands there. The gradient reads follow PyTorch's own derivative formulas; ops without a statement keep
/// the pessimistic "everything".
#pragma once

#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/attention.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/convolution.hpp>
#include <echo/ops/embedding.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/matmul.hpp>
#include <echo/ops/movement.hpp>
#include <echo/ops/softmax.hpp>
#include <echo/vocabulary/row_facts.hpp>
#include <echo/vocabulary/vocabulary.hpp>

namespace echo::detail {

inline constexpr vocabulary_row aten_rows[] = {
    // Compute-heavy: matrix products, convolutions, attention, recurrent layers.
    {heavy_facts_of<batch_dot_op>(), "mm bmm matmul dot mv vdot"},
    {heavy_facts_of<add_matmul_op>(), "addmm baddbmm addbmm addmv"},
    {heavy_facts_of<fully_connected_op>(), "linear"},
    {heavy_facts(),
     "addr linear_backward mkldnn_linear mkldnn_linear_backward _addmm_activation _int_mm _grouped_mm "
     "_scaled_grouped_mm _scaled_mm _scaled_mm_v2 _weight_int4pack_mm _weight_int8pack_mm "
     "_weight_int4pack_mm_for_cpu _foreach_mm _trilinear bilinear einsum chain_matmul "
     "linalg_multi_dot tensordot outer ger inner kron"},
    {heavy_facts(&convolution_flops_if_plain, facts_of<convolution_op<>>().gradient_reads),
     "convolution _convolution convolution_overrideable conv1d conv2d conv3d cudnn_convolution "
     "mkldnn_convolution miopen_convolution miopen_depthwise_convolution _conv_depthwise2d "
     "conv_depthwise3d _slow_conv2d_forward slow_conv3d slow_conv3d_forward slow_conv_dilated2d "
     "slow_conv_dilated3d thnn_conv2d"},
    {heavy_facts(nullptr, reads{.inputs = {0, 1}}),
     "conv_transpose1d conv_transpose2d conv_transpose3d cudnn_convolution_transpose "
     "miopen_convolution_transpose slow_conv_transpose2d slow_conv_transpose3d"},
    {heavy_facts(&convolution_gradient_flops_if_plain), "convolution_backward"},
    {heavy_facts(),
     "cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution_relu "
     "miopen_convolution_add_relu convolution_backward_overrideable _slow_conv2d_backward conv_tbc "
     "conv_tbc_backward mps_convolution_backward"},
    {heavy_facts(&flops_if_plain<attention_op>,
                 reads{.inputs = {0, 1, 2, 3}, .outputs = {0, 1}}), // input 3: the mask, if there is one
     "_scaled_dot_product_flash_attention_for_cpu"},
    {heavy_facts(&flops_if_plain<attention_gradient_op>),
     "_scaled_dot_product_flash_attention_for_cpu_backward"},
    {with(heavy_facts(&flops_if_plain<attention_op>), rerun_kind::seeded), // they may drop out
     "scaled_dot_product_attention _scaled_dot_product_flash_attention "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math "
     "_scaled_dot_product_attention_math_for_mps"},
    {with(heavy_facts(), rerun_kind::seeded),
     "_flash_attention_forward _efficient_attention_forward _cudnn_attention_forward "
     "_native_multi_head_attention _cudnn_rnn miopen_rnn mkldnn_rnn_layer lstm gru rnn_tanh rnn_relu "
     "_transformer_encoder_layer_fwd"},
    {with(heavy_facts(&flops_if_plain<attention_gradient_op>), rerun_kind::seeded),
     "_scaled_dot_product_flash_attention_backward"},
    {with(heavy_facts(), rerun_kind::seeded),
     "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward "
     "_scaled_dot_product_fused_attention_overrideable_backward _flash_attention_backward "
     "_efficient_attention_backward _cudnn_attention_backward _cudnn_rnn_backward miopen_rnn_backward"},
    {heavy_facts(),
     "mkldnn_rnn_layer_backward lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell cdist _cdist_forward "
     "_cdist_backward _euclidean_dist pdist _pdist_forward _pdist_backward cholesky cholesky_inverse "
     "cholesky_solve _cholesky_solve_helper linalg_cholesky_ex linalg_det _linalg_det linalg_eig "
     "linalg_eigvals _linalg_eigvals linalg_eigh _linalg_eigh linalg_householder_product linalg_inv "
     "linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex "
     "linalg_lu_solve linalg_lstsq linalg_matrix_exp linalg_pinv linalg_qr linalg_slogdet "
     "_linalg_slogdet linalg_solve_ex _linalg_solve_ex linalg_solve_triangular linalg_svd _linalg_svd "
     "linalg_solve linalg_cholesky linalg_eigvalsh linalg_svdvals linalg_matrix_power linalg_norm "
     "linalg_vecdot linalg_matmul inverse qr det logdet slogdet matrix_exp matrix_power orgqr "
     "pinverse lu_solve matmul_backward lu_unpack ormqr svd triangular_solve _fft_c2c _fft_c2r "
     "_fft_r2c fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_fftn fft_ifftn stft istft"},

    // Views, by the aliases in their schemas.
    {with_views({{0, 0}}),
     "view reshape _reshape_alias view_as view_as_real view_as_complex t transpose swapaxes swapdims "
     "adjoint mT mH numpy_T permute movedim moveaxis expand expand_as broadcast_to slice narrow "
     "select unsqueeze squeeze flatten unflatten diagonal unfold as_strided detach alias conj _conj "
     "_neg_view positive real imag contiguous to lift_fresh pin_memory resolve_conj resolve_neg "
     "reshape_as ravel values indices _values _indices _nested_view_from_buffer"},
    {with_views({{0, 0}, {1, 0}, {2, 0}, {3, 0}}), // more outputs lie there too: four are what facts can say
     "split split_with_sizes chunk unbind tensor_split hsplit vsplit dsplit"},

    // Element-wise, in ops/.
    {elementwise_facts<add_op>(), "add sub subtract rsub"},
    {elementwise_facts<multiply_op>(), "mul multiply"},
    {elementwise_facts<divide_op>(), "div divide true_divide"},
    {elementwise_facts<negate_op>(), "neg negative"},
    {elementwise_facts<reciprocal_op>(), "reciprocal"},
    {elementwise_facts<sqrt_op>(), "sqrt"},
    {elementwise_facts<rsqrt_op>(), "rsqrt"},
    {elementwise_facts<exp_op>(), "exp"},
    {elementwise_facts<pow_op>(), "pow float_power"},
    {elementwise_facts<tanh_op>(), "tanh"},
    {elementwise_facts<sigmoid_op>(), "sigmoid"},
    {elementwise_facts<relu_op>(), "relu"},
    {elementwise_facts<gelu_op>(), "gelu"},
    {elementwise_facts<silu_op>(), "silu"},
    {elementwise_facts<softplus_op>(), "softplus"},
    {elementwise_facts<hard_swish_op>(), "hardswish"},
    {elementwise_facts<relu6_op>(), "relu6 hardtanh"},
    {elementwise_facts<abs_op>(), "abs absolute"},
    {elementwise_facts<square_op>(), "square"},
    {elementwise_facts<log_op>(), "log"},
    {elementwise_facts<sin_op>(), "sin"},
    {elementwise_facts<cos_op>(), "cos"},
    {elementwise_facts<erf_op>(), "erf"},
    {elementwise_facts<maximum_op>(), "maximum fmax max.other"},
    {elementwise_facts<minimum_op>(), "minimum fmin min.other"},
    {with_one_bit(light_facts(reads_input), {0}), "where"},

    // Element-wise, by what their gradients read.
    {light_facts(reads_output, over_first), "exp2 expm1 tan"},
    {light_facts(reads_input, over_first),
     "log2 log10 log1p sinh cosh asin acos atan asinh acosh atanh arcsin arccos arctan arcsinh "
     "arccosh arctanh erfc erfinv lgamma digamma clamp clamp_min clamp_max clip leaky_relu elu celu "
     "selu mish log_sigmoid hardsigmoid hardshrink softshrink threshold logit nan_to_num sinc i0 "
     "special_entr special_ndtr polygamma mvlgamma"},
    {light_facts(reads{.inputs = {0}, .outputs = {1}}), "log_sigmoid_forward"},
    {light_facts(reads{.inputs = {0}, .outputs = {0}}),
     "angle sgn special_erfcx special_i0e special_i1 special_i1e special_log_ndtr special_ndtri"},
    {light_facts(reads_inputs, over_either),
     "atan2 arctan2 lerp addcmul addcdiv xlogy special_xlog1py special_zeta fmod remainder prelu "
     "_prelu_kernel complex polar igamma igammac"},
    {light_facts(reads{.inputs = positions::all(), .outputs = {0}}),
     "logaddexp logaddexp2 hypot dist copysign ldexp nextafter"},
    {light_facts(reads_nothing, over_first),
     "ceil floor round trunc fix sign frac deg2rad rad2deg bitwise_not clone fill zero conj_physical "
     "_conj_physical heaviside"},
    {light_facts(reads_nothing), // their outputs are usually narrower than their inputs
     "eq ne lt le gt ge greater greater_equal less less_equal not_equal isnan isinf isfinite isneginf "
     "isposinf isreal isclose signbit logical_and logical_or logical_xor logical_not bitwise_and "
     "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ "
     "__rshift__ floor_divide gcd lcm all any argmax argmin equal isin bucketize searchsorted nonzero "
     "nonzero_static count_nonzero bincount histc argsort unique_dim unique_consecutive _unique "
     "_unique2 allclose is_nonzero"},
    {with_one_bit(light_facts(reads{.inputs = {1}}, over_first), {1}), "masked_fill"},

    // Backward ops of element-wise ones. They have no gradient here, so no reads are claimed.
    {light_facts(reads::everything(), over_first),
     "tanh_backward sigmoid_backward gelu_backward silu_backward threshold_backward "
     "leaky_relu_backward elu_backward hardswish_backward hardsigmoid_backward hardtanh_backward "
     "softplus_backward mish_backward log_sigmoid_backward logit_backward hardshrink_backward "
     "softshrink_backward glu_jvp rrelu_with_noise_backward _prelu_kernel_backward _masked_scale"},
    {with_one_bit(light_facts(reads::everything(), over_first), {1}), "native_dropout_backward"},
    {light_facts(), "glu_backward"},

    // Softmax, normalisation.
    {light_facts(facts_of<softmax_op<>>().gradient_reads, over_first), "_softmax softmax _safe_softmax"},
    {light_facts(facts_of<log_softmax_op<>>().gradient_reads, over_first), "_log_softmax log_softmax"},
    {light_facts(reads::everything(), over_first), "_softmax_backward_data _log_softmax_backward_data"},
    {light_facts(reads{.inputs = {0, 1, 2}, .outputs = {1, 2}}),
     "native_layer_norm"}, // takes the offset along
    {light_facts(reads{.inputs = {0, 1}, .outputs = {1, 2}}), "native_group_norm"},
    {light_facts(reads{.inputs = {0, 1}, .outputs = {1}}), "_fused_rms_norm"},
    {light_facts(reads{.inputs = {0, 1}, .outputs = {1, 2}}), "_native_batch_norm_legit.no_stats"},
    {light_facts(reads{.inputs = {0, 1, 3, 4}, .outputs = {1, 2}}), // running statistics: in evaluation mode
     "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training"},
    {light_facts(), "_batch_norm_no_update _batch_norm_with_update_functional layer_norm group_norm rms_norm "
                    "_weight_norm _weight_norm_interface"},
    {with(light_facts(), rerun_kind::never), // they update the running statistics
     "native_batch_norm _native_batch_norm_legit _batch_norm_with_update cudnn_batch_norm "
     "miopen_batch_norm batch_norm _batch_norm_impl_index instance_norm batch_norm_update_stats "
     "batch_norm_gather_stats batch_norm_gather_stats_with_counts"},
    {light_facts(),
     "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward "
     "batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward "
     "_fused_rms_norm_backward _weight_norm_interface_backward batch_norm_stats batch_norm_elemt "
     "batch_norm_backward_reduce batch_norm_backward_elemt"},

    // Random: the same seed gives the same numbers.
    {with(light_facts(reads{.outputs = {1}}, over_first), rerun_kind::seeded),
     "native_dropout _fused_dropout"},
    {with(light_facts(reads_nothing), rerun_kind::seeded),
     "bernoulli rand rand_like randn randn_like randint randint_like randperm normal "
     "normal_functional uniform exponential geometric cauchy log_normal random multinomial poisson"},
    {with(light_facts(), rerun_kind::seeded),
     "dropout alpha_dropout feature_dropout feature_alpha_dropout _standard_gamma binomial "
     "_sample_dirichlet rrelu_with_noise_functional rrelu fractional_max_pool2d fractional_max_pool3d"},
    {with(light_facts(), rerun_kind::never), "rrelu_with_noise"},

    // Reductions and scans.
    {light_facts(reads_nothing), "sum mean  trace cumsum sum_to_size"},
    {light_facts(reads{.inputs = {0}, .outputs = {0}}),
     "amax amin max min median nanmedian logsumexp linalg_vector_norm norm prod cumprod logcumsumexp "
     "renorm linalg_matrix_norm frobenius_norm nuclear_norm"},
    {light_facts(reads{.outputs = {1}}),
     "max.dim min.dim median.dim nanmedian.dim mode kthvalue topk sort sort.stable"},
    {light_facts(reads{.inputs = {0}, .outputs = {0, 1}}), "aminmax std_mean"},
    {light_facts(reads{.inputs = {0}, .outputs = {1}}), "cummax cummin"},
    {light_facts(reads_input), "var nansum"},
    {light_facts(reads{.inputs = {0}, .outputs = {1}}), "var_mean"},
    {light_facts(reads{.inputs = {0}, .outputs = {0}}), "std"},

    // Losses.
    {light_facts(reads{.inputs = {0, 1, 2}, .outputs = {1}}), "nll_loss_forward nll_loss2d_forward"},
    {light_facts(reads_inputs), "mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy "
                                "binary_cross_entropy_with_logits kl_div l1_loss"},
    {light_facts(),
     "nll_loss nll_loss2d nll_loss_nd cross_entropy_loss ctc_loss _ctc_loss _cudnn_ctc_loss "
     "_use_cudnn_ctc_loss cosine_similarity cosine_embedding_loss hinge_embedding_loss "
     "margin_ranking_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss_forward "
     "poisson_nll_loss pairwise_distance nll_loss_backward nll_loss2d_backward mse_loss_backward "
     "smooth_l1_loss_backward huber_loss_backward soft_margin_loss_backward "
     "binary_cross_entropy_backward multi_margin_loss_backward multilabel_margin_loss_backward "
     "_ctc_loss_backward"},

    // Rows, indices.
    {light_facts(facts_of<embedding_op>().gradient_reads), "embedding"},
    {light_facts(), "_embedding_bag _embedding_bag_forward_only embedding_bag embedding_dense_backward "
                    "embedding_backward embedding_sparse_backward _embedding_bag_backward "
                    "_embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward"},
    {light_facts(reads{.inputs = {0, 1}}), "gather take masked_select"}, // of input 0 the shape
    {light_facts(reads{.inputs = {1}}), "index_select scatter.value index_fill.int_Scalar index_fill"},
    {light_facts(reads{.inputs = {1, 2, 3, 4, 5, 6, 7, 8, 9}}), // the indices, not the table
     "index _unsafe_index"},
    {light_facts(reads_inputs),
     "scatter scatter_add index_add index_copy index_put _unsafe_index_put masked_scatter "
     "_unsafe_masked_index_put_accumulate _index_put_impl put"},
    {light_facts(),
     "scatter_reduce index_reduce segment_reduce _segment_reduce_backward masked_scatter_backward "
     "_unsafe_masked_index take_along_dim index_select_backward gather_backward one_hot"},

    // Movement: copies, whose gradients read nothing.
    {facts_of<concat_op>(),
     "cat concat concatenate stack hstack vstack dstack column_stack copy _to_copy _unsafe_view lift "
     "lift_fresh_copy constant_pad_nd pad flip fliplr flipud roll rot90 tile repeat diag diag_embed "
     "tril triu block_diag pixel_shuffle pixel_unshuffle channel_shuffle meshgrid broadcast_tensors "
     "cartesian_prod combinations slice_scatter select_scatter diagonal_scatter as_strided_scatter "
     "repeat_interleave.self_int im2col col2im unfold_copy unsafe_chunk unsafe_split "
     "unsafe_split_with_sizes alias_copy as_strided_copy detach_copy diagonal_copy expand_copy "
     "narrow_copy permute_copy _reshape_copy select_copy slice_copy split_copy split_with_sizes_copy "
     "squeeze_copy t_copy transpose_copy unbind_copy unsqueeze_copy view_copy view_as_real_copy "
     "view_as_complex_copy _pin_memory type_as _cast_Float _cast_Half _cast_Double _cast_Int "
     "_cast_Long row_stack diagflat _list_to_tensor pad_sequence _chunk_cat"},
    {light_facts(reads_nothing),
     "slice_backward select_backward diagonal_backward unfold_backward trace_backward "
     "value_selecting_reduction_backward reflection_pad1d_backward reflection_pad2d_backward "
     "reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward "
     "replication_pad3d_backward"},
    {light_facts(), "repeat_interleave _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward "
                    "_pack_padded_sequence resize resize_as"},

    // New tensors.
    {light_facts(reads_nothing),
     "empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like "
     "new_zeros ones ones_like new_ones full full_like new_full scalar_tensor arange range linspace "
     "logspace eye tril_indices triu_indices hann_window hamming_window blackman_window "
     "bartlett_window kaiser_window _efficientzerotensor tensor vander"},
    {light_facts(reads_nothing),
     "sym_size sym_numel sym_stride sym_storage_offset sym_is_contiguous size stride numel dim "
     "storage_offset is_pinned is_contiguous is_same_size is_complex is_floating_point result_type "
     "_local_scalar_dense item"},

    // Pooling, sampling.
    {light_facts(reads{.inputs = {0}, .outputs = {1}}),
     "max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices adaptive_max_pool1d "
     "adaptive_max_pool2d adaptive_max_pool3d"},
    {light_facts(reads{.inputs = {0}, .outputs = {0}}), "max_pool1d max_pool2d max_pool3d mkldnn_max_pool2d"},
    {light_facts(reads_input), // for its shape
     "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "_adaptive_avg_pool2d _adaptive_avg_pool3d reflection_pad1d reflection_pad2d reflection_pad3d "
     "replication_pad1d replication_pad2d replication_pad3d"},
    {light_facts(reads_nothing),
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
     "upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
     "_upsample_lanczos2d_aa affine_grid_generator"},
    {light_facts(),
     "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward "
     "adaptive_max_pool3d_backward max_pool2d_backward avg_pool2d_backward avg_pool3d_backward "
     "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward upsample_nearest1d_backward "
     "upsample_nearest2d_backward upsample_nearest3d_backward _upsample_nearest_exact1d_backward "
     "_upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
     "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward "
     "upsample_bicubic2d_backward _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward "
     "_upsample_lanczos2d_aa_backward max_unpool2d max_unpool3d grid_sampler grid_sampler_2d "
     "grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward "
     "affine_grid_generator_backward fractional_max_pool2d_backward fractional_max_pool3d_backward"},
    {light_facts(),
     "glu _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward "
     "_thnn_fused_gru_cell _thnn_fused_gru_cell_backward histogram cov corrcoef diff "
     "cumulative_trapezoid quantile nanquantile nanmean msort argwhere frexp modf _aminmax "
     "_masked_softmax _masked_softmax_backward cumprod_backward masked_select_backward linalg_cross "
     "cross fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask "
     "fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine_cachemask_backward "
     "fake_quantize_per_channel_affine_cachemask_backward quantize_per_tensor quantize_per_channel "
     "dequantize"},

    // Optimizers. Their in-place forms end in an underscore.
    {light_facts(),
     "_foreach_abs _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_ceil _foreach_clamp_max "
     "_foreach_clamp_min _foreach_copy _foreach_div _foreach_exp _foreach_expm1 _foreach_floor "
     "_foreach_lerp _foreach_log _foreach_log1p _foreach_max _foreach_maximum _foreach_minimum "
     "_foreach_mul _foreach_neg _foreach_norm _foreach_pow _foreach_reciprocal _foreach_round "
     "_foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sqrt _foreach_sub _foreach_tanh "
     "_foreach_trunc _foreach_zero _foreach_acos _foreach_asin _foreach_atan _foreach_clone "
     "_foreach_cos _foreach_cosh _foreach_erf _foreach_erfc _foreach_frac _foreach_lgamma "
     "_foreach_log10 _foreach_log2 _foreach_powsum _foreach_sin _foreach_sinh _foreach_tan "
     "_fused_adam _fused_adamw _fused_sgd _fused_adagrad _amp_foreach_non_finite_check_and_unscale "
     "_amp_update_scale"},

    // Side effects.
    {with(light_facts(reads_nothing), rerun_kind::never),
     "_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _print "
     "_make_dep_token _functional_sym_constrain_range _functional_sym_constrain_range_for_size "
     "sym_constrain_range sym_constrain_range_for_size record_stream set_ embedding_renorm_ "
     "_resize_output"},
};

} // namespace echo::detail
