// SPDX-License-Identifier: BSL-1.0
// Where lanes that went different ways meet again: the nearest instruction that lies on every way from a branch to
// the end of the function (its immediate post-dominator).
#include "module.hpp"

#include <algorithm>

namespace ptx {
namespace {

struct block {
    std::int32_t begin, end;
    std::vector<std::int32_t> next, before;
};

} // namespace

void find_reconvergence(function& f) {
    const auto size = static_cast<std::int32_t>(f.code.size());
    std::vector<char> leads(static_cast<std::size_t>(size) + 1, 0);
    leads[0] = leads[static_cast<std::size_t>(size)] = 1;
    for (std::int32_t i = 0; i < size; ++i) {
        const instruction& at = f.code[static_cast<std::size_t>(i)];
        if (at.then != flow::branch && at.then != flow::leave) continue;
        leads[static_cast<std::size_t>(i) + 1] = 1;
        if (at.then == flow::branch) leads[static_cast<std::size_t>(at.target)] = 1;
    }
    std::vector<std::int32_t> block_of(static_cast<std::size_t>(size) + 1);
    std::vector<block> blocks;
    for (std::int32_t i = 0; i <= size; ++i) {
        if (leads[static_cast<std::size_t>(i)]) blocks.push_back({i, i, {}, {}});
        blocks.back().end = i + 1;
        block_of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(blocks.size()) - 1;
    }
    const auto last = static_cast<std::int32_t>(blocks.size()) - 1; // the end of the function
    for (std::int32_t b = 0; b < last; ++b) {
        block& here = blocks[static_cast<std::size_t>(b)];
        const instruction& at = f.code[static_cast<std::size_t>(here.end) - 1];
        const bool always = at.guard < 0;
        if (at.then == flow::branch) here.next.push_back(block_of[static_cast<std::size_t>(at.target)]);
        if (at.then == flow::leave) here.next.push_back(last);
        if (!always || (at.then != flow::branch && at.then != flow::leave)) here.next.push_back(b + 1);
        for (const auto n : here.next) blocks[static_cast<std::size_t>(n)].before.push_back(b);
    }
    // From the end backwards: an order in which what follows comes first.
    std::vector<std::int32_t> order, number(blocks.size(), -1);
    std::vector<std::pair<std::int32_t, std::size_t>> todo{{last, 0}};
    std::vector<char> seen(blocks.size(), 0);
    seen[static_cast<std::size_t>(last)] = 1;
    while (!todo.empty()) {
        auto& [b, k] = todo.back();
        const auto& before = blocks[static_cast<std::size_t>(b)].before;
        if (k < before.size()) {
            const auto p = before[k++];
            if (!seen[static_cast<std::size_t>(p)]) {
                seen[static_cast<std::size_t>(p)] = 1;
                todo.emplace_back(p, 0);
            }
        } else {
            number[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(order.size());
            order.push_back(b);
            todo.pop_back();
        }
    }
    std::reverse(order.begin(), order.end());
    std::vector<std::int32_t> meets(blocks.size(), -1);
    meets[static_cast<std::size_t>(last)] = last;
    const auto common = [&](std::int32_t a, std::int32_t b) {
        while (a != b) {
            while (number[static_cast<std::size_t>(a)] < number[static_cast<std::size_t>(b)])
                a = meets[static_cast<std::size_t>(a)];
            while (number[static_cast<std::size_t>(b)] < number[static_cast<std::size_t>(a)])
                b = meets[static_cast<std::size_t>(b)];
        }
        return a;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (const auto b : order) {
            if (b == last) continue;
            std::int32_t found = -1;
            for (const auto n : blocks[static_cast<std::size_t>(b)].next)
                if (meets[static_cast<std::size_t>(n)] >= 0) found = found < 0 ? n : common(found, n);
            if (found != meets[static_cast<std::size_t>(b)]) {
                meets[static_cast<std::size_t>(b)] = found;
                changed = true;
            }
        }
    }
    for (std::int32_t i = 0; i < size; ++i) {
        instruction& at = f.code[static_cast<std::size_t>(i)];
        if (at.then != flow::branch) continue;
        const auto m = meets[static_cast<std::size_t>(block_of[static_cast<std::size_t>(i)])];
        at.reconverges = m < 0 ? size : blocks[static_cast<std::size_t>(m)].begin;
    }
}

} // namespace ptx
