"""Reads the text of a compiled program: instructions of XLA's HLO, where each comes from, and what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
NAMES = re.compile(r"%([\w.\-]+)")
TABLE = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)$")
FRAME = re.compile(r"^(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?")
LOCATION = re.compile(r"^(\d+) \{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)")
NAMED = re.compile(r'^(\d+) "(.*)"$')
OF_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")
FORWARDS = ("get-tuple-element", "bitcast", "copy", "copy-done", "copy-start", "optimization-barrier", "convert")
CALLERS = ("fusion", "call", "async-start")
DEEPEST = 64  # steps from a value to what names it


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation."""

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    attributes: str
    computation: str

    def attribute(self, key: str) -> str | None:
        """The name, number or text behind `key=`."""
        found = re.search(rf'\b{key}=(?:"((?:[^"\\]|\\.)*)"|%?([\w.\-]+))', self.attributes)
        return None if found is None else found[1] if found[1] is not None else found[2]

    @property
    def op_name(self) -> str:
        return self.attribute("op_name") or ""

    @property
    def calls(self) -> str | None:
        """The computation that a fusion or call runs."""
        return self.attribute("calls") or self.attribute("to_apply")


@dataclass(frozen=True)
class Origin:
    """Where a value comes from, as its metadata tell."""

    op: str = ""  # the primitive of JAX, or the opcode
    module: str = ""  # names of modules and scopes, joined by /
    role: str = ""  # forward, recomputed, backward, other
    source: str = ""  # file:line (function) of the innermost frame outside of installed packages


@dataclass
class Program:
    """A compiled module."""

    name: str = ""
    partitions: int = 1  # devices among which values are sharded
    instructions: dict[str, Instruction] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)  # the root of each computation
    parameters: dict[tuple[str, int], str] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)  # the instruction that runs a computation
    files: dict[int, str] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    locations: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # file, function, line
    frames: dict[int, tuple[int, int]] = field(default_factory=dict)  # location, parent; 0 is none

    def origin(self, name: str, index: Sequence[int] = ()) -> Origin:
        """Of the part `index` of an instruction's value. What only passes a value on is followed to its maker."""
        made = self._maker(name, tuple(index), DEEPEST)
        if made is None:
            return Origin()
        op_name = made.op_name
        parts = list(path_of(op_name))
        frame = int(made.attribute("stack_frame_id") or 0)
        source = self.source(frame) if frame else _older_source(made)
        op = parts[-1] if parts else made.opcode
        return Origin(op, "/".join(parts[:-1]), role_of(op_name), source)

    def op_name(self, name: str, index: Sequence[int] = ()) -> str:
        """The name that JAX gave what makes this part of an instruction's value; may be empty."""
        made = self._maker(name, tuple(index), DEEPEST)
        return made.op_name if made is not None else ""

    def source(self, frame: int) -> str:
        """`file:line (function)` of the innermost frame that is the user's; else of the innermost one."""
        innermost = ""
        while frame in self.frames:
            location, frame = self.frames[frame]
            file_id, function, line = self.locations.get(location, (0, 0, 0))
            file = self.files.get(file_id, "")
            told = f"{file}:{line} ({self.functions.get(function, '')})"
            innermost = innermost or told
            if not any(part in file for part in OF_LIBRARIES):
                return told
        return innermost

    def _maker(self, name: str, index: tuple[int, ...], left: int) -> Instruction | None:
        at = self.instructions.get(name)
        if at is None or left == 0:
            return at
        further = self._behind(at, index)
        if further is None:
            return at
        found = self._maker(*further, left - 1)
        return found if found is not None and found.op_name else at

    def _behind(self, at: Instruction, index: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
        """What names the value better: the maker of what is passed on, the part of a tuple, what a loop stacks."""
        operand = at.operands[0] if at.operands else None
        if at.opcode == "get-tuple-element" and operand:
            return operand, (int(at.attribute("index") or 0), *index)
        if at.opcode == "tuple" and index and index[0] < len(at.operands):
            return at.operands[index[0]], index[1:]
        if at.opcode == "while" and index and (body := at.attribute("body")) in self.roots:
            return self.roots[body], index
        if at.opcode == "dynamic-update-slice" and len(at.operands) > 1:
            return at.operands[1], ()
        if at.opcode == "parameter":
            return self._passed(at, index)
        if at.opcode in CALLERS and (called := at.calls) in self.roots:
            root = self.instructions[self.roots[called]]
            is_stacking = _is_stacking(self, root)
            if index or is_stacking or at.opcode == "call" or not at.op_name:
                return root.name, index
            return None
        if at.opcode in FORWARDS and operand and (not at.op_name or at.opcode == "bitcast"):
            return operand, index if at.opcode not in ("copy-start", "copy-done") else ()
        return None

    def _passed(self, at: Instruction, index: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
        """What the caller passes as this parameter; for the body of a loop, what its last iteration made."""
        caller = self.instructions.get(self.callers.get(at.computation, ""))
        if caller is None:
            return None
        number = int(at.attributes.partition(")")[0] or 0)
        if caller.opcode == "while":
            body = caller.attribute("body")
            if body in self.roots and index:
                return self.roots[body], index
            return (caller.operands[0], index) if caller.operands else None
        return (caller.operands[number], index) if number < len(caller.operands) else None


def _is_stacking(program: Program, root: Instruction) -> bool:
    while root.opcode == "bitcast" and root.operands and root.operands[0] in program.instructions:
        root = program.instructions[root.operands[0]]
    return root.opcode == "dynamic-update-slice"


def _older_source(at: Instruction) -> str:
    file, line = at.attribute("source_file"), at.attribute("source_line")
    return f"{file}:{line}" if file else ""


def role_of(op_name: str) -> str:
    if "rematted_computation" in op_name or "echo_again" in op_name:
        return "recomputed"
    if "transpose(" in op_name:
        return "backward"
    return "forward" if "jvp(" in op_name else "other"


def path_of(op_name: str) -> Iterator[str]:
    """The scopes of a name and the primitive last. `jvp(Block)` and the like are Block; what control flow adds goes."""
    for part in _parts(op_name.partition(";")[0]):  # several names where instructions were merged
        while found := re.fullmatch(r"(\w+)\((.*)\)", part):
            part = "" if found[1] in ("jit", "pjit") else found[2]
        if part not in ("", "while", "body", "cond", "closed_call", "checkpoint", "rematted_computation", "echo_again"):
            yield from (_parts(part) if "/" in part else [part])


def _parts(op_name: str) -> list[str]:
    """Split at each / outside of brackets."""
    parts, depth, start = list[str](), 0, 0
    for at, letter in enumerate(op_name):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "/" and depth <= 0:
            parts.append(op_name[start:at])
            start = at + 1
    return [*parts, op_name[start:]]


def parse(text: str) -> Program:
    """Errors: ValueError where the text is not that of a scheduled HLO module."""
    lines = text.splitlines()
    head = re.match(r"HloModule ([^\s,]+)", lines[0]) if lines else None
    if head is None or "is_scheduled=true" not in lines[0]:
        raise ValueError("the compiler's text is not a scheduled HLO module")
    partitions = re.search(r"\bnum_partitions=(\d+)", lines[0])
    program, computation, table = Program(head[1], int(partitions[1]) if partitions else 1), "", ""
    for line in lines[1:]:
        if found := TABLE.match(line):
            table = found[1]
        elif not line:
            table = ""
        elif table:
            _row(program, table, line)
        elif found := HEADER.match(line):
            computation = found[2]
        elif found := INSTRUCTION.match(line):
            _take(program, computation, found)
    for at in program.instructions.values():
        for key in ("calls", "to_apply", "body", "condition"):
            if called := at.attribute(key):
                program.callers.setdefault(called, at.name)
    _number_frames(program)
    return program


def _row(program: Program, table: str, line: str) -> None:
    if table in ("FileNames", "FunctionNames") and (found := NAMED.match(line)):
        (program.files if table == "FileNames" else program.functions)[int(found[1])] = found[2]
    elif found := LOCATION.match(line):
        program.locations[int(found[1])] = (int(found[2]), int(found[3]), int(found[4]))
    elif found := FRAME.match(line):
        program.frames[int(found[1])] = (int(found[2]), int(found[3] or 0))


def _number_frames(program: Program) -> None:
    """Some versions write the parent's number plus one: the first frame, which has none, shows it."""
    plus = program.frames.get(1, (0, 0))[1]
    program.frames = {at: (location, parent - plus) for at, (location, parent) in program.frames.items()}


def _take(program: Program, computation: str, found: re.Match[str]) -> None:
    rest = found[3]
    shape, rest = rest[: (end := _end_of_shape(rest))], rest[end:].lstrip()
    opcode, _, rest = rest.partition("(")
    end = _closing("(" + rest) - 1
    operands = tuple(NAMES.findall(rest[:end]))
    attributes = rest if opcode in ("parameter", "constant") else rest[end + 1 :]
    at = Instruction(found[2], opcode, shape, operands, attributes, computation)
    program.instructions[at.name] = at
    if found[1]:
        program.roots[computation] = at.name
    if opcode == "parameter":
        program.parameters[computation, int(rest[:end])] = at.name


def _end_of_shape(text: str) -> int:
    return _closing(text) + 1 if text.startswith("(") else text.index(" ")


def _closing(text: str) -> int:
    """Where the bracket that text begins with is closed."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at
    raise ValueError("the compiler's text has an open bracket")
