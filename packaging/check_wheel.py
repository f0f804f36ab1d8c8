#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Looks into wheels of echo-torch: check_wheel.py WHEEL…

The tag is one of manylinux, the version is that of the headers, the backend is registered, the licence and the mark
for type checkers lie in it, and the extension can be loaded, if it is for this Python.
"""

import importlib.machinery
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version() -> str:
    """Of the headers."""
    text = (ROOT / "include" / "echo" / "version.hpp").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define ECHO_VERSION_\w+ (\d+)", text))


def faults(wheel: pathlib.Path, manylinux: bool = True) -> list[str]:
    """What is wrong with a wheel; without `manylinux` one for this machine alone is right too."""
    found = []
    if manylinux and not re.search(r"-manylinux_\d+_\d+_\w+\.whl$", wheel.name):
        found.append("has no tag of manylinux: its name says for which machines it is")
    if f"echo_torch-{version()}-" not in wheel.name:
        found.append(f"has another version than the headers, {version()}")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        if not any(name.endswith("entry_points.txt") for name in names):
            found.append("names no entry point: torch.compile would not find the backend")
        for name in ("/py.typed", "/LICENSE"):
            if not any(there.endswith(name) for there in names):
                found.append(f"holds no file {name[1:]}")
        extensions = [name for name in names if re.search(r"/_core\..*\.so$", name)]
        if len(extensions) != 1:
            found.append(f"holds the extensions {extensions}")
        elif extensions[0].endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            archive.extractall(folder)
            command = [sys.executable, "-c", "import _core"]
            if subprocess.run(command, cwd=(pathlib.Path(folder) / extensions[0]).parent).returncode:
                found.append(f"holds an extension, {extensions[0]}, that cannot be loaded")
    return found


if __name__ == "__main__":
    wrong = [f"{name}: {fault}" for name in sys.argv[1:] for fault in faults(pathlib.Path(name))]
    sys.exit("\n".join(wrong) or None)
