// SPDX-License-Identifier: BSL-1.0
/// @file
/// Rows of a table, and the sum of gradients into them. An index of no row gives a row that is no number.
#pragma once

#include "engine/cuda/kernels/movement.hpp"

namespace engine::cuda {

struct pick_by_index {
    const std::int32_t* indices;
    std::int64_t rows;
    ECHO_HOST_DEVICE std::int64_t row(std::int64_t r) const {
        const std::int64_t at = indices[r];
        return at >= 0 && at < rows ? at : bad_row;
    }
};

template <class Launcher>
void run(const ops::embedding& op, const call& c, Launcher& launcher) {
    const echo::shape& table = c.inputs[0].shape();
    run_picked(op.name, c.inputs[0].data, c.outputs[0].data, static_cast<std::int64_t>(c.inputs[1].size()),
               table[1], pick_by_index{c.inputs[1].i32(), table[0]}, 0, launcher);
}

// The gradient sums rows of dy by their index, then by their position: a stable sort by counting gives each its place.
// 32 neighbours in that order that belong to one row of the table are added beforehand, so that a row which many ask
// for takes no longer than others.

inline constexpr std::int64_t run_length = warp_lanes;

/// Position r goes behind all smaller indices, and equal ones in front of it. O(count / 32) for each.
struct rank_row {
    const std::int32_t* indices;
    std::int32_t* order;  ///< positions, sorted
    std::int32_t* sorted; ///< their indices
    std::int64_t count;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const std::int32_t own = indices[r];
        typename Warp::template value<std::int32_t> before;
        w.lanes([&](int lane) {
            std::int32_t n = 0;
            for (std::int64_t i = lane; i < count; i += warp_lanes)
                n += indices[i] < own || (indices[i] == own && i < r);
            before[lane] = n;
        });
        const std::int32_t place = over_lanes<Warp, std::int32_t>(w, before, add_both<std::int32_t>{});
        w.lanes([&](int lane) {
            if (lane != 0) return;
            order[place] = static_cast<std::int32_t>(r);
            sorted[place] = own;
        });
    }
};

/// The first place whose index is the row's or a later one's.
struct first_places {
    const std::int32_t* sorted;
    std::int32_t* begin; ///< per row of the table, and one behind the last
    std::int64_t count;

    template <class>
    ECHO_HOST_DEVICE void element(std::int64_t row) const {
        std::int64_t low = 0, high = count;
        while (low < high) {
            const std::int64_t middle = (low + high) / 2;
            if (sorted[middle] < row)
                low = middle + 1;
            else
                high = middle;
        }
        begin[row] = static_cast<std::int32_t>(low);
    }
};

/// What is added: `Columns` neighbours of a row at a time, 1 or 4.
template <int Columns>
struct sorted_rows {
    const float* dy;
    const std::int32_t *order, *sorted, *begin;
    float* sums; ///< of each 32 places, [count / 32, width]
    std::int64_t count, width;
    divisor columns; ///< width ÷ Columns

    struct part {
        float at[Columns];
    };
    template <class Warp>
    ECHO_HOST_DEVICE static void add(part& sum, const float* from) {
        if constexpr (Columns == group_size) {
            const group more = load_wide<Warp>(from);
            for (int e = 0; e < Columns; ++e) sum.at[e] += more.at[e];
        } else {
            sum.at[0] += *from;
        }
    }
    template <class Warp>
    ECHO_HOST_DEVICE static void store(float* to, const part& sum) {
        if constexpr (Columns == group_size)
            store_wide<Warp>(to, {{sum.at[0], sum.at[1], sum.at[2], sum.at[3]}});
        else
            *to = sum.at[0];
    }
};

template <int Columns>
struct add_runs {
    using rows = sorted_rows<Columns>;
    rows in;

    template <class Warp>
    ECHO_HOST_DEVICE void element(std::int64_t i) const {
        const division d(i, in.columns);
        const auto first = static_cast<std::int64_t>(d.quotient) * run_length;
        if (in.sorted[first] != in.sorted[first + run_length - 1]) return;
        const float* const dy = in.dy + static_cast<std::int64_t>(d.rest) * Columns;
        typename rows::part sum{};
        for (std::int64_t k = 0; k < run_length; ++k)
            rows::template add<Warp>(sum, dy + in.order[first + k] * in.width);
        rows::template store<Warp>(in.sums + i * Columns, sum);
    }
};

template <int Columns>
struct add_places {
    using rows = sorted_rows<Columns>;
    rows in;
    float* to;

    template <class Warp>
    ECHO_HOST_DEVICE void element(std::int64_t i) const {
        const division d(i, in.columns);
        const auto column = static_cast<std::int64_t>(d.rest) * Columns;
        const std::int64_t end = in.begin[d.quotient + 1];
        typename rows::part sum{};
        for (std::int64_t k = in.begin[d.quotient]; k < end;) {
            if (k % run_length == 0 && k + run_length <= end) {
                rows::template add<Warp>(sum, in.sums + k / run_length * in.width + column);
                k += run_length;
            } else {
                rows::template add<Warp>(sum, in.dy + in.order[k] * in.width + column);
                ++k;
            }
        }
        rows::template store<Warp>(to + i * Columns, sum);
    }
};

// Scratch: the sums, order, sorted, begin.

inline std::uint64_t scratch(const ops::embedding_gradient& op, tensor_span in, tensor_span) {
    const std::uint64_t n = elements(in[1]), width = static_cast<std::uint64_t>(op.shape[1]);
    return scratch_bytes<sixteen_bytes>(n / static_cast<std::uint64_t>(run_length) * width / group_size + 1) +
           (2 * n + static_cast<std::uint64_t>(op.shape[0]) + 1) * sizeof(std::int32_t);
}

template <class Launcher>
void run(const ops::embedding_gradient& op, const call& c, Launcher& launcher) {
    const auto count = static_cast<std::int64_t>(c.inputs[1].size());
    const std::int64_t rows = op.shape[0], width = op.shape[1], runs = count / run_length;
    auto* const sums = reinterpret_cast<float*>(scratch_of<sixteen_bytes>(c));
    auto* const order = reinterpret_cast<std::int32_t*>(sums + runs * width);
    std::int32_t *const sorted = order + count, *const begin = sorted + count;
    const float* const dy = c.inputs[0].f32();
    float* const to = c.outputs[0].f32();
    run_rows(op.name, count, rank_row{c.inputs[1].i32(), order, sorted, count}, launcher);
    run_elements(op.name, static_cast<std::size_t>(rows + 1), first_places{sorted, begin, count}, launcher);
    const auto add = [&]<int Columns>(std::integral_constant<int, Columns>) {
        const sorted_rows<Columns> in{
            dy,   order, sorted, begin,
            sums, count, width,  divisor(static_cast<std::uint64_t>(width / Columns))};
        run_elements(op.name, static_cast<std::size_t>(runs * width / Columns), add_runs<Columns>{in},
                     launcher);
        run_elements(op.name, static_cast<std::size_t>(rows * width / Columns), add_places<Columns>{in, to},
                     launcher);
    };
    if (is_wide(dy) && is_wide(to) && width % group_size == 0)
        add(std::integral_constant<int, group_size>{});
    else
        add(std::integral_constant<int, 1>{});
}

} // namespace engine::cuda
