# SPDX-License-Identifier: BSL-1.0
"""`estimate` in one line for real models: what it takes, what it says, and that it leaves nothing behind."""

from __future__ import annotations

import copy
import io
import re
import unittest
from contextlib import redirect_stderr

import torch
from support import Case, default_backend, min_cut_rematerialization_partition
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import echo_torch
from echo_torch.capture import joint_graph
from echo_torch.faults import PRIVATE, StepError


def square(y):
    return y.square().mean()


def peak_of(model, inputs, backend):
    """The bytes that the allocator counts at the peak of a second step."""
    step = torch.compile(lambda *args: square(model(*args)), backend=backend)
    for _ in range(2):
        model.zero_grad()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
            step(*inputs).backward()
    now = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


class Blocks(nn.Module):
    """Blocks, each run by `how`."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = self.how(block, x)
        return x


def saves_products(context, operator, *args, **kwargs):
    kept = operator is torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


class Arguments(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = nn.Linear(8, 4)
        self.x, self.y = torch.randn(32, 8), torch.randint(0, 4, (32,))

    def peaks(self, *args, **options):
        found = echo_torch.estimate(*args, **options)
        return found.default_peak, found.echo_peak, found.inputs

    def test_a_tensor_is_one_argument(self):
        expected = self.peaks(self.model, (self.x,), functional.cross_entropy, (self.y,))
        for inputs in (self.x, [self.x], {"input": self.x}):
            for labels in (self.y, [self.y]):
                self.assertEqual(self.peaks(self.model, inputs, functional.cross_entropy, labels), expected)

    def test_what_is_no_input_is_refused(self):
        with self.assertRaisesRegex(ValueError, "inputs= takes a tensor, a sequence or a mapping, not int"):
            echo_torch.estimate(self.model, 3, square)
        with self.assertRaisesRegex(ValueError, "takes a torch.nn.Module first, not function"):
            echo_torch.estimate(square, self.x, square)

    def test_models_that_return_their_loss(self):
        class Loss:
            def __init__(self, loss):
                self.loss = loss

        wrappers = (lambda y: y, Loss, lambda y: {"loss": y, "y": None}, lambda y: (y, None), lambda y: {"a": y})
        for wrap in wrappers:

            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 4)

                def forward(self, x, wrap=wrap):
                    return wrap(square(self.layer(x)))

            self.assertEqual(self.peaks(Model(), self.x), self.peaks(self.model, self.x, square))

    def test_losses_by_name_are_added(self):
        class Model(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                return {"first": square(y), "second": y.abs().mean()}

        added = self.peaks(self.model, self.x, lambda y: square(y) + y.abs().mean())
        self.assertEqual(self.peaks(Model(8, 4), self.x)[:2], added[:2])

    def test_what_is_no_loss_is_said(self):
        got = r"\(Linear\) returned no loss but a tensor of shape \(32, 4\): give loss_fn="
        with self.assertRaisesRegex(StepError, got):
            echo_torch.estimate(self.model, self.x)
        with self.assertRaisesRegex(StepError, r"loss_fn returned no loss but NoneType: return one number"):
            echo_torch.estimate(self.model, self.x, lambda y: None)
        with self.assertRaisesRegex(StepError, "missing 1 required positional argument: 'target'"):
            echo_torch.estimate(self.model, self.x, functional.cross_entropy)
        with self.assertRaisesRegex(StepError, "no parameter that requires one; look for requires_grad=False"):
            echo_torch.estimate(copy.deepcopy(self.model).requires_grad_(False), self.x, square)

    def test_a_loss_with_tensors_of_its_own(self):
        weight = torch.rand(4)
        for loss in (nn.CrossEntropyLoss(weight=weight), lambda y, t: functional.cross_entropy(y, t, weight=weight)):
            found = echo_torch.estimate(self.model, self.x, loss, self.y)
            self.assertEqual(found.parameters, (8 * 4 + 4 + 4) * 4)

    def test_parameters_of_the_loss_are_trained(self):
        loss = nn.Bilinear(4, 4, 1)
        found = echo_torch.estimate(self.model, self.x, lambda y: square(y), optimizer="sgd")
        more = echo_torch.estimate(self.model, self.x, _Distance(loss), optimizer="sgd")
        self.assertEqual(more.gradients - found.gradients, (4 * 4 + 1) * 4)


class _Distance(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, y):
        return square(self.inner(y, y))


class Optimizers(unittest.TestCase):
    def setUp(self):
        self.model = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8))
        self.x = torch.randn(4, 16)

    def state(self, optimizer):
        return echo_torch.estimate(self.model, self.x, square, optimizer=optimizer).optimizer

    def after_a_step(self, optimizer):
        square(self.model(self.x)).backward()
        optimizer.step()
        storages = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
        return sum(t.untyped_storage().nbytes() for t in storages)

    def test_states_are_what_a_step_makes(self):
        kinds = [k for k in vars(torch.optim).values() if isinstance(k, type) and issubclass(k, torch.optim.Optimizer)]
        others = (torch.optim.Optimizer, torch.optim.SparseAdam, torch.optim.LBFGS, getattr(torch.optim, "Muon", None))
        tried = [kind for kind in kinds if kind not in others]
        self.assertGreater(len(tried), 8)
        for kind in tried:
            expected = self.after_a_step(kind(self.model.parameters()))
            self.assertEqual(self.state(kind), expected, kind)
            self.assertEqual(self.state(kind.__name__.upper()), expected, kind)
            self.assertEqual(self.state(kind(self.model.parameters())), expected, kind)

    def test_options_of_an_object_count(self):
        makes = (
            lambda p: torch.optim.SGD(p, lr=0.1),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            lambda p: torch.optim.AdamW(p, amsgrad=True, foreach=True),
            lambda p: torch.optim.AdamW(p, fused=True),
            lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
            lambda p: torch.optim.AdamW([*p][:1]),
        )
        for make in makes:
            optimizer = make(self.model.parameters())
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
            before = self.state(optimizer)
            self.assertFalse(optimizer.state, "a step on fake tensors leaves nothing in the object")
            self.assertEqual(before, self.after_a_step(optimizer))

    def test_an_object_that_has_stepped_is_counted_as_it_is(self):
        optimizer = torch.optim.AdamW(self.model.parameters())
        after = self.after_a_step(optimizer)
        next(iter(optimizer.state.values()))["more"] = torch.zeros(1000)
        self.assertEqual(self.state(optimizer), after + 4000)

    def test_an_optimizer_of_the_users(self):
        class Lion(torch.optim.Optimizer):
            def __init__(self, parameters, lr):
                super().__init__(parameters, {"lr": lr})

            @torch.no_grad()
            def step(self, closure=None):
                for parameter in (p for group in self.param_groups for p in group["params"]):
                    state = self.state[parameter]
                    if not state:
                        state["count"], state["momentum"] = torch.zeros(()), torch.zeros_like(parameter)
                    state["count"] += 1
                    if state["count"].item() > 3:
                        parameter.sub_(state["momentum"].sign())

        sizes = [p.numel() for p in self.model.parameters()]
        self.assertEqual(self.state(Lion(self.model.parameters(), 1e-3)), sum(4 * n + 4 for n in sizes))
        with self.assertRaisesRegex(ValueError, "Lion cannot be made without options .*give the object"):
            self.state(Lion)

    def test_names(self):
        self.assertEqual(self.state(None), 0)
        self.assertEqual(self.state("momentum"), self.state(torch.optim.SGD(self.model.parameters(), momentum=0.9)))
        with self.assertRaisesRegex(ValueError, "no optimizer 'adanw': did you mean 'AdamW'"):
            self.state("adanw")
        with self.assertRaisesRegex(ValueError, "is no optimizer of PyTorch's"):
            self.state(3)


def marks_of(joint):
    """Every operator with its marks for a partitioner; regions are counted from the first."""
    nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
    first = min((node.meta["ac_graph_id"] for node in nodes if "ac_graph_id" in node.meta), default=0)
    return [(str(n.target), n.meta.get("recompute"), n.meta.get("ac_graph_id", first) - first) for n in nodes]


class Checkpoints(Case):
    def check(self, how):
        model, x = Blocks(how), torch.randn(256, 64)
        marks = []

        def partition(joint, *args, **options):
            marks.append(marks_of(joint))
            return min_cut_rematerialization_partition(joint, *args, **options)

        measured = peak_of(model, (x,), default_backend(partition))
        self.assertEqual([marks_of(joint_graph(model, square, (x,), ())[0])], marks)
        found = echo_torch.estimate(model, x, square)
        whole = echo_torch.estimate(Blocks(lambda block, x: block(x)), x, square)
        self.assertLess(found.default_peak, whole.default_peak)
        self.assertAlmostEqual(found.default_peak, measured, delta=measured / 1000)

    def test_the_columns_are_with_the_users_checkpoints(self):
        self.check(lambda block, x: checkpoint(block, x, use_reentrant=False))
        self.check(lambda block, x: checkpoint(block, x, use_reentrant=True))

    def test_with_a_policy(self):
        def contexts():
            return create_selective_checkpoint_contexts(saves_products)

        self.check(lambda block, x: checkpoint(block, x, use_reentrant=False, context_fn=contexts))


class Models(Case):
    def test_plain_tensors_are_counted_and_stay(self):
        class Rotary(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.table = nn.Linear(32, 32), torch.randn(16, 32)
                self.more = [torch.randn(16, 32)]

            def forward(self, x):
                self.seen = x
                self.more.append(x)
                self.table = self.table * 2
                return self.layer(x * self.table + self.more[0])

        model, x = Rotary(), torch.randn(16, 32)
        table = model.table
        found = echo_torch.estimate(model, x, square)
        self.assertEqual(found.parameters, 4 * (32 * 32 + 32 + 2 * 16 * 32))
        self.assertIs(model.table, table)
        self.assertEqual(len(model.more), 1)
        self.assertFalse(hasattr(model, "seen"))
        with torch.device("meta"):
            self.assertEqual(echo_torch.estimate(Rotary(), torch.randn(16, 32), square).echo_peak, found.echo_peak)

    def test_compiled_models(self):
        x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
        model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 4))
        expected = echo_torch.estimate(model, x, functional.cross_entropy, y)
        whole = torch.compile(model, backend="echo_eager")
        inner = copy.deepcopy(model)
        inner[0] = torch.compile(inner[0], backend="echo_eager")
        own = copy.deepcopy(model)
        own[2].compile(backend="echo_eager")
        before = len(echo_torch.reports())
        for compiled in (whole, inner, own):
            found = echo_torch.estimate(compiled, x, functional.cross_entropy, y)
            self.assertEqual(found.default_peak, expected.default_peak)
            self.assertEqual(found.at_peak, expected.at_peak)
        self.assertEqual(len(echo_torch.reports()), before)
        whole(x).sum().backward()
        self.assertEqual(len(echo_torch.reports()), before + 1, "the model is still compiled")

    def test_time_is_beside_the_column(self):
        class Norm(nn.Module):
            def forward(self, x):
                return (x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)

        layers = [layer for _ in range(6) for layer in (Norm(), nn.Linear(64, 64), nn.SiLU())]
        model, x = nn.Sequential(*layers).bfloat16(), torch.randn(256, 64, dtype=torch.bfloat16)
        found = echo_torch.estimate(model, x, lambda y: y.float().square().mean(), points=4)
        self.assertGreater(found.default_overhead, 0.01)  # PyTorch recomputes here
        self.assertLessEqual(found.overhead, 0.07)
        self.assertIn(f"takes {100 * found.overhead:.1f} % longer than PyTorch's", str(found))
        self.assertAlmostEqual(min(part for _, part in found.front), 1 / (1 + found.default_overhead) - 1, places=2)

    def test_the_table_has_its_units(self):
        for width, unit in ((8, "kB"), (1024, "MB"), (65536, "GB")):
            with torch.device("meta"):
                model, x = nn.Linear(width, width), torch.randn(width, width)
            self.assertTrue(str(echo_torch.estimate(model, x, square)).startswith(f"{unit} of one training step"))

    def test_checkpoints_that_are_kept(self):
        model, x = Blocks(lambda block, x: checkpoint(block, x, use_reentrant=False)), torch.randn(256, 64)
        planned, kept = (echo_torch.estimate(model, x, square, checkpoints=how) for how in ("replace", "keep"))
        self.assertEqual(kept.default_peak, planned.default_peak)
        self.assertEqual(kept.echo_peak, kept.default_peak)
        self.assertIn("checkpoints='keep'", str(kept))
        self.assertIsNone(planned.reason)
        self.assertLess(planned.overhead, 0)  # PyTorch recomputes all of a region

    def test_checkpoints_with_dropout_and_attention(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.project, self.drop = nn.Linear(32, 96), nn.Dropout(0.1)

            def forward(self, x):
                q, k, v = self.project(x).chunk(3, -1)
                return self.drop(functional.scaled_dot_product_attention(q, k, v))

        class Model(nn.Module):
            def __init__(self, how):
                super().__init__()
                self.how, self.blocks = how, nn.ModuleList(Attention() for _ in range(4))

            def forward(self, x):
                for block in self.blocks:
                    x = self.how(block, x)
                return x

        model = Model(lambda block, x: checkpoint(block, x, use_reentrant=False))
        found = echo_torch.estimate(model, torch.randn(4, 2, 64, 32), square)
        self.assertIsNone(found.reason)
        self.assertGreater(found.default_overhead, 0.1)
        self.assertLess(found.echo_peak, found.default_peak)
        self.assertLess(found.overhead, 0)


class DataThatIsRead(unittest.TestCase):
    """Models whose graph depends on their inputs, as detectors are: estimated for those that are given."""

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU())
            self.head = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 4))
            self.scale = None

        def forward(self, x, chosen):
            y = self.features(x)
            if self.scale is None:
                self.scale = float(torch.rand(1)) + torch.tensor(2.0).item()
            found = y[torch.nonzero(chosen)[:, 0]]
            if chosen.sum() > 1000:
                return {"empty": square(y)}
            return {"boxes": square(self.head(found)) * self.scale, "classes": y[chosen].abs().mean()}

    def test_a_detector_is_estimated_for_its_inputs(self):
        model, x = self.Detector(), torch.randn(512, 64)
        buffers, random = copy.deepcopy(dict(model.named_buffers())), torch.get_rng_state()
        few, many = (echo_torch.estimate(model, (x, torch.arange(512) < count)) for count in (16, 256))
        self.assertTrue(few.reads_data and many.reads_data)
        self.assertGreater(many.default_peak, few.default_peak + 240 * 256 * 4)
        self.assertIn("for the inputs given", str(few))
        self.assertTrue(torch.equal(torch.get_rng_state(), random))
        self.assertIsNone(model.scale)
        for name, buffer in model.named_buffers():
            self.assertTrue(torch.equal(buffer, buffers[name]), name)

    def test_detectors_of_torchvision(self):
        try:
            from torchvision.models import detection
        except ImportError:
            self.skipTest("needs torchvision")
        model = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).train()
        images = [torch.rand(3, 64, 64) for _ in range(2)]
        targets = [{"boxes": torch.tensor([[1.0, 1.0, 20.0, 20.0]]), "labels": torch.tensor([1])} for _ in images]
        found = echo_torch.estimate(model, (images, targets), optimizer="sgd")
        self.assertTrue(found.reads_data)
        self.assertLess(found.echo_peak, found.default_peak)


class Transformers(unittest.TestCase):
    def setUp(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("needs transformers")
        self.library = transformers
        ids = torch.randint(0, 100, (2, 16))
        mask = torch.ones(2, 16, dtype=torch.long)
        mask[0, :3] = 0
        self.inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids}
        self.sizes = {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
        }

    def test_a_mask_and_a_returned_loss(self):
        for kind in ("Bert", "Llama", "Gemma2"):
            config = getattr(self.library, f"{kind}Config")(**self.sizes)
            model = getattr(self.library, f"{kind}For{'MaskedLM' if kind == 'Bert' else 'CausalLM'}")(config)
            found = echo_torch.estimate(model.train(), self.inputs)
            self.assertLess(found.echo_peak, found.default_peak, kind)
            self.assertEqual(found.inputs, 2 * 2 * 16 * 8)  # the labels are the words

    def test_checks_of_data_are_named(self):
        config = self.library.Wav2Vec2Config(
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=64,
            num_feat_extract_layers=1,
            conv_dim=(32,),
            conv_stride=(5,),
            conv_kernel=(10,),
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        )
        model = self.library.Wav2Vec2ForCTC(config).train()
        with torch.device("meta"):
            inputs = {"input_values": torch.empty(2, 4000), "labels": torch.ones(2, 5, dtype=torch.long)}
        said = r"modeling_wav2vec2\.py:\d+ \(.*\), in '?.*Wav2Vec2.*depends on the values"
        with self.assertRaisesRegex(StepError, said):
            echo_torch.estimate(model, inputs)


class Faults(unittest.TestCase):
    """Each is one sentence, which names a line and a module of the user's and no part of PyTorch's tracers."""

    def refused(self, function):
        class Reads(nn.Module):
            def forward(self, x):
                return function(x)

        said = io.StringIO()
        with redirect_stderr(said), self.assertRaises(StepError) as refused:
            echo_torch.estimate(nn.Sequential(nn.Linear(8, 8), Reads()), torch.empty(4, 8, device="meta"), square)
        text = str(refused.exception)
        self.assertRegex(text, r"test_estimate\.py:\d+ \(.*\), in '1' \(Reads\): ")
        words = re.sub(r"\(.*?\), in|torch\.library\.register_fake", "", text)  # but for the line itself
        self.assertIsNone(PRIVATE.search(words), text)
        self.assertEqual(len(text.splitlines()), 1)
        self.assertEqual(said.getvalue(), "")
        return text

    def test_data_that_is_read(self):
        reads = (
            lambda x: x * x.sum().item(),
            lambda x: x if x.sum() > 0 else -x,
            lambda x: x * float(x.sum()),
            lambda x: x * sum(x.sum(1).tolist()),
            lambda x: x * torch.tensor(x.detach().numpy()),
            lambda x: x[x.sum(1) > 0],
            lambda x: x[torch.nonzero(x.sum(1) > 0)[:, 0]],
            lambda x: x * x.unique().sum(),
            lambda x: x * (x.data_ptr() % 3),
        )
        for function in reads:
            self.assertIn("depends on the values of a tensor", self.refused(function))

    def test_errors_of_the_model(self):
        self.assertIn("raised RuntimeError: ", self.refused(lambda x: x @ torch.zeros(9, 3)))
        self.assertIn("raised NameError: ", self.refused(lambda x: missing))  # noqa: F821

    def test_operators_that_cannot_be_traced(self):
        @torch.library.custom_op("echo_tests::opaque", mutates_args=())
        def opaque(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        text = self.refused(lambda x: torch.ops.echo_tests.opaque(x))
        self.assertIn("the operator echo_tests.opaque cannot be traced", text)
        self.assertIn("torch.library.register_fake", text)


if __name__ == "__main__":
    unittest.main()
