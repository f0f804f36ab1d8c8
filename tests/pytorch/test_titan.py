"""The memory policy for torchtitan: its signature is the registry's, and the trainer's own pass runs
again what it tags, with the same bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import inspect
import json
import re
import sys
import unittest
import unittest.mock
import warnings
from types import SimpleNamespace

import torch
import torch.distributed as dist
from support import Case, what_torchtitan_does_not_need
from test_distributed import run_ranks
from test_safety import blocks
from torch import nn
from torch._functorch.partitioners import has_recomputable_rng_ops
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.traceback import preserve_node_meta
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import CheckpointPolicy

from echo_torch import titan  # isort: split

from echo_torch.partition import BudgetError, EchoWarning, warn_once  # isort: split

from measure import allocator_peak

GRAPH_TRAINER = "torchtitan.experiments.graph_trainer."


def part_of_titan(name: str):
    """A module of the trainer."""
    stand_ins = what_torchtitan_does_not_need()
    sys.modules.update(stand_ins)
    try:
        return importlib.import_module(GRAPH_TRAINER + name)
    except ImportError as missing:
        raise unittest.SkipTest(f"torchtitan does not import here: {missing}") from None
    finally:
        for stand_in in stand_ins:
            del sys.modules[stand_in]


MARKS = hasattr(torch.compiler, "_patch_engine_backward")  # PyTorch marks backward nodes by itself


def gradients(loss, parameters):
    """The gradients. Where PyTorch does not mark the nodes that make them, they are marked here, by
    both of the names that passes look for.
    """
    nodes = get_proxy_mode().tracer.graph.nodes
    forward = set(nodes)
    made = torch.autograd.grad(loss, parameters)
    for node in () if MARKS else nodes:
        if node not in forward:
            node.meta["autograd_backward"] = True
            node.meta["custom"] = {"remat_pass_tag": "is_backward"}
    return made


def traced(dropout: float = 0.0, module: nn.Module | None = None, shape=(512, 64)):
    """One graph of a step with its gradients, traced and marked as the trainer does it, and its
    inputs.
    """
    module = blocks(4, 64, dropout=dropout) if module is None else module
    names = [name for name, _ in module.named_parameters()]

    def step(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        loss = torch.func.functional_call(module, given, (x,)).square().mean()
        return loss, *gradients(loss, parameters)

    torch.manual_seed(1)
    inputs = (torch.randn(shape), *module.parameters())
    mode = FakeTensorMode()
    fake = [mode.from_tensor(value) for value in inputs]
    with contextlib.ExitStack() as open_ones:
        open_ones.enter_context(mode)
        open_ones.enter_context(preserve_node_meta())
        open_ones.enter_context(torch.autograd.set_multithreading_enabled(False))
        if MARKS:
            open_ones.enter_context(torch.compiler._non_strict_tracing_context())
            open_ones.enter_context(torch.compiler._patch_engine_backward())
        graph = make_fx(step, record_stack_traces=True)(*fake)
    return graph, inputs


class Attention(nn.Module):
    """Fused attention without dropout: it draws nothing, and yet its operator is marked as random."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = self.into(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(*read.unbind(0), is_causal=True)
        return x + torch.tanh(self.out(made.transpose(1, 2).flatten(2)))


class Writes(nn.Module):
    """Reads what a layer makes, then writes over it, and reads that."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.into = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.into(x)
        before = torch.tanh(made)
        made.add_(1.0)
        added = x + before * torch.sigmoid(made)
        return added + torch.tanh(added.sin().exp()).sigmoid()


class Chain(nn.Module):
    """Much that is cheap to make again."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.into = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.into(x)).sin().exp().sigmoid()


class Layered(nn.Module):
    """Layers that the trainer knows by their names."""

    def __init__(self, count: int = 6, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(blocks(1, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Host:
    """Stands in for the operators that move, on a CPU: what has left lies beside PyTorch's memory. Who reads a value
    behind the wait for its copy gets no number, or with `frees` no memory.
    """

    def __init__(self, frees: bool) -> None:
        self.frees, self.left = frees, 0

    def offload(self, value):
        self.left += 1
        return bytearray(ctypes.string_at(value.data_ptr(), value.nbytes)), value.dtype

    def wait(self, what, keepalive=None, last_use=None):
        if isinstance(what, torch.Tensor) or keepalive is None:
            return what
        keepalive.fill_(torch.nan)
        if self.frees:
            keepalive.untyped_storage().resize_(0)
        return what

    def reload(self, away, device, size, stride):
        value, (held, dtype) = torch.empty_strided(size, stride, dtype=away[1]), away
        return value.copy_(torch.frombuffer(held, dtype=dtype).view(size))

    def takes_over(self, graph):
        """The graph with its operators in place of those for a GPU."""
        ao = torch.ops.ao
        stands_for = {ao.offload: self.offload, ao.wait_tensor: self.wait, ao.reload: self.reload}
        for packet, own in stands_for.items():
            for node in graph.graph.find_nodes(op="call_function", target=packet.default):
                node.target = own
        graph.recompile()
        return graph


def sharding(policy: str, pipelines: int = 1):
    """What the trainer's configuration says of weights that were gathered."""
    parallelism = SimpleNamespace(fsdp_reshard_after_forward=policy, pipeline_parallel_degree=pipelines)
    return SimpleNamespace(parallelism=parallelism)


def backward_of(graph):
    return [node for node in graph.graph.nodes if node.meta.get("autograd_backward")]


def tags(graph):
    forward = [n for n in graph.graph.nodes if n.op == "call_function"]
    return [n.meta.get("recompute") for n in forward if not n.meta.get("autograd_backward")]


class Titan(Case):
    def setUp(self):
        super().setUp()
        warn_once.cache_clear()

    def all_are_kept(self, graph, why, **options):
        with self.assertWarnsRegex(EchoWarning, why):
            self.assertEqual(set(tags(titan.tag(graph, **options))), {CheckpointPolicy.MUST_SAVE})

    def test_the_signature(self):
        registry = part_of_titan("registry")
        titan.register(budget=0.5)
        policy = registry.MEMORY_POLICY_REGISTRY["echo"]
        kinds = {p.name: p.kind for p in inspect.signature(policy).parameters.values()}
        self.assertEqual(list(kinds.values())[0], inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.assertEqual(kinds["config"], inspect.Parameter.KEYWORD_ONLY)
        graph = traced(0.0)[0]
        self.assertIs(policy(graph, config=None), graph)
        with self.assertRaisesRegex(ValueError, "measure"):
            titan.register(measure=True)

    def test_the_trainer_finds_the_policy(self):
        """By its name in the configuration: the trainer's command line takes its own names alone."""
        policies = part_of_titan("memory_policy")
        titan.register(budget=0.6)
        config = sharding("default")
        config.compile = SimpleNamespace(memory_policy="echo")
        graph = policies.tag_with_memory_policy_pass(traced(0.0)[0], config=config)
        self.assertIn(CheckpointPolicy.MUST_RECOMPUTE, tags(graph))

    def test_the_trainers_command_line_lets_the_name_pass(self):
        """The other options are still taken from it, as the trainer's manager of configurations reads
        them.
        """
        try:
            configs, tyro = part_of_titan("configs"), importlib.import_module("tyro")
        except ImportError as missing:
            raise unittest.SkipTest(f"torchtitan does not import here: {missing}") from None
        compile_of = configs.GraphTrainerCompileConfig
        given = compile_of(enable=True)
        given.memory_policy = "echo"
        read = tyro.cli(compile_of, args=["--debug_graph_passes"], default=given)
        self.assertEqual((read.memory_policy, read.debug_graph_passes), ("echo", True))

    def test_tags(self):
        graph = traced(0.0)[0]
        found = tags(titan.tag(graph, budget=0.6))
        self.assertEqual(set(found), {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE})
        fits = tags(titan.tag(graph, budget="1GiB"))
        self.assertEqual(set(fits), {CheckpointPolicy.MUST_SAVE})

    def runs_again(self, rerun, prepare=lambda graph: None, **of):
        """What the pass makes of the tagged graph: the same bits, less at the peak."""
        graph, inputs = traced(**of)
        prepare(graph)

        def run(what):
            torch.manual_seed(2)
            return allocator_peak(lambda: what(*inputs))

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a budget that is not met
            expected, before = run(graph)
            made = rerun(titan.tag(graph, budget=0.6))
            made.graph.lint()
            made.recompile()
            values, after = run(made)
        self.assertTrue(any("recomputed" in node.name for node in made.graph.nodes))
        self.assert_same_bits(list(expected), list(values))
        self.assertLess(after, 0.9 * before)

    def pytorchs_pass(self):
        module = "remat_using_tags_for_fwd_loss_bwd_graph"
        folder = "torch._functorch._activation_checkpointing."
        return getattr(importlib.import_module(f"{folder}{module}_pass"), module)

    def trainers_pass(self):
        part_of_titan("cpu_offload")  # registers operators that the pass looks for
        return part_of_titan("selective_activation_remat").selective_activation_remat_pass

    def test_pytorchs_pass(self):
        self.runs_again(self.pytorchs_pass())

    def test_writes_in_place(self):
        """Of dropout and of the model's own: what was read before a write is not read once more."""
        self.runs_again(self.pytorchs_pass(), dropout=0.2)
        torch.manual_seed(0)
        self.runs_again(self.pytorchs_pass(), module=nn.Sequential(*(Writes() for _ in range(4))))

    def test_what_is_written_over_runs_once(self):
        host = titan.OneGraph(traced(module=Writes())[0])
        written = next(c for c in host.calls if c.node.name == "add_")
        facts = (written.writes, written.outputs[0].view_of, written.kind)
        self.assertEqual(facts, ([0], 0, "light"))
        least = host.core(host.facts()).plan("budget", 1, 0.0, 10.0)
        again = {host.calls[i].node.name for i, kind, *_ in least.steps if kind == "recompute"}
        self.assertIn("exp", again)
        self.assertTrue(again.isdisjoint({"addmm", "tanh", "add_"}))

    def test_attention_that_is_marked_as_random_is_kept(self):
        torch.manual_seed(0)
        module = nn.Sequential(*(Attention() for _ in range(4)))
        graph = traced(module=module, shape=(8, 64, 64))[0]
        seeded = torch.Tag.nondeterministic_seeded
        random = [n for n in graph.graph.nodes if seeded in getattr(n.target, "tags", ())]
        self.assertTrue(random)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the budget is one that no plan meets
            found = tags(titan.tag(graph, budget=1000))
        self.assertIn(CheckpointPolicy.MUST_RECOMPUTE, found)
        self.assertFalse(has_recomputable_rng_ops(graph))  # else passes raise

    def test_the_trainers_pass(self):
        self.runs_again(self.trainers_pass())

    def test_the_trainers_pass_moves(self):
        """What Echo tags leaves and comes back by the trainer's own pass, beside what runs again: the same bits, and
        the peak that Echo said.
        """
        rerun, apply = self.trainers_pass(), part_of_titan("cpu_offload").apply_cpu_offload_pass
        torch.manual_seed(0)
        module = Layered()
        part_of_titan("common_utils").annotate_module_fqns(module)
        shape = (4096, 64)
        shared = []

        def made(**asked):
            graph, inputs = traced(module=module, shape=shape)
            there_is_one = unittest.mock.patch("echo_torch.moves.ways_of")
            share = unittest.mock.patch(
                "echo_torch.titan.Agreement.share", lambda _, make: shared.append(make()) or shared[-1]
            )
            with warnings.catch_warnings(), there_is_one, share:
                warnings.simplefilter("ignore")  # a budget that is not met
                tagged = titan.tag(graph, **asked)
            return tagged, inputs, titan.reports[-1]

        def run(graph, inputs):
            torch.manual_seed(2)
            with torch.no_grad():
                return allocator_peak(lambda: graph(*inputs))

        expected, _ = run(*traced(module=module, shape=shape))
        alone = made(budget=0.3)[2]
        for host in (Host(frees=False), Host(frees=True)):
            graph, inputs, report = made(budget=0.3, offload="25GB/s")
            both = {CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.MUST_RECOMPUTE}
            self.assertLessEqual(both, set(tags(graph)))
            values, peak = run(host.takes_over(rerun(apply(graph))), inputs)
            self.assert_same_bits(list(expected), list(values))
            self.assertEqual(host.left, report.offloaded)
            self.assertEqual(json.loads(json.dumps(shared[-1])), shared[-1])  # as the other ranks read it
        self.assertLess(report.peak, 0.9 * alone.peak)
        self.assertLess(abs(peak - report.peak), 0.02 * report.peak)

    def test_moves_that_cannot_be(self):
        with self.assertRaisesRegex(ValueError, "25GB/s"):
            titan.register(offload=True)
        with self.assertRaisesRegex(ValueError, "no rate"):
            titan.register(offload="fast")
        self.trainers_pass()
        with self.assertWarnsRegex(EchoWarning, "runs on the device cpu"):
            found = tags(titan.tag(traced()[0], budget=0.6, offload="25GB/s"))
        self.assertNotIn(CheckpointPolicy.MUST_CPU_OFFLOAD, found)

    def test_what_the_gradients_of_the_loss_read_is_kept(self):
        """The pass hands them what it makes for the layers, which comes later."""

        def prepare(graph):
            """As the trainer does it: without `detach`, and with the head's nodes marked."""
            for node in list(graph.graph.nodes):
                if node.target is torch.ops.aten.detach.default:
                    node.replace_all_uses_with(node.args[0])
                    graph.graph.erase_node(node)
            graph.recompile()
            for node in backward_of(graph):
                if node.target is torch.ops.aten.sigmoid_backward.default:
                    break
                node.meta["custom"] = node.meta.get("custom", {}) | {"module_fqn": "lm_head"}

        torch.manual_seed(0)
        module = nn.Sequential(*(Chain() for _ in range(3)), nn.Linear(64, 64))
        self.runs_again(self.trainers_pass(), prepare, module=module)

    def test_gradients_that_do_not_stand_in_one_piece(self):
        """The passes stop at something to make again for two pieces."""

        def prepare(graph):
            backward = backward_of(graph)
            backward[len(backward) // 2].meta["autograd_backward"] = False

        for rerun in (self.trainers_pass(), self.pytorchs_pass()):
            self.runs_again(rerun, prepare)
        graph = traced()[0]
        prepare(graph)
        for node in graph.graph.nodes:
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        with self.assertRaises(RuntimeError):
            self.pytorchs_pass()(graph)

    def test_what_a_kernel_of_the_users_may_write_over_runs_once(self):
        """It has no schema that says so, and makes nothing."""
        graph = traced()[0]
        gelu = next(node for node in graph.graph.nodes if "gelu" in node.name)
        with graph.graph.inserting_after(gelu):
            kernel = graph.graph.call_function(print, (), {"x": gelu.args[0], "out": gelu})
        kernel.meta["val"] = None
        host = titan.OneGraph(graph)
        call = next(call for call in host.calls if call.node is kernel)
        self.assertEqual((call.writes, call.rerun), ([0, 1], "never"))
        least = host.core(host.facts()).plan("budget", 1, 0.0, 10.0)
        again = {host.calls[i].node for i, kind, *_ in least.steps if kind == "recompute"}
        self.assertTrue(again)
        self.assertTrue(again.isdisjoint({gelu, gelu.args[0]}))

    def test_a_graph_without_gradients(self):
        graph = make_fx(lambda x: x.sin().cos(), tracing_mode="fake")(torch.randn(8))
        self.all_are_kept(graph, "nothing in it depends on a gradient")

    def test_a_fault_of_ours(self):
        for place in ("echo_torch.titan.OneGraph", "echo_torch.titan.Agreement"):
            for fault in (ValueError, KeyError, RuntimeError):
                with unittest.mock.patch(place, side_effect=fault("broken")):
                    warn_once.cache_clear()
                    self.all_are_kept(traced()[0], r"a fault of Echo's own \(\w+\)")

    def test_the_graph_is_left_without_marks_of_ours(self):
        for graph in (traced()[0], traced(0.2)[0]):  # one of them writes in place
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                titan.tag(graph, budget=0.6)
            self.assertFalse([n for n in graph.graph.nodes if "partitioner_tag" in n.meta])

    def test_tags_of_the_user_stay_where_echo_does_not_plan(self):
        graph = traced()[0]
        gelu = next(node for node in graph.graph.nodes if "gelu" in node.name)
        gelu.meta["recompute"] = CheckpointPolicy.MUST_CPU_OFFLOAD
        with self.assertWarnsRegex(EchoWarning, "offloaded"):
            titan.tag(graph, budget=0.6)
        self.assertEqual(gelu.meta["recompute"], CheckpointPolicy.MUST_CPU_OFFLOAD)
        self.assertIn(CheckpointPolicy.MUST_SAVE, tags(graph))

    def test_a_budget_that_cannot_be_met(self):
        with self.assertWarnsRegex(EchoWarning, "cannot be met"):
            self.assertIn(CheckpointPolicy.MUST_RECOMPUTE, tags(titan.tag(traced()[0], budget=1000)))
        with self.assertRaisesRegex(BudgetError, "cannot be met"):
            titan.tag(traced()[0], budget=1000, strict=True)
        with self.assertRaisesRegex(BudgetError, "took longer"):
            titan.tag(traced()[0], budget=0.6, strict=True, seconds=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("error", EchoWarning)
            titan.tag(traced()[0], budget=0.6, strict=True)

    def test_options_that_make_no_sense(self):
        for options in ({"measure": True}, {"budget": "much"}, {"strategy": "best"}):
            with self.assertRaises(ValueError):
                titan.tag(traced()[0], **options)
        titan.tag(traced()[0], measure=False)


@unittest.skipUnless(
    MARKS and all(map(importlib.util.find_spec, ("torchtitan", "torchdata", "torch_checkpointing"))),
    "torchtitan does not train by this PyTorch, or is not all there",
)
class Trains(Case):
    """torchtitan's own trainer and passes, with everything kept and with Echo's choice."""

    def trained(self, count, *how):
        """Of each rank, a hash of the parameters after some steps, the peak of a step, and what Echo
        said that it would be.
        """
        texts = run_ranks(*how, program="titan_train.py", count=count)
        told = [re.search("^parameters.*$", text, re.MULTILINE) for text in texts]
        return [line[0].split()[1::2] for line in told]

    def one_rank(self, model, part, *budget):
        """It needs that part of what keeping all needs, and what Echo said."""
        ((digest, kept, _),) = self.trained(1, model, "keep")
        ((same, peak, predicted),) = self.trained(1, model, "echo", *budget)
        self.assertEqual(same, digest)
        self.assertLess(int(peak), part * int(kept))
        self.assertLess(abs(int(peak) - int(predicted)), 0.01 * int(predicted))

    def test_llama_within_a_budget(self):
        self.one_rank("llama3", 0.61, "0.6")

    def test_deepseek_with_its_experts(self):
        self.one_rank("deepseek_v3", 0.6)

    def test_ranks_that_shard_their_parameters(self):
        # When gloo lets go of what it gathers is not the same every time, by some part of the peak.
        ranks = zip(self.trained(2, "llama3", "keep"), self.trained(2, "llama3", "echo"), strict=True)
        for kept, made in ranks:
            self.assertEqual(made[0], kept[0])
            self.assertLess(int(made[1]), 0.6 * int(kept[1]))


class Sharded(Case):
    """Weights that the graph gathers from 64 ranks, in one process."""

    def setUp(self):
        super().setUp()
        part_of_titan("memory_policy")
        dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)

    def gathered_again(self, config):
        from ranks import gathered

        # Whole weights take far more than what the layers make, so half of it needs some of them.
        graph = traced(module=gathered(6, 512), shape=(16, 512))[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a budget that needs them is not met without them
            titan.tag(graph, config=config, budget=0.5)
        return any(
            node.meta.get("recompute") is CheckpointPolicy.MUST_RECOMPUTE
            for node in graph.graph.nodes
            if "all_gather" in node.name
        )

    def test_weights_are_gathered_again_where_the_configuration_says_so(self):
        self.assertTrue(self.gathered_again(None))
        self.assertTrue(self.gathered_again(sharding("always", 2)))
        self.assertTrue(self.gathered_again(sharding("default")))
        self.assertFalse(self.gathered_again(sharding("default", 2)))
        self.assertFalse(self.gathered_again(sharding("never")))


if __name__ == "__main__":
    unittest.main()
