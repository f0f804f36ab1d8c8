"""What lies outside of Echo's graphs is said, with the module and the cure; and the peak of a whole step is the
allocator's.
"""

from __future__ import annotations

import logging
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from measure import allocator_peak
from support import Case, default_backend
from torch import nn

import echo_torch
from echo_torch import outside

WIDTH, WORDS = 64, 200


def layers(count: int) -> nn.Sequential:
    kinds = (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH))
    return nn.Sequential(*(type(kind)(*_sizes(kind)) for _ in range(count) for kind in kinds))


def _sizes(kind: nn.Module) -> tuple[int, ...]:
    if isinstance(kind, nn.Linear):
        return kind.in_features, kind.out_features
    return (WIDTH,) if isinstance(kind, nn.LayerNorm) else ()


class Words(nn.Module):
    """A language model around some inner part."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.out = nn.Embedding(WORDS, WIDTH), layers(2), nn.Linear(WIDTH, WORDS)

    def between(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.between(self.embed(words)))


class Masked(Words):
    """nn.TransformerEncoder with a mask whose values PyTorch reads, unless it is told of them."""

    causal: bool | None = None

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True), 2)

    def between(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.inner(x, mask=mask, is_causal=self.causal)


class Causal(Masked):
    causal = True


class Recurrent(Words):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def between(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


class Skipped(Recurrent):
    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.inner(self.embed(words))[0])


class Disabled(Words):
    @torch.compiler.disable
    def between(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Reads(Words):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x / x.abs().max().item())


class Branches(Words):
    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.inner:
            x = layer(x)
            if x.sum() > 1e9:
                x = x.relu()
        return self.out(x)


class Prints(Words):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        print("", end="")
        return self.inner(x)


class Selects(Words):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * x[x > 0].mean()


class Sparse(nn.Module):
    """A graph network: neighbours are summed by a sparse matrix, which comes with the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.inner = nn.Linear(WIDTH, WIDTH), layers(2)

    def forward(self, x: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        return self.inner(torch.sparse.mm(near, self.into(x)))


def words(rows: int = 8) -> torch.Tensor:
    return torch.randint(0, WORDS, (rows, 32), generator=torch.Generator().manual_seed(1))


def mean_square(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


class Watched(Case):
    def setUp(self) -> None:
        super().setUp()
        outside.steps.clear()
        if outside._watch is not None:
            outside._watch.end()

    def train(
        self,
        module: nn.Module,
        *inputs: torch.Tensor,
        loss: Callable[..., torch.Tensor] = mean_square,
        accumulate: bool = False,
        steps: int = 5,
        backend: Any = None,
        whole: bool = False,
    ) -> Callable[[], None]:
        """Trains some steps; one more is what is returned. `whole`: the loss is compiled as well."""
        backend = backend or echo_torch.eager_backend(measure=False)
        if whole:
            compiled, loss = torch.compile(lambda *x, of=loss: of(module(*x)), backend=backend), lambda y: y
        else:
            compiled = torch.compile(module, backend=backend)
        inputs = inputs or (words(),)

        def step() -> None:
            if not accumulate:
                module.zero_grad()
            loss(compiled(*inputs)).backward()

        for _ in range(steps):
            step()
        return step

    def said(self, module: nn.Module, *inputs: torch.Tensor, **told: Any) -> str:
        with self.assertLogs("echo_torch", logging.WARNING) as logged:
            self.train(module, *inputs, **told)
        return "\n".join(logged.output)


class Outside(Watched):
    def part(self, module: nn.Module) -> outside.Outside:
        self.said(module)
        (step,) = outside.steps
        self.assertEqual(len(step.outside), 1, step.table())
        return step.outside[0]

    def test_an_encoder_whose_mask_is_read(self) -> None:
        part = self.part(Masked())
        self.assertEqual(part.module, "inner (TransformerEncoder)")
        self.assertIn("mask", part.reason)
        self.assertIn("is_causal=True", part.cure)
        self.assertIn("test_outside.py:", part.where)
        self.assertGreater(outside.steps[0].outside_time, 0.5)
        self.assertGreater(outside.steps[0].saved_part_outside, 0.8)

    def test_the_cure_of_the_mask(self) -> None:
        with self.assertNoLogs("echo_torch", logging.WARNING):
            self.train(Causal(), loss=mean_square)
        (step,) = outside.steps
        self.assertEqual((step.graphs, step.planned, step.outside), (1, 1, []))

    def test_a_model_that_is_skipped_as_a_whole(self) -> None:
        """No graph of it ever reaches the backend."""
        for module in (Skipped(), Branches()):
            self.setUp()
            text = self.said(module)
            self.assertIn(f"{type(module).__name__}.", text)
            self.assertIn("is in no graph", text)
        self.assertIn("torch.where", text)

    def test_recurrent_layers_and_their_cure(self) -> None:
        self.assertIn("allow_rnn = True", self.said(Recurrent()))
        self.setUp()
        with torch._dynamo.config.patch(allow_rnn=True), self.assertNoLogs("echo_torch", logging.WARNING):
            self.train(Recurrent())
        self.assertEqual([(step.graphs, step.outside) for step in outside.steps], [(1, [])])

    def test_sparse_inputs(self) -> None:
        near = torch.eye(32).to_sparse()
        self.assertIn("sparse", self.said(Sparse(), torch.randn(32, WIDTH), near))

    def test_a_function_that_is_not_to_be_traced(self) -> None:
        part = self.part(Disabled())
        self.assertEqual(part.module, "inner (Sequential)")
        self.assertEqual(part.parameters, sum(p.numel() for p in Disabled().inner.parameters()))
        self.assertIn("torch.compiler.disable", part.reason)

    def test_breaks_without_a_module(self) -> None:
        expected = {Reads: ".item()", Prints: "print", Selects: "boolean index"}
        for kind, reason in expected.items():
            self.setUp()
            self.train(kind())
            (step,) = outside.steps
            self.assertGreater(step.graphs, 1, kind)
            self.assertIn(reason, step.outside[0].reason)
            self.assertIn("test_outside.py:", step.outside[0].where)
            self.assertTrue(step.outside[0].cure)

    def test_a_loss_that_is_not_compiled(self) -> None:
        targets = words(64).flatten()
        text = self.said(Words(), words(64), loss=lambda y: F.cross_entropy(y.flatten(0, 1).exp().sin(), targets))
        self.assertIn("the loss", text)
        self.assertIn("returns the loss", text)

    def test_graphs_in_which_nothing_can_be_planned(self) -> None:
        class Cut(Words):
            def between(self, x: torch.Tensor) -> torch.Tensor:
                for layer in self.inner:
                    torch._dynamo.graph_break()
                    x = layer(x)
                return x

        text = self.said(Cut(), words(64))
        self.assertIn("0 of", text)

    def test_little_is_no_warning(self) -> None:
        with self.assertNoLogs("echo_torch", logging.WARNING):
            self.train(Disabled(), words(1))
        self.assertEqual(len(outside.steps[0].outside), 1)

    def test_a_lightning_module_that_logs(self) -> None:
        try:
            import lightning
        except ImportError:
            self.skipTest("lightning is not there")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Logs(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.inner = layers(1)

            def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
                loss = mean_square(self.inner(batch[0]))
                self.log("loss", loss)
                return loss

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.SGD(self.parameters(), lr=0.1)

        class Cured(Logs):
            log = torch.compiler.disable(lightning.LightningModule.log)

        def fit(module: Logs) -> None:
            quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
            trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **dict.fromkeys(quiet, False))
            data = torch.utils.data.TensorDataset(torch.randn(16, WIDTH))
            compiled = torch.compile(module, backend=echo_torch.eager_backend(measure=False))
            trainer.fit(compiled, torch.utils.data.DataLoader(data, batch_size=8))

        with self.assertLogs("echo_torch", logging.WARNING) as logged, self.assertRaises(Exception):  # noqa: B017
            fit(Logs())
        self.assertIn("torch.compiler.disable(LightningModule.log)", "\n".join(logged.output))
        self.setUp()
        fit(Cured())
        self.assertTrue(echo_torch.reports()[-1].nodes)

    def test_what_is_whole_is_no_warning(self) -> None:
        with self.assertNoLogs("echo_torch", logging.WARNING):
            self.train(Words())
        (step,) = outside.steps
        self.assertEqual((step.graphs, step.outside, step.saved_outside), (1, [], 0))

    def test_other_backends_are_not_spoken_of(self) -> None:
        echo_torch.eager_backend()
        with self.assertNoLogs("echo_torch", logging.WARNING):
            self.train(Recurrent(), backend=default_backend())

    def test_all_that_autograd_keeps_is_counted(self) -> None:
        """Against the hooks for saved tensors, which the watch itself must not use."""
        for kind in (Masked, Disabled, Words):
            self.setUp()
            module = kind()
            step = self.train(module, loss=torch.mean)
            known = {p.untyped_storage()._cdata for p in module.parameters()}
            kept: dict[int, int] = {}

            def pack(value: torch.Tensor, known: set[int] = known, kept: dict[int, int] = kept) -> torch.Tensor:
                lies_on = value.untyped_storage()
                if lies_on._cdata not in known and value.is_floating_point():
                    kept[lies_on._cdata] = lies_on.nbytes()
                return value

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
                step()
            (found,) = outside.steps
            self.assertAlmostEqual(
                (found.saved_inside + found.saved_outside) / sum(kept.values()), 1, delta=0.02, msg=str(kind)
            )


class WholeStep(Watched):
    def against_the_allocator(self, module: nn.Module, **told: Any) -> outside.Step:
        torch.manual_seed(0)
        step = self.train(module, words(64), backend=echo_torch.eager_backend(), whole=True, **told)
        if not told.get("accumulate"):
            module.zero_grad()
        before = sum(p.grad.nbytes for p in module.parameters() if p.grad is not None)
        measured = allocator_peak(step)[1] + before
        (found,) = outside.steps
        self.assertEqual(found.gradients, before)
        self.assertTrue(found.exact)
        self.assertAlmostEqual(found.peak_in_all / measured, 1, delta=0.01, msg=found.table())
        self.assertLess(found.peak_in_all, found.default_in_all)
        return found

    def test_one_graph(self) -> None:
        found = self.against_the_allocator(Words())
        self.assertLess(found.peak_in_all / found.peak, 1.02)

    def test_accumulated_gradients(self) -> None:
        found = self.against_the_allocator(Words(), accumulate=True)
        self.assertGreater(found.peak_in_all - found.peak, 0.9 * found.gradients)

    def test_several_graphs(self) -> None:
        found = self.against_the_allocator(Reads())
        self.assertGreater(found.graphs, 1)

    def test_several_graphs_and_accumulated_gradients(self) -> None:
        self.against_the_allocator(Prints(), accumulate=True)

    def test_modules_between_the_graphs(self) -> None:
        found = self.against_the_allocator(Disabled())
        self.assertGreater(found.peak_in_all, 1.5 * found.peak)

    def test_the_default_in_all_is_what_the_default_takes(self) -> None:
        """With several graphs at most what one graph hands to the next is counted too long."""
        for kind, more in ((Words, 0.01), (Disabled, 0.15)):
            self.setUp()
            self.train(kind(), words(64), backend=echo_torch.eager_backend(), whole=True)
            (found,) = outside.steps
            torch._dynamo.reset()
            module = kind()
            step = self.train(module, words(64), backend=default_backend(), whole=True)
            module.zero_grad()
            part = found.default_in_all / allocator_peak(step)[1]
            self.assertTrue(0.99 < part < 1 + more, (kind, part))

    def test_gradients_that_are_copied(self) -> None:
        """Its gradient does not lie in memory as the parameter does."""

        class Turned(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.randn(512, 1024) / 32)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return F.gelu(x @ self.weight.t().contiguous())

        module = Turned()
        step = self.train(module, torch.randn(16, 1024), whole=True)
        (found,) = outside.steps
        self.assertEqual(found.copies, module.weight.nbytes)
        module.zero_grad()
        self.assertAlmostEqual(found.peak_in_all / allocator_peak(step)[1], 1, delta=0.02)


class TheWatch(Watched):
    def test_it_changes_no_bit_and_no_peak(self) -> None:
        def gradients(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            module = Disabled()
            self.train(module, backend=backend, steps=3)
            return [p.grad for p in module.parameters()]

        self.trains_alike(gradients, echo_torch.eager_backend(measure=False))
        self.setUp()
        torch.manual_seed(0)
        module = Words()
        step = self.train(module, steps=2)
        peaks = []
        for _ in range(6):
            module.zero_grad()
            watched = not outside._watch.ended
            peaks.append((watched, allocator_peak(step)[1]))
        self.assertEqual({watched for watched, _ in peaks}, {True, False})
        small = {peak for _, peak in peaks}
        self.assertLess(max(small) - min(small), 4096, peaks)

    def test_it_ends(self) -> None:
        step = self.train(Words(), steps=4)
        self.assertTrue(outside._watch.ended)
        self.assertIsNone(outside._watch.seen)
        (found,) = outside.steps
        before = str(found)
        step()
        self.assertEqual(str(found), before)

    def test_nothing_compiles_again_for_it(self) -> None:
        step = self.train(Disabled(), steps=1)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for _ in range(5):
                step()

    def test_forward_passes_without_backward_passes(self) -> None:
        module = Words()
        compiled = torch.compile(module, backend=echo_torch.eager_backend(measure=False))
        for _ in range(5):
            compiled(words())  # kept by nobody, and not under no_grad
            mean_square(compiled(words())).backward()
        (found,) = outside.steps
        self.assertEqual(found.graphs, 1)
        self.assertGreater(found.inside_time, 0.3)

    def test_hooks_of_the_user_do_not_run_for_it(self) -> None:
        unpacked = [0]

        def unpack(value: torch.Tensor) -> torch.Tensor:
            unpacked[0] += 1
            return value

        counts = []
        module = Disabled()
        with torch.autograd.graph.saved_tensors_hooks(lambda value: value, unpack):
            for _ in range(6):
                unpacked[0] = 0
                if not counts:
                    compiled = torch.compile(module, backend=echo_torch.eager_backend(measure=False))
                mean_square(compiled(words())).backward()
                counts.append(unpacked[0])
        self.assertEqual(len(set(counts)), 1, counts)

    def test_a_step_that_fails_is_not_counted(self) -> None:
        """Such as one that runs out of memory: its backward pass never ends."""
        module = Prints()
        compiled = torch.compile(module, backend=echo_torch.eager_backend(measure=False))

        def fails(_: torch.Tensor) -> None:
            raise MemoryError

        for step in range(7):
            y = compiled(words())
            if step % 2:
                module.embed.weight.grad = None
                handle = module.embed.weight.register_hook(fails)
                with self.assertRaises(MemoryError):
                    mean_square(y).backward()
                handle.remove()
            else:
                mean_square(y).backward()
        self.assertTrue(outside._watch.ended)
        (found,) = outside.steps
        self.assertLess(found.seconds, 1)
        self.assertLess(found.peak_in_all, 2 * found.gradients + found.default_peak + 4 * found.saved_inside)

    def test_checkpoints_around_what_is_compiled(self) -> None:
        module = Words()
        compiled = torch.compile(module.inner, backend=echo_torch.eager_backend(measure=False))
        for reentrant in (True, False):
            for _ in range(5):
                x = module.embed(words())
                y = torch.utils.checkpoint.checkpoint(compiled, x, use_reentrant=reentrant)
                mean_square(y).backward()
        self.assertTrue(outside._watch.ended)
        self.assertGreater(len(outside.steps), 0)

    def test_a_fault_ends_it_alone(self) -> None:
        broken = unittest.mock.patch.object(outside.beside, "look", side_effect=ValueError("what ails it"))
        with broken, self.assertLogs("echo_torch", logging.DEBUG) as logged:
            self.train(Words())
        self.assertIn("what ails it", "\n".join(logged.output))
        self.assertTrue(outside._watch.ended)


class Classifiers(Case):
    def test_recurrent_layers_in_a_classifier(self) -> None:
        """PyTorch's tracer takes oneDNN's LSTM as for inference, and no backward pass runs, by any other backend."""

        class Net(nn.Module):
            def __init__(self, kind: type[nn.RNNBase]) -> None:
                super().__init__()
                self.inner, self.out = kind(28, 32, batch_first=True), nn.Linear(32, 10)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.out(self.inner(x)[0][:, -1])

        x = torch.randn(4, 28, 28)
        with torch._dynamo.config.patch(allow_rnn=True):
            for kind in (nn.LSTM, nn.GRU, nn.RNN):
                torch.manual_seed(0)
                module = Net(kind)
                mean_square(torch.compile(module, backend=echo_torch.eager_backend(measure=False))(x)).backward()
                mine = [p.grad for p in module.parameters()]
                module.zero_grad()
                mean_square(module(x)).backward()
                for a, p in zip(mine, module.parameters(), strict=True):
                    torch.testing.assert_close(a, p.grad)
            self.assertTrue(torch.backends.mkldnn.enabled)
            torch._dynamo.reset()  # without gradients, oneDNN's layer runs as it does by other backends
            module = Net(nn.LSTM)
            with torch.no_grad():
                made = [torch.compile(module, backend=b)(x) for b in (default_backend(), echo_torch.eager_backend())]
            self.assert_same_bits(made[:1], made[1:])


if __name__ == "__main__":
    unittest.main()
