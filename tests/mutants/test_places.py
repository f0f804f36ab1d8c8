#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Changes are found, planted and awake one at a time: a header of a few lines, compiled and run.

    python3 tests/mutants/test_places.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import places  # noqa: E402

try:
    from clang import cindex  # noqa: F401
    HAS_CLANG = pathlib.Path("/usr/lib/llvm-16/lib/libclang.so.1").exists()
except ImportError:
    HAS_CLANG = False

HEADER = """#pragma once
#include <vector>
namespace echo {
struct counter {
    /// The `<` of a template is no comparison, and what is constant stays: static_assert(1 < 2).
    template <class T>
    static int below(const std::vector<T>& all, T limit) {
        static_assert(sizeof(T) > 0);
        constexpr int none = 0;
        int count = none;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] < limit) ++count;
        }
        return count;
    }
};
constexpr int twice(int n) { return n * 2; }
} // namespace echo
"""
MAIN = """#include <echo/graph/counter.hpp>
#include <cstdio>
static_assert(echo::twice(2) == 4);
int main() { std::printf("%d %d", echo::counter::below<int>({1, 2, 3}, 2), echo::twice(std::rand() ? 5 : 5)); }
"""


@unittest.skipUnless(HAS_CLANG, "python3-clang-16 and libclang1-16 are not installed")
class Places(unittest.TestCase):
    """One header, in a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        top = pathlib.Path(cls.folder.name)
        header = top / "include" / "echo" / "graph" / "counter.hpp"
        header.parent.mkdir(parents=True)
        header.write_text(HEADER, encoding="utf-8")
        cls.places = places.find_places(top / "include", ("graph",), [])
        for number, place in enumerate(cls.places, 1):
            place.number = number
        # All of this header at once, so long as none is doubled within another.
        planted = []
        for place in cls.places:
            if all(places.may_meet(place, other) for other in planted):
                planted.append(place)
        cls.planted = planted
        places.plant(top / "include", planted, top / "planted")
        (top / "main.cpp").write_text(MAIN, encoding="utf-8")
        cls.program = top / "main"
        subprocess.run(["g++", "-std=c++20", "-w", "-include", str(HERE / "mutant.hpp"), f"-I{top / 'planted'}",
                        str(top / "main.cpp"), "-o", str(cls.program)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, **more):
        """What the program prints."""
        return subprocess.run([str(self.program)], env={**os.environ, **more}, text=True, stdout=subprocess.PIPE,
                              timeout=20).stdout

    def test_finds_what_runs_and_nothing_else(self):
        texts = {place.before for place in self.places}
        self.assertLessEqual({"all[i] < limit", "i < all.size()", "++count;", "n * 2", "2", "0"}, texts)
        self.assertFalse([t for t in texts if "sizeof" in t or "none" in t])
        self.assertIn("counter::below", {place.function for place in self.places})
        self.assertEqual(len({place.key for place in self.places}), len(self.places))

    def test_asleep_nothing_changes(self):
        self.assertEqual(self.run_with(), "1 10")

    def test_awake_each_changes_what_it_says(self):
        changed = {place.before: self.run_with(ECHO_MUTANT=str(place.number)) for place in self.planted}
        self.assertEqual(changed["++count;"], "0 10")
        self.assertNotEqual(changed["n * 2"], "1 10")

    def test_what_is_reached_is_recorded(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertEqual(self.run_with(ECHO_REACHED=file.name), "1 10")
            reached = {int(line) for line in pathlib.Path(file.name).read_text(encoding="utf-8").split()}
        self.assertEqual(reached, {place.number for place in self.planted})

    def test_a_sample_is_the_same_each_time(self):
        one, other = places.sample(self.places, 5, 1), places.sample(self.places, 5, 1)
        self.assertEqual([p.key for p in one], [p.key for p in other])


if __name__ == "__main__":
    unittest.main()
