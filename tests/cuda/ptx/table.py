#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs every program on the interpreter of PTX, and prints a table of the kernels: cases, how many
are equal, what warps execute and touch for each element of the result, and the part of copy
bandwidth that is predicted for it on H100, where it was counted.

    table.py PROGRAMS [--out FILE] [--counts FILE]

PROGRAMS is the folder with the programs ptx-*. --out: the same as JSON. --counts: what
counts/count.py has written. Exit 1 if a program fails or was not built, or if a kernel of one never
ran.
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
COLUMNS = ["cases", "equal", "instructions", "loaded", "stored", "executed", "H100 predicted"]
COUNTS = pathlib.Path(__file__).resolve().parents[3] / "bench" / "results" / "cuda-counts.json"
# Kernels that nothing launches: how many blocks of this one are resident is asked, so that it has code.
NEVER_LAUNCHED = {"_ZN4echo4cuda6detail10run_kernelIN6engine4cuda6detail7nothingEEEvT_"}


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


def predictions(result: dict) -> dict[str, dict]:
    """A column of each symbol that was counted: the part of copy bandwidth on H100, the least where
    it was counted for several layouts. Generated kernels all have one symbol, which tells nothing.
    """
    parts: dict[str, list[float]] = {}
    for row in result["kernels"]:
        if row["symbol"] != "echo_fused":
            parts.setdefault(row["symbol"], []).append(row["predicted"]["H100"]["part"])
    return {symbol: {"H100 predicted": min(of)} for symbol, of in parts.items()}


def never_ran(dump: pathlib.Path, report: dict) -> list[str]:
    """Kernels of a program's PTX that no case has launched."""
    entries = {
        name
        for file in dump.glob("program-*.ptx")
        for name in re.findall(r"\.entry\s+(\w+)", file.read_text(encoding="utf-8"))
    }
    return sorted(entries - set(report) - NEVER_LAUNCHED)


def run(
    folder: pathlib.Path, command: list[str], report: pathlib.Path, dump: pathlib.Path
) -> tuple[bool, str]:
    """Whether a program ended well, and its last words, or all that it says of faults."""
    if not (folder / f"ptx-{command[0]}").exists():
        return False, "was not built"
    more = {"ECHO_PTX_REPORT": str(report), "ECHO_PTX_DUMP": str(dump)}
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
    parser.add_argument("--counts", type=pathlib.Path, default=COUNTS)
    options = parser.parse_args(arguments)
    folder = options.programs.resolve()
    os.environ.setdefault("ECHO_PTX_CACHE", str(folder / "generated"))
    well, kernels, words = True, {}, []
    with tempfile.TemporaryDirectory() as temporary:
        for command in [[name] for name in TABLED] + OTHERS:
            name = command[0]
            report, dump = pathlib.Path(temporary, f"{name}.json"), pathlib.Path(temporary, name)
            dump.mkdir()
            fine, said = run(folder, command, report, dump)
            if name in TABLED and name != "steps" and report.exists():
                kernels[name] = json.loads(report.read_text(encoding="utf-8"))
                for symbol in never_ran(dump, kernels[name]):
                    fine, said = False, f"{said}\n{symbol} never ran"
            well = well and fine
            words.append(f"{name}{'' if fine else ' FAILED'}:\n{said}")
    extra = predictions(json.loads(options.counts.read_text(encoding="utf-8")))
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
    print(f"{'kernel':84}" + "".join(f"{c:>{max(14, len(c) + 2)}}" for c in COLUMNS))
    for row in rows.values():
        print(
            f"{row['program'] + ': ' + row['name']:.82}".ljust(84)
            + "".join(f"{row.get(c, '')!s:>{max(14, len(c) + 2)}}" for c in COLUMNS)
        )
    print(
        "instructions: of warps, for each element of the result; loaded and stored: sectors of 32\n"
        "bytes, likewise; executed: the part of a kernel's instructions that some case reaches;\n"
        "H100 predicted: the part of copy bandwidth by counts of the machine code, never measured"
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
