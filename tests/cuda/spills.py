#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compiles .cu files for every architecture with warnings as errors and looks at their kernels: none may keep anything
in local memory (a stack frame, spilled registers), and each that matches a pattern must have certain instructions.

    python3 tests/cuda/spills.py tests/cuda/all_kernels.cu --ptx '.=ld\\.global\\.v4' --ptx 'encode=vote\\.'

Exit 0: all is well. 1: a kernel is not, or the file does not compile; kernels are named. 77: there is no nvcc.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
FLAGS = ["-optf", str(ROOT / ".ci" / "nvcc.flags"), "-Werror", "all-warnings"]

COMPILING = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
PROPERTIES = re.compile(r"Function properties for (\w+)")
MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(")


class Kernel:
    def __init__(self, name, architecture):
        self.name, self.architecture = name, architecture
        self.stack = self.stores = self.loads = self.registers = 0

    def faults(self):
        if self.stack or self.stores or self.loads:
            yield (f"{self.name} for {self.architecture}: {self.stack} bytes of stack, {self.stores} bytes of registers "
                   f"spilled and {self.loads} read back")


def read_usage(said):
    """The functions that ptxas reports on, kernels and what they call."""
    found, architecture, current = [], "?", None
    for line in said.splitlines():
        if match := COMPILING.search(line):
            architecture = match[2]
        elif match := PROPERTIES.search(line):
            current = Kernel(match[1], architecture)
            found.append(current)
        elif current and (match := MEMORY.search(line)):
            current.stack, current.stores, current.loads = map(int, match.groups())
        elif current and (match := USED.search(line)):
            current.registers = int(match[1])
    return found


def read_ptx(text):
    """The body of every kernel, by name."""
    starts = list(ENTRY.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.end():end] for match, end in zip(starts, ends)}


def missing(bodies, expectations, where):
    """One line for each kernel without an instruction that is expected of it, and for each pattern without kernels."""
    for pattern, instruction in expectations:
        named = [name for name in bodies if re.search(pattern, name)]
        if not named:
            yield f"{where}: no kernel's name matches '{pattern}'"
        for name in named:
            if not re.search(instruction, bodies[name]):
                yield f"{name} in {where}: no instruction matches '{instruction}'"


def demangled(text):
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    return subprocess.run([tool], input=text, capture_output=True, text=True).stdout if tool else text


def look_at(source, nvcc, architectures, flags, expectations):
    """The faults of one file, and its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        targets = [f"-gencode=arch=compute_{a[3:]},code={a}" for a in architectures]
        command = [nvcc, *FLAGS, *flags, *targets, "--resource-usage", "--threads", "2", "--keep", "--keep-dir", folder,
                   "-fatbin", str(source), "-o", str(pathlib.Path(folder, "out.fatbin"))]
        done = subprocess.run(command, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            return [f"{source} does not compile:\n{said}"], []
        kernels = read_usage(said)
        found = [fault for kernel in kernels for fault in kernel.faults()]
        compiled = {kernel.architecture for kernel in kernels}
        found += [f"{source}: no kernel for {a}" for a in architectures if a not in compiled]
        texts = sorted(pathlib.Path(folder).glob("*.ptx"))
        if expectations and not texts:
            found.append(f"{source}: nvcc kept no PTX")
        for text in texts:
            found += missing(read_ptx(text.read_text(encoding="utf-8")), expectations, text.name)
        return found, kernels


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", action="append", help=f"default: {' '.join(ARCHITECTURES)}")
    parser.add_argument("-I", dest="include", action="append", default=[], help="besides this tree's include/")
    parser.add_argument("--ptx", action="append", default=[], metavar="NAMES=INSTRUCTION",
                        help="kernels whose mangled name matches NAMES have such an instruction (regular expressions)")
    options = parser.parse_args(arguments)
    nvcc = shutil.which(options.nvcc)
    if not nvcc:
        print(f"skipped: {options.nvcc} is not found")
        return 77

    flags = [f"-I{folder}" for folder in [ROOT / "include", *options.include]]
    expectations = [tuple(text.split("=", 1)) for text in options.ptx]
    failed = False
    for source in options.sources:
        faults, kernels = look_at(source, nvcc, options.arch or ARCHITECTURES, flags, expectations)
        for fault in faults:
            print(demangled(fault).rstrip())
            failed = True
        if kernels:
            print(f"{source}: {len(kernels)} kernels, at most {max(k.registers for k in kernels)} registers, "
                  f"{len(faults)} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
