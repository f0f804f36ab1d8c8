// SPDX-License-Identifier: BSL-1.0
/// @file
/// `progress_callback`: how long searches tell how far they are.
#pragma once

#include <echo/config.hpp>

#include <type_traits>

namespace echo {

/// Refers to something callable with the part done, 0 to 1; does not own it.
class progress_callback {
public:
    progress_callback() = default;
    /// Refers to what is given, which must outlive the call that it is passed to.
    template <class F>
        requires(!std::is_same_v<std::remove_const_t<F>, progress_callback>) &&
                    std::is_invocable_v<F&, double>
    progress_callback(F& call) // NOLINT: meant to convert
        : object_(const_cast<void*>(static_cast<const void*>(&call))),
          call_([](void* object, double part) { (*static_cast<F*>(object))(part); }) {}
    /// What has no name is gone before it is called: give it one.
    template <class F>
        requires(!std::is_same_v<F, progress_callback>) && std::is_invocable_v<F&, double>
    progress_callback(const F&& call) = delete;
    explicit operator bool() const noexcept { return call_ != nullptr; }
    /// Says that this part is done, 0 to 1.
    void operator()(double part) const { call_(object_, part); }

private:
    void* object_ = nullptr;
    void (*call_)(void*, double) = nullptr;
};

} // namespace echo
