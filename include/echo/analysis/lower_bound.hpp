// SPDX-License-Identifier: BSL-1.0
/// @file
/// A certified lower bound on the peak of every plan that keeps the forward pass before the backward pass and
/// the backward nodes in their order, and that may run again only what `candidates` (light ops, or also
/// heavy ones, with or without one-bit encodings) allows.
///
/// While a backward node runs, its inputs and outputs are live, and so is a set of storages from which
/// everything that later backward nodes read can be derived. The cheapest such set is a minimum cut
/// (min_cut.hpp, without prices and anchors). Every forward node has its own working set. The bound is the
/// largest of these. Where the host fuses, an input that could be recomputed inside its reader need not be live, but
/// what it can be derived from must.
#pragma once

#include <echo/analysis/min_cut.hpp>

#include <algorithm>
#include <vector>

namespace echo {

/// Computes bounds for one snapshot; candidates must outlive it.
class lower_bound {
public:
    lower_bound(const snapshot& s, const candidates& c, bool encode, bool heavy = false)
        : s_(s), c_(c), encode_(encode && c.host.encode), heavy_(heavy), network_(s, c) {
        find_backward_lives();
    }

    /// The largest working set of one step. O(nodes + edges).
    std::uint64_t working_sets() {
        std::uint64_t most = 0;
        for (const auto n : s_.nodes())
            if (c_.live[n.index()]) most = std::max(most, working_set(n, true));
        return most;
    }

    /// The least that is live while backward node `at` runs, which must not be a view that may run early. O(nodes +
    /// edges) and a cut.
    std::uint64_t while_running(node_id at) {
        std::uint64_t held = working_set(at, false);
        network_.begin();
        for_each_gradient_read(s_, c_, encode_, at, [&](value_id v, bool one_bit) {
            const value_id base = c_.base[v.index()];
            if (in_working_set(base) || s_[base].producer > at) return; // counted, or not there yet
            one_bit ? network_.require_one_bit(v) : network_.require(v);
        });
        for (std::size_t k = 0; const auto v : s_.inputs(at)) {
            const value_id base = c_.base[v.index()];
            if (recomputed_inside(at, base) && !c_.free[base.index()] && !in_working_set(base))
                reads_bit(at, k) ? network_.require_one_bit(v) : network_.require(v);
            ++k;
        }
        held += held_from_before(at);
        const auto cut = network_.solve(
            [&](value_id base, std::uint64_t bytes) {
                const bool counted = in_working_set(base) || s_[s_[base].producer].phase != phase::forward;
                return counted ? 0 : static_cast<flow_network::capacity>(bytes);
            },
            [&](node_id n) { return rerun_price{.run = may_run_again(n) ? 0 : rerun_price::none}; });
        return held + static_cast<std::uint64_t>(cut);
    }

    /// The bound, the cuts taken at the given backward nodes.
    std::uint64_t operator()(std::span<const node_id> at) {
        std::uint64_t bound = working_sets();
        for (const auto n : at)
            if (c_.live[n.index()] && is_backward(s_[n].phase) && !c_.hoistable[n.index()])
                bound = std::max(bound, while_running(n));
        return bound;
    }

private:
    bool may_run_again(node_id n) const {
        return c_.rerunnable[n.index()] || (heavy_ && c_.heavy_rerunnable[n.index()]);
    }
    bool counts(value_id base) const { return !c_.resident[base.index()]; }
    /// Whether some plan might fuse what makes the storage into this reader.
    bool recomputed_inside(node_id reader, value_id base) const {
        const node_id maker = s_[base].producer;
        return c_.host.fuse && s_[reader].kind != op_kind::heavy && c_.rerunnable[maker.index()] &&
               s_[maker].same_in_any_kernel() && maker != reader;
    }

    /// Inputs, outputs and workspace of one run, less what might be fused. Outputs that may go in place are not counted; with `packed`
    /// neither is more than the encoding of an input of which one bit is enough, once per storage.
    std::uint64_t working_set(node_id n, bool packed) {
        ++stamp_;
        marked_.resize(s_.value_count(), 0);
        std::uint64_t sum = s_[n].workspace;
        const auto inputs = s_.inputs(n);
        // What is read in full first: an encoding of it is not needed as well.
        for (std::size_t k = 0; k < inputs.size(); ++k) {
            const value_id base = c_.base[inputs[k].index()];
            if (!counts(base) || in_working_set(base) || reads_bit(n, k) || recomputed_inside(n, base))
                continue;
            marked_[base.index()] = stamp_;
            sum += s_[base].bytes;
        }
        bits_.clear();
        for (std::size_t k = 0; packed && k < inputs.size(); ++k) {
            const value_id base = c_.base[inputs[k].index()];
            if (!counts(base) || in_working_set(base) || !reads_bit(n, k) || recomputed_inside(n, base))
                continue;
            marked_[base.index()] = stamp_;
            bits_.push_back(base);
            sum += std::min(encoded_bytes(s_[inputs[k]].elements), s_[base].bytes);
        }
        for (const auto base : bits_) marked_[base.index()] = 0; // not in full
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == no_input && s_[v].inplace == no_input && counts(v)) sum += s_[v].bytes;
        return sum;
    }
    bool reads_bit(node_id n, std::size_t position) const {
        return encode_ && encodable(s_, c_, n, position);
    }
    /// Whether `base` was counted in full by the last `working_set`.
    bool in_working_set(value_id base) const { return marked_[base.index()] == stamp_; }

    /// Last backward reader of every storage, by base value; results live to the end.
    void find_backward_lives() {
        last_read_.assign(s_.value_count(), node_id(0));
        for (const auto n : s_.nodes()) {
            if (!c_.live[n.index()]) continue;
            for (const auto v : s_.inputs(n)) last_read_[c_.base[v.index()].index()] = n;
        }
        for (const auto v : s_.results()) last_read_[c_.base[v.index()].index()] = node_id(s_.node_count());
    }

    /// What nodes before `at` made, cannot be made again and is needed after it, and is not in its working
    /// set: gradients, and results of the forward pass. What an in-place write may take over is not counted.
    std::uint64_t held_from_before(node_id at) const {
        std::uint64_t sum = 0;
        for (const auto n : s_.nodes()) {
            if (n >= at) break;
            if (!c_.live[n.index()] || s_[n].phase == phase::input) continue;
            const bool forward = s_[n].phase == phase::forward;
            if (forward && (may_run_again(n) || c_.late_is_free(n))) continue;
            for (const auto v : s_.outputs(n)) {
                if (c_.base[v.index()] != v || !counts(v) || in_working_set(v)) continue;
                if (forward && !c_.free[v.index()]) continue;
                if (last_read_[v.index()] > at) sum += s_[v].bytes;
            }
        }
        return sum;
    }

    const snapshot& s_;
    const candidates& c_;
    bool encode_, heavy_;
    stash_network network_;
    std::vector<node_id> last_read_;
    std::vector<std::uint32_t> marked_;
    std::vector<value_id> bits_;
    std::uint32_t stamp_ = 0;
};

} // namespace echo
