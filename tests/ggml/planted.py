#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Plants faults in what Echo is told of ggml, one at a time, and looks whether a test finds each: tests/ggml/run --planted.

A fault stands in a copy of the headers; the tests are built against it and must fail."""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GGML = ROOT / "build" / "ggml"
SOURCE = next(GGML.glob("ggml_python-*"), GGML) / "vendor" / "ggml"


@dataclasses.dataclass
class Fault:
    """`old` stands in `file` once; with `new` in its place the program `test` must fail."""

    what: str
    file: str
    old: str
    new: str
    test: str = "facts"


FACTS, GRAPH, LAY = "include/echo/vocabulary/ggml.hpp", "examples/ggml/graph.hpp", "examples/ggml/lay.hpp"
TRAITS, WRITES = "examples/ggml/traits.hpp", "include/echo/graph/storage_writes.hpp"
ENGINE = "examples/ggml/engine.hpp"
FAULTS = [
    Fault("MUL's gradient reads one input", FACTS, "{op(light, {.inputs = {0, 1}}, over), \"MUL\"}",
          "{op(light, {.inputs = {0}}, over), \"MUL\"}"),
    Fault("SOFT_MAX's gradient reads the input", FACTS, "{op(light, {.outputs = {0}}, over), \"SQRT EXP SOFT_MAX\"}",
          "{op(light, {.inputs = {0}}, over), \"SQRT EXP SOFT_MAX\"}"),
    Fault("REPEAT is laid in place", FACTS, "SUM_ROWS MEAN REPEAT REPEAT_BACK ACC SET\"}",
          "SUM_ROWS MEAN REPEAT_BACK ACC SET\"}, {op(light, {}, over), \"REPEAT\"}"),
    Fault("an op is not known", FACTS, " WIN_UNPART", ""),
    Fault("what dies is not taken over first", GRAPH, "if (last_read_.at(on) == position(n)) return i;", ""),
    Fault("a write lies on storage of its own", TRAITS, "t.view_of = echo_ggml::base_of(",
          "if (!echo_ggml::writes(n)) t.view_of = echo_ggml::base_of("),
    Fault("writes are not said", TRAITS, "if (echo_ggml::writes(n))", "if (false)"),
    Fault("a reader does not stand behind the write", WRITES, "control.push_back(found->second.writer);", "{}"),
    Fault("who reads before a write may run again", WRITES, "builder_.run_once(reader);", "(void)reader;"),
    Fault("what is written over may be made again", WRITES,
          "builder_.run_once(builder_.so_far()[storage].producer);", ""),
    Fault("a write may run again", WRITES, "builder_.run_once(n);", ""),
    Fault("a plan is remembered without what is read", ENGINE,
          "for (const ggml_tensor* const s : t->src) refer(s);", ""),
    Fault("a copy is newly fused", LAY, "const bool apart = fuses &&", "const bool apart = false && fuses &&", "random"),
    Fault("a fused pair is copied in part", LAY, "if (norm) norm = copy_of(context_, norm);", "", "random"),
    Fault("a reader keeps the original", LAY, "*from[i] = of_step_[",
          "if (steps_[t].kind == echo::step_kind::recompute) *from[i] = of_step_[", "random"),
    Fault("uses are counted as before", LAY, "is.use_counts[slot] = readers[is.hash_keys[slot]];", "{}", "random"),
]


def headers(folder: pathlib.Path, fault: Fault) -> None:
    """A copy of the headers with the fault."""
    shutil.copytree(ROOT / "include", folder / "include")
    shutil.copytree(ROOT / "examples" / "ggml", folder / "examples" / "ggml")
    shutil.copytree(ROOT / "examples" / "tools", folder / "examples" / "tools")
    file = folder / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.what}: '{fault.old}' stands {text.count(fault.old)} times in {fault.file}")
    file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def outcome(fault: Fault) -> str:
    """`found`, `not found`, or what keeps the test from being built."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        headers(folder, fault)
        libraries = sorted({str(p.parent) for p in (GGML / "shared").rglob("libggml*.so")})
        done = subprocess.run(
            ["g++", "-std=c++20", "-O1", "-Wno-deprecated-declarations", '-DECHO_GGML_VERSION="0"',
             f"-I{folder / 'examples/ggml'}", f"-I{folder / 'examples/tools'}", f"-I{folder / 'include'}",
             f"-isystem{SOURCE / 'include'}", ROOT / "tests" / "ggml" / f"{fault.test}.cpp", "-o", folder / "test",
             *(f"-L{at}" for at in libraries), *(f"-Wl,-rpath,{at}" for at in libraries),
             "-lggml", "-lggml-base", "-lggml-cpu", "-lCatch2WithMain"],
            capture_output=True, text=True, check=False)
        if done.returncode:
            return "cannot be built: " + done.stderr.strip()[:300]
        # An abort by ggml, or a run without an end, finds a fault as well as a failed check does.
        try:
            ran = subprocess.run([folder / "test"], capture_output=True, check=False, timeout=600, env=dict(os.environ))
        except subprocess.TimeoutExpired:
            return "found"
        return "found" if ran.returncode else "not found"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults whose description holds this text")
    asked = parser.parse_args()
    missed = 0
    chosen = [fault for fault in FAULTS if asked.only in fault.what]
    for fault in chosen:
        said = outcome(fault)
        missed += said != "found"
        print(f"{'passed' if said == 'found' else 'FAILED':7} {fault.what} ({fault.test}): {said}", flush=True)
    print(f"{len(chosen) - missed} passed, {missed} failed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
