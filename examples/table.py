#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Plans graphs by default and with every strategy, has each plan judged by tests/replay.py, and prints one row per plan.

    python3 examples/table.py --echo-plan PROGRAM [--markdown] [--no-replay] GRAPH…

With --markdown the rows are kept in bench/results/strategies.json too, and put into docs/results/graphs.md.
Returns 1 if planning fails, if a plan needs more memory than its graph, if the replay refuses one, or if the default
takes more than 5 % of a step or is beaten at that price: no other plan of a graph may take at most 5 % and need less.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))

import results  # noqa: E402

PAGE = ROOT / "docs" / "results" / "graphs.md"
BEGIN, END = "<!-- table: examples/run --markdown -->", results.END_OF_TABLE
REPLAY = ROOT / "tests" / "replay.py"
DEFAULT, PRICE = "budget 5 %", 0.05
WAYS = {DEFAULT: ()} | {name: ("--strategy", name) for name in ("baseline", "mirror", "echo_printed", "echo", "min_cut")}

HEAD = ("graph", "strategy", "before MB", "after MB", "ratio", "gap %", "overhead %", "pass ms", "replay")
WIDTHS = (0, 12, 9, 9, 6, 7, 10, 8, 8)


def graph_name(path):
    return path.name.removesuffix(".gz").removesuffix(".json")


def plan(echo_plan, graph, way, file):
    """The report of the plan that is written to `file`, and what is wrong with it, if anything."""
    command = [echo_plan, str(graph), *WAYS[way], "--emit-plan", str(file)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        return None, f"{' '.join(command)} returned {done.returncode}\n{done.stderr.strip()}"
    report = json.loads(file.read_text(encoding="utf-8"))["report"]
    if report["peak_bytes"] > report["baseline_peak_bytes"]:
        return report, "the plan needs more memory than its graph"
    if report["lower_bound_bytes"] > report["peak_bytes"]:
        return report, "the peak lies below its certified bound"
    return report, None


def replay(graph, file):
    """What the independent judge has against the plan, if anything."""
    done = subprocess.run([sys.executable, str(REPLAY), str(graph), str(file)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"returned {done.returncode}"


def beaten(reports):
    """What is wrong with the default among the reports of one graph, if anything."""
    default = reports[DEFAULT]
    if default["recompute_time_ratio"] > PRICE:
        return f"takes {100 * default['recompute_time_ratio']:.3f} % of a step"
    for way, other in reports.items():
        if other["recompute_time_ratio"] <= PRICE and other["peak_bytes"] < default["peak_bytes"]:
            return (f"needs {default['peak_bytes']} bytes; {way} needs {other['peak_bytes']} bytes for "
                    f"{100 * other['recompute_time_ratio']:.2f} % of a step")
    return None


def cells(name, strategy, report, verdict):
    if report is None:
        return (name, strategy, *["-"] * 6, verdict)
    before, after, bound = (report[f"{key}_bytes"] for key in ("baseline_peak", "peak", "lower_bound"))
    gap = f"{100 * (after - bound) / bound:.1f}" if bound and strategy != "baseline" else "-"
    return (name, strategy, megabytes(before), megabytes(after), f"{before / after:.2f}x" if after else "-", gap,
            f"{100 * report['recompute_time_ratio']:.2f}", f"{report['pass_ms']:.1f}", verdict)


def megabytes(amount):
    return f"{amount / 1e6:.{3 if amount < 10e6 else 1}f}"


def is_left(column):
    return column < 2 or column == len(HEAD) - 1


def section(result):
    """The table of docs/results/graphs.md."""
    lines = ["| " + " | ".join(HEAD) + " |",
             "|" + "|".join("---" if is_left(column) else "--:" for column in range(len(HEAD))) + "|",
             *("| " + " | ".join(row[key] for key in HEAD) + " |" for row in result["rows"])]
    told = f"Printed on {result['date']} on {result['machine']['cores']} cores of an {result['machine']['cpu']}."
    return "\n".join([BEGIN, "", told, "", *lines, "", *result["verdicts"], "", END])


def keep(rows, verdicts):
    """Writes the rows, as they are printed, with the day and the machine, and the page that shows them."""
    result = {**results.stamp(), "rows": rows, "verdicts": verdicts}
    results.save("strategies", result)
    results.put_section(PAGE, section(result))


class Table:
    """Rows are printed as they come: every column has its width from the start, and the graph's is the longest name."""

    def __init__(self, names):
        self.widths = [max(len(name) for name in (*names, HEAD[0])), *WIDTHS[1:]]
        self.rows = []
        self.line(HEAD)

    def row(self, texts):
        self.rows.append(dict(zip(HEAD, texts)))
        self.line(texts)

    def line(self, texts):
        print("  ".join(text.ljust(width) if is_left(column) else text.rjust(width)
                        for column, (text, width) in enumerate(zip(texts, self.widths))).rstrip(), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--echo-plan", required=True, metavar="PROGRAM")
    parser.add_argument("--markdown", action="store_true", help="write docs/results/graphs.md as well")
    parser.add_argument("--no-replay", action="store_true", help="plan only")
    parser.add_argument("graphs", nargs="+", type=pathlib.Path, metavar="GRAPH")
    return parser.parse_args()


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as `head` may have seen enough
    options = parse()
    graphs = sorted(options.graphs, key=graph_name)
    table = Table(list(map(graph_name, graphs)))
    failures, promises, compared = [], [], 0

    # Plans are made one at a time, so that their times are true; one core is left to that, the others replay.
    judges = max(1, (os.cpu_count() or 2) - 1)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(judges) as pool:
        rows = []
        for graph in graphs:
            reports = {}
            for number, way in enumerate(WAYS):
                file = pathlib.Path(folder, f"{graph_name(graph)}.{number}.json")
                report, wrong = plan(options.echo_plan, graph, way, file)
                reports[way] = report
                judged = None if wrong or options.no_replay else pool.submit(replay, graph, file)
                rows.append((graph_name(graph), way, report, wrong, judged))
                while rows and (rows[0][-1] is None or rows[0][-1].done()):
                    print_row(table, rows.pop(0), failures)
            if all(reports.values()):
                compared += 1
                if wrong := beaten(reports):
                    promises.append(f"{graph_name(graph)}, {DEFAULT}: {wrong}")
        for row in rows:
            print_row(table, row, failures)

    print(flush=True)
    for failure in failures + promises:
        print(failure, file=sys.stderr)
    plans = len(graphs) * len(WAYS)
    judgement = "not replayed" if options.no_replay else "accepted by the replay"
    verdicts = [f"{plans - len(failures)} of {plans} plans of {len(graphs)} graphs: {judgement}, and never above the "
                "peak of the graph.",
                f"{compared - len(promises)} of {len(graphs)} graphs: no other plan above that takes at most {100 * PRICE:g} % of "
                "a step needs less memory than the default."]
    print("\n".join(verdicts))
    if options.markdown:
        keep(table.rows, verdicts)
    return 1 if failures or promises else 0


def print_row(table, row, failures):
    name, strategy, report, wrong, judged = row
    if judged is not None:
        wrong = judged.result()
    verdict = ("refused" if judged else "FAILED") if wrong else "accepted" if judged else "-"
    table.row(cells(name, strategy, report, verdict))
    if wrong:
        failures.append(f"{name}, {strategy}: {wrong}")


if __name__ == "__main__":
    sys.exit(main())
