#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tables of docs/guide/hosts/{mxnet,mlx}.md, from bench/results. (examples/ggml/run writes that of ggml.md.)"""
import results
from bars import ROOT, load, measured

PAGES = ROOT / "docs" / "guide" / "hosts"


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


def main():
    for name, make in {"mxnet": mxnet, "mlx": mlx}.items():
        result = load(name)
        lines = ["Not measured yet."] if result is None else [measured(result), "", *make(result)]
        section = "\n".join([f"<!-- table: bench/results/{name}.json -->", "", *lines, "", results.END_OF_TABLE])
        print(section)
        results.put_section(PAGES / f"{name}.md", section)


if __name__ == "__main__":
    main()
