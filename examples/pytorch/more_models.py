"""The models whose training graphs stand in examples/graphs/more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from models import (
    Model,
    Step,
    WholeStep,
    gradients,
    token_loss,
    tokens,
    torchvision_model,
    transformers_library,
    updates,
)
from torch import nn

# ---- Images


def _inception_v3(batch: int, _: int) -> Step:
    from torchvision import models

    def loss(output: Any, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.logits, labels) + 0.4 * F.cross_entropy(output.aux_logits, labels)

    module = models.inception_v3(weights=None, init_weights=False)
    return Step(module, loss, (torch.empty(batch, 3, 299, 299),), (tokens(batch),))


def _two_convolutions(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Unet(nn.Module):
    """The U-Net of medical images: four levels down and up, what went down concatenated to what comes up."""

    def __init__(self, inputs: int, classes: int, width: int, levels: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(_two_convolutions(a, b) for a, b in itertools.pairwise([inputs, *widths]))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[:-1])
        self.up = nn.ModuleList(_two_convolutions(2 * w, w) for w in widths[:-1])
        self.classes = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.down[0](x)]
        for block in self.down[1:]:
            kept.append(block(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for rise, block in zip(reversed(self.rise), reversed(self.up), strict=True):
            x = block(torch.cat([kept.pop(), rise(x)], dim=1))
        return self.classes(x)


def _unet(batch: int, _: int) -> Step:
    module = Unet(inputs=1, classes=4, width=64, levels=4)
    size = 256
    return Step(module, F.cross_entropy, (torch.empty(batch, 1, size, size),), (tokens(batch, size, size),))


# ---- A U-Net that removes noise (Ho et al., "Denoising Diffusion Probabilistic Models")


class TimedBlock(nn.Module):
    """Two convolutions and a residual; the time of the diffusion is added between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)])
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.dropout = nn.Dropout(0.1)
        self.around = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        return self.around(x) + self.second(self.dropout(F.silu(self.norms[1](y))))


class PixelAttention(nn.Module):
    """One head over all pixels, spelt out."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).flatten(2).chunk(3, dim=1)
        weights = (query.transpose(1, 2) @ key * x.shape[1] ** -0.5).softmax(dim=2)
        return x + self.out((value @ weights.transpose(1, 2)).view_as(x))


class TimedLevel(nn.Module):
    def __init__(self, inputs: Sequence[int], outputs: int, time: int, attends: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(TimedBlock(count, outputs, time) for count in inputs)
        self.attention = nn.ModuleList(PixelAttention(outputs) if attends else nn.Identity() for _ in inputs)

    def step(self, i: int, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.attention[i](self.blocks[i](x, time))


class DiffusionUnet(nn.Module):
    """Two blocks at each level down, three up, each reading what the way down kept; attention at one level."""

    def __init__(self, width: int, factors: Sequence[int], attends: int) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.fall, self.up, self.rise = (nn.ModuleList() for _ in range(4))
        kept, channels = [width], width
        for level, factor in enumerate(factors):
            outputs = factor * width
            self.down.append(TimedLevel((channels, outputs), outputs, time, level == attends))
            channels = outputs
            kept += [channels, channels]
            if level + 1 < len(factors):
                self.fall.append(nn.Conv2d(channels, channels, 3, stride=2, padding=1))
                kept.append(channels)
        self.middle = TimedLevel((channels, channels), channels, time, True)
        for level, factor in reversed(list(enumerate(factors))):
            outputs = factor * width
            inputs = [before + kept.pop() for before in (channels, outputs, outputs)]
            self.up.append(TimedLevel(inputs, outputs, time, level == attends))
            channels = outputs
            if level > 0:
                self.rise.append(nn.Conv2d(channels, channels, 3, padding=1))
        self.last = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(torch.arange(self.width // 2, device=at.device) * (-9.21 / (self.width // 2)))
        angles = at[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(x)
        kept = [x]
        for i, level in enumerate(self.down):
            for k in range(2):
                x = level.step(k, x, time)
                kept.append(x)
            if i < len(self.fall):
                x = self.fall[i](x)
                kept.append(x)
        for k in range(2):
            x = self.middle.step(k, x, time)
        for i, level in enumerate(self.up):
            for k in range(3):
                x = level.step(k, torch.cat([x, kept.pop()], dim=1), time)
            if i < len(self.rise):
                x = self.rise[i](F.interpolate(x, scale_factor=2.0))
        return self.last(x)


def _diffusion_unet(batch: int, _: int) -> Step:
    module = DiffusionUnet(width=128, factors=(1, 2, 2, 2), attends=1)
    size = 32
    images = torch.empty(batch, 3, size, size)
    return Step(module, F.mse_loss, (images, tokens(batch)), (torch.empty_like(images),))


# ---- Text


def _llama_grouped(batch: int, length: int) -> Step:
    """Width and groups of keys as in Llama 3.2 1B; fused attention, which `llama_8x2048` spells out."""
    library = transformers_library()
    config = library.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=8,
        num_attention_heads=32,
        num_key_value_heads=8,
        attn_implementation="sdpa",
        use_cache=False,
    )
    inputs = {"input_ids": tokens(batch, length)}
    return Step(library.LlamaForCausalLM(config), token_loss, inputs, (tokens(batch, length),))


def _t5_small(batch: int, length: int) -> Step:
    library = transformers_library()
    config = library.T5Config(attn_implementation="eager", use_cache=False, decoder_start_token_id=0)
    inputs = {"input_ids": tokens(batch, length), "decoder_input_ids": tokens(batch, length)}
    return Step(library.T5ForConditionalGeneration(config), token_loss, inputs, (tokens(batch, length),))


def _mamba(batch: int, length: int) -> Step:
    """Its scan is unrolled, a few nodes for each token of each layer."""
    library = transformers_library()
    config = library.MambaConfig(vocab_size=32000, hidden_size=768, num_hidden_layers=4, use_cache=False)
    inputs = {"input_ids": tokens(batch, length)}
    return Step(library.MambaForCausalLM(config), token_loss, inputs, (tokens(batch, length),))


class Experts(nn.Module):
    """The sum of the two likeliest experts; each computes every token, so that no shape depends on data."""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.route = nn.Linear(width, experts, bias=False)
        self.gate, self.rise, self.fall = (
            nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(experts))
            for a, b in ((width, hidden), (width, hidden), (hidden, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.route(x).softmax(dim=-1).topk(2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        total = torch.zeros_like(x)
        for i, (gate, rise, fall) in enumerate(zip(self.gate, self.rise, self.fall, strict=True)):
            weight = weights.masked_fill(chosen != i, 0.0).sum(dim=-1, keepdim=True)
            total = total + weight * fall(F.silu(gate(x)) * rise(x))
        return total


class MoeLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.experts = Experts(width, hidden, experts)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norms[0](x))
        return x + self.experts(self.norms[1](x))


def _moe(batch: int, length: int) -> Step:
    words, width = 32000, 768
    layers = [MoeLayer(width, heads=12, hidden=2048, experts=8) for _ in range(6)]
    module = nn.Sequential(nn.Embedding(words, width), *layers, nn.RMSNorm(width), nn.Linear(width, words, bias=False))
    return Step(module, token_loss, (tokens(batch, length),), (tokens(batch, length),))


# ---- Steps of several gradients: forward nodes follow backward ones


def _generator(noise: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.ConvTranspose2d(noise, 4 * width, 4, bias=False)]
    for factor in (4, 2, 1):
        layers += [nn.BatchNorm2d(factor * width, track_running_stats=False), nn.ReLU()]
        outputs = factor * width // 2 if factor > 1 else 3
        layers.append(nn.ConvTranspose2d(factor * width, outputs, 4, stride=2, padding=1, bias=False))
    return nn.Sequential(*layers, nn.Tanh())


def _critic(width: int, normed: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    for factor in (1, 2):
        layers.append(nn.Conv2d(factor * width, 2 * factor * width, 4, stride=2, padding=1, bias=not normed))
        layers += [nn.BatchNorm2d(2 * factor * width, track_running_stats=False)] if normed else []
        layers.append(nn.LeakyReLU(0.2))
    return nn.Sequential(*layers, nn.Conv2d(4 * width, 1, 4), nn.Flatten(0))


Parameters = dict[str, torch.Tensor]


def _called(module: nn.Module, part: str) -> Callable[[Parameters, torch.Tensor], torch.Tensor]:
    """A submodule as a function of the parameters of the whole."""
    submodule = module.get_submodule(part)

    def call(parameters: Parameters, x: torch.Tensor) -> torch.Tensor:
        own = {name: parameters[f"{part}.{name}"] for name, _ in submodule.named_parameters()}
        return torch.func.functional_call(submodule, own, (x,))

    return call


def _descend(parameters: Parameters, part: str, loss: torch.Tensor) -> Parameters:
    """The parameters after a step of gradient descent for those of one part."""
    names = [name for name in parameters if name.startswith(f"{part}.")]
    with gradients():
        changes = torch.autograd.grad(loss, [parameters[name] for name in names])
    with updates(), torch.no_grad():
        new = {name: torch.sub(parameters[name], change, alpha=2e-4) for name, change in zip(names, changes)}
    return parameters | {name: value.requires_grad_() for name, value in new.items()}


def _gan(batch: int, _: int) -> WholeStep:
    """DCGAN on 32² images: the critic learns first, then the generator from the critic as it is now."""
    module = nn.ModuleDict({"generator": _generator(100, 64), "critic": _critic(64, normed=True)})
    generate, judge = _called(module, "generator"), _called(module, "critic")

    def step(parameters: Parameters, images: torch.Tensor, noise: torch.Tensor, again: torch.Tensor) -> Any:
        with torch.no_grad():
            made = generate(parameters, noise)
        seen, invented = judge(parameters, images), judge(parameters, made)
        critic_loss = F.softplus(-seen).mean() + F.softplus(invented).mean()
        parameters = _descend(parameters, "critic", critic_loss)
        generator_loss = F.softplus(-judge(parameters, generate(parameters, again))).mean()
        parameters = _descend(parameters, "generator", generator_loss)
        return critic_loss, generator_loss, parameters

    images, noise = torch.empty(batch, 3, 32, 32), torch.empty(batch, 100, 1, 1)
    return WholeStep(module, step, (images, noise, torch.empty_like(noise)))


def _gradient_penalty(batch: int, _: int) -> WholeStep:
    """The critic of WGAN-GP: its loss reads a gradient of its own, so it is differentiated twice."""
    module = nn.ModuleDict({"critic": _critic(64, normed=False)})
    judge = _called(module, "critic")

    def step(parameters: Parameters, images: torch.Tensor, made: torch.Tensor, part: torch.Tensor) -> Any:
        between = (part * images + (1 - part) * made).requires_grad_()
        score = judge(parameters, between).sum()
        with gradients():
            (slope,) = torch.autograd.grad(score, between, create_graph=True)
        norms = (slope.square().sum(dim=(1, 2, 3)) + 1e-12).sqrt()
        penalty = (norms - 1).square().mean()
        loss = judge(parameters, made).mean() - judge(parameters, images).mean() + 10 * penalty
        return loss, _descend(parameters, "critic", loss)

    images, part = torch.empty(batch, 3, 32, 32), torch.empty(batch, 1, 1, 1)
    return WholeStep(module, step, (images, torch.empty_like(images), part))


_SEQUENCE = "more/{name}_b{batch}_t{length}"
_IMAGES = "more/{name}_b{batch}"

MODELS = {
    "vgg16": Model(torchvision_model("vgg16"), batch=64, file=_IMAGES),
    "efficientnet_b4": Model(torchvision_model("efficientnet_b4", size=380), batch=16, file=_IMAGES),
    "mobilenet_v2": Model(torchvision_model("mobilenet_v2"), batch=96, file=_IMAGES),
    "squeezenet": Model(torchvision_model("squeezenet1_1"), batch=128, file=_IMAGES),
    "inception_v3": Model(_inception_v3, batch=64, file=_IMAGES),
    "convnext_tiny": Model(torchvision_model("convnext_tiny"), batch=64, file=_IMAGES),
    "swin_t": Model(torchvision_model("swin_t"), batch=32, file=_IMAGES),
    "unet": Model(_unet, batch=16, file=_IMAGES),
    "diffusion_unet": Model(_diffusion_unet, batch=64, file=_IMAGES),
    "llama_grouped_8x2048": Model(_llama_grouped, batch=4, length=512, file=_SEQUENCE),
    "t5_small": Model(_t5_small, batch=32, length=128, file=_SEQUENCE),
    "mamba": Model(_mamba, batch=16, length=48, file=_SEQUENCE),
    "moe": Model(_moe, batch=8, length=512, file=_SEQUENCE),
    "gan": Model(_gan, batch=128, file="more/{name}"),
    "gradient_penalty": Model(_gradient_penalty, batch=64, file="more/{name}"),
}
