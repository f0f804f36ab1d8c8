# SPDX-License-Identifier: BSL-1.0
"""Plotting libraries for the report, side by side: how large they are, and how long 100,000 points of a filled curve take
to be drawn, and to be drawn anew with another range. Each comes from a package of PyPI."""
from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import zipfile

import browser

POINTS = 100_000
ROUNDS = 5

# name: package, files in its wheel, what draws `xs` and `ys` in `host`, what shows the range from `a` to `b`
LIBRARIES = {
    "uPlot": ("youplot==1.0.0", ["uplot.iife.min.js"],
              "window.plot = new uPlot({width: 1200, height: 300, scales: {x: {time: false}}, series: [{}, "
              "{stroke: 'navy', fill: 'skyblue'}]}, [xs, ys], host)",
              "plot.setScale('x', {min: a, max: b})"),
    "ECharts": ("vizly==1.0.1", ["echarts.min.js"],
                "window.plot = echarts.init(host, null, {width: 1200, height: 300}); plot.setOption({animation: false, "
                "xAxis: {type: 'value', min: 0, max: xs.length}, yAxis: {type: 'value'}, dataZoom: [{type: 'inside'}], "
                "series: [{type: 'line', showSymbol: false, areaStyle: {}, data: xs.map((x, i) => [x, ys[i]])}]})",
                "plot.dispatchAction({type: 'dataZoom', startValue: a, endValue: b})"),
    "Vega-Lite": ("altair-viewer==0.4.0", ["vega-5.21.0.js", "vega-lite-4.17.0.js", "vega-embed-6.20.0.js"],
                  "window.plot = (await vegaEmbed(host, {width: 1200, height: 300, mark: {type: 'area', clip: true}, "
                  "data: {values: xs.map((x, i) => ({x, y: ys[i]}))}, params: [{name: 'a', value: 0}, "
                  "{name: 'b', value: xs.length}], encoding: {x: {field: 'x', type: 'quantitative', "
                  "scale: {domain: [{expr: 'a'}, {expr: 'b'}], nice: false}}, y: {field: 'y', type: 'quantitative'}}}, "
                  "{renderer: 'canvas', actions: false})).view",
                  "await plot.signal('a', a).signal('b', b).runAsync()"),
    "Plotly": ("plotly==6.3.0", ["plotly.min.js"],
               "await Plotly.newPlot(host, [{x: xs, y: ys, fill: 'tozeroy', mode: 'lines'}], {width: 1200, height: 300}); "
               "window.plot = host",
               "await Plotly.relayout(plot, {'xaxis.range': [a, b]})"),
}

DRAW = """
(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const xs = Array.from({length: %d}, (_, i) => i), ys = xs.map((x) => 1e9 * (1 + Math.sin(x / 9000)) + (x * 7919) %% 5e8);
  const host = document.body.appendChild(document.createElement("div"));
  await frame();
  const began = performance.now();
  %s;
  await frame();
  const drawn = performance.now() - began, gaps = [];
  for (let i = 1; i <= 10; ++i) {
    const a = 1000 * i, b = xs.length - 1000 * i, start = performance.now();
    %s;
    await frame();
    gaps.push(performance.now() - start);
  }
  return [drawn, gaps.sort((p, q) => p - q)[5]];
})()
"""


def scripts_of(package: str, names: list[str], folder: pathlib.Path) -> list[bytes] | None:
    """The scripts in the package's wheel; None where they cannot be had."""
    target = folder / package
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--dest", target, package], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    for wheel in target.glob("*.whl") if done.returncode == 0 else ():
        with zipfile.ZipFile(wheel) as files:
            found = [files.read(inside) for name in names for inside in files.namelist() if inside.endswith("/" + name)]
            if len(found) == len(names):
                return found
    return None


def measure(folder: pathlib.Path) -> list[dict[str, object]]:
    rows = []
    for name, (package, files, draw, zoom) in LIBRARIES.items():
        scripts = scripts_of(package, files, folder)
        if scripts is None:
            print(f"{name}: {package} cannot be had", file=sys.stderr)
            continue
        page = folder / f"{name}.html"
        page.write_bytes(b"<!DOCTYPE html><meta charset=utf-8><body>" + b"".join(b"<script>" + script + b"</script>" for script in scripts))
        drawn, again = [], []
        for _ in range(ROUNDS):
            with browser.Browser(1280, 900) as chromium:
                chromium.open(page, ready="document.readyState === 'complete'")
                first, then = chromium.run(DRAW % (POINTS, draw, zoom))
                drawn.append(first)
                again.append(then)
        rows.append({"library": name, "package": package, "scripts": len(scripts), "kB": round(sum(map(len, scripts)) / 1000),
                     "100,000 points, ms": round(statistics.median(drawn)),
                     "another range, ms": round(statistics.median(again))})
    return rows
