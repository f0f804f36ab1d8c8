#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What a file pays that includes Echo: processor seconds of the compiler, in units of what a file pays that uses the
standard library alone (YARDSTICK). A slower or busier machine lengthens both: they are measured in turns, ROOM is left, and
where a figure is out of its limits it is the least of some rounds. bench/run include-cost writes down seconds and memory.

    python3 tests/include_cost.py G++     fails where a file pays more than LIMITS, or less than half of it
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOM = 1.4  # what a busy machine may add to a ratio: 1.36 was seen, for the largest unit suffers most
ROUNDS = 2

# What planning is made of, in the standard library: containers that grow, sorting, hashing, text.
YARDSTICK = """
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>
struct row { std::string name; std::vector<unsigned> numbers; std::optional<double> time; };
std::string longest(std::vector<row> rows, std::unordered_map<std::string, row>& by_name, std::map<unsigned, row>& sorted) {
    std::sort(rows.begin(), rows.end(), [](const row& a, const row& b) { return a.numbers.size() < b.numbers.size(); });
    std::stable_sort(rows.begin(), rows.end(), [](const row& a, const row& b) { return a.time < b.time; });
    for (const row& r : rows) {
        if (!by_name.try_emplace(r.name, r).second) throw std::runtime_error("'" + r.name + "' stands twice");
        for (const unsigned n : std::span(r.numbers)) sorted[n].numbers.push_back(n);
    }
    return rows.empty() ? std::to_string(sorted.size()) : rows.back().name;
}
"""

# A host of the members that a graph must have, and one function that plans.
HOST = """
#include <echo/analysis/make_plan.hpp>
#include <echo/graph/abilities.hpp>
#include <echo/graph/read.hpp>

#include <vector>

struct op {
    echo::op_facts facts;
    echo::phase phase;
    std::vector<echo::value_of<int>> inputs;
    std::vector<echo::tensor> outputs;
};
struct host {
    std::vector<op> ops;
    std::vector<int> order;
    std::vector<echo::value_of<int>> results;
};
template <>
struct echo::graph_traits<host> {
    using node = int;
    using value = echo::value_of<node>;
    static const auto& nodes(const host& g) { return g.order; }
    static const auto& inputs(const host& g, node n) { return g.ops[static_cast<std::size_t>(n)].inputs; }
    static const auto& outputs(const host& g, node n) { return g.ops[static_cast<std::size_t>(n)].outputs; }
    static echo::phase phase(const host& g, node n) { return g.ops[static_cast<std::size_t>(n)].phase; }
    static const auto& results(const host& g) { return g.results; }
    static op_facts facts(const host& g, node n) { return g.ops[static_cast<std::size_t>(n)].facts; }
};
std::uint64_t peak_of(const host& g) {
    return echo::make_plan(echo::read(g), {.host = echo::abilities<host>()}).report().peak_bytes;
}
"""

UMBRELLA = "#include <echo/echo.hpp>\n"
CORE = ("-DECHO_CORE",)
UNITS = {  # what a file pays for: its text, and the options
    "the umbrella": (UMBRELLA, ()),
    "the umbrella, with echo::core": (UMBRELLA, CORE),
    "read and make_plan": (HOST, ()),
    "read and make_plan, with echo::core": (HOST, CORE),
}
LIMITS = {  # of g++ 12
    "the umbrella": 2.75,
    "the umbrella, with echo::core": 0.85,
    "read and make_plan": 12.0,
    "read and make_plan, with echo::core": 1.65,
}


def cost(compiler: str, text: str, options: tuple[str, ...] = ()) -> tuple[float, float]:
    """Processor seconds and MB of compiling the text with -O2."""
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, "unit.cpp")
        unit.write_text(text, encoding="utf-8")
        command = [compiler, "-std=c++20", "-O2", f"-I{ROOT / 'include'}", *options, "-c", str(unit), "-o",
                   str(unit.with_suffix(".o"))]
        started = subprocess.Popen(["/usr/bin/env", *command])
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise SystemExit(f"{' '.join(command)}: {started.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def fault(name: str, ratio: float) -> str:
    """What is wrong with what a file pays, in yardsticks, or nothing."""
    if ratio > LIMITS[name] * ROOM:
        return "error: more: look for what everyone compiles who includes it"
    return "error: far less: lower the limit" if ratio < LIMITS[name] / 2 else ""


def main(compiler: str) -> int:
    """Exit status: 1 where a file pays more than its limit with the room, or so little that the limit is to be lowered."""
    yardstick = float("inf")
    least = dict.fromkeys(UNITS, float("inf"))
    faults: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name, (text, options) in UNITS.items():
            yardstick = min(yardstick, cost(compiler, YARDSTICK)[0])
            least[name] = min(least[name], cost(compiler, text, options)[0])
        faults = {name: fault(name, seconds / yardstick) for name, seconds in least.items()}
        if not any(faults.values()):
            break
    for name, seconds in least.items():
        print(f"{name}: {seconds / yardstick:.2f} yardsticks of {yardstick:.2f} s, limit {LIMITS[name]}")
        if faults[name]:
            print(faults[name])
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
