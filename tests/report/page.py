#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The report of `echo-plan --report` in headless Chromium: what it shows, hover, zoom, sorting, keys, names of controls.

    python3 tests/report/page.py PROGRAM

Returns 77 where Chromium is not installed, or the program was built without uPlot.
"""
from __future__ import annotations

import base64
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import browser

GRAPHS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "graphs"
SKIPPED = 77
FIRST_PAINT_MS = 3000  # of a machine that has other things to do; bench/report measures
NMT_BYTES = 3_000_000


def packed_data(page: str) -> dict:
    """What the page carries."""
    found = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def show_bytes(number: float) -> str:
    """As the page's head says it: three digits that count."""
    unit = next(at for at in range(7) if number < 1024 ** (at + 1))
    value = number / 1024 ** unit
    digits = 0 if unit == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}"


class Page(unittest.TestCase):
    """One report of one graph, in one browser for all tests."""

    program = ""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.resnet = cls.report("resnet50_b64")
        cls.browser = cls.enterClassContext(browser.Browser())

    @classmethod
    def said(cls, *arguments: object) -> str:
        """What the program prints."""
        return subprocess.run([cls.program, *map(str, arguments)], check=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True).stdout

    @classmethod
    def report(cls, graph: str, *more: str) -> pathlib.Path:
        target = pathlib.Path(cls.folder.name, graph)
        subprocess.run([cls.program, GRAPHS / f"{graph}.json.gz", "--report", target, *more], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return target / "index.html"

    def setUp(self) -> None:
        self.browser.open(self.resnet)

    def tearDown(self) -> None:
        self.assertEqual(self.browser.problems(), [])

    def run_js(self, script: str):
        return self.browser.run(script)

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """left, top, width, height of an element, in sight."""
        self.run_js(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        return self.run_js(f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect(); "
                           "return [r.left, r.top, r.width, r.height]; })()")

    def steps_in_sight(self, chart: int = 1) -> list[int]:
        return self.run_js(f"echoReport.charts[{chart}].range")

    def test_the_page_is_whole_and_asks_nothing_of_the_network(self) -> None:
        text = self.resnet.read_text(encoding="utf-8")
        self.assertNotRegex(text, r'(src|href)="(?!#)')
        self.assertNotIn("{{", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))
        self.assertIn("Copyright (c) 2022 Leon Sorokin", text)
        self.assertEqual(packed_data(text)["format"], "echo-report/1")

    def test_curves_reach_the_peaks_of_the_report(self) -> None:
        said = json.loads(self.said(GRAPHS / "resnet50_b64.json.gz", "--json"))
        for mode in ("structure", "layer", "op"):
            self.run_js(f"document.querySelector('#stack input[value={mode}]').click()")
            peaks = self.run_js("echoReport.stack.sides.map((s) => Math.max(...s.total))")
            self.assertEqual(peaks, [said["baseline_peak_bytes"], said["peak_bytes"]], mode)

    def test_hovering_names_the_value_its_maker_and_its_readers(self) -> None:
        left, top, width, height = self.place("#after .u-over")
        self.browser.mouse("mouseMoved", left + 0.55 * width, top + 0.8 * height)
        self.browser.wait_for("!document.querySelector('#after .tip').hidden")
        said = self.run_js("document.querySelector('#after .tip').innerText")
        for word in ("Step ", "Runs ", "Made by aten.", "Read by ", "Feature maps"):
            self.assertIn(word, said)
        self.assertRegex(said, r"\d\s(KiB|MiB|GiB), steps [\d,]+ to [\d,]+")
        self.assertRegex(said, r"running (it|[\d,]+ ops?) again (needs|would take) .*\d\s(µs|ms)")  # why it stays
        self.browser.mouse("mouseMoved", 1, 1)
        self.browser.wait_for("document.querySelector('#after .tip').hidden")

    def test_hovering_over_the_arena_says_why_a_tensor_stays(self) -> None:
        left, top, width, height = self.place("#arena .u-over")
        seen = set()
        for part in (0.3, 0.5, 0.7):
            for level in (0.6, 0.9, 0.97):
                self.browser.mouse("mouseMoved", left + part * width, top + level * height)
                seen.add(self.run_js("document.querySelector('#arena .tip').innerText"))
        self.assertTrue(any("Lies at offset" in text for text in seen), seen)
        self.assertTrue(any("again" in text for text in seen), seen)

    def test_bound_and_gap_are_those_of_the_command(self) -> None:
        said = json.loads(self.said(GRAPHS / "resnet50_b64.json.gz", "--json"))
        bound, peak = said["lower_bound_bytes"], said["peak_bytes"]
        sentence = self.run_js("document.querySelectorAll('.sentences p')[1].textContent")
        self.assertTrue(sentence.endswith(f" than {show_bytes(bound)}. The peak lies {100 * (peak - bound) / bound:.1f} % above "
                                          "that bound."), sentence)
        self.assertIn("no plan within 5 % of recomputation", sentence)
        self.assertEqual(self.tiles()["Above the bound"], [f"{100 * (peak - bound) / bound:.1f} %", f"certified: {show_bytes(bound)}"])

    def test_the_front_has_the_plan_in_its_table_and_its_label(self) -> None:
        graph = "mobilenet_v3_large_b64"
        for percent in ("0.05", "0", "0.12"):
            self.browser.open(self.report(graph, "--max-overhead", percent))
            said = json.loads(self.said(GRAPHS / f"{graph}.json.gz", "--json", "--max-overhead", percent))
            chosen = self.run_js("[...document.querySelectorAll('#steps-table tr.chosen')].map((r) => [...r.cells].map("
                                 "(c) => c.textContent))")
            row = next(mark for mark in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12) if mark >= 100 * said["recompute_time_ratio"])
            self.assertEqual([cells[0] for cells in chosen], [f"the plan: {row} %"])
            label = self.run_js("document.getElementById('front').getAttribute('aria-label')").replace("\u00a0", " ")
            self.assertIn(f"the chosen plan has {show_bytes(said['peak_bytes'])} at {100 * said['recompute_time_ratio']:.2f} %", label)
            rows = self.run_js("percentRows(echoReport.model)")
            least = next(r["least"] for r in rows if r["chosen"])
            self.assertLessEqual(least, said["peak_bytes"])
            self.assertEqual(chosen[0][1].replace("\u00a0", " "), show_bytes(least))

    def test_an_unknown_op_stands_in_the_notes(self) -> None:
        size = [{"dtype": "f32", "shape": [1024]}]
        source = pathlib.Path(self.folder.name, "odd.json")
        source.write_text(json.dumps({"format": "echo-graph/1", "outputs": [[2, 0]], "nodes": [
            {"op": "data", "phase": "input", "inputs": [], "outputs": size},
            {"op": "odd", "phase": "forward", "inputs": [[0, 0]], "outputs": size},
            {"op": "odder", "phase": "backward", "inputs": [[1, 0]], "outputs": size}]}), encoding="utf-8")
        said = json.loads(self.said(source, "--json", "--report", source.with_suffix("")))
        self.assertEqual(said["unknown_ops"], ["odd", "odder"])
        self.browser.open(source.with_suffix("") / "index.html")
        notes = self.run_js("[...document.querySelectorAll('#notes li')].map((li) => li.textContent)")
        self.assertEqual([note for note in notes if note.startswith("Nothing")],
                         [f"Nothing is known of the op {op}: it was left alone." for op in said["unknown_ops"]])

    def test_dragging_zooms_all_charts_and_a_double_click_shows_all(self) -> None:
        begin, steps = self.run_js("[echoReport.model.sides[1].begin, echoReport.model.sides[1].steps]")
        left, top, width, height = self.place("#after .u-over")
        self.browser.drag(left + 0.25 * width, top + 50, left + 0.5 * width, top + 60)
        first, last = self.steps_in_sight()
        self.assertAlmostEqual(first, begin + 0.25 * (steps - begin), delta=0.02 * steps)
        self.assertAlmostEqual(last, begin + 0.5 * (steps - begin), delta=0.02 * steps)
        self.assertEqual(self.steps_in_sight(2), [first, last])
        self.assertLess(self.steps_in_sight(0)[1], 0.75 * self.run_js("echoReport.model.sides[0].steps"))
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.browser.mouse(kind, left + 100, top + 50, button="left", clickCount=count)
        self.assertEqual(self.steps_in_sight(), [begin, steps - 1])

    def test_the_horizontal_axis_can_be_time(self) -> None:
        shown = "echoReport.charts.map((c) => [c.plot.scales.x.min, c.plot.scales.x.max])"
        times = self.run_js("echoReport.model.sides.map((s) => Array.from(s.begins.time))")
        for side in (0, 1):  # a step takes as long as its node; what only packs bits takes no time
            self.assertEqual(times[side][-1], self.run_js(
                f"(({{ node, kind, graph }}) => node.reduce((sum, n, t) => sum + (kind[t] < 2 ? graph.ns[n] : 0), 0))"
                f"(echoReport.model.sides[{side}])"))
        for side, ends in enumerate(self.run_js(shown)[:2]):
            self.assertEqual(ends[1], self.run_js(f"echoReport.model.sides[{side}].steps"))

        self.run_js("document.querySelector('#along input[value=steps]').focus()")
        self.browser.key("ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
        self.assertEqual(self.run_js("document.activeElement.value"), "time")
        for chart, side in ((0, 0), (1, 1), (2, 1)):
            self.assertEqual(self.run_js(shown)[chart][1], times[side][-1])
        for side in (0, 1):
            self.assertEqual(self.run_js(f"Math.max(...echoReport.charts[{side}].plot.data[1])"),
                             self.run_js(f"echoReport.model.sides[{side}].peak"))
            heights = self.run_js(f"echoReport.charts[{side}].plot.data[0]")
            self.assertEqual(heights, sorted(heights))
        tree = self.browser.send("Accessibility.getFullAXTree")["nodes"]
        named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]}
        self.assertLessEqual({("group", "Horizontal axis"), ("radio", "steps"), ("radio", "modelled time")}, named)

        left, top, width, height = self.place("#after .u-over")
        self.browser.mouse("mouseMoved", left + 0.55 * width, top + 0.8 * height)
        self.browser.wait_for("!document.querySelector('#after .tip').hidden")
        self.assertRegex(self.run_js("document.querySelector('#after .tip').innerText"), r"^Step [\d,]+ at [\d.]+\s(µs|ms): ")
        self.browser.drag(left + 0.25 * width, top + 50, left + 0.5 * width, top + 60)
        first, last = self.steps_in_sight()
        begin = times[1][self.run_js("echoReport.model.sides[1].begin")]
        for step, part in ((first, 0.25), (last, 0.5)):
            place = begin + part * (times[1][-1] - begin)
            self.assertTrue(times[1][step] - 0.01 * times[1][-1] <= place <= times[1][step + 1] + 0.01 * times[1][-1], (step, part))
        longest = max(range(first, last), key=lambda step: times[1][step + 1] - times[1][step])
        self.browser.mouse("mouseMoved", 1, 1)  # the cursor follows the mouse while that is over the chart
        self.run_js(f"echoReport.charts[1].step = {longest}")
        for _ in range(40):  # down to a single step, and back
            self.run_js("document.querySelector('[data-zoom=in]').click()")
        self.assertEqual(self.steps_in_sight(), [longest, longest + 1])
        for _ in range(40):
            self.run_js("document.querySelector('[data-zoom=out]').click()")
        self.assertEqual(self.run_js(shown)[1][1], times[1][-1])

    def test_steps_without_times_have_no_axis_of_time(self) -> None:
        graph = {"format": "echo-graph/1", "outputs": [], "nodes": [
            {"op": "data", "phase": "input", "inputs": [], "outputs": [{"bytes": 8}]}]}
        source = pathlib.Path(self.folder.name, "timeless.json")
        source.write_text(json.dumps(graph), encoding="utf-8")
        subprocess.run([self.program, source, "--report", source.with_suffix("")], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        self.browser.open(source.with_suffix("") / "index.html")
        self.assertEqual(self.run_js("getComputedStyle(document.getElementById('along')).display"), "none")

    def test_keys_and_buttons_zoom(self) -> None:
        begin, steps = self.run_js("[echoReport.model.sides[1].begin, echoReport.model.sides[1].steps]")
        self.run_js("document.getElementById('after').focus()")
        self.browser.key("+")
        self.assertLess(self.steps_in_sight()[1] - self.steps_in_sight()[0], 0.6 * steps)
        self.browser.key("ArrowRight")
        self.assertRegex(self.run_js("document.querySelector('#after [role=status]').textContent"), r"^Step [\d,]+: ")
        self.browser.key("0")
        self.assertEqual(self.steps_in_sight(), [begin, steps - 1])
        self.run_js("document.querySelector('[data-zoom=peak]').click()")
        peak = self.run_js("echoReport.model.sides[1].peakStep")
        self.assertTrue(self.steps_in_sight()[0] <= peak <= self.steps_in_sight()[1])

    def test_the_table_of_values_can_be_sorted_and_searched(self) -> None:
        cells = "[...document.querySelectorAll('#values-table tbody tr')].map((r) => r.cells[{}].textContent)"
        rows = "[...document.querySelectorAll('#values-table tbody tr')].length"
        head = "document.querySelectorAll('#values-table th button')[0]"
        self.run_js(f"{head}.click()")
        names = self.run_js(cells.format(0))
        self.assertEqual(names, sorted(names))
        self.assertEqual(self.run_js(f"{head}.parentNode.getAttribute('aria-sort')"), "ascending")
        self.run_js(f"{head}.click()")
        names = self.run_js(cells.format(0))
        self.assertEqual(names, sorted(names, reverse=True))
        self.run_js("const i = document.querySelector('#values-table input[type=search]'); i.value = 'relu_6'; "
                    "i.dispatchEvent(new Event('input'))")
        self.assertTrue(all("relu_6" in text for text in self.run_js(
            "[...document.querySelectorAll('#values-table tbody tr')].map((r) => r.textContent)")))
        self.assertGreater(self.run_js(rows), 0)

    def test_values_that_wait_have_a_reason(self) -> None:
        reasons = self.run_js("echoReport.values.rows.filter((r) => r.waits).map((r) => r.text)")
        self.assertGreater(len(reasons), 40)
        self.assertTrue(any(re.search(r"needs .*\(aten\.convolution\.default\).*: [\d.]+\sms", text) for text in reasons))
        self.assertFalse(any("undefined" in text or "NaN" in text for text in reasons))

    def test_controls_have_names(self) -> None:
        tree = self.browser.send("Accessibility.getFullAXTree")["nodes"]
        controls = [node for node in tree if not node["ignored"]
                    and node["role"]["value"] in ("button", "radio", "checkbox", "searchbox", "application")]
        self.assertGreater(len(controls), 20)
        for node in controls:
            self.assertTrue(node.get("name", {}).get("value"), node)
        self.assertEqual(self.run_js("[...document.querySelectorAll('table')].every((t) => t.caption.textContent)"), True)

    def test_the_switch_changes_the_colours(self) -> None:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = self.run_js(paper)
        self.run_js("document.getElementById('theme').click()")
        self.assertNotEqual(self.run_js(paper), light)
        self.assertEqual(self.run_js("document.getElementById('theme').getAttribute('aria-pressed')"), "true")
        self.browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.browser.open(self.resnet)
        self.assertNotEqual(self.run_js(paper), light)
        self.browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])

    def test_no_words_are_lost_on_a_small_window(self) -> None:
        self.browser.send("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=False)
        self.browser.open(self.resnet)
        self.assertLessEqual(self.run_js("document.documentElement.scrollWidth"), 420)
        self.browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)

        self.browser.send("Emulation.setDeviceMetricsOverride", width=500, height=800, deviceScaleFactor=1, mobile=False)
        self.browser.open(self.resnet)
        cut = "[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1).map((s) => s.innerText)"
        self.assertEqual(self.run_js(cut), [])
        self.assertIn("Why it stays", self.run_js("getComputedStyle(document.querySelector('#values-table td:last-child'), '::before').content"))
        self.browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)

    def test_a_peak_of_one_step_is_seen(self) -> None:
        self.browser.open(self.report("nmt_b128_t50"))
        for chart, side in enumerate(self.run_js("echoReport.model.sides.map((s) => [s.peakStep, s.peak])")):
            step, peak = side
            # The pixels in the middle of the column from half of the peak to nine tenths of it: painted, three wide.
            painted = self.run_js(f"""(() => {{
              const {{ plot, begins, drawn }} = echoReport.charts[{chart}], ratio = devicePixelRatio;
              const x = Math.round(plot.valToPos(drawn.xs[drawn.steps.indexOf({step})], 'x', true));
              const at = (bytes) => Math.round(plot.valToPos(bytes, 'y', true));
              const top = at({peak}), image = plot.ctx.getImageData(x - 2, top, 43, at(0.5 * {peak}) - top);
              const paint = (dx, y) => image.data.slice(4 * ((y - top) * image.width + dx + 2)).slice(0, 4), ground = paint(40, at(0.8 * {peak}));
              const ys = [0.6, 0.7, 0.8, 0.85].map((part) => at(part * {peak}));
              return ys.map((y) => [-2, -1, 0, 1, 2, 3, 4].filter((dx) => paint(dx, y).some((c, i) => Math.abs(c - ground[i]) > 60)).length);
            }})()""")
            self.assertGreaterEqual(min(painted), 3, (chart, painted))
        for part in (0.001, 0.3): # the widened peak takes no other step's place in the data
            self.run_js(f"(() => {{ const s = echoReport.model.sides[1], w = Math.round({part} * s.steps); "
                        "echoReport.zoom(1, s.peakStep - w, s.peakStep + w); })()")
            drawn = self.run_js("(({ xs, steps }) => [xs, steps])(echoReport.charts[1].drawn)")
            self.assertEqual(drawn[0], sorted(drawn[0]))
            self.assertEqual(len(drawn[0]), len(drawn[1]))

    def test_the_plan_lies_on_the_front(self) -> None:
        for graph in ("nmt_b128_t50", "resnet50_b64"):
            self.browser.open(self.report(graph))
            points = self.run_js("echoReport.front.points.map((p) => [p.overhead, p.peak])")
            self.assertEqual(points, sorted(points))
            self.assertEqual([peak for _, peak in points], sorted((peak for _, peak in points), reverse=True))
            plan = self.run_js("[echoReport.model.plan.overhead, echoReport.model.plan.peak]")
            self.assertTrue(plan in points or any(o <= plan[0] and p <= plan[1] for o, p in points), plan)
            self.assertLessEqual(min(peak for overhead, peak in points if overhead <= plan[0]), plan[1])

    def test_the_table_of_values_begins_with_all_of_the_peak(self) -> None:
        for graph in ("nmt_b128_t50", "resnet50_b64"):
            self.browser.open(self.report(graph))
            shown = "echoReport.values.chosenRows().reduce((all, row) => all + row.bytes, 0)"
            peak = self.run_js("[...bytesAtPeak(echoReport.model.sides[1], 'op', 1).values()].reduce((a, b) => a + b, 0)")
            workspace = self.run_js("((s) => s.graph.workspace[s.node[s.peakStep]])(echoReport.model.sides[1])")
            self.assertEqual(self.run_js(shown), peak - workspace)
            said = self.run_js("document.querySelector('#values-table .summary').textContent")
            self.assertRegex(said, r"^[\d,]+ values, .* together$")
            self.run_js("document.querySelector('#values-table input[type=checkbox]').click()")
            self.assertGreater(self.run_js(shown), peak - workspace)

    def test_a_model_without_gradients_has_a_page_of_its_own(self) -> None:
        content = json.loads(gzip.decompress((GRAPHS / "resnet50_b64.json.gz").read_bytes()))
        nodes = [node for node in content["nodes"] if node["phase"] in ("input", "forward")]
        at = {id(node): i for i, node in enumerate(content["nodes"])}
        place = {at[id(node)]: i for i, node in enumerate(nodes)}
        nodes = [node | {"inputs": [[place[n], k] for n, k in node["inputs"]], "control": []} for node in nodes]
        graph, target = pathlib.Path(self.folder.name, "forward.json"), pathlib.Path(self.folder.name, "forward")
        graph.write_text(json.dumps({"format": "echo-graph/1", "name": "forward", "nodes": nodes, "outputs": [[len(nodes) - 1, 0]]}))
        said = json.loads(self.said(graph, "--report", target, "--json"))
        self.browser.open(target / "index.html")
        tiles = self.tiles()
        self.assertEqual(list(tiles), ["Arena", "Above the bound", "Apart", "Peak", "Resident"])
        self.assertEqual((tiles["Arena"][0], tiles["Peak"][0]), (show_bytes(said["arena_bytes"]), show_bytes(said["peak_bytes"])))
        seen = "[...document.querySelectorAll('.chart')].filter((c) => c.checkVisibility()).map((c) => c.id)"
        self.assertEqual(self.run_js(seen), ["after", "arena"])
        text = self.run_js("document.querySelector('main').innerText")
        for word in ("Echo", "again", "What more time", "backward", "Change"):
            self.assertNotIn(word, text.replace("Echo report", ""), word)

    def test_other_plans_and_names(self) -> None:
        for graph, *more in (("tiny_cnn", "--strategy", "baseline"), ("mlp", "--max-overhead", "0"),
                             ("mobilenet_v3_large_b64", "--fuse")):
            self.browser.open(self.report(graph, *more))
            self.assertEqual(self.browser.problems(), [], graph)

    def difference(self, *arguments: object) -> list[dict]:
        """Opens the page of two plans. Returns the figures of each, as `echo-plan diff --json` states them."""
        target = pathlib.Path(self.folder.name, "two")
        said = json.loads(self.said("diff", *arguments, "--report", target, "--json"))
        self.browser.open(target / "index.html")
        return [{row["name"]: row[side] for row in said["figures"]} for side in ("a", "b")]

    def tiles(self) -> dict[str, list[str]]:
        """Figure and note by label."""
        return dict(self.run_js("[...document.querySelectorAll('.tile')].map((t) => [t.querySelector('dt').textContent, "
                                "[t.querySelector('strong').textContent, t.querySelector('span').textContent]])"))

    def check_difference(self, figures: list[dict]) -> None:
        """The tiles, curves and the table of the peaks say what the command says."""
        tiles, (before, after) = self.tiles(), figures
        for label, key in (("Peak", "peak"), ("Without Echo", "peak without Echo"), ("Waits for gradients", "stash"),
                           ("Resident", "resident")):
            self.assertEqual(tiles[label][0], show_bytes(after[key]), label)
            change = "unchanged" if before[key] == after[key] else \
                f"{100 * abs(after[key] / before[key] - 1):.1f} % {'less' if after[key] < before[key] else 'more'}"
            self.assertEqual(tiles[label][1], f"from {show_bytes(before[key])}, {change}", label)
        self.assertEqual(tiles["Recomputation"][0], f"{100 * after['recomputation']:.2f} %")
        self.assertEqual(tiles["Time of a step"][0], f"{after['time of a step'] / 1000:#.4g} ms")
        self.assertTrue(tiles["Time of a step"][1].startswith(f"from {before['time of a step'] / 1000:#.4g} ms"))
        self.assertEqual(self.run_js("echoReport.stack.sides.map((s) => Math.max(...s.total))"),
                         [side["peak"] for side in figures])
        rows = "((s) => [...bytesAtPeak(s, echoReport.mode, echoReport.stack.depth).values()].reduce((a, b) => a + b, 0))"
        self.assertEqual(self.run_js(f"echoReport.model.sides.map({rows})"), [side["peak"] for side in figures])
        self.run_js("document.querySelector('[data-zoom=in]').click()")

    def test_two_graphs(self) -> None:
        pair = [GRAPHS / f"{name}.json.gz" for name in ("resnet50_b64", "mobilenet_v3_large_b64")]
        self.check_difference(self.difference(*pair))
        self.assertEqual(self.run_js("echoReport.model.graphs.length"), 2)

    def test_two_plans_of_one_graph(self) -> None:
        graph, folder = GRAPHS / "resnet50_b64.json.gz", pathlib.Path(self.folder.name)
        plans = [folder / "default.json.gz", folder / "half.json.gz"]
        reports = [json.loads(self.said(graph, "--json", "--emit-plan", plan, *how))
                   for plan, how in zip(plans, ([], ["--budget", "0.5"]))]
        self.check_difference(self.difference(*plans, "--graph", graph))
        self.assertEqual(self.run_js("echoReport.model.graphs.length"), 1)
        sentences = self.run_js("[...document.querySelectorAll('.sentences p')].map((p) => p.textContent)")
        for plan, sentence, report in zip(plans, sentences, reports, strict=True):
            self.assertTrue(sentence.startswith(f"{plan.name}: The peak falls from "), sentence)
            for figure in (show_bytes(report["peak_bytes"]), f"{100 * report['recompute_time_ratio']:.2f} %"):
                self.assertIn(figure, sentence)
        for section in ("values", "again"):
            titles = f"[...document.querySelectorAll('#{section}-table h3')].map((h) => h.textContent)"
            self.assertEqual(self.run_js(titles), [plan.name for plan in plans])
            counts = self.run_js(f"[...document.querySelectorAll('#{section}-table table')].map((t) => t.tBodies[0].rows.length)")
            self.assertTrue(len(counts) == 2 and all(counts), counts)
        times = "[0, 1].map((s) => againRows(echoReport.model, s).reduce((sum, r) => sum + r.ns, 0) / " \
                "echoReport.model.graphs[0].ns.reduce((sum, ns) => sum + ns, 0))"
        for time, report in zip(self.run_js(times), reports, strict=True):
            self.assertAlmostEqual(time, report["recompute_time_ratio"], places=4)
        self.assertEqual(self.run_js("document.getElementById('arena-title').textContent"), "The arena of half.json.gz")
        self.assertIn("Both: the plan was read from a file",
                      self.run_js("[...document.querySelectorAll('#notes li')].map((li) => li.textContent)"))
        lives = self.run_js("Array.from({ length: echoReport.model.sides[0].storages.count }, (_, i) => "
                            "storageLines(echoReport.model, 0, i).join(' '))")
        self.assertTrue(any(text.endswith("more: in half.json.gz it does not wait") for text in lives))
        shown = " ".join([self.run_js("document.querySelector('main').innerText"), *lives])
        for word in ("with Echo", "undefined", "NaN"):
            self.assertFalse(word in shown, word)

    def test_a_large_graph_is_painted_in_time(self) -> None:
        file = self.report("nmt_b128_t50")
        self.assertLessEqual(file.stat().st_size, NMT_BYTES)
        times = []
        for _ in range(3):
            self.browser.open(file)
            times.append(self.browser.first_paint())
        self.assertLessEqual(min(times), FIRST_PAINT_MS)
        self.assertEqual(self.run_js("Math.max(...echoReport.charts[1].plot.data[1])"),
                         self.run_js("echoReport.model.sides[1].peak"))


class Corners(unittest.TestCase):
    def test_graphs_of_next_to_nothing(self) -> None:
        size = [{"bytes": 8}]
        nodes = [{"op": "data", "phase": "input", "inputs": [], "outputs": size},
                 {"op": "odd", "phase": "forward", "inputs": [[0, 0]], "outputs": size}]
        with tempfile.TemporaryDirectory() as folder, browser.Browser() as chromium:
            for count in range(3):
                source = pathlib.Path(folder, "graph.json")
                outputs = [[count - 1, 0]] if count else []
                source.write_text(json.dumps({"format": "echo-graph/1", "nodes": nodes[:count], "outputs": outputs}))
                subprocess.run([Page.program, source, "--report", pathlib.Path(folder, "r")], check=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                chromium.open(pathlib.Path(folder, "r", "index.html"))
                chromium.run("for (const c of document.querySelectorAll('#stack input, #along input, [data-zoom]')) c.click()")
                for part in (0.2, 0.6):
                    chromium.mouse("mouseMoved", 1280 * part, 520)
                self.assertEqual(chromium.problems(), [], count)


class Names(unittest.TestCase):
    def test_what_a_host_calls_its_nodes_is_no_part_of_the_page(self) -> None:
        hostile = "</script><img src=x onerror=alert(1)>\u2028{{data}}&amp;"
        size = [{"dtype": "f32", "shape": [1024]}]
        graph = {"format": "echo-graph/1", "name": hostile, "outputs": [[2, 0]], "nodes": [
            {"name": hostile, "op": "data", "phase": "input", "inputs": [], "outputs": size},
            {"name": hostile, "op": hostile, "layer": hostile, "phase": "forward", "inputs": [[0, 0]], "outputs": size},
            {"name": "b", "op": hostile, "phase": "backward", "inputs": [[1, 0]], "outputs": size}]}
        with tempfile.TemporaryDirectory() as folder, browser.Browser() as chromium:
            source = pathlib.Path(folder, "graph.json")
            source.write_text(json.dumps(graph), encoding="utf-8")
            subprocess.run([Page.program, source, "--report", pathlib.Path(folder, "r")], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            chromium.open(pathlib.Path(folder, "r", "index.html"))
            self.assertEqual(chromium.problems(), [])
            self.assertEqual(chromium.run("document.images.length"), 0)
            self.assertIn("onerror=alert(1)", chromium.run("document.querySelector('h1').textContent"))


def main() -> int:
    Page.program = str(pathlib.Path(sys.argv.pop(1)).resolve())
    if browser.find_chromium() is None:
        print("Skipped: Chromium is not installed (apt-get install chromium)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([Page.program, GRAPHS / "mlp.json.gz", "--report", pathlib.Path(folder, "r")],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if tried.returncode == 2 and "uPlot" in tried.stderr:
        print(f"Skipped: {tried.stderr.strip()}")
        return SKIPPED
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
