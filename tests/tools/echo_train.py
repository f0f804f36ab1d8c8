#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Calls `echo-train` as its users do: the same losses whatever is recomputed, exit codes, one line per error.

    python3 echo_train.py PROGRAM
"""
import json
import math
import os
import pty
import re
import resource
import struct

import command

MODELS = ["nmt", "ds2", "transformer", "resnet"]
STRATEGIES = ["baseline", "mirror", "echo", "echo_printed", "min_cut"]
STEP_KEYS = ["step", "loss", "loss_hex", "arena_bytes", "step_ms", "device"]
BUDGETS = {"nmt": "0.7", "ds2": "0.9", "transformer": "0.5", "resnet": "0.6"}
# oneDNN's normalisation has barriers that spin: two threads of it on a busy core wait for each other long.
SIZES = {"nmt": ("--batch", "4", "--threads", "2"), "ds2": ("--threads", "1"),
         "transformer": ("--batch", "4", "--threads", "2"), "resnet": ("--batch", "4", "--threads", "1")}
QUICKLY = ("--strategy", "min_cut") # planned at once, where it is not the plan that is looked at
WORDS = "ein haus steht am see und wir gehen heim".split()


# Threads that wait leave their core to others: tests run at the same time.
os.environ["OMP_WAIT_POLICY"] = "passive"
# The same everywhere: as if there were no device.
os.environ["CUDA_VISIBLE_DEVICES"] = ""


class Train(command.Command):
    name = "echo-train"

    def steps(self, *arguments):
        """The objects that --json prints, one per step."""
        steps = [json.loads(line) for line in self.good(*arguments, "--json").splitlines()]
        self.assertEqual([step["step"] for step in steps], list(range(1, len(steps) + 1)))
        for step in steps:
            self.assertEqual(list(step), STEP_KEYS)
            self.assertEqual(float.fromhex(step["loss_hex"]), step_loss(step))
            self.assertEqual(step["arena_bytes"], steps[0]["arena_bytes"])
            self.assertGreater(step["step_ms"], 0)
            self.assertEqual(step["device"], "cpu")
        return steps

    def losses(self, *arguments):
        steps = self.steps(*arguments)
        return [step["loss_hex"] for step in steps], steps[0]["arena_bytes"]

    def summary(self, *arguments):
        """What is printed for people: the words at the heads of lines, and what stands behind them."""
        text = self.good(*arguments)
        return text, {line[:12].strip(): line[12:] for line in reversed(text.splitlines())}

    # Good input

    def test_the_same_losses_whatever_is_recomputed(self):
        for model in MODELS:
            with self.subTest(model):
                budget = BUDGETS[model]
                ways = [("--strategy", strategy) for strategy in STRATEGIES]
                ways += [("--budget", budget), ("--max-overhead", "0.02"), ()]
                made = {way: self.losses(model, "--steps", "3", *SIZES[model], *way) for way in ways}
                losses, arena = made["--strategy", "baseline"]
                self.assertEqual(len(losses), 3)
                self.assertEqual(len(set(losses)), 3)
                for way in ways:
                    self.assertEqual(made[way][0], losses, way)
                    self.assertLessEqual(made[way][1], arena, way)
                self.assertLess(made["--strategy", "min_cut"][1], arena)
                self.assertLess(made[()][1], arena)
                self.assertLessEqual(made["--budget", budget][1], float(budget) * arena)

    def test_the_paper_baseline(self):
        losses, pool = self.losses("nmt", "--steps", "2", "--strategy", "baseline", "--baseline", "paper")
        same, arena = self.losses("nmt", "--steps", "2", "--strategy", "echo", "--baseline", "paper")
        modern, least = self.losses("nmt", "--steps", "2", "--strategy", "baseline")
        self.assertEqual(losses, same)
        self.assertEqual(losses, modern)
        self.assertLess(arena, pool)
        self.assertLess(least, pool)

    def test_seed_batch_rate_and_threads(self):
        nmt = ("nmt", "--steps", "2", *QUICKLY)
        losses, arena = self.losses(*nmt)
        self.assertEqual(self.losses(*nmt, "--seed", "1", "--batch", "32", "--preset", "tiny")[0], losses)
        self.assertNotEqual(self.losses(*nmt, "--seed", "18446744073709551615")[0], losses)
        self.assertLess(self.losses(*nmt, "--batch", "8")[1], arena)
        other = self.losses(*nmt, "--rate", "0.1")[0]
        self.assertEqual(other[0], losses[0])
        self.assertNotEqual(other[1], losses[1])
        once = self.steps(*nmt, "--threads", "1")
        self.assertAlmostEqual(once[0]["loss"], float.fromhex(losses[0]), places=4)

    def test_summary(self):
        text, said = self.summary("nmt", "--steps", "40", "--batch", "8", "--evaluate", "20")
        for word in ("model", "strategy", "peak", "bound", "stash", "resident", "overhead", "arena", "loss", "speed",
                     "steps", "process"):
            self.assertIn(word, said)
        self.assertRegex(said["model"], r"^nmt, preset tiny, batch 8, modern baseline: \d+ parameters, \d+ nodes$")
        self.assertRegex(said["strategy"], r"^budget: the least peak within 5 % of recomputation \([\d.]+ ms\)$")
        self.assertRegex(said["bound"], r"\(no plan within 5 % of recomputation that .* is smaller; gap [\d.]+ %\)$")
        self.assertRegex(said["fused"], r"^\d+ nodes inside their readers: \S+ \wi?B moved instead of \S+ \wi?B \(.*tanh_op \d+.*\)$")
        steps = re.findall(r"(?m)^step (\d+)/40 +loss +(\S+) +\S+ samples/s(?:  exact match (\S+))?$", text)
        shown = [int(step) for step, _, _ in steps]
        self.assertEqual(shown, [1, *range(2, 41, 2)])
        self.assertEqual([int(step) for step, _, metric in steps if metric], [1, 20, 40])
        exact = self.steps("nmt", "--steps", "40", "--batch", "8", *QUICKLY)
        for step, loss, _ in steps:
            self.assertEqual(f"{exact[int(step) - 1]['loss']:.9g}", loss) # what is measured changes nothing
        self.assertRegex(text, r"(?m)^exact match +0(\.\d+)? \(256 samples that were not trained on, without dropout\)$")

    def test_the_arena_is_what_was_predicted(self):
        ways = {model: [("--budget", BUDGETS[model])] for model in MODELS}
        ways["transformer"] += [("--strategy", "baseline"), ("--strategy", "min_cut")]
        for model in MODELS:
            for way in ways[model]:
                with self.subTest((model, way)):
                    text, said = self.summary(model, "--steps", "1", "--threads", "1", *way)
                    sizes = re.findall(r"(?m)^arena +(\d+) bytes, the peak is (\d+) bytes$", text)
                    ran = re.findall(r"(?m)^arena +(\d+) bytes planned, (\d+) taken, (\d+) reached$", text)
                    self.assertEqual(len({*sizes[0], *ran[0]}), 1, text)
                    counts = [int(n) for n in re.findall(r"\d+", said["steps"])]
                    self.assertGreater(counts[0], 0)
                    self.assertEqual(counts[1] > 0, "baseline" not in way)

    def test_the_process_is_no_larger_than_it_says(self):
        """Residents and arena, 3 % and what was there before; 48 MiB for threads and compiled kernels."""
        _, said = self.summary("resnet", "--batch", "128", "--steps", "1", "--threads", "1")
        found = re.findall(r"([\d.]+) (B|KiB|MiB|GiB)", said["process"])
        most, known, _, before = (float(n) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
                                  for n, unit in found)
        self.assertGreater(known, 100 * 2**20)
        self.assertLess(most, 1.03 * known + before + 48 * 2**20)

    def test_profile(self):
        text = self.good("nmt", "--steps", "2", "--profile", *QUICKLY)
        rows = text[text.index("\nlayer "):].strip().splitlines()
        self.assertEqual(len({len(row) for row in rows}), 1)
        layers = {row.split("  ")[0] for row in rows[1:]}
        for layer in ("attention", "rnn", "output", "embedding"):
            self.assertIn(layer, layers)
        self.assertIn("recompute ms", rows[0])

    def test_values_that_wait_in_a_file(self):
        resnet = ("resnet", "--steps", "3", *SIZES["resnet"])
        losses, arena = self.losses(*resnet)
        text, said = self.summary(*resnet, "--offload", self.folder)
        self.assertEqual(sorted(self.folder.iterdir()), [])
        rate = r"[\d.]+ [KMG]iB/s"
        self.assertRegex(text, rf"(?m)^link +a file in {re.escape(str(self.folder))}, (past|through) the page cache: {rate} out, "
                               rf"{rate} in, (both at once|one at a time)$")
        self.assertRegex(text, r"(?m)^offload +(\d+ values, \S+ \S+ each way; \S+ \S+ of the file; waits: [\d.]+ % of a step's time"
                               r"|nothing leaves: no better plan was found with it)$")
        left, back, predicted, waited = re.findall(r"(?m)^offload +(\d+) copies left, (\d+) came back; waits a step: ([\d.]+) ms "
                                                   r"predicted, ([\d.]+) ms measured \(median\)$", text)[0]
        self.assertLessEqual(int(left), int(back))
        self.assertEqual(said["loss"], f"{float.fromhex(losses[-1]):.9g} after 3 steps")
        moved, less = self.losses(*resnet, "--offload", "--budget", str(int(0.9 * arena))) # in the folder of TMPDIR
        self.assertEqual(moved, losses)
        self.assertLessEqual(less, 0.9 * arena)

    def test_data_from_a_file(self):
        lines = [f"{' '.join(WORDS[:n])}\t{' '.join(reversed(WORDS[:n]))}\n" for n in range(1, 9)]
        file = self.write("words.txt", "".join(lines))
        for model in ("nmt", "transformer"):
            losses, arena = self.losses(model, "--data", file, "--steps", "3", "--strategy", "baseline")
            again, less = self.losses(model, "--data", file, "--steps", "3")
            self.assertEqual(losses, again)
            self.assertLess(less, arena)
        self.assertIn("of the file", self.good("nmt", "--data", file, "--steps", "1", *QUICKLY))

    def test_what_a_step_would_call_on_a_device(self):
        place = r"(?:(?:\d+|\[[^]]+\])\+\d+(?: bits)?)"
        line = re.compile(rf"(\d+) (run|recompute|encode) ([\w.]+) \S+: (.+) \| in (-|{place}(?:, {place})*)"
                          rf" \| out ({place}(?:, {place})*) \| scratch (-|{place})")
        for model in MODELS:
            with self.subTest(model):
                budget = BUDGETS[model]
                text = self.good(model, "--device", "cuda", "--dry-run", "--budget", budget)
                found = [line.fullmatch(each) for each in text.splitlines()]
                self.assertTrue(all(found), next((t for t, f in zip(text.splitlines(), found) if not f), ""))
                numbers = [int(f[1]) for f in found]
                self.assertEqual(numbers, sorted(set(numbers)))
                kinds = {f[2] for f in found}
                self.assertIn("recompute", kinds)
                for f in found:
                    self.assertRegex(f[4], r"^(kernel [\w.]+ \(\d+\)(, |$))+$|^cuBLAS |^cuDNN ")
                    self.assertEqual(f[4].startswith("cu"), bool(re.match("fully_connected|batch_dot|convolution", f[3])))
        text = self.good("nmt", "--device", "cuda", "--dry-run", "--strategy", "baseline")
        self.assertNotIn(" recompute ", text)
        self.bad(3, "nmt", "--device", "cuda", "--dry-run", "--budget", "1000", words=("1000 bytes",))

    def test_no_device(self):
        for more in ((), ("--json",), ("--tf32",)):
            self.bad(1, "nmt", "--preset", "tiny", "--device", "cuda", *more, words=("nmt: ", "no CUDA device", "; "))

    def test_help(self):
        for flag in ("--help", "-h"):
            page = self.good(flag)
            for word in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "--preset",
                         "--strategy", "--budget", "--max-overhead", "--baseline", "--batch", "--steps", "--rate",
                         "--seed", "--threads", "--data", "--evaluate", "--profile", "--json", "--device", "--tf32", "--offload",
                         "--dry-run", *MODELS, *STRATEGIES):
                self.assertIn(word, page)
            self.assertLessEqual(max(map(len, page.splitlines())), 80)
        self.assertRegex(self.good("--version"), r"^echo-train \d+\.\d+\.\d+\n$")

    # Bad usage

    def test_usage(self):
        self.bad(2)
        for words, arguments in (
                (("gpt", *MODELS), ["gpt"]), (("huge", "tiny"), ["nmt", "--preset", "huge"]),
                (("best",), ["resnet", "--preset", "best"]),
                (("best_cut", "min_cut"), ["nmt", "--strategy", "best_cut"]), (("--odd",), ["nmt", "--odd"]),
                (("one of",), ["nmt", "--budget", "0.5", "--max-overhead", "0.1"]),
                (("--max-overhead",), ["nmt", "--strategy", "echo", "--max-overhead", "0.1"]),
                (("antique", "paper"), ["nmt", "--baseline", "antique"]), (("--data",), ["ds2", "--data", "x"]),
                (("--data",), ["resnet", "--data", "x"]), (("--data",), ["nmt", "--data", ""]),
                (("gpu", "cuda"), ["nmt", "--device", "gpu"]),
                (("--threads",), ["nmt", "--device", "cuda", "--threads", "2"]),
                (("--offload", "budget"), ["nmt", "--offload", "--strategy", "min_cut"]),
                (("--offload", "cpu"), ["nmt", "--offload", "--device", "cuda"]), (("MODEL",), ["--offload", "nmt"]),
                (("--tf32",), ["nmt", "--tf32"]), (("--dry-run",), ["nmt", "--dry-run"]),
                (("--dry-run",), ["nmt", "--device", "cuda", "--dry-run", "--json"]),
                (("--json",), ["nmt", "--json", "--profile"]), (("--json",), ["nmt", "--json", "--evaluate", "3"])):
            with self.subTest(arguments):
                self.bad(2, *arguments, words=(*words, "--help"))
        for option, values in (("--batch", ["0", "-1", "1.5", "x", "", "99999999999999999999"]),
                               ("--steps", ["0", "-3", "many"]), ("--seed", ["-1", "18446744073709551616"]),
                               ("--threads", ["0", "-1", "100000"]), ("--evaluate", ["0"]),
                               ("--rate", ["0", "-1", "nan", "inf", "x", "0.1x"]),
                               ("--budget", ["nan", "inf", "0", "-1", "5parsecs"]), ("--max-overhead", ["nan", "-1"])):
            for value in values:
                with self.subTest((option, value)):
                    self.bad(2, "nmt", f"{option}={value}", words=(option,))
        for option in ("--batch", "--steps", "--seed", "--threads", "--evaluate", "--rate", "--budget", "--max-overhead"):
            self.bad(2, "nmt", f"{option}=0,5", words=(option, "a decimal point and no commas"))

    # Bad input

    def test_a_budget_that_cannot_be_met(self):
        line = self.bad(3, "nmt", "--budget", "1000", words=("nmt: ", "1000 bytes", "certified bound", "node '"))
        numbers = [int(n) for n in re.findall(r"the best has (\d+), the certified bound is (\d+)", line)[0]]
        self.assertGreaterEqual(numbers[0], numbers[1])
        self.bad(3, "nmt", "--budget", "1000", "--json", words=("1000 bytes",))
        self.bad(3, "nmt", "--budget", "0.5", "--strategy", "mirror", words=("no plan of at most",))

    def test_data_that_cannot_be_read(self):
        long = " ".join(["wort"] * 40)
        for content, *words in ((f"a\tb\n{long}\tb\n", "words.txt:2", "40 words"), (f"a\t{long}\n", "words.txt:1", "40"),
                                ("a b\n", "words.txt:1", "tab"), ("a\tb\tc\n", "words.txt:1", "tab"),
                                ("\tb\n", "words.txt:1", "empty"), ("", "empty")):
            with self.subTest(content):
                self.bad(1, "nmt", "--data", self.write("words.txt", content), words=words)
        self.bad(1, "nmt", "--data", self.folder / "none.txt", words=("none.txt", "cannot be read"))
        self.bad(1, "nmt", "--data", self.folder, words=(str(self.folder), "is a directory"))

    def test_a_file_that_cannot_hold_values(self):
        for folder in (self.folder / "none", self.write("file", "")):
            self.bad(1, "nmt", "--offload", folder, words=("nmt: offload: no file can be made in", str(folder), "name a folder"))

        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)) # as on a disk that is full

        done = self.call("nmt", "--offload", self.folder, preexec_fn=little_room, restore_signals=False)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr.decode(), r"^echo-train: nmt: .*offload: \d+ bytes do not travel by a file in .*; make room there "
                                               r"or name another folder[^\n]*\n$")

    def test_a_loss_that_is_not_finite(self):
        done = self.call("nmt", "--rate", "1e38", "--steps", "50", "--json", *QUICKLY, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(all(math.isfinite(step["loss"]) for step in steps))
        self.assertRegex(done.stderr, rf"^echo-train: nmt: node '\S+', loss: not finite in step {len(steps) + 1}; "
                                      "this node is the first")
        # Embeddings of 1e25 are finite, their squares are not.
        done = self.call("transformer", "--rate", "1e25", "--steps", "5", "--batch", "4", text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("node 'encoder.l0.self.norm.square', loss: not finite in step 2", done.stderr)

    def test_more_memory_than_there_is(self):
        line = self.bad(1, "resnet", "--preset", "small", "--batch", "100000", words=("memory", "bytes are needed", "--batch"))
        needed, free = re.findall(r"(\d+) bytes are needed .* (\d+) are available", line)[0]
        self.assertGreater(int(needed), int(free))
        self.bad(1, "resnet", "--batch", str(2**62))

    def test_standard_output_that_is_full(self):
        self.bad_when_standard_output_is_full("nmt", "--steps", "2", *QUICKLY)
        self.bad_when_standard_output_is_full("nmt", "--steps", "2", "--json", *QUICKLY)

    def test_a_terminal_has_a_bar_that_is_gone_at_the_end(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error: # a container without /dev/pts
            self.skipTest(f"no terminal to be had: {error}")
        done = self.call("nmt", "--steps", "10", "--json", *QUICKLY, stderr=theirs)
        os.close(theirs)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 10))
        shown = b""
        try:
            while more := os.read(ours, 10000):
                shown += more
        except OSError: # what Linux says of a terminal at its end
            pass
        os.close(ours)
        self.assertIn(b"] 1/10", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)


def step_loss(step):
    """The loss that is printed in decimals names one float32: the same that is printed in hexadecimals."""
    return struct.unpack("f", struct.pack("f", step["loss"]))[0]


if __name__ == "__main__":
    command.main()
