// SPDX-License-Identifier: BSL-1.0
/// @file
/// `function_ref`: refers to a function of the host's that planning calls now and then.
#pragma once

#include <echo/config.hpp>

#include <type_traits>

namespace echo {

template <class Signature>
class function_ref;

/// Refers to something callable with `A...` that returns `R`, or to nothing. Does not own it: what it refers to must
/// outlive the call that it is passed to, and cannot be a temporary. What it throws goes through.
template <class R, class... A>
class function_ref<R(A...)> {
public:
    function_ref() = default;
    /// Refers to what is given.
    template <class F>
        requires(!std::is_same_v<std::remove_const_t<F>, function_ref>) && std::is_object_v<F> &&
                    std::is_invocable_r_v<R, F&, A...>
    function_ref(F& call) // NOLINT: meant to convert
        : object_(const_cast<void*>(static_cast<const void*>(&call))), call_([](void* object, A... a) -> R {
              return static_cast<R>((*static_cast<F*>(object))(static_cast<A>(a)...));
          }) {}
    /// A temporary would be gone before it is called: give it a name.
    template <class F>
        requires(!std::is_same_v<F, function_ref>) && std::is_invocable_r_v<R, F&, A...>
    function_ref(const F&& call) = delete;
    /// Whether it refers to anything.
    explicit operator bool() const noexcept { return call_ != nullptr; }
    /// Calls it; it must refer to something.
    R operator()(A... a) const { return call_(object_, static_cast<A>(a)...); }

private:
    void* object_ = nullptr;
    R (*call_)(void*, A...) = nullptr;
};

} // namespace echo
