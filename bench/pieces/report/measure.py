#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What a report costs and how fast it is: measure.py [--quick | --picture] ECHO_PLAN. Run by bench/report."""
from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(ROOT / "tests" / "report")]

import browser  # noqa: E402
import libraries  # noqa: E402
import results  # noqa: E402
import tables  # noqa: E402

COMMITTED = ("nmt_b128_t50", "resnet50_b64")
NODES = 100_000  # of the synthetic graph
ROUNDS = 3
FRAMES = 120

# Each frame shows another range of steps, as a drag of the window would. The page's performance timeline has it from there to
# the frame after it, when it was drawn.
ZOOM = """
new Promise((done) => {
  const { steps } = echoReport.model.sides[1];
  let shown = 0;
  const frame = () => {
    if (shown > 0) performance.measure("zoom", "zoom-begins");
    if (++shown > %d) return done(performance.getEntriesByName("zoom").map((one) => one.duration));
    const part = shown / %d, width = steps * (1 - 0.95 * part), from = (steps - width) * part;
    performance.mark("zoom-begins");
    echoReport.zoom(1, Math.floor(from), Math.ceil(from + width) - 1);
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})
""" % (FRAMES, FRAMES)


def processor_seconds(*command: object) -> float:
    """Of user and system, all threads."""
    before = os.times()
    subprocess.run([str(part) for part in command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def making(program: str, graph: pathlib.Path, folder: pathlib.Path, rounds: int) -> dict[str, float]:
    """Planning alone and with the report, by turns; the report's own part is the difference, the front's search in it."""
    alone, both = [], []
    for _ in range(rounds):
        alone.append(processor_seconds(program, graph))
        both.append(processor_seconds(program, graph, "--report", folder))
    return {"planning s": round(statistics.median(alone), 2),
            "report s": round(statistics.median(b - a for a, b in zip(alone, both)), 2)}


def showing(file: pathlib.Path, rounds: int) -> dict[str, float]:
    """What Chromium's own timeline says of the page."""
    paint, charts, ready, rates, slow = [], [], [], [], []
    for _ in range(rounds):
        with browser.Browser(1280, 1000) as page:
            page.open(file)
            mark = "performance.getEntriesByName('{}')[0].startTime"
            paint.append(page.first_paint())
            charts.append(page.run(mark.format("echo-charts")))
            ready.append(page.run(mark.format("echo-ready")))
            frames = page.run(ZOOM)
            rates.append(1000 * len(frames) / sum(frames))
            slow.append(sorted(frames)[int(0.95 * len(frames))])
            if problems := page.problems():
                sys.exit(f"{file}: {problems}")
    return {"first paint ms": round(statistics.median(paint)), "charts ms": round(statistics.median(charts)),
            "all ms": round(statistics.median(ready)), "zoom frames/s": round(statistics.median(rates), 1),
            "slow frame ms": round(statistics.median(slow), 1)}


def row(program: str, graph: pathlib.Path, folder: pathlib.Path, rounds: int) -> dict[str, object]:
    made = making(program, graph, folder, rounds)
    file = folder / "index.html"
    with browser.Browser() as page:
        page.open(file)
        steps = page.run("echoReport.model.sides[1].steps")
    return {"graph": graph.name.removesuffix(".gz").removesuffix(".json"), "steps": steps,
            "MB": round(file.stat().st_size / 1e6, 2)} | made | showing(file, rounds)


def picture(program: str, graph: pathlib.Path, folder: pathlib.Path, target: pathlib.Path) -> None:
    """The head of the report and its charts, stacked by op over time, with the cursor on one."""
    subprocess.run([program, graph, "--report", folder], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with browser.Browser(1200, 1330) as page:
        page.open(folder / "index.html")
        for choice in ("#stack input[value=op]", "#along input[value=time]"):
            page.run(f"document.querySelector('{choice}').click()")
        left, top, width, height = page.run(
            "(() => { const r = document.querySelector('#before .u-over').getBoundingClientRect(); "
            "return [r.left, r.top, r.width, r.height]; })()")
        page.mouse("mouseMoved", left + 0.4 * width, top + 0.6 * height)
        page.wait_for("!document.querySelector('#before .tip').hidden")
        page.run("new Promise((done) => setTimeout(done, 300))")
        page.screenshot(target)
    print(f"written to {target}, {target.stat().st_size // 1000} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("program")
    options = parser.parse_args()
    rounds = 1 if options.quick else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        graphs = [ROOT / "examples" / "graphs" / f"{graph}.json.gz" for graph in COMMITTED]
        if options.picture:
            picture(options.program, graphs[0], folder, ROOT / "docs" / "report.png")
            return
        if not options.quick:
            large = folder / f"transformer_{NODES}.json"
            subprocess.run([sys.executable, ROOT / "bench" / "make_graph.py", "transformer", str(NODES), large],
                           check=True)
            graphs.append(large)
        rows = [row(options.program, graph, folder / "report", rounds) for graph in graphs]
        if options.quick:
            results.table(rows)
            return
        results.write("report", rows, rounds=ROUNDS, load_of_machine=round(os.getloadavg()[1], 1),
                      libraries=libraries.measure(folder))
        tables.main()


if __name__ == "__main__":
    main()
