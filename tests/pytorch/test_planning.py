"""The planner in this process: signals reach it, it keeps to its seconds, and plans are the same."""

from __future__ import annotations

import signal
import time
import unittest

import torch  # noqa: F401 the extension is loaded beside it

from echo_torch import _core


def chain(length: int) -> _core.Graph:
    """Layers, each read by its gradient; light gradients may be written over the one before."""
    graph = _core.Graph()
    for index in range(2 * length - 1):
        forward, heavy = index < length, index % 3 == 0
        inputs = [] if index == 0 else [(index - 1, 0)]
        graph.add(
            name=str(index),
            op="op",
            layer="",
            phase="input" if index == 0 else "forward" if forward else "backward",
            kind="heavy" if heavy else "light",
            rerun="pure",
            inputs=inputs if forward else [*inputs, (2 * length - 2 - index, 0)],
            outputs=[((index * 7919 % 97 + 1) << 16, None, None)],
            control=[],
            flops=0.0,
            workspace=0,
            time_us=None,
            keep=False,
            writes=[],
            over=None if forward or heavy else 0,
        )
    graph.result(2 * length - 2, 0)
    return graph


def plan(graph: _core.Graph, seconds: float = 100.0) -> _core.Plan:
    return graph.plan("budget", None, 0.05, seconds)


class Planning(unittest.TestCase):
    def test_the_same_plan_each_time(self):
        first, second = plan(chain(300)), plan(chain(300))
        self.assertLess(first.peak_bytes, first.baseline_peak_bytes)
        self.assertEqual(first.steps, second.steps)

    def test_an_interrupt_ends_both_searches(self):
        graph = chain(3000)

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        def spent(begun: float = 0.0) -> float:
            return time.process_time() - begun  # of all threads, whatever else the machine does

        begun = spent()
        plan(graph)
        whole = spent(begun)
        before = signal.signal(signal.SIGPROF, stop)
        try:
            begun = spent()
            signal.setitimer(signal.ITIMER_PROF, whole / 10)
            with self.assertRaises(KeyboardInterrupt):
                plan(graph)
            self.assertLess(spent(begun), whole / 2)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def test_seconds_that_do_not_suffice(self):
        with self.assertRaisesRegex(RuntimeError, "took longer than it may"):
            plan(chain(3000), seconds=0.01)


if __name__ == "__main__":
    unittest.main()
