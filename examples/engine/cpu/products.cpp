// SPDX-License-Identifier: BSL-1.0
/// @file
/// Matrix products by oneDNN.
#include "engine/cpu/kernels.hpp"

#include <dnnl.hpp>

#include <cstring>
#include <map>

namespace engine::cpu {
namespace {

using dim = dnnl_dim_t;

void check(dnnl_status_t status, std::string_view op) {
    if (status != dnnl_success)
        throw echo::error({}, "op", std::string(op) + ": oneDNN returned " + std::to_string(status));
}

struct matrix {
    dim rows, columns;
};

/// A tensor as rows of `columns` elements.
matrix rows_of(std::size_t size, std::int64_t columns) {
    return {columns ? static_cast<dim>(size) / columns : 0, columns};
}

/// Batched products of one geometry.
struct product {
    dnnl::matmul run;
    dnnl::memory::desc a, b, c, scratch;
};

class products {
public:
    struct geometry {
        dim batch, m, n, k;
        bool ta, tb;
        auto operator<=>(const geometry&) const = default;
    };

    dnnl::engine& engine() { return engine_; }
    dnnl::stream& stream() { return stream_; }

    const product& operator()(const geometry& g) {
        const auto at = made_.find(g);
        if (at != made_.end()) return at->second;
        using desc = dnnl::memory::desc;
        constexpr auto f32 = dnnl::memory::data_type::f32;
        const desc a({g.batch, g.m, g.k}, f32,
                     g.ta ? dnnl::memory::dims{g.m * g.k, 1, g.m} : dnnl::memory::dims{g.m * g.k, g.k, 1});
        const desc b({g.batch, g.k, g.n}, f32,
                     g.tb ? dnnl::memory::dims{g.k * g.n, 1, g.k} : dnnl::memory::dims{g.k * g.n, g.n, 1});
        const desc c({g.batch, g.m, g.n}, f32, dnnl::memory::dims{g.m * g.n, g.n, 1});
        dnnl::primitive_attr attr;
        attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        const dnnl::matmul::primitive_desc how({a, b, c}, attr, engine_);
        return made_.emplace(g, product{dnnl::matmul(how), a, b, c, how.scratchpad_desc()}).first->second;
    }

private:
    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};
    std::map<geometry, product> made_;
};

products& known() {
    static thread_local products all; // a stream belongs to its thread
    return all;
}

products::geometry geometry_of(const ops::batch_dot& op, const echo::shape& a, const echo::shape& y) {
    const std::size_t rank = y.rank();
    dim batch = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) batch *= y[i];
    return {batch,          y[rank - 2],   y[rank - 1], a[rank - (op.transpose_a ? 2 : 1)],
            op.transpose_a, op.transpose_b};
}

} // namespace

void run(const ops::fully_connected& op, const call& c, context& on) {
    const matrix w{c.inputs[1].shape()[0], c.inputs[1].shape()[1]};
    const matrix y = rows_of(c.outputs[0].size(), w.rows);
    if (op.bias) {
        const std::size_t width = static_cast<std::size_t>(w.rows);
        const std::size_t grain = std::max<std::size_t>(1, 65536 / (width + 1));
        on.parallel(static_cast<std::size_t>(y.rows), grain, [&](std::size_t first, std::size_t last) {
            for (std::size_t r = first; r < last; ++r)
                std::memcpy(c.outputs[0].f32() + r * width, c.inputs[2].f32(), width * sizeof(float));
        });
    }
    check(dnnl_sgemm('N', 'T', y.rows, y.columns, w.columns, 1, c.inputs[0].f32(), w.columns,
                     c.inputs[1].f32(), w.columns, op.bias ? 1 : 0, c.outputs[0].f32(), y.columns),
          op.name);
}

void run(const ops::fully_connected_data_gradient& op, const call& c, context&) {
    const matrix w{c.inputs[1].shape()[0], c.inputs[1].shape()[1]};
    const matrix dy = rows_of(c.inputs[0].size(), w.rows);
    check(dnnl_sgemm('N', 'N', dy.rows, w.columns, w.rows, 1, c.inputs[0].f32(), w.rows, c.inputs[1].f32(),
                     w.columns, 0, c.outputs[0].f32(), w.columns),
          op.name);
}

void run(const ops::fully_connected_weight_gradient& op, const call& c, context&) {
    const matrix w{op.shape[0], op.shape[1]};
    const matrix dy = rows_of(c.inputs[0].size(), w.rows);
    check(dnnl_sgemm('T', 'N', w.rows, w.columns, dy.rows, 1, c.inputs[0].f32(), w.rows, c.inputs[1].f32(),
                     w.columns, 0, c.outputs[0].f32(), w.columns),
          op.name);
}

void run(const ops::batch_dot& op, const call& c, context&) {
    auto& all = known();
    const product& p = all(geometry_of(op, c.inputs[0].shape(), c.outputs[0].shape()));
    const auto memory = [&](const dnnl::memory::desc& d, const void* data) {
        return dnnl::memory(d, all.engine(), const_cast<void*>(data));
    };
    p.run.execute(all.stream(), {{DNNL_ARG_SRC, memory(p.a, c.inputs[0].data)},
                                 {DNNL_ARG_WEIGHTS, memory(p.b, c.inputs[1].data)},
                                 {DNNL_ARG_DST, memory(p.c, c.outputs[0].data)},
                                 {DNNL_ARG_SCRATCHPAD, memory(p.scratch, c.scratch.data())}});
    all.stream().wait();
}

std::uint64_t scratch(const ops::batch_dot& op, tensor_span in, tensor_span out, context&) {
    return known()(geometry_of(op, in[0].shape, out[0].shape)).scratch.get_size();
}

} // namespace engine::cpu
