# SPDX-License-Identifier: BSL-1.0
"""Finds places in headers at which a change can be planted, and writes headers in which all chosen changes lie asleep.

A place is a range of the source with a change of it: an operator for another, a condition for its opposite, a number for the
next one, a statement for nothing. In the headers written, `a < b` reads `(::echo::mutant(17) ? (a <= b) : (a < b))`; which
change is awake is chosen when the program starts (mutant.hpp), so that everything is compiled once.
"""
import bisect
import collections
import dataclasses
import pathlib
import random
import re
import sys

sys.path.append("/usr/lib/python3/dist-packages")  # where Debian's python3-clang-16 lies, whatever python runs

OTHER_OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "&&": ["||"], "||": ["&&"], "<<": [">>"], ">>": ["<<"],
    "&": ["|"], "|": ["&"], "+=": ["-="], "-=": ["+="], "*=": ["/="], "|=": ["&="], "&=": ["|="],
}
ARITHMETIC = set("+ - * / % << >> & | += -= *= |= &=".split())
NUMBER = re.compile(rb"(\d[\d']*(?:\.\d*)?(?:e[+-]?\d+)?)([uUlLzZ]*)")


@dataclasses.dataclass
class Place:
    """A change; `pieces` is what takes the place of the text: bytes, or ranges of the source that stand as they are."""

    path: pathlib.Path  # below include/
    line: int
    function: str
    start: int
    end: int
    kind: str
    before: str
    after: str
    pieces: list
    at_compile_time: bool = False  # in a consteval function, where nothing planted is ever awake
    nth: int = 0  # among those of this header with the same function and texts
    number: int = 0

    @property
    def key(self):
        """What names the change as long as its text stands, wherever its header lies and whatever comes before it."""
        return (self.path.name, self.function, self.before, self.after, self.nth)


def kind_of(cursor) -> str:
    """The name of the cursor's kind; empty for kinds that the binding does not know, such as concepts."""
    try:
        return cursor.kind.name
    except ValueError:
        return ""


def is_expression(cursor) -> bool:
    """Whether the binding knows it as an expression."""
    return bool(kind_of(cursor)) and cursor.kind.is_expression()


def one_line(text: bytes) -> str:
    """The text without comments and line ends."""
    return " ".join(re.sub(r"//[^\n]*", "", text.decode()).split())


class Finder:
    """The places of one header."""

    def __init__(self, index, path: pathlib.Path, name: pathlib.Path):
        self.source = path.read_bytes()
        self.path, self.name = path, name
        self.lines = [0] + [m.end() for m in re.finditer(b"\n", self.source)]
        self.found: list[Place] = []
        self.rng = random.Random(f"changes of {name.name}")
        self.index = index

    def add(self, start, end, kind, after: str, pieces) -> None:
        """Notes a place in the function that is being walked."""
        before = one_line(self.source[start:end])
        line = bisect.bisect_right(self.lines, start)
        self.found.append(Place(self.name, line, self.function, start, end, kind, before, after, pieces, self.is_consteval))

    def walk_file(self, unit) -> list[Place]:
        """All places, in the order of the source."""
        self.function = ""
        for cursor in unit.cursor.get_children():
            if cursor.location.file and cursor.location.file.name == str(self.path):
                self.declarations(cursor, [])
        unique = {(p.start, p.end, p.kind, p.after): p for p in self.found}
        places = sorted(unique.values(), key=lambda p: (p.start, -p.end, p.kind))
        seen = collections.Counter()
        for place in places:
            place.nth = seen[place.key]
            seen[place.path.name, place.function, place.before, place.after, 0] += 1
        return places

    def declarations(self, cursor, scope, begin=0) -> None:
        """Looks for functions with bodies."""
        kind = kind_of(cursor)
        if kind == "COMPOUND_STMT":
            self.function = "::".join(scope[-2:])
            head = self.source[begin:cursor.extent.start.offset]
            self.is_consteval = re.search(rb"\bconsteval\b", head) is not None
            self.statements(cursor)
            return
        inner = scope
        if kind in ("FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "FUNCTION_TEMPLATE", "CONVERSION_FUNCTION",
                    "CLASS_DECL", "STRUCT_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION"):
            inner = scope + [cursor.spelling.split("<")[0] if kind != "CXX_METHOD" else cursor.spelling]
        elif kind not in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL", "FRIEND_DECL"):
            return
        for child in cursor.get_children():
            self.declarations(child, inner, cursor.extent.start.offset)

    def text(self, start, end) -> bytes:
        """Source between two offsets, without white space around it."""
        return self.source[start:end].strip()

    def is_source(self, cursor) -> bool:
        """Whether the cursor's range is text of this header, and not of a macro."""
        start, end = cursor.extent.start, cursor.extent.end
        return bool(start.file and start.file.name == str(self.path) and end.offset > start.offset
                    and not self.source[start.offset:end.offset].startswith((b"assert", b"ECHO_")))

    def statements(self, cursor, parent=None) -> None:
        """Walks a body."""
        kind = kind_of(cursor)
        children = list(cursor.get_children())
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        text = self.source[start:end]
        if kind in ("STATIC_ASSERT", "CASE_STMT_VALUE", "TYPE_ALIAS_DECL", "CONCEPT_DECL", "REQUIRES_EXPR"):
            return
        if kind in ("VAR_DECL", "DECL_STMT") and b"constexpr" in text.split(b"=")[0]:
            return
        if kind in ("IF_STMT", "WHILE_STMT", "FOR_STMT", "CONDITIONAL_OPERATOR"):
            self.condition(cursor, children, kind)
        if kind in ("BINARY_OPERATOR", "CALL_EXPR", "UNEXPOSED_EXPR", "COMPOUND_ASSIGNMENT_OPERATOR"):
            self.operator(cursor, children)
        if kind in ("INTEGER_LITERAL", "FLOATING_LITERAL", "CXX_BOOL_LITERAL_EXPR"):
            self.number(cursor, parent)
        bodies = self.bodies(kind, children)
        for child in children:
            if child in bodies:
                self.statement(child)
            if kind == "IF_STMT" and text.startswith(b"if constexpr") and child not in bodies:
                continue
            if kind == "CASE_STMT" and child is children[0]:
                continue
            self.statements(child, cursor)

    @staticmethod
    def bodies(kind, children):
        """Of the children those that are statements of their own."""
        if kind == "COMPOUND_STMT":
            return children
        if kind in ("FOR_STMT", "WHILE_STMT", "CXX_FOR_RANGE_STMT"):
            return children[-1:]
        if kind == "IF_STMT":
            return children[1:]
        return []

    def statement(self, cursor) -> None:
        """A statement that may be left out: an expression, or `continue`."""
        if not self.is_source(cursor):
            return
        if not is_expression(cursor) and kind_of(cursor) != "CONTINUE_STMT":
            return
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        after = re.compile(rb"\s*;").match(self.source, end)
        text = self.source[start:end]
        # Room taken ahead changes nothing but time; what throws is a function's only way out.
        if not after or re.search(rb"\breserve\(", text) or text.startswith((b"throw", b"co_", b"static_cast<void>")):
            return
        self.add(start, after.end(), "statement", "", [b"{ if (!::echo::mutant(%d)) ", (start, after.end()), b" }"])

    def condition(self, cursor, children, kind) -> None:
        """The condition of `if`, a loop or `?:`; where it declares a variable it is left alone."""
        text = self.source
        if text.startswith(b"if constexpr", cursor.extent.start.offset):
            return
        for i, child in enumerate(children[:-1] if kind != "CONDITIONAL_OPERATOR" else children[:1]):
            if not is_expression(child) or not self.is_source(child):
                continue
            start, end = child.extent.start.offset, child.extent.end.offset
            follows = self.text(end, children[i + 1].extent.start.offset)
            if kind == "FOR_STMT":
                fits = follows.startswith(b";") and self.text(0, start).endswith(b";")
            else:
                fits = follows in ((b"?",) if kind == "CONDITIONAL_OPERATOR" else (b")", b") {"))
            if not fits:
                continue
            # A loop whose condition is always true says nothing about the tests: it never ends.
            ways = ["false"] if kind in ("FOR_STMT", "WHILE_STMT") else ["false", "true", "!"]
            way = self.rng.choice(ways)
            whole = (start, end)
            if way == "!":
                pieces = [b"(::echo::mutant(%d) != static_cast<bool>(", whole, b"))"]
            else:
                pieces = [b"(::echo::mutant(%d) ? " + way.encode() + b" : static_cast<bool>(", whole, b"))"]
            before = one_line(text[start:end])
            self.add(start, end, "condition", f"!({before})" if way == "!" else way, pieces)
            return

    def operator(self, cursor, children) -> None:
        """A binary operator, built in or overloaded."""
        if len(children) < 2 or not self.is_source(cursor):
            return
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        first = [c for c in children if c.extent.start.offset == start and c.extent.end.offset < end]
        last = [c for c in children if c.extent.end.offset == end and c.extent.start.offset > start]
        if not first or not last or not self.is_source(first[0]) or not self.is_source(last[-1]):
            return
        left = max(c.extent.end.offset for c in first)
        right = min(c.extent.start.offset for c in last)
        sign = self.text(left, right).decode()
        if sign not in OTHER_OPERATORS:
            return
        type_kind = cursor.type.get_canonical().kind.name
        if sign in ARITHMETIC and type_kind in ("RECORD", "POINTER", "LVALUEREFERENCE", "RVALUEREFERENCE"):
            return
        if sign in ("<<", ">>", "+") and b'"' in self.source[start:end]:
            return  # text is written or put together
        other = self.rng.choice(OTHER_OPERATORS[sign])
        a, b = (start, left), (right, end)
        pieces = [b"(::echo::mutant(%d) ? ((", a, f") {other} (".encode(), b, b")) : (", (start, end), b"))"]
        texts = [one_line(self.source[s:e]) for s, e in (a, b)]
        self.add(start, end, "operator", f"{texts[0]} {other} {texts[1]}", pieces)

    def number(self, cursor, parent) -> None:
        """A number, one more or less; `true` for `false`."""
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        text = self.source[start:end]
        if not self.is_source(cursor) or parent is None:
            return
        if kind_of(parent) not in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR", "CALL_EXPR", "RETURN_STMT", "VAR_DECL",
                                    "CONDITIONAL_OPERATOR", "UNEXPOSED_EXPR", "INIT_LIST_EXPR", "ARRAY_SUBSCRIPT_EXPR",
                                    "CXX_FUNCTIONAL_CAST_EXPR", "PAREN_EXPR"):
            return
        if self.text(0, start).endswith(b"<") and kind_of(parent) not in ("BINARY_OPERATOR", "UNEXPOSED_EXPR"):
            return  # an argument of a template
        if text in (b"true", b"false"):
            other = b"false" if text == b"true" else b"true"
            self.add(start, end, "number", other.decode(), [b"(::echo::mutant(%d) ? " + other + b" : " + text + b")"])
            return
        parts = NUMBER.fullmatch(text)
        if not parts:
            return
        minus = float(parts[1].replace(b"'", b"")) >= 1 and self.rng.random() < 0.5
        other = text + (b" - 1" if minus else b" + 1")
        self.add(start, end, "number", other.decode(), [b"(::echo::mutant(%d) ? " + other + b" : " + text + b")"])


def find_places(include: pathlib.Path, folders, arguments) -> list[Place]:
    """All places of the headers in some folders of include/echo."""
    from clang import cindex

    if not cindex.Config.loaded:
        cindex.Config.set_library_file("/usr/lib/llvm-16/lib/libclang.so.1")
    index = cindex.Index.create()
    found = []
    headers = sorted(path for folder in folders for path in (include / "echo" / folder).rglob("*.hpp"))
    everything = "".join(f"#include <{path.relative_to(include)}>\n" for path in headers)
    unit = index.parse("all.cpp", args=["-std=c++20", f"-I{include}", *arguments],
                       unsaved_files=[("all.cpp", everything)])
    errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        sys.exit("libclang does not understand the headers:\n" + "\n".join(errors[:10]))
    for path in headers:
        found += Finder(index, path, path.relative_to(include)).walk_file(unit)
    return found


def sample(places: list[Place], count: int, seed: int) -> list[Place]:
    """Some of them, drawn by the seed; of each header as many as its share of all, and at least two. A text is never doubled
    within another that is doubled, so the headers written grow little."""
    by_header = collections.defaultdict(list)
    for place in places:
        by_header[place.path.name].append(place)
    chosen = []
    for name, own in sorted(by_header.items()):
        share = max(2, round(count * len(own) / len(places)))
        random.Random(f"{seed} {name}").shuffle(own)
        taken: list[Place] = []
        for place in own:
            if len(taken) < share and all(may_meet(place, other) for other in taken):
                taken.append(place)
        chosen += taken
    chosen.sort(key=lambda p: (p.path.name, p.start, -p.end))
    return chosen


def may_meet(a: Place, b: Place) -> bool:
    """Whether both can be planted: they lie apart, or what lies around the other does not double it."""
    if a.end <= b.start or b.end <= a.start:
        return True
    if (a.start, a.end) == (b.start, b.end):
        return False
    outer, inner = (a, b) if a.start <= b.start and b.end <= a.end else (b, a)
    if not (outer.start <= inner.start and inner.end <= outer.end):
        return False
    return outer.kind in ("statement", "condition")


def plant(include: pathlib.Path, places: list[Place], target: pathlib.Path) -> None:
    """Writes a copy of the headers with these places in it; the numbers of the places stay as they are."""
    by_path = collections.defaultdict(list)
    for place in places:
        by_path[place.path].append(place)
    for path in sorted(p.relative_to(include) for pattern in ("*.hpp", "*.cuh", "*.h", "*.inl")
                       for p in include.rglob(pattern)):
        source = (include / path).read_bytes()
        text = Rendering(source, by_path.get(path, [])).of(0, len(source))
        out = target / path
        if out.is_file() and out.read_bytes() == text:
            continue
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(text)


class Rendering:
    """Text of a header with the changes of some places."""

    def __init__(self, source: bytes, places: list[Place]):
        self.source = source
        self.places = sorted(places, key=lambda p: (p.start, -p.end))

    def of(self, start: int, end: int, within: Place | None = None) -> bytes:
        """A range; `within` has been written already."""
        out, at = [], start
        for place in self.places:
            if place is within or place.start < at or place.end > end:
                continue
            if within and not (within.start <= place.start and place.end <= within.end):
                continue
            if within and (place.start, place.end) == (within.start, within.end):
                continue
            out.append(self.source[at:place.start])
            for piece in place.pieces:
                if isinstance(piece, bytes):
                    out.append(piece.replace(b"%d", b"%d" % place.number))
                else:
                    out.append(self.of(*piece, within=place))
            at = place.end
        out.append(self.source[at:end])
        return b"".join(out)
