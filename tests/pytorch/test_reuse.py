"""A result that is written over an argument: the same bits, no memory, and never over what somebody
else reads.
"""

from __future__ import annotations

import contextlib
import functools
import unittest.mock

import torch
import torch.nn.functional as F
from support import Case, default_backend
from test_safety import blocks, last
from torch.utils import flop_counter  # noqa: F401  registers what graph.py reads

import echo_torch
from echo_torch import costs, halves, reuse

aten = torch.ops.aten
ROWS = (512, 64)  # large enough to be written over


def setUpModule() -> None:
    """Results are written over arguments wherever that is safe, so that it is seen to be."""
    writing = unittest.mock.patch.object(reuse, "EVERYWHERE", True)
    writing.start()
    unittest.addModuleCleanup(writing.stop)


def arguments_of(target) -> list:
    """Arguments of an operator in `WRITES_TO`, the one to write over first among its tensors."""
    x, y = torch.randn(64, 300), torch.randn(64, 300)
    special = {
        aten.where.self: (y > 0, x, y),
        aten.mul.Scalar: (x, 0.3),
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

    def counting(inner):
        def run(over, *rest, **more):
            made = inner(over, *rest, **more)
            counts["over" if made is over else "apart"] += 1
            return made

        return run

    stand_in = unittest.mock.Mock(wraps=reuse, run_over=counting(reuse.run_over))
    with unittest.mock.patch.object(halves, "reuse", stand_in):
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
                held = costs._held(lambda: made.append(writer(*arguments, **{name: over})), lambda: 0.0)[1]
                self.assertLessEqual(held, 16)  # a number is made a tensor
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
        def taken(given, is_saved=False):
            x = given.pop()
            relu, relu_ = aten.relu.default, aten.relu_.default
            return reuse.run_over(x, (-2, -1), is_saved, relu, relu_, None, [x]) is x

        x = torch.randn(ROWS)
        # Python's calls hold their arguments once more while TorchDynamo looks at frames.
        for call in (taken, torch._dynamo.run(taken)):
            self.assertTrue(call([torch.randn(ROWS)]))
            self.assertTrue(call([torch.randn(ROWS).view(ROWS)]))
            self.assertFalse(call([x]))
            self.assertFalse(call([x.detach()]))
            self.assertFalse(call([x.view(ROWS)]))
            self.assertFalse(call([torch.randn(ROWS)], is_saved=True))  # no backward pass runs


class Imported(Case):
    """Whatever mode of the user's is open when the package is imported, holders are seen alike."""

    def test_in_a_mode_of_the_users(self):
        imported = "from echo_torch import reuse\n"
        for way in (
            f"with torch.inference_mode(): {imported}",
            f"with torch._subclasses.fake_tensor.FakeTensorMode(): {imported}",
            f"with torch.device('meta'): {imported}",
            "reuse = torch._dynamo.run(importlib.import_module)('echo_torch.reuse')\n",
        ):
            program = (
                "import importlib, support, torch, torch._dynamo, torch._subclasses.fake_tensor\n"
                + way
                + "assert reuse._ALONE == reuse._holders_alone() and len(reuse._ALONE) == 2, reuse._ALONE\n"
            )
            with self.subTest(way):
                self.runs(program)

    def test_what_was_never_measured_counts_as_held(self):
        relu, relu_, x = aten.relu.default, aten.relu_.default, torch.randn(ROWS)
        with unittest.mock.patch.object(reuse, "_ALONE", {}):
            self.assertIsNot(reuse.run_over(x, (-2, -1), False, relu, relu_, None, [x]), x)


def used_elsewhere(value):
    """The value, saved by a graph of its own, which alone holds it."""
    with torch.enable_grad():
        one = torch.ones_like(value, requires_grad=True)
        return one, (one * value).sum()


# How somebody may hold a tensor, and how he reads it then.
HOLDERS = {
    "itself": (lambda value: value, lambda held: held),
    "detached": (lambda value: value.detach(), lambda held: held),
    "a view": (lambda value: value[None], lambda held: held[0]),
    "its storage": (
        lambda value: (value.untyped_storage(), value.shape, value.stride()),
        lambda held: torch.empty(0).set_(held[0], 0, *held[1:]),
    ),
    "a capsule": (torch.utils.dlpack.to_dlpack, torch.utils.dlpack.from_dlpack),
    "an array": (lambda value: value.numpy(), torch.from_numpy),
    "another graph": (used_elsewhere, lambda held: torch.autograd.grad(held[1], held[0])[0]),
}


class Held(Case):
    """Whoever holds a saved value finds it as it was, whatever is written in place."""

    def train(self, backend, hold=None):
        """Also what `hold` made of every saved value, and a copy of that."""
        saved = {}

        def pack(value):
            saved[len(saved)] = value
            return len(saved) - 1

        f = torch.compile(self.loss, backend=backend)
        torch.manual_seed(1)
        x, w = torch.randn(512, 128), torch.randn(128, 128, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, saved.pop):
            value = f(x, w)
        floats = [one for one in saved.values() if hold and one.dtype == torch.float32]
        held = [(hold(one.detach() if one.requires_grad else one), one.clone()) for one in floats]
        floats.clear()
        value.backward()
        return [value.detach(), w.grad], held

    @staticmethod
    def loss(x, w):
        total = 0.0
        for k in range(4):  # the gradient of a product is written over what is saved of it
            y = x @ (w + k)
            y = y.view(-1) if k % 2 else y
            total = total + (y * y).mean()
        return total

    def test_whoever_holds_a_saved_value(self):
        torch._dynamo.reset()
        expected, _ = self.train(default_backend())
        for name, (hold, read) in HOLDERS.items():
            with self.subTest(name), counted() as counts:
                torch._dynamo.reset()
                backend = echo_torch.eager_backend(budget=0.9, measure=False)
                free, _ = self.train(backend)
                self.assertGreater(counts["over"], 2)
                self.assertEqual(counts["apart"], 0)
                values, held = self.train(backend, hold)
                self.assertGreater(counts["apart"], 0)
                self.assertIsNone(last().reason)
                self.assertGreater(len(held), 2)
                self.assert_same_bits(expected, free)
                self.assert_same_bits(expected, values)
                for one, copy in held:
                    self.assertTrue(torch.equal(read(one), copy), "written over")


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
            self.trains_alike(self.train, echo_torch.eager_backend(budget=0.4))
        self.assertIsNone(last().reason)
        self.assertGreater(counts["over"], 10)
        self.assertEqual(counts["apart"], 0)

    def test_numbers_that_half_precision_does_not_have(self):
        def train(backend):
            def f(x):  # the gradient multiplies by 2.6, and nothing reads the factor again
                return ((x.sin().abs() + 0.1) ** 2.6).cos().square().sum()

            torch.manual_seed(2)
            x = torch.randn(256, 256, dtype=torch.bfloat16, requires_grad=True)
            torch.compile(f, backend=backend)(x).backward()
            return [x.grad]

        with counted() as counts:
            self.trains_alike(train, echo_torch.eager_backend(budget=0.5), echo_torch.eager_backend(budget=0.8))
        self.assertGreater(counts["over"], 3)

    def test_a_retained_graph(self):
        with counted() as counts:
            self.trains_alike(lambda b: self.train(b, 2), echo_torch.eager_backend(budget=0.7))
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
            self.trains_alike(hooked, echo_torch.eager_backend(budget=0.7))
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

        self.trains_alike(hooked, echo_torch.eager_backend(budget=0.7))
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

        self.trains_alike(train, echo_torch.eager_backend(budget=0.4), echo_torch.eager_backend(budget=0.8))
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

        self.trains_alike(train, echo_torch.eager_backend(budget=0.9), echo_torch.eager_backend(budget=0.5))
        self.assertTrue(all(torch.equal(value, copy) for value, copy in kept))

    def test_what_does_not_lie_as_tracing_promised(self):
        def dropped(scores, values):  # the gradient of a dropout lies as the one it is made of
            weights = scores.softmax(-1).masked_fill(scores > 1, 0.0)
            return F.dropout(weights, 0.1).transpose(1, 2) @ values

        def clamped(scores, values):  # a gradient that lies as its other argument, against its trace
            clipped = F.relu6((scores.sin() * 3).transpose(1, 2) * values.mean())
            return clipped.softmax(-1) @ values

        def logarithms(scores, values):  # a gradient that is always made without gaps
            return (scores.log_softmax(-1).transpose(1, 2).tanh() * 2) @ values

        def train(backend, function):
            torch.manual_seed(2)
            scores = torch.randn(4, 64, 8, 64, requires_grad=True)
            values = torch.randn(4, 8, 64, 32, requires_grad=True)
            f = torch.compile(
                lambda scores, values: function(scores.sin() * 2, values).square().mean(), backend=backend
            )
            value = f(scores, values)
            value.backward()
            return [value.detach(), scores.grad, values.grad]

        for function in (dropped, clamped, logarithms):
            with self.subTest(function.__name__):
                self.trains_alike(
                    functools.partial(train, function=function),
                    echo_torch.eager_backend(strategy="min_cut", measure=False),
                    echo_torch.eager_backend(budget=0.9, measure=False),
                )
                self.assertIsNone(last().reason)

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

        self.trains_alike(train, echo_torch.eager_backend(budget=0.9))


if __name__ == "__main__":
    unittest.main()
