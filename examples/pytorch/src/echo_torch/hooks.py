"""The inner parts of PyTorch that Echo uses: looked up here alone, once. `missing` names those that this version lacks;
then every graph is left to PyTorch's own partition, with a warning that says so.
"""

from __future__ import annotations

import pkgutil
from typing import Any

import torch

_PARTS = {
    "aot_autograd": "torch._dynamo.backends.common:aot_autograd",
    "boxed_nop": "torch._dynamo.backends.debugging:boxed_nop",
    "dynamo_config": "torch._dynamo:config",
    "aot_function": "torch._functorch.aot_autograd:aot_function",
    "functorch_config": "torch._functorch:config",
    "default_partitioner": "torch._functorch.partitioners:min_cut_rematerialization_partition",
    "symbol_nodes": "torch._functorch.partitioners:find_symbol_binding_fx_nodes",
    "symbol_of": "torch._functorch.partitioners:is_symbol_binding_fx_node",
    "free_symbols": "torch._functorch.partitioners:free_symbols",
    "make_graph_module": "torch.fx._lazy_graph_module:_make_graph_module",
    "unset_fake": "torch._subclasses.fake_tensor:unset_fake_temporarily",
    "FakeTensorMode": "torch._subclasses.fake_tensor:FakeTensorMode",
    "without_modes": "torch.utils._python_dispatch:_disable_current_modes",
    "without_autocast": "torch._C:_DisableAutocast",
    "keeps_graph": "torch._C._autograd:_get_current_graph_task_keep_graph",
    "includes_key": "torch._C:_dispatch_tls_is_dispatch_key_included",
    "transform": "torch._C._functorch:peek_interpreter_stack",
    "storage_use_count": "torch._C:_storage_Use_Count",
    "use_count": "torch:Tensor._use_count",
    "profiler_config": "torch._C._profiler:_ExperimentalConfig",
    "profiler_begin": "torch.autograd:_enable_profiler_legacy",
    "profiler_end": "torch.autograd:_disable_profiler_legacy",
    "profiler_runs": "torch.autograd:_profiler_enabled",
    "compile_id": "torch._guards:CompileContext.current_compile_id",
    "ShortenTraceback": "torch._dynamo.exc:ShortenTraceback",
    "Saved": "torch._functorch.partitioners:SavedForBackwardsAOTOutput",
    "callback_handler": "torch._dynamo.callback:callback_handler",
    "autograd_node": "torch._C:_current_autograd_node",
    "saved_hooks": "torch._C._autograd:_top_saved_tensors_default_hooks",
    "backward_pass": "torch._C:_current_graph_task_id",
    "InductorWrapper": "torch:_TorchCompileInductorWrapper",
    "SavedUnchecked": "torch._functorch.partitioners:SavedForBackwardsNoVcCheckAOTOutput",
}
_OPTIONAL = (
    "Saved",
    "SavedUnchecked",
    "ShortenTraceback",
    "compile_id",
    "callback_handler",
    "autograd_node",
    "saved_hooks",
    "backward_pass",
    "InductorWrapper",
)


def _look_up(path: str) -> Any:
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return None


_found = {name: _look_up(path) for name, path in _PARTS.items()}
missing = [_PARTS[n].replace(":", ".") for n, found in _found.items() if found is None and n not in _OPTIONAL]
TO_PARTITION = ("default_partitioner", "functorch_config")  # PyTorch's own partition is made by them


def __getattr__(name: str) -> Any:
    if name in _found:
        return _found[name]
    raise AttributeError(f"module 'echo_torch.hooks' has no attribute '{name}'")


def require(*names: str) -> None:
    """ImportError: this PyTorch lacks one of these parts, without which nothing can be compiled."""
    if lacking := [name for name in names if _found[name] is None]:
        paths = ", no ".join(_PARTS[name].replace(":", ".") for name in lacking)
        raise ImportError(f"Echo cannot run: PyTorch {torch.__version__} has no {paths}")


def fault() -> str | None:
    """The sentence that says what is missing; None: nothing is."""
    return f"PyTorch {torch.__version__} has no {', no '.join(missing)}" if missing else None
