#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts what the kernels' machine code does, and from the counts predicts the part of copy
bandwidth that they can reach.

    count.py [--check | --write | --markdown] [--nvcc NVCC] [--cxx COMPILER]

Compiles for sm_80, 90, 100 and 120, disassembles, finds each kernel's hot loop (sass.py) and prints
a table. It fails where a kernel misses a bar (faults_of), or spills, of the example engine too.
--check: also where a count is above that of bench/results/cuda-counts.json; it compiles only what is
counted, for sm_90 and 100. --write: writes that file. --markdown: puts the file's figures into
docs/cuda.md, and compiles nothing. Generated kernels are those of generated.cpp, by NVRTC. Needs nvcc,
cuobjdump and nvdisasm, of the toolkit or of the Python packages nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm, which it installs under build/ where it can. 77: without them.
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import math
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
PAGE = ROOT / "docs" / "cuda.md"
ENGINE = ROOT / "examples" / "engine" / "cuda" / "device_backend.cu"  # read for spills alone
FLAGS = [
    "-optf",
    str(ROOT / ".ci" / "nvcc.flags"),
    f"-I{ROOT / 'include'}",
    f"-I{ROOT / 'examples'}",
]
ARCHITECTURES = (80, 90, 100, 120)
# Where kernels say how many threads there should be, their registers are those of PTX of their own. What is
# counted is of the PTX for all, whose loops are told apart.
OF_THEIR_OWN = {"fused.cu": (100, 120)}
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
    asked: float | None = 0.95  # part of copy bandwidth on H100; None: nothing, since counts say why
    cached: float = 0.0  # bytes for each element that are read again and again, from a cache
    most: int | None = None  # warp instructions of a turn at most
    in_flight: int | None = None  # bytes under way of a multiprocessor at least, on H100
    passes: tuple[int, ...] = ()  # by row: accesses of 16 bytes that each pass over a group reads


IN_FLIGHT = 32 << 10  # asked of fused kernels, whose loads must not wait one for another
BROADCAST = 130  # warp instructions asked of tanh's gradient with broadcast, of 32-bit types
BROADCAST_16 = 160  # asked of 16-bit types; the arithmetic alone needs more, so it is no bar


def generated(name: str, read: int, **more) -> list[Kernel]:
    """A generated kernel for each type; their PTX is the source. `layout`: those that are made for
    one.
    """
    cached, layout = more.pop("cached", 0), " layout" if more.pop("layout", False) else ""
    most = more.pop("most", None)
    return [
        Kernel(
            f"{name} {kind}",
            f"generated.{short}{layout}",
            ("echo_fused",),
            16 // size * 32,
            read * size,
            size,
            cached=cached * size,
            most=most if size == 4 else None,
            in_flight=IN_FLIGHT,
            **more,
        )
        for short, kind, size in (("f32", "float", 4), ("f16", "half", 2), ("bf16", "bfloat16", 2))
    ]


def one_bit(
    name: str, words: str, read: int, written: int, mask_in: bool, mask_out: bool, **more
) -> list[Kernel]:
    """A one-bit kernel for each type; `read` and `written` in tensors."""
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
        for kind in TYPES
    ]


def fused(name: str, of: str, read: int, written: int = 1, **more) -> list[Kernel]:
    """A fused kernel of typical_fused.hpp for each type; a group of fp32 has 4 elements, others 8.
    `read`, `written` and `cached` in tensors; `unasked`: types of which no bandwidth is asked.
    """
    cached, most = more.pop("cached", 0), more.pop("most", None)
    unasked, asked = more.pop("unasked", ()), more.pop("asked", 0.95)
    return [
        Kernel(
            f"{name} {kind}",
            "fused.cu",
            (f"N7typical{len(of)}{of}EJ{mangled}",),
            16 // size * 32,
            read * size,
            written * size,
            cached=cached * size,
            most=most if size == 4 else None,
            in_flight=None if kind in unasked else IN_FLIGHT,
            asked=None if kind in unasked else asked,
            **more,
        )
        for kind, (mangled, size) in TYPES.items()
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
    *fused("tanh(q+k)", "forward", 2),
    *fused("tanh's gradient, stashed", "stashed", 2),
    *fused("tanh(q+k)'s gradient", "recomputed", 3),
    *fused(
        "tanh(q+k)'s gradient, q [B,1,H]",
        "recomputed",
        2,
        loop=1,
        asked=0.9,
        cached=1,
        most=BROADCAST,
    ),
    *fused(
        "tanh(q+k)'s gradient, q [B,1,H], k [1,T,H]",
        "recomputed",
        1,
        loop=1,
        asked=0.9,
        cached=2,
        most=BROADCAST,
    ),
    *fused("an LSTM's cell", "cell", 4),
    *fused("an LSTM's gates", "gates", 5, 3),
    *fused("GELU's gradient", "gelu", 3),
    *fused("GELU's gradient by tanh", "gelu_tanh", 3),
    # A row's first pass reads it from memory, the others find it in a cache.
    *fused("layer normalisation", "normed", 2, cached=6, passes=(2, 2, 4)),
    *fused("layer normalisation's gradient", "norm_gradient", 3, cached=11, passes=(4, 2, 4, 4)),
    # Of 16 bits two exponentials and a division for each of a group's eight elements are more than there are slots
    # for, and one load for 40 registers is too few bytes in flight: nothing is asked, the prediction is shown.
    *fused("softmax", "soft", 1, cached=2, passes=(1, 1, 1), unasked=("half", "bfloat16")),
    *fused("softmax's gradient", "soft_gradient", 2, cached=2, passes=(2, 2)),
    *fused("a bias's gradient behind relu", "bias", 2, 0, passes=(2,)),
    *arithmetic_alone("tanh(q+k)'s gradient, arithmetic alone", 3),
    *generated("generated: tanh(q+k)'s gradient", 3),
    *generated(
        "generated: tanh(q+k)'s gradient, q [B,1,H]",
        2,
        loop=1,
        asked=0.9,
        cached=1,
        most=BROADCAST,
    ),
    *generated(
        "generated for a layout: tanh(q+k)'s gradient, q [B,1,H]",
        2,
        asked=0.9,
        cached=1,
        layout=True,
        most=BROADCAST,
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


def ptx_of(
    nvcc: str, source: pathlib.Path, folder: pathlib.Path, architecture: int = 80
) -> pathlib.Path:
    """The PTX that all architectures are made from, or, where kernels say other things for it, one of
    them. Errors have nvcc's words.
    """
    ptx = folder / f"{source.stem}.{architecture}.ptx"
    made = subprocess.run(
        [nvcc, *FLAGS, f"-arch=compute_{architecture}", "-ptx", "-o", ptx, source],
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
    if len(named) != 1:
        raise RuntimeError(
            f"{kernel.name}: {len(named)} functions have "
            f"{' and '.join(kernel.words)} in their names"
        )
    return named[0]


def counts_of(kernel: Kernel, made: Compiled, architecture: int) -> dict:
    """The counts of one kernel on one architecture."""
    name = find(kernel, made)
    if kernel.passes:
        counted = of_passes(kernel, sass.row_paths(made.functions[name]))
    else:
        hot = sass.hot_paths(made.functions[name])
        if len(hot) <= kernel.loop:
            raise RuntimeError(f"{kernel.name}: {len(hot)} hot loops, no number {kernel.loop}")
        path, longest = hot[kernel.loop]
        counted = {
            "instructions": len(path),
            "longest": len(longest),
            "pipes": pipes_of(path),
            "sectors_read": sass.sectors(path, "LDG"),
            "sectors_written": sass.sectors(path, "STG"),
            "in_flight": sass.most_in_flight(path),
        }
    registers = made.registers[name]
    threads = model.resident_threads(architecture, registers)
    # Of a kernel by row the first pass alone waits for memory: for all that it reads.
    share = kernel.read / (kernel.read + kernel.cached) if kernel.read and not kernel.passes else 1
    in_flight = counted.pop("in_flight")
    return {
        **counted,
        "registers": registers,
        "spilled": made.spilled[name],
        "resident_threads": threads,
        "least_read": round(kernel.elements * (kernel.read + kernel.cached) / sass.SECTOR, 3),
        "least_written": round(kernel.elements * kernel.written / sass.SECTOR, 3),
        "bytes_in_flight": round(in_flight * threads * share) if in_flight else None,
    }


def pipes_of(path: list[sass.Instruction]) -> dict[str, int]:
    """Instructions by pipeline."""
    pipes: dict[str, int] = {}
    for one in path:
        pipes[one.pipe] = pipes.get(one.pipe, 0) + 1
    return dict(sorted(pipes.items()))


def of_passes(kernel: Kernel, paths: list[list[sass.Instruction]]) -> dict:
    """What a warp does for a group of each lane in all passes over a row. A loop may take several
    groups in a turn. What is done once for a row is not counted.
    """
    if len(paths) != len(kernel.passes):
        raise RuntimeError(f"{kernel.name}: {len(paths)} passes, not {len(kernel.passes)}")
    instructions, read, written, pipes = 0.0, 0.0, 0.0, {}
    for path, loads in zip(paths, kernel.passes):
        wide = sum(one.width == sass.WIDEST and one.is_a("LDG") for one in path)
        if wide % loads:
            raise RuntimeError(f"{kernel.name}: {wide} wide loads in a pass, not times {loads}")
        groups = wide // loads
        instructions += len(path) / groups
        read += sass.sectors(path, "LDG") / groups
        written += sass.sectors(path, "STG") / groups
        for pipe, number in pipes_of(path).items():
            pipes[pipe] = pipes.get(pipe, 0) + number / groups
    return {
        "instructions": math.ceil(instructions),
        "longest": math.ceil(instructions),
        "pipes": {pipe: math.ceil(number) for pipe, number in sorted(pipes.items())},
        "sectors_read": math.ceil(read),
        "sectors_written": math.ceil(written),
        "in_flight": sass.most_in_flight(paths[0]),
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


def all_counts(
    nvcc: str, cuobjdump: str, compiler: str, *, only_counted: bool
) -> tuple[dict, list[str]]:
    """Everything that the file has, and what is wrong with it. `only_counted`: without what is compiled
    for its spills alone.
    """
    counted = {kernel.source for kernel in KERNELS if kernel.source.endswith(".cu")}
    paths = [FOLDER / source for source in sorted(counted)] + ([] if only_counted else [ENGINE])
    architectures = sorted(set(COUNTED.values())) if only_counted else ARCHITECTURES
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
        own = {
            (source, a): pool.submit(ptx_of, nvcc, FOLDER / source, folder, a)
            for source, with_own in ({} if only_counted else OF_THEIR_OWN).items()
            for a in with_own
        }
        texts |= beside.result()
        jobs = {
            (source, a): pool.submit(
                assembled,
                ptxas,
                cuobjdump if source != ENGINE.name and a in COUNTED.values() else "",
                texts[source],
                a,
            )
            for source in texts
            for a in architectures
        }
        of_own = {
            (source, a): pool.submit(assembled, ptxas, "", ptx.result(), a)
            for (source, a), ptx in own.items()
        }
        made = {key: job.result() for key, job in jobs.items()}
        used = {key: one for key, one in made.items() if key[1] not in OF_THEIR_OWN.get(key[0], ())}
        used |= {key: job.result() for key, job in of_own.items()}
    rows, faults, units = [], [], {}
    for (source, a), one in used.items():
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
        row["symbol"] = find(kernel, made[kernel.source, COUNTED["H100"]])
        row["asked"], row["met"] = kernel.asked, row["predicted"]["H100"]["part"] >= (
            kernel.asked or 0
        )
        rows.append(row)
        faults += faults_of(kernel, row)
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", version)
    return {
        "date": datetime.date.today().isoformat(),
        "nvcc": release[1] if release else "",
        "how": "counted and predicted; no card ran",
        "kernels": rows,
        "units": units,
    }, faults


def faults_of(kernel: Kernel, row: dict) -> list[str]:
    """The bars that a kernel misses, whatever was counted before."""
    faults = []
    if not row["met"]:
        faults.append(
            f"{kernel.name}: {row['predicted']['H100']['part']} of copy bandwidth are predicted on "
            f"H100, {kernel.asked} asked"
        )
    for a, counts in row["counts"].items():
        least = math.ceil(counts["least_written"])
        if counts["sectors_written"] > least:
            faults.append(
                f"{kernel.name} on {a}: {counts['sectors_written']} sectors are written, {least} "
                "are enough"
            )
        if kernel.most is not None and counts["instructions"] > kernel.most:
            faults.append(
                f"{kernel.name} on {a}: {counts['instructions']} instructions, {kernel.most} asked"
            )
    flight = row["counts"][f"sm_{COUNTED['H100']}"]["bytes_in_flight"]
    if kernel.in_flight is not None and (flight or 0) < kernel.in_flight:
        faults.append(f"{kernel.name}: {flight} bytes in flight, {kernel.in_flight} asked")
    return faults


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


def section(result: dict, planted: dict) -> str:
    """What docs/cuda.md says of the counts and of the faults that were planted."""
    rows = {row["kernel"]: row for row in result["kernels"]}
    name = "tanh(q+k)'s gradient, q [B,1,H]"
    lines = {
        f"asked, at most: {BROADCAST} of 32 bits, {BROADCAST_16} of 16": None,
        "compiled": name,
        "generated": f"generated: {name}",
        "generated for one layout": f"generated for a layout: {name}",
        "loads, conversions, arithmetic and stores alone": (
            "tanh(q+k)'s gradient, arithmetic alone"
        ),
    }

    def counted(kernel: str | None, kind: str) -> int:
        if kernel is None:
            return BROADCAST if TYPES[kind][1] == 4 else BROADCAST_16
        return rows[f"{kernel} {kind}"]["counts"]["sm_90"]["instructions"]

    half = {key: counted(kernel, "half") for key, kernel in lines.items() if kernel}
    alone = half["loads, conversions, arithmetic and stores alone"]
    parts = [rows[f"{name} {kind}"]["predicted"]["H100"]["part"] for kind in TYPES]
    below = [row for row in result["kernels"] if row["predicted"]["H100"]["part"] < 0.95]
    survivors = len(planted["survivors"])
    return "\n".join(
        [
            "<!-- table: tests/cuda/counts/count.py --markdown -->",
            "",
            f"Warp instructions of a turn of {name}, on sm_90:",
            "",
            f"| | {' | '.join(TYPES)} |",
            "|---|--:|--:|--:|",
            *(
                f"| {key} | {' | '.join(str(counted(kernel, kind)) for kind in TYPES)} |"
                for key, kernel in lines.items()
            ),
            "",
            f"So the {BROADCAST_16} that were asked of 16-bit types are out of reach, as counting shows: of the "
            f"{half['compiled']} in half precision {alone} are loads,",
            f"conversions, the gradients of eight tanh and stores, which no layout can spare, and "
            f"{half['compiled'] - alone} find the elements. Predicted on H100",
            f"is {min(parts):.2f} of copy bandwidth all the same. Of all {len(rows)} counted kernels "
            + (
                f"{len(below)} are predicted below 0.95 there:"
                if below
                else "none is predicted below 0.95 there."
            ),
            *(
                f"{row['kernel']} ({row['predicted']['H100']['part']:.2f}, bound by "
                f"{row['predicted']['H100']['bound']})" + ("," if row is not below[-1] else ".")
                for row in below
            ),
            "",
            f"Of {planted['planted']} faults that were planted in the kernels' PTX {planted['equivalent']} "
            f"change nothing; of the other {planted['counted']} the cases find",
            f"{planted['found']}, {100 * planted['share']:.1f} %. Each of the {survivors} that are not found "
            "is listed with the reason.",
            "",
            results.END_OF_TABLE,
        ]
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.markdown:
        results.put_section(PAGE, section(*map(results.load, ("cuda-counts", "cuda-mutants"))))
        return 0
    nvcc = shutil.which(options.nvcc) or shutil.which("/usr/local/cuda/bin/nvcc")
    cuobjdump = disassembler() if nvcc else None
    if not nvcc or not cuobjdump:
        print(f"skipped: there is no {'cuobjdump' if nvcc else 'nvcc'}")
        return SKIPPED
    result, faults = all_counts(nvcc, cuobjdump, options.cxx, only_counted=options.check)
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
        results.save("cuda-counts", result)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
