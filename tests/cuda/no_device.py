#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Without a device the script for one says so in one line, and returns 77.

    no_device.py RUN
"""
import os
import subprocess
import sys


def main(run):
    said = subprocess.run([run], env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}, capture_output=True, text=True,
                          check=False)
    lines = (said.stdout + said.stderr).splitlines()
    right = said.returncode == 77 and len(lines) == 1 and "not run: " in lines[0] and "no CUDA device" in lines[0]
    if not right:
        print(f"returned {said.returncode}, and said:", *lines, sep="\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
