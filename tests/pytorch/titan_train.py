"""Trains a small model of torchtitan's for some steps by its own graph trainer, on the CPU, and prints
a hash of the parameters after them, the peak of a step above what is there before it, and what Echo
said that it would be.

RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python titan_train.py MODEL POLICY [BUDGET]
MODEL: a folder of the trainer's that has a `debugmodel`, such as llama3. POLICY: `keep` for
everything, or `echo`.

The trainer means to run on a device that tells its name and counts its memory. What it asks of one is
answered here for the CPU, and passes that look at a GPU or compile for one are left out, as its own
option `disable_passes` does it. Tokens are drawn here; libraries that read data sets or draw curves,
which it imports with everything else, are not needed and may be missing.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import support
import torch

GRAPH_TRAINER = "torchtitan.experiments.graph_trainer"
STEPS, SEQUENCE, VOCABULARY = 3, 128, 2048
FOR_A_GPU = [
    "joint_transformer_block_bucketing_reordering_pass",  # its model of time asks Triton
    "cudagraph_pass",
    "full_inductor_compilation_pass",
    "regional_inductor_pass",
]
KEEPS_ALL = ["tag_with_memory_policy_pass", "selective_activation_remat_pass"]


def stand_in_for_a_device() -> None:
    torch._utils._get_available_device_type = lambda: "cpu"
    answers = {
        "get_device_name": "cpu",
        "get_device_properties": types.SimpleNamespace(total_memory=1 << 34),
        "memory_stats": {},
        "current_device": 0,
        "set_device": None,
        "reset_peak_memory_stats": None,
        "empty_cache": None,
    }
    for name, answer in answers.items():
        setattr(torch.cpu, name, lambda *_, answer=answer: answer)


stand_in_for_a_device()
sys.modules.update(support.what_torchtitan_does_not_need())

import torchtitan.distributed.utils as distributed  # noqa: E402
from measure import allocator_peak  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402

import echo_torch.titan  # noqa: E402


class NoTokenizer(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Any, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> list[int]:
        return []

    def decode(self, *_: Any, **__: Any) -> str:
        return ""

    def get_vocab_size(self) -> int:
        return VOCABULARY


class Tokens(BaseDataLoader):
    """Batches of tokens, other ones for each rank."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config: Any, *, local_batch_size: int, dp_rank: int, **_: Any) -> None:
        self.shape, self.seed = (local_batch_size, SEQUENCE + 1), dp_rank

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        drawing = torch.Generator().manual_seed(self.seed)
        while True:
            tokens = torch.randint(VOCABULARY, self.shape, generator=drawing)
            positions = torch.arange(SEQUENCE).expand(self.shape[0], -1)
            yield {"input": tokens[:, :-1], "positions": positions}, tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        pass


def configured(model: str, policy: str, budget: str | None = None) -> Any:
    registry = importlib.import_module(f"{GRAPH_TRAINER}.{model}.config_registry")
    config = getattr(registry, f"graph_trainer_{model}_debugmodel")()
    for layer in config.model_spec.model.layers:  # flex attention has no gradient on a CPU
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.training.steps, config.training.seq_len = STEPS, SEQUENCE
    config.training.local_batch_size = 4
    config.training.mixed_precision_param = "float32"
    config.debug.seed = 1
    config.tokenizer, config.dataloader = NoTokenizer.Config(), Tokens.Config()
    config.compile.disable_passes = FOR_A_GPU + (KEEPS_ALL if policy == "keep" else [])
    if policy == "echo":
        echo_torch.titan.register(**({"budget": float(budget)} if budget else {}))
        config.compile.memory_policy = "echo"
    return config


def main() -> None:
    os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
    distributed.set_pg_timeouts = lambda *_, **__: None  # of a later PyTorch
    trainer = configured(*sys.argv[1:]).build()
    step, peaks = trainer.train_step, []
    trainer.train_step = lambda *given: peaks.append(allocator_peak(lambda: step(*given))[1])
    trainer.train()
    digest = hashlib.sha256()
    for model in trainer.model_parts:
        for parameter in model.parameters():
            own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            digest.update(own.detach().numpy().tobytes())
    told = echo_torch.reports()[-1].peak if echo_torch.reports() else None
    print(f"parameters {digest.hexdigest()} peak {peaks[-1]} predicted {told}", flush=True)
    trainer.close()
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()  # else its threads may be there at the end


if __name__ == "__main__":
    main()
