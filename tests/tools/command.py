# SPDX-License-Identifier: BSL-1.0
"""What tests of a program share that call it as its users do: a folder of their own, exit codes, one line per error.

A test derives from `Command`, states `name`, and ends with `main()`; the program's path is its first argument.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest


class Command(unittest.TestCase):
    name = "" # how the program names itself in its errors
    program = ""

    @classmethod
    def setUpClass(cls):
        cls.sanitized = b"__asan_init" in pathlib.Path(cls.program).read_bytes()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def call(self, *arguments, **more):
        given = {} if "input" in more else {"stdin": subprocess.DEVNULL}
        return subprocess.run([self.program, *map(os.fspath, arguments)], timeout=300,
                              **given | {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more)

    def good(self, *arguments):
        """What it prints."""
        done = self.call(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
        return done.stdout.decode()

    def bad(self, status, *arguments, words=()):
        """The one line of an error, with these words; nothing else is printed and no file is left."""
        before = sorted(self.folder.iterdir())
        done = self.call(*arguments)
        line = done.stderr.decode()
        self.assertEqual(done.returncode, status, (arguments, line))
        self.assertEqual(done.stdout, b"", arguments)
        self.assertEqual(len(line.splitlines()), 1, line)
        self.assertTrue(line.startswith(self.name + ": ") and line.endswith("\n"), line)
        self.assertLess(len(line), 400, line)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        for word in words:
            self.assertIn(word, line)
        return line

    def ends_by(self, number, *arguments, before):
        """A signal ends it while it works, once `before(folder)` is true: by that signal, and no file is left."""
        there = sorted(self.folder.rglob("*"))
        with subprocess.Popen([self.program, *map(os.fspath, arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            deadline = time.monotonic() + 60
            while not before() and running.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            running.send_signal(number)
            self.assertEqual(running.wait(60), -number)
        self.assertEqual(sorted(self.folder.rglob("*")), there)

    def bad_when_standard_output_is_full(self, *arguments):
        with open("/dev/full", "wb") as full:
            done = self.call(*arguments, stdout=full)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))


def main():
    Command.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
