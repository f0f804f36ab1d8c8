// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops that place elements elsewhere. They move words of 4 bytes whatever the type, or 16 bytes at a time where the
/// geometry and the addresses allow it.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/groups.hpp"
#include "engine/cuda/kernels/rows.hpp"
#include "engine/op.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace engine::cuda {

/// What a copy moves at once.
using word = std::uint32_t;
template <class Unit>
inline constexpr std::int64_t words_of_unit = sizeof(Unit) / sizeof(word);

template <class Unit>
ECHO_HOST_DEVICE constexpr Unit unit_of(float value) {
    const auto bits = std::bit_cast<word>(value);
    if constexpr (sizeof(Unit) == sizeof(word))
        return bits;
    else
        return {bits, bits, bits, bits};
}

/// Units that a lane reads before it writes the first of them.
template <class Unit>
inline constexpr int units_at_once = sizeof(Unit) == sizeof(word) ? 4 : 2;

/// `where.place(unit, from, to)` says for each of `count` units where it is taken from and goes; `from` null:
/// `where.none` instead. A unit may be read from the place that it goes to.
template <class Unit, class Where>
struct copy_body {
    static constexpr int at_once = units_at_once<Unit>;
    std::int64_t count;
    Where where;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept {
        constexpr std::int64_t of_tile = at_once * warp_lanes;
        return count / of_tile + (count % of_tile != 0);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count())
            w.lanes([&](int lane) {
                Unit v[at_once];
                Unit* to[at_once];
                each<at_once>([&](auto k) {
                    const std::int64_t i = (tile * at_once + k) * warp_lanes + lane;
                    to[k] = nullptr;
                    if (i >= count) return;
                    const Unit* from = nullptr;
                    float none = 0;
                    where.place(static_cast<std::uint32_t>(i), from, to[k], none);
                    v[k] = from ? Warp::template load<Unit>(from) : unit_of<Unit>(none);
                });
                each<at_once>([&](auto k) {
                    if (to[k]) Warp::store(to[k], v[k]);
                });
            });
    }
};

/// Calls `f` with a unit: of 16 bytes if `wide`.
template <class F>
void with_unit(bool wide, const F& f) {
    if (wide)
        f(sixteen_bytes{});
    else
        f(word{});
}

// Cut and join.

/// Parts that one launch moves: as many as fit into its arguments.
inline constexpr std::size_t most_pieces = 48;

/// Parts of rows: part k of each of the rows of a large tensor is a row of a tensor of its own. All in units.
template <class Unit, bool Join>
struct pieces {
    struct piece {
        Unit* data;         ///< of the part
        std::int64_t begin; ///< in a row of the large tensor
        std::int64_t first; ///< unit of this launch
        divisor width;
    };
    piece of[most_pieces];
    int parts = 0;
    Unit* whole = nullptr;
    std::int64_t row = 0;

    ECHO_HOST_DEVICE void place(std::uint32_t i, const Unit*& from, Unit*& to, float&) const {
        const auto unit = static_cast<std::int64_t>(i);
        int low = 0, high = parts; // the last part that begins at or before the unit
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            (of[middle].first <= unit ? low : high) = middle;
        }
        const piece& p = of[low];
        const division d(unit - p.first, p.width);
        Unit* const part = p.data + (unit - p.first);
        Unit* const large =
            whole + static_cast<std::int64_t>(d.quotient) * row + p.begin + static_cast<std::int64_t>(d.rest);
        from = Join ? part : large;
        to = Join ? large : part;
    }
};

/// A part of each row, in words.
struct part_of_row {
    void* data;
    std::int64_t width;
};

/// Starts it for `rows` rows of the large tensor.
template <bool Join, class Launcher>
void run_pieces(std::string_view name, void* whole, const std::vector<part_of_row>& parts, std::int64_t rows,
                Launcher& launcher) {
    std::int64_t row = 0;
    bool wide = is_wide(whole);
    for (const auto& p : parts) {
        row += p.width;
        wide = wide && p.width % group_size == 0 && (p.width == 0 || is_wide(p.data));
    }
    with_unit(wide, [&]<class Unit>(Unit) {
        std::int64_t begin = 0;
        for (std::size_t k = 0; k < parts.size();) {
            pieces<Unit, Join> body{};
            body.whole = static_cast<Unit*>(whole);
            body.row = row / words_of_unit<Unit>;
            std::int64_t count = 0;
            for (; k < parts.size() && body.parts < static_cast<int>(most_pieces); ++k) {
                const std::int64_t width = parts[k].width / words_of_unit<Unit>;
                if (width == 0) continue;
                body.of[body.parts++] = {static_cast<Unit*>(parts[k].data), begin, count,
                                         divisor(static_cast<std::uint64_t>(width))};
                begin += width;
                count += rows * width;
            }
            launcher(name, copy_body<Unit, pieces<Unit, Join>>{count, body});
        }
    });
}

template <class Launcher>
void run(const ops::split& op, const call& c, Launcher& launcher) {
    const along x(c.inputs[0].shape(), op.axis);
    std::vector<part_of_row> parts;
    for (std::size_t k = 0; k < op.sizes.size(); ++k)
        parts.push_back({c.outputs[k].data, op.sizes[k] * static_cast<std::int64_t>(x.inner)});
    run_pieces<false>(op.name, const_cast<void*>(c.inputs[0].data), parts, static_cast<std::int64_t>(x.outer),
                      launcher);
}

template <class Launcher>
void run(const ops::concat& op, const call& c, Launcher& launcher) {
    const along y(c.outputs[0].shape(), op.axis);
    std::vector<part_of_row> parts;
    for (const input_view& in : c.inputs)
        parts.push_back(
            {const_cast<void*>(in.data), static_cast<std::int64_t>(y.inner) *
                                             (op.stack ? 1 : in.shape()[static_cast<std::size_t>(op.axis)])});
    run_pieces<true>(op.name, c.outputs[0].data, parts, static_cast<std::int64_t>(y.outer), launcher);
}

// Other orders of axes, and repetition.

/// Reads with steps, writes in order.
template <class Unit>
struct strided_units {
    const Unit* x;
    Unit* y;
    axes<1> at;

    ECHO_HOST_DEVICE void place(std::uint32_t i, const Unit*& from, Unit*& to, float&) const {
        std::int32_t offset[1]{};
        at.add(i, offset);
        from = x + offset[0];
        to = y + i;
    }
};

/// A lane takes this many elements that lie side by side in x: half of them by one access.
inline constexpr int transposed_at_once = 8;

/// Where another axis than the last is the one along which x lies in order: a warp takes 32 of the last axis and 8 of
/// that, so that it reads and writes whole sectors.
struct transposed_body {
    const word* x;
    word* y;
    std::int64_t last, across;           ///< extents of the last axis, and of the one in order in x
    std::int64_t last_step, across_step; ///< of the last axis in x, of the other in y
    divisor columns, bands;              ///< tiles along the two
    axes<2> rest;                        ///< the others: steps in x and y
    std::int64_t others;
    bool wide; ///< four in order in x are 16 bytes at a multiple of 16

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept {
        return others * columns.value() * bands.value();
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count()) {
            const division by_column(tile, columns);
            const division by_band(by_column.quotient, bands);
            std::int32_t at[2]{};
            rest.add(by_band.quotient, at);
            const std::int64_t from = static_cast<std::int64_t>(by_band.rest) * transposed_at_once;
            const std::int64_t left = across - from;
            const int n = left < transposed_at_once ? static_cast<int>(left) : transposed_at_once;
            w.lanes([&](int lane) {
                const std::int64_t column = static_cast<std::int64_t>(by_column.rest) * warp_lanes + lane;
                if (column >= last) return;
                const word* const read = x + at[0] + column * last_step + from;
                word* const write = y + at[1] + from * across_step + column;
                word v[transposed_at_once];
                if (wide && n == transposed_at_once) {
                    const auto a = Warp::template load<sixteen_bytes>(read);
                    const auto b = Warp::template load<sixteen_bytes>(read + group_size);
                    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
                    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
                } else {
                    for (int k = 0; k < transposed_at_once; ++k) v[k] = k < n ? read[k] : 0;
                }
                for (int k = 0; k < transposed_at_once; ++k)
                    if (k < n) write[k * across_step] = v[k];
            });
        }
    }
};

/// Writes x as `list` says: axes of the result with their steps in x, in words.
template <class Launcher>
void run_reordered(std::string_view name, const void* x, void* y, const axis_list<1>& list,
                   Launcher& launcher) {
    const std::size_t rank = list.size();
    const std::int64_t count = list.count();
    std::size_t across = rank;
    for (std::size_t a = 0; a + 1 < rank; ++a)
        if (list.step(a)[0] == 1 && list.extent(a) >= transposed_at_once / 2) across = a;
    if (across < rank) {
        std::vector<std::int64_t> extents;
        for (std::size_t a = 0; a < rank; ++a) extents.push_back(list.extent(a));
        const auto steps = steps_of(echo::shape(extents));
        transposed_body body{};
        body.x = static_cast<const word*>(x);
        body.y = static_cast<word*>(y);
        body.last = list.extent(rank - 1);
        body.across = list.extent(across);
        body.last_step = list.step(rank - 1)[0];
        body.across_step = steps[across];
        const auto tiles = [](std::int64_t n, std::int64_t of) {
            return divisor(static_cast<std::uint64_t>((n + of - 1) / of));
        };
        body.columns = tiles(body.last, warp_lanes);
        body.bands = tiles(body.across, transposed_at_once);
        axis_list<2> rest;
        body.wide = is_wide(x) && body.last_step % group_size == 0;
        for (std::size_t a = 0; a + 1 < rank; ++a) {
            if (a == across) continue;
            rest.push(list.extent(a), {list.step(a)[0], steps[a]});
            body.wide = body.wide && list.step(a)[0] % group_size == 0;
        }
        body.others = rest.count();
        body.rest = rest.made();
        launcher(name, body);
        return;
    }
    // Along the others x, which lies in order along the last, steps over whole lines.
    const bool wide = is_wide(x) && is_wide(y) && rank > 0 && list.step(rank - 1)[0] == 1 &&
                      list.extent(rank - 1) % group_size == 0;
    with_unit(wide, [&]<class Unit>(Unit) {
        constexpr std::int64_t words = words_of_unit<Unit>;
        axis_list<1> units;
        for (std::size_t a = 0; a < rank; ++a)
            if (a + 1 < rank)
                units.push(list.extent(a), {list.step(a)[0] / words});
            else
                units.push(list.extent(a) / words, list.step(a));
        launcher(name,
                 copy_body<Unit, strided_units<Unit>>{
                     count / words, {static_cast<const Unit*>(x), static_cast<Unit*>(y), units.made()}});
    });
}

template <class Launcher>
void run(const ops::transpose& op, const call& c, Launcher& launcher) {
    const echo::shape& x = c.inputs[0].shape();
    const auto steps = steps_of(x);
    axis_list<1> list;
    for (const auto axis : op.order) {
        const std::size_t a = axis_of(x, axis);
        list.push(x[a], {steps[a]});
    }
    run_reordered(op.name, c.inputs[0].data, c.outputs[0].data, list, launcher);
}

template <class Launcher>
void run(const ops::tile& op, const call& c, Launcher& launcher) {
    const echo::shape& x = c.inputs[0].shape();
    const auto steps = steps_of(x);
    axis_list<1> list;
    for (std::size_t a = 0; a < x.rank(); ++a) {
        list.push(op.times[a], {0});
        list.push(x[a], {steps[a]});
    }
    run_reordered(op.name, c.inputs[0].data, c.outputs[0].data, list, launcher);
}

// Rows that are chosen by numbers in memory.

inline constexpr std::int64_t no_row = -1, bad_row = -2;

/// `pick.row(r)` is the row of x that row r of y is a copy of; `no_row`: filled; `bad_row`: not a number.
template <class Unit, class Pick>
struct picked_rows {
    const Unit* x;
    Unit* y;
    divisor width;
    float fill;
    Pick pick;

    ECHO_HOST_DEVICE void place(std::uint32_t i, const Unit*& from, Unit*& to, float& none) const {
        const division d(i, width);
        const std::int64_t r = pick.row(static_cast<std::int64_t>(d.quotient));
        to = y + i;
        if (r >= 0)
            from = x + r * static_cast<std::int64_t>(width.value()) + static_cast<std::int64_t>(d.rest);
        else
            none = r == no_row ? fill : std::numeric_limits<float>::quiet_NaN();
    }
};

template <class Pick, class Launcher>
void run_picked(std::string_view name, const void* x, void* y, std::int64_t rows, std::int64_t width,
                const Pick& pick, float fill, Launcher& launcher) {
    with_unit(is_wide(x) && is_wide(y) && width % group_size == 0, [&]<class Unit>(Unit) {
        const std::int64_t units = width / words_of_unit<Unit>;
        launcher(name, copy_body<Unit, picked_rows<Unit, Pick>>{
                           rows * units,
                           {static_cast<const Unit*>(x), static_cast<Unit*>(y),
                            divisor(static_cast<std::uint64_t>(units)), fill, pick}});
    });
}

/// [steps, batch, width].
struct sequence_extents {
    std::int64_t steps, batch, width = 1;
    explicit sequence_extents(const echo::shape& x) : steps(x[0]), batch(x[1]) {
        for (std::size_t i = 2; i < x.rank(); ++i) width *= x[i];
    }
};

enum class sequence_rows { mask, reverse, last, last_gradient };

template <sequence_rows How>
struct pick_of_sequence {
    const std::int32_t* lengths;
    std::int64_t steps;
    divisor batch;

    ECHO_HOST_DEVICE std::int64_t row(std::int64_t r) const {
        const division d(r, batch);
        const auto b = static_cast<std::int64_t>(d.rest), t = static_cast<std::int64_t>(d.quotient);
        constexpr bool takes_last = How == sequence_rows::last || How == sequence_rows::last_gradient;
        const std::int64_t length = lengths[b], all = static_cast<std::int64_t>(batch.value());
        if (length < (takes_last ? 1 : 0) || length > steps) return bad_row;
        if constexpr (How == sequence_rows::mask)
            return t < length ? r : no_row;
        else if constexpr (How == sequence_rows::reverse)
            return t < length ? (length - 1 - t) * all + b : r;
        else if constexpr (How == sequence_rows::last)
            return (length - 1) * all + b;
        else
            return t + 1 == length ? b : no_row;
    }
};

template <sequence_rows How, class Op, class Launcher>
void run_sequence(const Op& op, const call& c, const echo::shape& whole, float fill, Launcher& launcher) {
    const sequence_extents e(whole);
    const std::int64_t rows = How == sequence_rows::last ? e.batch : e.steps * e.batch;
    run_picked(
        op.name, c.inputs[0].data, c.outputs[0].data, rows, e.width,
        pick_of_sequence<How>{c.inputs[1].i32(), e.steps, divisor(static_cast<std::uint64_t>(e.batch))}, fill,
        launcher);
}
template <class Launcher>
void run(const ops::sequence_mask& op, const call& c, Launcher& launcher) {
    run_sequence<sequence_rows::mask>(op, c, c.inputs[0].shape(), static_cast<float>(op.number), launcher);
}
template <class Launcher>
void run(const ops::sequence_reverse& op, const call& c, Launcher& launcher) {
    run_sequence<sequence_rows::reverse>(op, c, c.inputs[0].shape(), 0, launcher);
}
template <class Launcher>
void run(const ops::sequence_last& op, const call& c, Launcher& launcher) {
    run_sequence<sequence_rows::last>(op, c, c.inputs[0].shape(), 0, launcher);
}
template <class Launcher>
void run(const ops::sequence_last_gradient& op, const call& c, Launcher& launcher) {
    run_sequence<sequence_rows::last_gradient>(op, c, op.shape, 0, launcher);
}

/// Integers that are not 0, in each row.
struct nonzero_row {
    const std::int32_t* x;
    std::int32_t* y;
    std::int64_t extent;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        typename Warp::template value<std::int32_t> counts;
        w.lanes([&](int lane) {
            std::int32_t own = 0;
            for (std::int64_t i = lane; i < extent; i += warp_lanes) own += x[r * extent + i] != 0;
            counts[lane] = own;
        });
        const std::int32_t all = over_lanes<Warp, std::int32_t>(w, counts, add_both<std::int32_t>{});
        w.lanes([&](int lane) {
            if (lane == 0) y[r] = all;
        });
    }
};

template <class Launcher>
void run(const ops::count_nonzero& op, const call& c, Launcher& launcher) {
    const along a(c.inputs[0].shape(), -1);
    run_rows(op.name, static_cast<std::int64_t>(a.outer),
             nonzero_row{c.inputs[0].i32(), c.outputs[0].i32(), static_cast<std::int64_t>(a.extent)},
             launcher);
}

} // namespace engine::cuda
