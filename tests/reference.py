#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The reference of docs/reference: every public entity of include/echo has words, and what has none
is found. Free functions say what they cost and what they throw, but for those whose body is one line,
operators, and what the compiler runs.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
sys.path.insert(0, str(FOLDER))
import common  # noqa: E402

run = SourceFileLoader("run", str(FOLDER / "run")).load_module()

PLANTED = """// SPDX-License-Identifier: BSL-1.0
/// @file
/// One header.
#pragma once
namespace echo {
/// With words.
struct told {
    int a = 0; ///< bytes
    int b = 0, c = 0; ///< both
    told(told&& other) noexcept;
    friend bool operator==(const told&, const told&) = default;
};
namespace detail {
struct nobodys { int x; };
}
%s
}
"""


def said(text: str) -> list[str]:
    """What is found in a folder with one header."""
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder) / "include" / "echo"
        include.mkdir(parents=True)
        (include / "planted.hpp").write_text(PLANTED % text)
        return run.warnings_of(include, pathlib.Path(folder) / "out")


# Folders whose functions are what ops compute, rows of a vocabulary, made for a device, or declared elsewhere.
ASIDE = {"ops", "symbol", "vocabulary", "kernel", "cuda", "detail"}
NO_FUNCTION = re.compile(
    r"[/#{})\s]|$|(namespace|template|requires|class|struct|enum|using|concept|static_assert|union"
    r"|public|private|protected)\b"
)
COST = re.compile(r"\bO\(|\bcosts?\b")
ERRORS = re.compile(r"\bErrors?\b|\b[Tt]hrows?\b")


def told_of(lines: list[str], at: int) -> str:
    """The comment in front of line `at`, and in front of its template."""
    told, before = [], at - 1
    while before >= 0 and re.match(r"template\b|\s+\S|requires\b", lines[before]):
        before -= 1
    while before >= 0 and lines[before].startswith("///"):
        told.insert(0, lines[before].removeprefix("///"))
        before -= 1
    return "".join(told)


def silent_functions(text: str) -> list[tuple[str, str]]:
    """Free functions of a header that do not say what they cost, or what they throw: name, and what
    is missing. Members and what namespaces called detail hold are not looked at.
    """
    lines, inside, found = text.splitlines(), [], []
    for at, line in enumerate(lines):
        if (opened := re.match(r"(?:inline )?namespace ([\w:]*) ?\{", line)) and "}" not in line:
            inside.append(opened[1].split("::")[-1])
        elif line.startswith("} // namespace"):
            inside.pop()
        if NO_FUNCTION.match(line) or "detail" in inside:
            continue
        end = at
        while not re.search(r"[;{}]\s*(//.*)?$", lines[end]) and end + 1 < len(lines):
            end += 1
        head = " ".join(lines[at : end + 1])
        name = re.search(r"(\w+)\(", head)
        elsewhere = "ECHO_INLINE" in head and head.rstrip().endswith(";")
        if not name or (re.search(r"\bconstexpr\b|\boperator\b|[;}]\s*(//.*)?$", head) and not elsewhere):
            continue
        body = 2 if elsewhere else next((k for k, one in enumerate(lines[end + 1 :]) if one.startswith("}")), 0)
        told = told_of(lines, at)
        if body > 1 and not COST.search(told):
            found.append((name[1], "cost"))
        if body > 1 and not ERRORS.search(told) and "noexcept" not in head:
            found.append((name[1], "errors"))
    return found


class Functions(unittest.TestCase):
    def test_each_says_what_it_costs_and_throws(self):
        looked_at = 0
        for header in sorted((ROOT / "include" / "echo").rglob("*.hpp")):
            if not ASIDE & set(header.parts):
                looked_at += 1
                self.assertEqual(silent_functions(header.read_text(encoding="utf-8")), [], header)
        self.assertGreater(looked_at, 100)

    def test_what_says_nothing_is_found(self):
        body = "{\n    int y = x;\n    return y;\n}\n"
        for text, missing in (
            (f"/// Words.\ninline int f(int x) {body}", ["cost", "errors"]),
            (f"/// Words. O(1).\ninline int f(int x) {body}", ["errors"]),
            (f"/// Words. Errors: none.\ninline int f(int x) {body}", ["cost"]),
            (f"/// Words.\ninline int f(int x) noexcept {body}", ["cost"]),
            (
                f"/// Words.\ntemplate <class T>\n    requires a<T>\nint f(T a,\n      T b) {body}",
                ["cost", "errors"],
            ),
            (f"/// Words. O(1). Errors: none.\ninline int f(int x) {body}", []),
            ("/// Words.\ninline int f(int x) {\n    return x;\n}\n", []),
            ("/// Words.\nECHO_INLINE int f(int x,\n      int y);\n", ["cost", "errors"]),
            ("/// Words. O(1). Errors: none.\nECHO_INLINE int f(int x);\n", []),
            ("/// Words.\ninline int f(int x) { return x; }\n", []),
            (f"namespace detail {{\ninline int f(int x) {body}}} // namespace detail\n", []),
            (f"/// Words.\nconstexpr int f(int x) {body}", []),
        ):
            with self.subTest(text):
                self.assertEqual(silent_functions(text), [("f", one) for one in missing])


@unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed")
class Pages(unittest.TestCase):
    def test_every_public_entity_has_words(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertEqual(run.warnings_of(ROOT / "include" / "echo", folder), [])
            pages = {path.name for path in (folder / "html").glob("*.html")}
            for page in (
                "index.html",
                "structecho_1_1plan__report.html",
                "classecho_1_1snapshot.html",
                "classecho_1_1error.html",
            ):
                self.assertIn(page, pages)
            self.assertFalse([page for page in pages if "detail" in page])

    def test_what_has_none_is_found(self):
        self.assertEqual(said(""), [])
        for text, name in (
            ("struct untold {\n    int a; ///< Words.\n};", "untold"),
            ("/// Words.\nstruct half { int silent; };", "silent"),
            ("inline void quiet() {}", "quiet"),
            ("/// Words.\n/// @param y there is none\nvoid f(int x);", "y"),
        ):
            with self.subTest(text):
                found = said(text)
                self.assertTrue(found)
                self.assertIn(name, found[0])
                self.assertTrue(found[0].startswith("include/echo/planted.hpp:"), found[0])


class Common(unittest.TestCase):
    def spoken(self, line: str, header: str = "include/echo/x.hpp") -> str:
        return common.spoken(pathlib.Path(header), line).strip()

    def test_what_the_language_gives_has_words(self):
        self.assertIn(
            "all members", self.spoken("    friend bool operator==(const a&, const a&) = default;")
        )
        self.assertIn("Takes over", self.spoken("    a(a&& other) noexcept;"))

    def test_what_is_deleted_is_no_copy(self):
        for line, words in (
            ("a(const a&) = delete; // it points into itself", "There is none: it points into itself."),
            ("a& operator=(const a&) = delete;", "There is none."),
            ("a(a&& other) = delete;", "There is none."),
        ):
            self.assertEqual(self.spoken(line), f"/** {words} */ {line}")

    def test_own_words_are_kept(self):
        for line in (
            "    a(a&& other); ///< Own.",
            "    /// Own.\n    a(a&& other);",
            "    /// Own.\n    template <class T>\n    a(a&& b);",
        ):
            self.assertEqual(self.spoken(line), line.strip())

    def test_words_stand_before_a_template(self):
        lines = self.spoken(
            "template <class A>\n    requires x<A>\nconstexpr auto exp(A a) noexcept {",
            "include/echo/symbol/x.hpp",
        ).splitlines()
        self.assertTrue(lines[0].startswith("/** e to that power. */ template"))

    def test_several_members_of_one_line(self):
        self.assertEqual(
            self.spoken("int a = 0, b{}; ///< both"), "/** both */ int a = 0; /** both */ int b{};"
        )
        self.assertEqual(self.spoken("int a = 0, b{};"), "int a = 0, b{};")

    def test_every_sentence_is_used(self):
        used: set[str] = set()
        for pattern in ("*.hpp", "*.cuh"):
            for header in sorted((ROOT / "include" / "echo").rglob(pattern)):
                common.spoken(header, header.read_text(encoding="utf-8"), used)
        for rules in (common.OPS, common.HOST, common.FUNCTIONS, common.KERNELS, common.ANALYSIS):
            self.assertEqual([rule for rule in rules if rule[0] not in used], [])

    def test_lines_keep_their_numbers(self):
        for header in sorted((ROOT / "include" / "echo").rglob("*.hpp")):
            text = header.read_text(encoding="utf-8")
            self.assertEqual(
                len(common.spoken(header, text).splitlines()), len(text.splitlines()), header
            )


if __name__ == "__main__":
    unittest.main()
