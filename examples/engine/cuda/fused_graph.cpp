// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/fused_graph.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <typeinfo>
#include <utility>

namespace engine::cuda {
namespace {

namespace jit = echo::cuda::jit;
namespace fused = echo::cuda::fused;

/// The lambdas behind an op of the engine; `void` where there are others, or more than lambdas.
template <class Op>
struct lambdas_of {
    using type = void;
};
template <class Op>
struct lambdas_of<ops::elementwise<Op>> {
    using type = Op;
};
template <class Op, std::size_t I>
struct lambdas_of<ops::elementwise_gradient<Op, I>> {
    using type = Op;
};
template <class Op>
struct lambdas_of<ops::broadcast<Op>> {
    using type = Op;
};
template <>
struct lambdas_of<ops::add_n> {
    using type = echo::add_op;
};
template <>
struct lambdas_of<ops::batch_norm> {
    using type = ops::normalise_op;
};

template <class Op>
const char* key() {
    return typeid(Op).name();
}

template <class... Op>
jit::op_registry registry_of(const std::variant<Op...>*) {
    jit::op_registry made;
    const auto add = [&]<class Lambdas>(Lambdas*) {
        if constexpr (!std::is_void_v<Lambdas>)
            if (!made.contains(key<Lambdas>())) made.add<Lambdas>(key<Lambdas>());
    };
    (add(static_cast<typename lambdas_of<Op>::type*>(nullptr)), ...);
    return made;
}

const jit::op_registry& registry() {
    static const jit::op_registry made = registry_of(static_cast<const ops::any*>(nullptr));
    return made;
}

fused::extents extents_of(const echo::shape& shape) {
    if (shape.rank() > fused::most_axes)
        throw echo::error({}, "fused", "a tensor has more than 8 axes", "plan without host_abilities::fuse");
    fused::extents made;
    for (const auto extent : shape.extents()) made.of[made.rank++] = extent;
    return made;
}

class translator {
public:
    explicit translator(std::span<const op_call> ops) : made_{jit::graph(registry())} {
        for (const op_call& each : ops)
            for (const output_view& out : each.with.outputs) {
                const fused::extents e = extents_of(out.shape());
                if (made_.extents.rank == 0 || e.rank > made_.extents.rank) made_.extents = e;
            }
        for (const op_call& each : ops) std::visit([&](const auto& one) { add(one, each.with); }, *each.what);
    }
    fused_kernel take() { return std::move(made_); }

private:
    template <class Op>
    void add(const Op& op, const call&) {
        throw echo::error({}, "fused", std::string(op.name) + " is in no generated kernel",
                          "say so in graph_traits::may_fuse");
    }

    template <class Op>
    void add(const ops::elementwise<Op>& op, const call& c) {
        std::vector<jit::value> x;
        for (std::size_t i = 0; i < ops::tensor_inputs<Op>; ++i) x.push_back(read(c.inputs[i]));
        for (const double number : op.scalars) x.push_back(made_.graph.number(number));
        if constexpr (echo::is_random<Op>) x.push_back(draws(c));
        write(c, key<Op>(), x);
    }
    template <class Op>
    void add(const ops::broadcast<Op>&, const call& c) {
        write(c, key<Op>(), {read(c.inputs[0]), read(c.inputs[1])});
    }
    void add(const ops::add_n&, const call& c) {
        jit::value total = read(c.inputs[0]);
        for (const input_view& term : c.inputs.subspan(1))
            total = made_.graph.apply(key<echo::add_op>(), {total, read(term)});
        write(c.outputs[0], total);
    }
    void add(const ops::batch_norm& op, const call& c) {
        const echo::shape& x = c.inputs[0].shape();
        fused::extents channels = extents_of(x);
        for (std::size_t a = 0; a < x.rank(); ++a)
            if (a != axis_of(x, op.axis)) channels.of[a] = 1;
        const auto of_channel = [&](std::size_t i) { return read(c.inputs[i], channels); };
        write(c, key<ops::normalise_op>(),
              {read(c.inputs[0]), op.fixed_gamma ? made_.graph.number(1) : of_channel(1), of_channel(2),
               of_channel(3), of_channel(4), made_.graph.number(op.epsilon)});
    }
    template <class Op, std::size_t I>
    void add(const ops::elementwise_gradient<Op, I>& op, const call& c) {
        constexpr auto list = ops::component<Op, I>::arguments();
        constexpr std::size_t dys = echo::gradient_count<Op>, xs = echo::input_count<Op>;
        std::vector<jit::value> arguments(dys + xs + echo::output_count<Op>, jit::unused);
        for (std::size_t s = 0; s < op.scalars.size(); ++s)
            arguments[dys + ops::tensor_inputs<Op> + s] = made_.graph.number(op.scalars[s]);
        for (std::size_t k = 0; k < list.count; ++k) arguments[list.of[k]] = read(c.inputs[k]);
        write(c.outputs[0], made_.graph.gradient(key<Op>(), I, arguments));
    }

    jit::value read(const input_view& in) { return read(in, extents_of(in.shape())); }
    jit::value read(const input_view& in, const fused::extents& own) {
        if (in.slot != no_slot) {
            const auto found = slots_.find(in.slot);
            if (found == slots_.end())
                throw echo::error({}, "fused", "a value is read before it is made", "check the plan");
            return found->second;
        }
        return operand(in.data, in.packed ? fused::storage::bit : fused::storage::f32, own);
    }
    /// What a random op draws: the numbers of its node in this step.
    jit::value draws(const call& c) {
        return operand(c.seed_at, fused::storage::draws, extents_of(c.outputs[0].shape()));
    }
    jit::value operand(const void* data, fused::storage kind, const fused::extents& own) {
        const jit::any_operand made(const_cast<void*>(data), kind, fused::laid_over(own, made_.extents));
        for (std::size_t i = 0; i < read_.size(); ++i) {
            const auto& known = made_.operands[i];
            if (known.data == made.data && known.kind == kind && known.step == made.step) return read_[i];
        }
        made_.operands.push_back(made);
        read_.push_back(made_.graph.operand(kind));
        return read_.back();
    }
    void write(const call& c, const char* op, const std::vector<jit::value>& x) {
        for (std::size_t k = 0; k < c.outputs.size(); ++k) write(c.outputs[k], made_.graph.apply(op, x, k));
    }
    void write(const output_view& out, jit::value v) {
        if (out.slot != no_slot) {
            slots_[out.slot] = v;
            return;
        }
        made_.results.emplace_back(out.data, fused::storage::f32,
                                   fused::laid_over(extents_of(out.shape()), made_.extents));
        made_.graph.result(v, fused::storage::f32);
    }

    fused_kernel made_;
    std::vector<jit::value> read_;
    std::map<std::int64_t, jit::value> slots_;
};

} // namespace

bool in_fused_kernels(const op& o) {
    return std::visit([]<class Op>(const Op&) { return !std::is_void_v<typename lambdas_of<Op>::type>; }, o);
}

fused_kernel fuse(std::span<const op_call> ops) { return translator(ops).take(); }

} // namespace engine::cuda
