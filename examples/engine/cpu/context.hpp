// SPDX-License-Identifier: BSL-1.0
/// @file
/// What all CPU kernels share: a fixed number of threads, and loops over them. Work is cut at places that depend on
/// the number of elements and of threads alone, so results do not depend on timing.
#pragma once

#include <algorithm>
#include <cstddef>

namespace engine::cpu {

class context {
public:
    /// 0 threads: as many as OpenMP offers.
    explicit context(int threads = 0);

    int threads() const noexcept { return threads_; }

    /// Calls `f(first, last)` for consecutive parts of [0, count), each a multiple of `grain` but the last; on all
    /// threads where there are at least two parts of `grain`.
    template <class F>
    void parallel(std::size_t count, std::size_t grain, const F& f) const {
        const std::size_t grains = (count + grain - 1) / grain;
        const std::size_t parts = std::min<std::size_t>(static_cast<std::size_t>(threads_), grains);
        if (parts <= 1) {
            if (count) f(std::size_t{0}, count);
            return;
        }
        const auto part = [&](std::size_t p) {
            const auto at = [&](std::size_t k) { return std::min(count, grains * k / parts * grain); };
            f(at(p), at(p + 1));
        };
        run(parts, &call_part<decltype(part)>, &part);
    }

private:
    template <class Part>
    static void call_part(const void* part, std::size_t p) {
        (*static_cast<const Part*>(part))(p);
    }
    /// Calls `part(what, 0)` to `part(what, parts - 1)`, each on a thread of its own.
    static void run(std::size_t parts, void (*part)(const void*, std::size_t), const void* what);

    int threads_;
};

} // namespace engine::cpu
