// SPDX-License-Identifier: BSL-1.0
/// @file
/// `layer_range`: a layer's name in the profiler's time line. Costs a test of a pointer where no profiler
/// listens, and nothing where NVTX 3 (a part of the CUDA toolkit, headers only) is not found.
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace echo::cuda {

/// Whether NVTX's headers were found when this unit was compiled.
#if __has_include(<nvtx3/nvToolsExt.h>)
inline constexpr bool nvtx_found = true;
#else
inline constexpr bool nvtx_found = false;
#endif

/// A range from the constructor to the destructor, in Echo's domain: on this thread, of what it queues.
/// Ranges nest. A template, so that units with and without NVTX can be linked together.
template <bool Found>
class basic_layer_range {
public:
    /// Marks nothing: the header of NVTX was not found.
    explicit basic_layer_range(const char*) noexcept {}
    basic_layer_range(const basic_layer_range&) = delete;
    basic_layer_range& operator=(const basic_layer_range&) = delete;
    ~basic_layer_range() {} // so that a variable of it is not unused
};

#if __has_include(<nvtx3/nvToolsExt.h>)

/// The range of a machine that has NVTX.
template <>
class basic_layer_range<true> {
public:
    /// Begins the range; `layer` is read before it returns.
    explicit basic_layer_range(const char* layer) noexcept {
        nvtxEventAttributes_t attributes{};
        attributes.version = NVTX_VERSION;
        attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = layer;
        nvtxDomainRangePushEx(domain(), &attributes);
    }
    basic_layer_range(const basic_layer_range&) = delete;
    basic_layer_range& operator=(const basic_layer_range&) = delete;
    ~basic_layer_range() { nvtxDomainRangePop(domain()); }

private:
    static nvtxDomainHandle_t domain() noexcept {
        static const nvtxDomainHandle_t echo = nvtxDomainCreateA("echo");
        return echo;
    }
};

#endif

/// A range in a profiler's picture, from here to the end of the scope.
using layer_range = basic_layer_range<nvtx_found>;

} // namespace echo::cuda
