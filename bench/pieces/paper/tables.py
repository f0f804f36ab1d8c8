#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tables of docs/results/paper.md, from bench/results: tables.py prints it, tables.py FILE writes
it into FILE as well, between the line `<!-- table: bench/paper -->` and the next `<!-- end of table -->`."""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"
sys.path.append(str(RESULTS.parent))

import results  # noqa: E402
from evaluate import CONTEXT, DEFAULT_BAR, LIMIT, MODELS, PAPER_LESS_OVERHEAD, PAPER_RATIO, STRATEGIES, WITHIN, WORKSPACE  # noqa: E402

BEGIN, END = "<!-- table: bench/paper -->", results.END_OF_TABLE
AT_MIRROR = "at mirror's peak"
AT_BAR = "at the default's bar"

# Why a simulation of NNVM and this engine's graph differ by more than 2 %.
WHY = {
    ("nmt", "mirror"): "the engine runs a copy just before its first reader and none that nobody reads; NNVM's gradient nodes depend on their copies, "
                       "which run and hold storage though nobody reads them",
    ("transformer", "mirror"): "as for NMT; where NNVM's depth-first order puts the copies of attention was not traced",
    ("ds2", "baseline"): "the stash is that of the references; what lies in the pool beside it are terms of weight gradients, and how many wait "
                         "at once hangs on the order of the backward nodes: NNVM's is depth first, the engine's the reverse of the forward order",
    ("ds2", "mirror"): "the same order, and copies run late, so that Mirror does not raise the footprint on this engine as it did in the paper",
    ("best", "baseline"): "vocabulary and attention size of this model are assumed, on both sides",
    ("best", "mirror"): "as for NMT, and its sizes are assumed",
}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def mib(x):
    return f"{x:,.0f}"


def percent(x, digits=1):
    return f"{100 * x:.{digits}f} %"


def amounts(parts, least=0.01):
    total = sum(parts.values())
    big = {name: part for name, part in parts.items() if abs(part) >= least * total}
    return ", ".join(f"{name} {mib(part)}" for name, part in sorted(big.items(), key=lambda item: -item[1]))


def of_bars(result):
    rows = [(bar["bar"], f"{bar['value']:.2f}" if isinstance(bar["value"], float) else str(bar["value"]), f"{bar['sense']} {bar['limit']:g}",
             "passed" if bar["passed"] else "**failed**") for bar in result["bars"]]
    return table(("bar", "measured", "asked", ""), rows)


def of_footprints(result):
    rows = []
    for row in result["footprints"]:
        cells = [MODELS[row["model"]], mib(row["baseline"]["footprint"]), mib(row["mirror"]["footprint"])]
        for how in STRATEGIES:
            cells.append(f"{mib(row[how]['footprint'])} ({row[how]['ratio']:.2f}×)")
        rows.append((*cells, f"{PAPER_RATIO[row['model']]:.2f}×"))
    mean = result["mean_ratio"]
    lines = ["Footprints as a driver shows them, MiB, and how many times smaller than the baseline's:", ""]
    lines += table(("model", "baseline", "mirror", "default, ≤ 5 % time", "echo", "min_cut", "budget, ≤ 10 % time", "paper's Echo"), rows)
    contexts = ", ".join(f"{MODELS[model]} {CONTEXT[model] + WORKSPACE[model]}" for model in MODELS)
    lines += ["", f"The mean of Echo's ratios is {mean:.2f}× (paper: 1.89×). Baseline and mirror lie in NNVM's pool, the others in Echo's arena. "
              f"Counted beside the graph, MiB: {contexts} (context, and the workspace of convolutions).", ""]
    rows = [(MODELS[row["model"]],
             *(mib(row["baseline"]["graph_mib"]) if key is None else f"{mib(row[key][what])} ({row['baseline']['graph_mib'] / row[key][what]:.2f}×)"
               for key, what in ((None, ""), ("echo", "graph_mib"), ("echo", "pool_of_2"), ("echo", "pool"), ("min_cut", "graph_mib"))),
             mib(row["modern baseline"]), f"{mib(row['modern min_cut'])} ({row['modern baseline'] / row['modern min_cut']:.2f}×)")
            for row in result["footprints"]]
    lines += ["The same without those constants: Echo's plan in its own arena and in NNVM's pool (the paper narrowed the match range to 2), and "
              "against a baseline of today's habits (activations keep their outputs only; Echo's arena for both):", ""]
    lines += table(("model", "baseline", "echo", "echo, pool of 2", "echo, pool of 16", "min_cut", "modern baseline", "modern min_cut"), rows)
    return lines


def of_shortfalls(result):
    lines = []
    for row in result["footprints"]:
        for how in ("echo", "min_cut"):
            bar = next((bar for bar in result["bars"] if bar["bar"].startswith(f"{MODELS[row['model']]}, {how}:")), None)
            if bar is None or bar["passed"]:
                continue
            one = row[how]
            need = row["baseline"]["footprint"] / bar["limit"]
            lines += ["", f"{MODELS[row['model']]} with {how} is {bar['value']:.2f}× smaller, {bar['limit']:g}× were asked for: {mib(one['footprint'])} MiB, "
                      f"{mib(one['footprint'] - need)} too many. Its peak stands at `{one['at']}`: {amounts(one['by_structure'])}. By op, resident ones included: "
                      f"{amounts(one['by_op'], 0.02)}. The peak of {mib(one['peak'])} MiB is {percent(one['peak'] / one['bound'] - 1)} above the bound certified for "
                      f"every plan that runs no compute-heavy op again; `budget`, which may, needs {mib(row['budget']['footprint'])} MiB ({row['budget']['ratio']:.2f}×). Without the constant of "
                      f"{CONTEXT[row['model']] + WORKSPACE[row['model']]} MiB on both sides the ratio is {one['graph_ratio']:.2f}×."]
        if AT_BAR in row:
            one, at_bar = row["default"], row[AT_BAR]
            lines += ["", f"{MODELS[row['model']]} by default is {one['ratio']:.3f}× smaller for {percent(one['recompute'], 2)} of a step, {DEFAULT_BAR[row['model']]:g}× were asked "
                      f"for within {percent(WITHIN['default'], 0)}: {mib(at_bar['footprint'])} MiB ({row['baseline']['footprint'] / at_bar['footprint']:.3f}×) take "
                      f"{percent(at_bar['recompute'], 2)}."]
    return lines


def of_motivation(result):
    one = result["motivation"]
    time = ", ".join(f"{name} {percent(share, 0)}" for name, share in one["time"].items())
    return [f"Where NMT's bytes are (en→vi, batch 128, baseline, {mib(one['footprint'])} MiB): attention, RNN and output take {mib(one['three'])} MiB, "
            f"{percent(one['share'], 0)} (paper: 8.0 GB, 87 %). By layer: {amounts(one['by_layer'])}. By data structure: {amounts(one['by_structure'])}. "
            f"Time by kernel, of the time model: {time} (paper: half in fully-connected layers)."]


def less(row):
    return f"{row['mirror']['recompute'] / row[AT_MIRROR]:.1f}×" if row[AT_MIRROR] > 0 else "no cost"


def of_partition(result):
    rows = [(MODELS[row["model"]], f"{row['baseline']['nodes']:,}", str(row["echo"]["subgraphs"]), str(row["echo"]["largest_subgraph"]),
             f"{row['echo']['again']:,}", str(row["echo"]["encoded"]), percent(row["echo"]["recompute"]), percent(row["min_cut"]["recompute"]),
             percent(row["mirror"]["recompute"]), percent(row[AT_MIRROR], 2), less(row),
             f"{PAPER_LESS_OVERHEAD[row['model']]:g}×", f"{row['echo']['ms']:,.0f} / {row['min_cut']['ms']:,.0f}") for row in result["footprints"]]
    lines = ["What Echo does: subgraphs between compute-heavy ops and the nodes of the largest (paper: 100 to 2,000, small), nodes run again and "
             "values encoded, and what the recomputation costs, as a part of a step of the time model. Light ops of a recurrence are one "
             "subgraph here. At the footprint that Mirror reaches, Echo's budget costs so much less than Mirror; the paper compares Echo's own point. Last the "
             "time of the pass (paper: below 300 ms):", ""]
    return lines + table(("model", "nodes", "subgraphs", "largest", "again", "encoded", "echo", "min_cut", "mirror", "Echo at mirror's peak",
                          "so much less", "paper", "ms, echo / min_cut"), rows)


def of_ablations(result):
    rows = []
    for row in result["ablations"]:
        def lost(key, row=row):
            return percent(1 - row[key] / row["saved"], 0)
        share = 1 - row["dropout kept, no encoding"] / row["dropout kept"]
        rows.append((MODELS[row["model"]], mib(row["saved"]), lost("no estimate"), lost("no gradient dependencies"), lost("no encoding"), percent(share, 0),
                     f"{percent(row['overhead'])} / {percent(row['overhead, no estimate'])}"))
    lines = ["What of Echo's saving goes without a part of it. Without estimation every light op runs again, so the overhead beside it rises; "
             "without gradient dependencies the inputs of compute-heavy ops stay (paper: 35.4 % of NMT's saving); one-bit encodings hardly count "
             "where dropout draws its mask again from its seed, but do where it stays, as in the paper (38 % of Transformer's):", ""]
    return lines + table(("model", "saved, MiB", "no estimate", "no gradient dependencies", "no encoding", "no encoding, dropout kept",
                          "overhead, no estimate"), rows)


def of_series(result):
    hows = ("baseline", "mirror", "echo", "min_cut")
    rows = [(row["what"], *(mib(row[how]) for how in hows), f"{row['baseline'] / row['echo']:.2f}×") for row in result["series"]]
    return ["Footprint against batch and length, MiB (paper: NMT at 256 and WMT de→en at 128 fit 11 GB with Echo alone, DeepSpeech2 at 32 likewise):",
            "", *table(("workload", *hows, "baseline over echo"), rows), "", "![Footprints](../../bench/results/paper-footprints.svg)", "",
            "![Footprint against batch](../../bench/results/paper-batches.svg)"]


def of_most(result):
    rows = [(f"{MODELS[row['model']]}, {row['capacity']}", f"{row['baseline']:,}", f"{row['min_cut']:,}") for row in result["batches"]]
    lines = ["Largest batch (within a hundredth):", "", *table(("", "baseline", "min_cut"), rows), "",
             f"Most layers, Transformer at batch 64, ResNet of 50, 101, 152 or 200 at batch 64; 11 GB are the paper's {LIMIT:,} MiB (paper: 6, 6, 11 and "
             "50, 101, 200):", ""]
    hows = ("baseline", "mirror", "echo", "min_cut")
    rows = [(f"{'Transformer' if row['model'] == 'transformer' else 'ResNet'}, {row['capacity']}", *(str(row[how]) for how in hows))
            for row in result["depths"]]
    return lines + table(("", *hows), rows)


def of_simulated(result):
    rows, why = [], []
    for row in result["simulated"]:
        near = abs(row["off"]) <= 0.02
        rows.append((row["what"], row["how"], f"{row['simulated']:,}", mib(row["measured"]), f"{100 * row['off']:+.1f} %"))
        if not near:
            model = "best" if row["what"].startswith("WMT") else {"NMT": "nmt", "Res": "resnet", "Tra": "transformer", "Dee": "ds2"}[row["what"][:3]]
            why.append(f"{row['what']}, {row['how']} ({100 * row['off']:+.1f} %): {WHY.get((model, row['how']), 'not explained')}.")
    lines = ["Against an independent simulation of NNVM on the authors' graphs, MiB without constants:", "",
             *table(("workload", "", "simulated", "here", "off"), rows), "", "Off by more than 2 %:"]
    return lines + [f"- {one}" for one in why]


def section(result):
    parts = [of_bars, of_footprints, of_shortfalls, of_motivation, of_partition, of_ablations, of_series, of_most, of_simulated]
    lines = [f"The paper's evaluation on the training graphs of examples/engine/models at the paper's sizes, planned, not run; on {result['date']} on "
             f"{result['machine']['cores']} cores of an {result['machine']['cpu']}, {result['seconds']} s in all."]
    for part in parts:
        made = part(result)
        if made:
            lines += ["", *made] if made[0] else made
    return "\n".join([BEGIN, "", *lines, "", END])


def main():
    text = section(json.loads((RESULTS / "paper.json").read_text(encoding="utf-8")))
    print(text)
    if len(sys.argv) == 1:
        return
    results.put_section(pathlib.Path(sys.argv[1]), text)


if __name__ == "__main__":
    main()
