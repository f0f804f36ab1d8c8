#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The include arrows of include/echo, bottom up: the foundation, graph/, analysis/; cuda/ stands beside analysis/.

    python3 tests/layers.py          checks the headers, and that planted faults are found
"""
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
LONGEST = 350  # lines
LONGER = {"echo/vocabulary/aten_rows.hpp": 400,  # one table, a row for each op of ATen: nothing to split it by
          "echo/graph/boost_graph.hpp": 362}
LAYERS = {"foundation": 0, "graph": 1, "analysis": 2}

# All that cuda/ may see beside itself; op expressions are what op_traits and symbol offer.
CUDA_SEES = re.compile(r"echo/(config|error|tensor|fwd|version|op_\w+|symbol)\.hpp|echo/(symbol|ops|cuda)/.*"
                       r"|echo/analysis/(plan|memory_plan)\.hpp")
FILES_AND_COMMAND_LINES = re.compile(r"nlohmann/|zlib\.h|zconf\.h|CLI/|fmt/")
CUDA_HEADERS = re.compile(r"(cu(da|dnn|blas|rand|b)|nvrtc|nvtx3|nvToolsExt|nvml|cooperative_groups)\w*(\.h(pp)?|/.*)")
BOOST_GRAPH = re.compile(r"echo/graph/boost(_\w+)?\.hpp")
NOT_IN_THE_UMBRELLA = re.compile(r"echo/(vocabulary|cuda)/.*|boost/graph/.*|" + BOOST_GRAPH.pattern)


def layer(header):
    """The layer of echo/…; everything that lies outside graph/, analysis/ and cuda/ is the foundation."""
    if header == "echo/echo.hpp":
        return "umbrella"
    folder = header.split("/")[1]
    return folder if folder in ("graph", "analysis", "cuda") else "foundation"


def faults(include):
    """One line for each arrow that must not be, in the folder `include` that holds echo/."""
    texts = {path.relative_to(include).as_posix(): path.read_text(encoding="utf-8")
             for pattern in ("*.hpp", "*.cuh") for path in sorted((include / "echo").rglob(pattern))}
    arrows = {header: INCLUDE.findall(text) for header, text in texts.items()}
    found = []

    for header, text in texts.items():
        if "#pragma once" not in text:
            found.append(f"{header}: no #pragma once")
        if not text.startswith("// SPDX-License-Identifier: BSL-1.0"):
            found.append(f"{header}: the first line does not state the licence")
        if len(text.splitlines()) > (most := LONGER.get(header, LONGEST)):
            found.append(f"{header}: longer than {most} lines")

        own = layer(header)
        for bracket, target in arrows[header]:
            arrow = f"{header} -> {target}"
            if bracket == '"':
                found.append(f"{arrow}: headers are named from echo/ on, in angle brackets")
            elif FILES_AND_COMMAND_LINES.match(target):
                found.append(f"{arrow}: the library reads no files and no command lines")
            elif CUDA_HEADERS.fullmatch(target) and (own != "cuda" or header.startswith("echo/cuda/kernel/")):
                found.append(f"{arrow}: CUDA's headers belong to cuda/, and not to the bodies of its kernels")
            elif target.startswith("boost/graph/") and not BOOST_GRAPH.fullmatch(header):
                found.append(f"{arrow}: Boost.Graph belongs to graph/boost.hpp and its parts")
            if not target.startswith("echo/"):
                continue
            if target not in texts:
                found.append(f"{arrow}: there is no such header")
            elif own == "cuda":
                if not CUDA_SEES.fullmatch(target):
                    found.append(f"{arrow}: cuda/ sees configuration, errors, op expressions and the two plan types")
            elif own in LAYERS and layer(target) not in LAYERS:
                found.append(f"{arrow}: {own} never includes {layer(target)}")
            elif own in LAYERS and LAYERS[layer(target)] > LAYERS[own]:
                found.append(f"{arrow}: {own} never includes {layer(target)}")

    found += umbrella_faults(arrows)
    found += cycles(arrows)
    return found


def umbrella_faults(arrows):
    """What echo.hpp reaches, however far down, and must not."""
    found, seen, waiting = [], set(), [("echo/echo.hpp", "")]
    while waiting:
        header, through = waiting.pop()
        if header in seen:
            continue
        seen.add(header)
        if NOT_IN_THE_UMBRELLA.fullmatch(header):
            found.append(f"echo/echo.hpp -> {header}, through {through}: the umbrella leaves it out")
            continue
        waiting += [(target, header) for _, target in arrows.get(header, ())]
    return sorted(found)


def cycles(arrows):
    """Headers that include each other, each cycle once."""
    found, done = [], set()

    def visit(header, path):
        if header in path:
            found.append(" -> ".join([*path[path.index(header):], header]) + ": a cycle")
        elif header not in done:
            for _, target in arrows.get(header, ()):
                visit(target, [*path, header])
            done.add(header)

    for header in arrows:
        visit(header, [])
    return found


class Layers(unittest.TestCase):
    def test_the_headers_keep_to_their_layers(self):
        found = faults(ROOT / "include")
        self.assertFalse(found, "\n" + "\n".join(found))

    def planted(self, **texts):
        """The faults of a tree with these headers; `__` stands for a slash, and each is well-formed otherwise."""
        head = "// SPDX-License-Identifier: BSL-1.0\n#pragma once\n"
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                path = pathlib.Path(folder, "echo", name.replace("__", "/") + ".hpp")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(head + text, encoding="utf-8")
            return faults(pathlib.Path(folder))

    def assert_one(self, words, **texts):
        found = self.planted(**texts)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_a_tree_without_faults(self):
        self.assertEqual([], self.planted(
            error="", graph__a="#include <echo/error.hpp>\n#include <vector>",
            graph__boost="#include <boost/graph/x.hpp>",
            analysis__plan="#include <echo/graph/a.hpp>", echo="#include <echo/analysis/plan.hpp>",
            cuda__arena="#include <echo/error.hpp>\n#include <echo/analysis/plan.hpp>",
            cuda__check="#include <cuda_runtime_api.h>\n#include <nvtx3/nvToolsExt.h>"))

    def test_arrows_upwards(self):
        self.assert_one("graph never includes analysis", graph__a="#include <echo/analysis/b.hpp>", analysis__b="")
        self.assert_one("foundation never includes graph", error="#include <echo/graph/b.hpp>", graph__b="")
        self.assert_one("analysis never includes cuda", analysis__a="#include <echo/cuda/b.hpp>", cuda__b="")
        self.assert_one("graph never includes umbrella", graph__a="#include <echo/echo.hpp>", echo="")
        self.assert_one("cuda/ sees", cuda__a="#include <echo/analysis/min_cut.hpp>", analysis__min_cut="")
        self.assert_one("cuda/ sees", cuda__a="#include <echo/graph/b.hpp>", graph__b="")

    def test_what_the_umbrella_leaves_out(self):
        self.assert_one("through echo/graph/a.hpp", echo="#include <echo/graph/a.hpp>",
                        graph__a="#include <echo/vocabulary/b.hpp>", vocabulary__b="")
        self.assert_one("the umbrella leaves it out", echo="#include <echo/graph/boost.hpp>", graph__boost="")

    def test_foreign_headers(self):
        self.assert_one("no files", graph__a="#include <nlohmann/json.hpp>")
        self.assert_one("no files", a="#  include <zlib.h>")
        self.assert_one("CUDA's headers", error="#include <cuda_runtime_api.h>")
        self.assert_one("CUDA's headers", graph__a="#include <nvtx3/nvToolsExt.h>")
        self.assert_one("CUDA's headers", cuda__kernel__a="#include <cuda_fp16.h>")
        self.assert_one("Boost.Graph", analysis__a="#include <boost/graph/adjacency_list.hpp>")

    def test_form(self):
        self.assert_one("angle brackets", a='#include "b.hpp"')
        self.assert_one("no such header", a="#include <echo/b.hpp>")
        self.assert_one("longer", a="\n" * LONGEST)
        self.assert_one("a cycle", a="#include <echo/b.hpp>", b="#include <echo/c.hpp>", c="#include <echo/b.hpp>")


if __name__ == "__main__":
    unittest.main()
