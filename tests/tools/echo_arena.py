#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Calls `echo-arena` as its users do: offsets that are checked here, by themselves; exit codes, one line per error,
files written whole or not at all.

    python3 echo_arena.py PROGRAM
"""
import csv
import gzip
import os
import pathlib
import random

import command

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = pathlib.Path(os.environ.get("ECHO_PLANNER_DATA", ROOT.parent / "shared" / "data" / "planner"))
HEADER = "id,lower,upper,size\n"


def overlaps(rows):
    """Pairs of rows that live at one time and share a byte."""
    live, found = [], []
    for row in sorted(rows, key=lambda row: int(row["lower"])):
        lower, upper, size, offset = (int(row[key]) for key in ("lower", "upper", "size", "offset"))
        if lower == upper or size == 0:
            continue
        live = [one for one in live if one[0] > lower]
        found += [(row["id"], one[3]) for one in live if one[1] < offset + size and offset < one[2]]
        live.append((upper, offset, offset + size, row["id"]))
    return found


def load(rows):
    """The largest sum of sizes at one time."""
    events = sorted(event for row in rows for event in
                    ((int(row["upper"]), -int(row["size"])), (int(row["lower"]), int(row["size"]))))
    now = most = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def random_table(seed, count=200):
    dice = random.Random(seed)
    lines = []
    for i in range(count):
        lower = dice.randrange(2**40)
        lines.append(f"b{i},{lower},{lower + dice.randrange(2**38)},{dice.randrange(2**20)}\n")
    return HEADER + "".join(lines)


class Arena(command.Command):
    name = "echo-arena"

    def setUp(self):
        super().setUp()
        self.table = self.write("table.csv", HEADER + "a,0,4,3\nb,2,6,5\nc,4,8,3\n")

    def shown(self, *arguments):
        """What it prints, by its first words."""
        return {line.split()[0]: line.split()[1] for line in self.good(*arguments).splitlines()}

    def bad_table(self, content, *words):
        path = self.write("bad.csv", content)
        self.bad(1, path, "--output", self.folder / "out.csv", words=(str(path), *words))

    def placed(self, table, *arguments):
        """The rows of the output, which are those of the input, checked."""
        file = self.folder / "placed.csv"
        shown = self.shown(table, "--output", file, *arguments)
        with open(file, encoding="utf-8", newline="") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(overlaps(rows), [])
        self.assertEqual(int(shown["arena"]), max((int(row["offset"]) + int(row["size"]) for row in rows
                                                   if row["lower"] != row["upper"]), default=0))
        self.assertGreaterEqual(int(shown["bound"]), load(rows))
        self.assertGreaterEqual(int(shown["arena"]), int(shown["bound"]))
        self.assertEqual(int(shown["buffers"]), len(rows))
        return rows, shown

    # Good input

    def test_output(self):
        rows, shown = self.placed(self.table)
        self.assertEqual([row["id"] for row in rows], ["a", "b", "c"])
        self.assertEqual(list(rows[0]), ["id", "lower", "upper", "size", "offset"])
        self.assertEqual((shown["arena"], shown["bound"], shown["ratio"]), ("8", "8", "1.000000"))

    def test_random_tables(self):
        for seed in range(10):
            rows, _ = self.placed(self.write("random.csv", random_table(seed)), "--limit", "0.02")
            self.assertEqual([row["id"] for row in rows], [f"b{i}" for i in range(200)])

    def test_the_same_table_gives_the_same_file(self):
        table = self.write("random.csv", random_table(1))
        files = []
        for name in ("first.csv", "second.csv"):
            self.good(table, "--limit", "0.1", "--output", self.folder / name)
            files.append((self.folder / name).read_bytes())
        self.assertEqual(*files)

    def test_more_time_is_never_worse(self):
        table = self.write("random.csv", random_table(2))
        arenas = [int(self.shown(table, "--limit", limit)["arena"]) for limit in ("0", "0.001", "0.01", "0.1")]
        self.assertEqual(arenas, sorted(arenas, reverse=True))

    def test_published_tables(self):
        if not PUBLISHED.exists():
            self.skipTest(f"no instances in {PUBLISHED}")
        for name in "ABCDEFGHIJK":
            _, shown = self.placed(PUBLISHED / f"{name}.csv", "--capacity", "1048576", "--limit", "5")
            self.assertLessEqual(int(shown["arena"]), 1048576, name)

    def test_columns_by_name(self):
        rows, shown = self.placed(self.write(
            "columns.csv", "\ufeffsize,note,upper,offset,id,lower\r\n5,x y, 4 ,77,a,0\r\n6,,4,,b,1\r\n\r\n"))
        self.assertEqual(list(rows[0]), ["size", "note", "upper", "offset", "id", "lower"])
        self.assertEqual([(row["id"], row["note"]) for row in rows], [("a", "x y"), ("b", "")])
        self.assertEqual(shown["arena"], "11")

    def test_what_needs_nothing(self):
        rows, shown = self.placed(self.write("none.csv", HEADER + "a,3,3,7\nb,0,9,0\n"))
        self.assertEqual([row["offset"] for row in rows], ["0", "0"])
        self.assertEqual((shown["arena"], shown["ratio"]), ("0", "1.000000"))
        rows, shown = self.placed(self.write("header.csv", HEADER.rstrip()))
        self.assertEqual((rows, shown["buffers"]), ([], "0"))

    def test_compressed(self):
        packed = self.write("table.csv.gz", gzip.compress(self.table.read_bytes()))
        file = self.folder / "out.csv.gz"
        self.assertEqual(self.shown(packed, "--output", file)["arena"], "8")
        self.assertIn(b"offset", gzip.decompress(file.read_bytes()))

    def test_large_numbers(self):
        size = 2**61
        _, shown = self.placed(self.write("large.csv", HEADER + f"a,0,{2**63 - 1},{size}\nb,5,6,{size}\n"))
        self.assertEqual(int(shown["arena"]), 2 * size)

    # A capacity

    def test_capacity(self):
        self.assertEqual(self.shown(self.table, "--capacity", "8")["arena"], "8")
        self.bad(3, self.table, "--capacity", "7", "--output", self.folder / "out.csv",
                 words=("7 bytes is possible", "bound is 8", "best reached 8", "--capacity"))
        self.bad(3, self.table, "--capacity", "0")
        for text in ("8B", "1kib", "1e3", "0.5 MiB"):
            self.good(self.table, "--capacity", text)

    # Bad usage

    def test_usage(self):
        for arguments in ([], ["--limit", "1"], ["a", "b"], ["--odd", "x"]):
            self.bad(2, *arguments)
        for limit in ("-1", "nan", "inf", "-inf", "1s", "", "1e999", "0x1"):
            self.bad(2, self.table, f"--limit={limit}")
        for capacity in ("-1", "1.5", "1QB", "", str(2**64), "50%"):
            self.bad(2, self.table, f"--capacity={capacity}")
        self.bad(2, self.table, "--output=")
        for text in ("--limit=0,5", "--capacity=1,024"):
            self.bad(2, self.table, text, words=("a decimal point and no commas",))

    def test_the_table_is_not_written_over(self):
        before = self.table.read_bytes()
        link, hard = self.folder / "link.csv", self.folder / "hard.csv"
        link.symlink_to(self.table.name)
        hard.hardlink_to(self.table)
        for name in (self.table, f"{self.folder}/./{self.table.name}", link, hard):
            with self.subTest(name=str(name)):
                self.bad(2, self.table, "--output", name, words=("--output would overwrite FILE",))
        self.assertEqual(self.table.read_bytes(), before)

    def test_help_and_version(self):
        for flag in ("--help", "-h"):
            page = self.good(flag)
            for word in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "--limit",
                         "--capacity", "--output", "--version"):
                self.assertIn(word, page)
            self.assertLessEqual(max(map(len, page.splitlines())), 80)
        self.assertRegex(self.good("--version"), r"^echo-arena \d+\.\d+\.\d+\n$")

    # Bad input

    def test_files_that_cannot_be_read(self):
        self.bad(1, self.folder / "none.csv", words=("none.csv", "cannot be opened"))
        self.bad(1, self.folder, words=("cannot be read",))
        self.bad(1, self.write("bad.csv.gz", b"id,lower"), words=("gzip",))

    def test_headers(self):
        self.bad_table("", "line 1", "column id")
        self.bad_table("0,0,1,1\n", "line 1", "column id")
        self.bad_table("id,lower,size\n", "line 1", "column upper")
        self.bad_table("id,lower,upper,size,size\n", "line 1", "size twice")

    def test_rows(self):
        for row, words in (("a,5,3,1", ("line 3", "id a", "upper 3 is below lower 5")),
                           ("a,-1,3,1", ("line 3", "id a", "lower '-1'", "negative")),
                           ("a,1,3,-1", ("size '-1'", "negative")),
                           ("a,1,3,nan", ("size 'nan'", "whole number")),
                           ("a,1,3,1.5", ("size '1.5'", "whole number")),
                           ("a,1,3,", ("size ''", "whole number")),
                           ("a,1,3,1e3", ("whole number",)),
                           ("a,1,3,9223372036854775808", ("size", "too large")),
                           ("a,1,99999999999999999999999,1", ("upper", "too large")),
                           ("a,1,3", ("line 3", "3 columns, the header 4", "cut off")),
                           ("a,1,3,4,5", ("line 3", "5 columns, the header 4")),
                           (",1,3,4", ("line 3", "no id")),
                           ("x,1,3,4", ("line 3", "id x", "line 2")),
                           ("\x1b\u2028,1,3,x", ("line 3", "\\x1b"))):
            with self.subTest(row):
                self.bad_table(HEADER + "x,0,1,1\n" + row + "\n", *words)
                self.bad_table(HEADER + "x,0,1,1\r\n" + row, *words)

    def test_sums_that_overflow(self):
        self.bad_table(HEADER + f"a,0,1,{2**63 - 1}\nb,0,1,{2**63 - 1}\n", "bytes", "2^62")

    def test_output_that_cannot_be_written(self):
        for file in (self.folder / "none" / "file", self.folder, "/dev/full"):
            self.bad(1, self.table, "--output", file)

    def test_standard_output_that_is_full(self):
        self.bad_when_standard_output_is_full(self.table)


if __name__ == "__main__":
    command.main()
