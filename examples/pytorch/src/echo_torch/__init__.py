"""Trains PyTorch models in less memory: feature maps that are cheap to make are made again, exactly.

    model = torch.compile(model, backend="echo")
    model = torch.compile(model, backend=echo_torch.backend(budget=0.5))

Options of `backend`, `partition_fn`, `partitioner` and `estimate`: see `echo_torch.partition.Options`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["backend", "estimate", "partition_fn", "partitioner", "reports"]
TESTED = ("2.11", "2.13")  # other versions are tried first: see `_distrust`


def partition_fn(**options: Any) -> Callable[..., Any]:
    """A `partition_fn` for users of AOTAutograd. ValueError: an option makes no sense. ImportError: this PyTorch lacks
    what even its own partition is made by.
    """
    from echo_torch import hooks
    from echo_torch.partition import Options, partition

    hooks.require(*hooks.TO_PARTITION)
    return functools.partial(partition, options=Options(**options), distrust=_distrust())


def backend(**options: Any) -> Callable[..., Any]:
    """A backend for `torch.compile`, without Inductor."""
    return _backend(partition_fn(**options))


def _backend(divide: Callable[..., Any]) -> Callable[..., Any]:
    from echo_torch import hooks, outside

    hooks.require("aot_autograd", "boxed_nop", *hooks.TO_PARTITION)

    def echo_backend(graph: Any, inputs: Any, *, options: dict[str, Any] | None = None, **_: Any) -> Any:
        watched = outside.graph_of(graph)
        compile_it = hooks.aot_autograd(
            fw_compiler=watched.forward,
            bw_compiler=watched.backward,
            inference_compiler=hooks.boxed_nop,
            partition_fn=watched.divide(partition_fn(**options) if options else divide),
            keep_inference_input_mutations=True,
        )
        with outside.traceable(graph, inputs):
            return compile_it(graph, inputs)

    echo_backend.is_echo = True  # type: ignore[attr-defined]
    outside.listen()
    return echo_backend


@functools.cache
def _distrust() -> str | None:
    """Why graphs are left to this PyTorch: it lacks what Echo needs, or it is of no version that is tested, and by it a
    small model trains otherwise with Echo than without.
    """
    import torch
    from torch import nn

    from echo_torch import hooks

    tested = any(torch.__version__.startswith(version + ".") for version in TESTED)
    if hooks.missing or tested:
        return hooks.fault()
    from echo_torch.partition import Options, partition, reports

    def gradients(backend: Any) -> list[Any]:
        torch.default_generator.manual_seed(0)  # the weights of both trials are the same
        kind = torch.float32
        layers = [nn.Linear(32, 32, dtype=kind), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(32, dtype=kind)]
        module = nn.Sequential(*layers * 2)
        x = torch.randn(256, 32, dtype=kind)
        torch.compile(module, backend=backend)(x).square().sum().backward()
        return [p.grad for p in module.parameters()]

    before = len(reports)
    try:
        # On the CPU, whatever the user's default device is: its generator would be drawn from.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            divide = functools.partial(partition, options=Options(budget=0.7, measure=False))
            pairs = zip(gradients("aot_eager"), gradients(_backend(divide)), strict=True)
            if all(torch.equal(a, b) for a, b in pairs) and reports[-1].reason is None:
                return None
    except Exception:
        pass
    finally:
        del reports[before:]
    return f"by PyTorch {torch.__version__} a small model trains otherwise than without Echo"


def __getattr__(name: str) -> Any:
    """`echo`, the backend "echo" of `torch.compile`: made when it is looked up, which is before anything is traced, so
    that `_distrust` may compile its model.
    """
    if name == "echo":
        return backend()
    raise AttributeError(f"module 'echo_torch' has no attribute '{name}'")


def partitioner(**options: Any) -> Any:
    """A partitioner for Inductor: `options={"custom_partitioner_fn": echo_torch.partitioner()}`.

    Experimental: plans do not know what Inductor fuses, so what it says of peaks and times is not what happens.
    """
    from echo_torch.inductor import Partitioner

    return Partitioner(**options)


def estimate(*args: Any, **options: Any) -> Any:
    """What a training step needs, before anything is allocated: see `echo_torch.estimation.estimate`."""
    from echo_torch.estimation import estimate as estimate_step

    return estimate_step(*args, **options)


def reports() -> list[Any]:
    """What became of every graph that was compiled in this process: see `echo_torch.partition.Report`."""
    from echo_torch.partition import reports as all_reports

    return all_reports
