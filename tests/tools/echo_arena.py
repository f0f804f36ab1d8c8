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

    def placed(self, table, *arguments, bytes_of=None):
        """The rows of the output, which are those of the input, checked. `bytes_of`: what sizes with a unit mean."""
        file = self.folder / "placed.csv"
        shown = self.shown(table, "--output", file, *arguments)
        with open(file, encoding="utf-8", newline="") as text:
            rows = list(csv.DictReader(text))
        known = [row | {"size": (bytes_of or {}).get(row.get("size"), row.get("size")), "lower": row.get("lower") or row.get("start"),
                        "upper": row.get("upper") or str(int(row["end"]) + 1), "id": row.get("id") or row.get("buffer_id")} for row in rows]
        self.assertEqual(overlaps(known), [])
        self.assertEqual(int(shown["arena"]), max((int(row["offset"]) + int(row["size"]) for row in known
                                                   if row["lower"] != row["upper"]), default=0))
        self.assertGreaterEqual(int(shown["bound"]), load(known))
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
            "columns.csv", "\ufeffsize,hint,upper,offset,id,lower\r\n5,-1, 4 ,77,a,0\r\n6,8,4,,b,1\r\n\r\n"))
        self.assertEqual(list(rows[0]), ["size", "hint", "upper", "offset", "id", "lower"])
        self.assertEqual([(row["id"], row["hint"]) for row in rows], [("a", "-1"), ("b", "8")])
        self.assertEqual(shown["arena"], "11")

    def test_older_names(self):
        rows, shown = self.placed(self.write("old.csv", "buffer_id,start,end,size\na,0,3,5\nb,4,6,5\n")) # the end is a time
        self.assertEqual((shown["arena"], [row["offset"] for row in rows]), ("5", ["0", "0"]))
        for head in ("buffer,begin,upper,size", "id,lower,end,size"):
            self.assertEqual(self.shown(self.write("old.csv", head + "\na,0,4,5\nb,4,6,5\n"))["arena"],
                             "10" if "end" in head else "5")
        self.bad_table("id,buffer,lower,upper,size\n", "line 1", "column id twice")
        self.bad_table("id,lower,start,upper,size\n", "line 1", "column lower twice")

    def test_sizes_with_units(self):
        rows, shown = self.placed(self.write("units.csv", HEADER + "a,0,4,1.5KiB\nb,0,4,2 kB\nc,0,4,1mib\nd,0,4,7\n"), bytes_of={
            "1.5KiB": 1536, "2 kB": 2000, "1mib": 2**20, "7": 7})
        self.assertEqual([row["size"] for row in rows], ["1.5KiB", "2 kB", "1mib", "7"])
        self.assertEqual(int(shown["arena"]), 1536 + 2000 + 2**20 + 7)
        for size, words in (("1.5", "whole number"), ("1QB", "whole number"), ("9999999TiB", "too large"), ("0.1B", "less than a byte"),
                            ("-1KiB", "whole number")):
            self.bad_table(HEADER + f"a,0,4,{size}\n", "size '", words)

    def shaped(self, rows, *arguments):
        """The offsets of rows (lower, upper, size, alignment, gaps), after a check of every pair at every time."""
        text = "id,lower,upper,size,alignment,gaps\n" + "".join(
            f"b{i},{lower},{upper},{size},{align},{' '.join(f'{a}-{b}' + (f'@{w[0]}:{w[1]}' if w else '') for a, b, w in gaps)}\n"
            for i, (lower, upper, size, align, gaps) in enumerate(rows))
        file = self.folder / "shaped.out.csv"
        shown = self.shown(self.write("shaped.csv", text), "--output", file, *arguments)
        with open(file, encoding="utf-8", newline="") as table:
            offsets = [int(row["offset"]) for row in csv.DictReader(table)]
        most = 0
        for time in range(max(row[1] for row in rows)):
            live = []
            for (lower, upper, size, align, gaps), offset in zip(rows, offsets):
                low, high = (0, size) if lower <= time < upper else (0, 0)
                for a, b, window in gaps:
                    if a <= time < b:
                        low, high = window or (0, 0)
                if low < high:
                    self.assertEqual(offset % align, 0)
                    live.append((offset + low, offset + high))
            live.sort()
            for (_, end), (begin, _) in zip(live, live[1:]):
                self.assertLessEqual(end, begin, (rows, offsets))
            most = max(most, sum(end - begin for begin, end in live))
        arena = max(offset + size for (lower, upper, size, *_), offset in zip(rows, offsets) if lower < upper)
        self.assertEqual(int(shown["arena"]), arena)
        self.assertLessEqual(int(shown["bound"]), arena)
        self.assertGreaterEqual(int(shown["bound"]), most)
        return arena, offsets

    def test_alignment(self):
        self.assertEqual(self.shaped([(0, 4, 3, 1, ()), (0, 4, 5, 8, ()), (2, 6, 4, 16, ())])[0], 13)
        self.assertEqual(self.shaped([(0, 4, 3, 8, ()), (0, 4, 5, 8, ())])[0], 11)
        self.assertEqual(self.shaped([(0, 4, 3, 7, ()), (0, 4, 5, 11, ()), (0, 9, 2, 13, ())])[0], 15)
        self.assertEqual(self.shaped([(0, 4, 3, 2**41 - 1, ()), (0, 4, 5, 2**41 + 1, ())])[0], 2**41 + 2)
        header = "id,lower,upper,size,alignment\n"
        self.assertEqual(self.shown(self.write("kib.csv", header + "a,0,4,3,1\nb,0,4,5,4KiB\n"))["arena"], "8")
        for align, words in (("0", "alignment is 0"), ("-8", "negative"), ("", "whole number"), ("x", "whole number")):
            self.bad_table(header + f"a,0,4,3,{align}\n", "line 2", "id a", words)
        self.bad_table(header + f"a,0,4,3,{2**61}\nb,0,4,3,{2**61 + 1}\nc,0,4,3,{2**61 + 1}\n", "2^62")

    def test_gaps(self):
        self.assertEqual(self.shaped([(0, 9, 8, 1, [(3, 6, None)]), (3, 6, 8, 1, ())])[0], 8)
        self.assertEqual(self.shaped([(0, 9, 8, 1, [(3, 6, (0, 4))]), (3, 6, 4, 1, ())])[0], 8)
        self.assertEqual(self.shaped([(0, 9, 8, 1, [(3, 6, (4, 8))]), (3, 6, 4, 1, ())])[0], 8)
        self.assertEqual(self.shaped([(0, 9, 8, 1, [(0, 2, None), (2, 9, None)]), (0, 9, 8, 1, ())])[0], 8)
        header = "id,lower,upper,size,gaps\n"
        self.assertEqual(self.shown(self.write("none.csv", header + "a,0,4,3,\nb,0,4,5, \n"))["arena"], "8")
        old = "id,start,end,size,gaps\na,0,9,8,3-5\nb,3,5,8,\n" # ends are times, those of gaps too
        self.assertEqual(self.shown(self.write("old.csv", old))["arena"], "8")
        self.assertEqual(self.shown(self.write("old.csv", old.replace("b,3,5", "b,3,6")))["arena"], "16")
        for gaps in ("x", "3", "3-", "-3", "5-3", "0-1", "8-99", "3-4@", "3-4@1", "3-4@5:9", "3-4@3:1", "5-6 3-4", "3-5 4-6", "3-4;5-6"):
            self.bad_table(header + f"a,1,9,8,{gaps}\n", "line 2", "id a", "gap '", "first-end")

    def test_random_shapes(self):
        dice = random.Random(5)
        for _ in range(40):
            rows = []
            for _ in range(dice.randrange(2, 30)):
                lower = dice.randrange(30)
                upper, size, gaps, at = lower + dice.randrange(20), dice.randrange(40), [], lower
                while (begin := at + dice.randrange(8)) < upper and dice.random() < 0.5:
                    at = dice.randrange(begin, upper) + 1
                    low = dice.randrange(size + 1)
                    gaps.append((begin, at, dice.choice([None, (low, dice.randrange(low, size + 1))])))
                rows.append((lower, upper, size, dice.choice([1, 1, 2, 3, 8, 16]), gaps))
            if any(lower < upper for lower, upper, *_ in rows):
                fast, _ = self.shaped(rows, "--limit", "0")
                slow, _ = self.shaped(rows, "--limit", "0.02")
                self.assertLessEqual(slow, fast)

    def test_standard_input_and_output(self):
        content = self.table.read_bytes()
        done = self.call("-", input=content, text=False)
        self.assertIn(b"arena    8 bytes", done.stdout)
        done = self.call("-", "--output", "-", input=gzip.compress(content))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"id,lower,upper,size,offset\na,0,4,3,"))
        self.assertEqual(done.stdout.count(b"\n"), 4)
        with self.table.open("rb") as file:
            self.assertEqual(self.call("-", "--output", self.table, stdin=file).returncode, 2)
        self.assertEqual(self.table.read_bytes(), content)

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
        self.bad_table("0,0,1,1\n", "line 1", "column '0' is not known", "known are id, lower, upper, size, alignment")
        self.bad_table("id,lower,upper,size,note\n", "line 1", "column 'note' is not known")
        self.bad_table("id,lower,upper,size,\n", "line 1", "column '' is not known")
        self.bad_table("lower,upper,size\n", "line 1", "no column id")
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
