"""Whatever a model does, gradients are the same bits as by PyTorch's default partition, or training
goes on by it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import unittest
import unittest.mock
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from support import Case, default_backend
from torch import nn
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import echo_torch
from echo_torch import hooks, partition
from echo_torch.graph import Unknown
from echo_torch.host import call_of
from echo_torch.options import OptionError
from echo_torch.partition import BudgetError, EchoWarning, Options, warn_once

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

import amounts  # noqa: E402

TIGHT = {"budget": 0.4}


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.layers(x))


def blocks(count: int = 4, width: int = 64, dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width, dropout) for _ in range(count)))


def trained(module: nn.Module, loss, backend, shape=(256, 64), steps: int = 3) -> list[torch.Tensor]:
    """Losses, gradients and buffers of some steps; what is drawn is the same every time."""
    compiled = torch.compile(lambda x: loss(module, x), backend=backend)
    torch.manual_seed(1)
    values = []
    for _ in range(steps):
        module.zero_grad()
        x = torch.randn(shape)
        value = compiled(x)
        value.backward()
        values += [value.detach(), x, torch.rand(2)]
        values += [p.grad.clone() for p in module.parameters() if p.grad is not None]
        values += [buffer.clone() for buffer in module.buffers()]
        with torch.no_grad():
            for p in module.parameters():
                if p.grad is not None:
                    p -= 0.01 * p.grad
    return values


def last() -> echo_torch.partition.Report:
    return echo_torch.reports()[-1]


class SameBits(Case):
    def same(self, build, loss, shape=(256, 64), *, planned: bool = True, **options) -> None:
        def train(backend):
            return trained(build(), loss, backend, shape)

        before = len(echo_torch.reports())
        self.trains_alike(train, echo_torch.eager_backend(**(TIGHT | options)))
        self.assertGreater(len(echo_torch.reports()), before)
        reasons = [r.reason for r in echo_torch.reports()[before:]]
        if planned:
            self.assertEqual(reasons, [None] * len(reasons))

    @contextlib.contextmanager
    def runs_again(self, *names: str):
        """Within it, graphs are planned whose backward half runs operators of these names again."""
        again: list[str] = []

        class Watched(partition.Builder):
            def __init__(self, host, steps):
                super().__init__(host, steps)
                again.extend(
                    host.calls[node].node.name + host.calls[node].part for node, is_again, *_ in steps if is_again
                )

        with unittest.mock.patch("echo_torch.partition.Builder", Watched):
            yield
        for name in names:
            self.assertTrue(any(name in one for one in again), f"no '{name}' among {again}")

    def test_dropout_runs_again_with_the_same_mask(self):
        with self.runs_again("dropoutproduct"):
            self.same(blocks, lambda m, x: m(x).square().mean())

    def test_random_numbers_are_drawn_again(self):
        def loss(m, x):
            y = m(x)
            return (m(y * torch.rand_like(y)) * torch.rand_like(y)).square().mean()

        with self.runs_again("rand_like"):
            self.same(blocks, loss, budget=0.3, measure=False)  # what runs again hangs on what it costs

    def test_random_numbers_that_read_no_tensor(self):
        def loss(m, x):  # as stochastic depth draws them
            return m(m(x) * torch.rand(256, 64).round()).cos().square().mean()

        with self.runs_again("rand"):
            self.same(blocks, loss, budget=0.3, measure=False)

    def test_random_numbers_of_the_backward_pass_are_drawn_there(self):
        class Noisy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return torch.rand(256, 64) * 2 * gradient

        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: Noisy.apply(m(x)), backend=backend)
            torch.manual_seed(3)
            value = f(torch.randn(256, 64))
            torch.rand(3)  # the user draws between forward and backward
            value.sum().backward()
            return [*(p.grad for p in m.parameters()), torch.rand(3)]

        self.trains_alike(train, echo_torch.eager_backend(budget=0.5))
        self.assertIn("draws the random numbers", last().reason)

    def test_dropout_of_what_is_overwritten(self):
        def loss(m, x):
            y = nn.functional.dropout(x, 0.3)
            x.mul_(0.5)
            return m(y).square().mean()

        def train(divide=None):
            torch._dynamo.reset()
            more = {"partition_fn": divide} if divide else {}
            return trained(blocks(), loss, default_backend(**more, keep_mutations=False))

        expected = train()
        self.assert_same_bits(expected, train(echo_torch.partition_fn(budget=0.5)))
        self.assertIsNone(last().reason)

    def test_an_assertion_holds(self):
        def loss(m, x, most=1e9):
            torch._assert_async((x < most).all(), "x is too large")
            return m(x).square().mean()

        self.same(blocks, loss)
        with self.assertRaisesRegex(RuntimeError, "x is too large"):
            trained(blocks(), functools.partial(loss, most=0), echo_torch.eager_backend(**TIGHT))
        self.assertIsNone(last().reason)

    def test_an_assertion_is_not_measured(self):
        def loss(m, x):
            torch._assert_async((x < 1e9).all(), "x is too large")
            return m(x).square().mean()

        with unittest.mock.patch("echo_torch.costs._measure", return_value={}) as measure:
            with contextlib.suppress(Exception):
                trained(blocks(), loss, echo_torch.eager_backend(**TIGHT), (48, 64), steps=1)
        jobs = [job for call in measure.call_args_list for job in call.args[0].values()]
        self.assertGreater(len(jobs), 0)
        self.assertFalse([job for job in jobs if "assert" in str(job[0])])

    def test_batch_norm_updates_its_statistics_once(self):
        def build():
            torch.manual_seed(0)
            layers = [nn.Conv2d(3, 8, 3, padding=1)]
            for _ in range(4):
                layers += [nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
            return nn.Sequential(*layers)

        with self.runs_again("batch_norm"):
            for budget in (0.6, 0.35):
                self.same(build, lambda m, x: m(x).square().mean(), (4, 3, 32, 32), budget=budget)
        self.same(build, lambda m, x: m.eval()(x).square().mean(), (4, 3, 32, 32))

    def test_a_mutated_input(self):
        def loss(m, x):
            y = m(torch.sin(x) * 2)
            x.mul_(0.5)
            return (m(y) + x).square().mean()

        self.same(blocks, loss)

    def test_a_mutated_buffer(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = blocks()
                self.register_buffer("mean", torch.zeros(64))

            def forward(self, x):
                y = torch.tanh(x - self.mean)
                self.mean.lerp_(x.mean(0), 0.1)
                return self.inner(y) - self.mean

        self.same(Counting, lambda m, x: m(x).square().mean())

    def test_a_buffer_that_is_returned_after_it_was_written(self):
        def build():
            m = blocks()
            for block in m:
                block.layers[0] = nn.utils.parametrizations.spectral_norm(block.layers[0])
            return m

        self.same(build, lambda m, x: m(x).square().mean())

    def test_recurrent_layers_in_the_graph(self):
        def loss(m, x, w):
            return m((x * w).view(4, 8, 64))[0].square().mean()

        for batch_first in (False, True):

            def train(backend, batch_first=batch_first):
                torch.manual_seed(0)
                m = nn.LSTM(64, 64, 2, dropout=0.2, batch_first=batch_first)
                w = torch.randn(32, 64, requires_grad=True)
                torch.compile(functools.partial(loss, m), backend=backend)(w.detach(), w).backward()
                return [w.grad, *(p.grad for p in m.parameters())]

            with torch._dynamo.config.patch(allow_rnn=True):
                self.trains_alike(train, echo_torch.eager_backend(budget=0.6, measure=False))
            self.assertIsNone(last().reason)

    def test_what_only_another_operator_can_make_is_not_measured(self):
        m = nn.LSTM(64, 64)
        # Echo's backend itself would trace no such operator: its backward pass fails.
        f = torch.compile(lambda x: m(x)[0].mean(), backend=default_backend(echo_torch.partition_fn(**TIGHT)))
        with unittest.mock.patch("echo_torch.costs._measure", return_value={}) as measure:
            with torch._dynamo.config.patch(allow_rnn=True), contextlib.suppress(Exception):
                f(torch.randn(8, 32, 64)).backward()
        jobs = [str(job[0]) for call in measure.call_args_list for job in call.args[0].values()]
        self.assertTrue([job for job in jobs if "rnn" in job], jobs)
        self.assertFalse([job for job in jobs if "rnn" in job and "backward" in job])

    def test_tied_weights(self):
        def build():
            m = blocks()
            m[2].layers[0].weight = m[0].layers[0].weight
            return m

        self.same(build, lambda m, x: m(x).square().mean())

    def test_parameters_of_what_is_thrown_away(self):
        def loss(m, x):
            body, pooler = m
            x = body(x)
            pooler(x)
            return x.square().mean()

        self.same(lambda: nn.ModuleList([blocks(), nn.Linear(64, 64)]), loss)

    def test_outputs_that_alias(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: (m(x), m(x).view(-1), x.t(), x), backend=backend)
            torch.manual_seed(1)
            x = torch.randn(32, 64, requires_grad=True)
            a, b, c, d = f(x)
            (a.sum() + b.square().sum() + c.sum() + d.sum()).backward()
            return [a.detach(), b.detach(), x.grad, *(p.grad for p in m.parameters())]

        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))

    def test_the_users_own_checkpoints(self):
        def loss(m, x):
            for block in m:
                x = checkpoint(block, x, use_reentrant=False)
            return x.square().mean()

        self.same(blocks, loss, budget=0.999)
        self.assertEqual(last().checkpoints, 4)
        self.assertLess(last().overhead, last().default_overhead)

    def test_checkpoints_of_what_is_not_random(self):
        def loss(m, x):
            for block in m:
                x = checkpoint(block, x, use_reentrant=False)
            return x.square().mean()

        self.same(lambda: blocks(dropout=0.0), loss, planned=False)
        self.assertNotIn("Error", last().reason or "")

    def test_policies_of_selective_checkpoints(self):
        def policy(context, target, *args, **kwargs):
            heavy = target in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
            return CheckpointPolicy.MUST_SAVE if heavy else CheckpointPolicy.PREFER_RECOMPUTE

        def loss(m, x):
            contexts = functools.partial(create_selective_checkpoint_contexts, policy)
            for block in m:
                x = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
            return x.square().mean()

        self.same(lambda: blocks(dropout=0.0), loss, planned=False)
        self.assertNotIn("Error", last().reason or "")

    def test_a_branch_in_the_graph(self):
        def loss(m, x):
            y = m(x)
            y = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
            return m(y).square().mean()

        self.same(lambda: blocks(1, dropout=0.0), loss, planned=False)
        self.assertNotIn("Error", last().reason or "")

    def test_compiled_autograd(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend)
            torch.manual_seed(1)
            with torch._dynamo.config.patch(compiled_autograd=True):
                step = torch.compile(lambda x: f(x).backward(), backend=backend)
                step(torch.randn(512, 64))
            return [p.grad for p in m.parameters()]

        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))

    def test_compiled_autograd_of_what_was_compiled_without_it(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend)
            torch.manual_seed(1)
            value = f(torch.randn(512, 64))
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                value.backward()
            return [value.detach(), *(p.grad for p in m.parameters())]

        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))

    def test_tensors_that_are_distributed(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))

        def train(backend):
            m = blocks()
            for block in m:
                parts = {"layers.0": ColwiseParallel(), "layers.3": RowwiseParallel()}
                parallelize_module(block, mesh, parts)
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend)
            torch.manual_seed(1)
            value = f(torch.randn(512, 64))
            value.backward()
            gradients = [p.grad for p in m.parameters()]
            return [value.detach(), *(getattr(g, "_local_tensor", g) for g in gradients)]

        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))
        self.assertNotIn("Error", last().reason or "")

    def test_retained_graph(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend)
            torch.manual_seed(1)
            value = f(torch.randn(32, 64))
            value.backward(retain_graph=True)
            value.backward()
            return [value.detach(), *(p.grad for p in m.parameters())]

        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))

    def test_autocast(self):
        def loss(m, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = m(x)
            return y.float().square().mean()

        self.same(blocks, loss)

    def test_graph_breaks(self):
        def loss(m, x):
            for block in m:
                x = block(x)
                torch._dynamo.graph_break()
            return x.square().mean()

        self.same(blocks, loss)

    def test_an_operator_of_the_user_runs_once(self):
        runs = []

        @torch.library.custom_op("echo_test::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            runs.append(1)
            return x * 2

        double.register_fake(lambda x: torch.empty_like(x))
        double.register_autograd(lambda ctx, g: g * 2)
        self.same(blocks, lambda m, x: m(torch.sin(double(m(x)))).square().mean())
        self.assertEqual(len(runs), 6)

    def test_no_gradient_is_asked_for(self):
        m = blocks().eval()
        f = torch.compile(m, backend=echo_torch.eager_backend())
        x = torch.randn(32, 64)
        with torch.no_grad():
            self.assertTrue(torch.equal(f(x), m(x)))

    def test_double_backward_is_declined_as_pytorch_does(self):
        m = blocks()
        f = torch.compile(lambda x: m(x).square().mean(), backend=echo_torch.eager_backend(**TIGHT))
        x = torch.randn(32, 64, requires_grad=True)
        (gradient,) = torch.autograd.grad(f(x), x, create_graph=True)
        with self.assertRaises(RuntimeError):
            gradient.sum().backward()

    def test_one_compilation_for_three_batch_sizes(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend, dynamic=True)
            values = []
            for batch in (256, 384, 512):
                torch.manual_seed(batch)
                m.zero_grad()
                value = f(torch.randn(batch, 64))
                value.backward()
                values += [value.detach(), *(p.grad.clone() for p in m.parameters())]
            return values

        before = len(echo_torch.reports())
        self.trains_alike(train, echo_torch.eager_backend(**TIGHT))
        self.assertEqual(len(echo_torch.reports()), before + 1)
        self.assertIsNone(last().reason)


class Calls(unittest.TestCase):
    """What a host makes of single operators."""

    def call_of(self, target, *more, tensors=1):
        graph, value = torch.fx.Graph(), torch.empty(4, device="meta")
        reads = [graph.placeholder(f"x{k}") for k in range(tensors)]
        node = graph.call_function(target, (*reads[:1], *more, *reads[1:]))
        for made in (*reads, node):
            made.meta["val"] = value
        return call_of(node, "forward", lambda read: (0, 0))

    def test_what_writes_to_an_argument_is_unknown(self):
        ops = torch.ops._c10d_functional
        with self.assertRaisesRegex(Unknown, "writes to one of its arguments"):
            self.call_of(ops.all_reduce_.default, "sum", "0")
        with self.assertRaisesRegex(Unknown, "writes to one of its arguments"):
            self.call_of(ops.broadcast_.default, 0, "0")
        with self.assertRaisesRegex(Unknown, "writes to one of its arguments"):
            graph = torch.fx.Graph()
            x, out = graph.placeholder("x"), graph.placeholder("out")
            target = ops.all_gather_into_tensor_out.default
            node = graph.call_function(target, (x, 1, "0"), {"out": out})
            for made in (x, out, node):
                made.meta["val"] = torch.empty(4, device="meta")
            call_of(node, "forward", lambda read: (0, 0))
        with self.assertRaisesRegex(Unknown, "writes to one of its arguments"):
            self.call_of(torch.ops.aten.relu_.default)

    def test_what_does_not_and_a_copy_are_known(self):
        ops = torch.ops._c10d_functional
        made = self.call_of(ops.all_reduce.default, "sum", "0").outputs[0]
        self.assertEqual((made.view_of, made.inplace), (None, None))
        self.assertEqual(self.call_of(ops.wait_tensor.default).outputs[0].view_of, 0)
        copied = self.call_of(torch.ops.aten.copy_.default, tensors=2).outputs[0]
        self.assertEqual(copied.inplace, 0)


class Inductor(unittest.TestCase):
    def test_whatever_a_plan_depends_on_is_in_the_name_of_the_cache(self):
        from echo_torch import inductor

        partitioner = echo_torch.partitioner()
        with unittest.mock.patch.object(inductor, "get_hash_for_files") as files:
            partitioner.uuid()
        names = {Path(name).stem for name in files.call_args.args[0]}
        self.assertLessEqual({"graph", "halves", "hooks", "host", "partition", "reuse"}, names)
        before = partitioner.uuid()
        partitioner.distrust = "a part is missing"
        self.assertNotEqual(before, partitioner.uuid())


class Falls(Case):
    """What Echo does not know, or cannot do, is left to PyTorch, with one warning."""

    def setUp(self):
        super().setUp()
        warn_once.cache_clear()

    def train(self, **options):
        return trained(blocks(), lambda m, x: m(x).square().mean(), echo_torch.eager_backend(**options), steps=1)

    def test_a_fault_of_ours(self):
        expected = trained(blocks(), lambda m, x: m(x).square().mean(), default_backend(), steps=1)
        for place in (
            "echo_torch.partition.Builder",
            "echo_torch.partition.Host",
            "echo_torch.costs.fill",
        ):
            torch._dynamo.reset()
            with unittest.mock.patch(place, side_effect=RuntimeError("broken")):
                with self.assertWarnsRegex(EchoWarning, r"fault of Echo's own \(RuntimeError\)"):
                    self.assert_same_bits(expected, self.train())
            warn_once.cache_clear()

    def test_planning_that_takes_too_long(self):
        with self.assertWarnsRegex(EchoWarning, "took longer"):
            self.train(seconds=1e-9, max_overhead=0.31)
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.train(seconds=1e-9, max_overhead=0.31)
        self.assertTrue(last().cached)  # the time is not spent twice
        self.assertIn("took longer", last().reason)

    def test_a_version_that_is_not_tested_is_tried_first(self):
        self.runs(
            "import support, torch, echo_torch; echo_torch.TESTED = ();"
            "m = torch.nn.Linear(8, 8);"
            "torch.compile(m, backend='echo_eager')(torch.randn(4, 8)).sum().backward();"
            "assert echo_torch._distrust() is None; assert len(echo_torch.reports()) == 1"
        )

    def test_the_trial_is_the_same_whatever_the_users_defaults_are(self):
        self.runs(
            "import support, torch, echo_torch; echo_torch.TESTED = ();"
            "torch.set_default_device('meta'); torch.set_default_dtype(torch.float16);"
            "before = torch.get_rng_state();"
            "assert echo_torch._distrust() is None, echo_torch._distrust();"
            "assert torch.equal(before, torch.get_rng_state());"
            "assert torch.empty(1).device.type == 'meta'"
        )

    def test_a_version_that_lacks_what_its_own_partition_is_made_by(self):
        makers = (echo_torch.backend, echo_torch.eager_backend, echo_torch.partition_fn, echo_torch.partitioner)
        for part, path in (
            ("default_partitioner", "min_cut_rematerialization_partition"),
            ("functorch_config", "torch._functorch.config"),
        ):
            with unittest.mock.patch.dict(hooks._found, {part: None}):
                for make in makers:
                    with self.assertRaisesRegex(ImportError, path):
                        make()

    def test_a_version_that_lacks_a_part(self):
        said = self.runs(
            "import support, torch, warnings; del torch._C._storage_Use_Count; import echo_torch;"
            "m = torch.nn.Linear(8, 8); warnings.simplefilter('always');"
            "torch.compile(m, backend='echo_eager')(torch.randn(4, 8)).sum().backward();"
            "assert '_storage_Use_Count' in echo_torch.reports()[0].reason"
        )
        self.assertRegex(said, "EchoWarning.*has no torch._C._storage_Use_Count")

    def test_options_of_compile(self):
        def run(options):
            torch._dynamo.reset()
            m = torch.compile(blocks(), backend="echo_eager", options=options)
            m(torch.randn(256, 64)).square().mean().backward()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run({"budget": 0.4})
        tight = last().peak
        run(None)
        self.assertLess(tight, last().peak)
        with self.assertRaisesRegex(TypeError, "no option 'nonsense': the options are budget, "):
            run({"nonsense": 1})
        with self.assertRaisesRegex(TypeError, "no option 'budgets': did you mean 'budget'"):
            run({"budgets": 1})
        with self.assertRaisesRegex(ValueError, "neither a size nor a part.*'8GB'.*'50%'"):
            run({"budget": 1})

    def test_a_budget_that_fits_says_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", EchoWarning)
            self.train(budget="8GiB", strict=True)
        self.assertIn("fits the budget", last().reason)

    def test_a_step_of_gradients_alone_is_proved_to_need_what_it_needs(self):
        module = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3)))
        shown = torch.compile(module, backend=echo_torch.eager_backend())
        with warnings.catch_warnings():
            warnings.simplefilter("error", EchoWarning)
            shown(torch.randn(2, 256)).square().sum().backward()
        self.assertRegex(last().reason, "nothing below.*no plan of this kind needs less")
        self.assertEqual(last().bound, last().default_peak)

    def test_a_graph_without_gradients_says_nothing(self):
        shown = torch.compile(lambda x: x + 1, backend=echo_torch.eager_backend(budget=0.5, strict=True))
        x = torch.randn(4, 4, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", EchoWarning)
            shown(x).sum().backward()
        self.assertIn("nothing in it depends", last().reason)

    def test_a_strict_budget_that_no_plan_is_there_for(self):
        with self.assertRaisesRegex(BudgetError, "not met by PyTorch's own"):
            self.train(budget=0.52, strict=True, seconds=1e-9)

    def test_a_budget_that_cannot_be_met(self):
        with self.assertWarnsRegex(EchoWarning, "cannot be met.*none lies below"):
            self.train(budget=1000)
        torch._dynamo.reset()
        with self.assertRaisesRegex(BudgetError, "cannot be met"):
            self.train(budget=1000, strict=True)

    def test_options_that_make_no_sense(self):
        budgets = ("much", -1, 0, 1, 1.5, "1", "1.5", "0GiB", "101%", "", "1e", True, math.nan, math.inf, [])
        wrong = [{"budget": budget} for budget in budgets]
        wrong += [{"max_overhead": part} for part in (math.nan, -0.1, 1, 5, "5", "1e308 %", "lots", None, True)]
        wrong += [{"seconds": 0}, {"seconds": "1"}, {"strategy": "best"}, {"checkpoints": "drop"}]
        for options in wrong:
            with self.subTest(options), self.assertRaises(ValueError) as raised:
                echo_torch.eager_backend(**options)
            self.assertIn(next(iter(options)), str(raised.exception))
        with self.assertRaisesRegex(TypeError, "did you mean 'budget'"):
            echo_torch.eager_backend(budgets=1)

    def test_budgets_in_all_their_forms(self):
        for budget, expected in (
            ("8GiB", 8 << 30),
            ("8gib", 8 << 30),
            ("8 gb", 8 * 10**9),
            ("8G", 8 * 10**9),
            ("2b", 2),
            ("1.5MB", 1_500_000),
            ("0.5kB", 500),
            (1e9, 10**9),
            ("1e9", 10**9),
            (1000000000.0, 10**9),
            (1000, 1000),
            (2, 2),
            (0.5, 50),
            ("0.5", 50),
            ("50%", 50),
            (" 50 % ", 50),
            (1.0, 100),
            ("1.0", 100),
            ("100%", 100),
            (None, None),
        ):
            with self.subTest(budget):
                self.assertEqual(Options(budget=budget).bytes_of(100), expected)
        for part, expected in (("5%", 0.05), (0.05, 0.05), ("0.05", 0.05), ("150%", 1.5), (0, 0.0)):
            self.assertEqual(Options(max_overhead=part).most_overhead, expected)

    def test_amounts_mean_what_the_commands_take_them_for(self):
        for read, cases in (
            (lambda text: Options(budget=text).bytes_of(100), amounts.BUDGETS),
            (lambda text: Options(max_overhead=text).most_overhead, amounts.PARTS),
        ):
            for text, expected in cases.items():
                with self.subTest(text):
                    if expected is None:
                        self.assertRaises(OptionError, read, text)
                    else:
                        self.assertAlmostEqual(read(text), expected)

    def test_kept_modules_do_not_run_again(self):
        self.train(budget=0.3)
        some = last().recomputed
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.train(budget=0.3, keep="*layers*")
        self.assertLess(last().recomputed, some)

    def test_the_same_graph_is_planned_once(self):
        self.train(budget=0.45)
        torch._dynamo.reset()
        self.train(budget=0.45)
        self.assertTrue(last().cached)

    def test_the_entry_point(self):
        self.assertLessEqual({"echo", "echo_eager"}, {*torch._dynamo.list_backends(None)})


if __name__ == "__main__":
    unittest.main()
