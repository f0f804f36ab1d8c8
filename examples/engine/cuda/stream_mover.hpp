// SPDX-License-Identifier: BSL-1.0
/// @file
/// `stream_mover`: the mover of a device. Copies travel in two streams of their own, one for each direction, to pinned
/// memory of the host and back. Streams wait for each other by events; no thread waits.
#pragma once

#include "engine/mover.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace engine::cuda {

/// `Device` has
///   stream                                  a stream of its own, made without arguments
///   event                                   likewise; `record(s)` marks a point of a stream, `hold(s)` lets what comes
///                                           behind it in a stream wait for the mark
///   store                                   pinned memory of the host, made of its size, with `data()`
///   ops() -> S                              the stream in which ops run
///   copy_out(to, from, bytes, stream)       from the device to the host
///   copy_in(to, from, bytes, stream)        and back
/// where marks and copies are issued, in the order of the calls, and return at once.
template <class Device>
class stream_mover final : public mover {
public:
    /// The device is kept by reference. Errors: those of the device; so with all other functions.
    explicit stream_mover(Device& device) : device_(device) {}

    void prepare(transfers all) override {
        give_up();
        store_ = store(all.store_bytes);
        out_events_.resize(all.out.size());
        in_events_.resize(all.in.size());
        all_ = std::move(all);
    }
    void begin_step() override {
        may_leave_.assign(all_.out.size(), false);
        next_out_ = 0;
    }
    /// Those that are made leave in their order: behind a copy that is not made yet, others wait, as its offload step
    /// is the first.
    void begin_out(std::size_t k) override {
        out_events_.at(k).made.record(device_.ops());
        may_leave_[k] = true;
        for (; next_out_ < may_leave_.size() && may_leave_[next_out_]; ++next_out_) {
            const transfer& t = all_.out[next_out_];
            out_events_[next_out_].made.hold(out_);
            device_.copy_out(store_.data() + t.place, t.at, t.bytes, out_);
            out_events_[next_out_].ended.record(out_);
        }
    }
    void wait_out(std::size_t k) override { out_events_.at(k).ended.hold(device_.ops()); }
    /// That what comes back has left is known to the stream of the ops, which has waited for it.
    void begin_in(std::size_t k) override {
        const transfer& t = all_.in.at(k);
        in_events_[k].made.record(device_.ops());
        in_events_[k].made.hold(in_);
        device_.copy_in(t.at, store_.data() + t.place, t.bytes, in_);
        in_events_[k].ended.record(in_);
    }
    void wait_in(std::size_t k) override { in_events_.at(k).ended.hold(device_.ops()); }
    void give_up() noexcept override {
        try {
            out_.wait();
            in_.wait();
        } catch (...) { // the first error is on its way already
        }
    }

private:
    using store = typename Device::store;
    struct marks {
        typename Device::event made{}, ended{};
    };

    Device& device_;
    transfers all_{};
    store store_{0};
    std::vector<marks> out_events_{}, in_events_{};
    std::vector<bool> may_leave_{};
    std::size_t next_out_ = 0; ///< the first that has not been issued
    typename Device::stream out_{}, in_{};
};

} // namespace engine::cuda
