"""Trains PyTorch models in less memory: feature maps that are cheap to make are made again, exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["backend", "partitioner", "partition_fn", "echo", "reports"]


def backend(**options: Any) -> Callable[..., Any]:
    """A backend for `torch.compile`, without Inductor. Options: see `echo_torch.partition.Options`."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop

    return aot_autograd(
        fw_compiler=boxed_nop, partition_fn=partition_fn(**options), keep_inference_input_mutations=True
    )


def partition_fn(**options: Any) -> Callable[..., Any]:
    """A `partition_fn` for users of AOTAutograd."""
    from echo_torch.partition import Options, partition

    return functools.partial(partition, options=Options(**options))


def echo(graph: Any, inputs: Any, **_: Any) -> Any:
    """The backend "echo" of `torch.compile`, with the defaults."""
    return backend()(graph, inputs)


def reports() -> list[Any]:
    """What became of every graph that was compiled in this process."""
    from echo_torch.partition import reports as all_reports

    return all_reports
