#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The commands' pages of the manual and completions: they name every option that the command has,
and no other.

    pages.py FOLDER --program PATH…

FOLDER holds what the build has written: COMMAND/COMMAND.1, COMMAND.bash, COMMAND.fish and _COMMAND;
and a page COMMAND-WORD.1 for each word with options of its own, such as `diff`.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import man_page  # noqa: E402

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
given = argparse.Namespace(folder=pathlib.Path(), programs=[])


def said(*command: object) -> str:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True
    ).stdout


def words_of(program: pathlib.Path) -> list[tuple[str, ...]]:
    """What stands first: nothing, or a word with options of its own."""
    return [(), ("diff",)] if program.name == "echo-plan" else [()]


def options_in_help(program: pathlib.Path, *words: str) -> set[str]:
    """Those that have a line of their own under OPTIONS."""
    lines = dict(man_page.sections(said(program, *words, "--help")))["OPTIONS"]
    return {option for line in lines if re.match(r" {4}-", line) for option in OPTION.findall(line)}


class Pages(unittest.TestCase):
    def each(self, suffix: str, before: str = ""):
        for program in given.programs:
            file = given.folder / program.name / f"{before}{program.name}{suffix}"
            yield program, file, file.read_text(encoding="utf-8")

    def complete(self, program: pathlib.Path, file: pathlib.Path, *words: str) -> list[str]:
        """What bash offers behind these words."""
        function = "_" + program.name.replace("-", "_")
        script = (
            'compopt() { :; }; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            f'{function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        )
        return said("bash", "-c", script, "bash", file, program.name, *words).split()

    def test_bash(self):
        for program, file, _ in self.each(".bash"):
            for words in words_of(program):
                self.assertEqual(
                    set(self.complete(program, file, *words, "--")),
                    options_in_help(program, *words),
                )
            self.assertEqual(
                self.complete(program, file, "--completion", ""), ["bash", "zsh", "fish"]
            )
            self.assertEqual(self.complete(program, file, "--completion", "=", "z"), ["zsh"])
            self.assertIn(str(ROOT / "README.md"), self.complete(program, file, str(ROOT / "READ")))

    def test_values(self):
        for program, file, _ in self.each(".bash"):
            if program.name == "echo-plan":
                self.assertIn("min_cut", self.complete(program, file, "--strategy", "mi"))
                self.assertEqual(self.complete(program, file, "--budget", ""), [])

    def test_words(self):
        for program, file, text in self.each(".bash"):
            if program.name == "echo-plan":
                self.assertEqual(self.complete(program, file, "dif"), ["diff"])
                self.assertNotIn("diff", self.complete(program, file, "diff", "dif"))
                self.assertIn(
                    str(ROOT / "README.md"),
                    self.complete(program, file, "diff", "--graph", str(ROOT / "READ")),
                )
                self.assertEqual(text, said(program, "diff", "--completion", "bash"))

    def test_zsh(self):
        for program, file, text in self.each("", "_"):
            *of_words, last = text.split("_arguments ")[1:]
            for words, part in zip(words_of(program), [last, *of_words], strict=True):
                self.assertEqual(
                    set(re.findall(r"^    '\*?(--[\w-]+)", part, re.MULTILINE)),
                    options_in_help(program, *words),
                )
                for word in words:
                    self.assertIn(f"[[ $words[2] == {word} ]]", text)
                    self.assertIn(f'"words:word:({word})"', last)
            self.assertTrue(text.startswith(f"#compdef {program.name}\n"))
            if shutil.which("zsh"):
                said("zsh", "-n", file)

    def test_fish(self):
        for program, file, text in self.each(".fish"):
            for words in words_of(program):
                other = r"-n '__fish_seen" if not words else r"-n 'not|-n __fish_use"
                lines = [line for line in text.splitlines() if not re.search(other, line)]
                self.assertEqual(
                    {"--" + name for name in re.findall(r" -l ([\w-]+)", "\n".join(lines))},
                    options_in_help(program, *words),
                )
            if shutil.which("fish"):
                said("fish", "-n", file)
                script = 'source "$argv[1]"; complete -C "$argv[2]"'
                for words in words_of(program):
                    line = " ".join([program.name, *words, "--"])
                    offered = said("fish", "--no-config", "-c", script, file, line)
                    self.assertEqual(
                        {option.split("\t")[0] for option in offered.splitlines()},
                        options_in_help(program, *words),
                    )

    def test_manual(self):
        for program in given.programs:
            for words in words_of(program):
                name = "-".join([program.name, *words])
                file = given.folder / program.name / f"{name}.1"
                plain = file.read_text(encoding="utf-8").replace("\\-", "-")
                self.assertIn(f"\n.SH NAME\n{name} - ", plain)
                self.assertEqual(
                    {
                        option
                        for head in re.findall(r"^\.TP\n\\fB(-.*)\\fR", plain, re.MULTILINE)
                        for option in OPTION.findall(head)
                    },
                    options_in_help(program, *words),
                )
                if shutil.which("man"):
                    done = subprocess.run(
                        ["man", "--warnings", "--encoding=UTF-8", "-l", file],
                        capture_output=True,
                        text=True,
                    )
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    for heading in dict(man_page.sections(said(program, *words, "--help"))):
                        self.assertIn(f"\n{heading}", done.stdout)

    def test_another_shell_is_refused(self):
        for program in given.programs:
            done = subprocess.run([program, "--completion", "tcsh"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn("there are bash, zsh and fish", done.stderr)

    def test_a_help_page_without_a_name_is_refused(self):
        for text in ("NAME\n    command\n", "OPTIONS\n    --x\n", "no heading"):
            with self.assertRaises(ValueError):
                man_page.page(" " + text if text == "no heading" else text, "0", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, action="append", dest="programs")
    given, rest = parser.parse_known_args(namespace=given)
    unittest.main(argv=["pages.py", *rest])
