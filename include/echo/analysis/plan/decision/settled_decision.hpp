// SPDX-License-Identifier: BSL-1.0
/// @file
/// `settled_decision`: what a decision comes to on one graph. A strategy says what it would like to have made again;
/// settling says what can be, and which nodes the forward pass must run so that the backward pass finds what it reads.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstddef>
#include <vector>

namespace echo::detail {

/// A decision, held against what may be done with each node. Its memory is used again for the next decision. Snapshot
/// and candidates must outlive it.
class settled_decision {
public:
    /// Nothing is settled yet; what no decision changes is found. O(nodes + edges).
    settled_decision(const snapshot& s, const candidates& c)
        : s_(s), c_(c), forward_(s.node_count()), always_demanded_(s.node_count()),
          always_needed_(s.node_count()) {
        for (const auto n : s.nodes()) {
            if (!c.live[n]) continue;
            forward_[n] = s.phase_of(n) == phase::forward;
            if (forward_[n] && c.rerunnable[n] && makes_views_alone(n)) views_.push_back(n);
            if (!runs_after_forward(s.phase_of(n))) continue;
            for (const auto before : s.control(n)) always_needed_.insert(before);
            if (may_read_encodings(n))
                may_read_encodings_.push_back(n);
            else
                for (const edge_source& from : s.sources(n)) always_demanded_.insert(from.producer);
        }
    }

    /// Settles another decision, in place of the one before. Fixes what is really made again (views follow their base)
    /// and what the forward pass must run. O(nodes + edges + what is forgotten).
    void settle(const decision& decided) {
        begin(decided);
        made_again_.keep_only(forward_);
        for (const node_id n : views_) follow_base(n);
        needed_ = always_needed_;
        demanded_ = always_demanded_;
        for (std::size_t i = may_read_encodings_.size(); i-- > 0;) settle_backward(may_read_encodings_[i]);
        for (std::size_t i = s_.node_count(); i-- > 0;) // every reader is seen before what it reads
            if (forward_[node_id(i)]) settle_forward(node_id(i));
    }

    /// Whether the backward pass has the node made again: its copy ends with the forward pass.
    bool made_again(node_id n) const { return made_again_[n]; }
    /// Whether the copy of the node is forgotten at some turn, and made again if it is read after that.
    bool remade(node_id n) const { return remade_[n]; }
    /// Whether the forward pass runs the node in its place.
    bool needed(node_id n) const { return needed_[n]; }
    /// Whether the backward pass reads a copy of what the node makes.
    bool demanded(node_id n) const { return demanded_[n]; }
    /// Whether the node is a view of the backward pass that runs right after what it looks at.
    bool hoisted(node_id n) const { return hoisted_[n]; }

    /// Whether any value is chosen to be encoded; without one no view is hoisted.
    bool encodes_any() const noexcept { return encodes_any_; }
    /// Whether a node takes its input at this position, which is the value `v`, from an encoding. O(outputs).
    bool reads_encoding(node_id reader, std::size_t position, value_id v) const {
        return encoded_[v] && encodable(s_, c_, reader, position);
    }
    /// Whether an encoding of the value is made: it is chosen, and some node that runs reads it. O(readers + what
    /// they make).
    bool encodes(value_id v) const {
        if (!encoded_[v]) return false;
        for (const use& u : s_.uses(v))
            if (c_.live[u.reader] && reads_encoding(u.reader, u.position, v)) return true;
        return false;
    }

private:
    void begin(const decision& decided) {
        made_again_ = decided.again;
        hoisted_.assign(s_.node_count());
        encoded_ = decided.encoded;
        encodes_any_ = encoded_.has_any();
        heavy_ = decided.heavy;
        remade_.assign(s_.node_count());
        for (const auto& f : decided.forgets) remade_[f.node] = may_run_twice(f.node);
    }

    bool may_run_twice(node_id n) const { return c_.rerunnable[n] || (heavy_ && c_.heavy_rerunnable[n]); }

    bool makes_views_alone(node_id n) const {
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == no_input) return false;
        return true;
    }

    /// A node that makes nothing but views is made again exactly when a base of them is.
    void follow_base(node_id n) {
        bool follows = false, forgotten_too = false;
        for (const auto v : s_.outputs(n)) {
            const node_id maker = s_[s_.inputs(n)[s_[v].view_of]].producer;
            follows |= made_again_[maker];
            forgotten_too |= remade_[maker];
        }
        made_again_[n] = follows;
        remade_[n] |= forgotten_too;
    }

    /// Of a node behind the forward pass: whether it may read an encoding, or be hoisted. All others read copies,
    /// whatever is decided.
    bool may_read_encodings(node_id n) const {
        bool may = c_.hoistable[n];
        for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) may = may || encodable(s_, c_, n, k);
        return may;
    }

    /// What such a node reads: a copy, or what must be there in the forward pass already, which is
    /// what is packed and what a hoisted view looks at.
    void settle_backward(node_id n) {
        for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) {
            const node_id maker = s_.sources(n)[k].producer;
            const value_id v = s_.inputs(n)[k];
            const bool packed = reads_encoding(n, k, v);
            if (packed && c_.packed_at[v].valid()) continue; // who reads all of it before asks for it
            (packed || hoisted_[n] ? needed_ : demanded_)[maker] = 1;
            if (c_.hoistable[maker] && (packed || hoisted_[n])) hoisted_[maker] = 1;
        }
    }

    void settle_forward(node_id n) {
        if (c_.forward_needed[n]) needed_[n] = 1;
        if (demanded_[n]) {
            const bool may = may_run_twice(n) || (c_.movable[n] && !needed_[n]);
            if (!may) made_again_[n] = 0;
            if (!made_again_[n]) needed_[n] = 1;
            if (made_again_[n] || remade_[n])
                for (const edge_source& from : s_.sources(n)) demanded_[from.producer] = 1;
        }
        // What may run again may still not run late; then it runs in its place as well.
        if (!c_.movable[n]) needed_[n] = 1;
        if (!needed_[n]) return;
        for (const edge_source& from : s_.sources(n)) needed_[from.producer] = 1;
        for (const auto c : s_.control(n)) needed_[c] = 1;
    }

    const snapshot& s_;
    const candidates& c_;
    id_set<node_id> forward_;    ///< of the forward pass, and live
    std::vector<node_id> views_; ///< of these, in order, what may run again and makes views alone
    std::vector<node_id> may_read_encodings_; ///< behind the forward pass, in order
    id_set<node_id> always_demanded_;         ///< what all others behind it read
    id_set<node_id> always_needed_; ///< what nodes behind the forward pass wait for without reading it
    id_set<node_id> made_again_;
    id_set<node_id> remade_;
    id_set<node_id> needed_;
    id_set<node_id> demanded_;
    id_set<node_id> hoisted_;
    id_set<value_id> encoded_; ///< as chosen, whether read or not
    bool encodes_any_ = false; ///< some value is chosen to be encoded
    bool heavy_ = false;       ///< as chosen: heavy nodes may run twice
};

} // namespace echo::detail
