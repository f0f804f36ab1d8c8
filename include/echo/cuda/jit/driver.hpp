// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CUDA driver's C interface, as far as generated kernels need it, loaded when it is first needed.
#pragma once

#include <echo/cuda/error.hpp>
#include <echo/cuda/jit/shared_library.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct CUstream_st;

namespace echo::cuda::jit {

struct opaque_context;
struct opaque_module;
struct opaque_function;

/// Calls of libcuda. Each throws `error`: `no_driver` where the library is not, `no_device` where it finds no card.
class driver {
public:
    using context = opaque_context*; ///< A context of the driver's.
    /// Loaded device code.
    using code_module = opaque_module*; // `module` at the start of a line is a directive
    using function = opaque_function*;  ///< A kernel in loaded code.

    /// The one of this process. Throws `error` (`no_driver`, `no_device`).
    static const driver& get() {
        static const driver one;
        return one;
    }

    /// The calling thread's context: the one that the runtime made for its current device. Throws `error` (`invalid`)
    /// where there is none yet.
    context current_context() const {
        context found = nullptr;
        check(context_current_(&found), "cuCtxGetCurrent");
        if (!found)
            throw error(fault::invalid, 0, "cuCtxGetCurrent", "the thread has no context",
                        "choose a device first: cudaSetDevice(0)");
        return found;
    }
    /// Of the calling thread's context, unique in this process: a later one at the same address has another
    /// (cuCtxGetId). Throws as `current_context`.
    std::uint64_t context_number() const {
        unsigned long long number = 0;
        check(context_id_(current_context(), &number), "cuCtxGetId");
        return number;
    }
    /// As nvcc numbers it: 90 of sm_90.
    int architecture() const {
        return 10 * attribute(75) + attribute(76);
    } // COMPUTE_CAPABILITY_MAJOR, _MINOR
    /// Of the current context's device.
    int multiprocessors() const { return attribute(16); } // MULTIPROCESSOR_COUNT

    /// Loads device code into the current context.
    code_module load(std::string_view code) const {
        code_module loaded = nullptr;
        const std::string terminated(code); // PTX is read up to a zero
        check(module_load_(&loaded, terminated.c_str()), "cuModuleLoadData");
        return loaded;
    }
    /// Takes the code out of its context.
    void unload(code_module m) const noexcept { module_unload_(m); }
    /// The kernel of that name. Errors: `error` if there is none.
    function find(code_module m, const char* name) const {
        function found = nullptr;
        check(module_function_(&found, m, name), "cuModuleGetFunction");
        return found;
    }
    /// Blocks of `threads` that one multiprocessor holds at once.
    int resident_blocks(function f, int threads) const {
        int blocks = 0;
        check(occupancy_(&blocks, f, threads, 0), "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        return blocks;
    }
    /// Runs the kernel with one parameter block, in the stream's order. Errors: `error`.
    void launch(function f, unsigned blocks, unsigned threads, CUstream_st* stream, void** arguments) const {
        check(launch_(f, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr), "cuLaunchKernel");
    }

private:
    driver() {
        library_ = shared_library::first_of({"libcuda.so.1", "libcuda.so"});
        if (!library_.loaded())
            throw error(fault::no_driver, 0, "libcuda", "cannot be loaded: " + library_.problem());
        load_function(init_, "cuInit");
        load_function(error_name_, "cuGetErrorName");
        load_function(error_string_, "cuGetErrorString");
        load_function(context_current_, "cuCtxGetCurrent");
        load_function(context_id_, "cuCtxGetId");
        load_function(context_device_, "cuCtxGetDevice");
        load_function(attribute_, "cuDeviceGetAttribute");
        load_function(module_load_, "cuModuleLoadData");
        load_function(module_unload_, "cuModuleUnload");
        load_function(module_function_, "cuModuleGetFunction");
        load_function(occupancy_, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        load_function(launch_, "cuLaunchKernel");
        check(init_(0), "cuInit");
    }

    template <class Function>
    void load_function(Function*& to, const char* name) {
        to = library_.function<Function>(name);
        if (!to) throw error(fault::driver_too_old, 0, "libcuda", std::string("has no ") + name);
    }
    int attribute(int which) const {
        int device = 0, value = 0;
        check(context_device_(&device), "cuCtxGetDevice");
        check(attribute_(&value, which, device), "cuDeviceGetAttribute");
        return value;
    }
    // Codes of the driver are those of the runtime, as far as fault_of names them.
    void check(int code, const char* operation) const {
        if (code == 0) return;
        const char *name = nullptr, *words = nullptr;
        error_name_(code, &name);
        error_string_(code, &words);
        throw error(fault_of(code), code, operation,
                    std::string(words ? words : "unknown error") + " (" + (name ? name : "?") + ")");
    }

    shared_library library_;
    int (*init_)(unsigned) = nullptr;
    int (*error_name_)(int, const char**) = nullptr;
    int (*error_string_)(int, const char**) = nullptr;
    int (*context_current_)(context*) = nullptr;
    int (*context_id_)(context, unsigned long long*) = nullptr;
    int (*context_device_)(int*) = nullptr;
    int (*attribute_)(int*, int, int) = nullptr;
    int (*module_load_)(code_module*, const void*) = nullptr;
    int (*module_unload_)(code_module) = nullptr;
    int (*module_function_)(function*, code_module, const char*) = nullptr;
    int (*occupancy_)(int*, function, int, std::size_t) = nullptr;
    int (*launch_)(function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   CUstream_st*, void**, void**) = nullptr;
};

} // namespace echo::cuda::jit
