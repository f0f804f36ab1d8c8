"""A result that is written over an argument: the same bits, no memory, and never over what somebody
else reads.
"""

from __future__ import annotations

import contextlib
import unittest.mock

import torch
from support import Case
from test_safety import blocks, last
from torch.utils import flop_counter  # noqa: F401  registers what graph.py reads

import echo_torch
from echo_torch import costs, halves, reuse

aten = torch.ops.aten
ROWS = (512, 64)  # large enough to be written over


def arguments_of(target) -> list:
    """Arguments of an operator in `WRITES_TO`, the one to write over first among its tensors."""
    x, y = torch.randn(64, 300), torch.randn(64, 300)
    special = {
        aten.where.self: (y > 0, x, y),
        aten.threshold_backward.default: (x, y, 0),
        aten.leaky_relu_backward.default: (x, y, 0.1, False),
        aten.elu_backward.default: (x, 1.0, 1.0, 1.0, False, y),
        aten.hardtanh_backward.default: (x, y, -1.0, 1.0),
        aten.softplus_backward.default: (x, y, 1.0, 20.0),
        aten._log_softmax_backward_data.default: (x, y.log_softmax(1), 1, torch.float32),
        aten._softmax_backward_data.default: (x, y.softmax(1), 1, torch.float32),
    }
    return list(special.get(target, (x, y)))


@contextlib.contextmanager
def counted():
    """How many results were written over an argument within it, and how many were not."""
    counts = {"over": 0, "apart": 0}

    def run(over, *rest, **more):
        made = reuse.run_over(over, *rest, **more)
        counts["over" if made is over else "apart"] += 1
        return made

    stand_in = unittest.mock.Mock(wraps=reuse, run_over=run)
    seen_from_here = [count + 4 for count in reuse._UNSHARED]  # by `run` itself
    with (
        unittest.mock.patch.object(halves, "reuse", stand_in),
        unittest.mock.patch.object(reuse, "_UNSHARED", seen_from_here),
    ):
        yield counts


class Overloads(Case):
    def test_each_writes_the_same_bits_and_takes_no_memory(self):
        for target, (writer, name) in (reuse.WRITES_TO | reuse.WRITES_TO_ON_CPU).items():
            with self.subTest(str(target)), torch.no_grad():
                arguments = arguments_of(target)
                expected = target(*arguments)
                tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
                over = next(value for value in tensors if value.is_floating_point())
                made = []
                held = costs._held(
                    lambda: made.append(writer(*arguments, **{name: over})), lambda: 0.0
                )[1]
                self.assertEqual(held, 0)
                self.assertIs(made[0], over)
                self.assertTrue(torch.equal(made[0], expected))

    def test_softmax_gradients_in_other_forms(self):
        for kind in (torch.float64, torch.bfloat16):
            for dim in (0, 1, 2):
                for target in reuse.WRITES_TO_ON_CPU:
                    y = torch.randn(33, 70, 129, dtype=kind)
                    y = y.log_softmax(dim) if "log" in str(target) else y.softmax(dim)
                    x = torch.randn_like(y)
                    writer, name = reuse.WRITES_TO_ON_CPU[target]
                    expected = target(x, y, dim, kind)
                    self.assertTrue(torch.equal(writer(x, y, dim, kind, **{name: x}), expected))

    def test_what_somebody_else_holds_is_left_alone(self):
        def run(x, is_saved=False):
            return reuse.run_over(x, is_saved, aten.relu.default, aten.relu_.default, None, x)

        x = torch.randn(ROWS)
        self.assertIs(run(x), x)
        self.assertIs(run(view := x.view(-1)), view)
        other = x.detach()
        self.assertIsNot(run(x), x)
        del other
        self.assertIsNot(run(x, is_saved=True), x)  # no backward pass is running that ends here


class Plans(Case):
    def train(self, backend, times: int = 1, hooks=contextlib.nullcontext()):
        module = blocks()
        f = torch.compile(lambda x: module(x).square().mean(), backend=backend)
        torch.manual_seed(1)
        with hooks:
            value = f(torch.randn(ROWS))
        for turn in range(times):
            value.backward(retain_graph=turn + 1 < times)
        return [value.detach(), *(p.grad for p in module.parameters())]

    def test_results_are_written_over_arguments(self):
        with counted() as counts:
            self.trains_alike(self.train, echo_torch.backend(budget=0.4))
        self.assertIsNone(last().reason)
        self.assertGreater(counts["over"], 10)
        self.assertEqual(counts["apart"], 0)

    def test_a_retained_graph(self):
        with counted() as counts:
            self.trains_alike(lambda b: self.train(b, 2), echo_torch.backend(budget=0.7))
        self.assertGreater(counts["over"], 10)

    def test_hooks_that_keep_what_is_saved(self):
        kept = []

        def pack(value):
            kept.append((value, value.clone()))
            return value

        def hooked(backend):
            hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value)
            return self.train(backend, hooks=hooks)

        with counted() as counts:
            self.trains_alike(hooked, echo_torch.backend(budget=0.7))
        self.assertIsNone(last().reason)
        self.assertGreater(counts["over"], 3)
        self.assertTrue(all(torch.equal(value, copy) for value, copy in kept))

    def test_memory_of_others_that_hooks_hand_back(self):
        kept = []

        def pack(value):
            array = value.detach().numpy().copy()
            kept.append((array, array.copy()))
            return array

        def hooked(backend):
            hooks = torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy)
            return self.train(backend, hooks=hooks)

        self.trains_alike(hooked, echo_torch.backend(budget=0.7))
        self.assertIsNone(last().reason)
        self.assertTrue(all((array == copy).all() for array, copy in kept))

    def test_a_batch_of_gradients(self):
        def train(backend):
            def product(x):
                return (x.sin() * 2).tanh().exp().cos() @ x.tanh()

            f = torch.compile(product, backend=backend)
            torch.manual_seed(2)
            x = torch.randn(256, 256, requires_grad=True)
            batch = torch.randn(2, 256, 256)
            return [*torch.autograd.grad(f(x), x, batch, is_grads_batched=True)]

        self.trains_alike(train, echo_torch.backend(budget=0.4), echo_torch.backend(budget=0.8))
        self.assertIsNone(last().reason)

    def test_what_an_operator_of_the_user_keeps(self):
        kept = []

        @torch.library.custom_op("echo_test::keep", mutates_args=())
        def keep(x: torch.Tensor) -> torch.Tensor:
            kept.append((x, x.clone()))
            return x.sum()

        keep.register_fake(lambda x: x.new_empty(()))

        def train(backend):
            def f(x, w):
                y = x.sin() * 2
                total = keep(y)
                return ((y * 3).exp().tanh() * w.sin().tanh().cos()).square().mean() + total

            torch.manual_seed(2)
            x, w = torch.randn(ROWS), torch.randn(ROWS, requires_grad=True)
            value = torch.compile(f, backend=backend)(x, w)
            value.backward()
            return [value.detach(), w.grad]

        self.trains_alike(train, echo_torch.backend(budget=0.9), echo_torch.backend(budget=0.5))
        self.assertTrue(all(torch.equal(value, copy) for value, copy in kept))

    def test_arguments_of_the_user_stay(self):
        def train(backend):
            f = torch.compile(lambda x, y: (x * 2 + y, (x * 2).tanh().sum()), backend=backend)
            torch.manual_seed(2)
            x, y = torch.randn(ROWS, requires_grad=True), torch.randn(ROWS)
            before = y.clone(), x.detach().clone()
            a, b = f(x, y)
            gradient = torch.ones(ROWS)
            torch.autograd.backward([a, b], [gradient, None])
            self.assertTrue(torch.equal(y, before[0]) and torch.equal(x, before[1]))
            self.assertTrue(torch.equal(gradient, torch.ones(ROWS)))
            return [a.detach(), b.detach(), x.grad]

        self.trains_alike(train, echo_torch.backend(budget=0.9))


if __name__ == "__main__":
    unittest.main()
