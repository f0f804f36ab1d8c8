#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Looks into wheels of echo-torch: check_wheel.py WHEEL…

The tag is one of manylinux, the version is that of the headers, the backend is registered, and the
extension can be loaded, if it is for this Python.
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version() -> str:
    """Of the headers."""
    text = (ROOT / "include" / "echo" / "version.hpp").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define ECHO_VERSION_\w+ (\d+)", text))


def faults(wheel: pathlib.Path) -> list[str]:
    """What is wrong with a wheel."""
    found = []
    if not re.search(r"-manylinux_\d+_\d+_\w+\.whl$", wheel.name):
        found.append("has no tag of manylinux: its name says for which machines it is")
    if f"echo_torch-{version()}-" not in wheel.name:
        found.append(f"has another version than the headers, {version()}")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        if not any(name.endswith("entry_points.txt") for name in names):
            found.append("names no entry point: torch.compile would not find the backend")
        extensions = [name for name in names if re.search(r"/_core\..*\.so$", name)]
        if len(extensions) != 1:
            found.append(f"holds the extensions {extensions}")
        elif extensions[0].endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            archive.extractall(folder)
            file = pathlib.Path(folder) / extensions[0]
            spec = importlib.util.spec_from_file_location("_core", file)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return found


if __name__ == "__main__":
    wrong = [f"{name}: {fault}" for name in sys.argv[1:] for fault in faults(pathlib.Path(name))]
    sys.exit("\n".join(wrong) or None)
