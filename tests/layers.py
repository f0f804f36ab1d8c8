#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The include arrows of include/echo, bottom up: the foundation, graph/, analysis/ with its rooms; cuda/ stands beside
analysis/.

    python3 tests/layers.py          checks the headers, and that planted faults are found
"""
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
LONGEST = 400  # lines
LAYERS = {"foundation": 0, "graph": 1, "analysis": 2}
# The rooms of analysis/. A room sees itself and those with a lower number; what lies in no room is what hosts call.
ROOMS = {"schedule": 0, "memory": 1, "plan/decision": 1, "plan/strategies": 2, "plan/bound": 2, "plan/moves": 2, "plan/offload": 2,
         "plan/budget": 3, "plan": 4, "verify": 5, "": 6}

# All that cuda/ may see beside itself; op expressions are what op_traits and symbol offer.
CUDA_SEES = re.compile(r"echo/(config|error|tensor|fwd|version|op_\w+|symbol)\.hpp|echo/(symbol|ops|cuda)/.*"
                       r"|echo/analysis/(plan/plan|memory/memory_plan)\.hpp")
FILES_AND_COMMAND_LINES = re.compile(r"nlohmann/|zlib\.h|zconf\.h|CLI/|fmt/")
CUDA_HEADERS = re.compile(r"(cu(da|dnn|blas|rand|b)|nvrtc|nvtx3|nvToolsExt|nvml|cooperative_groups)\w*(\.h(pp)?|/.*)")
BOOST_GRAPH = re.compile(r"echo/graph/boost(_\w+)?\.hpp")
# Planning sees snapshots, not hosts: nothing of a host's templates is compiled for it.
OF_HOSTS = re.compile(r"echo/graph/(abilities|boost\w*|concepts|dead_nodes|gradient|graph_traits|infer|near_names|optional_members|read|required_members)\.hpp")
PLANNING = ("echo/analysis/make_plan.hpp", "echo/analysis/plan_memory.hpp", "echo/analysis/verify.hpp")
NOT_IN_THE_UMBRELLA = re.compile(r"echo/(vocabulary|cuda)/.*|boost/graph/.*|" + BOOST_GRAPH.pattern)


def layer(header):
    """The layer of echo/…; everything that lies outside graph/, analysis/ and cuda/ is the foundation."""
    if header == "echo/echo.hpp":
        return "umbrella"
    folder = header.split("/")[1]
    return folder if folder in ("graph", "analysis", "cuda") else "foundation"


def room(header):
    """The room of echo/analysis/…, by the longest name in ROOMS that its folder begins with."""
    folder = header.removeprefix("echo/analysis/").rpartition("/")[0]
    while folder not in ROOMS:
        folder = folder.rpartition("/")[0]
    return folder


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
        if len(text.splitlines()) > LONGEST:
            found.append(f"{header}: longer than {LONGEST} lines")
        if ".index()]" in text and header != "echo/graph/id_vector.hpp":
            found.append(f"{header}: a table is read by a bare index; the tables of id_vector.hpp take the id itself")

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
            elif own == "analysis" == layer(target) and room(header) != room(target) and (
                    ROOMS[room(target)] >= ROOMS[room(header)]):
                found.append(f"{arrow}: the room {room(header)}/ never includes {room(target) or 'what hosts call'}")

    found += sorted(f"{arrow}: the umbrella leaves it out"
                    for arrow in reached(arrows, "echo/echo.hpp", NOT_IN_THE_UMBRELLA))
    for header in PLANNING:
        found += sorted(f"{arrow}: planning sees no host" for arrow in reached(arrows, header, OF_HOSTS))
    found += cycles(arrows)
    return found


def reached(arrows, start, unwanted):
    """The headers that `unwanted` names and `start` reaches, however far down, each with the one through which."""
    seen, waiting = set(), [(start, "")]
    while waiting:
        header, through = waiting.pop()
        if header in seen:
            continue
        seen.add(header)
        if unwanted.fullmatch(header):
            yield f"{start} -> {header}, through {through}"
        else:
            waiting += [(target, header) for _, target in arrows.get(header, ())]


def definitions_of(header):
    """What a header includes at its end where `echo::core` is not linked: it may include the header in turn."""
    folder, _, name = header.rpartition("/")
    return f"{folder}/detail/{name.removesuffix('.hpp')}_impl.hpp"


def cycles(arrows):
    """Headers that include each other, each cycle once."""
    found, done = [], set()

    def visit(header, path):
        if header in path:
            found.append(" -> ".join([*path[path.index(header):], header]) + ": a cycle")
        elif header not in done:
            for _, target in arrows.get(header, ()):
                if target != definitions_of(header):
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

    def test_a_bare_index(self):
        self.assert_one("a bare index", graph__x="int at(node_id n) { return table[n.index()]; }\n")

    def test_a_tree_without_faults(self):
        self.assertEqual([], self.planted(
            error="", graph__a="#include <echo/error.hpp>\n#include <vector>",
            graph__boost="#include <boost/graph/x.hpp>",
            analysis__plan__plan="#include <echo/graph/a.hpp>", echo="#include <echo/analysis/plan/plan.hpp>",
            analysis__plan__moves__a="#include <echo/analysis/plan/decision/a.hpp>", analysis__plan__decision__a="",
            cuda__arena="#include <echo/error.hpp>\n#include <echo/analysis/plan/plan.hpp>",
            cuda__check="#include <cuda_runtime_api.h>\n#include <nvtx3/nvToolsExt.h>"))

    def test_arrows_upwards(self):
        self.assert_one("graph never includes analysis", graph__a="#include <echo/analysis/b.hpp>", analysis__b="")
        self.assert_one("foundation never includes graph", error="#include <echo/graph/b.hpp>", graph__b="")
        self.assert_one("analysis never includes cuda", analysis__a="#include <echo/cuda/b.hpp>", cuda__b="")
        self.assert_one("graph never includes umbrella", graph__a="#include <echo/echo.hpp>", echo="")
        self.assert_one("cuda/ sees", cuda__a="#include <echo/analysis/make_plan.hpp>", analysis__make_plan="")
        self.assert_one("cuda/ sees", cuda__a="#include <echo/graph/b.hpp>", graph__b="")

    def test_rooms(self):
        self.assert_one("the room schedule/ never includes plan/decision", analysis__schedule__a=(
            "#include <echo/analysis/plan/decision/b.hpp>"), analysis__plan__decision__b="")
        self.assert_one("the room plan/moves/ never includes plan/bound", analysis__plan__moves__a=(
            "#include <echo/analysis/plan/bound/b.hpp>"), analysis__plan__bound__b="")
        self.assert_one("never includes what hosts call", analysis__verify__a="#include <echo/analysis/b.hpp>", analysis__b="")
        self.assert_one("the room memory/ never includes plan", analysis__memory__arena__a=(
            "#include <echo/analysis/plan/b.hpp>"), analysis__plan__b="")

    def test_what_the_umbrella_leaves_out(self):
        self.assert_one("through echo/graph/a.hpp", echo="#include <echo/graph/a.hpp>",
                        graph__a="#include <echo/vocabulary/b.hpp>", vocabulary__b="")
        self.assert_one("the umbrella leaves it out", echo="#include <echo/graph/boost.hpp>", graph__boost="")

    def test_planning_sees_no_host(self):
        self.assert_one("planning sees no host", analysis__make_plan="#include <echo/graph/a.hpp>",
                        graph__a="#include <echo/graph/concepts.hpp>", graph__concepts="")

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
        self.assertEqual([], self.planted(a="#include <echo/detail/a_impl.hpp>", detail__a_impl="#include <echo/a.hpp>"))
        self.assert_one("a cycle", a="#include <echo/b.hpp>", b="#include <echo/c.hpp>", c="#include <echo/b.hpp>")


if __name__ == "__main__":
    unittest.main()
