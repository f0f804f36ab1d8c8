// SPDX-License-Identifier: BSL-1.0
/// @file
/// CUDA source to device code by NVRTC, which is loaded when it is first needed. No GPU is needed for it.
#pragma once

#include <echo/cuda/error.hpp>
#include <echo/cuda/jit/shared_library.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

/// NVRTC cannot be loaded, or lacks a function.
class compiler_missing : public error {
public:
    /// `why` is what the loader says.
    explicit compiler_missing(std::string_view why)
        : error(fault::other, 0, "NVRTC", "cannot be loaded: " + std::string(why),
                "install CUDA's libnvrtc, or name its file in the options") {}
};

/// NVRTC refused a generated source: a fault of Echo. `what()` has the first line of the log that names an error.
class compile_error : public error {
public:
    /// `code` is NVRTC's, `log` all that it said.
    compile_error(int code, std::string log)
        : error(fault::other, code, "nvrtcCompileProgram", first_line(log),
                "report it with log() and source"),
          log_(std::move(log)) {}

    /// All that NVRTC said.
    const std::string& log() const noexcept { return log_; }

private:
    static std::string first_line(const std::string& log) {
        const auto at = log.find("error");
        const auto begin = at == log.npos ? 0 : log.rfind('\n', at) + 1; // npos + 1 is 0
        return log.empty() ? "no log" : log.substr(begin, log.find('\n', begin) - begin);
    }
    std::string log_;
};

/// What a kernel is compiled to.
struct device_code {
    std::string bytes{}; ///< A cubin or PTX.
    bool is_ptx = false; ///< else a cubin, for one architecture
    std::string log{};   ///< what NVRTC remarked; empty for code that was kept
};

/// NVRTC's C interface, as far as it is used.
class nvrtc {
public:
    /// Loads `path`, or where that is empty the library wherever it is found. Throws `compiler_missing`.
    explicit nvrtc(const std::string& path = {}) {
        library_ = path.empty() ? shared_library::first_of({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                                            "/usr/local/cuda/lib64/libnvrtc.so"})
                                : shared_library::first_of({path});
        if (!library_.loaded()) throw compiler_missing(library_.problem());
        load(version_, "nvrtcVersion");
        load(error_string_, "nvrtcGetErrorString");
        load(supported_count_, "nvrtcGetNumSupportedArchs");
        load(supported_, "nvrtcGetSupportedArchs");
        load(create_, "nvrtcCreateProgram");
        load(destroy_, "nvrtcDestroyProgram");
        load(compile_, "nvrtcCompileProgram");
        load(log_size_, "nvrtcGetProgramLogSize");
        load(log_, "nvrtcGetProgramLog");
        load(ptx_size_, "nvrtcGetPTXSize");
        load(ptx_, "nvrtcGetPTX");
        load(cubin_size_, "nvrtcGetCUBINSize");
        load(cubin_, "nvrtcGetCUBIN");
    }

    /// Such as "13.0".
    std::string version() const {
        int major = 0, minor = 0;
        check(version_(&major, &minor), "nvrtcVersion");
        return std::to_string(major) + "." + std::to_string(minor);
    }

    /// Architectures it makes code for, ascending: 90 is sm_90.
    std::vector<int> architectures() const {
        int count = 0;
        check(supported_count_(&count), "nvrtcGetNumSupportedArchs");
        std::vector<int> found(static_cast<std::size_t>(count));
        if (count > 0) check(supported_(found.data()), "nvrtcGetSupportedArchs");
        std::sort(found.begin(), found.end());
        return found;
    }

    /// The option that asks for code for this architecture: a cubin where NVRTC knows it, else PTX for the highest
    /// below, which the driver translates. Throws `error` (`wrong_architecture`) if it is older than all.
    std::string target(int architecture) const {
        int best = 0;
        for (const int known : architectures())
            if (known <= architecture) best = known;
        if (best == 0)
            throw error(fault::wrong_architecture, 0, "NVRTC",
                        "version " + version() + " makes no code for sm_" + std::to_string(architecture),
                        "use an older CUDA, or a newer card");
        return std::string("--gpu-architecture=") + (best == architecture ? "sm_" : "compute_") +
               std::to_string(best);
    }

    /// Compiles. Throws `compile_error`.
    device_code compile(const std::string& source, const std::vector<std::string>& options) const {
        handle program = nullptr;
        check(create_(&program, source.c_str(), "echo_fused.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
        struct scope {
            const nvrtc& owner;
            handle program;
            ~scope() { owner.destroy_(&program); }
        } const owned{*this, program};
        std::vector<const char*> texts;
        bool is_ptx = false;
        for (const auto& option : options) {
            texts.push_back(option.c_str());
            is_ptx = is_ptx || option.find("compute_") != option.npos;
        }
        if (const int code = compile_(program, static_cast<int>(texts.size()), texts.data()); code != 0) {
            std::string log = log_of(program);
            if (log.empty()) log = error_string_(code);
            throw compile_error(code, std::move(log));
        }
        device_code out{{}, is_ptx, log_of(program)};
        std::size_t size = 0;
        check((is_ptx ? ptx_size_ : cubin_size_)(program, &size), "nvrtcGetCUBINSize");
        out.bytes.resize(size);
        check((is_ptx ? ptx_ : cubin_)(program, out.bytes.data()), "nvrtcGetCUBIN");
        return out;
    }

private:
    struct opaque;
    using handle = opaque*;

    std::string log_of(handle program) const {
        std::size_t size = 0;
        std::string log;
        if (log_size_(program, &size) != 0 || size < 2) return log;
        log.resize(size);
        log_(program, log.data());
        log.resize(size - 1); // without the terminator
        return log;
    }

    template <class Function>
    void load(Function*& to, const char* name) {
        to = library_.function<Function>(name);
        if (!to) throw compiler_missing(std::string("it has no ") + name);
    }
    void check(int code, const char* operation) const {
        if (code != 0) throw error(fault::other, code, operation, error_string_(code));
    }

    shared_library library_;
    int (*version_)(int*, int*) = nullptr;
    const char* (*error_string_)(int) = nullptr;
    int (*supported_count_)(int*) = nullptr;
    int (*supported_)(int*) = nullptr;
    int (*create_)(handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    int (*destroy_)(handle*) = nullptr;
    int (*compile_)(handle, int, const char* const*) = nullptr;
    int (*log_size_)(handle, std::size_t*) = nullptr;
    int (*log_)(handle, char*) = nullptr;
    int (*ptx_size_)(handle, std::size_t*) = nullptr;
    int (*ptx_)(handle, char*) = nullptr;
    int (*cubin_size_)(handle, std::size_t*) = nullptr;
    int (*cubin_)(handle, char*) = nullptr;
};

} // namespace echo::cuda::jit
