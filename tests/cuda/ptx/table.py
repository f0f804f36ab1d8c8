#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs every program on the interpreter of PTX, and prints a table of the kernels: cases, how many
are equal, what warps execute and touch for each element of the result.

    table.py PROGRAMS [--out FILE] [--more FILE]

PROGRAMS is the folder with the programs ptx-*. --out: the same as JSON. --more: JSON with further
columns of each kernel, {SYMBOL: {COLUMN: VALUE}}. Exit 1 if a program fails.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TABLED = ["one_bit", "one_bit_sm_90", "fused", "fused_sm_90", "jit", "engine", "steps"]
OTHERS = [
    ["opcodes"],
    ["device_one_bit", "--small"],
    ["device_fused", "--small"],
    ["device_jit", "--small"],
    ["device_helpers", "--small"],
]
PREFIXES = [
    "echo::cuda::kernel::",
    "echo::cuda::fused::",
    "echo::cuda::",
    "engine::cuda::",
    "echo::",
]
COLUMNS = ["cases", "equal", "instructions", "loaded", "stored", "executed"]


def demangled(symbols: list[str]) -> dict[str, str]:
    """What a kernel runs, as short as it is clear."""
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    text = "\n".join(symbols)
    if tool:
        text = subprocess.run([tool], input=text, capture_output=True, text=True, check=True).stdout
    names = {}
    for symbol, name in zip(symbols, text.splitlines()):
        if match := re.match(r"void echo::cuda::detail::run_kernel<(.*)>\(.*\)$", name):
            name = match[1].strip()
        for prefix in PREFIXES:
            name = name.replace(prefix, "")
        names[symbol] = name
    return names


def run(folder: pathlib.Path, command: list[str], report: pathlib.Path | None) -> tuple[bool, str]:
    """Whether a program ended well, and its last words, or all that it says of faults."""
    more = {"ECHO_PTX_REPORT": str(report)} if report else {}
    done = subprocess.run(
        [folder / f"ptx-{command[0]}", *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, "\n".join(said[-8:] if done.returncode == 0 else said[-60:])


def row_of(facts: dict) -> dict:
    """A kernel's columns. Sectors, of 32 bytes, are the cases' share as of the instructions."""
    elements = facts["elements"]
    share = (
        facts["case_warp_instructions"] / facts["warp_instructions"]
        if facts["warp_instructions"]
        else 0
    )
    per = (lambda n: round(n / elements, 3)) if elements else (lambda n: None)
    return {
        "cases": facts["cases"],
        "equal": facts["equal"],
        "instructions": per(facts["case_warp_instructions"]),
        "loaded": per(facts["sectors_loaded"] * share),
        "stored": per(facts["sectors_stored"] * share),
        "executed": round(facts["executed"] / facts["instructions"], 3),
        "launches": facts["launches"],
    }


def main(arguments: list[str]) -> int:
    """Runs, prints and writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--more", type=pathlib.Path)
    options = parser.parse_args(arguments)
    folder = options.programs.resolve()
    os.environ.setdefault("ECHO_PTX_CACHE", str(folder / "generated"))
    well, kernels, words = True, {}, []
    with tempfile.TemporaryDirectory() as temporary:
        for command in [[name] for name in TABLED] + OTHERS:
            if not (folder / f"ptx-{command[0]}").exists():
                print(f"{command[0]}: not built here")
                continue
            tabled = command[0] in TABLED
            report = pathlib.Path(temporary, f"{command[0]}.json") if tabled else None
            fine, said = run(folder, command, report)
            well = well and fine
            words.append(f"{command[0]}{'' if fine else ' FAILED'}:\n{said}")
            if report and report.exists() and command[0] != "steps":
                kernels[command[0]] = json.loads(report.read_text(encoding="utf-8"))
    extra = json.loads(options.more.read_text(encoding="utf-8")) if options.more else {}
    rows = {}
    for program, found in kernels.items():
        names = demangled(list(found))
        for symbol, facts in found.items():
            rows[f"{program}: {symbol}"] = {
                "program": program,
                "symbol": symbol,
                "name": names[symbol],
                **row_of(facts),
                **extra.get(symbol, {}),
            }
    columns = COLUMNS + sorted({c for more in extra.values() for c in more})
    print(f"{'kernel':84}" + "".join(f"{c:>14}" for c in columns))
    for row in rows.values():
        print(
            f"{row['program'] + ': ' + row['name']:.82}".ljust(84)
            + "".join(f"{row.get(c, '')!s:>14}" for c in columns)
        )
    print(
        "instructions: of warps, for each element of the result; loaded and stored: sectors of 32\n"
        "bytes, likewise; executed: the part of a kernel's instructions that some case reaches"
    )
    print("\n".join(words))
    cases, equal = (sum(r[c] for r in rows.values()) for c in ("cases", "equal"))
    print(f"{len(rows)} kernels, {cases} cases, {equal} equal")
    if options.out:
        options.out.write_text(
            json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return 0 if well and cases == equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
