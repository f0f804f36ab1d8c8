#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tables of docs/guide/hosts/{mxnet,mlx}.md, docs/onnx.md and docs/jax.md, from bench/results (examples/ggml/run writes that of
ggml.md), and of all pages of engines their `graph_traits` and how many lines each file of theirs has. Ends with 1 where a
specialisation is too long."""
import re
import sys

import results
from bars import measured
from results import ROOT, load

DOCS = ROOT / "docs"


def mxnet(result):
    lines = ["| model | | MB that MXNet allocates | ÷ baseline | processor seconds of a step | seconds to plan | same bits |",
             "|---|---|--:|--:|--:|--:|---|"]
    base = 1
    for row in result["rows"]:
        if row["way"] == "baseline":
            base = row["megabytes"]
        way = {"baseline": "as it is", "mirror": "its own mirror", "echo": "Echo"}[row["way"]]
        way += "".join(f", {name} {value}" for name, value in row["options"].items())
        lines.append(f"| {row['model']} | {way} | {row['megabytes']:,} | {row['megabytes'] / base:.2f} × | "
                     f"{row['step_seconds']:.2f} | {row['plan_seconds']:.1f} | {'yes' if row['same_bits'] else '**no**'} |")
    return lines


def mlx(result):
    lines = ["| how MLX runs it | model | peak MB | with Echo | with ÷ without | predicted | processor seconds of a step | with Echo | same bits |",
             "|---|---|--:|--:|--:|--:|--:|--:|---|"]
    for row in result["rows"]:
        after = "" if row["echo s"] is None else f"{row['echo s']:.2f}"
        lines.append(f"| {row['way']} | {row['model']} | {row['mlx MB']:.1f} | {row['echo MB']:.1f} | "
                     f"{row['echo MB'] / row['mlx MB']:.2f} × | {row['predicted MB']:.1f} | {row['mlx s']:.2f} | {after} | "
                     f"{'yes' if row['same bits'] else '**no**'} |")
    return lines


def onnx(result):
    lines = ["| model | predicted MB | measured MB | with reuse MB | predicted time | measured time | same bits |",
             "|---|--:|--:|--:|--:|--:|---|"]
    for row in result["rows"]:
        lines.append(f"| {row['model']} | {row['predicted MB']:.1f} | {row['measured MB']:.1f} | {row['with reuse MB']:.1f} | "
                     f"{row['predicted time']:.2f} × | {row['measured time']:.2f} × | {'yes' if row['same bits'] else '**no**'} |")
    above = [row["measured MB"] - row["predicted MB"] for row in result["rows"]]
    return [*lines, "", f"By {result['runtime']} on one thread; the machine was not idle. The measured memory lies {min(above):.1f} to "
            f"{max(above):.1f} MB above the prediction; `tests/onnx/run` checks this limit."]


def jax(result):
    lines = ["| training step | temporary MB | with Echo | without ÷ with | operations added | kernels that run again |",
             "|---|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        again = f"{row['again']} of {row['kernels']}"
        lines.append(f"| {row['model']} | {row['before MB']:.1f} | {row['after MB']:.1f} | {row['before MB'] / row['after MB']:.2f} × | "
                     f"{100 * row['overhead']:.1f} % | {again} |")
    differs = max(1e-6, *(row["differs"] for row in result["rows"] if row["differs"] is not None))
    return [*lines, "", f"By JAX {result['jax']}, {result['compiler']}; at most {100 * result['most overhead']:.0f} % more operations were "
            f"asked for. Gradients after one step agree within {differs:.0e} of the largest one."]


def jax_steps(result):
    lines = ["| step | temporary MB | with Echo | without ÷ with | operations added | values differ by |", "|---|--:|--:|--:|--:|--:|"]
    lines += [f"| {row['step']} | {row['before MB']:.2f} | {row['after MB']:.2f} | {row['before MB'] / row['after MB']:.2f} × | "
              f"{100 * row['overhead']:.1f} % | {row['differs']:.0e} |" for row in result["rows"]]
    kept = sum(bool(row["reason"]) for row in result["rows"])
    return [*lines, "", f"By JAX {result['jax']}, XLA for this CPU, memory scheduler; at most 5 % more operations were asked for. {kept} of "
            f"{len(result['rows'])} run as they were. Differences are in parts of the largest value."]


def jax_for_tpu(result):
    lines = [f"Compiled for {result['topology']} by {result['compiler']}; no TPU was there.", "",
             "| training step | temporary MB, as the compiler states | as Echo reads its buffers | live at the peak |",
             "|---|--:|--:|--:|"]
    lines += [f"| {row['model']} | {row['stated MB']:.1f} | {row['told MB']:.1f} | {row['live MB']:.1f} |" for row in result["explained"]]
    lines += ["", "| training step | as it is, MB | `dots_with_no_batch_dims_saveable` | Echo, as many operations | `nothing_saveable` | "
              "Echo, half of the operations |", "|---|--:|--:|--:|--:|--:|"]
    ways = ("dots_with_no_batch_dims_saveable", "Echo, 1.0 x dots_with_no_batch_dims_saveable", "nothing_saveable",
            "Echo, 0.5 x nothing_saveable")
    rows = {(row["model"], row["way"]): row for row in result["policies"]}
    for name in dict.fromkeys(row["model"] for row in result["policies"]):
        if all((name, way) in rows for way in ways):
            cells = [f"{rows[name, way]['MB']:.1f} ({100 * rows[name, way]['overhead']:+.1f} %)" for way in ways]
            lines.append(f"| {name} | {rows[name, 'as it is']['MB']:.1f} | {' | '.join(cells)} |")
    return [*lines, "", "JAX's policies stand around each layer, or each step of a loop over time. Per cent: operations added."]


PAGES = {"mxnet": (mxnet, DOCS / "guide" / "hosts" / "mxnet.md"), "mlx": (mlx, DOCS / "guide" / "hosts" / "mlx.md"),
         "onnx": (onnx, DOCS / "onnx.md"), "jax": (jax, DOCS / "jax.md"),
         "jax-v5e": (jax_for_tpu, DOCS / "jax.md"), "jax-steps": (jax_steps, DOCS / "jax.md")}


# What joins an engine: its specialisation, that is traits, reading the graph and rewriting it; and what stands around it.
# Facts of ops are a vocabulary of the library where other programs of the same engine can use them too.
LIMIT = 300
SPECIALISED = {
    "ggml": [("examples/ggml/traits.hpp", "`graph_traits`: nodes, inputs, sizes, phases, results, writes, times"),
             ("examples/ggml/graph.hpp", "reads ggml's graph: sources, readers, pairs that ggml fuses, results in place"),
             ("examples/ggml/lay.hpp", "rewrites it: a schedule as tensors of ggml")],
    "mxnet": [("examples/mxnet/host.hpp", "`graph_traits`; shapes from attributes; the marks"),
              ("examples/mxnet/nnvm.hpp", "the effect of marks on the graph: MXNet's gradient pass")],
    "mlx": [("examples/mlx/host.hpp", "facts of primitives, `graph_traits`, the walk over lazy arrays, the planned graph")],
}
AROUND = {
    "ggml": [("include/echo/vocabulary/ggml.hpp", "facts: heavy, light or view, the reads of gradients, results in place"),
             ("examples/ggml/times.hpp", "cost of an op on a CPU"),
             ("examples/ggml/judge.hpp", "asks ggml's allocator (`plan_options::allocator`)"),
             ("examples/ggml/layout.hpp", "proves that the running ggml has the structures that the adapter relies on"),
             ("examples/ggml/choose.hpp", "the options for `make_plan`, and the size of its plan in ggml"),
             ("examples/ggml/engine.hpp", "a table of plans, by graph"),
             ("examples/ggml/hook.cpp", "the function in front of ggml's, linked in or preloaded"),
             ("examples/ggml/settings.hpp", "the environment"),
             ("examples/ggml/report.hpp", "the report")],
    "mxnet": [("include/echo/vocabulary/mxnet.hpp", "facts of ops"),
              ("examples/mxnet/judge.hpp", "the memory of a set of marks, by MXNet's planner"),
              ("examples/mxnet/pass.cpp", "the pass, its options, its messages")],
    "mlx": [("examples/mlx/compare.cpp", "the example: a table of plans by graph, measurements, options")],
}


def lines_of_code(file):
    """Lines that are neither empty nor a comment."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return sum(bool(re.sub(r"//.*", "", line).strip()) for line in text.splitlines())


def specialised(name):
    return sum(lines_of_code(file) for file, _ in SPECIALISED[name])


def too_long():
    """The engines whose specialisation is not under the limit."""
    return [name for name in SPECIALISED if specialised(name) >= LIMIT]


def lines(name):
    """The table of what had to be written for an engine."""
    made = ["| file | lines of code | contents |", "|---|--:|---|"]
    made += [f"| `{file}` | {lines_of_code(file)} | {what} |" for file, what in SPECIALISED[name]]
    made.append(f"| **the specialisation** | **{specialised(name)}** | the part that the author of such an engine writes |")
    made += [f"| `{file}` | {lines_of_code(file)} | {what} |" for file, what in AROUND[name]]
    return "\n".join([f"<!-- table: bench/host_pages lines {name} -->", "", *made, "", results.END_OF_TABLE])


def traits(name):
    """The specialisation of `graph_traits` as the engine's file has it, for readers of the page; the engine's build
    compiles it."""
    file, _ = SPECIALISED[name][0]
    text = (ROOT / file).read_text(encoding="utf-8")
    begin = text.index("template <>\nstruct echo::graph_traits<")
    return "\n".join([f"<!-- table: bench/host_pages traits {name} -->", "", f"From `{file}`:", "", "```c++",
                      text[begin:text.index("\n};\n", begin) + 3], "```", "", results.END_OF_TABLE])


def section(name):
    """The table of one page."""
    result = load(name)
    lines = ["Not measured yet."] if result is None else [measured(result), "", *PAGES[name][0](result)]
    return "\n".join([f"<!-- table: bench/results/{name}.json -->", "", *lines, "", results.END_OF_TABLE])


def main():
    for name, (_, page) in PAGES.items():
        print(section(name))
        results.put_section(page, section(name))
    for name in SPECIALISED:
        print(lines(name))
        results.put_section(DOCS / "guide" / "hosts" / f"{name}.md", lines(name))
        results.put_section(DOCS / "guide" / "hosts" / f"{name}.md", traits(name))
    sys.exit(f"{LIMIT} lines or more: {', '.join(too_long())}" if too_long() else 0)


if __name__ == "__main__":
    main()
