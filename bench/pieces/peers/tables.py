#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tables of docs/results/peers.md, from bench/results: tables.py prints it, tables.py FILE writes it into FILE.

In FILE it stands between the line `<!-- table: bench/peers --markdown -->` and the next `<!-- end of table -->`.
"""
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"
sys.path.append(str(RESULTS.parent))

import results  # noqa: E402

BEGIN, END = "<!-- table: bench/peers --markdown -->", results.END_OF_TABLE


def table(head, rows):
    """Columns after the first are aligned to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def value(x, digits=2):
    return "-" if x is None else f"{x:.{digits}f}" if isinstance(x, float) else f"{x:,}"


def percent(x, digits=2):
    return "-" if x is None else f"{100 * x:.{digits}f}"


def measured(bar):
    if bar["limit"] in (0.03, 0.15):
        return f"{percent(bar['value'], 1)} %", f"≤ {percent(bar['limit'], 0)} %"
    if 0 < bar["limit"] < 0.1:
        return value(bar["value"], 4), f"≤ {bar['limit']:g}"
    return value(bar["value"]), f"≤ {bar['limit']:g}"


def verdict(bar):
    """A bar that lies below what is proved for every planner is no fault of one."""
    if bar["passed"]:
        return "passed"
    least = bar.get("least")
    return f"out of reach: proved that none goes below {least:.3f}" if least and least > bar["limit"] else "**failed**"


def verdicts(bars):
    rows = [(bar["bar"], *measured(bar), verdict(bar)) for bar in bars]
    return table(("bar", "measured", "asked", ""), rows)


def where(result):
    return f"{result['date']} on {result['machine']['cores']} cores of an {result['machine']['cpu']}"


def of_fronts(result):
    figures = result["figures"]
    lines = [f"Against PyTorch {result['torch']['torch']}'s partitioner, {figures['points']} points of {figures['models']} graphs, and "
             f"MXNet's mirror; measured on {where(result)}.", ""]
    lines += verdicts(result["bars"])
    lines += ["", "Per graph: Echo's overhead at PyTorch's peaks, as a part of PyTorch's best and of PyTorch's own (geometric means); "
              "what Echo needs at mirror's peak; the time of Echo's whole front, and of one budget of PyTorch's.", ""]
    rows = []
    for model in result["rows"]:
        mirror = model["mirror"]
        rows.append((model["model"], str(model["points lost"]), value(model["of the envelope"]), value(model["of its own"]),
                     f"{mirror['peak'] / 1e6:,.1f}", percent(mirror["overhead"]), percent(mirror["echo"]),
                     f"{model['front_ms']:,.0f}", f"{model['torch_ms']:,.0f}"))
    lines += table(("graph", "points lost", "of the envelope", "of its own", "mirror MB", "mirror %", "Echo there %",
                    "front ms", "PyTorch ms"), rows)
    lines += ["", f"{figures['no time in the envelope']} points need no time in the envelope, and {figures['no time in Echo alone']} "
              "need time in PyTorch and none in Echo: they are not in the means. Without one-bit encodings: "
              f"{figures['without encodings, points lost']} points lost, {value(figures['without encodings, over the envelope'])} of the "
              f"envelope, {value(figures['without encodings, over the own'])} of PyTorch's own.",
              "", "![Echo's fronts and PyTorch's points](../../bench/results/peers-fronts.svg)"]
    return lines


def of_optimum(result):
    figures = result["figures"]
    classes = ", ".join(f"{count} {name}" for name, count in figures["classes"].items())
    return [
        f"Against the optimum proved by {figures['solver']}, {figures['graphs']} graphs of at most 60 nodes with room for less, "
        f"four budgets each; measured on {where(result)}.", "",
        *verdicts(result["bars"]), "",
        f"{figures['proved']} of {figures['levels']} optima are proved, {figures['counted']} need time; Echo's plan is as good in "
        f"{figures['equal']}, more than 3 % above in {figures['above 3 %']}, more than 15 % in {figures['above 15 %']}. As a part of the "
        f"whole step it is {percent(figures['of whole step, mean'], 3)} % above on the mean, "
        f"{percent(figures['of whole step, worst'])} % at worst. The least peak of Echo's front is "
        f"{percent(figures['least peak, mean above'], 1)} % above the least possible on the mean. Where Echo needs more: {classes}."]


def section():
    lines = []
    for name, make in (("peers-fronts", of_fronts), ("peers-optimum", of_optimum)):
        if (RESULTS / f"{name}.json").exists():
            lines += ["", *make(results.load(name))]
    return "\n".join([BEGIN, *lines, "", END])


def main():
    if len(sys.argv) == 1:
        print(section())
        return
    results.put_section(pathlib.Path(sys.argv[1]), section())


if __name__ == "__main__":
    main()
