// SPDX-License-Identifier: BSL-1.0
/// @file
/// `host_allocator`: a host that keeps its own allocator says how many bytes that would take for a schedule. Echo's
/// peak counts bytes that are live; an allocator that leaves gaps takes more, and of two plans the one of the lower
/// peak need not be the smaller.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>

#include <cstdint>
#include <type_traits>

namespace echo {

/// Refers to something callable with a schedule, which returns the bytes that the host's allocator takes for it, or
/// `any_peak` if the host cannot run it. Does not own it, so that it must outlive the planning and cannot be a
/// temporary. Called with the graph's own order first. What it throws goes through `make_plan`.
class host_allocator {
public:
    host_allocator() = default;
    /// Refers to a function of the host's, which must outlive the planning.
    template <class F>
        requires(!std::is_same_v<std::remove_const_t<F>, host_allocator>) && std::is_object_v<F> &&
                    std::is_invocable_r_v<std::uint64_t, F&, const schedule&>
    host_allocator(F& call) // NOLINT: meant to convert
        : object_(const_cast<void*>(static_cast<const void*>(&call))),
          call_([](void* object, const schedule& steps) -> std::uint64_t {
              return (*static_cast<F*>(object))(steps);
          }) {}
    explicit operator bool() const noexcept { return call_ != nullptr; }
    /// Bytes that the host's allocator takes for this schedule.
    std::uint64_t operator()(const schedule& steps) const { return call_(object_, steps); }

private:
    void* object_ = nullptr;
    std::uint64_t (*call_)(void*, const schedule&) = nullptr;
};

} // namespace echo
