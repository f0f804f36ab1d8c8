#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The path of somebody who has just heard of Echo: install it, compile the guide's host
(docs/guide/plug-in-your-engine.md), run it: it plans its own graph.

    newcomer.py WAY --tree BUILD --work FOLDER [--compiler g++] [--generator Ninja]

A WAY installs into an empty folder and nowhere else: prefix (cmake --install), fetch-content,
pkg-config, deb, tar, header (one file), vcpkg, conan. The packages are made of the build tree TREE,
in which the commands are built; where a package holds them, they plan a graph from a file as well.
A tool that is missing leaves its way out: exit status 77.
"""

import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
import guide  # noqa: E402
import replay  # noqa: E402

SKIPPED = 77
GRAPH = ROOT / "examples" / "graphs" / "mlp.json.gz"


def step(*command: object, **more: object) -> str:
    """What the command prints; ends the program with all it said where it fails."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\nreturned {done.returncode}")
    return done.stdout


def need(*programs: str) -> None:
    """Leaves the way out where one of the programs is not installed."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        print(f"left out: {', '.join(missing)} is not installed")
        sys.exit(SKIPPED)


def version() -> str:
    return ".".join(
        re.findall(
            r"#define ECHO_VERSION_\w+ (\d+)", (ROOT / "include/echo/version.hpp").read_text()
        )
    )


class Newcomer:
    def __init__(self, given: argparse.Namespace):
        self.tree, self.work = given.tree.resolve(), given.work.resolve()
        self.compiler, self.generator = given.compiler, given.generator
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    # The host.

    def host(self, one_header: bool = False) -> pathlib.Path:
        file = self.work / "host.cpp"
        file.write_text(guide.host(one_header), encoding="utf-8")
        return file

    def plan(self, program: pathlib.Path) -> None:
        """The host plans its own graph: less memory than before, and it says so."""
        said = step(program)
        peaks = re.match(r"peak ([\d.]+) -> ([\d.]+) MB", said)
        if not peaks or float(peaks[2]) >= float(peaks[1]):
            sys.exit(f"{program} does not say that it needs less:\n{said}")
        print(said.splitlines()[0])

    def compile(self, *flags: str, one_header: bool = False) -> None:
        """By a compiler alone."""
        program = self.work / "host"
        step(self.compiler, "-std=c++20", *flags, self.host(one_header), "-o", program)
        self.plan(program)

    def cmake_project(self, *options: str) -> None:
        """By a project of CMake's that finds the package in our folder."""
        self.cmake_build(f"find_package(echo {version()} REQUIRED)", *options)
        cache = (self.work / "build/CMakeCache.txt").read_text()
        found = re.search(r"^echo_DIR:PATH=(.*)", cache, re.MULTILINE)
        if not found or not pathlib.Path(found[1]).is_relative_to(self.work):
            sys.exit(f"CMake found another package: {found and found[1]}")

    def cmake_build(self, taken_in: str, *options: str) -> None:
        """By a project of CMake's that takes Echo in by these lines."""
        self.host()
        (self.work / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(newcomer LANGUAGES CXX)\n"
            f"{taken_in}\nadd_executable(host host.cpp)\n"
            "target_link_libraries(host PRIVATE echo::echo)\n"
        )
        build = self.work / "build"
        step(
            "cmake",
            "-S",
            self.work,
            "-B",
            build,
            "-G",
            self.generator,
            f"-DCMAKE_CXX_COMPILER={self.compiler}",
            *options,
        )
        step("cmake", "--build", build)
        self.plan(build / "host")

    def commands(self, prefix: pathlib.Path) -> None:
        """The installed commands plan a graph from a file, have their pages, and complete."""
        plan = self.work / "plan.json"
        step(prefix / "bin/echo-plan", GRAPH, "--emit-plan", plan)
        judged = replay.judge(
            json.loads(gzip.decompress(GRAPH.read_bytes())), json.loads(plan.read_text())
        )
        if judged.violations:
            sys.exit(f"the plan of the installed echo-plan is refused: {judged.violations}")
        pages_of = {"echo-plan": ("echo-plan", "echo-plan-diff"), "echo-arena": ("echo-arena",)}
        for command, names in pages_of.items():
            if version() not in step(prefix / "bin" / command, "--version"):
                sys.exit(f"{command} has another version than the headers, {version()}")
            manual = prefix / "share/man/man1"
            pages = [page for name in names for page in manual.glob(f"{name}.1*")]
            shells = [
                prefix / f"share/bash-completion/completions/{command}",
                prefix / f"share/fish/vendor_completions.d/{command}.fish",
                *prefix.glob(f"share/zsh/*/_{command}"),
            ]
            if len(pages) != len(names) or len(shells) != 3 or not all(file.is_file() for file in shells):
                sys.exit(f"{command} has the pages {pages} and the completions {shells}")

    def packaged(self, generator: str) -> list[pathlib.Path]:
        """What cpack makes of the tree."""
        made = self.work / "made"
        step(
            "cpack",
            "--config",
            self.tree / "CPackConfig.cmake",
            "-G",
            generator,
            "-B",
            made,
            cwd=self.work,
        )
        return [file for file in made.iterdir() if file.is_file()]

    # The ways.

    def way_prefix(self) -> None:
        prefix = self.work / "prefix"
        step("cmake", "--install", self.tree, "--prefix", prefix)
        self.commands(prefix)
        moved = prefix.rename(self.work / "moved")  # a prefix may be moved
        self.cmake_project(f"-DCMAKE_PREFIX_PATH={moved}")

    def way_fetch_content(self) -> None:
        self.cmake_build(
            f"include(FetchContent)\nFetchContent_Declare(echo SOURCE_DIR {ROOT})\n"
            "FetchContent_MakeAvailable(echo)"
        )

    def way_pkg_config(self) -> None:
        need("pkg-config")
        prefix = self.work / "prefix"
        step("cmake", "--install", self.tree, "--prefix", prefix, "--component", "dev")
        if (prefix / "bin").exists():
            sys.exit("the component dev holds commands")
        there = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "share/pkgconfig"))
        step("pkg-config", "--exact-version", version(), "echo", env=there)
        self.compile(*step("pkg-config", "--cflags", "echo", env=there).split())

    def way_deb(self) -> None:
        need("dpkg", "dpkg-deb")
        packages = self.packaged("DEB")
        names = sorted(
            step("dpkg-deb", "--field", package, "Package").strip() for package in packages
        )
        if names != ["echo-tools", "libecho-dev"]:
            sys.exit(f"cpack made {names}")
        if shutil.which("lintian"):
            said = step("lintian", "--fail-on", "error,warning", "--allow-root", *packages)
            print(f"lintian: {said.strip() or 'nothing to say'}")
        root = self.work / "root"
        if os.geteuid() == 0:
            for folder in ("updates", "info"):
                (root / "var/lib/dpkg" / folder).mkdir(parents=True)
            (root / "var/lib/dpkg/status").touch()
            paths = os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"
            step(
                "dpkg",
                f"--root={root}",
                "--force-depends",
                "--force-not-root",
                "--force-script-chrootless",
                "--install",
                *packages,
                env=dict(os.environ, PATH=paths),
            )
        else:
            for package in packages:
                step("dpkg-deb", "--extract", package, root)
        self.commands(root / "usr")
        self.compile(f"-I{root}/usr/include")

    def way_tar(self) -> None:
        (package,) = self.packaged("TGZ")
        shutil.unpack_archive(package, self.work)
        (prefix,) = self.work.glob("echo-*")
        self.commands(prefix)
        self.cmake_project(f"-DCMAKE_PREFIX_PATH={prefix}")

    def way_header(self) -> None:
        bare = self.work / "bare" / "echo.hpp"
        step(sys.executable, ROOT / "packaging/amalgamate.py", "--no-boost", bare)
        if "<boost/" in bare.read_text(encoding="utf-8"):
            sys.exit("the header without Boost includes Boost")
        self.compile(f"-I{bare.parent}", "-Wall", "-Wextra", "-Werror", one_header=True)
        whole = self.work / "whole" / "echo.hpp"
        step(sys.executable, ROOT / "packaging/amalgamate.py", whole)
        unit = self.work / "whole.cpp"
        unit.write_text(
            '#include "echo.hpp"\n' 'int main() { return echo::aten["aten.relu"].known ? 0 : 1; }\n'
        )
        step(
            self.compiler,
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{whole.parent}",
            "-fsyntax-only",
            unit,
        )

    def way_vcpkg(self) -> None:
        port = ROOT / "packaging/vcpkg/echo"
        manifest = json.loads((port / "vcpkg.json").read_text())
        if manifest["version-semver"] != version():
            sys.exit(f"vcpkg.json says {manifest['version-semver']}, and the headers {version()}")
        known = {"$schema", "name", "version-semver", "description", "license", "dependencies"}
        if set(manifest) != known or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", manifest["name"]):
            sys.exit(f"vcpkg.json has the fields {sorted(manifest)}")
        packages = self.work / "packages"
        step(
            "cmake",
            f"-DPORT_DIR={port}",
            f"-DPACKAGES={packages}",
            f"-DBUILD={self.work / 'port'}",
            f"-DGENERATOR={self.generator}",
            f"-DCOMPILER={self.compiler}",
            "-P",
            HERE / "vcpkg.cmake",
        )
        self.cmake_project(f"-DCMAKE_PREFIX_PATH={packages}")

    def way_conan(self) -> None:
        conan = os.environ.get("ECHO_CONAN", "conan")
        need(conan)
        there = dict(
            os.environ,
            CONAN_HOME=str(self.work / "home"),
            ECHO_HOST=str(self.host()),
            CXX=self.compiler,
        )
        step(conan, "profile", "detect", env=there)
        step(conan, "remote", "disable", "*", env=there)  # Boost is Debian's here
        for core in ("False", "True"):  # the second one links echo::core
            said = step(
                conan,
                "create",
                ROOT / "packaging/conan",
                "-o",
                "echo/*:boost=False",
                "-o",
                f"echo/*:core={core}",
                "-s",
                "compiler.cppstd=20",
                "-s",
                "build_type=Debug",
                "-c",
                f"tools.cmake.cmake_layout:test_folder={self.work / 'test'}",
                "-c",
                "tools.cmake.cmaketoolchain:user_presets=",
                env=there,
            )
            if f"echo/{version()}" not in said or not re.search(
                r"^peak [\d.]+ -> ", said, re.MULTILINE
            ):
                sys.exit(f"conan's consumer planned nothing:\n{said}")


def main() -> None:
    ways = sorted(
        name.removeprefix("way_").replace("_", "-")
        for name in vars(Newcomer)
        if name.startswith("way_")
    )
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=ways)
    parser.add_argument(
        "--tree", type=pathlib.Path, required=True, help="a build tree with the commands built"
    )
    parser.add_argument("--work", type=pathlib.Path, required=True, help="is emptied")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--generator", default="Ninja")
    given = parser.parse_args()
    getattr(Newcomer(given), "way_" + given.way.replace("-", "_"))()


if __name__ == "__main__":
    main()
