"""Whether operators do what `graph.py`, `host.py` and `reuse.py` say of them.

    python operators.py [--samples N] [--dtypes DTYPE…] [--forms FORM…] [NAME…]

PyTorch's own list of operators is walked (`op_db`; all of it, or what has one of the names in its
own). Each is traced with its gradient as AOTAutograd traces it, and every node of that graph then
runs on real tensors of the CPU and is watched: on which argument's storage its results lie, what it
writes to, whether it draws random numbers, whether it makes the same bits again (also under a dispatch
mode, which AOTAutograd opens for the first call of a graph), whether the same bits come out where the
result is written over an argument, and whether it needs the scratch memory that was measured on
made-up tensors. What differs from what Echo says is printed, one line for each.

Inputs come in several forms: as they are, with gaps between their elements, lazily conjugated and
lazily negated.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import unittest.mock
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_function
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from echo_torch import costs, reuse
from echo_torch.graph import Call, Unknown, leaves
from echo_torch.host import call_of

# What is not written yet has no bits that could be the same.
UNWRITTEN = ("empty", "resize", "set_", "_efficientzerotensor")

# How inputs come to an operator; those of no use for a dtype are left out.
FORMS = {
    "plain": lambda x: x,
    "gaps": lambda x: torch.stack([x, x], -1)[..., 0] if x.dim() else x,
    "conjugated": lambda x: x.conj() if x.is_complex() else None,
    "negated": lambda x: torch._neg_view(x) if x.is_floating_point() else None,
}


class _Traced(Exception):
    """Leaves the tracer once the graph is there: nothing is to be compiled."""


class _NotRun(Exception):
    """The operator itself does not run here."""


@dataclass
class Findings:
    """What was watched. `wrong`: an operator, and what it does that Echo says it does not."""

    traced: set[str] = field(default_factory=set)  # names of `op_db`
    ran: set[str] = field(default_factory=set)  # overloads
    written_over: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)  # their scratch memory, on made-up tensors
    unmeasured: dict[str, str] = field(default_factory=dict)  # and why
    varies: set[str] = field(default_factory=set)  # needs other scratch memory on other data
    wrong: dict[tuple[str, str], str] = field(default_factory=dict)  # and where it was first seen
    untraced: dict[str, str] = field(default_factory=dict)  # names of `op_db`, and why
    costs: dict[str, Any] = field(default_factory=dict)  # by jobs


def same_bits(one: Any, other: Any) -> bool:
    """Whether two results are the same, NaN for NaN."""
    ones, others = pytree.tree_leaves(one), pytree.tree_leaves(other)
    if len(ones) != len(others):
        return False
    for a, b in zip(ones, others, strict=True):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            if a is not b and a != b and not (a != a and b != b):
                return False
        elif a.shape != b.shape or a.dtype != b.dtype or bits(a) != bits(b):
            return False
    return True


def bits(value: torch.Tensor) -> bytes:
    plain = value.detach().resolve_conj().resolve_neg()
    flat = plain.reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def lazy(value: torch.Tensor) -> tuple[bool, bool]:
    return value.is_conj(), value.is_neg()


def storage_of(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


class FirstCall(TorchDispatchMode):
    """A mode that runs every operator as it is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Watched(fx.Interpreter):
    """Runs a graph and looks at every operator."""

    def __init__(self, graph: fx.GraphModule, findings: Findings, where: str) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.findings, self.where = findings, where
        self.at = ""  # the operator that is looked at

    def run_node(self, node: fx.Node) -> Any:
        self.at = str(node.target)
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        call = call_of(node, "forward", lambda read: (0, 0))
        read = [self.env[of] for of in call.reads]
        given = copied((args, kwargs))
        before = torch.get_rng_state()
        try:
            made = node.target(*args, **kwargs)
        except Exception as fault:
            raise _NotRun(_first_line(fault)) from fault
        self.findings.ran.add(str(node.target))
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        self._storages(call, read, outputs)
        self._writes(call, (args, kwargs), given)
        drew = not torch.equal(before, torch.get_rng_state())
        if drew and call.rerun == "pure":
            self._wrong(call, "draws random numbers")
        if call.rerun != "never" and not any(part in str(node.target) for part in UNWRITTEN):
            self._again(call, given, made, before)
        self._over(call, given, made)
        self._scratch(call, given)
        return made

    def _again(self, call: Call, given: Any, made: Any, state: torch.Tensor) -> None:
        after = torch.get_rng_state()
        for mode in (contextlib.nullcontext(), FirstCall()):
            torch.set_rng_state(state)
            args, kwargs = copied(given)
            with mode:
                again = call.node.target(*args, **kwargs)
            if not same_bits(made, again):
                under = "" if isinstance(mode, contextlib.nullcontext) else " under a dispatch mode"
                self._wrong(call, f"makes other bits when it runs again{under}")
        torch.set_rng_state(after)

    def _scratch(self, call: Call, given: Any) -> None:
        """What it needs beside its results, as measured on made-up tensors and as it is."""
        target, job = str(call.node.target), costs.job_of(call)
        cost = self._measured(job) if isinstance(job, tuple) else job
        if cost is None:
            return
        if isinstance(cost, str):
            self.findings.unmeasured[target] = cost
            return
        args, kwargs = copied(given)
        real = costs._held(lambda: call.node.target(*args, **kwargs), lambda: 0.0)[1]
        made = sum(value.bytes for value in call.outputs if value.view_of is None)
        needs, least, most = (max(held - made, 0) for held in (real, cost.least, cost.most))
        self.findings.measured.add(target)
        if least < most:
            self.findings.varies.add(target)
        if not least <= needs <= most:
            told = f"{least} to {most}" if least < most else str(most)
            self._wrong(call, f"needs other scratch memory than was measured ({needs} for {told})")

    def _measured(self, job: Any) -> Any:
        key = repr(job)
        if key not in self.findings.costs:
            state = torch.get_rng_state()
            with unittest.mock.patch.object(costs, "REPEATS", 0):
                self.findings.costs[key] = costs._cost(job, "cpu")
            torch.set_rng_state(state)
        return self.findings.costs[key]

    def _wrong(self, call: Call, what: str) -> None:
        self.findings.wrong.setdefault((str(call.node.target), what), self.where)

    def _storages(self, call: Call, read: list[Any], outputs: list[Any]) -> None:
        seen: dict[int, int] = {}
        for output, value in enumerate(outputs):
            if not isinstance(value, torch.Tensor) or output >= len(call.outputs):
                continue
            of = call.outputs[output]
            said = of.view_of if of.view_of is not None else of.inplace
            here = storage_of(value)
            on = [k for k, tensor in enumerate(shared(read)) if tensor == here]
            if said is None and on:
                self._wrong(call, f"output {output} lies on input {on[0]}, and is said to be new")
            elif said is not None and said not in on:
                what = f"on input {on[0]}" if on else "on no input"
                self._wrong(call, f"output {output} is said to lie on input {said}, and lies {what}")
            traced_value = list(leaves(call.node.meta["val"]))[output]
            if lazy(value) != lazy(traced_value):
                self._wrong(call, f"output {output} is conjugated or negated otherwise than traced")
            size = value.untyped_storage().nbytes()
            if said is None and size > of.bytes:
                self._wrong(call, f"output {output} takes more memory than is said")
            if said is None and here in seen:
                self._wrong(call, f"outputs {seen[here]} and {output} lie on one storage")
            seen.setdefault(here, output)

    def _writes(self, call: Call, now: Any, given: Any) -> None:
        schema = call.node.target._schema
        if schema.is_mutable:
            if call.rerun != "never":
                self._wrong(call, "writes to an argument, and may run again")
        elif not same_bits(now, given):
            self._wrong(call, "writes to an argument, which its schema does not say")

    def _over(self, call: Call, given: Any, made: Any) -> None:
        """The same, with the result written over each argument that `reuse.py` would choose."""
        with unittest.mock.patch.object(reuse, "LEAST_BYTES", 0):
            writer = reuse.writer_of(call)
        for k in reuse.fits(call, writer) if writer else ():
            args, kwargs = copied(given)
            over = pytree.tree_map_only(fx.Node, lambda n: n is call.reads[k], call.node.args)
            place = next(
                value
                for value, is_it in zip(pytree.tree_leaves(args), pytree.tree_leaves(over))
                if is_it is True and isinstance(value, torch.Tensor)
            )
            more = {writer[1]: place} if writer[1] is not None else {}
            got = writer[0](*args, **kwargs, **more)
            self.findings.written_over.add(str(call.node.target))
            if got is not place or not same_bits(made, got):
                self._wrong(call, f"makes other bits when it is written over input {k}")


def shared(read: list[Any]) -> list[int]:
    return [storage_of(value) if isinstance(value, torch.Tensor) else 0 for value in read]


def copied(values: Any) -> Any:
    """Copies of all tensors on storages of their own, laid out alike."""

    def copy(value: torch.Tensor) -> torch.Tensor:
        if value.is_conj() or value.is_neg():
            return copy(value.conj()).conj() if value.is_conj() else copy(value._neg_view())._neg_view()
        whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).clone()
        return whole.as_strided(value.shape, value.stride(), value.storage_offset())

    return pytree.tree_map_only(torch.Tensor, copy, values)


# ---- Tracing


def traced(op: Any, sample: Any, form: str = "plain") -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The joint graph of one call and its gradients, or that of the call alone, and its inputs.

    _NotRun: none of them can have that form.
    """
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    found: list[fx.GraphModule] = []

    def step(*tensors: torch.Tensor) -> list[torch.Tensor]:
        all_leaves = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            formed = FORMS[form](tensor)
            all_leaves[place] = tensor if formed is None else formed
        first, args, kwargs = pytree.tree_unflatten(all_leaves, spec)
        made = pytree.tree_leaves(op(first, *args, **kwargs))
        return [value for value in made if isinstance(value, torch.Tensor)]

    def keep(graph: fx.GraphModule, *_: Any, **__: Any) -> Any:
        found.append(graph)
        raise _Traced

    inputs = [leaves[place].detach().clone() for place in places]
    if all(FORMS[form](value) is None for value in inputs):
        raise _NotRun(f"no input can be {form}")
    for made, place in zip(inputs, places, strict=True):
        made.requires_grad_(leaves[place].requires_grad)
    with contextlib.suppress(_Traced):
        aot_function(step, keep, keep, partition_fn=keep, keep_inference_input_mutations=True)(*inputs)
    return found[0], [value.detach() for value in inputs]


def filled(graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Iterator[Any]:
    """What the placeholders stand for: the inputs, and gradients of random numbers."""
    rest = iter(inputs)
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if "tangents" not in str(node.target):
            yield next(rest)
        else:
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            made.copy_(torch.randn(value.shape).to(value.dtype))
            made = made.conj() if value.is_conj() else made
            yield made._neg_view() if value.is_neg() else made


def samples_of(entry: Any, count: int, kind: torch.dtype | None) -> Iterator[Any]:
    """Some sample inputs of a dtype, else in floating point where the operator takes it."""
    kinds = entry.supported_dtypes("cpu")
    if kind is None:
        kind = torch.float32 if torch.float32 in kinds else min(kinds, key=str)
    if kind not in kinds:
        return
    gradient = entry.supports_autograd and (kind.is_floating_point or kind.is_complex)
    for position, sample in enumerate(entry.sample_inputs("cpu", kind, requires_grad=gradient)):
        if position >= count:
            break
        yield sample


def watch(
    entries: list[Any],
    samples: int,
    kinds: Sequence[Any] = (None,),
    forms: Sequence[str] = ("plain",),
) -> Findings:
    """Walks over entries of `op_db`, that many sample inputs of each in every dtype and form."""
    findings = Findings()
    for entry, kind, form in itertools.product(entries, kinds, forms):
        name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
        try:
            ready = list(_ready(entry, samples, kind, form))
        except Exception as fault:  # it needs data, a library or a device that is not there
            findings.untraced[name] = _first_line(fault)
            continue
        for graph, values in ready:
            watched = Watched(graph, findings, name)
            try:
                torch.manual_seed(0)
                with torch.no_grad():
                    watched.run(*values)
                findings.traced.add(name)
            except (Unknown, _NotRun) as known:
                findings.untraced[name] = str(known)
            except Exception as fault:  # of what Echo says, or of what it would run
                findings.wrong.setdefault((watched.at, f"raises {_first_line(fault)}"), name)
    return findings


def _ready(entry: Any, samples: int, kind: torch.dtype | None, form: str) -> Iterator[tuple[fx.GraphModule, list[Any]]]:
    """The graphs of sample inputs, and what their placeholders stand for."""
    for sample in samples_of(entry, samples, kind):
        torch.manual_seed(0)
        with contextlib.suppress(_NotRun):
            graph, inputs = traced(entry.op, sample, form)
            yield graph, list(filled(graph, inputs))


def _first_line(fault: Exception) -> str:
    return f"{type(fault).__name__}: {next(iter(str(fault).splitlines()), '')}"


def main() -> int:
    from torch.testing._internal.common_methods_invocations import op_db

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4, help="of each operator, dtype and form")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "complex64"])
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [e for e in op_db if not options.names or any(n in e.name for n in options.names)]
    kinds = [getattr(torch, name) for name in options.dtypes]
    found = watch(chosen, options.samples, kinds, options.forms)
    for (target, what), where in sorted(found.wrong.items()):
        print(f"{target}: {what} (in {where})")
    for name, why in sorted(found.untraced.items()):
        print(f"not run: {name}: {why[:150]}")
    for target, why in sorted(found.unmeasured.items()):
        print(f"not measured: {target}: {why[:150]}")
    print(f"scratch memory depends on data: {', '.join(sorted(found.varies))}")
    print(
        f"{len(found.traced)} of {len(chosen)} operators traced, {len(found.ran)} overloads ran, "
        f"{len(found.written_over)} written over an argument, {len(found.measured)} measured, "
        f"{len(found.wrong)} wrong"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
