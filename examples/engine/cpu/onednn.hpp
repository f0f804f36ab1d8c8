// SPDX-License-Identifier: BSL-1.0
/// @file
/// oneDNN primitives as kernels: made once per geometry and number of threads, all their memory in the caller's
/// scratch.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/context.hpp"

#include <dnnl.hpp>

#include <functional>
#include <initializer_list>
#include <unordered_map>

namespace engine::cpu::onednn {

using desc = dnnl::memory::desc;
using dims = dnnl::memory::dims;
using tag = dnnl::memory::format_tag;

inline desc f32(const dims& extents, tag order) { return {extents, dnnl::memory::data_type::f32, order}; }
/// A tensor [n, c, h, w], stored so or with its channels last.
inline desc image(const dims& extents, bool channels_last) {
    return f32(extents, channels_last ? tag::nhwc : tag::nchw);
}
/// n, c, h, w of an image.
dims image_dims(const echo::shape& shape, bool channels_last);

/// Primitives are asked for with these: scratch memory is the caller's.
const dnnl::primitive_attr& attributes();
/// The processor; one for each thread of the host.
dnnl::engine& processor();

/// One primitive. Tensors that it wants in another order are reordered on the way, in scratch.
class kernel {
public:
    struct argument {
        int name;   ///< DNNL_ARG_..
        desc given; ///< how the tensor lies
        desc taken; ///< how the primitive takes it
        bool result = false;
    };

    kernel(dnnl::primitive run, const desc& scratchpad, std::initializer_list<argument> arguments);

    /// Bytes of scratch it needs.
    std::uint64_t scratch() const noexcept { return bytes_; }
    /// `data` in the order of the arguments.
    void operator()(std::initializer_list<const void*> data, std::span<std::byte> scratch);

private:
    struct placed {
        dnnl::memory given, taken;
        dnnl::reorder reorder{};
        bool reordered = false, result = false;
        std::uint64_t at = 0; ///< of `taken`, in scratch
        std::unordered_map<int, dnnl::memory> reorder_arguments{};
    };
    std::uint64_t take(std::uint64_t bytes);

    dnnl::primitive run_;
    std::vector<placed> placed_;
    dnnl::memory scratchpad_;
    std::unordered_map<int, dnnl::memory> arguments_;
    std::uint64_t bytes_ = 0, scratchpad_at_ = 0;
};

/// What tells kernels apart, the number of threads left out.
using geometry = std::vector<std::int64_t>;

/// The kernel of a geometry, made at the first call. Errors: `echo::error` where oneDNN has none.
kernel& kernel_of(std::string_view op, geometry key, const context& on, const std::function<kernel()>& make);

} // namespace engine::cpu::onednn
