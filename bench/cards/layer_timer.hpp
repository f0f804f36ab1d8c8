// SPDX-License-Identifier: BSL-1.0
/// @file
/// `layer_timer`: how long each layer runs on the device, read by pairs of events.
#pragma once

#include <echo/cuda/event.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda {

/// All runs of one layer together.
struct layer_time {
    std::string layer{};     ///< What the ranges were named.
    double milliseconds = 0; ///< All runs together.
    std::uint64_t runs = 0;  ///< How often it ran.
};

/// Takes times without waiting, and sums them up when asked. What runs in the stream between the two events
/// of a run is counted, of whatever layer it is; ranges may nest, and then the outer counts the inner too.
/// Not for streams that are captured: their events carry no time.
class layer_timer {
public:
    /// Makes the events of this many runs beforehand; more are made as they are needed, which costs
    /// microseconds.
    explicit layer_timer(std::size_t runs = 0) {
        pairs_.reserve(runs);
        for (std::size_t i = 0; i < runs; ++i) pairs_.emplace_back();
    }

    /// One run of a layer: from here to `stop`, which the destructor calls too.
    class running {
    public:
        running(running&& other) noexcept
            : timer_(std::exchange(other.timer_, nullptr)), run_(other.run_), stream_(other.stream_) {}
        running& operator=(running&&) = delete;
        ~running() {
            try {
                stop();
            } catch (
                const echo::error&) { // the run is left out; the stream itself reports what happened to it
            }
        }
        /// The end of what is timed, in the stream's order. Errors: `error`.
        void stop() {
            if (auto* const timer = std::exchange(timer_, nullptr)) timer->finish(run_, stream_);
        }

    private:
        friend layer_timer;
        running(layer_timer& timer, std::size_t run, stream_ref stream)
            : timer_(&timer), run_(run), stream_(stream) {}

        layer_timer* timer_;
        std::size_t run_;
        stream_ref stream_;
    };

    /// The timer outlives what this returns.
    [[nodiscard]] running start(std::string_view layer, stream_ref stream) {
        if (used_ == pairs_.size()) pairs_.emplace_back();
        auto& pair = pairs_[used_];
        pair.layer = index_of(layer);
        pair.finished = false;
        pair.begin.record(stream);
        return {*this, used_++, stream};
    }

    /// Waits for all runs that were stopped, and gives the layers in the order in which they first ran.
    /// Begins anew then; the events are kept. Requires that no run is going on.
    std::vector<layer_time> collect() {
        std::vector<layer_time> all(names_.size());
        for (const auto& [name, index] : names_) all[index].layer = name;
        for (std::size_t i = 0; i < used_; ++i) {
            if (!pairs_[i].finished) continue;
            pairs_[i].end.wait();
            all[pairs_[i].layer].milliseconds += milliseconds_between(pairs_[i].begin, pairs_[i].end);
            ++all[pairs_[i].layer].runs;
        }
        names_.clear();
        used_ = 0;
        return all;
    }

private:
    struct event_pair {
        event begin{}, end{};
        std::size_t layer = 0;
        bool finished = false;
    };

    std::size_t index_of(std::string_view layer) {
        const auto found = names_.find(layer);
        if (found != names_.end()) return found->second;
        return names_.emplace(layer, names_.size()).first->second;
    }

    void finish(std::size_t run, stream_ref stream) {
        pairs_[run].end.record(stream);
        pairs_[run].finished = true;
    }

    std::vector<event_pair> pairs_;
    std::size_t used_ = 0;
    std::map<std::string, std::size_t, std::less<>> names_;
};

} // namespace echo::cuda
