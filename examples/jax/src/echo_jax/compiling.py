"""Compiles a step, here or for a named TPU topology, and reads what the compiler says about its memory."""

from __future__ import annotations

import functools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from echo_jax import assignment, calls, hlo
from echo_jax.calls import Call, Declined, Place, first_line, traced
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
_COMPILING = threading.RLock()  # the compilation cache is switched off for the whole process


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
    executable: Any  # jax.stages.Compiled; None where it is refused
    program: hlo.Program | None = None
    memory: assignment.Assignment | None = None
    refusal: str = ""  # what the compiler says where the step needs more memory than the device has

    @property
    def capacity(self) -> int | None:
        """Bytes of the device, where the compiler has refused the step and says so."""
        found = re.search(r"(?:available HBM \(| of )([\d.]+)([KMGT])", self.refusal)
        return int(float(found[1]) * 1024 ** ("KMGT".index(found[2]) + 1)) if found else None


def compile_step(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    topology: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compiles `step` for these arguments: arrays, or shapes and dtypes.

    A step that needs more memory than the device has is not declined, where the compiler tells what it needs.

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
    call = calls.of(step, args, kwargs, calls.needs_fixed_numbers(step, args, kwargs))
    begun = lowered(step, call.shaped(place_of(topology, call.arrays)))
    try:
        with tempfile.TemporaryDirectory(prefix="echo_jax") as folder, _no_cache():
            options = {**(compiler_options or {}), "xla_dump_to": folder, "xla_dump_hlo_as_text": True}
            executable, refusal = _tried(begun, options)
            texts = _dumped(Path(folder), _name(begun), refusal)
    except Declined:
        raise
    except Exception as fault:
        raise Declined(f"the compiler refuses the step: {first_line(fault)}") from fault
    try:
        program = hlo.parse(texts[0])
        memory = assignment.parse(texts[1], texts[2])
    except ValueError as fault:
        raise Declined(f"{fault}; jax {jax.__version__} may be too new or too old for this version of Echo") from fault
    platform = topology or device_of(call.arrays).platform
    sizes = _sizes(executable) if executable is not None else _counted(memory)
    return Compiled(program.name, platform, sizes, flops(program), executable, program, memory, refusal)


def _tried(begun: Any, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The executable; or none, and why, where memory does not suffice."""
    try:
        return begun.compile(compiler_options=options), ""
    except Exception as fault:
        if "RESOURCE_EXHAUSTED" not in str(fault):
            raise
        return None, first_line(fault)


def _name(begun: Any) -> str:
    return str(begun.compiler_ir("stablehlo").operation.attributes["sym_name"]).strip('"')


def lowered(step: Callable[..., Any], call: Call) -> Any:
    """A function that is not jitted yet is jitted. Declined: it does not trace."""
    told, _ = traced(step, call)
    try:
        return told.lower()
    except Exception as fault:
        hint = ""
        if "incompatible devices" in str(fault):
            hint = "; make the meshes of the step from one list of devices, for a TPU from echo_jax.devices(topology)"
        raise Declined(f"the step cannot be lowered: {first_line(fault)}{hint}") from fault


def device_of(arrays: Sequence[Any], topology: str | None = None) -> Any:
    """The first device of those for which a step with these arguments is compiled. Declined as by `place_of`."""
    if topology is not None:
        return devices(topology)[0]
    at = [sharding for leaf in arrays if (sharding := calls.stated(leaf)) is not None and _count(sharding)]
    return min(max(at, key=_count).device_set, key=lambda each: each.id) if at else jax.devices()[0]


def place_of(topology: str | None, arrays: Sequence[Any]) -> Place:
    """Where arguments lie: as they state; for a topology, on its first device, or sharded over as many of its devices
    as they state. Declined: libtpu is not installed, does not know the topology, or that has too few devices.
    """
    if topology is None:
        return lambda sharding: sharding
    there = devices(topology)
    most = max((_count(sharding) for leaf in arrays if (sharding := calls.stated(leaf)) is not None), default=1)
    if most <= 1:
        return lambda _: jax.sharding.SingleDeviceSharding(there[0])
    if most > len(there):
        raise Declined(f"the arguments lie on {most} devices, and the topology '{topology}' has {len(there)}")

    def place(sharding: Any) -> Any:
        if sharding is None or _count(sharding) <= 1:
            return None
        if next(iter(sharding.device_set)).platform == "tpu":
            return sharding
        if not isinstance(sharding, jax.sharding.NamedSharding):
            raise Declined(f"an argument is sharded by {type(sharding).__name__}: write a jax.sharding.NamedSharding")
        mesh = sharding.mesh
        at = np.asarray(there[: mesh.size]).reshape(mesh.devices.shape)
        told = jax.sharding.Mesh(at, mesh.axis_names, axis_types=mesh.axis_types)
        return jax.sharding.NamedSharding(told, sharding.spec)

    return place


def _count(sharding: Any) -> int:
    """Its devices; none of an abstract mesh."""
    is_abstract = isinstance(getattr(sharding, "mesh", None), jax.sharding.AbstractMesh)
    return 0 if is_abstract else len(sharding.device_set)


def devices(topology: str) -> list[Any]:
    """The devices of a TPU that need not be there, such as "v5e:2x2". Programs are compiled for them; none runs there.

    Errors: Declined, where libtpu is not installed or does not know the topology.
    """
    if jax.default_backend() != "tpu":  # a TPU that is there keeps its own settings
        for key, value in TPU_ENVIRONMENT.items():
            os.environ.setdefault(key, value)
    try:
        from jax.experimental import topologies

        return list(topologies.get_topology_desc(platform="tpu", topology_name=topology).devices)
    except Exception as fault:
        raise Declined(
            f"no compiler for the topology '{topology}': {first_line(fault)}; install libtpu and write a topology such "
            "as 'v5e:2x2'"
        ) from fault


def _sizes(executable: Any) -> Sizes:
    stats = executable.memory_analysis()
    return Sizes(
        stats.temp_size_in_bytes,
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.alias_size_in_bytes,
        stats.host_temp_size_in_bytes,
    )


def _counted(memory: assignment.Assignment) -> Sizes:
    """The same from the compiler's text."""
    blocks = [each for each in memory.allocations if each.space == 0]
    inputs = [each for each in blocks if each.kind == "parameter"]
    aliased = sum(each.bytes for each in inputs if each.is_result)
    results = sum(each.bytes for each in blocks if each.kind == "output")
    return Sizes(memory.temp_bytes(), sum(each.bytes for each in inputs), results + aliased, aliased)


def _dumped(folder: Path, name: str, refusal: str) -> tuple[str, str, str]:
    """HLO, buffer assignment and live ranges of the module. Declined: the compiler has not written them."""
    refused = f"; it refuses the step: {refusal}" if refusal else ""
    written = sorted(folder.glob(f"*{DUMP}"))
    found = [path for path in written if f".{name}." in path.name] or written
    if not found:
        raise Declined(f"the compiler for {jax.default_backend()} dumps no buffer assignment of '{name}'{refused}")
    stem = str(found[-1]).removesuffix("-buffer-assignment.txt")
    texts = []
    for end in (".txt", "-buffer-assignment.txt", "-live-range.txt"):
        try:
            texts.append(Path(stem + end).read_text())
        except OSError as fault:
            raise Declined(f"the compiler has written no '*{end}' of '{name}'{refused}") from fault
    return texts[0], texts[1], texts[2]


@contextmanager
def _no_cache() -> Iterator[None]:
    """Without the persistent cache, from which a program comes without a dump; one thread at a time."""
    with _COMPILING:
        before = jax.config.jax_enable_compilation_cache
        jax.config.update("jax_enable_compilation_cache", False)
        try:
            yield
        finally:
            jax.config.update("jax_enable_compilation_cache", before)
