#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The counter on small listings, and the model on round figures: what they say, and that each fault
is found.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import count  # noqa: E402
import model  # noqa: E402
import sass  # noqa: E402

# A loop over groups: behind a test, four floats are read and written at once, or one by one.
LISTING = """
\t\tFunction : _Z3two
        /*0000*/                   S2R R0, SR_TID.X ;                      /* 0x0 */
        /*0010*/              @!P0 BRA 0x70 ;
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E.128 R8, desc[UR4][R2.64+0x200] ;
        /*0040*/                   FADD R4, R4, R8 ;
        /*0050*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0060*/                   BRA 0xa0 ;
        /*0070*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0080*/                   MUFU.EX2 R4, R4 ;
        /*0090*/                   STG.E desc[UR4][R2.64], R4 ;
        /*00a0*/               @P1 BRA 0x10 ;
        /*00b0*/                   EXIT ;
        /*00c0*/                   BRA 0xc0;
        /*00d0*/                   NOP;
"""


# Rows: a pass whose loop takes two groups at a time, one that takes one and, for groups that are
# parts, a loop over groups that holds one over lines.
ROWS = """
\t\tFunction : _Z3row
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @P0 BRA 0x10 ;
        /*0030*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0040*/                   LDG.E.128 R8, desc[UR4][R2.64+0x200] ;
        /*0050*/                   FADD R4, R4, R8 ;
        /*0060*/              @P1 BRA 0x30 ;
        /*0070*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0080*/                   MUFU.EX2 R4, R4 ;
        /*0090*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*00a0*/              @P2 BRA 0x70 ;
        /*00b0*/                   IADD3 R2, R2, R3, RZ ;
        /*00c0*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*00d0*/              @P3 BRA 0xc0 ;
        /*00e0*/              @P4 BRA 0xb0 ;
        /*00f0*/              @P5 BRA 0x0 ;
        /*0100*/                   EXIT ;
"""


def path_of(text: str) -> list[sass.Instruction]:
    """Instructions of one straight line."""
    return [sass.parsed(16 * k, line.strip()) for k, line in enumerate(text.strip().splitlines())]


class Counting(unittest.TestCase):
    """sass.py."""

    def test_the_hot_path_is_the_wide_one(self):
        """Not the shorter one, that takes elements one by one."""
        ((path, longest),) = sass.hot_paths(sass.functions(LISTING)["_Z3two"])
        self.assertEqual(
            [one.name for one in path],
            ["BRA", "LDG.E.128", "LDG.E.128", "FADD", "STG.E.128", "BRA", "BRA"],
        )
        self.assertEqual(len(longest), 7)

    def test_accesses(self):
        """Sectors and bytes under way of a path."""
        ((path, _),) = sass.hot_paths(sass.functions(LISTING)["_Z3two"])
        self.assertEqual((sass.sectors(path, "LDG"), sass.sectors(path, "STG")), (32, 16))
        self.assertEqual(sass.most_in_flight(path), 32)

    def test_passes_over_a_row(self):
        """Loops in the loop over rows that hold no other; counted for one group."""
        paths = sass.row_paths(sass.functions(ROWS)["_Z3row"])
        self.assertEqual([len(path) for path in paths], [2, 4, 4])
        kernel = count.Kernel("row", "", (), 128, 4, 4, passes=(1, 1, 1))
        counts = count.of_passes(kernel, paths)
        self.assertEqual(counts["instructions"], 2 + 4 / 2 + 4)
        self.assertEqual(counts["sectors_read"], 16 + 32 / 2 + 16)
        self.assertEqual((counts["sectors_written"], counts["in_flight"]), (16, 16))
        self.assertEqual(counts["pipes"]["special"], 1)
        with self.assertRaisesRegex(RuntimeError, "3 passes, not 2"):
            count.of_passes(count.Kernel("row", "", (), 128, 4, 4, passes=(1, 1)), paths)
        with self.assertRaisesRegex(RuntimeError, "1 wide loads in a pass, not times 2"):
            count.of_passes(count.Kernel("row", "", (), 128, 4, 4, passes=(2, 1, 1)), paths)

    def test_a_packet_taken_apart_costs_four_times(self):
        """Four stores of 4 bytes, whatever their order, ask for the sectors of 16 bytes each."""
        path = path_of("""STG.E desc[UR8][R42.64], R17
            STG.E desc[UR8][R42.64+0x8], R51
            STG.E desc[UR8][R42.64+0xc], R49
            STG.E desc[UR8][R42.64+0x4], R55
            STG.E.128 desc[UR8][R42.64+0x200], R16""")
        self.assertEqual(sass.sectors(path, "STG"), 4 * 16 + 16)
        self.assertEqual(sass.sectors(path_of("STG.E desc[UR8][R42.64], R17"), "STG"), 4)

    def test_a_load_that_waits(self):
        """What is converted before the next load is issued is not under way with it."""
        waiting = path_of("""LDG.E.128 R4, desc[UR4][R2.64]
            HADD2.F32 R12, -RZ, R4.H0_H0
            LDG.E.128 R8, desc[UR4][R2.64+0x200]""")
        self.assertEqual(sass.most_in_flight(waiting), 16)
        self.assertEqual(sass.most_in_flight([waiting[0], waiting[2], waiting[1]]), 32)

    def test_one_of_two_accesses_behind_a_predicate(self):
        """The narrower one is not counted."""
        path = path_of("""@P2 LDG.E.128 R8, desc[UR58][R8.64]
            @!P2 LDG.E R11, desc[UR58][R18.64]""")
        self.assertEqual(sass.sectors(path, "LDG"), 16)

    def test_pipelines(self):
        """By the operation."""
        names = {
            "FFMA R0, R1, R2, R3": "float",
            "IMAD R0, R1, R2, R3": "float",
            "MUFU.EX2 R0, R1": "special",
            "LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT": "integer",
            "LDG.E.128 R4, desc[UR4][R2.64]": "memory",
            "BRA 0x70": "branch",
            "UIADD3 UR4, UR5, 0x1, URZ": "uniform",
        }
        for text, pipe in names.items():
            self.assertEqual(sass.parsed(0, text).pipe, pipe, text)


class Predicting(unittest.TestCase):
    """model.py."""

    CARD = model.Card(90, 4e12, 100, 2e9, 32 << 10)  # 20 bytes a clock

    def part(self, **changed):
        """Of a kernel that moves 2,000 bytes in 100 clocks."""
        counts = {
            "moved": 2000,
            "instructions": 400,
            "pipes": {"float": 100},
            "in_flight": 32 << 10,
            "sector_efficiency": 1.0,
        }
        return model.part_of_copy(self.CARD, **{**counts, **changed})

    def test_bounds(self):
        """Each by itself."""
        self.assertEqual(self.part(), (1.0, "nothing"))
        self.assertEqual(self.part(instructions=800), (0.5, "instructions"))
        self.assertEqual(self.part(pipes={"special": 100}), (0.5, "special"))
        self.assertEqual(self.part(in_flight=8 << 10), (0.25, "bytes in flight"))
        self.assertEqual(self.part(sector_efficiency=0.5), (0.5, "sectors"))

    def test_resident_threads(self):
        """By registers in units of 8 for a thread, and by what a multiprocessor holds."""
        self.assertEqual(model.resident_threads(90, 32), 2048)
        self.assertEqual(model.resident_threads(90, 33), 1536)
        self.assertEqual(model.resident_threads(90, 64), 1024)
        self.assertEqual(model.resident_threads(120, 16), 1536)


class Bars(unittest.TestCase):
    """What is refused whatever was counted before."""

    KERNEL = count.Kernel("one", "", (), 128, 4, 4, most=130, in_flight=32768)

    @staticmethod
    def row(met=True, **changed):
        """Counts that just do."""
        counts = {
            "instructions": 130,
            "sectors_written": 16,
            "least_written": 15.5,
            "bytes_in_flight": 32768,
            **changed,
        }
        return {
            "met": met,
            "predicted": {"H100": {"part": 0.5}},
            "counts": {"sm_90": counts, "sm_100": {**counts, **changed}},
        }

    def test_each_by_itself(self):
        """A prediction below what is asked, sectors beyond the least, instructions, bytes in flight."""
        self.assertEqual(count.faults_of(self.KERNEL, self.row()), [])
        (below,) = count.faults_of(self.KERNEL, self.row(met=False))
        self.assertEqual(below, "one: 0.5 of copy bandwidth are predicted on H100, 0.95 asked")
        for changed, words in (
            ({"sectors_written": 17}, "17 sectors are written, 16 are enough"),
            ({"instructions": 131}, "131 instructions, 130 asked"),
        ):
            faults = count.faults_of(self.KERNEL, self.row(**changed))
            self.assertEqual(faults, [f"one on {a}: {words}" for a in ("sm_90", "sm_100")])
        for flight in (32767, None):
            faults = count.faults_of(self.KERNEL, self.row(bytes_in_flight=flight))
            self.assertEqual(faults, [f"one: {flight} bytes in flight, 32768 asked"])
        free = count.Kernel("one", "", (), 128, 4, 4)
        self.assertEqual(count.faults_of(free, self.row(instructions=999, bytes_in_flight=1)), [])

    def test_what_is_recorded_misses_none(self):
        """And has every kernel that is counted, none in local memory."""
        recorded = json.loads(count.RESULT.read_text(encoding="utf-8"))
        rows = {row["kernel"]: row for row in recorded["kernels"]}
        self.assertEqual(set(rows), {kernel.name for kernel in count.KERNELS})
        for kernel in count.KERNELS:
            self.assertEqual(count.faults_of(kernel, rows[kernel.name]), [])
        for unit, by_architecture in recorded["units"].items():
            self.assertEqual(set(by_architecture), {f"sm_{a}" for a in count.ARCHITECTURES}, unit)
            for found in by_architecture.values():
                self.assertEqual(found["in_local_memory"], 0, unit)


class Ratchet(unittest.TestCase):
    """What --check refuses."""

    @staticmethod
    def result(**changed):
        """Counts of one kernel."""
        counts = {
            "instructions": 100,
            "registers": 32,
            "spilled": 0,
            "sectors_read": 32,
            "sectors_written": 16,
            "bytes_in_flight": 65536,
            **changed,
        }
        return {"kernels": [{"kernel": "one", "counts": {"sm_90": counts}}]}

    def test_nothing_may_grow(self):
        """Counts, each by itself; fewer bytes in flight; a kernel that is gone."""
        old = self.result()
        self.assertEqual(count.grown(old, self.result()), [])
        self.assertEqual(count.grown(old, self.result(instructions=99, bytes_in_flight=65537)), [])
        for key in count.RATCHETS:
            self.assertEqual(len(count.grown(old, self.result(**{key: 101}))), 1, key)
        self.assertEqual(len(count.grown(old, self.result(bytes_in_flight=65535))), 1)
        self.assertEqual(count.grown(old, {"kernels": []}), ["one: is no longer counted"])
        other = {**self.result(instructions=200), "nvcc": "14.0"}
        self.assertEqual(count.grown({**old, "nvcc": "13.0"}, other), [])


if __name__ == "__main__":
    unittest.main()
