// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whatever bytes a table of intervals holds, the reader either refuses them with an `echo::error` of one line, or
/// gives intervals that are placed without an overlap, and prints a table which it reads as the same.

#include "arena/interval_table.hpp"
#include "promises.hpp"

#include <echo/analysis/memory/arena/place.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using echo::format::interval_table;
using fuzz::attempt;
using fuzz::require;

std::string printed(const interval_table& table, const std::vector<std::uint64_t>& offsets) {
    std::string text;
    table.print(offsets, [&](std::string_view bytes) { text += bytes; });
    return text;
}

void place(const interval_table& table) {
    const auto& items = table.intervals();
    const auto made = echo::arena::place(items, {.limit = 0.001});
    require(made.bytes >= echo::arena::peak_load(items), "the arena holds what is live");
    for (std::size_t i = 0; i < items.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const bool meet = items[i].first <= items[j].last && items[j].first <= items[i].last;
            const bool overlap = made.offsets[i] < made.offsets[j] + items[j].bytes &&
                                 made.offsets[j] < made.offsets[i] + items[i].bytes;
            require(!meet || !overlap || !items[i].bytes || !items[j].bytes, "no two overlap");
        }

    const std::string text = printed(table, made.offsets);
    const interval_table again(text);
    require(again.intervals() == items, "a table is read as it was printed");
    require(printed(again, made.offsets) == text, "the offsets have one column");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    attempt([&] {
        place(interval_table(std::string(reinterpret_cast<const char*>(data), size)));
        return true;
    });
    return 0;
}
