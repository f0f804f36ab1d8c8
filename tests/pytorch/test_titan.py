"""The memory policy for torchtitan: its signature is the registry's, and the trainer's own pass runs
again what it tags, with the same bits.
"""

from __future__ import annotations

import importlib
import inspect
import unittest
import warnings

import torch
from support import Case
from test_safety import blocks
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils.checkpoint import CheckpointPolicy

from echo_torch import titan  # isort: split
from measure import allocator_peak

GRAPH_TRAINER = "torchtitan.experiments.graph_trainer."


def part_of_titan(name: str):
    try:
        return importlib.import_module(GRAPH_TRAINER + name)
    except ImportError as missing:
        raise unittest.SkipTest(f"torchtitan does not import here: {missing}") from None


def traced(dropout: float):
    """One graph of a step with its gradients, traced and marked as the trainer does it, and its
    inputs.
    """
    if not hasattr(torch.compiler, "_patch_engine_backward"):
        raise unittest.SkipTest("this PyTorch does not mark backward nodes")
    module = blocks(4, 64, dropout=dropout)
    names = [name for name, _ in module.named_parameters()]

    def step(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        loss = torch.func.functional_call(module, given, (x,)).square().mean()
        return loss, *torch.autograd.grad(loss, parameters)

    torch.manual_seed(1)
    inputs = (torch.randn(512, 64), *module.parameters())
    mode = FakeTensorMode()
    fake = [mode.from_tensor(value) for value in inputs]
    with (
        mode,
        preserve_node_meta(),
        torch.autograd.set_multithreading_enabled(False),
        torch.compiler._non_strict_tracing_context(),
        torch.compiler._patch_engine_backward(),
    ):
        graph = make_fx(step, record_stack_traces=True)(*fake)
    return graph, inputs


def tags(graph):
    forward = [n for n in graph.graph.nodes if n.op == "call_function"]
    return [n.meta.get("recompute") for n in forward if not n.meta.get("autograd_backward")]


class Titan(Case):
    def test_the_signature(self):
        registry = part_of_titan("registry")
        titan.register(budget=0.5)
        policy = registry.MEMORY_POLICY_REGISTRY["echo"]
        kinds = {p.name: p.kind for p in inspect.signature(policy).parameters.values()}
        self.assertEqual(list(kinds.values())[0], inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.assertEqual(kinds["config"], inspect.Parameter.KEYWORD_ONLY)
        graph = traced(0.0)[0]
        self.assertIs(policy(graph, config=None), graph)

    def test_tags(self):
        graph = traced(0.0)[0]
        found = tags(titan.tag(graph, budget=0.6))
        self.assertEqual(set(found), {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE})
        fits = tags(titan.tag(graph, budget="1GiB"))
        self.assertEqual(set(fits), {CheckpointPolicy.MUST_SAVE})

    def runs_again(self, rerun):
        """What the pass makes of the tagged graph: the same bits, less at the peak."""
        graph, inputs = traced(0.0)
        with torch.no_grad():
            expected, before = allocator_peak(lambda: graph(*inputs))
            made = rerun(titan.tag(graph, budget=0.6))
            made.recompile()
            values, after = allocator_peak(lambda: made(*inputs))
        self.assertTrue(any("recomputed" in node.name for node in made.graph.nodes))
        self.assert_same_bits(list(expected), list(values))
        self.assertLess(after, 0.9 * before)

    def test_pytorchs_pass(self):
        module = "remat_using_tags_for_fwd_loss_bwd_graph"
        folder = "torch._functorch._activation_checkpointing."
        self.runs_again(getattr(importlib.import_module(f"{folder}{module}_pass"), module))

    def test_the_trainers_pass(self):
        part_of_titan("cpu_offload")  # registers operators that the pass looks for
        remat = part_of_titan("selective_activation_remat")
        self.runs_again(remat.selective_activation_remat_pass)

    def test_a_graph_that_writes_in_place_is_kept(self):
        graph = traced(0.2)[0]
        self.assertEqual(set(tags(titan.tag(graph, budget=0.6))), {CheckpointPolicy.MUST_SAVE})

    def test_a_graph_without_gradients(self):
        graph = make_fx(lambda x: x.sin().cos(), tracing_mode="fake")(torch.randn(8))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(set(tags(titan.tag(graph))), {CheckpointPolicy.MUST_SAVE})
        self.assertRegex(str(said[-1].message), "nothing depends on a gradient")


if __name__ == "__main__":
    unittest.main()
