#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""How long the functions of include/echo are: none above 60 lines. A header's own limit is in layers.py.

    python3 tests/sizes.py           checks the headers, and that planted faults are found
    python3 tests/sizes.py --list    prints the longest classes and functions

It reads braces, not C++: what stands before one says whether a class, a function or something else begins there.
"""
import dataclasses
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST_FUNCTION = 60  # lines, from the first of its declaration to the closing brace
TEXTS = re.compile(r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
COMMENTS = re.compile(rf"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*|{TEXTS.pattern}|(?<![0-9a-fA-F])'(?:\\.|[^'\\])+'",
                      re.DOTALL | re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|<=>|&&|\|\||[<>=!]=|\n|\S")
PAIRS = {"(": ")", "[": "]", "{": "}"}
# What stands before `requires (…) {` where it begins an expression, not a clause behind which a body stands.
BEFORE_EXPRESSION = {"requires", "&&", "||", "!", "=", "("}
BEFORE_BODY = {"const", "noexcept", "override", "final", "mutable", "try"}


@dataclasses.dataclass
class Definition:
    """A class or a function, by the lines on which it begins and ends."""

    kind: str
    name: str
    first: int
    last: int

    @property
    def lines(self) -> int:
        """How many it takes."""
        return self.last - self.first + 1


def tokens_of(text: str):
    """Pairs of token and line; comments, directives and the contents of literals are left out."""
    bare = COMMENTS.sub(lambda m: ("0" if m.group()[0] in "\"'R" else " ") + "\n" * m.group().count("\n"), text)
    found, line = [], 1
    for token in TOKEN.findall(bare):
        if token == "\n":
            line += 1
        else:
            found.append((token, line))
    return found


def behind(tokens, at: int) -> int:
    """The place behind the bracket that closes the one at `at`."""
    waiting = []
    while True:
        token = tokens[at][0]
        if token in PAIRS:
            waiting.append(PAIRS[token])
        elif waiting and token == waiting[-1]:
            waiting.pop()
        at += 1
        if not waiting:
            return at


def outline(tokens):
    """The head of a declaration without what stands in brackets: `(…)` becomes `()`; template parameters go."""
    plain, at = [], 0
    while at < len(tokens):
        token = tokens[at][0]
        if token == "template" and at + 1 < len(tokens) and tokens[at + 1][0] == "<":
            depth, at = 0, at + 1
            while at < len(tokens):
                token = tokens[at][0]
                if token in PAIRS:
                    at = behind(tokens, at)
                    continue
                depth += (token == "<") - (token == ">")
                at += 1
                if depth == 0:
                    break
        elif token in PAIRS:
            plain.append(token + PAIRS[token])
            at = behind(tokens, at)
        else:
            plain.append(token)
            at += 1
    return plain


def without_operators(plain):
    """The outline with `operator=` and its like as one word."""
    joined = []
    for word in plain:
        if joined and joined[-1] == "operator" and word != "()":
            joined[-1] = "operator" + word
        elif joined and joined[-1].startswith("operator") and word in ("=", "<", ">", "+", "-", "&", "|"):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def kind_of(head):
    """What the brace behind the tokens `head` begins, and its name: namespace, class, function or nothing of these."""
    plain = without_operators(outline(head))
    if not plain or plain[-1] in ("requires", "=", ",", "return"):
        return "", ""
    if plain[0] in ("namespace", "extern") or plain[:2] == ["inline", "namespace"]:
        return "namespace", ""
    if "concept" in plain or "=" in plain or "enum" in plain:
        return "", ""
    if len(plain) > 2 and plain[-1] == "()" and plain[-2] == "requires" and plain[-3] in BEFORE_EXPRESSION:
        return "", ""
    for keyword in ("class", "struct", "union"):
        if keyword in plain:
            names = [w for w in plain[plain.index(keyword) + 1:] if re.match(r"[A-Za-z_]", w)]
            names = [w for w in names if w not in ("alignas", "final")]
            return "class", names[0] if names else "(unnamed)"
    calls = [i for i in range(1, len(plain)) if plain[i] == "()" and plain[i - 1] != "requires"]
    if not calls:
        return "", ""
    call, last = calls[0], plain[-1]
    if ":" in plain[call:] and last not in ("()", "{}"):
        return "", ""  # `member{…}` of a constructor
    if re.match(r"[A-Za-z_]", last) and last not in BEFORE_BODY and not {"->", "requires"} & set(plain[call:]):
        return "", ""  # a variable: `type<sizeof(x)> name{…}`
    name = plain[call - 1]
    return "function", "operator()" if name == "operator" else name


def definitions(text: str):
    """The classes and functions of a header, but not what is local to a function."""
    tokens, found, at = tokens_of(text), [], 0
    open_ones = []  # of namespaces None, of classes their definitions
    head = 0  # the first token of this declaration
    while at < len(tokens):
        token, line = tokens[at]
        if token == ";" or (token == ":" and at - head == 1 and tokens[head][0] in ("public", "private", "protected")):
            head = at = at + 1
        elif token == "}":
            if open_ones and (closed := open_ones.pop()):
                closed.last = line
            head = at = at + 1
        elif token == "{":
            kind, name = kind_of(tokens[head:at])
            if kind == "function":
                end = behind(tokens, at)
                found.append(Definition(kind, name, tokens[head][1], tokens[end - 1][1]))
                head = at = end
            elif kind:
                open_ones.append(Definition(kind, name, tokens[head][1], line) if kind == "class" else None)
                found += [open_ones[-1]] if kind == "class" else []
                head = at = at + 1
            else:
                at = behind(tokens, at)
        elif token in PAIRS:
            at = behind(tokens, at)
        else:
            at += 1
    return found


def texts_below(include: pathlib.Path):
    """Headers by name, in the folder `include` that holds echo/."""
    return {path.relative_to(include).as_posix(): path.read_text(encoding="utf-8")
            for pattern in ("*.hpp", "*.cuh") for path in sorted((include / "echo").rglob(pattern))}


def faults(texts):
    """One line for each function that is too long."""
    return [f"{header}:{d.first}: function {d.name} has {d.lines} lines, more than {LONGEST_FUNCTION}"
            for header, text in texts.items() for d in definitions(text)
            if d.kind == "function" and d.lines > LONGEST_FUNCTION]


class Sizes(unittest.TestCase):
    def test_the_headers_keep_to_their_sizes(self):
        found = faults(texts_below(ROOT / "include"))
        self.assertFalse(found, "\n" + "\n".join(found))

    def one(self, text):
        """The only definition of the text."""
        found = definitions(text)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_planted_classes(self):
        rows = "    int x;\n" * 200
        for head in ("class long_one {", "template <class T>\nstruct long_one : base<T> {", "class long_one final {",
                     "template <class T>\n    requires requires(T t) { t.x; }\nclass long_one {",
                     "struct alignas(16) long_one {", "union long_one {"):
            found = definitions(f"namespace n {{\n{head}\n{rows}}};\n}}\n")
            self.assertEqual([(d.kind, d.name, d.lines) for d in found], [("class", "long_one", head.count("\n") + 202)])
        self.assertEqual(self.one("class a {\n    int x;\n};").lines, 3)
        self.assertEqual(self.one("template <class T>\nclass a {\n    int x{3};\n    int y = 3;\n};").lines, 5)

    def test_planted_functions(self):
        rows = "    f({1, 2});\n" * 60
        for head in ("void long_one() {", "template <class T>\nauto long_one(T t) -> std::vector<T> {",
                     "bool long_one() const noexcept {", "void long_one() requires requires { g.names; } {",
                     "template <class T>\n    requires a<T> && requires(T t) { t.x; }\nvoid long_one(T x = {}) {"):
            for text in (f"{head}\n{rows}}}\n", f"struct s {{\npublic:\n{head}\n{rows}}}\n}};\n"):
                found = faults({"a.hpp": text})
                self.assertEqual(len(found), 1, (head, found))
                self.assertIn("function long_one has", found[0])
        long = f"struct s {{\n    s(int a) : a_{{a}}, b_(a), c_{{}} {{\n{rows}    }}\n    int a_;\n}};\n"
        self.assertIn("function s has", faults({"a.hpp": long})[0])
        for name in ("operator()(int)", "operator=(int)", "operator<=>(int) const"):
            self.assertIn("function operator", faults({"a.hpp": f"struct s {{\nint {name} {{\n{rows}}}\n}};\n"})[0])

    def test_what_is_no_function(self):
        rows = "    1,\n" * 60
        for text in (f"inline constexpr int x[] = {{\n{rows}}};\n", f"enum class e : int {{\n{rows}}};\n",
                     f"inline constexpr std::array<int, n(3)> x{{\n{rows}}};\n",
                     f"template <class T>\nconcept c = requires(T t) {{\n{rows}}};\n",
                     f"// void f() {{\n{rows.replace('1,', '// x')}\nint a;\n", f'const auto x = "void f() {{";\n{rows}int y;\n'):
            self.assertEqual([], faults({"a.hpp": text}), text[:60])

    def test_literals(self):
        for literal in ('"}"', "'}'", "'\\''", 'R"(})"', "1'000", "'\"'"):
            self.assertEqual(self.one(f"int f() {{\n    g({literal}, {literal});\n    return 0;\n}}").lines, 4)

    def test_the_line_of_a_member(self):
        found = definitions("class a {\npublic:\n    int x = 3;\n\n    /// Says it.\n    int f() const {\n        return x;\n"
                            "    }\n    struct inner {\n        int y;\n    };\nprivate:\n    int z;\n};\n")
        self.assertEqual([(d.kind, d.name, d.first, d.last) for d in found],
                         [("class", "a", 1, 14), ("function", "f", 6, 8), ("class", "inner", 9, 11)])


def print_longest() -> None:
    """The longest definitions, longest first, of each kind."""
    all_of_them = [(d.lines, d.kind, d.name, header) for header, text in texts_below(ROOT / "include").items()
                   for d in definitions(text)]
    for kind, least in (("class", 200), ("function", LONGEST_FUNCTION * 0.9)):
        for lines, _, name, header in sorted((d for d in all_of_them if d[1] == kind), reverse=True):
            if lines > least:
                print(f"{lines:5} {kind:8} {name:24} {header}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print_longest()
    else:
        unittest.main()
