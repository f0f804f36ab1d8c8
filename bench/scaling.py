#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""How planning grows with the graph, file reading apart: scaling.py ECHO_PLAN BENCH_SCALING

For every shape of bench/make_graph.py: the time of the whole pass with `min_cut` per node at each size, the exponent
between the smallest and the largest, and the memory of the whole process, reading included; of the largest the time and
the memory by default, too. Then, by bench/scaling.cpp, which says how it measures, and how committed graphs are tiled to
a size:

one cut  `min_cut` at one anchor distance, laid out and replayed, on committed graphs tiled and on the nmt shape of
         make_graph.py at sentences of 10 to 2000 words. `us per node` is of the slowest distance, its anchors included, and
         what it consists of stands beside it; `prepared` is what is done once for all distances; `first` is a first call
         with that and all allocation; `bytes` are of memory per node and value
budgets  the strategy `budget` at half the baseline's peak, on the committed graphs as they are, on tiled ones and on the
         nmt shape; where that is not met, the time is of the whole search that failed. Beside it, as often as one such
         search takes, the default and a whole front
defaults the default on committed graphs tiled to a million nodes, and the memory of the whole process
bars     the worst of each against its bar. An exponent is the slope of log time over log nodes, by least squares: of each
         tiled graph from 10^4 nodes on, and of the nmt shape over all lengths; of budgets over its lengths from 100 words on,
         below which a budget is searched for longer"""
import json
import math
import os
import subprocess
import sys
import tempfile

import results

SHAPES = ("chain", "light-chain", "fan", "transformer")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
EXPONENT_TO = 100_000
ROUNDS = {1_000: 9, 10_000: 5, 100_000: 3, 1_000_000: 1}

TILED_GRAPHS = ("resnet50_b64", "bert_base_b32_t128", "gpt2_b8_t512", "nmt_b128_t50")
TILED = (10_000, 100_000, 1_000_000)
TILED_BUDGET = (10_000, 100_000)
TILED_DEFAULT = ("resnet50_b64", "mobilenet_v3_large_b64", "nmt_b128_t50", "more/efficientnet_b4_b16")  # to SIZES[-1]
WORDS = (10, 20, 50, 100, 200, 500, 1000, 2000)
WORDS_BUDGET = (50, 100, 200, 500)
SEARCHED_ALIKE = 10_000  # nodes: of all larger graphs here budgets are searched from as many starts
GRAPHS = results.ROOT / "examples" / "graphs"
MAKE_GRAPH = results.ROOT / "bench" / "make_graph.py"


def measure(echo_plan, graph, rounds, *options):
    """The least time of the pass, in ms, and the peak memory of the process, in MB."""
    best, memory = math.inf, 0
    for _ in range(rounds):
        process = subprocess.Popen([echo_plan, graph, *options, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        report = json.load(process.stdout)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"scaling: {echo_plan} failed on {graph}")
        best, memory = min(best, report["pass_ms"]), max(memory, usage.ru_maxrss * 1024 / 1e6)
    return best, memory


def bench(program, what, graph, *nodes):
    command = [program, what, graph, *map(str, nodes)]
    return json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout)


def one_cuts(program):
    """For each graph a list of rows, by size."""
    def row(name, *what):
        one = bench(program, "cut", *what)
        return {"graph": name, "nodes": one["nodes"], "values": one["values"], "us per node": one["us"],
                "anchors": one["anchors_us"], "cut": one["cut_us"], "lay-out and replay": one["replay_us"],
                "median distance": one["median_us"], "prepared": one["prepare_us"], "first": one["first_us"],
                "bytes": one["bytes"]}

    families = [[row(name, GRAPHS / f"{name}.json.gz", size) for size in TILED] for name in TILED_GRAPHS]
    return [*families, [row(name, graph) for name, graph in sentences(WORDS)]]


def sentences(lengths):
    """The nmt shape at each of the lengths: a name, and a file that is there until the next is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "graph.json")
        for words in lengths:
            subprocess.run([sys.executable, MAKE_GRAPH, "nmt", str(words), graph], check=True)
            yield f"nmt, {words} words", graph


def quietest(*rounds):
    """Of each row the one that took least: the rounds lie apart, so a busy minute does not strike all."""
    return [[min(rows, key=lambda row: row["us per node"]) for rows in zip(*families)] for families in zip(*rounds)]


def budget(program, name, *what):
    one = bench(program, "budget", *what)
    return {"graph": name, "nodes": one["nodes"], "us per node": one["us"], "least of": one["runs"],
            "peak/baseline": one["peak"], "met": "yes" if one["met"] else "NO", "overhead": one["overhead"],
            "default": one["default_us"], "front": one["front_us"]}


def least_times(*rounds):
    """Of each row the least of each of its times; the default's and the front's become parts of the budget's."""
    def least(rows):
        what = ("graph", "nodes", "peak/baseline", "met", "overhead")
        if len({tuple(row[key] for key in what) for row in rows}) != 1:
            sys.exit(f"scaling: {rows[0]['graph']}: the plan is another one in another round")
        us, default, front = (min(row[key] for row in rows) for key in ("us per node", "default", "front"))
        row = rows[0] | {"us per node": us, "least of": sum(row["least of"] for row in rows),
                         "default/budget": round(default / us, 2), "front/budget": round(front / us, 2)}
        del row["default"], row["front"]
        return row

    return [[least(rows) for rows in zip(*families, strict=True)] for families in zip(*rounds, strict=True)]


def budgets(program):
    """The rows of the committed graphs, and those of the nmt shape, which are longer and longer."""
    names = sorted(file.name.removesuffix(".json.gz") for file in GRAPHS.glob("*.json.gz"))
    return [[budget(program, name, GRAPHS / f"{name}.json.gz") for name in names],
            [budget(program, name, graph) for name, graph in sentences(WORDS_BUDGET)]]


def tiled_budgets(program):
    return [[budget(program, f"{name}, tiled", GRAPHS / f"{name}.json.gz", size)
             for name in TILED_GRAPHS for size in TILED_BUDGET]]


def tiled_defaults(program):
    return [{"graph": f"{os.path.basename(name)}, tiled"} | bench(program, "default", GRAPHS / f"{name}.json.gz", SIZES[-1])
            for name in TILED_DEFAULT]


def exponent(family):
    x, y = [math.log(row["nodes"]) for row in family], [math.log(row["nodes"] * row["us per node"]) for row in family]
    x0, y0 = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x0) * (b - y0) for a, b in zip(x, y)) / sum((a - x0) ** 2 for a in x)


def bars(shapes, families, searches, lstm, defaults):
    def bar(what, limit, measured):
        value, worst = max((value, name) for name, value in measured)
        return {"bar": what, "value": round(value, 3), "limit": limit, "passed": value <= limit, "on": worst}

    def named(rows, key):
        return [(f"{row['graph']}, {row['nodes']} nodes", row[key]) for row in rows]

    *tiled, nmt = families
    cuts = [row for family in tiled for row in family]
    # Small graphs are searched for longer on purpose: thousands of exchanges, 20 ms in all.
    searches = [row for row in searches if row["nodes"] >= 500]
    all_searches = searches + lstm
    return [bar("one cut, tiled graphs: us per node", 0.5, named(cuts, "us per node")),
            bar("one cut, nmt by length: us per node", 0.5, named(nmt, "us per node")),
            bar("one cut, tiled graphs: exponent", 1.1, [(family[0]["graph"], exponent(family)) for family in tiled]),
            bar("one cut, nmt by length: exponent", 1.1, [("nmt", exponent(nmt))]),
            bar("one cut: bytes per node and value", 400.0, named(cuts + nmt, "bytes")),
            bar("budget, committed and tiled graphs: us per node", 25.0, named(searches, "us per node")),
            bar("budget, nmt by length: us per node", 25.0, named(lstm, "us per node")),
            bar("budget, nmt by length: exponent", 1.1,
                [("nmt", exponent([row for row in lstm if row["nodes"] > SEARCHED_ALIKE]))]),
            bar("the default, of the time of one budget", 3.0, named(all_searches, "default/budget")),
            bar("a front, of the time of one budget", 10.0, named(all_searches, "front/budget")),
            bar("a million nodes by default: s", 60.0, [(row["shape"], row["s by default"]) for row in shapes]),
            bar("a million nodes by default: MB, with the reader", 1000.0,
                [(row["shape"], row["MB by default"]) for row in shapes]),
            bar("the same, tiled graphs: s", 60.0, named(defaults, "s")),
            bar("the same, tiled graphs: MB, with the graph", 1000.0, named(defaults, "MB"))]


def main():
    echo_plan, program = sys.argv[1:]
    rows = []
    for shape in SHAPES:
        row, times = {"shape": shape}, {}
        for size in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                graph = os.path.join(folder, "graph.json")
                subprocess.run([sys.executable, MAKE_GRAPH, shape, str(size), graph], check=True)
                times[size], memory = measure(echo_plan, graph, ROUNDS[size], "--strategy", "min_cut")
                if size == SIZES[-1]:
                    by_default, most = measure(echo_plan, graph, 1)
            row[f"us per node at {size}"] = round(1000 * times[size] / size, 3)
        row["exponent"] = round(math.log(times[EXPONENT_TO] / times[SIZES[0]]) / math.log(EXPONENT_TO / SIZES[0]), 3)
        row["MB at 1000000"] = round(memory)
        row["s by default"], row["MB by default"] = round(by_default / 1000, 1), round(most)
        rows.append(row)
    # In turn, so that the rounds of each lie apart; what is short has more of them.
    rounds = {measured: [] for measured in (one_cuts, budgets, tiled_budgets)}
    for measured in (budgets, one_cuts, budgets, tiled_budgets, one_cuts, budgets, tiled_budgets, one_cuts, budgets):
        rounds[measured].append(measured(program))
    families = quietest(*rounds[one_cuts])
    (committed, lstm), (tiled,) = (least_times(*rounds[measured]) for measured in (budgets, tiled_budgets))
    searches, defaults = committed + tiled, tiled_defaults(program)
    results.write("scaling", rows, exponent=f"of the pass with min_cut from {SIZES[0]} to {EXPONENT_TO} nodes",
                  **{"one cut": [row for family in families for row in family], "budgets": searches + lstm,
                     "defaults": defaults, "bars": bars(rows, families, searches, lstm, defaults)})


if __name__ == "__main__":
    main()
