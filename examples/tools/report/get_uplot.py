#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Brings uPlot, which draws the report, from a package of PyPI into a folder, once: from the package as it is installed
beside this interpreter, else by pip.

    python3 examples/tools/report/get_uplot.py [FOLDER]     default: ~/.cache/echo/uplot-1.6.31

The files are those of one version, by their SHA-256; others are refused. Returns 1, with one line, where they cannot
be had.
"""
from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable

PACKAGE = "youplot==1.0.0"  # the wheel that holds uPlot as its authors minified it, with names in small letters
VERSION = "1.6.31"
INSIDE = "youplot/vendor/"
SHA256 = {
    "uPlot.iife.min.js": "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
SECONDS = 60


def is_whole(folder: pathlib.Path) -> bool:
    """Whether both files are there, byte for byte."""
    return all((folder / name).is_file() and digest((folder / name).read_bytes()) == wanted
               for name, wanted in SHA256.items())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def download(folder: pathlib.Path) -> pathlib.Path:
    """The wheel, in `folder`. Raises OSError or subprocess.SubprocessError."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "--retries", "1", "--timeout", "10", "--dest", str(folder), PACKAGE],
                   stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=SECONDS)
    return next(folder.glob("*.whl"))


def installed() -> pathlib.Path | None:
    """The folder that holds the installed package's folder, without importing it."""
    found = importlib.util.find_spec(INSIDE.partition("/")[0])
    return pathlib.Path(found.origin).parents[1] if found and found.origin else None


def unpack(read: Callable[[str], bytes], target: pathlib.Path) -> None:
    """Each file gets its name when it is whole; `read` gives it by its name in the package. Raises ValueError for bytes
    that are not the expected ones.
    """
    for name, wanted in SHA256.items():
        content = read(INSIDE + name.lower())
        if digest(content) != wanted:
            raise ValueError(f"{name} is not the file that was expected")
        part = target / f"{name}.{os.getpid()}.tmp"
        part.write_bytes(content)
        part.replace(target / name)


def bring(target: pathlib.Path) -> None:
    """Fills the folder. Raises OSError, ValueError or what pip raises."""
    if (package := installed()) is not None:
        unpack(lambda name: (package / name).read_bytes(), target)
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(download(pathlib.Path(folder))) as wheel:
        unpack(wheel.read, target)


def reason_of(problem: Exception) -> str:
    """One line."""
    if isinstance(problem, subprocess.CalledProcessError):
        lines = problem.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"pip returned {problem.returncode}"
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def main(arguments: list[str]) -> int:
    target = pathlib.Path(arguments[0]) if arguments else pathlib.Path.home() / ".cache" / "echo" / f"uplot-{VERSION}"
    if is_whole(target):
        return 0
    try:
        target.mkdir(parents=True, exist_ok=True)
        bring(target)
    except (OSError, subprocess.SubprocessError, StopIteration, KeyError, ValueError, zipfile.BadZipFile) as problem:
        reason = reason_of(problem)
        print(f"get_uplot.py: uPlot cannot be had from {PACKAGE}: {reason}; put {' and '.join(SHA256)} into {target}",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
