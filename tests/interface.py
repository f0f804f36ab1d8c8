#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The interface: what the headers declare directly in `namespace echo` is what docs/versions.md lists, name by name.

    python3 tests/interface.py          compares the two, and checks that the reader of headers finds planted names
    python3 tests/interface.py --list   prints the names, header by header
"""
import pathlib
import re
import sys
import unittest

from sizes import behind, outline, texts_below, tokens_of, without_operators

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "versions.md"
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NO_NAMES = {"alignas", "class", "struct", "requires"}  # what may stand where a name is looked for


def name_of(head: list[str]) -> str:
    """What the declaration with this head declares; empty: nothing that has a name, such as an operator."""
    plain = without_operators(outline([(word, 0) for word in head]))
    if not plain or plain[0] in ("static_assert", "friend") or any(word.startswith("operator") for word in plain):
        return ""
    if plain[0] == "using":
        return "" if plain[1] == "namespace" else plain[1] if "=" in plain else plain[-1]
    for keyword in ("concept", "class", "struct", "enum", "union"):
        if keyword in plain:
            behind_it = plain[plain.index(keyword) + 1:]
            return next((word for word in behind_it if IDENTIFIER.match(word) and word not in NO_NAMES), "")
    until = plain.index("=") if "=" in plain else len(plain)
    for at in range(1, until):
        if plain[at] == "()" and IDENTIFIER.match(plain[at - 1]) and plain[at - 1] != "requires":
            return "" if plain[at - 2] == "::" else plain[at - 1]  # of a class that stands elsewhere
    depth, last = 0, ""
    for word in plain[:until]:
        depth += (word == "<") - (word == ">")
        if depth == 0 and IDENTIFIER.match(word) and word not in NO_NAMES:
            last = word
    return last


def declared(text: str) -> set[str]:
    """The names that a header declares directly in `namespace echo`."""
    tokens = tokens_of(text)
    found: set[str] = set()
    spaces: list[str] = []
    head: list[str] = []
    at = 0
    while at < len(tokens):
        word = tokens[at][0]
        ends = word in (";", "{", "}")
        if word == "{" and "namespace" in head[:2]:
            spaces.append("".join(part for part in head if part not in ("inline", "namespace")))
        elif ends and word != "}" and spaces == ["echo"]:
            found.add(name_of(head))
        elif word == "}" and spaces:
            spaces.pop()
        if ends:
            is_body = word == "{" and "namespace" not in head[:2]
            head, at = [], behind(tokens, at) if is_body else at + 1
        elif word in "([":
            end = behind(tokens, at)
            head, at = head + [inner for inner, _ in tokens[at:end]], end
        else:
            head, at = [*head, word], at + 1
    return found - {""}


def names_of_headers() -> dict[str, list[str]]:
    """By name: the headers that declare it."""
    found: dict[str, list[str]] = {}
    for header, text in sorted(texts_below(ROOT / "include").items()):
        for name in declared(text):
            found.setdefault(name, []).append(header)
    return found


def listed() -> list[str]:
    """The names in the table of docs/versions.md, as they stand there."""
    part = LIST.read_text(encoding="utf-8").partition("\n## The interface\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in part.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


class Interface(unittest.TestCase):
    def test_it_is_what_is_listed(self):
        names, found = listed(), names_of_headers()
        self.assertEqual(sorted(set(names)), sorted(names), "a name is listed twice")
        said = sorted(f"{name} of {', '.join(found[name])}" for name in set(found) - set(names))
        self.assertEqual(said, [], "declared in namespace echo and not listed: internals belong to echo::detail")
        self.assertEqual(sorted(set(names) - set(found)), [], "listed and declared nowhere in namespace echo")

    def test_planted_names_are_found(self):
        for text, names in (
            ("class a;", {"a"}),
            ("struct a : b { int c; void d(); };", {"a"}),
            ("enum class a : int { b, c };", {"a"}),
            ("using a = b;\nusing other::c;", {"a", "c"}),
            ("template <class T>\nconcept a = requires(T t) { t.b(); };", {"a"}),
            ("template <class T>\n    requires c<T>\n[[nodiscard]] inline std::vector<T> a(T x = {}) { return b(x); }", {"a"}),
            ("inline constexpr std::array<int, 2> a{1, 2};\nconstexpr bool b = f(1);", {"a", "b"}),
            ("template <>\nstruct a<int> { };", {"a"}),
            ("inline int a::b() { return 1; }", set()),
            ("inline bool operator==(a, a) { return true; }", set()),
            ("namespace detail {\nstruct a { };\n}\nstruct b { };", {"b"}),
            ("static_assert(sizeof(int) == 4);", set()),
        ):
            self.assertEqual(declared(f"namespace echo {{\n{text}\n}}\n"), names, text)
        for space in ("echo::detail", "echo::arena", "other"):
            self.assertEqual(declared(f"namespace {space} {{\nstruct a {{ }};\n}}\n"), set(), space)


def print_names() -> None:
    """The names, header by header."""
    rows: dict[str, list[str]] = {}
    for name, headers in sorted(names_of_headers().items()):
        rows.setdefault(headers[0], []).append(name)
    for header, names in sorted(rows.items()):
        print(f"{header}: {' '.join(names)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print_names()
    else:
        unittest.main()
