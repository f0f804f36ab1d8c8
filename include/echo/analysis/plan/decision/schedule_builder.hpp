// SPDX-License-Identifier: BSL-1.0
/// @file
/// `schedule_builder`: from a decision (what to make again, what to encode) to the steps that carry it out.
///
/// One mechanism, driven by demand: what the forward pass needs runs in its place; a backward node that reads
/// a value of which there is no copy has it made just before, with whatever that needs. If the value had not
/// been made yet, that run is its first, and merely late; else it is a recompute. A copy is there until it is
/// forgotten: at the end of the forward pass if its node is chosen to be made `again`, or where a `forgotten`
/// says so; one that is forgotten unread is not made.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/plan/decision/turn_queue.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace echo {

/// Lays out schedules of one snapshot; scratch memory is kept between calls. Snapshot and candidates must outlive it.
class schedule_builder {
public:
    schedule_builder(const snapshot& s, const candidates& c) : s_(s), c_(c) { find_depths(); }

    /// The steps that carry a decision out. Nodes that may not run again are kept even if chosen. O(nodes + edges +
    /// steps + their inputs + readers of what is forgotten).
    [[nodiscard]] schedule operator()(const decision& decided) {
        schedule steps;
        id_vector<step_id, node_id> homes;
        (*this)(decided, steps, homes);
        return steps;
    }
    /// The same into `steps`, and into `homes`, by step, the node in whose place or for whose sake it runs. Their
    /// memory is used again.
    void operator()(const decision& decided, schedule& steps, id_vector<step_id, node_id>& homes) {
        std::swap(steps_, steps), std::swap(homes_, homes); // worked on here, and given back below
        build(decided);
        std::swap(steps_, steps), std::swap(homes_, homes);
    }

private:
    void build(const decision& decided) {
        settle(decided);
        steps_.clear();
        steps_.reserve(s_.node_count() + s_.node_count() / 4, s_.edge_count() + s_.edge_count() / 4);
        homes_.clear();
        original_.assign(s_.node_count(), step_id::none());
        copy_.assign(s_.node_count(), step_id::none());
        encoding_.assign(s_.value_count(), step_id::none());
        forgets_.fill(decided.forgets, s_.node_count());
        early_.fill(decided.early, s_.node_count());
        for (const auto n : s_.nodes()) {
            forgets_.at(n, [&](node_id m) { forget(m); });
            if (!c_.live[n]) continue;
            if (s_[n].phase == phase::forward) {
                if (needed_[n]) run_forward(n);
            } else if (!hoisted_[n]) {
                if (runs_after_forward(s_[n].phase)) {
                    early_.at(n, [&](node_id m) {
                        if (m < n && demanded_[m]) make(m);
                    });
                    make_inputs(n);
                }
                run(n);
            }
            while (homes_.size() < steps_.size()) homes_.push_back(n); // mostly once
        }
        if (!decided.forgets.empty() || !decided.early.empty()) drop_unread();
    }

    /// Of each node the longest chain of nodes that may run again, of which it is the end.
    void find_depths() {
        depth_.assign(s_.node_count(), 0);
        for (const auto n : s_.nodes()) {
            if (!c_.rerunnable[n]) continue;
            for (const edge_source& from : s_.sources(n))
                depth_[n] = std::max(depth_[n], depth_[from.producer]);
            ++depth_[n];
        }
    }

    /// Fixes what is really made again (views follow their base) and what the forward pass must run.
    void settle(const decision& decided) {
        effective_ = decided.again;
        needed_.assign(s_.node_count());
        demanded_.assign(s_.node_count());
        hoisted_.assign(s_.node_count());
        encoded_ = decided.encoded;
        heavy_ = decided.heavy;
        remade_.assign(s_.node_count());
        for (const auto& f : decided.forgets) remade_[f.node] = may_run_twice(f.node);
        for (const auto n : s_.nodes()) {
            if (s_[n].phase != phase::forward || !c_.live[n]) {
                effective_[n] = 0;
            } else if (c_.rerunnable[n]) {
                follow_base(n);
            }
        }
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n]) continue;
            const phase p = s_[n].phase;
            if (runs_after_forward(p)) {
                for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) {
                    const node_id maker = s_.sources(n)[k].producer;
                    const bool packed = reads_encoding(n, k, s_.inputs(n)[k]);
                    (packed || hoisted_[n] ? needed_ : demanded_)[maker] = 1;
                    if (c_.hoistable[maker] && (packed || hoisted_[n])) hoisted_[maker] = 1;
                }
                for (const auto c : s_.control(n)) needed_[c] = 1;
            } else if (p == phase::forward) {
                settle_forward(n);
            }
        }
    }

    /// A node that makes nothing but views is made again exactly when a base of them is.
    void follow_base(node_id n) {
        bool follows = false, forgotten_too = false;
        for (const auto v : s_.outputs(n)) {
            if (s_[v].view_of == no_input) return;
            const node_id maker = s_[s_.inputs(n)[s_[v].view_of]].producer;
            follows |= effective_[maker];
            forgotten_too |= remade_[maker];
        }
        effective_[n] = follows;
        remade_[n] |= forgotten_too;
    }

    void settle_forward(node_id n) {
        if (c_.forward_needed[n]) needed_[n] = 1;
        if (demanded_[n]) {
            const bool may = may_run_twice(n) || (c_.movable[n] && !needed_[n]);
            if (!may) effective_[n] = 0;
            if (!effective_[n]) needed_[n] = 1;
            if (effective_[n] || remade_[n])
                for (const edge_source& from : s_.sources(n)) demanded_[from.producer] = 1;
        }
        // What may run again may still not run late; then it runs in its place as well.
        if (!c_.movable[n]) needed_[n] = 1;
        if (!needed_[n]) return;
        for (const edge_source& from : s_.sources(n)) needed_[from.producer] = 1;
        for (const auto c : s_.control(n)) needed_[c] = 1;
    }

    bool may_run_twice(node_id n) const { return c_.rerunnable[n] || (heavy_ && c_.heavy_rerunnable[n]); }

    /// With the views of it, which would hold its storage.
    void forget(node_id wanted) {
        stack_.push_back({wanted, 0});
        while (!stack_.empty()) {
            const node_id n = stack_.back().node;
            stack_.pop_back();
            if (!remade_[n] || !copy_[n].valid()) continue;
            copy_[n] = step_id::none();
            for (const auto v : s_.outputs(n))
                for (const use& u : s_.uses(v))
                    for (const auto out : s_.outputs(u.reader))
                        if (s_[out].view_of == u.position) stack_.push_back({u.reader, 0});
        }
    }

    bool reads_encoding(node_id reader, std::size_t position, value_id v) const {
        return encoded_[v] && encodable(s_, c_, reader, position);
    }

    void run(node_id n) {
        const step_id t = steps_.add({.node = n});
        original_[n] = t;
        if (!effective_[n]) copy_[n] = t;
        for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) steps_.read(copy_for(n, k));
    }

    /// An encoding is made right after its value, as are the views that it looks through: nothing forces the
    /// value to live longer for it.
    void run_forward(node_id n) {
        run(n);
        for (const auto v : s_.outputs(n)) {
            encode(v);
            for (const use& u : s_.uses(v)) {
                node_id view = u.reader;
                if (!hoisted_[view]) continue;
                for (;;) {
                    run(view);
                    const value_id seen = s_.output(view, 0);
                    encode(seen);
                    if (s_.uses(seen).empty() || !hoisted_[s_.uses(seen)[0].reader]) break;
                    view = s_.uses(seen)[0].reader;
                }
            }
        }
    }

    void encode(value_id v) {
        if (!encoded_[v] || !has_encoding_reader(v)) return;
        const node_id n = s_[v].producer;
        const step_id t =
            steps_.add({.node = n, .kind = step_kind::encode, .bytes = encoded_bytes(s_[v].elements)});
        steps_.read({original_[n], s_.output_index(v)});
        encoding_[v] = t;
    }

    bool has_encoding_reader(value_id v) const {
        for (const use& u : s_.uses(v))
            if (c_.live[u.reader] && reads_encoding(u.reader, u.position, v)) return true;
        return false;
    }

    copy_id copy_for(node_id reader, std::size_t position) const {
        const auto [maker, output] = s_.sources(reader)[position];
        if (runs_after_forward(s_[reader].phase) && !hoisted_[reader]) {
            const value_id v = s_.inputs(reader)[position];
            if (reads_encoding(reader, position, v)) return {encoding_[v], 0};
            return {copy_[maker], output};
        }
        return {original_[maker], output};
    }

    /// Everything the backward node reads that is made again and not there yet, in the order of its inputs.
    void make_inputs(node_id reader) {
        for (std::size_t k = 0; k < s_.inputs(reader).size(); ++k)
            if (!reads_encoding(reader, k, s_.inputs(reader)[k])) make(s_.sources(reader)[k].producer);
    }

    bool missing(node_id n) const { return !copy_[n].valid(); }
    /// Position of the first such; their number if nothing is missing.
    std::size_t deepest_missing(std::span<const edge_source> sources) const {
        std::size_t deepest = sources.size();
        for (std::size_t k = 0; k < sources.size(); ++k) {
            const node_id maker = sources[k].producer;
            if (!missing(maker)) continue;
            if (deepest == sources.size() || depth_[maker] > depth_[sources[deepest].producer]) deepest = k;
        }
        return deepest;
    }

    /// Depth first over what is missing, on an explicit stack. Of what a node reads, the input behind the longest chain
    /// comes first: what the others make would be held while that chain is made.
    void make(node_id wanted) {
        if (!missing(wanted)) return;
        stack_.push_back({wanted, frame::unseen});
        while (!stack_.empty()) {
            auto& [n, next] = stack_.back();
            const auto sources = s_.sources(n);
            std::size_t from_source = next;
            if (next == frame::unseen) {
                next = 0;
                from_source = deepest_missing(sources);
            } else {
                while (next < sources.size() && !missing(sources[next].producer)) ++next;
                from_source = next;
            }
            if (from_source < sources.size()) {
                stack_.push_back({sources[from_source].producer, frame::unseen});
                continue;
            }
            const bool first = !original_[n].valid();
            const step_id t = steps_.add({.node = n, .kind = first ? step_kind::run : step_kind::recompute});
            for (const edge_source& from : sources) steps_.read({copy_[from.producer], from.output});
            copy_[n] = t;
            if (first) original_[n] = t;
            stack_.pop_back();
        }
    }

    /// Leaves out what nobody reads before it is forgotten, and what was run for that alone. The first run that is left
    /// of a node is no recompute.
    void drop_unread() {
        readers_.assign(steps_.size(), 0);
        for (const auto t : steps_.steps())
            for (const auto c : steps_.inputs(t)) ++readers_[c.step];
        runs_again_.assign(s_.node_count());
        number_.assign(steps_.size(), step_id(0));
        bool any = false;
        for (std::size_t i = steps_.size(); i-- > 0;) {
            const step_id t(i);
            if (steps_[t].kind == step_kind::encode) continue;
            if (readers_[t] == 0 && is_idle(t)) {
                any = true;
                number_[t] = step_id::none();
                for (const auto c : steps_.inputs(t)) --readers_[c.step];
            } else {
                runs_again_[steps_[t].node] = 1;
            }
        }
        if (any) renumber();
    }

    /// Of a step that nobody reads. The last run of a graph result is the result.
    bool is_idle(step_id t) const {
        const node_id n = steps_[t].node;
        if (s_[n].phase != phase::forward) return false;
        if (runs_again_[n]) return steps_[t].kind == step_kind::recompute || c_.late_is_free(n);
        bool makes_result = false;
        for (const auto v : s_.outputs(n)) makes_result |= s_.is_result(v);
        return steps_[t].kind == step_kind::recompute && !makes_result;
    }

    void renumber() {
        all_.clear();
        runs_again_.assign(s_.node_count());
        for (const auto t : steps_.steps()) {
            if (!number_[t].valid()) continue;
            step_record step = steps_[t];
            if (step.kind != step_kind::encode && std::exchange(runs_again_[step.node], std::uint8_t{1}) == 0)
                step.kind = step_kind::run;
            const step_id now = all_.add(step);
            for (const auto c : steps_.inputs(t)) all_.read({number_[c.step], c.output});
            number_[t] = now;
            homes_[now] = homes_[t];
        }
        homes_.resize(all_.size());
        std::swap(steps_, all_);
    }

    struct frame {
        static constexpr std::size_t unseen = ~std::size_t{0};
        node_id node;
        std::size_t next; ///< input to look at
    };

    const snapshot& s_;
    const candidates& c_;
    schedule steps_, all_;
    id_set<node_id> effective_; ///< node: made again; its copy ends with the forward pass
    id_set<node_id> needed_;    ///< node: the forward pass runs it
    id_set<node_id> demanded_;  ///< node: the backward pass reads a copy
    id_set<node_id> hoisted_;   ///< backward view: runs right after what it looks at
    id_set<value_id> encoded_;  ///< value: as chosen
    id_set<node_id> remade_;    ///< node: its copy is forgotten at some turn
    bool heavy_ = false;
    id_vector<node_id, std::uint32_t> depth_; ///< node: as `find_depths` says
    id_vector<node_id, step_id> original_;    ///< node: its first run so far
    id_vector<node_id, step_id> copy_;        ///< node: the run whose copy the backward pass reads now
    id_vector<value_id, step_id> encoding_;   ///< value: the step that encodes it
    id_vector<step_id, node_id> homes_;
    id_vector<step_id, std::uint32_t> readers_; // step: reads of its copies
    id_set<node_id> runs_again_;                // node: there is a run behind, or was one before
    id_vector<step_id, step_id> number_;        // step: its number once what is idle is left out
    turn_queue forgets_, early_;
    detail::large_vector<frame> stack_;
};

} // namespace echo
