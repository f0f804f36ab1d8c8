#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Every bar of speed, arena, laws, limits, defaults, the report and hosts beside what was measured, and what fused
recomputation saves, from bench/results: prints the tables, and writes them into docs/results. The bars against peers
have a page of their own (bench/peers), and so has what users see first (bench/front_page.py)."""
import results
from results import ROOT, load


def bar(what, value, limit, sense="≤"):
    passed = value >= limit if sense == "≥" else value <= limit
    return {"bar": what, "value": value, "limit": limit, "sense": sense, "passed": passed}


def counters(result, benchmark):
    """What a row of Google Benchmark counted, as numbers, with its `ms`."""
    row = next(row for row in result["rows"] if row["benchmark"].startswith(benchmark))
    return {key: float(value) for key, value in (pair.split("=") for pair in (row["counters"] or "").split())} | {"ms": row["ms"]}


def of_arena(result):
    hard = {limit: counters(result, f"hard/echo_{limit}/all")["geomean"] for limit in ("5s", "0.2s")}
    own = counters(result, "graphs/echo_0.2s/all")
    best = min(counters(result, f"graphs/{peer}/all")["mean_waste_ppm"]
               for peer in ("size_first_fit", "size_best_fit", "xla_decreasing_size", "tvm_hill_climb"))
    return [bar("arena over bound, challenging set A-K, 5 s each, geometric mean", hard["5s"], 1.012),
            bar("the same, 0.2 s each", hard["0.2s"], 1.09),
            bar("arena over bound, plans of all committed graphs, 0.2 s, worst", 1 + own["worst_waste_ppm"] / 1e6, 1.002),
            bar("their mean waste over that of the best greedy planner", own["mean_waste_ppm"] / best, 0.5)]


def of_plan_memory(result):
    worst = max(row["ms"] for row in result["rows"] if row["size"] == 60000)
    return [bar("60,000 buffers at limit 0, ms", worst, 300)]


def of_report(result):
    """Making is what planning and the report take together."""
    made = []
    for graph, words, seconds, megabytes in (("nmt_b128_t50", "report of NMT", 2, 3),
                                             ("transformer_100000", "report of 100,000 steps", 10, 10)):
        row = next(row for row in result["rows"] if row["graph"] == graph)
        made += [bar(f"{words}: planned and made, s", row["planning s"] + row["report s"], seconds),
                 bar(f"{words}, MB", row["MB"], megabytes)]
        if graph == "nmt_b128_t50":
            made += [bar(f"{words}: first paint, ms", row["first paint ms"], 1000),
                     bar(f"{words}: frames/s while zooming", row["zoom frames/s"], 20, "≥")]
    return made


def of_host(name):
    """Those that a host's own run has set, where it has set any."""
    def made(result):
        return [one | {"bar": one["bar"] if one["bar"].startswith(f"{name}: ") else f"{name}: {one['bar']}"}
                for one in result.get("bars", [])]
    return made


SOURCES = {"scaling": lambda result: result["bars"], "arena": of_arena, "plan_memory": of_plan_memory,
           "laws": lambda result: result["bars"], "regret": lambda result: result["bars"],
           "offload": lambda result: result["bars"], "offload-optimum": lambda result: result["bars"],
           "offload-peers": lambda result: result["bars"],
           "default": lambda result: result["bars"], "report": of_report, "ggml": of_host("ggml"),
           "mxnet": of_host("MXNet"), "mlx": of_host("MLX"), "zoo": of_host("PyTorch, models of others"),
           "inductor": of_host("PyTorch under Inductor"), "scripts": of_host("PyTorch, training scripts"),
           "scripts-inductor": of_host("PyTorch, training scripts under Inductor")}


def measured(*loaded):
    """Where and when."""
    days = {}
    for result in loaded:
        cores = result["machine"]["cores"]
        place = f"{cores} {'core' if cores == 1 else 'cores'} of an {result['machine']['cpu']}"
        days.setdefault(place, set()).add(result["date"])
    places = [f"{place} ({', '.join(sorted(found))})" for place, found in sorted(days.items())]
    return f"Measured on {' and on '.join(places)}."


def bars():
    lines = ["| bar | measured | asked | |", "|---|--:|--:|--:|"]
    loaded = {name: result for name in SOURCES if (result := load(name)) is not None and SOURCES[name](result)}
    for name, result in loaded.items():
        for one in SOURCES[name](result):
            sign = one.get("sense", "≥" if one["limit"] >= 1_000_000 else "≤")
            lines.append(f"| {one['bar']} | {one['value']:,.6g} | {sign} {one['limit']:,g} | "
                         f"{'passed' if one['passed'] else '**failed**'} |")
    return [measured(*loaded.values()), "", *lines]


def fused():
    result = load("fused")
    if result is None:
        return ["Not measured yet."]
    lines = ["| graph | peak MB | fused | overhead % | fused | recomputed | of them fused | not written MB |",
             "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        lines.append(f"| {row['graph']} | {row['peak MB']:,.1f} | {row['fused peak MB']:,.1f} | {row['overhead %']:.2f} | "
                     f"{row['fused overhead %']:.2f} | {row['recomputed']} | {row['fused']} | {row['not written MB']:,.1f} |")
    return [measured(result), "", *lines]


def ablation():
    result = load("ablation")
    if result is None:
        return ["Not measured yet."]
    lines = ["| off | peak %, mean | worst | step %, mean | worst | replays | time |", "|---|--:|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        lines.append(f"| {row['off']} | {row['peak %']:+.2f} | {row['worst peak %']:+.1f} ({row['peak of']}) | "
                     f"{row['step %']:+.3f} | {row['worst step %']:+.2f} ({row['step of']}) | {row['replays']:.2f} × | "
                     f"{row['time']:.2f} × |")
    return [measured(result), "", *lines]


def offload():
    result = load("offload")
    if result is None:
        return ["Not measured yet."]

    def time(value):
        return "not met" if value is None else f"{value:.2f}"

    lines = ["| graph | peak MB | recomputation | moves | both | bound | recomputes % | waits % | copies leave % | host MB | "
             "for half: % | with moves | for 40 %: % | with moves |", "|---|" + "--:|" * 13]
    for row in result["rows"]:
        lines.append(f"| {row['graph']} | {row['baseline MB']:,.0f} | {row['recompute MB']:,.0f} | {row['offload MB']:,.0f} | "
                     f"{row['both MB']:,.0f} | {row['bound MB']:,.0f} | {row['recompute %']:.2f} | {row['stall %']:.2f} | "
                     f"{row['out %']:.0f} | {row['host MB']:,.0f} | {time(row['recompute for 50%'])} | {time(row['both for 50%'])} | "
                     f"{time(row['recompute for 40%'])} | {time(row['both for 40%'])} |")
    return [measured(result), "", *lines]


def offload_optimum():
    result = load("offload-optimum")
    if result is None:
        return ["Not measured yet."]
    lines = ["| graphs | link, GB/s | number | proved | Echo's is the optimum | above it %, mean | worst | recomputation alone % | "
             "not proved, better known |", "|---|" + "--:|" * 8]
    names = {"random": "random", "real": "pieces of the committed"}
    for row in result["groups"]:
        lines.append(f"| {names[row['kind']]} | {row['GB/s']} | {row['graphs']} | {row['proved']} | {row['equal']} | "
                     f"{row['above %']:.2f} | {row['worst %']:.1f} | {row['recomputation %']:.1f} | {row['bettered']} |")
    return [measured(result), "", *lines]


def offload_peers():
    result = load("offload-peers")
    if result is None:
        return ["Not measured yet."]

    def cells(row, name):
        if row[f"{name} MB"] is None:
            return "- | - | -"
        mine = row[f"{name}: Echo %"]
        return f"{row[f'{name} MB']:,.0f} | {row[f'{name} %']:.1f} | {'not met' if mine is None else f'{mine:.2f}'}"

    names = ("pytorch", "prefetch", "torchtitan")
    lines = ["| graph | PyTorch MB | adds % | Echo there | with prefetching MB | adds % | Echo there | torchtitan MB | adds % | "
             "Echo there |", "|---|" + "--:|" * 9]
    lines += [f"| {row['graph']} | {' | '.join(cells(row, name) for name in names)} |" for row in result["rows"]]
    lines += ["", "| added time, Echo ÷ peer | geometric mean | graphs | worst | Echo adds none | not met |", "|---|--:|--:|--:|--:|---|"]
    for one, words in zip(result["bars"], ("PyTorch's pass", "with prefetching", "torchtitan's policy"), strict=True):
        lines.append(f"| {words} | {one['value']:.3f} | {one['counted']} | {one['worst']:.2f} | {one['Echo needs none']} | "
                     f"{one['not met'] or '-'} |")
    return [measured(result), "", *lines]


PLACES = {"bars": (bars, "bars"), "fused": (fused, "fused"), "ablation": (ablation, "ablation"), "offload": (offload, "offload"),
          "offload-optimum": (offload_optimum, "offload"), "offload-peers": (offload_peers, "offload")}


def section(name):
    """One of the tables, as its page has it."""
    return "\n".join([f"<!-- table: bench/run {name} -->", "", *PLACES[name][0](), "", results.END_OF_TABLE])


def main():
    for name, (_, page) in PLACES.items():
        print(section(name))
        results.put_section(ROOT / "docs" / "results" / f"{page}.md", section(name))


if __name__ == "__main__":
    main()
