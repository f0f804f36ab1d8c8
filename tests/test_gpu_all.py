#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""`bench/gpu --all` with stand-ins for nvcc, the card and the two parts: both run, whatever the first says, and the table
and the file are made of what they leave.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
NVCC = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.1"; exit; fi
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho "90 NVIDIA H100 80GB HBM3"\\n' >"$2"
chmod +x "$2"
"""
GPU = {"card": {"device": "NVIDIA H100 80GB HBM3 (sm_90)"}, "left_out": [], "models": {}, "bars": []}


def part(name: str, result: str, status: int) -> str:
    """A stand-in for a part: says that it runs, with what it is given, and leaves a result in the folder behind --out."""
    return f"""#!/bin/sh
echo "{name} $1 $3 $4"
mkdir -p "$2"
cat >"$2/{result}.json" <<'END'
{json.dumps(GPU) if result == 'gpu' else json.dumps({'card': {'card': 'NVIDIA H100 80GB HBM3'}, 'rows': []})}
END
exit {status}
"""


class All(unittest.TestCase):
    def run_all(self, tests: int, bench: int) -> subprocess.CompletedProcess:
        scope = tempfile.TemporaryDirectory()
        self.addCleanup(scope.cleanup)
        self.top = pathlib.Path(scope.name)
        shutil.copytree(ROOT / ".ci", self.top / ".ci")
        script = (ROOT / "tests" / "cuda" / "run").read_text(encoding="utf-8")
        deadline = re.search(r"^deadline=(\d+)", script, re.MULTILINE)  # what the first part says of itself
        self.minutes = int(deadline[1]) / 60
        for file, text in (
            ("bin/nvcc", NVCC),
            ("tests/cuda/run", part("the tests", "cuda", tests).replace("\n", f"\n{deadline[0]}\n", 1)),
            ("bench/gpu", part("the steps", "gpu", bench)),
            ("bench/all", (ROOT / "bench" / "gpu").read_text(encoding="utf-8")),
        ):
            (self.top / file).parent.mkdir(parents=True, exist_ok=True)
            (self.top / file).write_text(text, encoding="utf-8")
            (self.top / file).chmod(0o755)
        (self.top / "bench" / "pieces").symlink_to(ROOT / "bench" / "pieces")
        path = f"{self.top / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([self.top / "bench" / "all", "--all", "--seconds", "60"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env={**os.environ, "PATH": path, "BOOST_INCLUDE": "/usr/include"})

    def test_both_parts_run_and_the_table_says_how(self):
        for tests, bench, status in ((0, 0, 0), (1, 0, 1), (0, 1, 1)):
            with self.subTest(tests=tests, bench=bench):
                done = self.run_all(tests, bench)
                lines = done.stdout.splitlines()
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertEqual(lines[0], "NVIDIA H100 80GB HBM3, sm_90; release 13.0")
                most = int(re.match(r"This takes (\d+) minutes at most: ", lines[1])[1])
                self.assertTrue(self.minutes + 1 <= most <= self.minutes + 3, lines[1])
                self.assertEqual(lines[3:5], ["the tests --out  ", "the steps --out --seconds 60"])
                for name, failed in (("tests/cuda/run", tests), ("bench/gpu", bench)):
                    row = next(line for line in lines[5:] if line.startswith(name))
                    self.assertIn("FAILED" if failed else "passed", row)
                made = pathlib.Path(re.search(r"Send in this one file: (.*)", lines[-1])[1])
                self.assertTrue(made.is_file() and made.is_relative_to(self.top / "build" / "gpu-day"), made)


if __name__ == "__main__":
    unittest.main()
