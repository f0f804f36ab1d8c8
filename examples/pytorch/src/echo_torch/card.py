"""A card of CUDA's that is not here: what Inductor and Triton ask of it is answered from its data sheet, so that a step
is lowered for it, and judged, without a card or a driver. Nothing runs.

Autograd does not trace tensors of a card that is not here. So the step is traced on the CPU with the attention that
CUDA would choose (`tracing`), and its graph is then moved to the card (`move`). Python code that asks for a tensor's
device takes the CPU's branch.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import pkgutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from echo_torch import costs, hooks, say, tape
from echo_torch.graph import FLOP_FORMULAS, Call, aten
from echo_torch.host import Host
from echo_torch.made_up import Like

THERE = torch.device("cuda", 0)  # where the graph is moved to
WARP, BLOCK, PROCESSOR = 32, 1024, 2048  # the most threads; alike on all cards named here
REGISTERS = 65536  # of a processor
STATIC_SHARED = 48 << 10  # bytes of shared memory that a block has without asking
# Padding of matrix products and templates are decided by timing them on the card.
TIMED = {"shape_padding": False, "max_autotune": False, "max_autotune_gemm": False}
NO_AUTOCAST = "CUDA is not available or torch_xla"  # so begins what PyTorch warns of where there is no card
HALF = (torch.float16, torch.bfloat16)
CONVOLVES = ("convolution", "convolution_backward")  # cuDNN has a switch of its own for TF32

# The inner parts of PyTorch and Triton that are stood in for, or whose answers are forgotten.
_PARTS = {
    "interfaces": "torch._dynamo.device_interface:device_interfaces",
    "registered": "torch._dynamo.device_interface:get_registered_device_interfaces",
    "CudaInterface": "torch._dynamo.device_interface:CudaInterface",
    "system": "torch._inductor.codecache:CacheBase.get_system",
    "properties": "torch._inductor.runtime.hints:DeviceProperties.create",
    "config": "torch._inductor.config",
    "clear_caches": "torch._inductor.utils:clear_caches",
    "matcher": "torch._inductor.pattern_matcher",
    "passes": "torch._inductor.fx_passes.joint_graph",
    "Folder": "torch._inductor.fx_passes.joint_graph:UniformValueConstantFolder",
    "aot_function": "torch._inductor.pattern_matcher:aot_function",
    "clone_graph": "torch._inductor.pattern_matcher:clone_graph",
    "default_partition": "torch._inductor.pattern_matcher:default_partition",
    "has_triton": "torch.utils._triton:has_triton",
    "backend": "torch.utils._triton:triton_backend",
    "backend_hash": "torch.utils._triton:triton_hash_with_backend",
    "guard": "torch.cuda:_DeviceGuard",
    "stream": "torch._C:_cuda_getCurrentRawStream",
    "driver": "triton.runtime.driver:driver",
    "driver_in_use": "triton.runtime.driver:driver._active",
    "Target": "triton.backends.compiler:GPUTarget",
}
_NONE_YET = ("driver_in_use",)  # parts that are None


@dataclass(frozen=True)
class Card:
    """A card by its data sheet. Rates are a microsecond's: bytes of its memory, and operations without sparsity."""

    name: str  # its architecture
    title: str
    processors: int  # streaming multiprocessors
    shared: int  # the most bytes of shared memory that a block may ask for
    bytes: float
    double: float
    single: float
    tf32: float
    half: float

    def __str__(self) -> str:
        return f"{self.name} ({self.title})"

    # ---- What operators and copies take: see `costs.Prices`

    def of_jobs(self, jobs: Sequence[costs.Job], _: torch.device) -> list[costs.Cost | str]:
        """Times by the data sheet; scratch memory is not known, and no part of them."""
        with hooks.without_modes(), hooks.FakeTensorMode():
            return [self._cost(job) for job in jobs]

    def moving_on(self, _: torch.device) -> costs.Moving:
        """Moving takes as long as the data sheet's bandwidth says, whatever the size."""
        return costs.Moving([0, 1 << 30], [0.0, (1 << 30) / self.bytes])

    def fill(self, host: Host) -> None:
        """Writes times into the calls of a host."""
        for call in host.calls:
            call.time_us = 0.0 if call.phase == "input" or call.kind == "view" else self._of_call(call, host.calls)

    def _of_call(self, call: Call, calls: Sequence[Call]) -> float:
        moved = sum(value.bytes for value in call.outputs)
        moved += sum(calls[producer].outputs[at].bytes for producer, at in call.inputs)
        made = next((one for one in pytree.tree_leaves(call.node.meta.get("val")) if _is_tensor(one)), None)
        return max(moved / self.bytes, call.flops / self._rate(call.node.target, made) if made is not None else 0.0)

    def _cost(self, job: costs.Job) -> costs.Cost | str:
        try:
            return costs.Cost(self._takes(job), 0, 0, 0)
        except Exception as fault:  # such as of an operator whose results depend on data
            return f"without data it raised {type(fault).__name__}"

    def _takes(self, job: costs.Job) -> float:
        target, args, kwargs = job
        args, kwargs = pytree.tree_map_only(Like, _without_memory, (args, kwargs))
        made = target(*args, **kwargs)
        tensors = {id(one): one for one in pytree.tree_leaves((args, kwargs, made)) if _is_tensor(one)}
        moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        count = FLOP_FORMULAS.get(getattr(target, "overloadpacket", None))
        first = next((one for one in pytree.tree_leaves(made) if _is_tensor(one)), None)
        flops = count(*args, **kwargs, out_val=made) if count and first is not None else 0
        return max(moved / self.bytes, flops / self._rate(target, first))

    def _rate(self, target: Any, made: torch.Tensor | None) -> float:
        """Operations of one microsecond, of an operator that makes this."""
        if made is not None and made.dtype in HALF:
            return self.half
        if made is not None and made.dtype in (torch.float64, torch.complex128):
            return self.double
        if getattr(target, "_opname", "") in CONVOLVES:
            return self.tf32 if torch.backends.cudnn.conv.fp32_precision == "tf32" else self.single
        return self.tf32 if torch.backends.cuda.matmul.fp32_precision == "tf32" else self.single


CARDS = {
    card.name: card
    for card in (
        Card("sm_80", "A100 80GB SXM", 108, 163 << 10, 2.039e6, 19.5e6, 19.5e6, 156e6, 312e6),
        Card("sm_90", "H100 SXM", 132, 227 << 10, 3.35e6, 67e6, 67e6, 494.7e6, 989.4e6),
    )
}


def asked_for(compiled: bool | str, measure: bool) -> Card | None:
    """The card that a step is to be lowered for; None: the device that is here. ValueError: it is not known, or cannot
    be stood in for.
    """
    if not isinstance(compiled, str):
        return None
    if compiled not in CARDS:
        raise ValueError(f"compiled={compiled!r} is none of True, False, {', '.join(map(repr, CARDS))}")
    if torch.cuda.is_available():
        say.warn_once(
            f"Echo: compiled={compiled!r} is for machines without a card, and here is {torch.cuda.get_device_name()}: "
            "the step is estimated for the device of its tensors, as by compiled=True"
        )
        return None
    if measure:
        raise ValueError(f"measure=True times operators on a device, and compiled={compiled!r} has none: leave it out")
    _require(compiled)
    return CARDS[compiled]


def _require(compiled: str) -> None:
    """ValueError: an inner part is missing that is stood in for."""
    if torch.version.cuda is None:
        raise ValueError(f"compiled={compiled!r} needs a PyTorch built with CUDA (no card, no driver): this one is not")
    try:
        importlib.import_module("triton")
    except ImportError:
        raise ValueError(f"compiled={compiled!r} needs Triton, which is not installed: pip install triton") from None
    for name, path in _PARTS.items():
        try:
            found = pkgutil.resolve_name(path)
        except (ImportError, AttributeError):
            found = None
        if found is None and name not in _NONE_YET:
            whose = "Triton" if path.startswith("triton") else f"PyTorch {torch.__version__}"
            raise ValueError(
                f"compiled={compiled!r} needs {path.replace(':', '.')}, which {whose} lacks: "
                "take PyTorch 2.13 and its Triton"
            )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _without_memory(like: Like) -> torch.Tensor:
    shape, stride, dtype, *_ = like.facts
    return torch.empty_strided(shape, stride, dtype=dtype, device=THERE)


# ---- The trace


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Within it steps are traced on the CPU as they would be on a card: attention is what CUDA chooses, and what needs
    a card to have any effect is an error.
    """
    with warnings.catch_warnings(), _Attention():
        warnings.filterwarnings("error", NO_AUTOCAST)
        yield


class _Attention(TorchFunctionMode):
    """Attention as CUDA's."""

    chosen = (
        functional.scaled_dot_product_attention,
        aten.scaled_dot_product_attention,
        aten.scaled_dot_product_attention.default,
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_attention if func in self.chosen else func)(*args, **(kwargs or {}))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """What `scaled_dot_product_attention` chooses on a card of compute capability 8 or 9: flash attention, else the
    memory-efficient one, else single operators. cuDNN's, which a card may take in place of the first, saves as much.
    """
    query, key, value, attn_mask = map(_cast, (query, key, value, attn_mask))
    if _is_batched(query, key, value):
        alike = query.shape[1] == key.shape[1] == value.shape[1]
        if (alike or enable_gqa) and _may_flash(query, key, value, attn_mask, is_causal):
            return _flash(query, key, value, dropout_p, is_causal, scale)
        if alike and _may_be_efficient(query, value):
            mask, keeps = _bias(attn_mask, query, key), torch.is_grad_enabled()
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, mask, keeps, dropout_p, is_causal, scale=scale
            )[0]
    more = {"scale": scale, "enable_gqa": enable_gqa}
    return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, None, **more)[0]


def _cast(value: Any) -> Any:
    """As `torch.autocast` casts what attention reads."""
    casts = torch.is_autocast_enabled("cpu") and _is_tensor(value) and value.dtype in (*HALF, torch.float32)
    return value.to(torch.get_autocast_dtype("cpu")) if casts else value


def _is_batched(*tensors: Any) -> bool:
    """Whether these have batches of heads, of which none is empty."""
    if any(each.dim() != 4 or 0 in each.shape for each in tensors):
        return False
    return len({each.shape[0] for each in tensors}) == 1


def _may_flash(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> bool:
    if not torch.backends.cuda.flash_sdp_enabled() or query.dtype not in HALF or mask is not None:
        return False
    square = query.shape[-2] == key.shape[-2] or not is_causal
    return query.shape[-1] == value.shape[-1] <= 256 and square


def _may_be_efficient(query: Any, value: Any) -> bool:
    if not torch.backends.cuda.mem_efficient_sdp_enabled() or query.dtype not in (*HALF, torch.float32):
        return False
    aligned = 16 // query.element_size()  # elements that are loaded at a time
    return query.shape[-1] % aligned == 0 and value.shape[-1] % aligned == 0


def _flash(query: Any, key: Any, value: Any, dropout: float, is_causal: bool, scale: float | None) -> Any:
    width = query.shape[-1]
    scale = 1 / math.sqrt(width) if scale is None else scale
    if missing := -width % 8:
        query, key, value = (functional.pad(each, (0, missing)) for each in (query, key, value))
    made = aten._scaled_dot_product_flash_attention(query, key, value, dropout, is_causal, False, scale=scale)[0]
    return made[..., :width] if missing else made


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """The mask as the memory-efficient kernel takes it: added, in rows of whole vectors, and of every head."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.logical_not(), -math.inf)
    columns = mask.shape[-1]
    if missing := -columns % 16:
        mask = functional.pad(mask, (0, missing))[..., :columns]
    return mask.expand(query.shape[0], query.shape[1], query.shape[-2], key.shape[-2])


def move(joint: fx.GraphModule, mode: Any) -> None:
    """Moves a graph that was traced on the CPU with fake tensors of this mode: every tensor, its strides as a card's
    operators make them. A constant of more than one number is an input then, as TorchDynamo has it.
    """
    _lend_constants(joint)
    with mode:
        for node in joint.graph.nodes:
            node.args, node.kwargs = pytree.tree_map_only(torch.device, lambda _: THERE, (node.args, node.kwargs))
            if node.op == "placeholder" or _is_as_recorded(node):
                node.meta["val"] = pytree.tree_map_only(torch.Tensor, _alike, node.meta.get("val"))
            elif node.op == "call_function" and "val" in node.meta:
                args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), lambda one: _value(one, joint))
                node.meta["val"] = node.target(*args, **kwargs)
    joint.recompile()


def _is_as_recorded(node: fx.Node) -> bool:
    """Whether the shapes of what it makes were read from data, so that it is not asked again."""
    return isinstance(node.target, torch._ops.OpOverload) and tape.depends_on_data(node.target)


def _alike(value: torch.Tensor, device: torch.device = THERE) -> torch.Tensor:
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return made.requires_grad_(value.requires_grad)


def _value(argument: Any, joint: fx.GraphModule) -> Any:
    if not isinstance(argument, fx.Node):
        return argument
    if argument.op == "get_attr" and "val" not in argument.meta:
        return getattr(joint, str(argument.target))
    return argument.meta["val"]


def _lend_constants(joint: fx.GraphModule) -> None:
    tangents = [n for n in joint.graph.find_nodes(op="placeholder") if "tangents" in str(n.target)]
    first = tangents[0] if tangents else next(n for n in joint.graph.nodes if n.op != "placeholder")
    for node in joint.graph.find_nodes(op="get_attr"):
        value = node.meta.get("val")
        if _is_tensor(value) and value.dim() > 0:
            with joint.graph.inserting_before(first):
                lent = joint.graph.placeholder(f"primals_of_{node.name}")
            lent.meta = dict(node.meta)
            node.replace_all_uses_with(lent)
            joint.graph.erase_node(node)


# ---- Lowering


@contextlib.contextmanager
def standing_in(card: Card) -> Iterator[None]:
    """Within it this card seems to be here to Inductor's lowering and to Triton, and to nobody who asks whether CUDA is
    available. What they keep of its answers is forgotten on both ends, and Inductor's cache is one of its own.
    """
    parts = SimpleNamespace(**{name: pkgutil.resolve_name(path) for name, path in _PARTS.items()})
    parts.system()  # it keeps what is here
    parts.registered()
    interface, properties = _interface(card, parts.CudaInterface), _properties(card)
    target = SimpleNamespace(get_current_target=lambda: parts.Target("cuda", int(card.name[3:]), WARP))
    seen: dict[str, Any] = {
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "current_device": lambda: THERE.index,
        "set_device": lambda _: None,
        "_DeviceGuard": contextlib.nullcontext,
    }
    with contextlib.ExitStack() as open_ones:
        open_ones.callback(_forget, parts)
        open_ones.enter_context(mock.patch.dict(parts.interfaces, {"cuda": interface, str(THERE): interface}))
        open_ones.enter_context(mock.patch.object(parts.driver, "_active", target))
        open_ones.enter_context(mock.patch.multiple(torch.cuda, **seen))
        open_ones.enter_context(mock.patch.object(parts.matcher, "aot_function", _traced_on_the_cpu(parts)))
        open_ones.enter_context(mock.patch.object(parts.passes, "UniformValueConstantFolder", _folder(parts.Folder)))
        open_ones.enter_context(parts.config.patch(TIMED))
        open_ones.enter_context(_cache_of_its_own(parts))
        _forget(parts)
        yield


@contextlib.contextmanager
def _cache_of_its_own(parts: Any) -> Iterator[None]:
    """Within it Inductor and Triton write to a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="echo_torch_") as folder:
        parts.clear_caches()
        try:
            with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=folder):
                yield
        finally:
            parts.clear_caches()


def _forget(parts: Any) -> None:
    for kept in (parts.has_triton, parts.backend, parts.backend_hash, parts.properties.__func__):
        kept.cache_clear()


def _properties(card: Card) -> SimpleNamespace:
    major, minor = divmod(int(card.name[3:]), 10)
    return SimpleNamespace(
        name=card.name,
        major=major,
        minor=minor,
        multi_processor_count=card.processors,
        max_threads_per_multi_processor=PROCESSOR,
        max_threads_per_block=BLOCK,
        regs_per_multiprocessor=REGISTERS,
        warp_size=WARP,
        shared_memory_per_block=STATIC_SHARED,
        shared_memory_per_block_optin=card.shared,
    )


def _interface(card: Card, interface: Any) -> Any:
    """TorchDynamo's interface to CUDA, with this card."""
    properties = _properties(card)
    facts = {
        "current_device": staticmethod(lambda: THERE.index),
        "get_device_properties": staticmethod(lambda *_: properties),
    }
    more = {
        "Worker": type("Worker", (interface.Worker,), facts),
        "is_available": staticmethod(lambda: True),
        "device_count": staticmethod(lambda: 1),
        "is_bf16_supported": staticmethod(lambda **_: True),
        "is_triton_capable": staticmethod(lambda *_: True),
        "get_compute_capability": staticmethod(lambda *_: int(card.name[3:])),
    }
    return type("StandIn", (interface,), facts | more)


def _traced_on_the_cpu(parts: Any) -> Callable[..., Any]:
    """AOTAutograd's `aot_function` for Inductor's patterns, whose gradients are traced where they match."""

    def traced(run: Any, compiler: Any, *, partition_fn: Any, **more: Any) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not any(_is_tensor(one) and one.device == THERE for one in args):
                return parts.aot_function(run, compiler, partition_fn=partition_fn, **more)(*args)
            mode = next(one.fake_mode for one in args if _is_tensor(one))

            def divide(joint: fx.GraphModule, inputs: Any, **how: Any) -> Any:
                moved = parts.clone_graph(joint)
                with hooks.without_modes():
                    move(moved, mode)
                partition_fn(moved, inputs, **how)
                return parts.default_partition(joint, inputs, **how)

            with tracing():
                alike = [_alike(one, torch.device("cpu")) if _is_tensor(one) else one for one in args]
                return parts.aot_function(run, compiler, partition_fn=divide, **more)(*alike)

        return call

    return traced


class _MadeOnTheCpu(TorchFunctionMode):
    """Operators that are told to make something on the card make it on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs or {}))
        return func(*args, **kwargs)


def _folder(folder: Any) -> Any:
    """Inductor's pass that folds constants, which computes them."""

    class Folder(folder):
        def __init__(self, *given: Any, **more: Any) -> None:
            with _MadeOnTheCpu():
                super().__init__(*given, **more)

        def run(self) -> Any:
            with _MadeOnTheCpu():
                return super().run()

    return Folder
