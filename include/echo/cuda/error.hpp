// SPDX-License-Identifier: BSL-1.0
/// @file
/// What goes wrong on a device, as one exception type: what was asked, the runtime's code, what it means and
/// what to do. Needs no CUDA header; check.hpp turns return codes into these.
#pragma once

#include <echo/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace echo::cuda {

/// What a program can react to. Codes of the runtime that are not named here are `other`.
enum class fault : std::uint8_t {
    no_device,          ///< no GPU, or none that this process may see
    no_driver,          ///< no driver is installed
    driver_too_old,     ///< the driver is older than the runtime
    out_of_memory,      ///< thrown as `out_of_memory`
    wrong_architecture, ///< the program has no code for this card
    misaligned,         ///< a kernel accessed an address that is no multiple of its type's size
    device_lost,        ///< an earlier kernel failed; nothing works in this process any more
    invalid,            ///< the runtime refused an argument
    capture,            ///< not allowed while a graph is captured
    other,
};

/// The meaning of a `cudaError_t`. cudaErrorInsufficientDriver is `driver_too_old` here; whether there is a
/// driver at all only the driver's version tells (check.hpp).
constexpr fault fault_of(int code) noexcept {
    switch (code) {
    case 100:
        return fault::no_device; // cudaErrorNoDevice
    case 34:                     // cudaErrorStubLibrary
        return fault::no_driver;
    case 35:  // cudaErrorInsufficientDriver
    case 36:  // cudaErrorCallRequiresNewerDriver
    case 222: // cudaErrorUnsupportedPtxVersion
    case 803: // cudaErrorSystemDriverMismatch
        return fault::driver_too_old;
    case 2:
        return fault::out_of_memory; // cudaErrorMemoryAllocation
    case 98:                         // cudaErrorInvalidDeviceFunction
    case 200:                        // cudaErrorInvalidKernelImage
    case 209:                        // cudaErrorNoKernelImageForDevice
        return fault::wrong_architecture;
    case 716:
        return fault::misaligned; // cudaErrorMisalignedAddress
    case 214:                     // cudaErrorECCUncorrectable
    case 220:                     // cudaErrorNvlinkUncorrectable
    case 226:                     // cudaErrorContained
    case 700:                     // cudaErrorIllegalAddress
    case 702:                     // cudaErrorLaunchTimeout
    case 709:                     // cudaErrorContextIsDestroyed
    case 710:                     // cudaErrorAssert
    case 714:                     // cudaErrorHardwareStackError
    case 715:                     // cudaErrorIllegalInstruction
    case 717:                     // cudaErrorInvalidAddressSpace
    case 718:                     // cudaErrorInvalidPc
    case 719:                     // cudaErrorLaunchFailure
    case 721:                     // cudaErrorTensorMemoryLeak
        return fault::device_lost;
    case 1:   // cudaErrorInvalidValue
    case 9:   // cudaErrorInvalidConfiguration
    case 17:  // cudaErrorInvalidDevicePointer
    case 101: // cudaErrorInvalidDevice
    case 400: // cudaErrorInvalidResourceHandle
    case 701: // cudaErrorLaunchOutOfResources
        return fault::invalid;
    default:
        return code >= 900 && code <= 908 ? fault::capture : fault::other;
    }
}

/// Whether every later call of the process fails too: its context is gone, and only a new process gets
/// another.
constexpr bool sticky(fault f) noexcept { return f == fault::device_lost || f == fault::misaligned; }

/// What can be done about it, in a few words.
constexpr std::string_view advice_for(fault f) noexcept {
    switch (f) {
    case fault::no_device:
        return "run where nvidia-smi lists a GPU, and see CUDA_VISIBLE_DEVICES";
    case fault::no_driver:
        return "install NVIDIA's driver, or run where nvidia-smi lists a GPU";
    case fault::driver_too_old:
        return "update the driver, or build with the toolkit that it supports";
    case fault::out_of_memory:
        return "plan for a smaller budget, or free memory";
    case fault::wrong_architecture:
        return "build for the card: nvcc -arch=sm_XY, or keep PTX in the program";
    case fault::misaligned:
        return "a pointer is no multiple of its type's size; end the process, and look with "
               "compute-sanitizer";
    case fault::device_lost:
        return "an earlier kernel failed: end the process, and look with compute-sanitizer";
    case fault::invalid:
        return "see the arguments of the call";
    case fault::capture:
        return "call it before the capture, or on a stream that takes no part in it";
    case fault::other:
        break;
    }
    return {};
}

/// Thrown by every checked call. `what()` is one line: `OPERATION: PROBLEM; ADVICE`.
class error : public echo::error {
public:
    /// A failed call with an advice of its own.
    error(fault kind, int code, std::string_view operation, std::string_view problem, std::string_view advice)
        : echo::error({}, operation, problem, advice), kind_(kind), code_(code) {}
    /// A failed call with the advice that goes with its kind.
    error(fault kind, int code, std::string_view operation, std::string_view problem)
        : error(kind, code, operation, problem, advice_for(kind)) {}

    /// What kind of failure it is.
    fault kind() const noexcept { return kind_; }
    /// The runtime's `cudaError_t`; 0 where the runtime was not asked.
    int code() const noexcept { return code_; }
    /// What was asked for, such as the call.
    const std::string& operation() const noexcept { return key(); }

private:
    fault kind_;
    int code_;
};

/// What is known of the memory where an allocation failed. All in bytes.
struct memory_shortage {
    std::uint64_t asked = 0;              ///< What the call asked for.
    std::optional<std::uint64_t> free{};  ///< on the device, when it was asked afterwards
    std::optional<std::uint64_t> total{}; ///< of the device
    std::string arena{};                  ///< which arena was to be allocated; empty if none
    friend bool operator==(const memory_shortage&, const memory_shortage&) = default;
};

/// Not enough memory: what was asked, what is free and for which arena.
class out_of_memory : public error {
public:
    /// A failed allocation with what is known of the memory.
    out_of_memory(int code, std::string_view operation, memory_shortage shortage)
        : error(fault::out_of_memory, code, operation, words(shortage)), shortage_(std::move(shortage)) {}

    /// What was asked, and what is free.
    const memory_shortage& shortage() const noexcept { return shortage_; }

private:
    static std::string words(const memory_shortage& s) {
        std::string out = std::to_string(s.asked) + " bytes asked";
        if (!s.arena.empty()) out += " for " + s.arena;
        if (s.free) out += ", " + std::to_string(*s.free) + " free";
        if (s.total) out += " of " + std::to_string(*s.total);
        return out;
    }

    memory_shortage shortage_;
};

} // namespace echo::cuda
