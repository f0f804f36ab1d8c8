#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The wheel of echo-torch without a second build: wheel.py PYTHON AUDITWHEEL FOLDER

What pip has installed for PYTHON is packed into a wheel again, in FOLDER. `auditwheel show` must find a
tag of manylinux for it, the least machine that it runs on, and under that name it must stand what
packaging/check_wheel.py looks at.
"""

import email
import pathlib
import re
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "packaging"))
import check_wheel  # noqa: E402

FIND = "import sysconfig; print(sysconfig.get_path('platlib'))"


def packed(python: str, folder: pathlib.Path) -> pathlib.Path:
    """The files that pip's record names, as the wheel that they came from."""
    found = subprocess.run([python, "-c", FIND], check=True, capture_output=True, text=True)
    packages = pathlib.Path(found.stdout.strip())
    infos = list(packages.glob("echo_torch-*.dist-info"))
    if len(infos) != 1:
        sys.exit(f"{packages} holds echo-torch {len(infos)} times: examples/pytorch/setup --package")
    record = infos[0] / "RECORD"
    lines = [line for line in record.read_text().splitlines() if not re.match(r"\.\.|.*\.pyc,", line)]
    names = [line.split(",")[0] for line in lines]
    tags = email.message_from_string((infos[0] / "WHEEL").read_text()).get_all("Tag")
    wheel = folder / f"{infos[0].stem}-{tags[0]}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            if packages / name != record:
                archive.write(packages / name, name)
        archive.writestr(f"{infos[0].name}/RECORD", "\n".join(lines) + "\n")
    return wheel


def main() -> None:
    python, auditwheel, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    wheel = packed(python, folder)
    shown = subprocess.run([auditwheel, "show", wheel], capture_output=True, text=True)
    said = shown.stdout + shown.stderr
    tag = re.search(r'platform\s+tag:\s+"(manylinux_\d+_\d+_\w+)"', said)
    if shown.returncode or not tag:
        sys.exit(f"auditwheel finds no tag of manylinux:\n{said}")
    named = wheel.rename(wheel.with_name(re.sub(r"linux_\w+\.whl$", f"{tag[1]}.whl", wheel.name)))
    faults = check_wheel.faults(named)
    if faults:
        sys.exit("\n".join(faults))
    print(f"{named.name}: {named.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
