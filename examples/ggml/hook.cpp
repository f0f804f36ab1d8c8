// SPDX-License-Identifier: BSL-1.0
// Stands in front of `ggml_build_backward_expand`, by which ggml makes a joint graph out of a forward pass, and
// rewrites what it has made. As `libecho-ggml.so` it goes before an unmodified program by LD_PRELOAD; linked into a
// program that has ggml in it statically, with `-Wl,--wrap=ggml_build_backward_expand` and ECHO_GGML_WRAP defined.
#include "engine.hpp"

#if !defined(ECHO_GGML_WRAP)
#include <dlfcn.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#if defined(__GNUC__)
extern "C" __attribute__((weak)) const char* ggml_version(void);
#endif

namespace {

const char* running_version() { return ggml_version ? ggml_version() : "of unknown version"; }

/// The engine, or nothing where it cannot work in this process. Says why, once.
std::unique_ptr<echo_ggml::engine> start() noexcept {
    try {
        auto asked = echo_ggml::read_settings([](const char* name) { return std::getenv(name); });
        if (!echo_ggml::fits())
            throw echo::error({}, "version",
                              std::string("ggml ") + running_version() +
                                  " has other structures than " ECHO_GGML_VERSION
                                  ", for which this was built",
                              "build examples/ggml with the headers of that version");
        return std::make_unique<echo_ggml::engine>(std::move(asked));
    } catch (const std::exception& caught) {
        echo_ggml::engine::say(caught.what());
        return nullptr;
    }
}

void rewrite(ggml_context* context, ggml_cgraph* joint, int forward,
             ggml_tensor* const* accumulators) noexcept {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    static const auto engine = start();
    if (!engine) return;
    try {
        (*engine)(context, joint, forward, accumulators);
    } catch (const std::exception& caught) {
        static bool said = false;
        if (!std::exchange(said, true)) echo_ggml::engine::say(caught.what());
    }
}

#if !defined(ECHO_GGML_WRAP)
using function = void (*)(ggml_context*, ggml_cgraph*, ggml_tensor**);

/// ggml's own function. Where ggml was loaded with RTLD_LOCAL, as by ctypes or as a plug-in, only who loaded it sees
/// its names: the caller's library is made visible then, and with it all of ggml that is asked here.
function real_function(void* caller) {
    constexpr const char* name = "ggml_build_backward_expand";
    if (void* const found = dlsym(RTLD_NEXT, name)) return reinterpret_cast<function>(found);
    Dl_info from{};
    if (!dladdr(caller, &from)) return nullptr;
    void* const library = dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    return library ? reinterpret_cast<function>(dlsym(library, name)) : nullptr;
}
#endif

} // namespace

#if defined(ECHO_GGML_WRAP)
#define ECHO_HOOK __wrap_ggml_build_backward_expand
extern "C" void __real_ggml_build_backward_expand(ggml_context*, ggml_cgraph*, ggml_tensor**);
#else
#define ECHO_HOOK ggml_build_backward_expand
#endif

extern "C" __attribute__((visibility("default"))) void ECHO_HOOK(ggml_context* context, ggml_cgraph* joint,
                                                                 ggml_tensor** accumulators) {
#if defined(ECHO_GGML_WRAP)
    const auto real = __real_ggml_build_backward_expand;
#else
    static const auto real =
        real_function(__builtin_return_address(0)); // before anything else of ggml is called
    if (!real) {
        std::fprintf(
            stderr,
            "echo: ggml_build_backward_expand is nowhere to be found: preload libecho-ggml.so into a program "
            "that is linked with ggml as a shared library\n");
        std::abort();
    }
#endif
    const int forward = ggml_graph_n_nodes(joint);
    real(context, joint, accumulators);
    rewrite(context, joint, forward, accumulators);
}
