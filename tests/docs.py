#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""README.md and all pages under docs as their readers take them: every block of code compiles as printed, every program and option in
the commands exists, and every graph and plan is one by the rules of the formats.

    python3 docs.py --compiler g++ [--nvcc NVCC] --program echo-plan=PATH …

A block marked `cpp` is a whole unit by itself. Where it is a fragment, a comment in the line before names a frame:

    <!-- frame: tests/docs/engine.cpp -->

A frame is a file with lines that say `// block` and nothing else. The blocks of a document that name it are put in their
place, in their order and letter by letter; the frame holds what they take as given and includes nothing of Echo. The
blocks' own #include lines come first in the unit, so that they must suffice. A frame that ends in .cu is for nvcc; without
one its blocks are not compiled.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import replay

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```([\w+]*)$")
FRAME = re.compile(r"^<!-- frame: (\S+) -->$")
HOLE = re.compile(r"^ *// block$")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:hpp|cuh|cpp|cu|py|md|json|txt|cmake|js))`")
FROM_CARDS = ("bench/results/cuda.json", "bench/results/gpu.json")  # there from the first card on
OPTION = re.compile(r"--[a-z][\w-]*|-[a-zA-Z]\b")
TOOLS = ("cmake", "ctest", "python3")
given = argparse.Namespace(compiler="g++", nvcc="", programs={})


class Block:
    def __init__(self, document, line, language, frame):
        self.document, self.line, self.language, self.frame = document, line, language, frame
        self.lines = []

    def __str__(self):
        return f"{self.document.name}:{self.line}"

    def includes(self):
        return [line for line in self.lines if line.startswith("#include")]

    def numbered(self):
        """The block with the place it comes from, for the compiler's messages."""
        return [f'#line {self.line + 1} "{self.document.name}"', *self.lines]


def documents():
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "packaging/README.md",
                                  "examples/pytorch/README.md")]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(document, text):
    found, inside, before = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if inside and line == "```":
            inside = None
        elif inside:
            inside.lines.append(line)
        elif fence:
            frame = FRAME.match(before)
            inside = Block(document, number, fence[1], frame and frame[1])
            found.append(inside)
        before = line
    return found


def units_of(blocks):
    """The units to compile, each a suffix and a text: one per frame, and one per block without a frame."""
    units, framed = [], {}
    for block in blocks:
        if block.frame:
            framed.setdefault(block.frame, []).append(block)
        else:
            units.append((".cpp", "\n".join(block.numbered()) + "\n"))
    for name, parts in framed.items():
        unit = [line for part in parts for line in part.includes()] + [f'#line 1 "{name}"']
        frame, waiting = (ROOT / name).read_text().splitlines(), list(parts)
        for number, line in enumerate(frame, 1):
            if not HOLE.match(line):
                unit.append(line)
                continue
            if not waiting:
                raise ValueError(f"{name}:{number}: no block of {parts[0].document.name} is left for this place")
            unit += [*waiting.pop(0).numbered(), f'#line {number + 1} "{name}"']
        if waiting:
            raise ValueError(f"{waiting[0]}: {name} has no place left for it")
        units.append((pathlib.Path(name).suffix, "\n".join(unit) + "\n"))
    return units


def compile_unit(suffix, text):
    """What the compiler says against it; empty if nothing, or if there is no compiler for it."""
    include = f"-I{ROOT / 'include'}"
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder) / f"unit{suffix}"
        unit.write_text(text)
        if suffix == ".cu":
            command = [given.nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_75", "-ptx", include, unit,
                       "-o", unit.with_suffix(".ptx")]
        else:
            command = [given.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", include, unit]
        if not command[0]:
            return ""
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stderr if done.returncode else ""


def commands_in(lines):
    """The commands of a shell block, as lists of words: comments, variables before a command and pipes taken off."""
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        while words:
            ends = [i for i, word in enumerate(words) if word in ("&&", "|", ";")] + [len(words)]
            command, words = words[:ends[0]], words[ends[0] + 1:]
            while command and re.match(r"[A-Z_]+=", command[0]):
                command = command[1:]
            found.append(command)
    return found


def spans_in(text):
    """Commands in running text: code spans that begin with a program of ours."""
    spans = [span.split() for span in CODE_SPAN.findall(text)]
    return [words for words in spans if words and len(words) > 1 and known(words[0])]


def known(program):
    path = ROOT / program
    return program in given.programs or ("/" in program and path.is_file() and not path.suffix)


def faults_of_cmake(words):
    presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    files = "".join((ROOT / name).read_text() for name in ("CMakeLists.txt", "examples/CMakeLists.txt", "tests/CMakeLists.txt",
                                                           "packaging/commands.cmake"))
    found = []
    for before, word in zip(words, words[1:]):
        if before == "--preset" and word not in presets:
            found.append(f"there is no preset {word}")
        elif before == "-D" and word.split("=")[0] not in files:
            found.append(f"there is no variable {word}")
        elif before == "--target" and not re.search(rf"add_\w+\({word}\b", files):
            found.append(f"there is no target {word}")
    return found


def faults_of(words):
    """What is wrong with a command: its program, or an option of it, does not exist."""
    program, *arguments = words
    if program == "cmake":
        return faults_of_cmake(words)
    if program == "pip":
        return [f"there is no {place}" for place in arguments if place.startswith("./") and not (ROOT / place).exists()]
    if program == "ctest":
        presets = re.findall(r"--test-dir build/(\w+)", " ".join(arguments))
        return [] if presets else ["ctest is not told where the tests are"]
    if program == "python3":
        return faults_of(arguments) if arguments else []
    name = program.rsplit("/", 1)[-1] if program.startswith("build/") else program
    if name in given.programs:
        if not given.programs[name]:
            return []
        page = subprocess.run([given.programs[name], "--help"], capture_output=True, text=True, check=True).stdout
    elif "/" in name and (ROOT / name).is_file():
        program = ROOT / name
        page = "".join(file.read_text() for file in (program, program.with_name(program.name + ".py")) if file.is_file())
    else:
        return [f"there is no program {program}"]
    asked = [option[0] for option in map(OPTION.match, arguments) if option]
    return [f"{name} has no option {option}" for option in asked
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", page)]


class Docs(unittest.TestCase):
    maxDiff = None

    def test_code_compiles_as_printed(self):
        for document in documents():
            blocks = [block for block in blocks_of(document, document.read_text()) if block.language == "cpp"]
            for suffix, text in units_of(blocks):
                with self.subTest(document.name, unit=text.splitlines()[0]):
                    self.assertEqual(compile_unit(suffix, text), "")

    def test_python_parses(self):
        for document in documents():
            for block in blocks_of(document, document.read_text(encoding="utf-8")):
                if block.language == "python":
                    compile("\n".join(block.lines), str(block), "exec")

    def test_commands_exist(self):
        for document in documents():
            text = document.read_text()
            for block in blocks_of(document, text):
                if block.language == "sh":
                    for words in commands_in(block.lines):
                        with self.subTest(str(block), command=words):
                            self.assertEqual(faults_of(words), [])
            for words in spans_in(text):
                with self.subTest(document.name, command=words):
                    self.assertEqual(faults_of(words), [])

    def test_graphs_and_plans_are_sound(self):
        for document in documents():
            graph = None
            for block in blocks_of(document, document.read_text()):
                if block.language != "json":
                    continue
                content = json.loads("\n".join(block.lines))
                with self.subTest(str(block)):
                    if content.get("format") == "echo-plan/1":
                        self.assertEqual(replay.judge(graph, content).violations, [])
                    elif content.get("format") == "echo-graph/1":
                        graph = content
                        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                            file.write("\n".join(block.lines))
                            file.flush()
                            done = subprocess.run([given.programs["echo-plan"], file.name, "--json"], capture_output=True, text=True)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        self.assertEqual(json.loads(done.stdout)["unknown_ops"], [])

    def test_options_are_described(self):
        """Every option that the program's help page names, and no other."""
        page = subprocess.run([given.programs["echo-plan"], "--help"], capture_output=True, text=True, check=True).stdout
        rows = re.findall(r"^\| `(--[a-z-]+)", (ROOT / "docs" / "formats.md").read_text(), re.MULTILINE)
        self.assertEqual(set(rows), set(re.findall(r"--[a-z][a-z-]+", page)) - {"--help", "--version"})

    def test_links_and_named_files_are_there(self):
        for document in documents():
            text = document.read_text(encoding="utf-8")
            for target in LINK.findall(text):
                if not target.startswith(("http:", "https:", "#")):
                    place = document.parent / target.split("#")[0]
                    self.assertTrue(place.exists(), f"{document.name}: {target} is not there")
            for name in NAMED_FILE.findall(text):
                places = (ROOT / name, ROOT / "include" / "echo" / name, ROOT / "examples" / name, document.parent / name)
                self.assertTrue(name in FROM_CARDS or any(place.exists() for place in places),
                                f"{document.name}: {name} is not there")

    def test_blocks_say_what_they_are(self):
        for document in documents():
            for block in blocks_of(document, document.read_text()):
                self.assertIn(block.language, ("cpp", "c++", "sh", "json", "text", "python", "mermaid"), str(block))

    # The checks themselves find what is planted.

    def blocks(self, text):
        return blocks_of(pathlib.Path("planted.md"), text)

    def test_a_block_that_does_not_compile_is_found(self):
        (unit,) = units_of(self.blocks("one\n```cpp\nint x = y;\n```\n"))
        self.assertIn("planted.md:3", compile_unit(*unit))
        (unit,) = units_of(self.blocks("one\n```cpp\nint x = 1;\n```\n"))
        self.assertEqual(compile_unit(*unit), "")

    def test_a_frame_has_as_many_places_as_blocks(self):
        block = "<!-- frame: tests/docs/engine.cpp -->\n```cpp\n```\n"
        for count in (1, 3):
            with self.assertRaises(ValueError):
                units_of(self.blocks(block * count))
        units_of(self.blocks(block * 2))

    def test_commands_that_do_not_exist_are_found(self):
        for line in ("echo-plan --no-such-option", "tests/no_such_program", "tests/run --no-such-option", "no-such",
                     "cmake --preset no-such", "cmake -D NO_SUCH=1", "cmake --build x --target no-such",
                     "A=b echo-plan --json x | echo-plan --no-such", "python3 tests/no_such.py"):
            with self.subTest(line):
                self.assertTrue([fault for words in commands_in([line]) for fault in faults_of(words)])
        for line in ("echo-plan --json x # --no-such-option", "cmake --preset examples && echo-plan -h"):
            with self.subTest(line):
                self.assertFalse([fault for words in commands_in([line]) for fault in faults_of(words)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH", help="no path: it is not built")
    arguments, rest = parser.parse_known_args()
    given.compiler, given.nvcc = arguments.compiler, arguments.nvcc
    given.programs = dict(program.split("=", 1) for program in arguments.program)
    unittest.main(argv=["docs.py", *rest])


if __name__ == "__main__":
    main()
