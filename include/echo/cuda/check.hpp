// SPDX-License-Identifier: BSL-1.0
/// @file
/// Checked calls: every return code of the CUDA runtime becomes a typed error, with what was asked and what
/// to do.
#pragma once

#include <echo/config.hpp>

#if !__has_include(<cuda_runtime_api.h>)
#error                                                                                                       \
    "echo/cuda/check.hpp needs the CUDA runtime's headers: put the toolkit's include folder on the include path"
#endif

#include <echo/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace echo::cuda {

/// The architectures that a program holds code for, as nvcc writes them: 900 is sm_90. Empty where another
/// compiler is at work, which cannot know. A type, so that units built for different cards do not share one
/// `check_launch`.
template <int... Values>
struct architectures {};

#if defined(__CUDA_ARCH_LIST__)
using built_architectures = architectures<__CUDA_ARCH_LIST__>;
#else
using built_architectures = architectures<>; ///< Those of the unit that is being compiled.
#endif

namespace detail {

/// 900 as "sm_90".
inline std::string architecture_name(int value) { return "sm_" + std::to_string(value / 10); }

inline std::string card_name() {
    int device = 0;
    cudaDeviceProp card{};
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&card, device) != cudaSuccess)
        return "the card";
    return std::string(card.name) + " (" + architecture_name(100 * card.major + 10 * card.minor) + ")";
}

/// The problem in words: the runtime's own, its name and its number.
inline std::string runtime_words(cudaError_t code) {
    return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ", " +
           std::to_string(static_cast<int>(code)) + ")";
}

inline std::string version_words(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] inline void throw_driver_error(cudaError_t code, std::string_view operation) {
    int driver = 0, runtime = 0;
    if (code == cudaErrorStubLibrary || cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        throw error(fault::no_driver, code, operation, "no CUDA device: no driver is installed");
    std::string words = runtime_words(code) + ": the driver supports CUDA " + version_words(driver);
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        words += ", the program needs " + version_words(runtime);
    throw error(fault::driver_too_old, code, operation, words);
}

[[noreturn]] inline void throw_architecture_error(cudaError_t code, std::string_view operation,
                                                  std::initializer_list<int> built) {
    std::string words = runtime_words(code) + ": " + card_name() + " finds no code for it";
    const char* separator = "; the program was built for ";
    for (const int value : built) {
        words += separator + architecture_name(value);
        separator = ", ";
    }
    throw error(fault::wrong_architecture, code, operation, words);
}

[[noreturn]] inline void throw_error(cudaError_t code, std::string_view operation,
                                     std::initializer_list<int> built) {
    const fault kind = fault_of(code);
    switch (kind) {
    case fault::no_device:
        throw error(kind, code, operation, "no CUDA device (cudaErrorNoDevice, 100)");
    case fault::no_driver:
    case fault::driver_too_old:
        throw_driver_error(code, operation);
    case fault::wrong_architecture:
        throw_architecture_error(code, operation, built);
    default:
        throw error(kind, code, operation, runtime_words(code));
    }
}

template <int... Values>
[[noreturn]] void throw_kernel_error(cudaError_t code, std::string_view operation, architectures<Values...>) {
    throw_error(code, operation, {Values...});
}

} // namespace detail

/// Throws `error` unless the call succeeded; `operation` names the call. The runtime's last error is taken
/// back, so that nobody finds it a second time; a sticky one stays, as nothing can take it back.
inline void check(cudaError_t code, std::string_view operation) {
    if (code == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    detail::throw_error(code, operation, {});
}

/// As `check`, for a call that was to allocate `bytes`: `out_of_memory` says them, and what the device has.
inline void check_allocation(cudaError_t code, std::string_view operation, std::uint64_t bytes) {
    if (fault_of(code) != fault::out_of_memory) return check(code, operation);
    static_cast<void>(cudaGetLastError());
    memory_shortage shortage{.asked = bytes};
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
        shortage.free = free;
        shortage.total = total;
    }
    throw out_of_memory(code, operation, std::move(shortage));
}

/// As `check`, for a call that needs the code of a kernel: where there is none for the card, it says for
/// which there is.
template <class Built = built_architectures>
void check_kernel(cudaError_t code, std::string_view operation) {
    if (code == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    detail::throw_kernel_error(code, operation, Built{});
}

/// Right behind a launch: throws if it was refused. An earlier call of the host's that failed unchecked shows
/// up here too. Faults while the kernel runs show up at a later call, as the runtime has them.
template <class Built = built_architectures>
void check_launch(std::string_view kernel) {
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) check_kernel<Built>(code, "kernel " + std::string(kernel));
}

} // namespace echo::cuda
