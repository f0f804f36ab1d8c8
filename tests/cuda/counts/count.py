#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts what the kernels' machine code does, and from the counts predicts the part of copy
bandwidth that they can reach.

    count.py [--check | --write] [--nvcc NVCC] [--cxx COMPILER]

Compiles for sm_80, 90, 100 and 120, disassembles, finds each kernel's hot loop (sass.py) and prints
a table. --check: fails where a count is above that of bench/results/cuda-counts.json, or where a
kernel spills, of the example engine too; --write: writes that file. Generated kernels are those of
generated.cpp, by NVRTC. Needs nvcc, cuobjdump and nvdisasm, of the toolkit or of the Python packages
nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm, which it installs under build/ where it can. 77: without them.
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
sys.path[:0] = [str(FOLDER), str(ROOT / "bench")]

import model  # noqa: E402
import results  # noqa: E402
import sass  # noqa: E402

RESULT = ROOT / "bench" / "results" / "cuda-counts.json"
ENGINE = ROOT / "examples" / "engine" / "cuda" / "device_backend.cu"  # read for spills alone
FLAGS = [
    "-optf",
    str(ROOT / ".ci" / "nvcc.flags"),
    f"-I{ROOT / 'include'}",
    f"-I{ROOT / 'examples'}",
]
ARCHITECTURES = (80, 90, 100, 120)
DUMPS = ("cuobjdump", "nvdisasm")
COUNTED = {"H100": 90, "H200": 90, "B200": 100}
SKIPPED = 77
TYPES = {"float": ("f", 4), "half": ("NS0_4halfE", 2), "bfloat16": ("NS0_8bfloat16E", 2)}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What is counted: a function whose mangled name has all of `words`; its `loop`-th hot loop
    from the shortest; of the paths through it the shortest, or the longest. Bytes of memory for
    each element are those that an ideal kernel moves.
    """

    name: str
    source: str
    words: tuple[str, ...]
    elements: int  # of a warp's turn
    read: float  # bytes of memory for each element
    written: float
    loop: int = 0
    asked: float = 0.95  # part of copy bandwidth on H100
    cached: float = 0.0  # bytes for each element that are read again and again, from a cache


def generated(name: str, read: int, **more) -> list[Kernel]:
    """A generated kernel for each type; their PTX is the source. `layout`: those that are made for
    one.
    """
    cached, layout = more.pop("cached", 0), " layout" if more.pop("layout", False) else ""
    return [
        Kernel(
            f"{name} {kind}",
            f"generated.{short}{layout}",
            ("echo_fused",),
            16 // size * 32,
            read * size,
            size,
            cached=cached * size,
            **more,
        )
        for short, kind, size in (("f32", "float", 4), ("f16", "half", 2), ("bf16", "bfloat16", 2))
    ]


def one_bit(
    name: str, words: str, read: int, written: int, mask_in: bool, mask_out: bool, **more
) -> list[Kernel]:
    """A one-bit kernel in fp32 and fp16; `read` and `written` in tensors."""
    return [
        Kernel(
            f"{name} {kind}",
            "one_bit.cu",
            (words.format(TYPES[kind][0]),),
            1024,
            read * TYPES[kind][1] + mask_in / 8,
            written * TYPES[kind][1] + mask_out / 8,
            **more,
        )
        for kind in ("float", "half")
    ]


def fused(name: str, words: str, read: int, **more) -> list[Kernel]:
    """A fused kernel for each type; a group of fp32 has 4 elements, others 8."""
    cached = more.pop("cached", 0)
    return [
        Kernel(
            f"{name} {kind}",
            "fused.cu",
            (words, f"{TYPES[kind][0]}"),
            16 // size * 32,
            read * size,
            size,
            cached=cached * size,
            **more,
        )
        for kind, (_, size) in TYPES.items()
    ]


def arithmetic_alone(name: str, read: int) -> list[Kernel]:
    """What of a fused kernel no layout can spare: one address, and the library's loads, conversions,
    arithmetic and stores. Instructions beyond these are index arithmetic.
    """
    return [
        Kernel(
            f"{name} {kind}",
            "arithmetic.cu",
            (f"16arithmetic_alone{mangled}E",),
            16 // size * 32,
            read * size,
            size,
        )
        for kind, mangled, size in (
            ("float", "If", 4),
            ("half", "IN4echo4cuda4halfE", 2),
            ("bfloat16", "IN4echo4cuda8bfloat16E", 2),
        )
    ]


KERNELS = [
    *one_bit("encode", "13positive_bodyI{}Lb0E", 1, 0, False, True),
    *one_bit("decode", "11decode_bodyI{}E", 0, 1, True, False),
    *one_bit("relu_forward", "13positive_bodyI{}Lb1E", 1, 1, False, True),
    *one_bit("relu_backward", "18relu_backward_bodyI{}E", 1, 1, True, False),
    *one_bit("dropout_forward", "17dropout_draw_bodyI{}Lb1E", 1, 1, False, True),
    *one_bit("dropout by seed", "17dropout_draw_bodyI{}Lb0E", 1, 1, False, False),
    *one_bit("dropout_backward", "18dropout_apply_bodyI{}E", 1, 1, True, False),
    *fused("tanh(q+k)", "12tanh_forward", 2),
    *fused("tanh's gradient, stashed", "12tanh_stashed", 2),
    *fused("tanh(q+k)'s gradient", "15tanh_recomputed", 3),
    *fused("tanh(q+k)'s gradient, q [B,1,H]", "15tanh_recomputed", 2, loop=1, asked=0.9, cached=1),
    *fused(
        "tanh(q+k)'s gradient, q [B,1,H], k [1,T,H]",
        "15tanh_recomputed",
        1,
        loop=1,
        asked=0.9,
        cached=2,
    ),
    *arithmetic_alone("tanh(q+k)'s gradient, arithmetic alone", 3),
    *generated("generated: tanh(q+k)'s gradient", 3),
    *generated("generated: tanh(q+k)'s gradient, q [B,1,H]", 2, loop=1, asked=0.9, cached=1),
    *generated(
        "generated for a layout: tanh(q+k)'s gradient, q [B,1,H]",
        2,
        asked=0.9,
        cached=1,
        layout=True,
    ),
]


def disassembler() -> str | None:
    """cuobjdump, of the toolkit or of the Python packages, installed where they are not yet. It runs
    nvdisasm, which is put where it looks."""
    toolkit = [shutil.which(name) or shutil.which(f"/usr/local/cuda/bin/{name}") for name in DUMPS]
    if all(toolkit):
        return toolkit[0]
    home = ROOT / "build" / "nvidia"
    made = [sorted(home.glob(f"**/bin/{name}")) for name in DUMPS]
    if not all(made):
        packages = [f"nvidia-cuda-{name}" for name in DUMPS]
        try:
            subprocess.run([sys.executable, "-m", "venv", home], check=True, capture_output=True)
            subprocess.run(
                [home / "bin" / "pip", "install", "-q", *packages], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        made = [sorted(home.glob(f"**/bin/{name}")) for name in DUMPS]
    if not all(made):
        return None
    os.environ["NVDISASM_PATH"] = str(made[1][0].parent)
    return str(made[0][0])


@dataclasses.dataclass
class Compiled:
    """A source's machine code for one architecture."""

    functions: dict[str, list[sass.Instruction]]
    registers: dict[str, int]
    spilled: dict[str, int]


def usage_of(said: str) -> tuple[dict[str, int], dict[str, int]]:
    """Registers, and bytes that are kept in local memory, of each kernel, by `ptxas -v`."""
    registers, spilled, name = {}, {}, ""
    for line in said.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
        ):
            spilled[name] = sum(map(int, found.groups()))
        elif found := re.search(r"Used (\d+) registers", line):
            registers[name] = int(found[1])
    return registers, spilled


def ptx_of(nvcc: str, source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The PTX that all architectures are made from: what kernels say differs below sm_80 only.
    Errors have nvcc's words.
    """
    ptx = folder / f"{source.stem}.ptx"
    made = subprocess.run(
        [nvcc, *FLAGS, "-arch=compute_80", "-ptx", "-o", ptx, source],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"{source.name}: {made.stdout}{made.stderr}")
    return ptx


def generated_ptx(compiler: str, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The PTX that NVRTC makes of the generated kernels; nothing without NVRTC."""
    program = folder / "generated"
    subprocess.run(
        [
            compiler,
            "-std=c++20",
            f"-I{ROOT / 'include'}",
            FOLDER / "generated.cpp",
            "-o",
            program,
            "-ldl",
        ],
        check=True,
    )
    found = {}
    for kind in ("f32", "f16", "bf16", "f32 layout", "f16 layout", "bf16 layout"):
        made = subprocess.run([program, *kind.split()], capture_output=True, text=True, check=False)
        if made.returncode == SKIPPED:
            print(f"generated kernels are not counted: {made.stderr.strip()}")
            return {}
        made.check_returncode()
        found[f"generated.{kind}"] = folder / f"generated.{kind.replace(' ', '-')}.ptx"
        found[f"generated.{kind}"].write_text(made.stdout, encoding="utf-8")
    return found


def assembled(ptxas: str, cuobjdump: str, ptx: pathlib.Path, architecture: int) -> Compiled:
    """The machine code of a PTX file; without `cuobjdump` only its registers and spills."""
    cubin = ptx.with_suffix(f".{architecture}.cubin")
    made = subprocess.run(
        [ptxas, "-v", f"-arch=sm_{architecture}", "-o", cubin, ptx],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"{ptx.name} for sm_{architecture}: {made.stdout}{made.stderr}")
    listing = [cuobjdump, "-sass", cubin] if cuobjdump else ["true"]
    text = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    return Compiled(sass.functions(text), *usage_of(made.stdout + made.stderr))


def find(kernel: Kernel, made: Compiled) -> str:
    """The one function that the kernel is."""
    named = [name for name in made.functions if all(word in name for word in kernel.words)]
    if kernel.source == "fused.cu":  # the types of results and operands stand last in a name
        last = kernel.words[1]
        named = [
            name
            for name in named
            if re.search(r"E(J|NS3_)?J?" + re.escape(last), name.split(kernel.words[0])[1])
        ]
    if len(named) != 1:
        raise RuntimeError(
            f"{kernel.name}: {len(named)} functions have "
            f"{' and '.join(kernel.words)} in their names"
        )
    return named[0]


def counts_of(kernel: Kernel, made: Compiled, architecture: int) -> dict:
    """The counts of one kernel on one architecture."""
    name = find(kernel, made)
    hot = sass.hot_paths(made.functions[name])
    if len(hot) <= kernel.loop:
        raise RuntimeError(f"{kernel.name}: {len(hot)} hot loops, no number {kernel.loop}")
    path, longest = hot[kernel.loop]
    pipes: dict[str, int] = {}
    for one in path:
        pipes[one.pipe] = pipes.get(one.pipe, 0) + 1
    registers = made.registers[name]
    threads = model.resident_threads(architecture, registers)
    loaded = sass.sectors(path, "LDG") * sass.SECTOR / kernel.elements
    share = kernel.read / (kernel.read + kernel.cached) if kernel.read else 0
    return {
        "instructions": len(path),
        "longest": len(longest),
        "pipes": dict(sorted(pipes.items())),
        "registers": registers,
        "spilled": made.spilled[name],
        "resident_threads": threads,
        "sectors_read": sass.sectors(path, "LDG"),
        "sectors_written": sass.sectors(path, "STG"),
        "least_read": round(kernel.elements * (kernel.read + kernel.cached) / sass.SECTOR, 3),
        "least_written": round(kernel.elements * kernel.written / sass.SECTOR, 3),
        "bytes_in_flight": round(sass.most_in_flight(path) * threads * share) if loaded else None,
    }


def predicted(kernel: Kernel, counts: dict, card: model.Card) -> tuple[float, str]:
    """The part of copy bandwidth by the model; of a kernel that only writes, bytes in flight are no
    bound.
    """
    moved = kernel.elements * (kernel.read + kernel.written)
    asked = counts["sectors_read"] + counts["sectors_written"]
    least = counts["least_read"] + counts["least_written"]
    flight = counts["bytes_in_flight"] if kernel.read * 8 > kernel.written else None
    return model.part_of_copy(
        card,
        moved=moved,
        instructions=counts["instructions"],
        pipes=counts["pipes"],
        in_flight=card.needed if flight is None else flight,
        sector_efficiency=min(1.0, least / asked),
    )


def all_counts(nvcc: str, cuobjdump: str, compiler: str) -> tuple[dict, list[str]]:
    """Everything that the file has, and what is wrong with it."""
    counted = {kernel.source for kernel in KERNELS if kernel.source.endswith(".cu")}
    paths = [FOLDER / source for source in sorted(counted)] + [ENGINE]
    ptxas = str(pathlib.Path(nvcc).resolve().parent / "ptxas")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        beside = pool.submit(generated_ptx, compiler, folder)
        texts = dict(
            zip(
                [path.name for path in paths],
                pool.map(lambda path: ptx_of(nvcc, path, folder), paths),
            )
        )
        texts |= beside.result()
        jobs = {
            (source, a): pool.submit(
                assembled, ptxas, "" if source == ENGINE.name else cuobjdump, texts[source], a
            )
            for source in texts
            for a in ARCHITECTURES
        }
        made = {key: job.result() for key, job in jobs.items()}
    rows, faults, units = [], [], {}
    for (source, a), one in made.items():
        units.setdefault(source, {})[f"sm_{a}"] = {
            "kernels": len(one.registers),
            "in_local_memory": sum(size > 0 for size in one.spilled.values()),
            "most_registers": max(one.registers.values()),
        }
        faults += [
            f"{name} of {source} keeps {size} bytes in local memory on sm_{a}"
            for name, size in one.spilled.items()
            if size
        ]
    for kernel in (one for one in KERNELS if one.source in texts):
        row = {"kernel": kernel.name, "elements": kernel.elements, "counts": {}, "predicted": {}}
        for a in sorted(set(COUNTED.values())):
            row["counts"][f"sm_{a}"] = counts_of(kernel, made[kernel.source, a], a)
        for name, card in model.CARDS.items():
            part, by = predicted(kernel, row["counts"][f"sm_{card.architecture}"], card)
            row["predicted"][name] = {"part": round(part, 3), "bound": by}
        row["asked"], row["met"] = kernel.asked, row["predicted"]["H100"]["part"] >= kernel.asked
        rows.append(row)
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", version)
    return {
        "date": datetime.date.today().isoformat(),
        "nvcc": release[1] if release else "",
        "how": "counted and predicted; no card ran",
        "kernels": rows,
        "units": units,
    }, faults


# What may not grow.
RATCHETS = ("instructions", "registers", "spilled", "sectors_read", "sectors_written")


def grown(old: dict, new: dict) -> list[str]:
    """Counts above those of the file; a kernel that the file lacks is new, and one that is missing
    is a fault.
    """
    if old.get("nvcc") != new.get("nvcc"):
        print(f"not compared: the file's counts are of nvcc {old['nvcc']}, these of {new['nvcc']}")
        return []
    known = {row["kernel"]: row for row in old["kernels"]}
    found = [
        f"{name}: is no longer counted"
        for name in known
        if name not in {row["kernel"] for row in new["kernels"]}
        and not name.startswith("generated")
    ]
    for row in new["kernels"]:
        for a, counts in row["counts"].items():
            before = known.get(row["kernel"], {}).get("counts", {}).get(a, {})
            found += [
                f"{row['kernel']} on {a}: {counts[key]} {key.replace('_', ' ')}, "
                f"{before[key]} before"
                for key in RATCHETS
                if key in before and counts[key] > before[key]
            ]
            if (before.get("bytes_in_flight") or 0) > (counts["bytes_in_flight"] or 0):
                found.append(
                    f"{row['kernel']} on {a}: {counts['bytes_in_flight']} bytes in flight, "
                    f"{before['bytes_in_flight']} before"
                )
    return found


def table(result: dict) -> list[str]:
    """One line for each kernel: counts for sm_90, predictions for the three cards."""
    widths = (56, 9, 6, 10, 10, 5, 8)
    heads = ("kernel", "instr.", "each", "read", "written", "regs", "flight")
    lines = [
        "counted for sm_90: warp instructions of a turn and of an element; sectors/least; registers",
        " ".join(f"{head:{width}}" for head, width in zip(heads, widths))
        + " predicted part of copy bandwidth",
    ]
    for row in result["kernels"]:
        c = row["counts"]["sm_90"]
        cells = (
            row["kernel"],
            f"{c['instructions']}..{c['longest']}",
            f"{32 * c['instructions'] / row['elements']:.2f}",
            f"{c['sectors_read']}/{c['least_read']:g}",
            f"{c['sectors_written']}/{c['least_written']:g}",
            str(c["registers"]),
            f"{c['bytes_in_flight'] / 1024:.0f} KB" if c["bytes_in_flight"] else "-",
        )
        parts = [f"{name} {p['part']:.2f} ({p['bound']})" for name, p in row["predicted"].items()]
        lines.append(
            " ".join(f"{cell:{width}}" for cell, width in zip(cells, widths))
            + " "
            + ", ".join(parts)
            + ("" if row["met"] else "  BELOW ITS BAR")
        )
    return lines


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    nvcc = shutil.which(options.nvcc) or shutil.which("/usr/local/cuda/bin/nvcc")
    cuobjdump = disassembler() if nvcc else None
    if not nvcc or not cuobjdump:
        print(f"skipped: there is no {'cuobjdump' if nvcc else 'nvcc'}")
        return SKIPPED
    result, faults = all_counts(nvcc, cuobjdump, options.cxx)
    print("\n".join(table(result)))
    for unit, by_architecture in result["units"].items():
        most = max(one["most_registers"] for one in by_architecture.values())
        bad = sum(one["in_local_memory"] for one in by_architecture.values())
        kernels = max(one["kernels"] for one in by_architecture.values())
        print(
            f"{unit}: {kernels} kernels for {', '.join(by_architecture)}: {bad} with local memory, "
            f"at most {most} registers"
        )
    if options.check:
        faults += grown(json.loads(RESULT.read_text(encoding="utf-8")), result)
        if faults:
            faults.append("count.py --write takes the new counts where more is wanted")
    if options.write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
