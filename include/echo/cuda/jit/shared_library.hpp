// SPDX-License-Identifier: BSL-1.0
/// @file
/// A library that is looked for when it is first needed: NVRTC and the driver's, so that a host needs neither to build
/// nor to start.
#pragma once

#include <echo/config.hpp>

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace echo::cuda::jit {

/// Owns nothing: a library that was loaded stays for the life of the process, since kernels of it may.
class shared_library {
public:
    shared_library() = default;

    /// The first of these that loads; `loaded()` is false if none does, and `problem()` says why the last did not.
    static shared_library first_of(std::initializer_list<std::string> names) {
        shared_library out;
        for (const auto& name : names) {
            if (name.empty()) continue;
            out.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
            if (out.handle_) {
                out.problem_.clear();
                return out;
            }
            const char* words = dlerror();
            if (out.problem_.empty() && words) out.problem_ = words;
        }
        return out;
    }

    /// Whether it could be loaded.
    bool loaded() const noexcept { return handle_ != nullptr; }
    /// Why it could not be loaded.
    const std::string& problem() const noexcept { return problem_; }

    /// The function of that name and type, or null.
    template <class Function>
    Function* function(const char* name) const noexcept {
        return reinterpret_cast<Function*>(dlsym(handle_, name));
    }

private:
    void* handle_ = nullptr;
    std::string problem_;
};

} // namespace echo::cuda::jit
