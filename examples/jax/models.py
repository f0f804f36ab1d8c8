"""Training steps that tests, `run` and the measurements share: real models, small enough for a CPU.

`step_of(name)` gives a step and the shapes of its arguments; nothing is allocated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name

Shapes = tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """A training step: `loss(parameters, *batch)` and an optimizer."""

    loss: Callable[..., jax.Array]
    parameters: Any  # shapes
    batch: Shapes
    optimizer: Any = optax.adam(1e-3)

    @property
    def step(self) -> Callable[..., Any]:
        """Loss, gradients and the optimizer's update."""

        def train(parameters: Any, state: Any, *batch: Any) -> Any:
            value, gradients = jax.value_and_grad(self.loss)(parameters, *batch)
            updates, state = self.optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), state, value

        return train

    @property
    def arguments(self) -> Shapes:
        return (self.parameters, jax.eval_shape(self.optimizer.init, self.parameters), *self.batch)


def key_shape() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def shape(*extents: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(extents, dtype)


def checkpointed(layer: Callable[..., Any], policy: Any, **options: Any) -> Callable[..., Any]:
    """The layer in a jax.checkpoint with that policy, if there is one."""
    return layer if policy is None else jax.checkpoint(layer, policy=policy, **options)


def filled(shapes: Any, seed: int = 0) -> Any:
    """Arrays of these shapes: small numbers, tokens below 10, a key."""
    random = np.random.default_rng(seed)

    def fill(leaf: Any) -> Any:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key(seed)
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            made = jnp.asarray(random.integers(0, 10, leaf.shape), leaf.dtype)
        else:
            made = jnp.asarray(0.1 * random.standard_normal(leaf.shape), leaf.dtype)
        return made if leaf.sharding is None else jax.device_put(made, leaf.sharding)

    return jax.tree.map(fill, shapes)


# ---- Transformer, in flax, with dropout


class Block(nn.Module):
    heads: int
    rate: float = 0.1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        drop = nn.Dropout(self.rate, deterministic=False)
        y = nn.LayerNorm()(x)
        y = nn.MultiHeadDotProductAttention(self.heads, dropout_rate=self.rate, deterministic=False)(y, y)
        x = x + drop(checkpoint_name(y, "attention"))
        y = nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))
        y = nn.gelu(checkpoint_name(y, "wide"))
        return x + drop(checkpoint_name(nn.Dense(x.shape[-1])(y), "narrow"))


class Transformer(nn.Module):
    layers: int = 4
    width: int = 128
    heads: int = 4
    words: int = 1024
    scanned: bool = False
    policy: Any = None

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.words, self.width)(tokens)
        block = nn.remat(Block, policy=self.policy, prevent_cse=not self.scanned) if self.policy else Block
        if self.scanned:
            stack = nn.scan(
                lambda module, carry, _: (module(carry), None),
                variable_axes={"params": 0},
                split_rngs={"params": True, "dropout": True},
                length=self.layers,
            )
            x, _ = stack(block(self.heads), x, None)
        else:
            for _ in range(self.layers):
                x = block(self.heads)(x)
        return nn.Dense(self.words)(nn.LayerNorm()(x))


def transformer(batch: int = 4, length: int = 128, **options: Any) -> Step:
    model = Transformer(**options)
    tokens = shape(batch, length, dtype=jnp.int32)

    def loss(parameters: Any, tokens: jax.Array, key: jax.Array) -> jax.Array:
        logits = model.apply(parameters, tokens, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

    keys = {"params": key_shape(), "dropout": key_shape()}
    return Step(loss, jax.eval_shape(model.init, keys, tokens), (tokens, key_shape()))


# ---- LSTM, by scan


def lstm(batch: int = 32, length: int = 64, width: int = 128, policy: Any = None) -> Step:
    def cell(weights: Any, state: Any, x: jax.Array) -> Any:
        hidden, memory = state
        gates = x @ weights["input"] + hidden @ weights["hidden"] + weights["bias"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (hidden, memory), hidden

    def loss(weights: Any, xs: jax.Array, ys: jax.Array) -> jax.Array:
        start = jnp.zeros((batch, width))
        for layer in weights:
            step = checkpointed(functools.partial(cell, layer), policy, prevent_cse=False)
            _, xs = jax.lax.scan(step, (start, start), xs)
        return ((xs - ys) ** 2).mean()

    layer = {"input": shape(width, 4 * width), "hidden": shape(width, 4 * width), "bias": shape(4 * width)}
    return Step(loss, [layer, layer], (shape(length, batch, width), shape(length, batch, width)))


# ---- ResNet


class Residual(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def conv(width: int, stride: int, size: int = 3) -> nn.Conv:
            return nn.Conv(width, (size, size), (stride, stride), use_bias=False)

        y = nn.relu(nn.GroupNorm(8)(conv(self.width, self.stride)(x)))
        y = nn.GroupNorm(8)(conv(self.width, 1)(y))
        if x.shape != y.shape:
            x = nn.GroupNorm(8)(conv(self.width, self.stride, 1)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    widths: tuple[int, ...] = (16, 32, 64)
    depth: int = 2
    classes: int = 10
    policy: Any = None

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = nn.relu(nn.GroupNorm(8)(nn.Conv(self.widths[0], (3, 3), use_bias=False)(images)))
        block = nn.remat(Residual, policy=self.policy) if self.policy else Residual
        for stage, width in enumerate(self.widths):
            for at in range(self.depth):
                x = block(width, 2 if stage and not at else 1)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


def resnet(batch: int = 16, size: int = 32, **options: Any) -> Step:
    model = ResNet(**options)
    images, labels = shape(batch, size, size, 3), shape(batch, dtype=jnp.int32)

    def loss(parameters: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        logits = model.apply(parameters, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return Step(loss, jax.eval_shape(model.init, key_shape(), images), (images, labels), optax.sgd(0.1, 0.9))


# ---- Llama: no dropout, gated MLP, rotary positions left out


def llama(
    batch: int = 2, length: int = 256, layers: int = 4, width: int = 128, words: int = 1024, **kinds: Any
) -> Step:
    heads, dtype = width // 32 if width < 1024 else width // 128, kinds.get("dtype", jnp.float32)

    def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale

    def layer(x: jax.Array, w: Any) -> jax.Array:
        y = norm(x, w["norm1"])
        q, k, v = (checkpoint_name((y @ w[n]).reshape(*y.shape[:2], heads, -1), n) for n in ("q", "k", "v"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(x.dtype), v).reshape(x.shape)
        x = x + checkpoint_name(mixed, "mixed") @ w["o"]
        y = norm(x, w["norm2"])
        gate, up = checkpoint_name(y @ w["gate"], "gate"), checkpoint_name(y @ w["up"], "up")
        return x + (jax.nn.silu(gate) * up) @ w["down"]

    around = checkpointed(layer, kinds.get("policy"))

    def loss(parameters: Any, tokens: jax.Array) -> jax.Array:
        x = parameters["embed"][tokens]
        for weights in parameters["layers"]:
            x = around(x, weights)
        logits = (x @ parameters["embed"].T).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

    wide = kinds.get("wide", 3 * width)
    weights = {n: shape(width, width, dtype=dtype) for n in "qkvo"} | {
        n: shape(width, dtype=dtype) for n in ("norm1", "norm2")
    }
    weights |= {n: shape(width, wide, dtype=dtype) for n in ("gate", "up")} | {"down": shape(wide, width, dtype=dtype)}
    parameters = {"embed": shape(words, width, dtype=dtype), "layers": [weights] * layers}
    return Step(loss, parameters, (shape(batch, length, dtype=jnp.int32),), optax.sgd(0.1))


# ---- Diffusion U-Net: predicts the noise that was added to images


class Convolved(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        y = nn.Conv(self.width, (3, 3))(nn.swish(nn.GroupNorm(8)(x)))
        y = y + nn.Dense(self.width)(time)[:, None, None]
        y = nn.Conv(self.width, (3, 3))(nn.swish(nn.GroupNorm(8)(y)))
        return y + (x if x.shape[-1] == self.width else nn.Conv(self.width, (1, 1))(x))


class UNet(nn.Module):
    widths: tuple[int, ...] = (16, 32, 64)
    policy: Any = None

    @nn.compact
    def __call__(self, images: jax.Array, times: jax.Array) -> jax.Array:
        angles = times[:, None] * jnp.exp(-jnp.arange(16.0))
        time = nn.swish(nn.Dense(64)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)))
        block = nn.remat(Convolved, policy=self.policy) if self.policy else Convolved
        x, skipped = nn.Conv(self.widths[0], (3, 3))(images), []
        for width in self.widths[:-1]:
            x = block(width)(x, time)
            skipped.append(x)
            x = nn.avg_pool(x, (2, 2), (2, 2))
        x = block(self.widths[-1])(x, time)
        for width, skip in zip(self.widths[-2::-1], reversed(skipped)):
            x = jax.image.resize(x, (*skip.shape[:3], x.shape[-1]), "nearest")
            x = block(width)(jnp.concatenate([x, skip], -1), time)
        return nn.Conv(images.shape[-1], (3, 3))(nn.swish(nn.GroupNorm(8)(x)))


def unet(batch: int = 8, size: int = 32, **options: Any) -> Step:
    model = UNet(**options)
    images, times = shape(batch, size, size, 3), shape(batch)

    def loss(parameters: Any, images: jax.Array, times: jax.Array, key: jax.Array) -> jax.Array:
        noise, part = jax.random.normal(key, images.shape), jax.nn.sigmoid(times)[:, None, None, None]
        return (
            (model.apply(parameters, jnp.sqrt(1 - part) * images + jnp.sqrt(part) * noise, times) - noise) ** 2
        ).mean()

    return Step(loss, jax.eval_shape(model.init, key_shape(), images, times), (images, times, key_shape()))


# ---- Mixture of experts: each token goes to the best of them, as far as that has room


def moe(
    batch: int = 4,
    length: int = 128,
    layers: int = 2,
    width: int = 128,
    experts: int = 4,
    words: int = 1024,
    policy: Any = None,
) -> Step:
    tokens = batch * length
    room = 2 * tokens // experts

    def layer(x: jax.Array, w: Any) -> jax.Array:
        chance = jax.nn.softmax(x @ w["router"])
        best = chance.argmax(-1)
        chosen = jax.nn.one_hot(best, experts)
        place = ((jnp.cumsum(chosen, 0) - 1) * chosen).sum(-1).astype(jnp.int32)
        sent = chosen[:, :, None] * jax.nn.one_hot(place, room)[:, None]
        y = jax.nn.gelu(jnp.einsum("erd,edf->erf", jnp.einsum("ter,td->erd", sent, x), w["up"]))
        y = jnp.einsum("ter,erd->td", sent, jnp.einsum("erf,efd->erd", y, w["down"]))
        return x + y * jnp.take_along_axis(chance, best[:, None], -1)

    def loss(parameters: Any, ids: jax.Array) -> jax.Array:
        x = parameters["embed"][ids.reshape(-1)]
        for weights in parameters["layers"]:
            x = checkpointed(layer, policy)(x, weights)
        return optax.softmax_cross_entropy_with_integer_labels(x @ parameters["embed"].T, ids.reshape(-1)).mean()

    weights = {"router": shape(width, experts)}
    weights |= {"up": shape(experts, width, 4 * width), "down": shape(experts, 4 * width, width)}
    return Step(
        loss, {"embed": shape(words, width), "layers": [weights] * layers}, (shape(batch, length, dtype=jnp.int32),)
    )


MODELS: dict[str, Callable[[], Step]] = {
    "transformer": transformer,
    "transformer, loop over layers": lambda: transformer(scanned=True),
    "lstm, loop over time": lstm,
    "resnet": resnet,
    "llama": llama,
    "unet": unet,
    "moe": moe,
}
SMALL: dict[str, Callable[[], Step]] = {
    "transformer": lambda: transformer(layers=2),
    "transformer, loop over layers": lambda: transformer(scanned=True),
    "lstm, loop over time": lstm,
    "resnet": lambda: resnet(widths=(16, 32), depth=1),
    "llama": lambda: llama(layers=2),
}
