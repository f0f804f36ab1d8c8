#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The reference of docs/reference: every public entity of include/echo has words, and what has none
is found.
"""

import pathlib
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
