# SPDX-License-Identifier: BSL-1.0
"""What a card can do at most, from counts: a bound by four known limits. Nothing here was measured
on a card.

A warp's turn of the hot loop moves a number of bytes. With all memory traffic at the rate at which
the card copies, a multiprocessor has a number of clocks for them: bytes / (bandwidth /
multiprocessors / clock). The kernel reaches the part

    min(1, clocks / slots, clocks / pipelines, in flight / needed) · (least sectors / sectors)

- slots: instructions / 4. Each of a multiprocessor's four schedulers issues one instruction of a
  warp each clock.
- pipelines: the busiest one, with the CUDA programming guide's table of arithmetic throughput:
  results each clock of a multiprocessor / 32 lanes. Float 128, integers, comparisons and selections
  64, special functions and conversions from and to integers 16, accesses to memory 32.
- in flight: by Little's law, bandwidth = bytes in flight / latency. What a multiprocessor needs
  under way for full bandwidth is what CUB's tuning of transformations asks for: 48 KiB on H200, 64
  on B200; H100, with 0.7 of H200's bandwidth, needs 32. A kernel has the bytes of its loads before
  the first is waited for, times the threads that are resident, as many as its registers allow.
- sectors: what is asked for beyond the least possible is traffic that a copy does not have.

The bound says nothing of caches, of banks, of the tail of a launch or of its start; a kernel may be
slower.
"""

import dataclasses

REGISTERS = 65536  # of a multiprocessor, all architectures here
BLOCK_THREADS = 128
RATES = {"float": 128, "integer": 64, "special": 16, "memory": 32, "uniform": 64, "branch": 64}
SCHEDULERS = 4


@dataclasses.dataclass(frozen=True)
class Card:
    """A card's published figures."""

    architecture: int
    bandwidth: float  # bytes a second
    multiprocessors: int
    clock: float  # Hz, under load: the boost limit is 1.98e9; fewer clocks are fewer slots
    needed: int  # bytes in flight of a multiprocessor

    @property
    def bytes_each_clock(self) -> float:
        """Of one multiprocessor."""
        return self.bandwidth / self.multiprocessors / self.clock


CARDS = {
    "H100": Card(90, 3.35e12, 132, 1.755e9, 32 << 10),
    "H200": Card(90, 4.8e12, 132, 1.755e9, 48 << 10),
    "B200": Card(100, 8.0e12, 148, 1.755e9, 64 << 10),
}
# Threads and blocks that a multiprocessor holds.
RESIDENT = {80: (2048, 32), 90: (2048, 32), 100: (2048, 32), 120: (1536, 24)}


def resident_threads(architecture: int, registers: int) -> int:
    """Threads of blocks of 128 that a multiprocessor holds, by registers; they are given out to
    warps in units of 256.
    """
    threads, blocks = RESIDENT[architecture]
    each = -(-max(registers, 16) * 32 // 256) * 256 * (BLOCK_THREADS // 32)
    return min(blocks, threads // BLOCK_THREADS, REGISTERS // each) * BLOCK_THREADS


def part_of_copy(
    card: Card,
    *,
    moved: float,
    instructions: int,
    pipes: dict[str, int],
    in_flight: float,
    sector_efficiency: float
) -> tuple[float, str]:
    """The part of copy bandwidth that the counts allow, and what bounds it. `moved`: bytes of
    memory of a warp's turn.
    """
    clocks = moved / card.bytes_each_clock
    bounds = {
        "instructions": clocks * SCHEDULERS / instructions,
        **{pipe: clocks * RATES[pipe] / 32 / count for pipe, count in pipes.items() if count},
        "bytes in flight": in_flight / card.needed,
    }
    least = min(bounds, key=lambda name: bounds[name])
    part = min(1.0, bounds[least]) * sector_efficiency
    return part, least if bounds[least] < 1 else "sectors" if sector_efficiency < 1 else "nothing"
