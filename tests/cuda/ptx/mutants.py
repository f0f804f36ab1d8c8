#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Plants faults in the PTX of the kernels, one at a time, and counts how many the cases find.

    mutants.py PROGRAMS [--out FILE] [--program NAME]… [--only TEXT] [--most N] [--show]
    mutants.py PROGRAMS --again FILE

A run of all programs is kept in bench/results by

    mutants.py PROGRAMS --out build/bench/results/cuda-mutants.json
    python3 bench/results.py build/bench/results/cuda-mutants.json

PROGRAMS is the folder with the programs ptx-one_bit, ptx-fused, ptx-jit and ptx-engine. Faults are
changes of one line that a case executes: an offset, a mask, a constant, a predicate, an operator,
a comparison, two registers exchanged, a barrier or a store left out. Which ones is drawn from the
kernel's name, so that each run plants the same; a barrier that is left out is always planted, since
there are few.

Some change nothing that can be observed: equivalent.json beside this file has them as patterns of
lines, each with the reason, and they are not counted. What a case finds is not equivalent: where a
pattern covers it, that is a failure. Patterns marked "unreached" say why no case can tell a fault
that would show elsewhere; those are counted as not found. Exit 1 where fewer than 95 of 100 of
what is counted are found, or one that is not found has no reason beside it. A part of all faults
(--most, --only, --program, --per-kernel) is a sample: there one fault more or less is a hundredth,
so 90 of 100 are asked, and no reasons. --again plants those of a file anew that were not found, and
writes into it which of them are found now: for a case that was added since.
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import random
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import results  # noqa: E402

PROGRAMS = {"one_bit": 6, "fused": 3, "jit": 2, "engine": 3}  # with how many faults for each kernel
LEAST, LEAST_OF_A_SAMPLE = 0.95, 0.90  # of what is counted
LINE = re.compile(r"^(\s*)(@!?%p\d+\s+)?([a-z][\w.:]*)\s*(.*);(.*)$")
BOUNDARY = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
OPPOSITE = {
    "lt": "ge",
    "ge": "lt",
    "gt": "le",
    "le": "gt",
    "ltu": "geu",
    "leu": "gtu",
    "eq": "ne",
    "ne": "eq",
    "equ": "neu",
    "neu": "eq",
    "nan": "num",
}
OPERATORS = [
    ("add.", "sub."),
    ("sub.", "add."),
    ("and.b", "or.b"),
    ("or.b", "and.b"),
    ("xor.b", "or.b"),
    ("and.pred", "or.pred"),
    ("or.pred", "and.pred"),
    ("mul.lo.", "add."),
    ("min.", "max."),
    ("max.", "min."),
    ("mul.f32", "add.f32"),
    ("mul.rn.f32", "add.rn.f32"),
    ("mul.rn.f64", "add.rn.f64"),
    ("shl.b32", "shr.u32"),
    ("shl.b64", "shr.u64"),
    ("shr.u32", "shl.b32"),
    ("shr.u64", "shl.b64"),
    ("shr.s32", "shl.b32"),
    ("mad.lo.s32", "mad.hi.s32"),
    ("div.u32", "rem.u32"),
    ("div.u64", "rem.u64"),
    ("popc.b32", "clz.b32"),
    ("div.s32", "rem.s32"),
    ("rem.s32", "div.s32"),
]


def split(text: str) -> list[str]:
    """Operands of an instruction; vectors and addresses are one."""
    out, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{[") - (c in "}]")
        if c == "," and depth == 0:
            out.append(text[last:i].strip())
            last = i + 1
    return out + [text[last:].strip()] if text else []


def bytes_of(opcode: str) -> int:
    """Of an access."""
    width = int(re.search(r"(\d+)$", opcode)[1]) // 8
    vector = re.search(r"\.v(\d)\.", opcode)
    return width * (int(vector[1]) if vector else 1)


def mutations(line: str):
    """Yields (kind, another line)."""
    found = LINE.match(line)
    if not found:
        return
    space, guard, opcode, rest, behind = found.groups()
    guard = guard or ""
    operands = split(rest)

    def made(name: str, of: list[str], condition: str = guard) -> str:
        return f"{space}{condition}{name} {', '.join(of)};{behind}"

    if guard and opcode.startswith("bra"):
        yield "predicate", made(
            opcode,
            operands,
            guard.replace("@!", "@") if "@!" in guard else guard.replace("@", "@!"),
        )
    if opcode.startswith("setp."):
        parts = opcode.split(".")
        other = (OPPOSITE if parts[-1].startswith("f") else BOUNDARY).get(parts[1])
        if other:
            yield "comparison", made(".".join(["setp", other, *parts[2:]]), operands)
    for before, after in OPERATORS:
        if opcode.startswith(before):
            yield "operator", made(after + opcode[len(before) :], operands)
            break
    if re.match(r"(ld|st)\.(global|shared)", opcode):
        at = next(i for i, o in enumerate(operands) if o.startswith("["))
        place = re.match(r"\[([^\]+]+)(?:\+(-?\d+))?\]", operands[at])
        offset = int(place[2] or 0) + bytes_of(opcode)
        yield "offset", made(
            opcode, [f"[{place[1]}+{offset}]" if i == at else o for i, o in enumerate(operands)]
        )
        if opcode.startswith("st."):
            yield "store", f"{space}// {line.strip()}"
    if opcode.startswith("bar."):
        yield "barrier", f"{space}// {line.strip()}"
    if opcode.startswith(("vote.sync", "shfl.sync")):
        yield "mask", made(opcode, [*operands[:-1], "2147483647"])
    if opcode.startswith("shfl.sync"):
        yield "register", made(opcode, [*operands[:2], "0", *operands[3:]])
    if opcode.startswith(("sub.", "selp.", "div.", "prmt.")):
        yield "register", made(opcode, [operands[0], operands[2], operands[1], *operands[3:]])
    last = operands[-1] if operands else ""
    if re.fullmatch(r"-?\d+", last) and not opcode.startswith(
        ("vote", "shfl", "bar", "mov", "selp")
    ):
        value = int(last)
        if opcode.startswith("and."):
            lowest = value & -value
            if lowest:
                yield "mask", made(opcode, [*operands[:-1], str(value ^ lowest)])
        elif opcode.startswith(("shl.", "shr.", "add.", "mul.", "setp.")):
            yield "constant", made(opcode, [*operands[:-1], str(value + 1)])


class Mutant:
    """A fault: what it changes, and which cases run the kernel."""

    def __init__(
        self,
        program: str,
        kernel: str,
        groups: list[str],
        lines: list[str],
        fault: tuple[int, str, str, str],
    ):
        self.program, self.kernel, self.groups, self.lines = program, kernel, groups, lines
        self.number, self.before, self.kind, self.after = fault

    def described(self) -> dict:
        """For the results; of a generated kernel, which all have one name, with the cases that run it."""
        generated = self.kernel == "echo_fused"
        return {
            "program": self.program,
            "kernel": self.kernel + (f", {' and '.join(self.groups)}" if generated else ""),
            "line": self.number,
            "kind": self.kind,
            "before": self.before.strip(),
            "after": self.after.strip(),
        }


def environment(more: dict[str, str]) -> dict[str, str]:
    """The process's own, and the interpreter's."""
    return {**os.environ, **more}


Observed = tuple[dict, dict[str, list[str]], dict[str, str]]


def observed(folder: pathlib.Path, program: str, work: pathlib.Path) -> Observed:
    """Runs all cases once: what is reported of each kernel, the texts, and the text of each kernel."""
    dump = work / program
    dump.mkdir()
    report = work / f"{program}.json"
    done = subprocess.run(
        [folder / f"ptx-{program}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment({"ECHO_PTX_DUMP": str(dump), "ECHO_PTX_REPORT": str(report)}),
    )
    if done.returncode != 0:
        raise SystemExit(
            f"ptx-{program} fails without a planted fault:\n{done.stdout[-3000:]}"
            f"{done.stderr[-2000:]}"
        )
    texts = {
        path.stem: path.read_text(encoding="utf-8").split("\n")
        for path in sorted(dump.glob("*.ptx"))
    }
    owner = {}
    for stem, lines in texts.items():
        for line in lines:
            if match := re.search(r"\.entry\s+(\w+)", line):
                owner[stem if stem.startswith("generated") else match[1]] = stem
    return json.loads(report.read_text(encoding="utf-8")), texts, owner


def plan(folder: pathlib.Path, program: str, per_kernel: int, work: pathlib.Path) -> list[Mutant]:
    """Draws the faults of each kernel from the lines that its cases execute."""
    report, texts, owner = observed(folder, program, work)
    mutants = []
    for kernel, facts in sorted(report.items()):
        lines = texts[owner[kernel]]
        by_kind = collections.defaultdict(list)
        for number in sorted(set(facts["lines"])):
            before = lines[number - 1]
            for kind, after in mutations(before):
                by_kind[kind].append((number, before, kind, after))
        draw = random.Random(kernel)
        kinds = sorted(by_kind)
        draw.shuffle(kinds)
        symbol = "echo_fused" if kernel.startswith("generated") else kernel
        for chosen in by_kind.pop("barrier", []):
            mutants.append(Mutant(program, symbol, facts["groups"], lines, chosen))
        for turn in range(per_kernel):
            left = [k for k in kinds if by_kind.get(k)]
            if not left:
                break
            kind = left[turn % len(left)]
            chosen = by_kind[kind].pop(draw.randrange(len(by_kind[kind])))
            mutants.append(Mutant(program, symbol, facts["groups"], lines, chosen))
    return mutants


def tried(folder: pathlib.Path, mutant: Mutant, work: pathlib.Path, name: str) -> str:
    """What the first case that finds the fault says; empty if none does."""
    file = work / f"{name}.plant"
    file.write_text(
        f"{mutant.kernel}\n{mutant.number}\n{mutant.before}\n{mutant.after}\n", encoding="utf-8"
    )
    for group in mutant.groups:
        env = environment(
            {"ECHO_PTX_PLANT": str(file), "ECHO_PTX_ONLY": group, "ECHO_PTX_STEPS": "3000000"}
        )
        try:
            done = subprocess.run(
                [folder / f"ptx-{mutant.program}"],
                capture_output=True,
                text=True,
                check=False,
                env=env,
                timeout=120,
            )
        except subprocess.TimeoutExpired:
            return "does not end within 120 s"
        if done.returncode != 0:
            said = [s for s in done.stderr.splitlines() if s.startswith("PTX:")]
            said += [s for s in done.stdout.splitlines() if "DIFFERS" in s]
            return (said or ["ended with " + str(done.returncode)])[0].strip()
    return ""


def expression(line: str, known: set[str]) -> str:
    """Of one line of a pattern: %1, %2, … are registers, the same where the number is; * is any
    text, <4|8> one of these, L a label.
    """
    made = ""
    for part in re.split(r"(%\d|\*|<[^>]*>|\bL\b)", line):
        if re.fullmatch(r"%\d", part):
            name = "r" + part[1]
            made += f"(?P={name})" if name in known else f"(?P<{name}>%[a-z]+\\d+)"
            known.add(name)
        elif part == "*":
            made += r".*"
        elif part.startswith("<"):
            made += "(?:" + "|".join(re.escape(word) for word in part[1:-1].split("|")) + ")"
        elif part == "L":
            made += r"\$L\w+"
        else:
            made += re.escape(part)
    return made


class Pattern:
    """Faults of one sort that nothing, or no case, can tell from the kernel. Lines of PTX, that of
    the fault behind "> "; "..." stands for up to twelve others, "...." for any number. `to`: what the
    line becomes.
    Register numbers do not count.
    """

    def __init__(self, said: dict):
        self.why, self.unreached = said["why"], said.get("unreached", False)
        self.kinds, self.kernel = said["kinds"], re.compile(said.get("kernel", ""))
        known: set[str] = set()
        lines = []
        for line in said["lines"]:
            if line == "...":
                lines.append(r"(?:.*\n){0,12}?")
            elif line == "....":
                lines.append(r"(?:.*\n)*?")
            elif line.startswith("> "):
                after = expression(said["to"], set(known)) if "to" in said else ".*"
                lines.append("> " + expression(line[2:], known) + "\n")
                # What it becomes names the same registers.
                names = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"(?P=\1)", after)
                lines.append("= " + names + "\n")
            else:
                lines.append(expression(line, known) + "\n")
        self.text = re.compile("^" + "".join(lines), re.MULTILINE)

    def covers(self, mutant: Mutant) -> bool:
        """Whether the fault is of this sort."""
        if mutant.kind not in self.kinds or not self.kernel.search(mutant.kernel):
            return False
        at = mutant.number - 1

        def tidy(lines: list[str]) -> list[str]:
            return [text for line in lines if (text := " ".join(line.split()))]

        around = tidy(mutant.lines[max(0, at - 400) : at])
        around += ["> " + tidy([mutant.before])[0], "= " + tidy([mutant.after])[0]]
        around += tidy(mutant.lines[at + 1 : at + 81])[:40]
        return bool(self.text.search("\n".join(around) + "\n"))


def patterns() -> list[Pattern]:
    """Those of equivalent.json."""
    path = pathlib.Path(__file__).with_name("equivalent.json")
    return [Pattern(said) for said in json.loads(path.read_text(encoding="utf-8"))]


def planted_again(one: dict, seen: Observed) -> Mutant:
    """A fault of a file, in the kernel as it is now; ends the program where that is another one."""
    report, texts, owner = seen
    for kernel, facts in report.items():
        symbol = "echo_fused" if kernel.startswith("generated") else kernel
        lines = texts[owner[kernel]]
        if one["line"] > len(lines):
            continue
        before = lines[one["line"] - 1]
        for kind, after in mutations(before):
            fault = (one["line"], before, kind, after)
            mutant = Mutant(one["program"], symbol, facts["groups"], lines, fault)
            if {**mutant.described(), "why": one["why"]} == one:
                return mutant
    sys.exit(f"{one['kernel']}, line {one['line']} is another now: plant all anew")


def again(folder: pathlib.Path, file: pathlib.Path) -> int:
    """Tries those that were not found."""
    result = json.loads(file.read_text(encoding="utf-8"))
    known, left = patterns(), []
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        programs = sorted({one["program"] for one in result["survivors"]})
        seen = {program: observed(folder, program, work) for program in programs}
        for number, one in enumerate(result["survivors"]):
            mutant = planted_again(one, seen[one["program"]])
            if words := tried(folder, mutant, work, str(number)):
                print(f"found: {one['kernel']}, line {one['line']}: {words}")
                result["found"] += 1
                result["kinds"][one["kind"]]["found"] += 1
            else:
                reason = next((p.why for p in known if p.covers(mutant)), "")
                left.append({**one, "why": reason})
    result.update(survivors=left, share=round(result["found"] / result["counted"], 4))
    file.write_text(results.as_text(result), encoding="utf-8")
    print(f"{result['found']} of {result['counted']} planted faults are found")
    return 0 if result["share"] >= LEAST and all(one["why"] for one in left) else 1


def main(arguments: list[str]) -> int:
    """Plants, counts, writes and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument(
        "--per-kernel", type=int, help="faults for each kernel; default: " + str(PROGRAMS)
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--program", action="append", help=f"of {' '.join(PROGRAMS)}; default: all")
    parser.add_argument("--only", default="", help="kernels whose names have this text")
    parser.add_argument(
        "--most", type=int, help="plant so many of those that are drawn; default: all of them"
    )
    parser.add_argument("--show", action="store_true", help="print what each case says")
    parser.add_argument("--again", type=pathlib.Path, metavar="FILE", help="those of a file")
    options = parser.parse_args(arguments)

    sample = bool(options.most or options.only or options.program or options.per_kernel)
    folder = options.programs.resolve()
    os.environ.setdefault("ECHO_PTX_CACHE", str(folder / "generated"))
    if options.again:
        return again(folder, options.again)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        mutants = [
            m
            for program, most in PROGRAMS.items()
            if not options.program or program in options.program
            for m in plan(folder, program, options.per_kernel or most, work)
            if options.only in m.kernel
        ]
        # Those of all programs in turn, so that the first so many are of each.
        random.Random(1).shuffle(mutants)
        mutants = mutants[: options.most]

        def one(pair: tuple[int, Mutant]) -> str:
            return tried(folder, pair[1], work, str(pair[0]))

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            said = list(pool.map(one, enumerate(mutants)))

    kinds: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    known = patterns()
    equivalent, survivors, wrong = [], [], []
    for mutant, words in zip(mutants, said):
        reason = next((one for one in known if one.covers(mutant)), None)
        if words and reason and not reason.unreached:
            wrong.append({**mutant.described(), "why": reason.why, "found": words})
        if not words and reason and not reason.unreached:
            equivalent.append({**mutant.described(), "why": reason.why})
            continue
        kinds[mutant.kind][0] += 1
        kinds[mutant.kind][1] += bool(words)
        if options.show and words:
            print(
                f"{mutant.kind}: line {mutant.number}: {mutant.before.strip()} -> "
                f"{mutant.after.strip()}\n    {words}"
            )
        if not words:
            survivors.append({**mutant.described(), "why": reason.why if reason else ""})
    found = sum(caught for _, caught in kinds.values())
    counted = sum(count for count, _ in kinds.values())
    for kind, (count, caught) in sorted(kinds.items()):
        print(f"{kind:12} {caught:4} of {count:4}")
    for s in wrong:
        print(
            f"called equivalent, but found: {s['program']}, {s['kernel']}, line {s['line']}: "
            f"{s['before']} -> {s['after']} ({s['why']}): {s['found']}"
        )
    for why, many in collections.Counter(s["why"] for s in equivalent).most_common():
        print(f"{many:4} change nothing: {why}")
    for s in survivors:
        print(
            f"not found: {s['program']}, {s['kernel']}, line {s['line']}: "
            f"{s['before']} -> {s['after']}"
            + (f" ({s['why']})" if s["why"] else "")
        )
    if not counted:
        sys.exit("nothing was planted")
    share = found / counted
    print(
        f"{found} of {counted} planted faults are found: {100 * share:.1f} %; "
        f"{len(equivalent)} more change nothing"
    )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            results.as_text(
                {
                    "date": datetime.date.today().isoformat(),
                    "machine": platform.processor() or platform.machine(),
                    "planted": len(mutants),
                    "equivalent": len(equivalent),
                    "counted": counted,
                    "found": found,
                    "share": round(share, 4),
                    "kinds": {k: {"counted": a, "found": b} for k, (a, b) in sorted(kinds.items())},
                    "survivors": survivors,
                    "equivalents": equivalent,
                }
            ),
            encoding="utf-8",
        )
    asked = LEAST_OF_A_SAMPLE if sample else LEAST
    if share < asked:
        print(f"{100 * asked:g} % are asked")
    bare = [] if sample else [s for s in survivors if not s["why"]]
    if bare:
        print(f"{len(bare)} of those that are not found have no reason in equivalent.json")
    return 0 if share >= asked and not wrong and not bare else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
