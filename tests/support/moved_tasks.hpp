// SPDX-License-Identifier: BSL-1.0
/// @file
/// Small graphs that train, and moves of what their plans keep, drawn at random: what movers are tested with.
#pragma once

#include "engine/build.hpp"
#include "engine/session.hpp"

#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/schedule.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A graph whose widths are drawn, so that storages end anywhere in a block of the file.
struct drawn_task {
    std::unique_ptr<engine::graph> graph = std::make_unique<engine::graph>(engine::baseline::modern);
    engine::value x{};
    std::vector<engine::trained> parameters{};
};

inline drawn_task draw_task(unsigned seed) {
    using namespace engine;
    std::mt19937 draw(seed);
    const auto below = [&](std::size_t n) { return draw() % n; };
    drawn_task t;
    graph& g = *t.graph;
    const auto batch = static_cast<std::int64_t>(8 + below(24)),
               width = static_cast<std::int64_t>(16 + below(60));
    t.x = data(g, "x", f32({batch, width}));
    value h = t.x;
    const std::size_t layers = 3 + below(5);
    for (std::size_t l = 0; l < layers; ++l) {
        const graph::scope scope(g, "layer" + std::to_string(l));
        const value w = parameter(g, "w", {width, width}, {initial::uniform, 0.3});
        h = fully_connected(g, h, w, parameter(g, "b", {width}, {initial::uniform, 0.1}));
        switch (below(6)) {
        case 0:
            h = relu(g, h); // its gradient takes one bit per element
            break;
        case 1:
            h = dropout(g, relu(g, h), 0.25);
            break;
        case 2: { // a view, and one of that, which gradients read
            const value turned = tanh(g, swap_axes(g, reshape(g, tanh(g, h), {width, batch}), 0, 1));
            h = reshape(g, reshape(g, turned, {batch * width}), {batch, width});
            break;
        }
        case 3:
            h = multiply(g, tanh(g, h), sigmoid(g, h));
            break;
        case 4: {
            const auto parts = slice_channel(g, relu(g, stack(g, {h, h}, 1)), 2, 1, true);
            h = add(g, parts[0], parts[1]);
            break;
        }
        default:
            h = tanh(g, h);
        }
    }
    t.parameters = train(g, mean(g, reshape(g, square(g, tanh(g, h)), {batch * width}), {0}), {.clip = 1});
    return t;
}

struct outcome {
    std::vector<float> bits{};
    engine::step_counts counts{};
};

/// Three steps, and what they leave behind.
template <class Backend>
outcome train_steps(drawn_task& t, Backend& on, unsigned seed, engine::planned made,
                    engine::executor_options how) {
    engine::session<Backend> s(*t.graph, on, {.execution = how}, std::move(made));
    std::mt19937 draw(seed);
    for (float& x : s.outside().f32(t.x)) x = static_cast<float>(draw() % 2001) / 1000.0f - 1;
    outcome o;
    for (int i = 0; i < 3; ++i) o.bits.push_back(s.step());
    for (const engine::trained& p : t.parameters)
        for (const engine::value& v : {p.parameter, p.gradient}) {
            const auto data = s.outside().f32(v);
            o.bits.insert(o.bits.end(), data.begin(), data.end());
        }
    o.counts = s.execution().counts();
    CHECK(s.execution().high_water() <= s.execution().arena_bytes());
    return o;
}

inline bool same_bits(const outcome& a, const outcome& b) {
    return a.bits.size() == b.bits.size() &&
           std::memcmp(a.bits.data(), b.bits.data(), a.bits.size() * sizeof(float)) == 0;
}

/// The steps of a plan with moves of its copies drawn at random. What is read later is what came back, be it an
/// encoding. A copy may leave once and come back several times, and leave again.
class random_moves {
public:
    random_moves(const echo::snapshot& s, const echo::schedule& steps, unsigned seed)
        : s_(s), steps_(steps), live_(echo::liveness_analysis{}(s, steps)), draw_(seed) {}

    std::size_t encodings = 0, moved_again = 0; ///< offload steps

    echo::schedule operator()() {
        now_.resize(live_.copy_count());
        for (const auto t : steps_.steps()) {
            const bool may_move = s_[steps_[t].node].phase != echo::phase::update;
            if (may_move)
                for (const auto c : waiting()) draw_move(c, t);
            const auto inputs = steps_.inputs(t);
            for (const auto c : inputs) come_back(c);
            const auto made =
                made_.add(steps_[t], inputs.size(), [&](std::size_t k) { return now_[at(inputs[k])]; });
            for (std::uint32_t k = 0; k < copy_count(s_, steps_[t]); ++k) {
                now_[at({t, k})] = {made, k};
                if (can_leave({t, k})) there_.insert({t, k});
            }
        }
        return std::move(made_);
    }

private:
    std::size_t at(echo::copy_id c) const { return live_.copy_index(c); }
    /// A copy that is all of its storage, and read later by what is not fused.
    bool can_leave(echo::copy_id c) const {
        const auto storage = live_.storage(c);
        if (!storage.valid() || steps_.fused_count() > 0) return false;
        const auto& known = live_[storage];
        return !known.resident && !known.holds_result && known.bytes > 0 && known.maker == c &&
               known.last_read.valid() && live_.last_held(c) == known.last;
    }
    std::vector<echo::copy_id> waiting() const { return {there_.begin(), there_.end()}; }

    void draw_move(echo::copy_id c, echo::step_id t) {
        const auto read = live_.last_read(c);
        if (!read.valid() || read < t) { // only its views are read from here on, or nothing
            there_.erase(c);
            return;
        }
        const auto part = draw_() % 12;
        const bool is_away = away_.contains(c);
        if (part == 0 && !is_away) {
            const auto bytes = live_[live_.storage(c)].bytes;
            const bool again = on_host_.contains(c);
            if (!again || part_of(c)) { // from what came back, or what there was
                const auto left = made_.add(
                    {.node = steps_[c.step].node, .kind = echo::step_kind::offload, .bytes = bytes});
                made_.read(now_[at(c)]);
                on_host_[c] = left;
                moved_again += again;
                encodings += steps_[c.step].kind == echo::step_kind::encode;
            }
            away_.insert(c);
        } else if (part < 3 && is_away) {
            come_back(c);
        }
    }
    bool part_of(echo::copy_id c) { return (draw_() + at(c)) % 2 == 0; }
    void come_back(echo::copy_id c) {
        if (away_.erase(c) == 0) return;
        const auto left = on_host_.at(c);
        const auto back = made_.add({.node = steps_[c.step].node,
                                     .kind = echo::step_kind::reload,
                                     .bytes = live_[live_.storage(c)].bytes});
        made_.read({left, 0});
        now_[at(c)] = {back, 0};
    }

    const echo::snapshot& s_;
    const echo::schedule& steps_;
    echo::liveness live_;
    std::mt19937 draw_;
    std::vector<echo::copy_id> now_;
    std::set<echo::copy_id> there_, away_;
    std::map<echo::copy_id, echo::step_id> on_host_;
    echo::schedule made_;
};

} // namespace support
