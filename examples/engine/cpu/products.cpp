// SPDX-License-Identifier: BSL-1.0
/// @file
/// Matrix products by oneDNN.
#include "engine/cpu/kernels.hpp"

#include <dnnl.hpp>

#include <cstring>
#include <map>
#include <unordered_map>

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
    dnnl::memory::desc a, b, c, bias, scratch;
};

class products {
public:
    struct geometry {
        dim batch, m, n, k;
        bool ta, tb;
        bool bias = false;
        int threads = 0; ///< the kernel is made for so many
        auto operator<=>(const geometry&) const = default;
    };

    const product& operator()(const geometry& g) {
        const auto at = made_.find(g);
        if (at != made_.end()) return at->second;
        using desc = dnnl::memory::desc;
        constexpr auto f32 = dnnl::memory::data_type::f32;
        const auto matrix = [&](dim rows, dim columns, bool transposed) {
            dnnl::memory::dims extents{g.batch, rows, columns}, strides{rows * columns, columns, 1};
            if (transposed) strides = {rows * columns, 1, rows};
            const std::ptrdiff_t first = g.batch == 1;
            return desc({extents.begin() + first, extents.end()}, f32,
                        dnnl::memory::dims{strides.begin() + first, strides.end()});
        };
        const desc a = matrix(g.m, g.k, g.ta), b = matrix(g.k, g.n, g.tb), c = matrix(g.m, g.n, false);
        const desc bias = g.bias ? desc({1, g.n}, f32, dnnl::memory::dims{g.n, 1}) : desc();
        dnnl::primitive_attr attr;
        attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        const dnnl::matmul::primitive_desc how(
            g.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attr, engine_);
        return made_.emplace(g, product{dnnl::matmul(how), a, b, c, bias, how.scratchpad_desc()})
            .first->second;
    }

    void run(const geometry& g, const void* a, const void* b, const void* bias, void* y,
             std::span<std::byte> scratch) {
        const product& p = (*this)(g);
        const auto memory = [&](const dnnl::memory::desc& d, const void* data) {
            return dnnl::memory(d, engine_, const_cast<void*>(data));
        };
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, memory(p.a, a)},
            {DNNL_ARG_WEIGHTS, memory(p.b, b)},
            {DNNL_ARG_DST, memory(p.c, y)},
            {DNNL_ARG_SCRATCHPAD, memory(p.scratch, scratch.data())}};
        if (g.bias) arguments.insert({DNNL_ARG_BIAS, memory(p.bias, bias)});
        p.run.execute(stream_, arguments);
        stream_.wait();
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

products::geometry geometry_of(const ops::batch_dot& op, const echo::shape& a, const echo::shape& y,
                               const context& on) {
    const std::size_t rank = y.rank();
    dim batch = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) batch *= y[i];
    return {batch,          y[rank - 2],    y[rank - 1], a[rank - (op.transpose_a ? 2 : 1)],
            op.transpose_a, op.transpose_b, false,       on.threads()};
}
products::geometry geometry_of(const ops::fully_connected& op, const echo::shape& w, std::size_t outputs,
                               const context& on) {
    return {1, rows_of(outputs, w[0]).rows, w[0], w[1], false, true, op.bias, on.threads()};
}

} // namespace

void run(const ops::fully_connected& op, const call& c, context& on) {
    const auto g = geometry_of(op, c.inputs[1].shape(), c.outputs[0].size(), on);
    if (c.outputs[0].size() == 0) return;
    known().run(g, c.inputs[0].data, c.inputs[1].data, op.bias ? c.inputs[2].data : nullptr,
                c.outputs[0].data, c.scratch);
}

std::uint64_t scratch(const ops::fully_connected& op, tensor_span in, tensor_span out, context& on) {
    if (elements(out[0]) == 0) return 0;
    return known()(geometry_of(op, in[1].shape, elements(out[0]), on)).scratch.get_size();
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
    if (op.adds && c.outputs[0].data != c.inputs[2].data)
        std::memcpy(c.outputs[0].data, c.inputs[2].data, c.outputs[0].size() * sizeof(float));
    check(dnnl_sgemm('T', 'N', w.rows, w.columns, dy.rows, 1, c.inputs[0].f32(), w.rows, c.inputs[1].f32(),
                     w.columns, op.adds ? 1 : 0, c.outputs[0].f32(), w.columns),
          op.name);
}

void run(const ops::batch_dot& op, const call& c, context& on) {
    known().run(geometry_of(op, c.inputs[0].shape(), c.outputs[0].shape(), on), c.inputs[0].data,
                c.inputs[1].data, nullptr, c.outputs[0].data, c.scratch);
}

std::uint64_t scratch(const ops::batch_dot& op, tensor_span in, tensor_span out, context& on) {
    return known()(geometry_of(op, in[0].shape, out[0].shape, on)).scratch.get_size();
}

} // namespace engine::cpu
