"""Steps of many kinds, small enough to compile in seconds: what people write in JAX. Shapes only; nothing is allocated.

FAST are those that each run of the tests looks at; bench/jax looks at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import models
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from models import Step, shape

import echo_jax

gradient = jax.value_and_grad


@dataclass(frozen=True)
class Case:
    step: Callable[..., Any]
    arguments: tuple[Any, ...]  # shapes
    donated: tuple[int, ...] = ()
    compared: Callable[[Any], Any] = lambda results: results

    def judged(self) -> Judged:
        """Compiles, runs and compares the step as it is and rewritten, with the scheduler for memory."""
        plain = jax.jit(self.step, donate_argnums=self.donated, compiler_options=echo_jax.MEMORY_SCHEDULER)
        ours = echo_jax.remat(plain)
        decision = ours.decide(*self.arguments)
        stated = ours.lower(*self.arguments).compile().memory_analysis().temp_size_in_bytes
        given = models.filled(self.arguments)
        pairs = [jax.tree.leaves(self.compared(run(*jax.tree.map(jnp.copy, given)))) for run in (ours, plain)]
        floats = [(a, b) for a, b in zip(*pairs, strict=True) if jnp.issubdtype(b.dtype, jnp.inexact)]
        largest = max(float(jnp.max(jnp.abs(b))) for _, b in floats)
        differs = max(float(jnp.max(jnp.abs(a - b))) for a, b in floats) / largest
        return Judged(decision, stated, differs)


@dataclass(frozen=True)
class Judged:
    decision: echo_jax.Decision
    stated: int  # bytes of temporary memory of what runs, as the compiler states
    differs: float  # the largest difference of values, in parts of the largest value


def whole(step: Step) -> Case:
    """Loss, gradients, update, with donated parameters and state. Compared are means of gradients, where the optimizer
    keeps them: it divides by small numbers.
    """

    def compared(results: Any) -> Any:
        moments = [leaf for leaf in jax.tree.leaves(results[1]) if leaf.ndim]
        return (moments, results[2]) if moments else results

    return Case(step.step, step.arguments, (0, 1), compared)


def bare(step: Step) -> Case:
    return Case(gradient(step.loss), (step.parameters, *step.batch))


def squares(layers: int = 6, width: int = 256, rows: int = 512) -> tuple[list[Any], Any]:
    """Weights and a batch for plain layers."""
    return [shape(width, width)] * layers, shape(rows, width)


# ---- Recurrent


def gru(batch: int = 32, length: int = 48, width: int = 128) -> Case:
    model = nn.RNN(nn.GRUCell(width))
    xs = shape(batch, length, width)

    def loss(parameters: Any, xs: jax.Array) -> jax.Array:
        return (model.apply(parameters, xs) ** 2).mean()

    return Case(gradient(loss), (jax.eval_shape(model.init, models.key_shape(), xs), xs))


def nested_loops() -> Case:
    """A loop over layers, within each a loop over time."""

    def loss(weights: jax.Array, xs: jax.Array) -> jax.Array:
        def layer(xs: jax.Array, w: jax.Array) -> Any:
            def cell(h: jax.Array, x: jax.Array) -> Any:
                h = jnp.tanh(x + jax.nn.sigmoid(h @ w) * h)
                return h, h

            return jax.lax.scan(cell, jnp.zeros_like(xs[0]), xs)[1], None

        return (jax.lax.scan(layer, xs, weights)[0] ** 2).mean()

    return Case(gradient(loss), (shape(3, 64, 64), shape(32, 64, 64)))


def state_space() -> Case:
    """A linear recurrence by jax.lax.associative_scan, as in Mamba."""

    def loss(weights: Any, xs: jax.Array) -> jax.Array:
        for w in weights:
            gate = jax.nn.sigmoid(xs @ w)
            joined = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])  # noqa: E731
            xs = xs + jnp.tanh(jax.lax.associative_scan(joined, (gate, (1 - gate) * xs), axis=1)[1])
        return (xs**2).mean()

    return Case(gradient(loss), ([shape(64, 64)] * 3, shape(8, 64, 64)))


# ---- Images


def vit() -> Case:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, images: jax.Array) -> jax.Array:
            x = nn.Conv(96, (4, 4), (4, 4))(images).reshape(images.shape[0], -1, 96)
            x = x + self.param("place", nn.initializers.zeros, x.shape[1:])
            for _ in range(3):
                y = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(4)(y, y)
                x = x + nn.Dense(96)(nn.gelu(nn.Dense(384)(nn.LayerNorm()(x))))
            return nn.Dense(10)(x.mean(1))

    model, images = Model(), shape(16, 32, 32, 3)

    def loss(parameters: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(parameters, images), labels).mean()

    parameters = jax.eval_shape(model.init, models.key_shape(), images)
    return whole(Step(loss, parameters, (images, shape(16, dtype=jnp.int32)), optax.adamw(1e-3)))


def vae() -> Case:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array, key: jax.Array) -> Any:
            y = nn.relu(nn.Dense(512)(x))
            mean, spread = nn.Dense(64)(y), nn.Dense(64)(y)
            z = mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape)
            return nn.Dense(x.shape[-1])(nn.relu(nn.Dense(512)(z))), mean, spread

    model, x = Model(), shape(512, 784)

    def loss(parameters: Any, x: jax.Array, key: jax.Array) -> jax.Array:
        told, mean, spread = model.apply(parameters, x, key)
        return ((told - x) ** 2).mean() + 1e-3 * (jnp.exp(spread) + mean**2 - 1 - spread).mean()

    key = models.key_shape()
    return whole(Step(loss, jax.eval_shape(model.init, key, x, key), (x, key)))


def batch_norm() -> Case:
    """A convolutional network with running means: gradients with further results."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for width in (16, 32, 32):
                x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(width, (3, 3), use_bias=False)(x)))
            return nn.Dense(10)(x.mean((1, 2)))

    model, images = Model(), shape(16, 24, 24, 3)
    variables = jax.eval_shape(model.init, models.key_shape(), images)

    def loss(parameters: Any, means: Any, images: jax.Array) -> Any:
        told, after = model.apply({"params": parameters, "batch_stats": means}, images, mutable=["batch_stats"])
        return (told**2).mean(), after

    return Case(gradient(loss, has_aux=True), (variables["params"], variables["batch_stats"], images))


def fourier() -> Case:
    """Layers in the frequency domain: complex values."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = x + jax.nn.gelu(jnp.fft.irfft(jnp.fft.rfft(x, axis=1) * w, n=x.shape[1], axis=1))
        return (x**2).mean()

    return Case(gradient(loss), ([shape(65, 32)] * 4, shape(16, 128, 32)))


# ---- Transformations


def mixed_precision() -> Case:
    """Parameters in float32, the network in bfloat16."""
    step = models.llama(layers=2, words=512)

    def loss(parameters: Any, tokens: jax.Array) -> jax.Array:
        return step.loss(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), parameters), tokens)

    return whole(Step(loss, step.parameters, step.batch, optax.adam(1e-3)))


def own_derivatives() -> Case:
    @jax.custom_vjp
    def swish(x: jax.Array) -> jax.Array:
        return x * jax.nn.sigmoid(x)

    def forward(x: jax.Array) -> Any:
        return swish(x), (x, jax.nn.sigmoid(x))

    def backward(kept: Any, g: jax.Array) -> Any:
        x, s = kept
        return (g * (s + x * s * (1 - s)),)

    swish.defvjp(forward, backward)

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = swish(x @ w)
        return (x**2).mean()

    return Case(gradient(loss), squares())


def by_example() -> Case:
    """Gradients of each example by vmap, clipped (differential privacy)."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return (x**2).mean()

    def step(weights: Any, xs: jax.Array) -> Any:
        each = jax.vmap(jax.grad(loss), (None, 0))(weights, xs)
        return jax.tree.map(lambda g: jnp.clip(g, -0.1, 0.1).mean(0), each)

    return Case(step, ([shape(64, 64)] * 4, shape(16, 32, 64)))


def accumulated() -> Case:
    """Gradients of parts of a batch, summed by a loop."""
    step = models.llama(layers=2, words=512)

    def train(parameters: Any, parts: jax.Array) -> Any:
        def add(total: Any, part: jax.Array) -> Any:
            value, found = gradient(step.loss)(parameters, part)
            return jax.tree.map(jnp.add, total, found), value

        total, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, parameters), parts)
        return jax.tree.map(lambda p, g: p - 0.1 * g / len(parts), parameters, total), values.mean()

    return Case(train, (step.parameters, shape(4, 1, 256, dtype=jnp.int32)), (0,))


def clipped() -> Case:
    """Gradients that wait for the norm of all."""
    step = models.llama(layers=2, words=512)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return whole(Step(step.loss, step.parameters, step.batch, optimizer))


def own_checkpoints() -> Case:
    """Layers in jax.checkpoint already."""
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return whole(models.llama(layers=2, words=512, policy=policy))


def scanned_checkpoints() -> Case:
    return whole(models.transformer(scanned=True, policy=jax.checkpoint_policies.nothing_saveable, words=512))


def of_gradients() -> Case:
    """A penalty on gradients: derivatives of second order."""

    def network(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = jax.nn.softplus(x @ w)
        return x.sum()

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        return ((jnp.linalg.norm(jax.grad(network, 1)(weights, x), axis=-1) - 1) ** 2).mean()

    return Case(gradient(loss), squares(3, 128, 256))


def twice() -> Case:
    """Sharpness-aware minimization: gradients at weights that a first gradient has changed."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = x + jax.nn.gelu(x @ w)
        return (x**2).mean()

    def step(weights: Any, x: jax.Array) -> Any:
        first = jax.grad(loss)(weights, x)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in first))
        return jax.value_and_grad(loss)([w + 0.05 * g / norm for w, g in zip(weights, first)], x)

    return Case(step, squares(4, 128, 1024))


def branches() -> Case:
    """Conditionals, and a loop of a fixed number of iterations."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = jax.lax.cond(x[0, 0] > 0, lambda x, w: jnp.tanh(x @ w), lambda x, w: jnp.sin(x @ w), x, w)
            x = jax.lax.fori_loop(0, 3, lambda _, x, w=w: x + 0.1 * jnp.tanh(x @ w), x)
        return (x**2).mean()

    return Case(gradient(loss), squares(3, 128, 256))


def graph_network() -> Case:
    """Messages along edges, by gather and segment_sum."""

    def loss(weights: Any, x: jax.Array, begins: jax.Array, ends: jax.Array) -> jax.Array:
        for w in weights:
            sent = jax.nn.relu(x[begins] @ w)
            x = jnp.tanh(x + jax.ops.segment_sum(sent, ends, x.shape[0]))
        return (x**2).mean()

    edges = shape(4096, dtype=jnp.int32)
    return Case(gradient(loss), ([shape(64, 64)] * 3, shape(1024, 64), edges, edges))


# ---- Several devices


def mesh() -> Mesh:
    return jax.make_mesh((len(jax.devices()),), ("data",))


def sharded() -> Case:
    """A batch on several devices, partitioned by the compiler."""

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    devices = mesh()
    weights, x = squares()
    told = [jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=NamedSharding(devices, P())) for w in weights]
    return Case(
        gradient(loss), (told, jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(devices, P("data"))))
    )


def by_shard_map() -> Case:
    """A batch on several devices, each of which computes its own gradients."""
    devices = mesh()

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return (x**2).mean()

    def step(weights: Any, x: jax.Array) -> Any:
        inner = jax.shard_map(
            lambda w, x: jax.lax.pmean(loss(w, x), "data"), mesh=devices, in_specs=(P(), P("data")), out_specs=P()
        )
        return gradient(inner)(weights, x)

    weights, x = squares()
    told = [jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=NamedSharding(devices, P())) for w in weights]
    return Case(step, (told, jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(devices, P("data")))))


CASES: dict[str, Callable[[], Case]] = {
    "transformer with dropout": lambda: whole(models.SMALL["transformer"]()),
    "transformer, loop over layers": lambda: whole(models.SMALL["transformer, loop over layers"]()),
    "LSTM by scan": lambda: whole(models.lstm()),
    "ResNet": lambda: whole(models.SMALL["resnet"]()),
    "U-Net": lambda: whole(models.unet(widths=(16, 32))),
    "mixture of experts": lambda: whole(models.moe()),
    "Llama": lambda: bare(models.llama(layers=2)),
    "GRU": gru,
    "loops in loops": nested_loops,
    "state space": state_space,
    "ViT": vit,
    "VAE": vae,
    "batch norm": batch_norm,
    "Fourier layers": fourier,
    "bfloat16": mixed_precision,
    "custom_vjp": own_derivatives,
    "gradients by example": by_example,
    "accumulated gradients": accumulated,
    "clipped by the norm": clipped,
    "own checkpoints": own_checkpoints,
    "own checkpoints in a loop": scanned_checkpoints,
    "gradients of gradients": of_gradients,
    "two gradients in a row": twice,
    "cond and fori_loop": branches,
    "graph network": graph_network,
    "sharded batch": sharded,
    "shard_map": by_shard_map,
}
FAST = (
    "custom_vjp",
    "loops in loops",
    "gradients of gradients",
    "two gradients in a row",
    "cond and fori_loop",
    "sharded batch",
    "shard_map",
)
