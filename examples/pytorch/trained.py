"""Models that are trained for real, on a CPU, by `run` and by bench/pytorch: full widths, dropout
where they have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from models import Nmt, Step, token_loss, transformers_library
from more_models import Unet
from torch import nn


def _images(module: nn.Module, batch: int, size: int) -> Step:
    return Step(
        module,
        F.cross_entropy,
        (torch.randn(batch, 3, size, size),),
        (torch.randint(1000, (batch,)),),
    )


def _vision(name: str) -> Step:
    from torchvision import models

    return _images(models.get_model(name, weights=None), 8, 128)


def _vit() -> Step:
    from torchvision.models.vision_transformer import VisionTransformer

    module = VisionTransformer(224, 16, 12, 6, 384, 1536, dropout=0.1)
    return _images(module, 8, 224)


def _text(kind: str, config: dict[str, Any], batch: int, length: int, words: int, both: bool = False) -> Step:
    library = transformers_library()
    settings = getattr(library, kind[0])(attn_implementation="eager", **config)
    ids = torch.randint(1, words, (batch, length))
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids.flip(1)} if both else {})
    return Step(
        getattr(library, kind[1])(settings),
        token_loss,
        inputs,
        (torch.randint(1, words, (batch, length)),),
    )


def _bert(layers: int = 6) -> Step:
    config = dict(
        hidden_size=512,
        num_hidden_layers=layers,
        num_attention_heads=8,
        intermediate_size=2048,
        vocab_size=30522,
    )
    return _text(("BertConfig", "BertForMaskedLM"), config, 8, 128, 30522)


def _gpt2() -> Step:
    config = dict(n_embd=512, n_layer=6, n_head=8, use_cache=False)
    return _text(("GPT2Config", "GPT2LMHeadModel"), config, 4, 256, 50257)


def _t5() -> Step:
    config = dict(d_ff=2048, use_cache=False)  # else its defaults are those of T5-small
    return _text(("T5Config", "T5ForConditionalGeneration"), config, 4, 96, 32128, both=True)


def _llama() -> Step:
    config = dict(
        vocab_size=32000,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=6,
        num_attention_heads=8,
        use_cache=False,
    )
    return _text(("LlamaConfig", "LlamaForCausalLM"), config, 4, 256, 32000)


def _seq2seq() -> Step:
    words = torch.randint(1, 2000, (32, 25))
    return Step(
        Nmt(2000, 2000, 512, 2),
        token_loss,
        (words, words.flip(1)),
        (torch.randint(2000, (32, 25)),),
    )


def _unet() -> Step:
    def loss(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, labels)

    labels = torch.randint(2, (4, 128, 128))
    return Step(Unet(3, 2, 24, 4), loss, (torch.randn(4, 3, 128, 128),), (labels,))


MODELS: dict[str, Callable[[], Step]] = {
    "resnet50": lambda: _vision("resnet50"),
    "densenet121": lambda: _vision("densenet121"),
    "mobilenet_v3": lambda: _vision("mobilenet_v3_large"),
    "vit_s16": _vit,
    "bert": _bert,
    "gpt2": _gpt2,
    "t5_small": _t5,
    "llama": _llama,
    "seq2seq": _seq2seq,
    "unet": _unet,
}
