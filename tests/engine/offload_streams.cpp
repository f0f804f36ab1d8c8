// SPDX-License-Identifier: BSL-1.0
/// @file
/// The mover of a device, where streams run in any order that their events allow: the bits are those without it.
/// Where one of the waits is left out, some order shows it.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/stream_mover.hpp"
#include "engine/session.hpp"
#include "support/issued_op.hpp"
#include "support/moved_tasks.hpp"
#include "support/sanitized.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

using namespace engine;
using support::drawn_task;
using support::outcome;

namespace {

constexpr std::size_t graphs = support::sanitized ? 10 : 60;

/// Streams of work. What is at the head of one runs when the marks that it waits for have been reached; which stream is
/// next is drawn.
class drawn_order {
public:
    explicit drawn_order(unsigned seed) : draw_(seed) {
        for (unsigned& w : weight_) w = static_cast<unsigned>(1 + draw_() % 20 * (draw_() % 2));
    }
    using mark = std::size_t;

    std::size_t add_stream() { return streams_++; }
    void add(std::size_t stream, std::function<void()> work) {
        queues_.at(stream).push_back({std::move(work), 0, 0});
    }
    mark add_mark(std::size_t stream) {
        queues_.at(stream).push_back({{}, ++marks_, 0});
        return marks_;
    }
    void add_wait(std::size_t stream, mark m) { queues_.at(stream).push_back({{}, 0, m}); }
    /// Until the stream has nothing left to do.
    void finish(std::size_t stream) {
        while (!queues_.at(stream).empty()) step();
    }
    void finish() {
        for (std::size_t i = 0; i < streams_; ++i) finish(i);
    }

private:
    struct item {
        std::function<void()> work;
        mark reaches, waits;
    };
    bool ready(std::size_t i) const {
        return !queues_[i].empty() &&
               (!queues_[i].front().waits || reached_.contains(queues_[i].front().waits));
    }
    void step() {
        unsigned all = 0;
        for (std::size_t i = 0; i < streams_; ++i) all += ready(i) ? weight_[i] : 0;
        if (!all) throw std::logic_error("streams wait for each other");
        auto at = static_cast<unsigned>(draw_() % all);
        for (std::size_t i = 0; i < streams_; ++i) {
            if (!ready(i)) continue;
            if (at >= weight_[i]) {
                at -= weight_[i];
                continue;
            }
            const item next = std::move(queues_[i].front());
            queues_[i].pop_front();
            if (next.work) next.work();
            if (next.reaches) reached_.insert(next.reaches);
            return;
        }
    }

    std::mt19937 draw_;
    std::array<std::deque<item>, 3> queues_{};
    std::array<unsigned, 3> weight_{};
    std::set<mark> reached_{};
    std::size_t streams_ = 0;
    mark marks_ = 0;
};

/// The order that streams without arguments belong to.
drawn_order* now = nullptr;
/// Waits of this stream for marks of that one are left out.
struct left_out_wait {
    std::size_t of = ~std::size_t{0}, on = 0;
} left_out;

constexpr std::size_t ops_stream = 0, out_stream = 1, in_stream = 2;

struct drawn_device {
    struct stream {
        std::size_t number = now->add_stream();
        void wait() const { now->finish(number); }
    };
    class event {
    public:
        void record(const stream& s) { at_ = now->add_mark(s.number), of_ = s.number; }
        void hold(const stream& s) const {
            if (s.number != left_out.of || of_ != left_out.on) now->add_wait(s.number, at_);
        }

    private:
        drawn_order::mark at_ = 0;
        std::size_t of_ = 0;
    };
    class store {
    public:
        explicit store(std::size_t bytes) : bytes_(bytes) {}
        std::byte* data() { return bytes_.data(); }

    private:
        std::vector<std::byte> bytes_;
    };

    const stream& ops() const { return ops_; }
    void copy_out(void* to, const void* from, std::size_t bytes, const stream& s) const {
        copy(to, from, bytes, s);
    }
    void copy_in(void* to, const void* from, std::size_t bytes, const stream& s) const {
        copy(to, from, bytes, s);
    }

private:
    static void copy(void* to, const void* from, std::size_t bytes, const stream& s) {
        now->add(s.number, [=] { std::memcpy(to, from, bytes); });
    }
    stream ops_{};
};

/// Tensors lie on the host, and are reached when the ops before have run.
class later_memory final : public tensor_memory {
public:
    bool on_host() const noexcept override { return false; }
    std::byte* allocate(std::size_t bytes, std::string_view what) override {
        return host_memory().allocate(bytes, what);
    }
    void free(std::byte* at, std::size_t bytes) noexcept override {
        now->finish();
        host_memory().free(at, bytes);
    }
    void write(void* to, const void* from, std::size_t bytes) override {
        now->finish(ops_stream);
        std::memcpy(to, from, bytes);
    }
    void zero(void* to, std::size_t bytes) override {
        now->finish(ops_stream);
        std::memset(to, 0, bytes);
    }
    void read(void* to, const void* from, std::size_t bytes) override {
        now->finish(ops_stream);
        std::memcpy(to, from, bytes);
    }
    void wait() override { now->finish(ops_stream); }
};

class later_backend {
public:
    tensor_memory& memory() { return memory_; }
    mover& moves() { return moves_; }
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out) { return cpu_.scratch(o, in, out); }
    void run(const op& o, const call& c) {
        now->add(ops_stream, [this, kept = std::make_shared<const support::issued_op>(o, c)] {
            call here = kept->with;
            here.inputs = kept->in, here.outputs = kept->out;
            cpu_.run(kept->what, here);
        });
    }

private:
    cpu::backend cpu_{1};
    later_memory memory_{};
    drawn_device device_{};
    cuda::stream_mover<drawn_device> moves_{device_};
};

/// Of all orders that were drawn: copies that left, and how often bits are not those without moves.
struct trial {
    std::size_t offloads = 0, other_bits = 0;
};
trial try_orders(std::size_t count) {
    trial found;
    for (unsigned seed = 0; seed < count; ++seed) {
        INFO("seed " << seed);
        drawn_task plain = support::draw_task(seed), moved = support::draw_task(seed);
        cpu::backend on(1);
        complete(*plain.graph, on), complete(*moved.graph, on);
        const outcome expected = support::train_steps(
            plain, on, seed, make_plans(*plain.graph, {.plan = {.how = echo::strategy::baseline}}),
            {.chain = false});
        const auto how = seed % 3 ? echo::strategy::echo : echo::strategy::baseline;
        planned made = make_plans(*moved.graph, {.plan = {.how = how}});
        made.plan = echo::plan(how, support::random_moves(made.graph, made.plan.steps(), seed)(),
                               {.offload = true}, {});
        made.memory = echo::plan_memory(made.graph, made.plan, {.align = 64});
        drawn_order order(seed);
        now = &order;
        later_backend later;
        try {
            const outcome o =
                support::train_steps(moved, later, seed, std::move(made), {.moves = &later.moves()});
            found.offloads += o.counts.offloaded;
            found.other_bits += !support::same_bits(o, expected);
        } catch (const echo::error&) { // the loss, or a gradient, is not finite
            ++found.other_bits;
        }
    }
    now = nullptr;
    return found;
}

} // namespace

TEST_CASE("copies in streams give the same bits in whatever order the streams run") {
    const trial found = try_orders(graphs);
    CHECK(found.other_bits == 0);
    CHECK(found.offloads > graphs);
}

TEST_CASE("a wait that is left out shows") {
    for (const auto& [of, on] : {std::pair(out_stream, ops_stream), std::pair(ops_stream, out_stream),
                                 std::pair(in_stream, ops_stream), std::pair(ops_stream, in_stream)}) {
        INFO("stream " << of << " does not wait for " << on);
        left_out = {of, on};
        CHECK(try_orders(graphs).other_bits > 0);
    }
    left_out = {};
}
