// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random training graphs that shrink. A `recipe` is a list of forward ops, each a handful of small numbers;
/// `build` turns every recipe, whatever its numbers, into a legal graph: forward pass, gradients, updates.
/// Smaller numbers and fewer ops mean a plainer graph, which is all that shrinking needs.
#pragma once

#include "support/fit_residents.hpp"

#include <echo/graph/snapshot_builder.hpp>

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace support {

/// What a recipe says of one forward op. 0 is the plainest.
enum class trait : std::uint8_t {
    kind,         ///< 0 light, 1 heavy, 2 view
    rerun,        ///< 0 pure, 1 seeded, 2 never, 4 seeded by element
    from,         ///< reads the value so many back
    from_too,     ///< 0: reads nothing else; k: also the value k − 1 back
    from_third,   ///< likewise
    parameter,    ///< k: also reads parameter k − 1
    outputs,      ///< outputs beyond the first
    bytes,        ///< which of `sizes`, of the first output
    more_bytes,   ///< likewise of the others
    inplace,      ///< k: the first output may take over input k − 1
    second_lies,  ///< 1: the second output is a view of input 0; 2: is in place on it; 3: the first is a view
    workspace,    ///< in units of 16 bytes
    control,      ///< k: runs after the node k back
    keep,         ///< 1: the host wishes its outputs to be kept
    role,         ///< 0 plain; 1 read by a gradient alone; 2 read by nobody; 3 runs within the backward pass
    statistics,   ///< 1: also writes a state in place, as running statistics are
    resident,     ///< 1: the last output is resident
    result,       ///< 1: the first output is a graph output
    time,         ///< 0 not measured; k: k − 1 µs
    reads,        ///< bits: which inputs its gradient reads
    reads_made,   ///< bits: which outputs
    one_bit,      ///< bits: of which of these one bit is enough
    seen_through, ///< k: its gradient reads the first of these through k views of the backward pass
    view_users,   ///< 1: a second node reads such a view
    gradient_in_place, ///< 1: the gradient takes over what it is made from
    gradient_work,     ///< workspace of the gradient, in units of 16 bytes
    gradient_rerun,    ///< as `rerun`
    dead_gradient,     ///< 1: a backward node that nobody needs reads its output
    update,            ///< 0 at the end; 1 as soon as there is a gradient; 2 never
    count
};

struct op_recipe {
    std::array<std::uint8_t, static_cast<std::size_t>(trait::count)> at{};
    std::uint8_t& operator[](trait t) { return at[static_cast<std::size_t>(t)]; }
    std::uint8_t operator[](trait t) const { return at[static_cast<std::size_t>(t)]; }
    friend bool operator==(const op_recipe&, const op_recipe&) = default;
};

struct recipe {
    std::vector<op_recipe> ops;
    std::uint8_t parameters = 1;
    bool seed_first = true; ///< the backward pass begins with a node that reads nothing
    friend bool operator==(const recipe&, const recipe&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const recipe& r) {
    out << "{.ops = {";
    for (const auto& op : r.ops) {
        out << "{{";
        for (std::size_t i = 0; i < op.at.size(); ++i) out << (i ? "," : "") << unsigned{op.at[i]};
        out << "}}, ";
    }
    return out << "}, .parameters = " << unsigned{r.parameters} << ", .seed_first = " << r.seed_first << "}";
}

namespace detail {

class graph_maker {
public:
    graph_maker(const recipe& r, bool named, bool forward_results)
        : r_(r), named_(named), forward_results_(forward_results) {}

    echo::snapshot run() {
        const std::size_t count = 1 + r_.parameters % 4;
        for (std::size_t i = 0; i < count; ++i) params_.push_back(add_input(256));
        state_ = add_input(64);
        pool_.push_back(add_input(128)); // data
        for (std::size_t i = 0; i < r_.ops.size(); ++i)
            if (role(i) != inside)
                add_forward(i);
            else
                made_.push_back({});
        add_backward();
        return std::move(b_).finish();
    }

private:
    using value = echo::value_id;
    using node = echo::node_id;
    static constexpr std::uint8_t plain = 0, late = 1, dead = 2, inside = 3;
    static constexpr std::uint64_t sizes[] = {64, 128, 256, 32, 512, 16, 0, 1024, 4, 2000};

    struct made_op {
        std::vector<value> inputs, outputs;
        node at{};
    };

    std::uint8_t role(std::size_t i) const { return r_.ops[i][trait::role] % 4; }
    const echo::snapshot& s() const { return b_.so_far(); }

    // Which values may still be read: a write in place on a resident storage ends those made before.
    value root(value v) const { return root_[v.index()]; }
    bool stale(value v) const { return stale_[v.index()] != 0; }
    void note(node n) {
        for (const auto v : s().outputs(n)) {
            const auto& record = s()[v];
            value lies_on = v;
            bool on_resident = record.resident;
            if (record.view_of != echo::no_input) {
                const value base = s().inputs(n)[record.view_of];
                lies_on = root(base);
                on_resident = resident_[base.index()] != 0;
            } else if (record.inplace != echo::no_input) {
                const value base = s().inputs(n)[record.inplace];
                if (resident_[base.index()]) {
                    on_resident = true;
                    lies_on = root(base);
                    for (std::size_t i = 0; i < root_.size(); ++i)
                        if (root_[i] == lies_on && s()[value(i)].producer != n) stale_[i] = 1;
                }
            }
            root_.push_back(lies_on);
            resident_.push_back(on_resident);
            stale_.push_back(0);
        }
    }

    node add(echo::node_description& d) {
        const std::string name = named_ ? "n" + std::to_string(b_.node_count()) : "";
        d.name = name;
        if (d.op.empty()) d.op = echo::name_of(d.kind);
        std::vector<echo::tensor> outputs(d.outputs.begin(), d.outputs.end());
        fit_residents(b_, d.inputs, outputs);
        echo::node_description fitting = d;
        fitting.outputs = outputs;
        const node n = b_.add(fitting);
        note(n);
        return n;
    }

    value add_input(std::uint64_t bytes) {
        const echo::tensor t{.type = echo::dtype::f32, .bytes = bytes};
        echo::node_description d{.phase = echo::phase::input};
        d.op = "input";
        d.outputs = {&t, 1};
        return b_.output(add(d), 0);
    }

    /// Values that may be read, latest first.
    value pick(const std::vector<value>& from, std::size_t back) const {
        for (std::size_t i = 0; i < 2 * from.size(); ++i) {
            const value v = from[from.size() - 1 - (back + i) % from.size()];
            if (!stale(v)) return v;
        }
        return value::none();
    }

    static echo::op_kind kind_of(const op_recipe& op) {
        constexpr echo::op_kind kinds[] = {echo::op_kind::light, echo::op_kind::heavy, echo::op_kind::view};
        return kinds[op[trait::kind] % 3];
    }
    static echo::rerun_kind rerun(std::uint8_t code) { return static_cast<echo::rerun_kind>(code % 3); }

    void add_forward(std::size_t i, value gradient = value::none()) {
        const op_recipe& op = r_.ops[i];
        auto readable = pool_;
        if (role(i) != plain) readable.insert(readable.end(), aside_.begin(), aside_.end());
        std::vector<value> in;
        const auto read = [&](value v) {
            if (v.valid()) in.push_back(v);
        };
        read(pick(readable, op[trait::from]));
        if (op[trait::from_too]) read(pick(readable, op[trait::from_too] - 1U));
        if (op[trait::from_third]) read(pick(readable, op[trait::from_third] - 1U));
        if (gradient.valid()) in.push_back(gradient);
        if (op[trait::parameter]) {
            const value p = params_[(op[trait::parameter] - 1U) % params_.size()];
            if (!stale(p)) in.push_back(p);
        }
        const bool statistics =
            op[trait::statistics] % 2 && !stale(state_) && kind_of(op) != echo::op_kind::view;
        if (statistics) in.push_back(state_);
        if (in.empty()) return made_.push_back({});

        echo::node_description d{.phase = echo::phase::forward};
        d.kind = kind_of(op);
        d.rerun = statistics ? echo::rerun_kind::never : rerun(op[trait::rerun]);
        d.draws_by_element = op[trait::rerun] % 6 == 4;
        d.keep = op[trait::keep] % 2;
        d.workspace = 16U * op[trait::workspace];
        if (op[trait::time]) d.time_us = op[trait::time] - 1.0;
        std::vector<echo::tensor> out;
        for (std::size_t k = 0; k < 1U + op[trait::outputs] % 3U; ++k) {
            const std::uint8_t code = k ? op[trait::more_bytes] : op[trait::bytes];
            out.push_back({.type = echo::dtype::f32, .bytes = sizes[code % std::size(sizes)]});
        }
        lay(op, d.kind, in, out);
        if (op[trait::resident] % 2 && !out.back().view_of && !out.back().inplace) out.back().resident = true;
        if (statistics) {
            out.push_back({.type = echo::dtype::f32, .bytes = 64});
            out.back().inplace = in.size() - 1;
        }
        d.inputs = in;
        d.outputs = out;
        const node before[] = {
            node(b_.node_count() - 1 -
                 std::min<std::size_t>(op[trait::control], b_.node_count()) % b_.node_count())};
        if (op[trait::control]) d.control = before;
        const node n = add(d);
        made_op made{in, {}, n};
        for (const auto v : s().outputs(n)) made.outputs.push_back(v);
        if (statistics) {
            state_ = made.outputs.back();
            made.outputs.pop_back();
        }
        if (role(i) == plain)
            pool_.insert(pool_.end(), made.outputs.begin(), made.outputs.end());
        else if (role(i) != dead)
            aside_.insert(aside_.end(), made.outputs.begin(), made.outputs.end());
        if (op[trait::result] % 2) results_.push_back(made.outputs[0]);
        if (gradient.valid())
            made_[i] = made;
        else
            made_.push_back(made);
    }

    /// Views and writes in place.
    static void lay(const op_recipe& op, echo::op_kind kind, const std::vector<value>& in,
                    std::vector<echo::tensor>& out) {
        if (kind == echo::op_kind::view) {
            for (auto& t : out) t.view_of = 0;
            return;
        }
        if (op[trait::inplace]) out[0].inplace = (op[trait::inplace] - 1U) % in.size();
        switch (op[trait::second_lies] % 4) {
        case 1:
            if (out.size() > 1) out[1].view_of = 0;
            break;
        case 2:
            if (out.size() > 1) out[1].inplace = 0;
            break;
        case 3:
            if (out.size() > 1) {
                out[0].inplace.reset();
                out[0].view_of = 0;
            }
            break;
        default:
            break;
        }
    }

    void add_backward() {
        seed();
        for (std::size_t i = r_.ops.size(); i-- > 0;) {
            switch (role(i)) {
            case plain:
                differentiate(i);
                break;
            case late:
                if (!made_[i].outputs.empty()) pending_.push_back(made_[i].outputs[0]);
                break;
            case inside: {
                add_forward(i, any_gradient_);
                if (made_[i].outputs.empty()) break;
                pending_.push_back(made_[i].outputs[0]);
                break;
            }
            default:
                break;
            }
        }
        for (std::size_t p = 0; p < params_.size(); ++p) update(p);
        for (const auto p : param_gradient_)
            if (p.valid()) results_.push_back(p);
        results_.push_back(any_gradient_);
        for (const auto v : results_)
            if (!stale(v) && (forward_results_ || s()[s()[v].producer].phase != echo::phase::forward))
                b_.add_result(v);
    }

    void seed() {
        const echo::tensor t{.type = echo::dtype::f32, .bytes = 16};
        const value last[] = {pick(pool_, 0)};
        echo::node_description d{.phase = echo::phase::backward};
        d.kind = echo::op_kind::light;
        d.rerun = echo::rerun_kind::pure;
        d.op = "seed";
        if (!r_.seed_first && last[0].valid()) d.inputs = last;
        d.outputs = {&t, 1};
        any_gradient_ = b_.output(add(d), 0);
        param_gradient_.assign(params_.size(), value::none());
        param_of_.assign(params_.size(), value::none());
        for (std::size_t p = 0; p < params_.size(); ++p) param_of_[p] = params_[p];
    }

    void differentiate(std::size_t i) {
        const op_recipe& op = r_.ops[i];
        const made_op& made = made_[i];
        if (made.outputs.empty()) return;
        value dy = value::none();
        for (const auto v : made.outputs)
            if (gradient_of(v).valid()) dy = gradient_of(v);
        if (!dy.valid()) dy = any_gradient_;

        std::vector<value> in{dy};
        echo::positions bits;
        const auto read = [&](value v, std::size_t bit) {
            if (stale(v)) return;
            if (op[trait::one_bit] >> bit % 8 & 1U) bits.insert(in.size());
            in.push_back(v);
        };
        for (std::size_t k = 0; k < made.inputs.size() && k < 4; ++k)
            if (op[trait::reads] >> k & 1U) read(made.inputs[k], k);
        for (std::size_t k = 0; k < made.outputs.size() && k < 4; ++k)
            if (op[trait::reads_made] >> k & 1U) read(made.outputs[k], k + 4);
        for (const auto v : pending_) read(v, 7);
        pending_.clear();
        if (in.size() > 1) look_through(op, in[1]);

        echo::node_description d{.phase = echo::phase::backward};
        d.kind = kind_of(op) == echo::op_kind::heavy ? echo::op_kind::heavy : echo::op_kind::light;
        d.rerun = rerun(op[trait::gradient_rerun]);
        d.workspace = 16U * op[trait::gradient_work];
        std::vector<echo::tensor> out;
        std::vector<value> of;
        for (const auto v : made.inputs) {
            const bool known = std::find(of.begin(), of.end(), v) != of.end();
            if (known || v == state_) continue;
            of.push_back(v);
            out.push_back({.type = echo::dtype::f32, .bytes = s()[v].bytes});
        }
        if (op[trait::gradient_in_place] % 2) out[0].inplace = 0;
        if (op[trait::gradient_in_place] / 2 % 2 && in.size() > 1) out.back().inplace = 1;
        if (op[trait::gradient_in_place] / 2 % 2 && in.size() > 1 && resident_[in[1].index()])
            out.back().inplace.reset();
        d.inputs = in;
        d.one_bit_inputs = bits;
        d.outputs = out;
        const node n = add(d);
        for (std::size_t k = 0; k < of.size(); ++k) collect(of[k], b_.output(n, k));
        any_gradient_ = b_.output(n, 0);
        if (op[trait::dead_gradient] % 2) add_dead(made.outputs[0]);
        if (op[trait::update] % 3 == 1)
            for (std::size_t p = 0; p < params_.size(); ++p) update(p);
        if (op[trait::update] % 3 == 2) skip_ = true;
    }

    /// Replaces what is read by a view of it, `seen_through` deep.
    void look_through(const op_recipe& op, value& v) {
        for (std::size_t k = 0; k < op[trait::seen_through] % 3U; ++k) {
            echo::tensor t{.type = echo::dtype::f32, .bytes = s()[v].bytes};
            t.view_of = 0;
            echo::node_description d{.phase = echo::phase::backward};
            d.kind = echo::op_kind::view;
            d.rerun = echo::rerun_kind::pure;
            const value in[] = {v};
            d.inputs = in;
            d.outputs = {&t, 1};
            v = b_.output(add(d), 0);
            if (op[trait::view_users] % 2) add_dead(v);
        }
    }

    void add_dead(value v) {
        if (stale(v)) return;
        const echo::tensor t{.type = echo::dtype::f32, .bytes = 32};
        echo::node_description d{.phase = echo::phase::backward};
        d.kind = echo::op_kind::light;
        d.rerun = echo::rerun_kind::pure;
        d.op = "dead";
        const value in[] = {v};
        d.inputs = in;
        d.outputs = {&t, 1};
        add(d);
    }

    value sum(value a, value b) {
        echo::tensor t{.type = echo::dtype::f32, .bytes = s()[a].bytes};
        t.inplace = 0;
        echo::node_description d{.phase = echo::phase::backward};
        d.kind = echo::op_kind::light;
        d.rerun = echo::rerun_kind::pure;
        d.op = "sum";
        const value in[] = {a, b};
        d.inputs = in;
        d.outputs = {&t, 1};
        return b_.output(add(d), 0);
    }

    void collect(value of, value g) {
        for (std::size_t p = 0; p < params_.size(); ++p) {
            if (of != param_of_[p]) continue;
            param_gradient_[p] = param_gradient_[p].valid() ? sum(param_gradient_[p], g) : g;
            return;
        }
        const value known = gradient_of(of);
        const value total = known.valid() ? sum(known, g) : g;
        gradient_of(of) = total;
    }
    value& gradient_of(value v) {
        if (gradient_.size() <= v.index()) gradient_.resize(v.index() + 1, value::none());
        return gradient_[v.index()];
    }

    void update(std::size_t p) {
        if (skip_) {
            skip_ = false;
            return;
        }
        if (!param_gradient_[p].valid() || stale(params_[p])) return;
        echo::tensor t{.type = echo::dtype::f32, .bytes = 256};
        t.inplace = 0;
        echo::node_description d{.phase = echo::phase::update};
        d.kind = echo::op_kind::light;
        d.rerun = echo::rerun_kind::never;
        const value in[] = {params_[p], param_gradient_[p]};
        d.inputs = in;
        d.outputs = {&t, 1};
        add(d);
        param_gradient_[p] = value::none();
    }

    const recipe& r_;
    bool named_, forward_results_;
    echo::snapshot_builder b_;
    std::vector<value> params_, pool_, aside_, pending_, results_, root_, gradient_, param_gradient_,
        param_of_;
    std::vector<std::uint8_t> resident_, stale_;
    std::vector<made_op> made_; ///< by op
    value state_{}, any_gradient_{};
    bool skip_ = false;
};

inline rc::Seq<op_recipe> plainer(const op_recipe& op) {
    std::vector<op_recipe> all;
    for (std::size_t i = 0; i < op.at.size(); ++i) {
        if (!op.at[i]) continue;
        for (const int less : {0, op.at[i] / 2, op.at[i] - 1}) {
            op_recipe next = op;
            next.at[i] = static_cast<std::uint8_t>(less);
            if (all.empty() || !(all.back() == next)) all.push_back(next);
        }
    }
    return rc::seq::fromContainer(std::move(all));
}

inline rc::Seq<recipe> plainer_recipe(const recipe& r) {
    const auto with = [r](std::vector<op_recipe> ops) {
        recipe next = r;
        next.ops = std::move(ops);
        return next;
    };
    std::vector<recipe> others;
    if (r.parameters > 0) {
        others.push_back(r);
        others.back().parameters = 0;
    }
    if (!r.seed_first) {
        others.push_back(r);
        others.back().seed_first = true;
    }
    return rc::seq::concat(rc::seq::map(rc::shrink::removeChunks(r.ops), with),
                           rc::seq::fromContainer(std::move(others)),
                           rc::seq::map(rc::shrink::eachElement(r.ops, plainer), with));
}

} // namespace detail

/// The graph that a recipe describes; without `forward_results` what forward nodes make is no result, as where a step
/// returns its gradients alone. O(ops²).
inline echo::snapshot build(const recipe& r, bool named = true, bool forward_results = true) {
    return detail::graph_maker(r, named, forward_results).run();
}

/// Numbers of one op, of the frequencies that make most graphs worth planning.
inline op_recipe draw_op(std::mt19937_64& dice) {
    const auto one_in = [&](std::uint64_t n) { return dice() % n == 0; };
    const auto below = [&](std::uint64_t n) { return static_cast<std::uint8_t>(dice() % n); };
    op_recipe op;
    const auto kind = below(100);
    op[trait::kind] = kind < 62 ? 0 : kind < 86 ? 1 : 2;
    op[trait::rerun] = one_in(12) ? 1 : one_in(12) ? 2 : one_in(12) ? 4 : 0;
    op[trait::from] = one_in(4) ? below(6) : 0;
    if (one_in(3)) op[trait::from_too] = static_cast<std::uint8_t>(1 + below(7));
    if (one_in(8)) op[trait::from_third] = static_cast<std::uint8_t>(1 + below(7));
    if (op[trait::kind] == 1 || one_in(8)) op[trait::parameter] = static_cast<std::uint8_t>(1 + below(4));
    if (one_in(8)) op[trait::outputs] = static_cast<std::uint8_t>(1 + below(2));
    op[trait::bytes] = below(10);
    op[trait::more_bytes] = below(10);
    if (one_in(5)) op[trait::inplace] = static_cast<std::uint8_t>(1 + below(3));
    if (one_in(4)) op[trait::second_lies] = below(4);
    if (one_in(6)) op[trait::workspace] = below(30);
    if (one_in(16)) op[trait::control] = static_cast<std::uint8_t>(1 + below(5));
    op[trait::keep] = one_in(30);
    op[trait::role] = one_in(9) ? 1 : one_in(25) ? 2 : one_in(60) ? 3 : 0;
    op[trait::statistics] = one_in(30);
    op[trait::resident] = one_in(60);
    op[trait::result] = one_in(20);
    if (one_in(3)) op[trait::time] = below(20);
    op[trait::reads] = one_in(3) ? 0 : below(16);
    op[trait::reads_made] = one_in(3) ? 0 : below(16);
    if (one_in(3)) op[trait::one_bit] = static_cast<std::uint8_t>(dice() % 256);
    if (one_in(6)) { // as ReLU: its gradient reads the sign of what it made
        op[trait::kind] = op[trait::reads] = 0;
        op[trait::reads_made] = 1;
        op[trait::one_bit] = 0xff;
    } else if (one_in(10)) { // as dropout: it also makes a mask
        op[trait::kind] = op[trait::reads] = op[trait::second_lies] = 0;
        op[trait::rerun] = 1;
        op[trait::outputs] = 1;
        op[trait::more_bytes] = op[trait::bytes];
        op[trait::reads_made] = 2;
        op[trait::one_bit] = 0xff;
    }
    if (one_in(6)) op[trait::seen_through] = static_cast<std::uint8_t>(1 + below(2));
    op[trait::view_users] = one_in(10);
    if (one_in(4)) op[trait::gradient_in_place] = static_cast<std::uint8_t>(1 + below(3));
    if (one_in(6)) op[trait::gradient_work] = below(30);
    op[trait::gradient_rerun] = one_in(3) ? 2 : 0;
    op[trait::dead_gradient] = one_in(20);
    op[trait::update] = one_in(5) ? 1 : one_in(15) ? 2 : 0;
    return op;
}

/// A number below `limit`, as often one as another. Shrinks to 0.
inline rc::Gen<unsigned> numbers(unsigned limit) {
    return {[limit](const rc::Random& random, int) {
        const auto drawn = static_cast<unsigned>(rc::Random(random).next() % limit);
        return rc::shrinkable::shrinkRecur(drawn, [](unsigned x) { return rc::shrink::towards(x, 0U); });
    }};
}

/// A random recipe of at most `most` ops. Shrinks to fewer and plainer ops.
inline rc::Gen<recipe> recipes(std::size_t most = 20) {
    return {[most](const rc::Random& random, int) {
        std::mt19937_64 dice(rc::Random(random).next());
        recipe r;
        r.ops.resize(1 + dice() % most);
        for (auto& op : r.ops) op = draw_op(dice);
        r.parameters = static_cast<std::uint8_t>(dice() % 4);
        r.seed_first = dice() % 4 != 0;
        return rc::shrinkable::shrinkRecur(std::move(r),
                                           [](const recipe& x) { return detail::plainer_recipe(x); });
    }};
}

} // namespace support
