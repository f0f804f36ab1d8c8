#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs gpu-steps, gathers what bench/gpu shows, and writes gpu.json, gpu.md and the plots: gpu.py PROGRAM --out FOLDER. See
bench/gpu. Needs nothing but Python; with matplotlib there are plots, with PyTorch its steps beside ours."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

LIBRARY = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(LIBRARY), str(LIBRARY.parents[1])]

import results  # noqa: E402
import tables  # noqa: E402

os.environ["OMP_WAIT_POLICY"] = "passive"
PLANS = ("baseline", "mirror", "echo", "min_cut", "fused")
MODELS = ("nmt", "transformer", "ds2", "resnet")
WALL = 10989 * 2**20  # bytes that the paper's card has
NO_DEVICE = 77


class Failed(Exception):
    """A piece that cannot be measured, and why."""


class Clock:
    """The time there is, and what was left out for want of it or for another reason."""

    def __init__(self, budget, spent):
        self.end = time.monotonic() + budget - spent
        self.left_out = []

    def left(self):
        return self.end - time.monotonic()

    def allows(self, what, seconds):
        """Whether there is time for it; what there is none for is named."""
        if self.left() >= seconds:
            return True
        self.leave_out(what, "out of time")
        return False

    def leave_out(self, what, why):
        self.left_out.append({"what": what, "why": str(why)})
        print(f"left out: {what}: {why}", flush=True)


class Steps:
    """A process that does steps when it is told to; it is ended where it takes longer than there is time."""

    def __init__(self, clock, *command):
        self.clock, self.taken = clock, False
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.ready = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def say(self, command):
        try:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: the answer says so

    def answer(self):
        timer = threading.Timer(max(1, self.clock.left()), self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            status = self.process.wait()
            words = " ".join(self.process.stderr.read().split())
            if status == NO_DEVICE:
                print(f"bench/gpu: not run: {words}")
                sys.exit(NO_DEVICE)
            raise Failed("out of time" if self.clock.left() <= 0 else f"status {status}: {words}")
        made = json.loads(line)
        if "error" in made:
            raise Failed(" ".join(made["error"].split()))
        return made

    def begin(self):
        self.ready = self.ready or self.answer()
        return self.ready

    def __call__(self, command):
        self.begin()
        self.say(command)
        return self.answer()

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def used_by_the_card():
    """What nvidia-smi shows, as the paper read it; bytes. None without it."""
    if not shutil.which("nvidia-smi"):
        return None
    made = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                          check=False)
    try:
        return int(made.stdout.split()[0]) * 2**20
    except (IndexError, ValueError):
        return None


class Bench:
    def __init__(self, options):
        self.options = options
        self.clock = Clock(options.seconds, options.spent)
        self.preset = "tiny" if options.host else "paper"
        self.rounds = 2 if options.quick else 3 if options.host else 7
        self.busy = 0.1 if options.host else 1.5
        self.result = {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"), "machine": results.machine(), "host": options.host,
                       "preset": self.preset, "models": {}, "batches": [], "learning": [], "torch": []}

    def start(self, model, plan, preset=None):
        return Steps(self.clock, self.options.program, model, preset or self.preset, plan)

    # The card, and what a process takes of it before there is a model.
    def look_at_card(self):
        before = used_by_the_card()
        with self.start("nmt", "baseline", "tiny") as one:
            card = one.begin()
            after = used_by_the_card()
        card["nvidia_smi"] = before is not None and after is not None
        card["context_bytes"] = max(0, after - before) if card["nvidia_smi"] else card.get("backend_bytes")
        card["used_before_bytes"] = before
        self.result["card"] = card
        print(card["device"], flush=True)
        print(f"power: {card['power']}", flush=True)

    # All plans of a model at the batch of its preset.
    def compare(self, model, plans):
        rows = self.result["models"][model] = []
        running = {plan: self.start(model, plan) for plan in plans}
        try:
            self.compare_running(model, running, rows)
        finally:
            for one in running.values():
                one.end()

    def compare_running(self, model, running, rows):
        for one in running.values():
            one.say("build 0")  # all at once: nothing is on the card yet
        planned = {}
        for plan, one in running.items():
            try:
                one.begin()
                planned[plan] = one.answer()
            except Failed as why:
                self.clock.leave_out(f"{model}, {plan}", why)
        if "baseline" not in planned:
            return
        base, first = running["baseline"], None
        for plan in (plan for plan in running if plan in planned):
            if not self.clock.allows(f"{model}, {plan}", 1 if self.options.host else 10):
                continue
            try:
                row = self.one_plan(plan, running[plan], base if plan != "baseline" else None, planned[plan], first)
            except Failed as why:
                self.clock.leave_out(f"{model}, {plan}", why)
                if plan == "baseline":
                    return
                continue
            rows.append({"plan": plan, **row})
            first = first or rows[0]
            self.say_row(model, rows[-1])
            if plan != "baseline":
                running[plan].end()
        # What profiles cost in memory they cost behind all that was measured.
        try:
            rows[0]["profile"] = base(f"profile {1 if self.options.host else 2}")
        except Failed as why:
            self.clock.leave_out(f"{model}, baseline: profile", why)

    def one_plan(self, plan, one, base, planned, first):
        made = one("make")
        losses, ms, base_ms, ratios = list(made["losses"]), [], [], []
        for k in range(self.rounds):
            turns = [(one, ms)] + ([(base, base_ms)] if base else [])
            for who, to in turns[::1 if k % 2 else -1]:
                got = who("steps 1")
                to.append(got["ms"][0])
                if who is one:
                    losses += got["losses"]
            if base:
                ratios.append(ms[-1] / base_ms[-1])
        row = {**planned, **{key: made[key] for key in made if key not in ("losses", "ms")}, "losses": losses, "all_ms": ms,
               "ms": statistics.median(ms), "least_ms": min(ms), "time_ratio": statistics.median(ratios) if ratios else 1.0,
               "samples_per_s": 1e3 * planned["batch"] / statistics.median(ms)}
        row["same_losses"] = first is None or losses == first["losses"][:len(losses)]
        busy = one(f"busy {self.busy}")
        row["busy_ms"] = 1e3 * busy["seconds"] / busy["steps"]
        row["busy_clock_MHz"] = busy["clock_MHz"]
        row["watts"] = busy["joules"] / busy["seconds"] if busy["joules"] is not None else busy["watts"]
        row["joules_per_step"] = busy["joules"] / busy["steps"] if busy["joules"] is not None else None
        row["predicted_bytes"] = row["planned_arena_bytes"] + row["planned_resident_bytes"]
        context = self.result["card"].get("context_bytes")
        row["footprint_bytes"] = row["driver_bytes"] + context if row["driver_bytes"] is not None and context is not None else None
        if plan in ("min_cut", "fused", "echo"):
            try:
                row["profile"] = one(f"profile {1 if self.options.host else 2}")
            except Failed as why:
                self.clock.leave_out(f"{plan}: profile", why)
        return row

    def say_row(self, model, row):
        same = "" if row["same_losses"] else ", OTHER LOSSES THAN THE BASELINE"
        driver = "" if row["driver_bytes"] is None else f", driver {row['driver_bytes'] / 2**20:.0f} MiB"
        print(f"{model}, {row['plan']}: {row['ms']:.1f} ms, {row['time_ratio']:.3f} of the baseline's, arena "
              f"{row['arena_bytes'] / 2**20:.1f} MiB{driver}{same}", flush=True)

    # Throughput against batch, up to the largest that fits into a wall.
    def sweep(self, model, plan, wall, wall_name, batches):
        what = f"{model}, {plan}: batches within {wall_name}"
        if not self.clock.allows(what, 2 if self.options.host else 15):
            return
        context = self.result["card"].get("context_bytes") or 0
        with self.start(model, plan) as one:
            def needs(batch):
                planned = one(f"build {batch}")
                return planned["planned_arena_bytes"] + planned["planned_resident_bytes"] + context

            try:
                largest = self.largest(needs, wall) if wall else None
                if wall and not largest:
                    raise Failed("a batch of 8 does not fit")
                fitting = [b for b in batches if largest is None or b < largest]
                for batch in fitting + ([largest] if largest else []):
                    if not self.clock.allows(f"{what}: {batch}", 1 if self.options.host else 8):
                        return
                    planned = one(f"build {batch}")
                    made = one("make")
                    ms = one(f"steps {2 if self.options.host else 4}")["ms"]
                    self.result["batches"].append(
                        {"model": model, "plan": plan, "wall": wall_name, "batch": batch, "largest": batch == largest,
                         "samples_per_s": 1e3 * batch / statistics.median(ms), "ms": statistics.median(ms),
                         "predicted_bytes": planned["planned_arena_bytes"] + planned["planned_resident_bytes"],
                         "driver_bytes": made["driver_bytes"]})
                    row = self.result["batches"][-1]
                    print(f"{model}, {plan}, batch {batch}{' (the largest)' if row['largest'] else ''}: {row['samples_per_s']:.1f} samples/s",
                          flush=True)
            except Failed as why:
                self.clock.leave_out(what, why)

    @staticmethod
    def largest(needs, wall):
        """The largest batch that fits, in steps of an eighth of its power of 2; bytes are nearly a line in the batch."""
        low, high = 8, 16
        at_low, at_high = needs(low), needs(high)
        if at_low > wall:
            return None
        for _ in range(6):
            slope = max(1.0, (at_high - at_low) / (high - low))
            guess = int(low + (wall - at_low) / slope)
            unit = max(1, 2 ** (guess.bit_length() - 4))
            guess = max(low, guess // unit * unit)
            if guess in (low, high):
                break
            bytes_there = needs(guess)
            if bytes_there <= wall:
                low, at_low = guess, bytes_there
                high, at_high = guess + unit, needs(guess + unit)
                if at_high > wall:
                    break
                low, at_low, high, at_high = high, at_high, 2 * high, needs(2 * high)
            else:
                high, at_high = guess, bytes_there
        return low

    # Time and energy to a fixed loss.
    def learn(self, plan, batch, seconds, loss):
        what = f"NMT's generated task, {plan}, batch {batch}"
        if not self.clock.allows(what, seconds + (2 if self.options.host else 5)):
            return
        try:
            with self.start("reversal", plan) as one:
                one(f"build {batch}")
                made = one(f"learn {seconds} {loss}")
        except Failed as why:
            self.clock.leave_out(what, why)
            return
        self.result["learning"].append({"plan": plan, "batch": batch, "wanted": loss, **made})
        print(f"{what}: loss {made['loss']:.3f} after {made['seconds']:.1f} s, {made['steps']} steps"
              f"{'' if made['reached'] else ' (not reached)'}", flush=True)

    def beside_torch(self):
        python = os.environ.get("ECHO_GPU_TORCH_PYTHON", sys.executable)
        for model, ours in (("resnet50", "resnet50"), ("lstm", None)):
            what = f"PyTorch, {model}"
            if not self.clock.allows(what, 25):
                continue
            batch = 32
            made = subprocess.run([python, str(LIBRARY / "torch_steps.py"), model, str(batch)], capture_output=True, text=True,
                                  check=False, timeout=max(5, self.clock.left()))
            if made.returncode:
                self.clock.leave_out(what, (made.stderr.split("\n")[-2:] or [""])[0] or f"status {made.returncode}")
                return
            row = {"model": model, "batch": batch, **json.loads(made.stdout)}
            if ours:
                try:
                    with self.start(ours, "baseline") as one:
                        one(f"build {batch}")
                        one("make")
                        row["engine_ms"] = statistics.median(one("steps 5")["ms"])
                except Failed as why:
                    self.clock.leave_out(f"{what}: the engine beside it", why)
            self.result["torch"].append(row)
            print(f"PyTorch, {model}: {row['ms']:.1f} ms; the engine {row.get('engine_ms')}", flush=True)

    def run(self):
        quick, host = self.options.quick, self.options.host
        self.look_at_card()
        models = ("nmt", "resnet") if quick else MODELS
        for model in models:
            if self.clock.allows(model, 5 if host else 30):
                self.compare(model, ("baseline", "min_cut", "fused") if quick else PLANS)
        best = "fused" if any(row["plan"] == "fused" for row in self.result["models"].get("nmt", ())) else "min_cut"
        self.learn("baseline", 16 if host else 128, 2 if quick else 20, 0.5)
        self.learn(best, 32 if host else 256, 2 if quick else 20, 0.5)
        if not quick:
            self.learn("echo", 32 if host else 128, 20, 0.5)
        free = self.result["card"].get("card_bytes")
        for model in models:
            batches = (4, 8) if host else {"nmt": (16, 32, 64), "transformer": (16, 32), "ds2": (8, 16), "resnet": (8, 16)}[model]
            for plan in ("baseline", best) if quick or model != "nmt" else ("baseline", "echo", best):
                self.sweep(model, plan, *((None, "this machine") if host else (WALL, "11 GB, the paper's card")), batches)
        if not quick:
            self.sweep("resnet50", "baseline", None, "this card", (2, 4) if host else (4, 8, 16, 32, 64, 128, 256))
        if free:
            for plan in ("baseline", best):
                self.sweep("nmt", plan, int(0.95 * free), "this card", (256, 512, 1024))
        if not host:
            self.beside_torch()
        self.result["seconds"] = self.options.seconds - self.clock.left()
        self.result["left_out"] = self.clock.left_out
        self.result["bars"] = tables.bars(self.result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="gpu-steps")
    parser.add_argument("--out", default=str(LIBRARY.parents[1] / "results"), help="a folder for results")
    parser.add_argument("--seconds", type=float, default=480, help="what has not begun by then is left out")
    parser.add_argument("--spent", type=float, default=0, help="seconds of those that are over already")
    parser.add_argument("--host", action="store_true", help="the program is the host proof: results are only printed")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    bench = Bench(options)
    bench.run()
    result = bench.result
    text = tables.section(result)
    json_text = json.dumps(result, indent=1) + "\n"
    if options.host:
        if tables.section(json.loads(json_text)) != text:
            sys.exit("bench/gpu: the tables are not the same from the JSON")
        print(text)
    else:
        folder = pathlib.Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gpu.json").write_text(json_text, encoding="utf-8")
        (folder / "gpu.md").write_text(text + "\n", encoding="utf-8")
        try:
            import plot
            plot.all_of(result, folder)
        except ImportError:
            print("No matplotlib: nothing is plotted")
        results.table(result["bars"])
        print(f"written to {folder / 'gpu.json'}; {result['seconds']:.0f} s in all", flush=True)
    other = [f"{model} with {row['plan']}" for model, rows in result["models"].items() for row in rows if not row["same_losses"]]
    if other:
        sys.exit(f"bench/gpu: other losses than without: {', '.join(other)}")
    if not any(result["models"].values()):
        sys.exit("bench/gpu: nothing was measured")


if __name__ == "__main__":
    main()
