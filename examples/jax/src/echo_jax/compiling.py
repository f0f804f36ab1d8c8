"""Compiles a step, here or for a named TPU topology, and reads what the compiler says about its memory."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from echo_jax import assignment, calls, hlo
from echo_jax.calls import Call, Declined, first_line, traced
from echo_jax.flops import flops

DUMP = "after_optimizations-buffer-assignment.txt"
TESTED = ("0.10.",)  # versions of JAX; another one is tried on a small program first
NEAR = 0.03  # parts by which buffers may differ from what the compiler states
MEMORY_SCHEDULER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
TPU_ENVIRONMENT = {  # libtpu compiles without a TPU, and asks no server for one
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


@dataclass(frozen=True)
class Sizes:
    """Bytes that the compiler states for one device."""

    temp: int
    arguments: int
    outputs: int
    aliased: int  # outputs that take over the memory of donated arguments
    host: int = 0  # temporary bytes in the host's memory, where values were moved to

    @property
    def total(self) -> int:
        return self.temp + self.arguments + self.outputs - self.aliased


@dataclass(frozen=True)
class Compiled:
    """A compiled step."""

    name: str
    platform: str
    sizes: Sizes
    flops: float
    executable: Any  # jax.stages.Compiled
    program: hlo.Program | None = None
    memory: assignment.Assignment | None = None


def compile_step(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    topology: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compiles `step` for these arguments: arrays, or shapes and dtypes.

    Declined: it does not trace or compile, or the topology, this JAX or the compiler's dump is not known.
    """
    if not jax.__version__.startswith(TESTED) and (fault := fault_of_version()):
        raise Declined(f"JAX {jax.__version__} is not known to this version of Echo, which needs {TESTED[0]}x: {fault}")
    return _compiled(step, args, kwargs, topology, compiler_options)


@functools.cache
def fault_of_version() -> str:
    """What is wrong with the texts that this JAX writes: a small program is compiled, and the sum of its buffers is
    compared with the size that the compiler states. Empty where they agree.
    """
    step = jax.jit(jax.grad(lambda x: jax.numpy.tanh(jax.numpy.tanh(x @ x) @ x).sum()))
    try:
        found = _compiled(step, (jax.ShapeDtypeStruct((512, 512), "float32"),), {}, None, None)
    except Declined as why:
        return str(why)
    assert found.memory is not None
    told, stated = found.memory.temp_bytes(), found.sizes.temp
    if abs(told - stated) <= NEAR * stated:
        return ""
    return f"a program with {stated} bytes of temporary memory has buffers of {told} bytes in its text"


def _compiled(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    topology: str | None,
    compiler_options: Mapping[str, Any] | None,
) -> Compiled:
    place = None if topology is None else device_of(topology)
    begun = lowered(step, calls.of(step, args, kwargs).shaped(place))
    try:
        with tempfile.TemporaryDirectory(prefix="echo_jax") as folder, _no_cache():
            options = {**(compiler_options or {}), "xla_dump_to": folder, "xla_dump_hlo_as_text": True}
            executable = begun.compile(compiler_options=options)
            texts = _dumped(Path(folder), executable)
    except Declined:
        raise
    except Exception as fault:
        raise Declined(f"the compiler refuses the step: {first_line(fault)}") from fault
    try:
        program = hlo.parse(texts[0])
        memory = assignment.parse(texts[1], texts[2])
    except ValueError as fault:
        raise Declined(f"{fault}; jax {jax.__version__} may be too new or too old for this version of Echo") from fault
    platform = topology or jax.default_backend()
    return Compiled(program.name, platform, _sizes(executable), flops(program), executable, program, memory)


def lowered(step: Callable[..., Any], call: Call) -> Any:
    """A function that is not jitted yet is jitted. Declined: it does not trace."""
    told, _ = traced(step, call)
    try:
        return told.lower()
    except Exception as fault:
        raise Declined(f"the step cannot be lowered: {first_line(fault)}") from fault


def device_of(topology: str) -> Any:
    """One device of a TPU that need not be there. Declined: libtpu is not installed, or does not know it."""
    if jax.default_backend() != "tpu":  # a TPU that is there keeps its own settings
        for key, value in TPU_ENVIRONMENT.items():
            os.environ.setdefault(key, value)
    try:
        from jax.experimental import topologies

        description = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    except Exception as fault:
        raise Declined(
            f"no compiler for the topology '{topology}': {first_line(fault)}; install libtpu and write a topology such "
            "as 'v5e:2x2'"
        ) from fault
    return jax.sharding.SingleDeviceSharding(description.devices[0])


def _sizes(executable: Any) -> Sizes:
    stats = executable.memory_analysis()
    return Sizes(
        stats.temp_size_in_bytes,
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.alias_size_in_bytes,
        stats.host_temp_size_in_bytes,
    )


def _dumped(folder: Path, executable: Any) -> tuple[str, str, str]:
    """HLO, buffer assignment and live ranges of the module. Declined: the compiler has not written them."""
    name = executable.runtime_executable().hlo_modules()[0].name
    found = sorted(path for path in folder.glob(f"*{DUMP}") if f".{name}." in path.name)
    if not found:
        raise Declined(f"the compiler for {jax.default_backend()} dumps no buffer assignment of '{name}'")
    stem = str(found[-1]).removesuffix("-buffer-assignment.txt")
    texts = []
    for end in (".txt", "-buffer-assignment.txt", "-live-range.txt"):
        try:
            texts.append(Path(stem + end).read_text())
        except OSError as fault:
            raise Declined(f"the compiler has written no '*{end}' of '{name}'") from fault
    return texts[0], texts[1], texts[2]


@contextmanager
def _no_cache() -> Iterator[None]:
    """Without the persistent cache, from which a program comes without a dump."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
