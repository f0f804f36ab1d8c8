#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compares Echo with its peers: peers.py fronts|optimum --echo-plan PROGRAM [--stored] [--quick]. See bench/peers."""
import argparse
import datetime
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

import fronts  # noqa: E402
import optimum  # noqa: E402
import results  # noqa: E402

RESULTS = ROOT / "bench" / "results"


def write(name, content):
    """With date and machine."""
    results.save(name, {"date": datetime.date.today().isoformat(), "machine": results.machine(), **content})


def number(value):
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def print_figures(figures, bars):
    for key, value in figures.items():
        print(f"{key}: {', '.join(f'{k} {v}' for k, v in value.items()) if isinstance(value, dict) else number(value)}")
    for bar in bars:
        print(f"{'passed' if bar['passed'] else 'FAILED'}  {bar['bar']}: {number(bar['value'])}, at most {bar['limit']:g}")


def percent(value):
    return "-" if value is None else f"{100 * value:.2f} %"


# ---- Fronts


def compare_fronts(options):
    torch = results.load("peers-torch")
    planner = fronts.Planner(options.echo_plan)
    models = []
    for name, points in torch["models"].items():
        model = fronts.measure(planner, ROOT, name, points)
        models.append(model)
        print(f"{name}, baseline {model['baseline'] / 1e6:.1f} MB; mirror {model['mirror']['peak'] / 1e6:.1f} MB at "
              f"{percent(model['mirror']['overhead'])}, there Echo {percent(model['mirror']['echo'])}; front of {len(model['front'])} "
              f"points in {model['front_ms']:.1f} ms")
        results.table([{
            "budget": row["budget"], "peak MB": round(row["peak"] / 1e6, 1), "PyTorch": percent(row["torch"]),
            "envelope": percent(row["envelope"]), "Echo": percent(row["echo"]), "without encodings": percent(row["echo_no_encode"]),
            "PyTorch ms": round(row["torch_ms"], 1), "Echo ms": row["echo_ms"] and round(row["echo_ms"], 1)} for row in model["points"]])
        print(flush=True)
    figures, bars = fronts.summary(models)
    print_figures(figures, bars)
    for bar in bars:
        for where in bar.get("where", []):
            print(f"  more than the envelope: {where}")
    write("peers-fronts", {"torch": {key: torch[key] for key in torch if key != "models"}, "figures": figures, "bars": bars,
                           "rows": models})
    try:
        import plot
    except ImportError as error:
        print(f"not plotted: {error}")
        return
    plot.fronts(models, torch["models"], RESULTS / "peers-fronts.svg")


# ---- The optimum


def can_solve():
    try:
        import highspy  # noqa: F401
    except ImportError:
        return False
    return True


def compare_optimum(options):
    optima = optimum.Optima(RESULTS / "peers-optima.json.xz", solve=not options.stored and can_solve())
    graphs = optimum.instances(ROOT / "examples" / "graphs", options.quick)
    echo = optimum.Echo(options.echo_plan)
    rows, peaks, unsolved, no_room = [], [], 0, 0
    for kind, graph in graphs:
        found = optima.of(graph)
        if found is None:
            unsolved += 1
            continue
        no_room += found["least"]["status"] == "optimal" and not found["levels"]
        rows += optimum.compare(graph, kind, found, echo)
        peak = optimum.least_peaks(graph, found, echo)
        peaks += [peak] if peak else []
    if optima.solved:
        if not options.quick:
            optima.forget_unused()
        optima.save()
    figures, bars = optimum.summary(rows, peaks)
    figures = {"solver": optimum.SOLVER, "graphs that are not stored": unsolved, "graphs whose least peak is the baseline's": no_room,
               **figures}
    misses = [row for row in rows if row["class"]]
    for row in misses:
        if row["excess"] is None or row["excess"] > optimum.MEAN_BAR:
            excess = "not proved" if row["optimum"] is None else "not met" if row["echo"] is None else \
                "needless" if math.isinf(row["excess"]) else f"{100 * row['excess']:.1f} % more"
            print(f"{row['graph']}, level {row['level']}: {excess}: {row['why'] or row['class']}")
    print_figures(figures, bars)
    for row in misses:
        if row["excess"] is not None and math.isinf(row["excess"]):
            row["excess"] = None
    if not options.quick:
        write("peers-optimum", {"figures": figures, "bars": bars, "rows": misses})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("piece", choices=("fronts", "optimum"))
    parser.add_argument("--echo-plan", required=True, metavar="PROGRAM")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    compare_fronts(options) if options.piece == "fronts" else compare_optimum(options)


if __name__ == "__main__":
    main()
