# SPDX-License-Identifier: BSL-1.0
"""What a kernel's machine code does in its hot loop, read from `cuobjdump -sass`; no card is
needed.

A loop is a branch back. Its paths run from the target of that branch to the branch; a path that
calls a subroutine (the division of 64 bits, say) is left out where there is another, and so is the
way that a warp whose lanes have parted takes through a vote. The hot path is the one with the
widest accesses: bytes of a lane's access, squared and summed, are most. Of several such paths the
one with the fewest instructions counts, and the one with the most is told beside it.
"""

import dataclasses
import re

FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", re.MULTILINE)
GUARD = re.compile(r"^@(!?U?P\w+)\s+")
TARGET = re.compile(r"(0x[0-9a-f]+)\s*$")
ACCESS = re.compile(r"^(LDG|STG)\.E\S*")
ADDRESS = re.compile(r"\[(\w+)(?:\.64)?(?:\.U32)?(?:\+(U?R?Z?\w*))?(?:\+(-?0x[0-9a-f]+))?\]$")
REGISTER = re.compile(r"\bR(\d+)\b")
LANES = 32
WIDEST = 16
SECTOR = 32

# Which pipeline an instruction keeps busy, besides a slot of the scheduler; the first that matches.
# What is in none of these runs on the pipeline for multiplications in float.
PIPES = (
    ("memory", re.compile(r"^(LDG|STG|LD|ST|LDS|STS|ATOM|RED|SHFL)\b")),
    ("special", re.compile(r"^(MUFU|I2F|F2I|F2F|POPC|FLO|BREV)\b")),
    ("uniform", re.compile(r"^(U[A-Z0-9]+|S2UR|R2UR|LDCU|LDC|S2R|CS2R)\b")),
    ("branch", re.compile(r"^(BRA|BSSY|BSYNC|EXIT|WARPSYNC|BREAK|CALL|RET|NOP|YIELD)\b")),
    (
        "integer",
        re.compile(
            r"^(LOP3|PLOP3|SHF|LEA|IADD3?|VIADD|ISETP|FSETP|SEL|FSEL|PRMT|FMNMX\d?|VIMNMX\d?|"
            r"IMNMX|IABS|F2FP|"
            r"SGXT|BMSK|VOTE|VOTEU|P2R|R2P|MOV|HADD2)\b"
        ),
    ),
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction; `guard` is the predicate before it, or nothing."""

    at: int
    guard: str
    text: str

    @property
    def name(self) -> str:
        """Operation with its modifiers."""
        return self.text.split()[0]

    def is_a(self, *operations: str) -> bool:
        """Whether the operation, without modifiers, is one of these."""
        return self.name.split(".")[0] in operations

    @property
    def target(self) -> int | None:
        """Where a branch goes."""
        if not self.is_a("BRA"):
            return None
        found = TARGET.search(self.text)
        return int(found[1], 16) if found else None

    @property
    def width(self) -> int:
        """Bytes that a lane moves between memory and registers."""
        if not ACCESS.match(self.text):
            return 0
        for part in self.name.split(".")[2:]:
            if part in ("128", "64", "256"):
                return int(part) // 8
            if part in ("U8", "S8"):
                return 1
            if part in ("U16", "S16"):
                return 2
        return 4

    @property
    def pipe(self) -> str:
        """The pipeline that it keeps busy."""
        return next((name for name, words in PIPES if words.match(self.text)), "float")

    def place(self) -> tuple[str, int] | None:
        """Register and offset of the address of an access."""
        for operand in self.text.split(None, 1)[1].split(", "):
            bracket = operand[operand.find("[") :] if "[" in operand else ""
            if operand.startswith("desc"):
                bracket = operand[operand.find("]") + 1 :]
            if bracket:
                inner = bracket.strip("[]").split("+")
                offset = int(inner[-1], 16) if re.fullmatch(r"-?0x[0-9a-f]+", inner[-1]) else 0
                return inner[0].split(".")[0], offset
        return None

    def written(self) -> list[int]:
        """Registers of the result of a load."""
        first = REGISTER.match(self.text.split(None, 1)[1])
        if not self.is_a("LDG") or not first:
            return []
        number = int(first[1])
        return list(range(number, number + max(1, self.width // 4)))


def functions(text: str) -> dict[str, list[Instruction]]:
    """The instructions of each function by its mangled name."""
    found = {}
    starts = list(FUNCTION.finditer(text))
    for k, start in enumerate(starts):
        body = text[start.end() : starts[k + 1].start() if k + 1 < len(starts) else len(text)]
        found[start[1]] = [parsed(int(at, 16), words.strip()) for at, words in LINE.findall(body)]
    return found


def parsed(at: int, words: str) -> Instruction:
    """One line of the listing."""
    guard = GUARD.match(words)
    return Instruction(at, guard[1] if guard else "", words[guard.end() :] if guard else words)


@dataclasses.dataclass
class Path:
    """One way through a loop."""

    weight: int
    cost: int
    calls: int
    blocks: tuple[int, ...]

    def going(self, change: int) -> "Path":
        """The same with another weight: where it goes on decides which of its accesses happen."""
        return dataclasses.replace(self, weight=self.weight + change)

    def before(self, other: "Path | None", most: bool) -> bool:
        """Whether it is preferred: fewest calls, then widest accesses, then the fewest (or the
        most) instructions.
        """
        if other is None:
            return True
        ours, theirs = (-self.calls, self.weight), (-other.calls, other.weight)
        if ours != theirs:
            return ours > theirs
        return self.cost > other.cost if most else self.cost < other.cost


class Function:
    """The blocks of a function and how they follow each other."""

    def __init__(self, instructions: list[Instruction]):
        starts = {instructions[0].at}
        for k, one in enumerate(instructions):
            if one.target is not None:
                starts.add(one.target)
            if one.is_a("BRA", "EXIT", "RET", "BRX") and k + 1 < len(instructions):
                starts.add(instructions[k + 1].at)
        self.blocks: dict[int, list[Instruction]] = {}
        for one in instructions:
            if one.at in starts:
                current = self.blocks.setdefault(one.at, [])
            current.append(one)
        order = list(self.blocks)
        self.next: dict[int, list[int]] = {}
        for k, start in enumerate(order):
            last, after = self.blocks[start][-1], order[k + 1 : k + 2]
            if last.target is not None:
                # The way of parted lanes through a vote is never the hot one.
                to = [] if ".DIV" in last.name else [last.target]
                conditional = last.guard not in ("", "PT", "UPT") or "," in last.text
                self.next[start] = to + (after if conditional else [])
            elif last.is_a("EXIT", "RET"):
                self.next[start] = after if last.guard else []
            else:
                self.next[start] = after

    def loops(self) -> list[tuple[int, int]]:
        """Head and last block of each loop. Continuations that join at one head are one loop with
        several ends.
        """
        return [(to, start) for start, follow in self.next.items() for to in follow if to <= start]

    def weight(self, block: int, to: int | None = None) -> int:
        """The squares of the bytes that its accesses move, summed. Of those behind a predicate by
        which the block branches, only the ones that happen where it goes on to `to`.
        """
        last = self.blocks[block][-1]
        never = ""
        if (
            last.target is not None
            and last.guard
            and to is not None
            and last.target != self.after(block)
        ):
            opposite = last.guard[1:] if last.guard.startswith("!") else "!" + last.guard
            never = opposite if to == last.target else last.guard
        return sum(
            one.width**2
            for one in self.blocks[block]
            if not one.guard or (one.guard != never and one.width == WIDEST)
        )

    def after(self, block: int) -> int | None:
        """The block that stands behind it."""
        return self.next[block][-1] if len(self.next[block]) == 2 else None

    def path(self, head: int, end: int, most: bool = False) -> Path | None:
        """The hot path of a loop. Inner loops are not entered twice: a path has each block at most
        once.
        """
        best: dict[int, Path] = {}
        for start in (at for at in self.blocks if head <= at <= end):
            block = self.blocks[start]
            calls = sum(one.is_a("CALL", "UCALL") for one in block)
            before = None
            if start != head:
                for other in (at for at in best if start in self.next[at]):
                    way = best[other].going(self.weight(other, start) - self.weight(other))
                    if way.before(before, most):
                        before = way
                if before is None:
                    continue
            own = Path(self.weight(start), len(block), calls, (start,))
            best[start] = (
                own
                if before is None
                else Path(
                    before.weight + own.weight,
                    before.cost + own.cost,
                    before.calls + own.calls,
                    (*before.blocks, start),
                )
            )
        return best.get(end)

    def of_path(self, path: Path) -> list[Instruction]:
        """Its instructions, in order; a NOP is none."""
        return [one for block in path.blocks for one in self.blocks[block] if not one.is_a("NOP")]


def hot_paths(instructions: list[Instruction]) -> list[tuple[list[Instruction], list[Instruction]]]:
    """The hot path of each loop that moves as wide accesses as any other, and its longest one
    beside it; the loop with the fewest instructions first. Of loops with one head the one with the
    widest path counts.
    """
    function = Function(instructions)
    by_head: dict[int, tuple[Path, int]] = {}
    for head, end in function.loops():
        path = function.path(head, end)
        if path and path.weight and (head not in by_head or path.before(by_head[head][0], False)):
            by_head[head] = (path, end)
    if not by_head:
        return []
    widest = max(
        path.weight
        for path, _ in by_head.values()
        if not path.calls or all(p.calls for p, _ in by_head.values())
    )
    found = []
    for head, (path, end) in by_head.items():
        if path.weight == widest:
            longest = function.path(head, end, most=True)
            found.append((function.of_path(path), function.of_path(longest)))
    return sorted(found, key=lambda one: len(one[0]))


def row_paths(instructions: list[Instruction]) -> list[list[Instruction]]:
    """The passes of a kernel whose warps take rows, over rows of whole groups, in order: loops that
    hold no other and lie in the loop over the rows alone. (Where groups are parts, the loop over
    groups holds one over the lines that a group lies across.)
    """
    function = Function(instructions)
    by_head: dict[int, tuple[Path, int]] = {}
    for head, end in function.loops():
        path = function.path(head, end)
        if path and path.weight >= WIDEST**2:
            if head not in by_head or path.before(by_head[head][0], False):
                by_head[head] = (path, max(end, by_head.get(head, (path, end))[1]))
    spans = {head: end for head, (_, end) in by_head.items()}

    def around(inner: int) -> list[int]:
        return [h for h, end in spans.items() if h < inner and spans[inner] <= end]

    def holds_another(outer: int) -> bool:
        return any(outer in around(h) for h in spans)

    return [
        function.of_path(by_head[head][0])
        for head in sorted(spans)
        if len(around(head)) == 1 and not holds_another(head)
    ]


def happening(path: list[Instruction]) -> list[Instruction]:
    """Without the narrower one of two accesses of which a predicate chooses one."""
    wide = {one.guard for one in path if one.width == WIDEST and one.guard}
    opposite = {guard[1:] if guard.startswith("!") else "!" + guard for guard in wide}
    return [one for one in path if not (0 < one.width < WIDEST and one.guard in opposite)]


def sectors(path: list[Instruction], operation: str) -> int:
    """Sectors of 32 bytes that a warp's loads or stores ask for. Neighbouring lanes have
    neighbouring packets; a packet that is taken apart, accesses of one register's address that
    follow each other without a gap, is asked for anew by each.
    """
    total = 0
    places: dict[str, list[tuple[int, int]]] = {}
    for one in happening(path):
        if one.is_a(operation) and one.width and (place := one.place()):
            places.setdefault(place[0], []).append((place[1], one.width))
    for accesses in places.values():
        accesses.sort()
        k = 0
        while k < len(accesses):
            end = k + 1
            while (
                end < len(accesses)
                and accesses[end][0] == accesses[end - 1][0] + accesses[end - 1][1]
                and accesses[end][1] < 16
                and accesses[end][0] + accesses[end][1] - accesses[k][0] <= 32
            ):
                end += 1
            packet = sum(width for _, width in accesses[k:end])
            total += (end - k) * min(LANES, -(-LANES * packet // SECTOR))
            k = end
    return total


def most_in_flight(path: list[Instruction]) -> int:
    """Bytes of a lane's loads that are under way at once, at most, in one turn of the loop: until
    an instruction reads or overwrites what a load brings, that load and those before it are waited
    for.
    """
    waiting: list[tuple[list[int], int]] = []
    most = 0
    for one in happening(path):
        used = {int(n) for n in REGISTER.findall(one.text)}
        # A wide access names only the first of its registers.
        if one.is_a("STG"):
            data = REGISTER.search(one.text.rsplit(",", 1)[-1])
            if data:
                used |= set(range(int(data[1]), int(data[1]) + one.width // 4))
        for k in range(len(waiting) - 1, -1, -1):
            if used & set(waiting[k][0]):
                del waiting[: k + 1]
                break
        if one.is_a("LDG"):
            waiting.append((one.written(), one.width))
            most = max(most, sum(width for _, width in waiting))
    return most
