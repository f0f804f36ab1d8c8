#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tables of docs/guide/hosts/{mxnet,mlx}.md and docs/onnx.md, from bench/results. (examples/ggml/run writes that of
ggml.md.)"""
import results
from bars import measured
from results import ROOT, load

DOCS = ROOT / "docs"


def mxnet(result):
    lines = ["| model | | MB that MXNet allocates | of the baseline | processor seconds of a step | to plan | same bits |",
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
    lines = ["| how MLX runs it | model | MB | with Echo | ratio | predicted | processor seconds | with Echo | same bits |",
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
    return [*lines, "", f"By {result['runtime']} on one thread, other work on the machine. What is measured lies {min(above):.1f} to "
            f"{max(above):.1f} MB above the prediction; `tests/onnx/run` holds it to that."]


PAGES = {"mxnet": (mxnet, DOCS / "guide" / "hosts" / "mxnet.md"), "mlx": (mlx, DOCS / "guide" / "hosts" / "mlx.md"),
         "onnx": (onnx, DOCS / "onnx.md")}


def section(name):
    """The table of one page."""
    result = load(name)
    lines = ["Not measured yet."] if result is None else [measured(result), "", *PAGES[name][0](result)]
    return "\n".join([f"<!-- table: bench/results/{name}.json -->", "", *lines, "", results.END_OF_TABLE])


def main():
    for name, (_, page) in PAGES.items():
        print(section(name))
        results.put_section(page, section(name))


if __name__ == "__main__":
    main()
