// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-arena`: AllocateMemory as a command, for buffers in minimalloc's CSV (`echo-arena --help`).

#include "arena/interval_table.hpp"
#include "arena/options.hpp"
#include "arena/shaped_placer.hpp"
#include "command_line/print.hpp"
#include "command_line/progress.hpp"
#include "format/byte_source.hpp"
#include "format/output_file.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace echo::format;

/// What the exit status says.
enum status : int { success = 0, bad_input = 1, bad_usage = 2, too_small = 3 };

/// A compressed table is refused where it unpacks to much more than its size; one that is not may be of any size.
std::string read_text(const std::string& path, part_read progress) {
    constexpr size_limit any{std::numeric_limits<std::uint64_t>::max(), 0};
    const auto source = open_source(path, is_compressed(path) ? size_limit{} : any, std::move(progress));
    return {std::istreambuf_iterator<char>(source.get()), {}};
}

void complain(std::string_view message) { print_error("echo-arena", message); }

int run(const arena_options& asked) {
    std::optional<progress> line(std::in_place, !asked.quiet);
    line->stage("reading");
    const interval_table table(read_text(asked.table, line->parts()));
    line->stage("searching");
    const auto start = std::chrono::steady_clock::now();
    const auto made = place_shaped(table.shapes(), table.intervals(),
                                   {.limit = asked.limit, .enough = asked.capacity.value_or(0)});
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    line.reset();
    if (asked.capacity && made.bytes > *asked.capacity) {
        complain(fmt::format("{}: no arena of {} bytes {}: the bound is {}, the best reached {}; raise {}",
                             shown_input(asked.table), *asked.capacity,
                             made.bound > *asked.capacity ? "is possible" : "was found", made.bound,
                             made.bytes,
                             made.bound > *asked.capacity ? "--capacity" : "--capacity or --limit"));
        return too_small;
    }
    std::optional<output_file> file;
    if (!asked.output.empty()) {
        file.emplace(asked.output);
        table.print(made.offsets, [&](std::string_view bytes) { file->write(bytes); });
        file->finish();
    }
    const double ratio = made.bound ? static_cast<double>(made.bytes) / static_cast<double>(made.bound) : 1.0;
    if (file) file->commit();
    if (asked.output != "-")
        print(fmt::format(
            "buffers  {}\narena    {} bytes\nbound    {} bytes\nratio    {:.6f}\ntime     {:.3f} s\n",
            table.size(), made.bytes, made.bound, ratio, spent.count()));
    return success;
}

} // namespace

int main(int count, char** arguments) {
    std::string about;
    try {
        const arena_options asked = parse_arena_options(count, arguments);
        if (asked.print.empty()) {
            about = shown_input(asked.table) + ": ";
            return run(asked);
        }
        print(asked.print);
        return success;
    } catch (const usage_error& e) {
        complain(fmt::format("{}; see echo-arena --help", e.what()));
        return bad_usage;
    } catch (const std::bad_alloc&) {
        complain(about + "not enough memory for a table of this size");
        return bad_input;
    } catch (const file_error& e) {
        complain(e.what());
        return bad_input;
    } catch (const std::exception& e) {
        complain(about + e.what());
        return bad_input;
    }
}
