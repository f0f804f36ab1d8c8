"""The models whose training graphs stand in examples/graphs; those of graphs/more are in more_models.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import traceback


class Step(NamedTuple):
    """The step `loss_fn(module(*inputs), *labels)`, or `module(**inputs)`. No tensor's data is read."""

    module: nn.Module
    loss_fn: Callable[..., torch.Tensor]
    inputs: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]
    labels: Sequence[torch.Tensor]


class WholeStep(NamedTuple):
    """A step that asks for its gradients itself: `step(parameters, *inputs)`, the module's parameters by name.

    What it does within `gradients()` is backward, within `updates()` an update of a parameter, else forward.
    """

    module: nn.Module
    step: Callable[..., Any]
    inputs: Sequence[torch.Tensor]


def gradients() -> AbstractContextManager[None]:
    return traceback.annotate({"phase": "backward"})


def updates() -> AbstractContextManager[None]:
    """Each op in it makes the new value of its first argument, in that one's place."""
    return traceback.annotate({"phase": "update"})


@dataclass(frozen=True)
class Model:
    """`build(batch, length)` makes the step; length 0 takes no sequence. `file` is in examples/graphs."""

    build: Callable[[int, int], Step | WholeStep]
    batch: int
    length: int = 0
    file: str = "{name}_b{batch}"


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


def token_loss(output: Any, labels: torch.Tensor) -> torch.Tensor:
    logits = output if isinstance(output, torch.Tensor) else output.logits
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


# ---- Images


def image_step(module: nn.Module, batch: int, size: int = 224) -> Step:
    return Step(module, F.cross_entropy, (torch.empty(batch, 3, size, size),), (tokens(batch),))


def torchvision_model(name: str, size: int = 224) -> Callable[[int, int], Step]:
    def build(batch: int, _: int) -> Step:
        from torchvision import models

        return image_step(models.get_model(name, weights=None), batch, size)

    return build


def _tiny_cnn(batch: int, _: int) -> Step:
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return image_step(module, batch, size=32)


def _mlp(batch: int, _: int) -> Step:
    module = nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return Step(module, F.cross_entropy, (torch.empty(batch, 64),), (tokens(batch),))


# ---- Text


def transformers_library() -> Any:
    """The library, with its search for packed sequences switched off: that reads the data of a tensor."""
    import transformers
    from transformers import masking_utils

    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    return transformers


# Attention is spelt out ("eager"): its maps are the feature maps that a fused kernel would hide.


def _bert_base(batch: int, length: int) -> Step:
    library = transformers_library()
    module = library.BertForMaskedLM(library.BertConfig(attn_implementation="eager"))
    return Step(module, token_loss, {"input_ids": tokens(batch, length)}, (tokens(batch, length),))


def _gpt2(batch: int, length: int) -> Step:
    library = transformers_library()
    module = library.GPT2LMHeadModel(library.GPT2Config(attn_implementation="eager", use_cache=False))
    return Step(module, token_loss, {"input_ids": tokens(batch, length)}, (tokens(batch, length),))


def _llama(batch: int, length: int) -> Step:
    library = transformers_library()
    config = library.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5504,
        num_hidden_layers=8,
        num_attention_heads=16,
        attn_implementation="eager",
        use_cache=False,
    )
    module = library.LlamaForCausalLM(config)
    return Step(module, token_loss, {"input_ids": tokens(batch, length)}, (tokens(batch, length),))


def _marian(batch: int, length: int) -> Step:
    library = transformers_library()
    config = library.MarianConfig(
        vocab_size=36500,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        pad_token_id=0,
        decoder_start_token_id=0,
        attn_implementation="eager",
        use_cache=False,
    )
    module = library.MarianMTModel(config)
    inputs = {"input_ids": tokens(batch, length), "decoder_input_ids": tokens(batch, length)}
    return Step(module, token_loss, inputs, (tokens(batch, length),))


# ---- The NMT model of the Echo paper (Sockeye, IWSLT15 Vietnamese to English)

State = tuple[torch.Tensor, torch.Tensor]


class LstmCell(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.i2h = nn.Linear(inputs, 4 * hidden)
        self.h2h = nn.Linear(hidden, 4 * hidden)

    def forward(self, x: torch.Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = (self.i2h(x) + self.h2h(h)).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LstmLayer(nn.Module):
    """An LSTM unrolled over a sequence of (time, batch, inputs)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = LstmCell(inputs, hidden)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        zero = sequence.new_zeros(sequence.shape[1], self.hidden)
        state = (zero, zero)
        outputs = []
        for x in sequence.unbind(0):
            state = self.cell(x, state)
            outputs.append(state[0])
        return torch.stack(outputs)


def _reverse(sequence: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Each sentence of (time, batch, features) from its last word to its first, the padding left in place."""
    time = torch.arange(sequence.shape[0], device=sequence.device).unsqueeze(1)
    source = torch.where(time < lengths, lengths - 1 - time, time)
    return sequence.gather(0, source.unsqueeze(2).expand_as(sequence))


class Encoder(nn.Module):
    """A bidirectional layer, then layers in one direction: tokens (batch, time) to (time, batch, hidden)."""

    def __init__(self, vocabulary: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.ahead = LstmLayer(hidden, hidden // 2)
        self.back = LstmLayer(hidden, hidden // 2)
        self.upper = nn.ModuleList(LstmLayer(hidden, hidden) for _ in range(layers - 1))

    def forward(self, source: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = _reverse(self.embedding(source).transpose(0, 1), lengths)
        back = _reverse(self.back(_reverse(x, lengths)), lengths)
        x = torch.cat([self.ahead(x), back], dim=2)
        for layer in self.upper:
            x = layer(x)
        return x


class Attention(nn.Module):
    """The MLP attention: score of each word = v · tanh(key + query)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, memory: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        scores = self.score(torch.tanh(keys + self.query(x).unsqueeze(1))).squeeze(2)
        weights = scores.masked_fill(padding, float("-inf")).softmax(dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.initial = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2 * layers))
        self.cells = nn.ModuleList(LstmCell(2 * hidden if i == 0 else hidden, hidden) for i in range(layers))
        self.keys = nn.Linear(hidden, hidden, bias=False)
        self.attention = Attention(hidden)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.logits = nn.Linear(hidden, vocabulary)

    def forward(
        self, target: torch.Tensor, memory: torch.Tensor, last: torch.Tensor, padding: torch.Tensor
    ) -> torch.Tensor:
        states = [torch.tanh(linear(last)) for linear in self.initial]
        keys = self.keys(memory)
        hidden = torch.zeros_like(last)
        outputs = []
        for word in self.embedding(target).unbind(1):
            x = torch.cat([word, hidden], dim=1)
            for i, cell in enumerate(self.cells):
                states[2 * i], states[2 * i + 1] = cell(x, (states[2 * i], states[2 * i + 1]))
                x = states[2 * i]
            context = self.attention(x, keys, memory, padding)
            hidden = torch.tanh(self.combine(torch.cat([x, context], dim=1)))
            outputs.append(hidden)
        return self.logits(torch.stack(outputs, dim=1))


class Nmt(nn.Module):
    """LSTM encoder and decoder with MLP attention, unrolled; word 0 of the source is padding."""

    def __init__(self, source_vocabulary: int, target_vocabulary: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.encoder = Encoder(source_vocabulary, hidden, layers)
        self.decoder = Decoder(target_vocabulary, hidden, layers)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        lengths = (source != 0).sum(dim=1)
        encoded = self.encoder(source, lengths)
        final = (lengths - 1).view(1, -1, 1).expand(1, -1, encoded.shape[2])
        padding = torch.arange(source.shape[1], device=source.device) >= lengths.unsqueeze(1)
        return self.decoder(target, encoded.transpose(0, 1), encoded.gather(0, final).squeeze(0), padding)


def _nmt(batch: int, length: int) -> Step:
    module = Nmt(source_vocabulary=7710, target_vocabulary=17192, hidden=512, layers=2)
    inputs = (tokens(batch, length), tokens(batch, length))
    return Step(module, token_loss, inputs, (tokens(batch, length),))


_SEQUENCE = "{name}_b{batch}_t{length}"

MODELS = {
    "mlp": Model(_mlp, batch=32, file="{name}"),
    "tiny_cnn": Model(_tiny_cnn, batch=16, file="{name}"),
    "resnet50": Model(torchvision_model("resnet50"), batch=64),
    "resnet152": Model(torchvision_model("resnet152"), batch=32),
    "densenet121": Model(torchvision_model("densenet121"), batch=32),
    "mobilenet_v3_large": Model(torchvision_model("mobilenet_v3_large"), batch=64),
    "efficientnet_b0": Model(torchvision_model("efficientnet_b0"), batch=64),
    "vit_b16": Model(torchvision_model("vit_b_16"), batch=32),
    "bert_base": Model(_bert_base, batch=32, length=128, file=_SEQUENCE),
    "marian": Model(_marian, batch=64, length=100, file=_SEQUENCE),
    "gpt2": Model(_gpt2, batch=8, length=512, file=_SEQUENCE),
    "llama_8x2048": Model(_llama, batch=4, length=512, file=_SEQUENCE),
    "nmt": Model(_nmt, batch=128, length=50, file=_SEQUENCE),
}
