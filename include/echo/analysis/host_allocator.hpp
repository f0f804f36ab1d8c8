// SPDX-License-Identifier: BSL-1.0
/// @file
/// Plans for a host that keeps its own allocator. Echo's peak counts bytes that are live; an allocator that leaves gaps
/// takes more, and of two plans the one of the lower peak need not be the smaller. So the host says how many bytes it
/// would take for a schedule, and of the plans that a search knows, that one is chosen which is smallest there.
#pragma once

#include <echo/analysis/budget.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/schedule.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace echo {

/// Refers to something callable with a schedule, which returns the bytes that the host's allocator takes for it, or
/// `any_peak` if the host cannot run it; does not own it. Called with the graph's own order first. What it throws goes
/// through `make_plan`.
class host_allocator {
public:
    host_allocator() = default;
    template <class F>
        requires std::is_invocable_r_v<std::uint64_t, F&, const schedule&>
    host_allocator(F&& call) // NOLINT: meant to convert
        : object_(const_cast<void*>(static_cast<const void*>(&call))),
          call_([](void* object, const schedule& steps) -> std::uint64_t {
              return (*static_cast<std::remove_reference_t<F>*>(object))(steps);
          }) {}
    explicit operator bool() const noexcept { return call_ != nullptr; }
    std::uint64_t operator()(const schedule& steps) const { return call_(object_, steps); }

private:
    void* object_ = nullptr;
    std::uint64_t (*call_)(void*, const schedule&) = nullptr;
};

namespace detail {

/// Chooses among the plans of a search by what the host's allocator takes. All must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class allocator_choice {
public:
    allocator_choice(evaluator& evaluate, const host_allocator& allocate, budget_search<>& search)
        : evaluate_(evaluate), allocate_(allocate), search_(search) {}

    /// The plan that takes least of those that recompute for at most `most`. The allocator is asked of the lowest
    /// peaks, at most `questions` times.
    trial smallest(ticks most) {
        ask(search_.lowest(most));
        const auto known = search_.known();
        std::size_t asked = 1;
        for (auto t = known.rbegin(); t != known.rend() && asked < questions; ++t) {
            if (t->recompute > most) continue;
            ask(*t);
            ++asked;
        }
        return std::move(best_);
    }

    /// The plan of least recomputation that takes at most `limit`: lower and lower peaks are searched until one does,
    /// at most to three quarters of it. Without one, the plan that takes least.
    trial cheapest(std::uint64_t limit) {
        constexpr std::uint64_t parts = 64;
        for (std::uint64_t i = 0; i < questions; ++i) {
            ask(search_.cheapest(limit - limit / parts * i));
            if (least_ <= limit) break;
        }
        return std::move(best_);
    }

private:
    static constexpr std::size_t questions = 16;

    void ask(trial t) {
        evaluate_(t);
        const std::uint64_t bytes = allocate_(evaluate_.steps());
        if (is_asked_ && (bytes > least_ || (bytes == least_ && !(t.recompute < best_.recompute)))) return;
        is_asked_ = true;
        least_ = bytes;
        best_ = std::move(t);
    }

    evaluator& evaluate_;
    const host_allocator& allocate_;
    budget_search<>& search_;
    trial best_;
    std::uint64_t least_ = 0; // bytes of the best
    bool is_asked_ = false;
};

} // namespace detail

} // namespace echo
