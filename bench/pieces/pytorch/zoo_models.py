# SPDX-License-Identifier: BSL-1.0
"""Models of torchvision and transformers as these libraries write them, in sizes that train on a CPU within seconds;
with dropout and stochastic depth where they have them."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from models import Step, transformers_library

WORDS = 2000
WIDTH = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
GROUPED = WIDTH | {"num_key_value_heads": 2}
TWO_SIDED = {"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512}
PATCHES = WIDTH | {"image_size": 64, "patch_size": 8}
DROPPED = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def own_loss(output: Any) -> torch.Tensor:
    return output.loss


# ---- transformers: the name of the model's classes, the task, and what its configuration is told

def of_library(name: str, task: str, told: dict[str, Any], inputs: dict[str, torch.Tensor]) -> Step:
    library = transformers_library()
    config = getattr(library, f"{name}Config")(**told)
    config.use_cache = False
    return Step(getattr(library, name + task)(config), own_loss, inputs, ())


def text(name: str, task: str, batch: int = 8, length: int = 64, **told: Any) -> Callable[[], Step]:
    def build() -> Step:
        ids = torch.randint(1, WORDS, (batch, length))
        return of_library(name, task, {"vocab_size": WORDS} | told, {"input_ids": ids, "labels": ids.clone()})

    return build


def masked(name: str, **told: Any) -> Callable[[], Step]:
    return text(name, "ForMaskedLM", **told)


def causal(name: str, **told: Any) -> Callable[[], Step]:
    return text(name, "ForCausalLM", **told)


def translating(name: str, **told: Any) -> Callable[[], Step]:
    return text(name, "ForConditionalGeneration", **told)


def labelled_images(name: str, size: int = 64, batch: int = 8, **told: Any) -> Callable[[], Step]:
    def build() -> Step:
        images = {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(2, (batch,))}
        return of_library(name, "ForImageClassification", told, images)

    return build


def speech() -> Step:
    sound = {"input_values": torch.randn(4, 8000), "labels": torch.randint(2, (4,))}
    told = WIDTH | {"apply_spec_augment": False, "layerdrop": 0.0}
    return of_library("Wav2Vec2", "ForSequenceClassification", told, sound)


def whisper() -> Step:
    told = TWO_SIDED | {"vocab_size": WORDS, "max_source_positions": 100, "pad_token_id": 0, "bos_token_id": 1,
                        "eos_token_id": 2, "decoder_start_token_id": 1}
    sound = {"input_features": torch.randn(4, 80, 200), "labels": torch.randint(1, WORDS, (4, 32))}
    return of_library("Whisper", "ForConditionalGeneration", told, sound)


# ---- torchvision

def images(name: str, batch: int = 8, size: int = 96) -> Callable[[], Step]:
    def build() -> Step:
        module = importlib.import_module("torchvision.models").get_model(name, weights=None)
        return Step(module, F.cross_entropy, (torch.randn(batch, 3, size, size),), (torch.randint(10, (batch,)),))

    return build


def segmented(name: str, batch: int = 4, size: int = 96) -> Callable[[], Step]:
    def loss(output: Any, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output["out"], labels) + 0.4 * F.cross_entropy(output["aux"], labels)

    def build() -> Step:
        library = importlib.import_module("torchvision.models.segmentation")
        module = getattr(library, name)(weights=None, weights_backbone=None, aux_loss=True, num_classes=5)
        return Step(module, loss, (torch.randn(batch, 3, size, size),), (torch.randint(5, (batch, size, size)),))

    return build


def films(name: str, batch: int = 2) -> Callable[[], Step]:
    def build() -> Step:
        module = getattr(importlib.import_module("torchvision.models.video"), name)(weights=None)
        return Step(module, F.cross_entropy, (torch.randn(batch, 3, 8, 64, 64),), (torch.randint(10, (batch,)),))

    return build


MODELS: dict[str, Callable[[], Step]] = {
    "ALBERT": masked("Albert", **WIDTH, **DROPPED),
    "DeBERTa v2": masked("DebertaV2", **WIDTH, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "DistilBERT": masked("DistilBert", dim=256, n_layers=4, n_heads=4, hidden_dim=512),
    "ELECTRA": masked("Electra", **WIDTH),
    "FNet": masked("FNet", hidden_size=256, num_hidden_layers=4, intermediate_size=512),
    "RoBERTa": masked("Roberta", **WIDTH),
    "XLNet": text("XLNet", "LMHeadModel", d_model=256, n_layer=3, n_head=4, d_inner=512),
    "BLOOM": causal("Bloom", hidden_size=256, n_layer=4, n_head=4, hidden_dropout=0.1, attention_dropout=0.1),
    "Falcon": causal("Falcon", hidden_size=256, num_hidden_layers=4, num_attention_heads=4, hidden_dropout=0.1),
    "Gemma 2": causal("Gemma2", **GROUPED, head_dim=64),
    "GPT-J": causal("GPTJ", n_embd=256, n_layer=4, n_head=4, rotary_dim=32, resid_pdrop=0.1),
    "GPT-Neo": causal("GPTNeo", hidden_size=256, num_layers=4, num_heads=4,
                      attention_types=[[["global", "local"], 2]]),
    "GPT-NeoX": causal("GPTNeoX", **WIDTH),
    "Mamba": causal("Mamba", batch=2, length=16, hidden_size=128, num_hidden_layers=2, state_size=8),
    "Mistral": causal("Mistral", **GROUPED, sliding_window=32),
    "Mixtral": causal("Mixtral", **GROUPED, num_local_experts=4),
    "OLMo 2": causal("Olmo2", **WIDTH, num_key_value_heads=4),
    "OPT": causal("OPT", ffn_dim=512, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                  word_embed_proj_dim=256),
    "Phi": causal("Phi", **WIDTH, resid_pdrop=0.1),
    "Qwen 2": causal("Qwen2", **GROUPED),
    "Qwen 3": causal("Qwen3", **GROUPED, head_dim=64),
    "RWKV": causal("Rwkv", batch=2, length=16, hidden_size=128, num_hidden_layers=2, attention_hidden_size=128),
    "StableLM": causal("StableLm", **WIDTH, num_key_value_heads=4),
    "BART": translating("Bart", **TWO_SIDED),
    "LED": translating("LED", **TWO_SIDED, attention_window=16, max_encoder_position_embeddings=128),
    "LongT5": translating("LongT5", d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4, local_radius=15,
                          decoder_start_token_id=0),
    "mT5": translating("MT5", d_model=256, d_kv=64, d_ff=512, num_layers=3, num_heads=4),
    "Pegasus": translating("Pegasus", **TWO_SIDED),
    "Whisper": whisper,
    "wav2vec 2": speech,
    "BEiT": labelled_images("Beit", **PATCHES),
    "ConvNeXt v2": labelled_images("ConvNextV2", hidden_sizes=[32, 64, 96, 128], depths=[2] * 4,
                                   drop_path_rate=0.2),
    "DeiT": labelled_images("DeiT", **PATCHES),
    "LeViT": labelled_images("Levit", size=224, batch=2),
    "MobileViT": labelled_images("MobileViT", hidden_dropout_prob=0.1),
    "PoolFormer": labelled_images("PoolFormer", drop_path_rate=0.1),
    "SegFormer": labelled_images("Segformer"),
    "Swin v2": labelled_images("Swinv2", image_size=64, patch_size=4, embed_dim=32, depths=[2, 2],
                               num_heads=[2, 4], window_size=4),
    "ViT": labelled_images("ViT", **PATCHES, **DROPPED),
    "AlexNet": images("alexnet", size=224),
    "DenseNet-169": images("densenet169", batch=4),
    "EfficientNet v2": images("efficientnet_v2_s", batch=4),
    "MaxViT": images("maxvit_t", batch=1, size=224),
    "MNASNet": images("mnasnet1_0"),
    "MobileNet v3 small": images("mobilenet_v3_small"),
    "RegNet": images("regnet_y_400mf"),
    "ResNeXt-50": images("resnext50_32x4d"),
    "ShuffleNet v2": images("shufflenet_v2_x1_0"),
    "Swin v2 of torchvision": images("swin_v2_t", batch=1),
    "VGG-13 with batch norm": images("vgg13_bn", batch=4),
    "DeepLab v3": segmented("deeplabv3_mobilenet_v3_large"),
    "FCN": segmented("fcn_resnet50", batch=2, size=64),
    "MC3": films("mc3_18"),
    "R(2+1)D": films("r2plus1d_18"),
}
