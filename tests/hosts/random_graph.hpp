// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random training graphs with views, in-place writes, residents, one-bit reads, control edges and dead
/// nodes; and random legal schedules for them, which recompute, encode, run late and drop at will.
#pragma once

#include "support/fit_residents.hpp"

#include <echo/analysis/schedule/liveness.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace hosts {

class dice {
public:
    explicit dice(std::uint64_t seed) : engine_(seed) {}
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
    bool chance(std::size_t percent) { return below(100) < percent; }

private:
    std::mt19937_64 engine_;
};

/// Whether the schedule reads nothing that was written over.
inline bool legal(const echo::snapshot& s, const echo::schedule& steps) {
    try {
        static_cast<void>(echo::liveness_analysis{}(s, steps));
        return true;
    } catch (const echo::error&) {
        return false;
    }
}

class random_graph {
public:
    explicit random_graph(dice& d) : d_(d) {}

    /// A graph whose own order is legal.
    echo::snapshot operator()(std::size_t size) {
        for (;;) {
            auto s = attempt(size);
            if (legal(s, echo::baseline_schedule(s))) return s;
        }
    }

private:
    echo::snapshot attempt(std::size_t size) {
        builder_ = {};
        nodes_.clear();
        forward_.clear();
        params_.clear();
        for (std::size_t i = 0; i < 2 + size / 8; ++i) params_.push_back(add(echo::phase::input, {}, 1));
        forward_ = params_;
        for (std::size_t i = 0; i < size; ++i) add_forward();
        echo::value_id gradient = echo::value_id::none();
        const auto readable = forward_;
        for (std::size_t i = 0; i < size; ++i) {
            std::vector<echo::value_id> in;
            if (gradient.valid()) in.push_back(gradient);
            const std::size_t back = readable.size() - 1 - i * readable.size() / size;
            in.push_back(readable[back]);
            if (d_.chance(40)) in.push_back(readable[d_.below(back + 1)]);
            gradient = add(echo::phase::backward, in, 1);
        }
        for (const auto p : params_) {
            if (d_.chance(30)) continue;
            const echo::value_id in[] = {p, gradient};
            echo::tensor t{.bytes = 16 * (1 + d_.below(4))};
            t.inplace = 0;
            support::fit_residents(builder_, in, {&t, 1});
            node({.phase = echo::phase::update,
                  .kind = echo::op_kind::light,
                  .inputs = in,
                  .outputs = {&t, 1}});
        }
        builder_.add_result(gradient);
        for (int i = 0; i < 3; ++i)
            if (d_.chance(50)) builder_.add_result(forward_[d_.below(forward_.size())]);
        return std::move(builder_).finish();
    }

    void add_forward() {
        std::vector<echo::value_id> in;
        const std::size_t reads = 1 + d_.below(3);
        for (std::size_t i = 0; i < reads; ++i) {
            const std::size_t window =
                d_.chance(70) ? std::min<std::size_t>(4, forward_.size()) : forward_.size();
            in.push_back(forward_[forward_.size() - 1 - d_.below(window)]);
        }
        const std::size_t outputs = d_.chance(20) ? 2 : 1;
        const auto first = add(echo::phase::forward, in, outputs);
        for (std::size_t k = 0; k < outputs; ++k) forward_.push_back(echo::value_id(first.index() + k));
    }

    echo::value_id add(echo::phase what, const std::vector<echo::value_id>& in, std::size_t outputs) {
        echo::node_description n{.phase = what, .inputs = in};
        const bool is_input = what == echo::phase::input;
        n.kind = d_.chance(30) ? echo::op_kind::heavy : echo::op_kind::light;
        n.rerun = is_input || d_.chance(15) ? echo::rerun_kind::never
                  : d_.chance(10)           ? echo::rerun_kind::seeded
                                            : echo::rerun_kind::pure;
        std::vector<echo::tensor> made;
        const bool view = !in.empty() && d_.chance(12);
        for (std::size_t k = 0; k < outputs; ++k) {
            echo::tensor t{.bytes = 16 * d_.below(40)};
            if (d_.chance(50)) t.type = echo::dtype::f32;
            if (view)
                t.view_of = d_.below(in.size());
            else if (!in.empty() && d_.chance(35) && !rests_on_input(in, 0))
                t.inplace = d_.below(in.size());
            if (t.inplace && rests_on_input(in, *t.inplace)) t.inplace.reset();
            made.push_back(t);
        }
        if (view) n.kind = echo::op_kind::view;
        support::fit_residents(builder_, in, made);
        n.outputs = made;
        for (std::size_t i = 0; i < in.size(); ++i) {
            const bool base =
                std::any_of(made.begin(), made.end(), [&](const auto& t) { return t.view_of == i; });
            if (!base && d_.chance(what == echo::phase::backward ? 50 : 10)) n.one_bit_inputs.insert(i);
        }
        if (d_.chance(20)) n.workspace = 16 * d_.below(30);
        std::vector<echo::node_id> control;
        if (!is_input && d_.chance(8)) control.push_back(nodes_[d_.below(nodes_.size())]);
        n.control = control;
        return builder_.output(node(n), 0);
    }

    /// Only updates write over parameters here: anything else would make most graphs illegal.
    bool rests_on_input(const std::vector<echo::value_id>& in, std::size_t k) const {
        const echo::snapshot& s = builder_.so_far();
        auto v = in[k];
        while (s[v].view_of != echo::no_input) v = s.inputs(s[v].producer)[s[v].view_of];
        return s[v].resident;
    }

    echo::node_id node(const echo::node_description& n) {
        nodes_.push_back(builder_.add(n));
        return nodes_.back();
    }

    dice& d_;
    echo::snapshot_builder builder_;
    std::vector<echo::node_id> nodes_;
    std::vector<echo::value_id> forward_, params_;
};

/// Random schedules; counts what it did, so that a test can show that it tests something.
class random_schedule {
public:
    /// Per cent: chances of each liberty.
    struct liberties {
        std::size_t recompute = 40, encode = 50, late = 20, drop = 50, tail = 10;
    };
    std::size_t recomputed = 0, encoded = 0, late = 0, dropped = 0, results_again = 0;

    random_schedule(dice& d, liberties l) : d_(d), may_(l) {}

    /// Legal for `s`; the baseline if chance finds nothing better.
    echo::schedule operator()(const echo::snapshot& s) {
        for (int i = 0; i < 20; ++i) {
            auto steps = attempt(s);
            if (legal(s, steps)) return steps;
        }
        return echo::baseline_schedule(s);
    }

private:
    echo::schedule attempt(const echo::snapshot& s) {
        steps_ = {};
        copies_.assign(s.node_count(), {});
        for (const auto n : order(s)) {
            std::vector<echo::copy_id> in;
            for (std::size_t i = 0; i < s.inputs(n).size(); ++i) in.push_back(source(s, n, i));
            add(n, echo::step_kind::run, in);
        }
        for (const auto v : s.results())
            if (d_.chance(may_.tail) && again(s, s[v].producer, 3)) ++results_again;
        return steps_;
    }

    std::vector<echo::node_id> order(const echo::snapshot& s) {
        const auto live = echo::detail::live_nodes(s);
        const bool drop = d_.chance(may_.drop);
        std::vector<std::vector<echo::node_id>> after(s.node_count());
        for (const auto n : s.nodes())
            for (const auto c : s.control(n)) after[c.index()].push_back(n);
        std::vector<echo::node_id> order; // reversed
        for (std::size_t i = s.node_count(); i-- > 0;) {
            const echo::node_id n(i);
            if (drop && !live[echo::node_id(i)]) {
                ++dropped;
                continue;
            }
            const bool may_move = s[n].rerun != echo::rerun_kind::never && s[n].phase == echo::phase::forward;
            if (!may_move || !d_.chance(may_.late)) {
                order.push_back(n);
                continue;
            }
            const auto reads = [&](echo::node_id r) {
                const auto in = s.inputs(r);
                return std::any_of(in.begin(), in.end(), [&](auto v) { return s[v].producer == n; }) ||
                       std::find(after[i].begin(), after[i].end(), r) != after[i].end();
            };
            const auto first_reader = std::find_if(order.rbegin(), order.rend(), reads);
            if (first_reader == order.rend() && !d_.chance(may_.tail)) {
                order.push_back(n);
                continue;
            }
            ++late;
            order.insert(first_reader.base(), n);
        }
        std::reverse(order.begin(), order.end());
        return order;
    }

    echo::copy_id source(const echo::snapshot& s, echo::node_id n, std::size_t i) {
        const auto v = s.inputs(n)[i];
        const auto producer = s[v].producer;
        if (d_.chance(may_.recompute) && s[n].phase == echo::phase::backward) again(s, producer, 3);
        const auto& all = copies_[producer.index()];
        echo::copy_id copy{d_.chance(80) ? all.back() : all[d_.below(all.size())], s.output_index(v)};
        if (s.one_bit(n, i) && d_.chance(may_.encode)) {
            ++encoded;
            const auto t = steps_.add({.node = producer,
                                       .kind = echo::step_kind::encode,
                                       .bytes = echo::encoded_bytes(s[v].elements)});
            steps_.read(copy);
            copy = {t, 0};
        }
        return copy;
    }

    /// Recomputes `n`, and some of what it reads, if it may run again.
    bool again(const echo::snapshot& s, echo::node_id n, int depth) {
        if (s[n].rerun == echo::rerun_kind::never || copies_[n.index()].empty()) return false;
        std::vector<echo::copy_id> in;
        for (const auto v : s.inputs(n)) {
            if (depth > 0 && d_.chance(40)) again(s, s[v].producer, depth - 1);
            in.push_back({copies_[s[v].producer.index()].back(), s.output_index(v)});
        }
        ++recomputed;
        add(n, echo::step_kind::recompute, in);
        return true;
    }

    void add(echo::node_id n, echo::step_kind kind, const std::vector<echo::copy_id>& in) {
        copies_[n.index()].push_back(steps_.add({.node = n, .kind = kind}));
        for (const auto c : in) steps_.read(c);
    }

    dice& d_;
    liberties may_;
    echo::schedule steps_;
    std::vector<std::vector<echo::step_id>> copies_;
};

} // namespace hosts
