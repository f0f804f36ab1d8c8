#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Calls `echo-plan` as its users do: exit codes, one line per error, files written whole or not at all.

    python3 echo_plan.py PROGRAM
"""
import gzip
import json
import os
import pathlib
import pickle
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import amounts
import command

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import replay  # noqa: E402

GRAPHS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "graphs"
STRATEGIES = ["budget", "baseline", "mirror", "echo", "echo_printed", "min_cut"]
REPORT_KEYS = ["baseline_peak_bytes", "peak_bytes", "resident_bytes", "baseline_stash_bytes", "stash_bytes",
               "lower_bound_bytes", "arena_bytes", "arena_lower_bound_bytes", "recomputed_nodes", "encoded_values",
               "fused_nodes", "recompute_time_ratio", "subgraphs", "plan_ms", "pass_ms", "load_ms", "unknown_ops", "notes"]


def small_graph():
    """x → mm → tanh → mm, and back: tanh is worth recomputing, `odd` is an op that no registry knows."""
    def node(op, phase, inputs, **more):
        return {"name": f"n{len(nodes)}", "op": op, "phase": phase, "inputs": inputs,
                "outputs": [{"dtype": "f32", "shape": [1024]}]} | more
    nodes = []
    nodes.append(node("data", "input", []))
    nodes.append(node("aten.mm.default", "forward", [[0, 0]]))
    nodes.append(node("aten.tanh.default", "forward", [[1, 0]]))
    nodes.append(node("odd", "forward", [[2, 0]]))
    nodes.append(node("aten.mm.default", "backward", [[3, 0], [1, 0]]))
    nodes.append(node("aten.tanh_backward.default", "backward", [[4, 0], [2, 0]]))
    return {"format": "echo-graph/1", "name": "small", "nodes": nodes, "outputs": [[5, 0]]}


class Plan(command.Command):
    name = "echo-plan"

    def setUp(self):
        super().setUp()
        self.graph = self.write("graph.json", json.dumps(small_graph()))

    def bad_graph(self, content, *words, name="bad.json"):
        path = self.write(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
        self.bad(1, path, "--emit-plan", self.folder / "plan.json", words=(str(path), *words))

    # Good input

    def test_summary(self):
        text = self.good(self.graph)
        for word in ("small, 6 nodes", "budget: the least peak within 5 % of recomputation", "peak", "arena",
                     "(no plan within 5 % of recomputation that runs each gradient once, in its order, is smaller; gap ",
                     "unknown op  odd"):
            self.assertIn(word, text)
        for arguments, *words in ((["--max-overhead", "0.025"], "peak within 2.5 % of", "no plan within 2.5 % of"),
                                  (["--budget", "20KiB"], "recomputation within 20.0 KiB", "(no plan that runs each"),
                                  (["--strategy", "min_cut"], "min_cut\n", "recomputes light ops only"),
                                  (["--strategy", "baseline"], "baseline\n", "nothing is changed")):
            text = self.good(self.graph, *arguments)
            for word in words:
                self.assertIn(word, text)

    def test_the_default_is_the_least_peak_within_five_per_cent(self):
        graph = GRAPHS / "resnet50_b64.json.gz"
        plans = [self.under(graph, *arguments)[1]["schedule"]
                 for arguments in ([], ["--max-overhead", "0.05"], ["--strategy", "budget"])]
        self.assertEqual(plans[0], plans[1])
        self.assertEqual(plans[0], plans[2])
        report, plan, _ = self.under(graph)
        self.assertEqual(plan["strategy"], "budget")
        self.assertLessEqual(report["recompute_time_ratio"], 0.05)
        for named in STRATEGIES[1:]:
            other, _, _ = self.under(graph, "--strategy", named)
            if other["recompute_time_ratio"] <= 0.05:
                self.assertLessEqual(report["peak_bytes"], other["peak_bytes"])

    def test_notes_are_printed(self):
        graph = GRAPHS / "nmt_b128_t50.json.gz" # more nodes than are searched from all starts
        (note,) = json.loads(self.good(graph, "--json"))["notes"]
        self.assertIn(f"\nnote        {note}\n", self.good(graph))
        self.assertIn(f"\nnote: {note}\n", self.good(graph, "--knee"))
        self.assertNotIn("note", self.good(self.graph))

    def test_json_is_the_report_alone(self):
        report = json.loads(self.good(self.graph, "--json"))
        self.assertEqual(list(report), REPORT_KEYS)
        self.assertEqual(report["unknown_ops"], ["odd"])
        self.assertEqual(report["fused_nodes"], 0)
        self.assertLessEqual(report["lower_bound_bytes"], report["peak_bytes"])
        self.assertLessEqual(report["peak_bytes"], report["baseline_peak_bytes"])
        self.assertLessEqual(report["arena_lower_bound_bytes"], report["arena_bytes"])
        self.assertGreater(report["pass_ms"], 0)
        self.assertGreater(report["load_ms"], 0)

    def test_compressed_is_the_same(self):
        packed = self.write("graph.json.gz", gzip.compress(self.graph.read_bytes()))
        def figures(path):
            report = json.loads(self.good(path, "--json"))
            return {key: value for key, value in report.items() if not key.endswith("_ms")}
        self.assertEqual(figures(self.graph), figures(packed))

    def test_every_strategy(self):
        graph = GRAPHS / "tiny_cnn.json.gz"
        reports = json.loads(self.good(graph, "--compare", "--json"))
        self.assertEqual([report["strategy"] for report in reports], STRATEGIES)
        for report in reports:
            self.assertEqual(set(report), {"strategy", *REPORT_KEYS})
            self.assertLessEqual(report["peak_bytes"], report["baseline_peak_bytes"])
            alone = json.loads(self.good(graph, "--strategy", report["strategy"], "--json"))
            self.assertEqual(alone["peak_bytes"], report["peak_bytes"])
        rows = self.good(graph, "--compare").splitlines()
        self.assertEqual([row.split()[0] for row in rows], ["strategy", *STRATEGIES])
        self.assertEqual(len({len(row) for row in rows}), 1)

    def test_without_encoding(self):
        graph = GRAPHS / "tiny_cnn.json.gz"
        self.assertGreater(json.loads(self.good(graph, "--json"))["encoded_values"], 0)
        self.assertEqual(json.loads(self.good(graph, "--json", "--no-encode"))["encoded_values"], 0)

    def test_emitted_plan(self):
        file = self.folder / "plan.json"
        report = json.loads(self.good(self.graph, "--emit-plan", file, "--json", "--strategy", "echo"))
        plan = json.loads(file.read_text())
        self.assertEqual(plan["format"], "echo-plan/1")
        self.assertEqual((plan["graph"], plan["strategy"]), ("small", "echo"))
        self.assertEqual(plan["report"], report)
        self.assertEqual(sum(not step.get("recompute") for step in plan["schedule"]), 6)
        self.assertEqual(plan["arena"]["bytes"], report["arena_bytes"])
        self.assertTrue(plan["arena"]["blocks"])
        self.assertTrue(plan["stash"])

        again = self.folder / "again.json.gz"
        self.good(self.graph, "--emit-plan", again, "--strategy", "echo")
        repeated = json.loads(gzip.decompress(again.read_bytes()))
        for key in ("schedule", "stash", "arena"):
            self.assertEqual(repeated[key], plan[key])

    def test_compared_plans_write_the_chosen_one(self):
        file = self.folder / "plan.json"
        self.good(self.graph, "--compare", "--strategy", "mirror", "--emit-plan", file)
        self.assertEqual(json.loads(file.read_text())["strategy"], "mirror")
        self.good(self.graph, "--compare", "--emit-plan", file)
        self.assertEqual(json.loads(file.read_text())["strategy"], "budget")

    def test_dot(self):
        file = self.folder / "graph.dot"
        self.good(GRAPHS / "tiny_cnn.json.gz", "--dot", file)
        text = file.read_text()
        self.assertTrue(text.startswith("digraph") and text.rstrip().endswith("}"))
        for word in ("recomputed", "stashed", "encoded"):
            self.assertIn(word, text)

    def test_trace(self):
        file, plan = self.folder / "trace.json", self.folder / "plan.json"
        report = json.loads(self.good(GRAPHS / "tiny_cnn.json.gz", "--trace", file, "--emit-plan", plan, "--json"))
        events = json.loads(file.read_text())["traceEvents"]
        steps = json.loads(plan.read_text())["schedule"]
        for process, peak in ((1, report["baseline_peak_bytes"]), (2, report["peak_bytes"])):
            mine = [event for event in events if event["pid"] == process]
            live = [sum(event["args"].values()) for event in mine if event["ph"] == "C"]
            self.assertEqual(max(live), peak)
            runs = [event for event in mine if event["ph"] == "X"]
            self.assertEqual(len(runs), len(live))
            ends = [event["ts"] + event["dur"] for event in runs]
            self.assertTrue(all(abs(end - event["ts"]) < 1e-6 * (1 + end) for end, event in zip(ends, runs[1:])))
        self.assertEqual(len(runs), len(steps))
        self.assertEqual(sum(event["cat"] == "recompute" for event in runs), report["recomputed_nodes"])

    def test_output_may_be_no_regular_file(self):
        self.good(self.graph, "--emit-plan", "/dev/null")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_output_replaces_what_was_there(self):
        file = self.write("plan.json", "old")
        file.chmod(0o600)
        self.good(self.graph, "--emit-plan", file)
        self.assertEqual(json.loads(file.read_text())["format"], "echo-plan/1")
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)

    def test_help(self):
        for flag in ("--help", "-h"):
            page = self.good(flag)
            for word in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "--strategy",
                         "--budget", "--max-overhead", "--fuse", "--no-encode", "--offload", "--host-budget", "--json", "--emit-plan", "--dot", "--trace",
                         "--report", "--memory-snapshot", "diff", "--compare", "--pareto", "--knee", "--max-bytes", *STRATEGIES):
                self.assertIn(word, page)
            self.assertLessEqual(max(map(len, page.splitlines())), 80)
        self.assertRegex(self.good("--version"), r"^echo-plan \d+\.\d+\.\d+\n$")

    # Budgets

    @staticmethod
    def committed(name):
        file = GRAPHS / f"{name}.json.gz"
        return file, json.loads(gzip.decompress(file.read_bytes()))

    def under(self, graph, *arguments, status=0):
        """The report and the plan under a budget; the plan is replayed by another program."""
        file = self.folder / "budget.json"
        done = self.call(graph, "--json", "--emit-plan", file, *arguments, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        report, plan = json.loads(done.stdout), json.loads(file.read_text())
        verdict = replay.judge(replay.load(str(graph)), plan)
        self.assertTrue(verdict.ok, verdict.lines())
        return report, plan, done.stderr

    def test_a_budget_is_met_at_less_cost_the_larger_it_is(self):
        for name in ("bert_base_b32_t128", "resnet50_b64", "tiny_cnn"):
            graph, _ = self.committed(name)
            before = None
            for ratio in (0.9, 0.8, 0.7):
                report, plan, _ = self.under(graph, "--budget", str(ratio))
                self.assertEqual(plan["strategy"], "budget")
                self.assertLessEqual(report["peak_bytes"], ratio * report["baseline_peak_bytes"])
                self.assertLessEqual(report["lower_bound_bytes"], report["peak_bytes"])
                if before:
                    self.assertLessEqual(report["peak_bytes"], before["peak_bytes"])
                    self.assertGreaterEqual(report["recompute_time_ratio"], before["recompute_time_ratio"])
                before = report

    def test_budgets_in_bytes_and_units_are_the_same(self):
        graph, _ = self.committed("bert_base_b32_t128")
        plans = [self.under(graph, "--budget", text)[1]["schedule"]
                 for text in ("3221225472", "3072MiB", "3GiB", "3 GiB", "3221225.472kB", "3221225472B")]
        for plan in plans[1:]:
            self.assertEqual(plan, plans[0])

    def test_a_graph_that_fits_is_left_alone(self):
        graph, content = self.committed("tiny_cnn")
        for text in ("1.0", "100%", "1TiB", "1e15"):
            report, plan, _ = self.under(graph, "--budget", text)
            self.assertEqual(report["peak_bytes"], report["baseline_peak_bytes"])
            self.assertEqual([step["node"] for step in plan["schedule"]], list(range(len(content["nodes"]))))

    def test_a_budget_that_cannot_be_met(self):
        graph, _ = self.committed("bert_base_b32_t128")
        report, _, said = self.under(graph, "--budget", "1GiB", status=3)
        self.assertEqual(len(said.splitlines()), 1)
        for word in (str(2**30), str(report["peak_bytes"]), str(report["lower_bound_bytes"]), "_log_softmax"):
            self.assertIn(word, said)

    def test_another_strategy_is_measured_by_the_budget(self):
        graph, _ = self.committed("bert_base_b32_t128")
        self.assertEqual(self.under(graph, "--strategy", "echo", "--budget", "0.9")[1]["strategy"], "echo")
        for named in ("mirror", "min_cut"):
            alone, plan, _ = self.under(graph, "--strategy", named)
            measured, again, _ = self.under(graph, "--strategy", named, "--budget", "0.5", status=3)
            self.assertEqual(plan["schedule"], again["schedule"])
            self.assertEqual(measured["budget_bytes"], alone["baseline_peak_bytes"] // 2)
            self.assertEqual(self.under(graph, "--strategy", named, "--budget", "0.9")[1]["schedule"], plan["schedule"])

    def test_overhead_at_most(self):
        graph, _ = self.committed("bert_base_b32_t128")
        peaks = []
        for overhead in ("0", "0.01", "0.05"):
            report, _, _ = self.under(graph, "--max-overhead", overhead)
            self.assertLessEqual(report["recompute_time_ratio"], float(overhead) + 1e-12)
            peaks.append(report["peak_bytes"])
        self.assertEqual(peaks, sorted(peaks, reverse=True))
        graph, _ = self.committed("tiny_cnn")
        ratio, percent, many = (self.under(graph, "--max-overhead", text)[1]["schedule"] for text in ("0.04", "4%", "400%"))
        self.assertEqual(ratio, percent)
        self.assertNotEqual(ratio, many)

    def test_the_front(self):
        graph, _ = self.committed("resnet50_b64")
        found = json.loads(self.good(graph, "--pareto", "--json"))
        front = found["front"]
        self.assertEqual(found["graph"], "resnet50 b64")
        self.assertGreaterEqual(len(front), 10)
        self.assertLessEqual(front[0]["peak_bytes"], found["baseline_peak_bytes"])
        self.assertEqual(front[0]["recompute_time_ratio"], 0)
        for a, b in zip(front, front[1:]):
            self.assertGreater(a["peak_bytes"], b["peak_bytes"])
            self.assertLess(a["recompute_time_ratio"], b["recompute_time_ratio"])
        self.assertLessEqual(found["lower_bound_bytes"], front[-1]["peak_bytes"])
        self.assertIn("overhead %", self.good(graph, "--pareto"))

    def test_moves_to_the_hosts_memory(self):
        graph, own = self.committed("resnet50_b64")
        alone = json.loads(self.good(graph, "--json"))
        plan = self.folder / "moves.json"
        self.good(graph, "--offload", "25GB/s", "--emit-plan", plan)
        verdict = replay.judge(own, json.loads(plan.read_text()))
        self.assertEqual([], verdict.violations)
        self.assertEqual([], verdict.unchecked)
        moved = json.loads(plan.read_text())["report"]
        self.assertLess(moved["peak_bytes"], alone["peak_bytes"])
        self.assertLessEqual(moved["recompute_time_ratio"] + moved["stall_time_ratio"], 0.05)
        self.assertLessEqual(moved["lower_bound_bytes"], moved["peak_bytes"])
        self.assertEqual(json.loads(self.good(graph, "--plan", plan, "--json"))["stall_time_ratio"], moved["stall_time_ratio"])
        self.assertIn("values", self.good(graph, "--plan", plan))
        alone_without = {key: value for key, value in json.loads(plan.read_text()).items() if key != "link"}
        self.bad(1, graph, "--plan", self.write("no_link.json", json.dumps(alone_without)), words=("link: is missing",))
        little = json.loads(self.good(graph, "--offload", "25 GB/s", "--host-budget", "100MB", "--json"))
        self.assertLessEqual(little["host_bytes"], 100_000_000)
        self.assertLess(moved["peak_bytes"], little["peak_bytes"])
        trace = self.folder / "trace.json"
        self.good(graph, "--offload", "25GB/s", "--trace", trace)
        threads = [event.get("tid") for event in json.loads(trace.read_text())["traceEvents"]]
        self.assertEqual(threads.count(3), moved["offloaded_values"])
        self.assertGreaterEqual(threads.count(4), threads.count(3))
        self.assertIn("nothing is moved", self.good(self.graph, "--offload", "1kB/s"))
        for wrong in (["--offload", "0GB/s"], ["--offload", "25GB"], ["--offload", "fast"], ["--host-budget", "1GB"],
                      ["--offload", "25GB/s", "--strategy", "min_cut"], ["--offload", "1GB/s", "--plan", plan]):
            with self.subTest(wrong):
                self.bad(2, graph, *wrong, words=(wrong[0],) if "--plan" not in wrong else ())

    def test_what_moves_leave_at_the_peak_is_recomputed(self):
        """Without that the plan of a U-Net would need 2,136 MB, and that of a ViT would lie 3 % above its bound."""
        alone, moved = (self.under(GRAPHS / "more" / "unet_b16.json.gz", *asked)[0] for asked in ((), ("--offload", "25GB/s")))
        self.assertLess(moved["peak_bytes"], 0.7 * alone["peak_bytes"])
        self.assertLessEqual(moved["recompute_time_ratio"] + moved["stall_time_ratio"], 0.05)
        moved = self.under(GRAPHS / "vit_b16_b32.json.gz", "--offload", "25GB/s")[0]
        self.assertLess(moved["peak_bytes"], 1.001 * moved["lower_bound_bytes"])

    def test_the_bound_knows_that_what_is_away_leaves_before_the_peak(self):
        """A third of a step runs before the peak: half of what the link carries in all cannot have left by then."""
        report = self.under(GRAPHS / "resnet152_b32.json.gz", "--offload", "25GB/s")[0]
        self.assertLess(report["peak_bytes"], 1.3 * report["lower_bound_bytes"])

    def test_the_knee(self):
        for name, *more in (("more/squeezenet_b128",), ("mlp", "--fuse"), ("tiny_cnn", "--no-encode")):
            with self.subTest(name):
                graph, _ = self.committed(name)
                found = json.loads(self.good(graph, "--knee", "--json", *more))
                self.assertEqual(list(found), ["graph", "baseline_peak_bytes", "pass_ms", "knee"])
                points = found["knee"]
                self.assertEqual([point["max_overhead"] for point in points], [0.01, 0.02, 0.05, 0.1])
                for point in points:
                    self.assertLessEqual(point["recompute_time_ratio"], point["max_overhead"])
                    self.assertLessEqual(point["lower_bound_bytes"], point["peak_bytes"])
                    self.assertLessEqual(point["peak_bytes"], found["baseline_peak_bytes"])
                for a, b in zip(points, points[1:]):
                    self.assertGreaterEqual(a["peak_bytes"], b["peak_bytes"])
                default = json.loads(self.good(graph, "--json", *more))
                for key in ("peak_bytes", "recompute_time_ratio", "lower_bound_bytes"):
                    self.assertEqual(points[2][key], default[key])
                head, *rows = self.good(graph, "--knee", *more).splitlines()
                self.assertEqual(head.split("  ")[0], "within %")
                self.assertEqual([row.split()[0] for row in rows[:4]], ["1", "2", "5", "10"])
                self.assertEqual({len(row) for row in rows[:4]}, {len(head)})
        empty = self.write("empty.json", '{"format": "echo-graph/1", "nodes": [], "outputs": []}')
        self.assertEqual(len(json.loads(self.good(empty, "--knee", "--json"))["knee"]), 4)
        self.good(empty, "--knee")

    # Fusion

    def test_fusion(self):
        def fused_of(plan):
            return [step for step in plan["schedule"] if step.get("fused")]
        cut = ("--strategy", "min_cut")
        plain, plan, _ = self.under(self.graph, *cut)
        self.assertEqual((plain["fused_nodes"], fused_of(plan)), (0, []))
        self.assertEqual(plain["recomputed_nodes"], 1)
        report, plan, _ = self.under(self.graph, *cut, "--fuse")
        self.assertEqual(fused_of(plan), [{"node": 2, "recompute": True, "fused": True}])
        self.assertEqual((report["fused_nodes"], report["recomputed_nodes"]), (1, 1))
        self.assertEqual(report["recompute_time_ratio"], 0)
        self.assertLessEqual(report["peak_bytes"], plain["peak_bytes"])
        self.assertIn("recomputed in its readers", self.dot(*cut, "--fuse"))
        self.assertNotIn("recomputed in its readers", self.dot(*cut))
        default, plan, _ = self.under(self.graph)
        self.assertEqual((default["recomputed_nodes"], fused_of(plan)), (0, [])) # to make it again takes more than 5 %
        self.assertEqual(self.under(self.graph, "--fuse")[1]["schedule"], self.under(self.graph, *cut, "--fuse")[1]["schedule"])

    def dot(self, *arguments):
        file = self.folder / "fused.dot"
        self.good(self.graph, "--dot", file, *arguments)
        return file.read_text()

    def test_fusion_makes_nothing_worse(self):
        light = ["--strategy", "echo"], ["--strategy", "min_cut"]
        for name, ways in (("resnet50_b64", light), ("densenet121_b32", light), ("bert_base_b32_t128", light),
                           ("more/unet_b16", [["--budget", "0.7"]])):
            graph, _ = self.committed(name)
            for how in ways:
                with self.subTest(name, how=how):
                    plain, _, _ = self.under(graph, *how)
                    report, _, _ = self.under(graph, *how, "--fuse")
                    self.assertGreater(report["fused_nodes"], 0)
                    self.assertLess(report["recompute_time_ratio"], plain["recompute_time_ratio"])
                    most = 0.7 * plain["baseline_peak_bytes"] if "--budget" in how else plain["peak_bytes"]
                    self.assertLessEqual(report["peak_bytes"], most)
                    self.assertLessEqual(report["lower_bound_bytes"], report["peak_bytes"])

    def test_fusion_is_shown(self):
        graph = GRAPHS / "more" / "squeezenet_b128.json.gz"
        self.assertIn("\nfused ", self.good(graph, "--fuse"))
        self.assertNotIn("fused", self.good(graph))
        head, *rows = (line.split() for line in self.good(graph, "--fuse", "--compare").splitlines())
        self.assertEqual([row[0] for row in rows], STRATEGIES)
        self.assertIn("fused", head)
        self.assertNotIn("fused", self.good(graph, "--compare"))
        graph = GRAPHS / "densenet121_b32.json.gz"
        for report in json.loads(self.good(graph, "--fuse", "--compare", "--json")):
            self.assertEqual(report["fused_nodes"] > 0, report["recomputed_nodes"] > 0)

    def test_the_front_with_fusion(self):
        graph = GRAPHS / "tiny_cnn.json.gz"
        plain = json.loads(self.good(graph, "--pareto", "--json"))["front"]
        found = json.loads(self.good(graph, "--pareto", "--json", "--fuse"))
        for a in plain:
            self.assertTrue(any(b["peak_bytes"] <= a["peak_bytes"] and b["recompute_time_ratio"] <= a["recompute_time_ratio"]
                                for b in found["front"]))
        for a, b in zip(found["front"], found["front"][1:]):
            self.assertGreater(a["peak_bytes"], b["peak_bytes"])
            self.assertLess(a["recompute_time_ratio"], b["recompute_time_ratio"])
        self.assertLessEqual(found["lower_bound_bytes"], found["front"][-1]["peak_bytes"])

    def test_wishes_to_keep(self):
        graph, content = self.committed("resnet50_b64")
        names = [node["name"] for node in content["nodes"]]
        _, plan, said = self.under(graph, "--budget", "0.5", "--keep", "*native_batch_norm*", "--keep", "no such*")
        again = {names[step["node"]] for step in plan["schedule"] if step.get("recompute")}
        self.assertTrue(again)
        self.assertFalse([name for name in again if "native_batch_norm" in name])
        self.assertEqual(len(said.splitlines()), 1)
        self.assertIn("no such*", said)

    # Bad usage

    def test_usage(self):
        for arguments in ([], ["--unknown"], ["--strategy"], ["--strategy", "best"], ["--strategy="],
                          ["--emit-plan"], ["--emit-plan="], ["--dot="], ["--trace="], ["--dot", "x", "--trace", "x"], ["second.json"], ["--jso"],
                          ["--emit-plan", "x", "--dot", "x"], ["--strategy", "a\nb"]):
            with self.subTest(arguments):
                self.bad(2, *([self.graph] if arguments else []), *arguments)

    def test_no_file_is_written_over_the_graph_or_another_output(self):
        before = self.graph.read_bytes()
        link, hard = self.folder / "link.json", self.folder / "hard.json"
        link.symlink_to(self.graph.name)
        hard.hardlink_to(self.graph)
        names = [self.graph, f"{self.folder}/./graph.json", f"{self.folder}/../{self.folder.name}/graph.json", link, hard]
        for option in ("--emit-plan", "--dot", "--trace", "--memory-snapshot"):
            for name in names:
                with self.subTest(option, name=str(name)):
                    self.assertIn(f"{option} would overwrite the graph", self.bad(2, self.graph, option, name))
            self.assertIn("would overwrite", self.bad(2, link, option, self.graph))
        for dot in ("new", "./new", f"../{self.folder.name}/new"):
            self.bad(2, self.graph, "--emit-plan", self.folder / "new", "--dot", f"{self.folder}/{dot}", words=("same file",))
        self.assertEqual(self.graph.read_bytes(), before)
        self.good(self.graph, "--emit-plan", self.write("graph.json.plan", ""), "--dot", self.folder / "none.dot")

    def test_outputs_are_seen_through_links(self):
        real, target = self.folder / "real", self.folder / "real" / "out.json"
        real.mkdir()
        (self.folder / "folder").symlink_to("real")
        (self.folder / "loose").symlink_to("real/out.json") # leads to a file that is not there yet
        (self.folder / "twice").symlink_to("loose")
        ways = [target, self.folder / "folder" / "out.json", f"{self.folder}/./real/../folder/./out.json",
                self.folder / "loose", self.folder / "twice", os.path.relpath(target)]
        for one in ways:
            for other in ways:
                self.bad(2, self.graph, "--emit-plan", one, "--dot", other, words=("--emit-plan and --dot name the same file",))
        self.good(self.graph, "--emit-plan", self.folder / "twice")
        self.assertTrue((self.folder / "loose").is_symlink() and (self.folder / "twice").is_symlink())
        self.assertEqual(json.loads(target.read_text())["format"], "echo-plan/1")
        self.assertEqual([file.name for file in real.iterdir()], ["out.json"])
        self.bad(2, self.graph, "--plan", target, "--emit-plan", self.folder / "twice", words=("the plan that is read",))
        around = self.folder / "around"
        around.symlink_to("around")
        self.bad(1, self.graph, "--emit-plan", around)
        self.bad(1, self.graph, "--emit-plan", self.folder / "folder" / "none" / "out.json")

    def test_standard_input_and_output(self):
        content = self.graph.read_bytes()
        plan = self.folder / "plan.json"
        wanted = json.loads(self.good(self.graph, "--json", "--emit-plan", plan))["peak_bytes"]
        for given in (content, gzip.compress(content)):
            done = self.call("-", "--json", input=given)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(json.loads(done.stdout)["peak_bytes"], wanted)
        def same(text):
            found = json.loads(text)
            return {key: found[key] for key in ("format", "graph", "schedule", "stash", "arena")}
        for out in ("-", "/dev/stdout"):
            self.assertEqual(same(self.good(self.graph, "--emit-plan", out)), same(plan.read_text()))
        self.assertTrue(self.good(self.graph, "--dot", "-").startswith("digraph"))
        held = self.folder / "held.json" # what standard output goes to is no file to be replaced
        with held.open("wb") as file:
            done = self.call(self.graph, "--emit-plan", held, stdout=file)
        self.assertEqual((done.returncode, same(held.read_text())), (0, same(plan.read_text())))
        done = self.call(self.graph, "--plan", "-", "--json", input=plan.read_bytes())
        self.assertEqual(json.loads(done.stdout)["peak_bytes"], wanted)
        for sides, more in ((("-", self.graph), {"input": content}), ((plan, "-"), {"input": plan.read_bytes()}),
                            ((plan, plan, "--graph", "-"), {"input": content})):
            done = self.call("diff", *sides, "--fail-above", "0%", **more)
            self.assertEqual((done.returncode, done.stderr), (0, b""), sides)
        for arguments, word in ((("-", "--plan", "-"), "--plan"), (("diff", "-", "-"), "standard input"),
                                ((self.graph, "--emit-plan", "-", "--dot", "-"), "same file"),
                                ((self.graph, "--emit-plan", "-", "--json"), "both write to standard output"),
                                ((self.graph, "--dot", "-", "--compare"), "both write to standard output"),
                                ((self.graph, "--report", "-"), "--report")):
            self.bad(2, *arguments, words=(word,))
        with self.graph.open("rb") as file: # what standard input comes from is not written over
            done = self.call("-", "--emit-plan", self.graph, stdin=file, text=True)
        self.assertEqual((done.returncode, self.graph.read_bytes()), (2, content))
        for given, words in ((b"{", "echo-plan: standard input: "), (b"", "echo-plan: standard input: "), (content[:90], "JSON")):
            done = self.call("-", input=given)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))
            self.assertIn(words, done.stderr.decode())
        done = self.call("-", "--dim", "a=1", input=content)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--dim", done.stderr)

    def test_a_signal_leaves_no_file(self):
        graph = GRAPHS / "nmt_b128_t50.json.gz"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            out = self.folder / "deep" / "r"
            out.parent.mkdir(exist_ok=True)
            arguments = [graph, "--strategy", "mirror", "--emit-plan", self.folder / "p.json"]
            self.ends_by(number, *arguments, "--trace", self.folder / "t.json.gz",
                         before=lambda: any(file.suffix == ".tmp" for file in self.folder.iterdir()))
            if self.can_report():
                shutil.rmtree(self.folder / "try")
                self.ends_by(number, *arguments, "--report", out, before=out.exists)
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN) # as nohup does
        with subprocess.Popen([self.program, graph, "--strategy", "mirror", "--emit-plan", self.folder / "p.json"],
                              stdout=subprocess.DEVNULL, preexec_fn=ignore) as running:
            time.sleep(0.05)
            running.send_signal(signal.SIGHUP)
            self.assertEqual(running.wait(60), 0)

    def test_words_about_arguments(self):
        for arguments, words in (
                ([], "GRAPH is missing"), (["-v"], "there is no option -v (did you mean --version?)"),
                (["--bugdet", "1"], "there is no option --bugdet (did you mean --budget?)"),
                ([self.graph, "--js"], "(did you mean --json?)"), ([self.graph, "--xyzzy"], "there is no option --xyzzy;"),
                ([self.graph, "a", "b", "c"], "not expected: 'a', 'b', 'c'; give GRAPH and options"),
                ([self.graph, "--budget"], "--budget needs a value"), ([self.graph, "--dim"], "--dim needs a value"),
                ([self.graph, "--budget", "0.5", "--budget", "0.6"], "--budget is given more than once"),
                ([self.graph, "--json=3"], "--json takes no value"), (["diff"], "A is missing"),
                (["diff", self.graph], "B is missing"), (["diff", self.graph, self.graph, "x"], "not expected: 'x'; give A B and"),
                ([self.graph, "--emit-plan", "--json"], "--emit-plan needs a value, and --json is an option"),
                (["diff", self.graph, "-v"], "see echo-plan diff --help"), ([self.graph, "--budget", "-1"], "--budget -1: is negative")):
            with self.subTest(arguments):
                line = self.bad(2, *arguments, words=(words,))
                for word in ("TEXT", "required", "received"):
                    self.assertNotIn(word, line)

    def test_a_line_is_short_however_long_a_name_is(self):
        for name in ("n" * 1_000_000, "two words " * 100_000, "it's " * 100_000, "\x1b" * 300_000, "ä€😀" * 100_000):
            graph = small_graph()
            graph["nodes"][3] |= {"name": name, "inputs": [[9, 0]]}
            self.bad_graph(graph, "node '", "inputs: reads node 9", "put nodes in execution order")
            graph = small_graph()
            graph["nodes"][3] |= {"name": name, "op": name, "layer": name}
            path = self.write("long.json", json.dumps(graph))
            self.assertLess(max(map(len, self.good(path).splitlines())), 400)
            self.assertLess(max(map(len, self.good("diff", path, path).splitlines())), 400)
        self.bad(2, self.graph, "--budget", "9" * 100_000 + "x", words=("--budget 999", "..."))
        self.bad(2, self.graph, "--strategy", "x" * 100_000, words=("none of baseline",))
        self.bad(2, *["x" * 1000] * 100, words=("GRAPH and options; see echo-plan --help",))

    def test_an_empty_graph_has_no_figures_that_are_none(self):
        empty = {"format": "echo-graph/1", "nodes": [], "outputs": []}
        zero = empty | {"nodes": [{"op": "x", "phase": phase, "inputs": [], "outputs": [{"bytes": 0}]}
                                  for phase in ("input", "forward", "backward")]}
        for content in (empty, zero):
            graph, plan = self.write("empty.json", json.dumps(content)), self.folder / "empty.plan"
            self.good(graph, "--emit-plan", plan)
            for arguments in ([], ["--json"], ["--compare"], ["--compare", "--fuse"], ["--pareto"], ["--pareto", "--json"],
                              ["--knee"], ["--knee", "--json"], ["--plan", plan], ["--budget", "0.5"], ["--trace", "-"],
                              ["--dot", "-"], ["--strategy", "baseline"]):
                self.assertNotRegex(self.good(graph, *arguments), r"\b-?(nan|inf)\b", arguments)
            self.assertNotRegex(self.good("diff", graph, graph), r"\b-?(nan|inf)\b")
            self.assertNotRegex(self.good("diff", graph, self.graph), r"\b-?(nan|inf)\b")

    def test_diff_names_files_where_names_are_equal(self):
        for folder in ("old", "new"):
            (self.folder / folder).mkdir()
            (self.folder / folder / "g.json").write_bytes(self.graph.read_bytes())
        one, other = self.folder / "old" / "g.json", self.folder / "new" / "g.json"
        self.assertTrue(self.good("diff", one, other).startswith(f"A: {one}\nB: {other}\n"))
        self.assertEqual(json.loads(self.good("diff", one, other, "--json"))["b"], str(other))
        renamed = self.write("renamed.json", json.dumps(small_graph() | {"name": "other"}))
        self.assertTrue(self.good("diff", one, renamed).startswith("A: small\nB: other\n"))

    def test_a_given_plan_states_no_goal(self):
        plan = self.folder / "plan.json"
        for how in (["--max-overhead", "50%"], ["--strategy", "min_cut"], ["--strategy", "baseline"], ["--strategy", "min_cut", "--fuse"]):
            made = json.loads(self.good(self.graph, "--emit-plan", plan, "--json", *how))
            text = self.good(self.graph, "--plan", plan)
            self.assertIn(f"\nplan        read from {plan}\n", text)
            self.assertIn("(no plan that runs each gradient once, in its order, is smaller; gap ", text)
            self.assertIn(f"\noverhead    {100 * made['recompute_time_ratio']:.2f} % ", text)
            for word in ("budget", "least", "within", "min_cut", "baseline", "strategy"):
                self.assertNotRegex(text, rf"\b{word}\b(?! \d)", how)

    # Other ways out

    def can_report(self):
        return self.call(self.graph, "--report", self.folder / "try").returncode == 0

    def test_a_report_is_the_same_file_twice_and_whole_or_not_there(self):
        if not self.can_report():
            self.skipTest("built without uPlot")
        first, second = self.folder / "a", self.folder / "b"
        self.good(self.graph, "--report", first)
        self.good(self.graph, "--report", second)
        self.assertEqual((first / "index.html").read_bytes(), (second / "index.html").read_bytes())
        self.assertEqual([file.name for file in first.iterdir()], ["index.html"])
        self.bad(1, self.graph, "--report", self.graph, words=("cannot be a folder",))
        self.bad(1, self.graph, "--report", self.folder / "no" / "such", words=("cannot be a folder",))
        self.bad(1, self.graph, "--report", self.folder / "c", "--emit-plan", self.folder)
        self.bad(2, self.graph, "--report", "", words=("names no folder",))
        self.bad(2, self.graph, "--pareto", "--report", self.folder / "c", words=("--report",))
        (self.folder / "full").mkdir()
        (self.folder / "full" / "index.html").mkdir()
        self.bad(1, self.graph, "--report", self.folder / "full", words=("is a directory",))
        index = first / "index.html"
        (first / "g.json").write_bytes(self.graph.read_bytes())
        index.unlink()
        index.hardlink_to(first / "g.json")
        self.bad(2, first / "g.json", "--report", first, words=("--report would overwrite the graph",))

    def test_curves_of_memory_in_the_summary(self):
        for language, wanted in (("C.UTF-8", "█"), ("C", "9")):
            done = subprocess.run([self.program, self.graph], stdin=subprocess.DEVNULL, capture_output=True, check=True,
                                  env={"LC_ALL": language})
            lines = [line for line in done.stdout.decode().splitlines() if line.endswith((" without Echo", " with Echo"))]
            self.assertEqual(len(lines), 2)
            self.assertIn(wanted, lines[0])

    def test_a_memory_snapshot_allocates_what_the_plan_needs(self):
        for graph in (self.graph, GRAPHS / "mobilenet_v3_large_b64.json.gz"):
            file = self.folder / "snapshot.pickle"
            report = json.loads(self.good(graph, "--memory-snapshot", file, "--json"))
            found = pickle.loads(file.read_bytes())
            held, live, peak = {}, 0, 0
            for event in found["device_traces"][0]:
                if event["action"] == "alloc":
                    self.assertNotIn(event["addr"], held)
                    held[event["addr"]] = event["size"]
                    live += event["size"]
                elif event["action"] == "free_completed":
                    live -= held.pop(event["addr"])
                peak = max(peak, live)
            arena, workspace, resident = found["segments"]
            self.assertEqual(peak, report["peak_bytes"])
            self.assertEqual((arena["total_size"], resident["total_size"]), (report["arena_bytes"], report["resident_bytes"]))
            self.assertEqual(sum(held.values()), arena["allocated_size"])
            for segment in found["segments"]:
                at = segment["address"]
                for block in segment["blocks"]:
                    self.assertEqual(block["address"], at)
                    at += block["size"]
                self.assertEqual(at, segment["address"] + segment["total_size"])
            self.assertTrue(held.keys() <= {b["address"] for b in arena["blocks"] if b["state"] == "active_allocated"})

    def test_a_plan_that_was_made_elsewhere(self):
        plan, again = self.folder / "plan.json", self.folder / "again.json"
        for graph in (self.graph, GRAPHS / "mobilenet_v3_large_b64.json.gz"):
            made = json.loads(self.good(graph, "--emit-plan", plan, "--json", "--max-overhead", "0.1"))
            read = json.loads(self.good(graph, "--plan", plan, "--json", "--emit-plan", again))
            for key in ("peak_bytes", "baseline_peak_bytes", "stash_bytes", "recompute_time_ratio", "recomputed_nodes",
                        "encoded_values", "resident_bytes", "unknown_ops"):
                self.assertEqual(read[key], made[key], key)
            self.assertLessEqual(read["lower_bound_bytes"], read["peak_bytes"])
            self.assertEqual(json.loads(again.read_text())["schedule"], json.loads(plan.read_text())["schedule"])
        order = [{"node": n} for n in range(6)]
        bare = self.write("bare.json", json.dumps({"format": "echo-plan/1", "schedule": order}))
        self.assertEqual(json.loads(self.good(self.graph, "--plan", bare, "--json"))["recomputed_nodes"], 0)
        wrong = self.write("wrong.json", json.dumps({"format": "echo-plan/1", "schedule": order[:3]}))
        self.bad(1, self.graph, "--plan", wrong, words=(f"echo-plan: {wrong}: ",))
        self.bad(1, self.graph, "--plan", self.graph, words=("only plans of the format echo-plan/1 are read",))
        for more in (["--budget", "0.5"], ["--compare"], ["--knee"], ["--no-encode"], ["--keep", "x"]):
            self.bad(2, self.graph, "--plan", plan, *more)

    def test_a_malformed_plan_is_refused_in_one_line_that_names_the_step(self):
        def step(number, **changes):
            def change(plan):
                plan["schedule"][number] |= changes
            return change

        plan = self.folder / "plan.json"
        self.good(self.graph, "--emit-plan", plan)
        sound = json.loads(plan.read_text())
        last = len(sound["schedule"])
        wrongs = {
            "format: is 'echo-plan/2'; ": lambda p: p.update(format="echo-plan/2"),
            "format: missing; ": lambda p: p.pop("format"),
            "schedule: missing; ": lambda p: p.pop("schedule"),
            "schedule: expected an array, got a number; ": lambda p: p.update(schedule=7),
            "step 1, schedule: expected an object, got a number; ": lambda p: p["schedule"].__setitem__(1, 7),
            "step 1, node: names node 999 which the graph has not; ": step(1, node=999),
            "step 1, node: is negative; ": step(1, node=-1),
            "step 1, node: expected a whole number, got a text; ": step(1, node="x"),
            "step 1, recompute: expected true or false, got a text; ": step(1, recompute="yes"),
            "step 1, inputs: names step 99 which does not stand earlier; ": step(1, inputs=[[99, 0]]),
            "step 0, fused: ": step(0, fused=True),
            f"step {last}, encode: expected [step, output]; ": lambda p: p["schedule"].append({"encode": [0]}),
            f"step {last}, node: missing; give node, encode, offload or reload": lambda p: p["schedule"].append({}),
            f"stash: names step 999 of a schedule with {last}; ": lambda p: p.update(stash=[[999, 0]]),
            "align: is 0; ": lambda p: p["arena"].update(align=0),
            f"blocks: names step 999 of a schedule with {last}; ": lambda p: p["arena"]["blocks"][0].update(step=999),
            "node 'n5', schedule: runs in no step": lambda p: p.update(schedule=p["schedule"][:-1], stash=[], arena={"bytes": 0, "blocks": []}),
            "schedule: its peak of 20480 bytes is above that of the graph's own order, 16384; ":
                lambda p: p["schedule"].append({"node": 4, "recompute": True}),
            "step 0, node: ": lambda p: p["schedule"].reverse()}
        for words, change in wrongs.items():
            plan_now = json.loads(json.dumps(sound))
            change(plan_now)
            wrong = self.write("wrong.json", json.dumps(plan_now))
            line = self.bad(1, self.graph, "--plan", wrong, words=(f"echo-plan: {wrong}: {words}",))
            self.assertEqual(line.count("; "), 1, line)  # a problem and what to do
        for text in ("", "{", "[]", json.dumps(sound)[:200]):
            wrong = self.write("wrong.json", text)
            self.bad(1, self.graph, "--plan", wrong, words=(f"echo-plan: {wrong}: ",))

    def test_an_error_names_the_file_that_it_is_about(self):
        for option, name in (("--emit-plan", "none/p.json"), ("--trace", "none/t.json"), ("--report", "none/r"),
                             ("--plan", "none.json")):
            file = self.folder / name
            self.bad(1, self.graph, option, file, words=(f"echo-plan: {file}: ",))
        self.bad(2, self.graph, "--keep", "", words=("--keep names nothing",))
        full = self.bad(1, self.graph, "--emit-plan", "/dev/full", words=("echo-plan: /dev/full: ",))
        self.assertIn("has room", full)
        packed = self.write("packed.json", gzip.compress(self.graph.read_bytes()))
        self.bad(1, packed, words=("is compressed, but its name does not end in .gz",))

    def test_diff(self):
        other = small_graph()
        other["nodes"][2]["outputs"][0]["shape"] = [2048]
        larger = self.write("larger.json", json.dumps(other))
        same = self.good("diff", self.graph, self.graph, "--fail-above", "0%")
        self.assertIn("+0.00 %", same)
        self.assertIn("at the peak, by layer", same)
        done = self.call("diff", self.graph, larger, "--fail-above", "2%")
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr.decode(), r"^echo-plan: peak grew by \d+\.\d\d % .*; at most 2 % is allowed\n$")
        self.assertEqual(self.call("diff", self.graph, larger, "--fail-above", "0.9").returncode, 0)
        self.good("diff", larger, self.graph, "--fail-above", "0")
        found = json.loads(self.good("diff", self.graph, larger, "--json"))
        figures = {row["name"]: row for row in found["figures"]}
        for name, file in (("a", self.graph), ("b", larger)):
            self.assertEqual(figures["peak"][name], json.loads(self.good(file, "--json"))["peak_bytes"])
        plans = [self.folder / "a.json", self.folder / "b.json.gz"]
        for graph, plan in zip((self.graph, larger), plans):
            self.good(graph, "--emit-plan", plan)
        read = {row["name"]: row for row in json.loads(self.good("diff", *plans, "--json"))["figures"]}
        self.assertEqual(read["peak"], figures["peak"])
        self.assertEqual(self.call("diff", *plans, "--fail-above=2%").returncode, 4)
        self.assertIn("NAME", self.good("diff", "--help"))

    def test_diff_of_two_plans_of_one_graph(self):
        graph = GRAPHS / "resnet50_b64.json.gz"
        plans = [self.folder / "default.json", self.folder / "half.json.gz"]
        said = [json.loads(self.good(graph, "--json", "--emit-plan", plan, *how))
                for plan, how in zip(plans, ([], ["--budget", "0.5"]))]
        found = json.loads(self.good("diff", *plans, "--graph", graph, "--json"))
        self.assertEqual((found["a"], found["b"]), ("default.json", "half.json.gz"))
        figures = {row["name"]: (row["a"], row["b"]) for row in found["figures"]}
        for name, key in (("peak", "peak_bytes"), ("peak without Echo", "baseline_peak_bytes"), ("arena", "arena_bytes"),
                          ("resident", "resident_bytes"), ("stash", "stash_bytes"), ("recomputation", "recompute_time_ratio")):
            self.assertEqual(figures[name], tuple(one[key] for one in said), name)
        times = [time / (1 + one["recompute_time_ratio"]) for time, one in zip(figures["time of a step"], said)]
        self.assertGreater(figures["time of a step"][1], figures["time of a step"][0])
        self.assertAlmostEqual(times[0], times[1], delta=1e-9 * times[0])
        layers = {row["name"]: (row["a"], row["b"]) for row in found["layers"]}
        for side, one in enumerate(said):
            self.assertEqual(sum(row[side] for row in layers.values()), one["peak_bytes"] + one["resident_bytes"])
        self.assertIn("at the peak, by layer", self.good("diff", *plans, "--graph", graph))
        line = self.call("diff", *plans, "--graph", graph, "--fail-above", "1%").stderr.decode()
        self.assertRegex(line, r"^echo-plan: time of a step grew by \d+\.\d\d % ")
        mixed = json.loads(self.good("diff", graph, plans[1], "--graph", graph, "--json"))["figures"]
        self.assertEqual({row["name"]: (row["a"], row["b"]) for row in mixed}, figures)

    def test_diff_of_plans_and_another_graph(self):
        plan = self.folder / "plan.json"
        self.good(self.graph, "--emit-plan", plan)
        other = self.bad(1, "diff", plan, plan, "--graph", GRAPHS / "mlp.json.gz", words=("plan.json: node ", "for this very graph"))
        self.assertEqual(other.count("plan.json"), 1)
        self.bad(1, "diff", plan, plan, "--graph", self.folder / "none.json", words=("none.json",))
        self.bad(1, "diff", self.graph, self.graph, "--graph", self.graph, words=("--graph", "both files are graphs"))
        self.bad(2, "diff", plan, plan, "--graph", "", words=("--graph names no file",))

    def test_diff_of_what_cannot_be_compared(self):
        plan = self.folder / "plan.json"
        self.good(self.graph, "--emit-plan", plan)
        for arguments in ([], [self.graph], [self.graph, self.graph, "--fail-above", "-1"], [self.graph, self.graph, self.graph],
                          [self.graph, self.graph, "--fail-above", "2,5%"], [self.graph, self.graph, "--fail-above", "x"],
                          [self.graph, self.graph, "--strategy", "none"]):
            self.bad(2, "diff", *arguments)
        self.bad(1, "diff", self.graph, self.folder / "none.json", words=("none.json",))
        self.bad(1, "diff", self.graph, self.write("bad.json", "{}"), words=("bad.json",))
        self.bad(1, "diff", plan, self.write("old.json", '{"format": "echo-plan/1"}'), words=("old.json", "peak_bytes"))
        if self.can_report():
            self.bad(1, "diff", plan, plan, "--report", self.folder / "r", words=("--graph GRAPH",))

    def test_budgets_in_all_their_forms(self):
        hundred = small_graph()
        hundred["nodes"] = [{"op": "data", "phase": "input", "inputs": [], "outputs": [{"bytes": 4}]},
                            {"op": "x", "phase": "forward", "inputs": [[0, 0]], "outputs": [{"bytes": 100}]}]
        hundred["outputs"] = [[1, 0]]
        graph = self.write("hundred.json", json.dumps(hundred))
        for text, wanted in amounts.BUDGETS.items():
            with self.subTest(text):
                if wanted is None:
                    self.assertIn("--budget", self.bad(2, graph, f"--budget={text}"))
                    continue
                done = self.call(graph, f"--budget={text}", "--json")
                self.assertEqual(done.returncode, 0 if wanted >= 100 else 3)
                self.assertEqual(json.loads(done.stdout)["budget_bytes"], wanted)
        for text in ("1", "1.5", "0x10"):
            self.bad(2, graph, "--budget", text, words=(f"--budget {text}: ", "such as 8GiB", "such as 0.5 or 50%"))

    def test_parts_in_all_their_forms(self):
        larger = small_graph()
        larger["nodes"][3]["outputs"][0]["shape"] = [1024 + 512]
        larger = self.write("larger.json", json.dumps(larger))
        for text, wanted in amounts.PARTS.items():
            with self.subTest(text):
                for option, *arguments in (("--max-overhead", self.graph), ("--fail-above", "diff", self.graph, larger)):
                    if wanted is None:
                        self.assertIn(option, self.bad(2, *arguments, f"{option}={text}"))
                        continue
                    done = self.call(*arguments, f"{option}={text}", text=True)
                    self.assertIn(done.returncode, (0, 4))
                    shown = done.stdout if option == "--max-overhead" else done.stderr
                    if done.returncode == 4 or option == "--max-overhead":
                        self.assertIn(f" {100 * wanted:g} % ", shown)
        for option, *arguments in (("--max-overhead", self.graph), ("--fail-above", "diff", self.graph, larger)):
            for text in ("5", "1"):
                self.bad(2, *arguments, option, text, words=(f"{option} {text}: ", "such as 5%", "such as 0.05"))
            self.bad(2, *arguments, option, "1e308 %", words=("more than 10000 %",))

    def test_budgets_that_mean_nothing(self):
        for option in ("--budget", "--max-overhead"):
            for text in ("0,5", "1,5GB", "8,589,934,592", "0,5 "):
                with self.subTest(option, text=text):
                    line = self.bad(2, self.graph, f"{option}={text}")
                    self.assertIn(f"{option} {text}: a number has a decimal point and no commas, as in 0.5", line)
        for arguments in (["--budget", "0.5", "--max-overhead", "0.1"], ["--strategy", "echo", "--max-overhead", "0.1"],
                          ["--pareto", "--knee"],
                          *([many, *more] for many in ("--pareto", "--knee")
                            for more in (["--compare"], ["--emit-plan", "x"], ["--dot", "x"], ["--budget", "0.5"],
                                         ["--max-overhead", "0.1"], ["--strategy", "min_cut"]))):
            with self.subTest(arguments):
                self.bad(2, self.graph, *arguments)

    # Bad input

    def test_files_that_cannot_be_read(self):
        for name in ("none.json", "none.json.gz", ""):
            self.bad(1, self.folder / name)
        self.bad(1, self.folder / "line\nbreak\x1b[31m\u2028.json")
        self.assertRegex(self.bad(1, self.write("net.onnx", b"")), "without ONNX; apt-get|is no ONNX model")

    def test_what_is_no_graph(self):
        for content in ("", "{", "[]", "null", "nonsense", "{}", b"\xff\xfe", b"\x1f\x8b\x08", "[" * 100000,
                        '{"format": "echo-plan/1"}', self.graph.read_text() + "x", self.graph.read_text()[:-1]):
            with self.subTest(content[:40]):
                self.bad_graph(content)

    def test_damaged_compression(self):
        packed = gzip.compress(self.graph.read_bytes())
        for content in (b"", packed[:10], packed[:-1], packed[:-9], packed + b"x", self.graph.read_bytes(),
                        packed[:40] + bytes([packed[40] ^ 1]) + packed[41:]):
            self.bad_graph(content, name="bad.json.gz")

    def bomb(self, head, item, tail, size=2**32):
        """A file of a few MB that unpacks to some GB."""
        path = self.folder / "bomb.json.gz"
        block = item * (2**20 // len(item) + 1)
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        with path.open("wb") as file:
            file.write(packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH))
            packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
            for _ in range(size // len(block)): # a block by itself after a full flush: its bytes may be repeated
                file.write(packed)
            file.write(packer.compress(tail)) # the end is never read, so that its checksum need not be right
        return path

    def test_a_small_file_cannot_fill_the_memory(self):
        node = b'{"op":"","phase":"input","inputs":[],"outputs":[]},'
        head = b'{"format":"echo-graph/1","outputs":[],"nodes":['
        for name, parts in {"nodes": (head, node, b"]}"), "a name": (b'{"name":"', b"x", b'"}'),
                            "blanks": (b"{", b" ", b"}"), "brackets": (b'{"x":', b"[", b"")}.items():
            with self.subTest(name):
                path = self.bomb(*parts)
                self.assertLess(path.stat().st_size, 2**24)
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                def limited(): # 1.5 GiB of memory; a sanitizer maps terabytes, of which it uses little
                    if not self.sanitized:
                        resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29))
                done = self.call(path, preexec_fn=limited, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("unpacks to more than 100 times its size", done.stderr)
                self.assertIn("--max-bytes", done.stderr)
                self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 20)

    def test_how_much_is_read(self):
        size = self.graph.stat().st_size
        packed = self.write("graph.json.gz", gzip.compress(self.graph.read_bytes()))
        for graph in (self.graph, packed):
            self.good(graph, "--max-bytes", str(size))
            self.good(graph, "--max-bytes", "1GiB")
            self.assertIn(f"more than {size - 1} bytes", self.bad(1, graph, "--max-bytes", str(size - 1)))
        large = self.folder / "large.json.gz" # 70 MB at 1000 times its size
        large.write_bytes(gzip.compress(self.graph.read_bytes() + b" " * 70_000_000))
        self.bad(1, large, words=("100 times",))
        self.good(large, "--max-bytes", "100MB")
        self.good(self.graph, "--max-bytes", "1e9")
        self.good(self.graph, "--max-bytes", "1 gib")
        for text in ("0", "-1", "0.5", "x", "1,5GB", "1e30", "12QB", "", "50%"):
            with self.subTest(text):
                self.assertIn("--max-bytes", self.bad(2, self.graph, f"--max-bytes={text}"))

    def test_errors_name_the_node_and_the_key(self):
        def spoilt(key, value, at=3):
            graph = small_graph()
            graph["nodes"][at][key] = value
            return graph
        for key, value in (("inputs", [[9, 0]]), ("inputs", [[3, 0]]), ("inputs", [[2, 1]]), ("inputs", [[2, 10**9]]),
                           ("inputs", [[2.5, 0]]), ("inputs", [[-1, 0]]), ("inputs", [[2**64, 0]]), ("inputs", None),
                           ("control", [5]), ("phase", "sideways"), ("kind", "odd"), ("rerun", True), ("flops", -1),
                           ("time_us", float("nan")), ("time_us", float("inf")), ("workspace", 1.5), ("op", 7),
                           ("one_bit_inputs", [1]), ("outputs", [{}])):
            with self.subTest((key, value)):
                self.bad_graph(spoilt(key, value), "node 'n3'", key)
        for key, value in (("shape", [2**40, 2**40]), ("shape", [-1]), ("bytes", 2**63), ("dtype", "c64"),
                           ("view_of", 1), ("inplace", 1)):
            with self.subTest((key, value)):
                output = {"dtype": "f32", "shape": [4]} | {key: value}
                self.bad_graph(spoilt("outputs", [output]), "node 'n3'", "bytes" if key == "dtype" else key)
        for key in ("op", "phase", "inputs", "outputs"):
            graph = small_graph()
            del graph["nodes"][3][key]
            self.bad_graph(graph, "node 'n3'", key, "missing")
        for key in ("format", "nodes", "outputs"):
            graph = small_graph()
            del graph[key]
            self.bad_graph(graph, key, "missing")
        self.bad_graph(small_graph() | {"outputs": [[6, 0]]}, "outputs")
        self.bad_graph(small_graph() | {"resident": [[5, 1]]}, "n5", "resident")
        self.bad_graph(spoilt("phase", "input"), "n3", "inputs")
        name = "two\nlines \u0085 \u2028 \x1b[31m"
        graph = spoilt("name", name)
        graph["nodes"][3]["phase"] = 0
        self.bad_graph(graph, "two\\x0alines", "phase")

    def test_a_graph_whose_order_breaks_a_write_in_place(self):
        graph = small_graph()
        graph["nodes"][1]["outputs"][0]["inplace"] = 0
        graph["nodes"][2]["inputs"] = [[0, 0]]
        self.bad_graph(graph, "inplace")

    def test_output_that_cannot_be_written(self):
        for flag in ("--emit-plan", "--dot"):
            self.bad(1, self.graph, flag, self.folder / "none" / "file")
            self.bad(1, self.graph, flag, self.folder)
            self.bad(1, self.graph, flag, "/dev/full")
        self.bad(1, self.graph, "--emit-plan", self.folder / "plan.json", "--dot", self.folder / "none" / "file")

    def test_output_that_is_protected(self):
        if os.geteuid() == 0:
            self.skipTest("nothing is protected from root")
        file = self.write("plan.json", "old")
        file.chmod(0o400)
        self.bad(1, self.graph, "--emit-plan", file)
        self.assertEqual(file.read_text(), "old")

    def test_standard_output_that_is_full(self):
        self.bad_when_standard_output_is_full(self.graph)

    def on_a_terminal(self, *arguments, then=None):
        """What a terminal shows of standard error."""
        try:
            ours, theirs = pty.openpty()
        except OSError as error: # a container without /dev/pts
            self.skipTest(f"no terminal to be had: {error}")
        shown = []
        def collect():
            try:
                while part := os.read(ours, 1000):
                    shown.append(part)
            except OSError: # what Linux says of a terminal at its end
                pass
        reader = threading.Thread(target=collect)
        reader.start()
        with subprocess.Popen([self.program, *map(os.fspath, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=theirs) as running:
            os.close(theirs)
            if then:
                then(shown, running)
        reader.join()
        os.close(ours)
        return running.returncode, b"".join(shown)

    def long(self):
        """A graph that takes some seconds to read and to plan; a sanitizer takes three times as long for each node."""
        nodes = 250_000 if self.sanitized else 500_000
        node = {"op": "x", "phase": "forward", "inputs": [[0, 0]], "outputs": [{"bytes": 4}], "name": "n" * 400}
        first = {"op": "data", "phase": "input", "inputs": [], "outputs": [{"bytes": 4}]}
        return self.write("long.json", json.dumps({"format": "echo-graph/1", "nodes": [first] + [node] * nodes, "outputs": [[1, 0]]}))

    def test_a_terminal_is_left_clean(self):
        status, shown = self.on_a_terminal(self.graph, "--json")
        self.assertEqual(status, 0)
        self.assertTrue(shown == b"" or shown.endswith(b"\r\x1b[K"), shown)

    def test_progress_on_a_terminal(self):
        graph = self.long()
        status, shown = self.on_a_terminal(graph, "--emit-plan", self.folder / "plan.json.gz")
        self.assertEqual(status, 0)
        lines = shown.decode().split("\r\x1b[K")
        self.assertEqual((lines[0], lines[-1]), ("", ""))
        self.assertTrue(any(re.fullmatch(r"reading +\[=* *\] +\d+ %, \d+ s left", line) for line in lines), lines)
        for line in lines[1:-1]:
            self.assertRegex(line, r"^[a-z ]{20}(\[=* *\] +\d+ %(, \d+ s left)?|(\d+\.\d MB, )?\d+ s)$")
        self.assertEqual(self.on_a_terminal(graph, "--quiet"), (0, b""))
        self.good(graph)
        def interrupt(shown, running):
            while not shown and running.poll() is None:
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
        status, shown = self.on_a_terminal(graph, then=interrupt)
        self.assertEqual(status, -signal.SIGINT)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)


if __name__ == "__main__":
    command.main()
