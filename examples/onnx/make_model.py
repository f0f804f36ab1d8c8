#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Makes ONNX models to try echo-plan on: training steps with their gradients as nodes, and inference alone.

    python3 examples/onnx/make_model.py NAME FILE [--inference] [--small] [--weights]

NAME is `resnet50` or `transformer` with the gradient ops of onnxruntime (ConvGrad, LayerNormalizationGrad, ...), or `plain`:
a transformer whose gradient is made of ONNX's own ops, so that every runtime runs it. The batch is the symbolic dimension
`batch`, but for `plain`. Weights are named and never written, unless --weights asks for them.
"""
from __future__ import annotations

import argparse
import pathlib
import random
import struct
from collections.abc import Callable

from wire import INT64, Builder

MICROSOFT = "com.microsoft"


class Step(Builder):
    """A training step: forward ops put their gradients on a tape, and `backward` plays it."""

    def __init__(self, name: str, weights: bool = False, **more):
        super().__init__(name, **more)
        self.tape: list[tuple[str, Callable[[], None]]] = []
        self.gradients: dict[str, list[str]] = {}
        self.learned: dict[str, tuple[int, ...]] = {}
        self.with_weights = weights
        self.draw = random.Random(1)

    def parameter(self, name: str, *shape: int) -> str:
        raw = None
        count = 1
        for extent in shape:
            count *= extent
        if self.with_weights:
            raw = struct.pack(f"<{count}f", *(self.draw.gauss(0, 0.1) for _ in range(count)))
        self.learned[name] = shape
        return self.weight(name, shape, raw)

    def record(self, gradient: Callable[[], None]) -> None:
        self.tape.append((self.scope, gradient))

    def give(self, value: str, gradient: str) -> None:
        self.gradients.setdefault(value, []).append(gradient)

    def gradient(self, value: str) -> str:
        """The sum of what was given."""
        parts = self.gradients[value]
        return parts[0] if len(parts) == 1 else self.node("Sum", parts)

    def backward(self, update: bool) -> None:
        """Plays the tape; then every parameter's gradient is an output, or a new parameter is."""
        for scope, gradient in reversed(self.tape):
            self.scope = scope + "_Grad"
            gradient()
        self.scope = "/update"
        rate = self.scalar("learning_rate", 0.01) if update else ""
        for name, shape in self.learned.items():
            if update:
                outputs = [f"{name}_new", ""]
                self.node("SGDOptimizer", [rate, name, self.gradient(name)], outputs, MICROSOFT)
                self.output(outputs[0], shape)
            else:
                self.output(self.node("Identity", [self.gradient(name)], [f"{name}_grad"]), shape)

    # Forward ops

    def matmul(self, x: str, w: str) -> str:
        """x is a matrix."""
        y = self.node("MatMul", [x, w])

        def gradient() -> None:
            dy = self.gradient(y)
            self.give(x, self.node("MatMul", [dy, self.node("Transpose", [w], perm=[1, 0])]))
            self.give(w, self.node("MatMul", [self.node("Transpose", [x], perm=[1, 0]), dy]))
        self.record(gradient)
        return y

    def products(self, a: str, b: str) -> str:
        """Of a batch of heads."""
        y = self.node("MatMul", [a, b])

        def gradient() -> None:
            dy = self.gradient(y)
            turn = [0, 1, 3, 2]
            self.give(a, self.node("MatMul", [dy, self.node("Transpose", [b], perm=turn)]))
            self.give(b, self.node("MatMul", [self.node("Transpose", [a], perm=turn), dy]))
        self.record(gradient)
        return y

    def reshape(self, x: str, to: str, back: str) -> str:
        y = self.node("Reshape", [x, to])
        self.record(lambda: self.give(x, self.node("Reshape", [self.gradient(y), back])))
        return y

    def transpose(self, x: str, perm: list[int]) -> str:
        y = self.node("Transpose", [x], perm=perm)
        back = [perm.index(axis) for axis in range(len(perm))]
        self.record(lambda: self.give(x, self.node("Transpose", [self.gradient(y)], perm=back)))
        return y

    def add(self, a: str, b: str) -> str:
        y = self.node("Add", [a, b])

        def gradient() -> None:
            dy = self.gradient(y)
            self.give(a, dy)
            self.give(b, dy)
        self.record(gradient)
        return y

    def scale(self, x: str, by: str) -> str:
        y = self.node("Mul", [x, by])
        self.record(lambda: self.give(x, self.node("Mul", [self.gradient(y), by])))
        return y

    def softmax(self, x: str, plain: bool) -> str:
        y = self.node("Softmax", [x], axis=-1)

        def gradient() -> None:
            dy = self.gradient(y)
            if not plain:
                self.give(x, self.node("SoftmaxGrad_13", [dy, y], domain=MICROSOFT, axis=-1))
                return
            held = self.node("Mul", [dy, y])
            total = self.node("ReduceSum", [held, "last_axis"])
            self.give(x, self.node("Sub", [held, self.node("Mul", [y, total])]))
        self.record(gradient)
        return y

    def gelu(self, x: str) -> str:
        y = self.node("Gelu", [x], domain=MICROSOFT)
        self.record(lambda: self.give(x, self.node("GeluGrad", [self.gradient(y), x], domain=MICROSOFT)))
        return y

    def silu(self, x: str) -> str:
        """Of ONNX's own ops."""
        s = self.node("Sigmoid", [x])
        y = self.node("Mul", [x, s])

        def gradient() -> None:  # s + x s (1 - s) = s + y - y s
            slope = self.node("Sub", [self.node("Add", [s, y]), self.node("Mul", [y, s])])
            self.give(x, self.node("Mul", [self.gradient(y), slope]))
        self.record(gradient)
        return y

    def norm(self, x: str, name: str, width: int) -> str:
        gamma, beta = self.parameter(f"{name}.gamma", width), self.parameter(f"{name}.beta", width)
        y, mean, deviation = self.node("LayerNormalization", [x, gamma, beta], 3, axis=-1)

        def gradient() -> None:
            made = self.node("LayerNormalizationGrad", [self.gradient(y), x, gamma, mean, deviation], 3,
                             MICROSOFT, axis=-1)
            for value, part in zip((x, gamma, beta), made):
                self.give(value, part)
        self.record(gradient)
        return y

    def plain_norm(self, x: str, name: str, width: int) -> str:
        """By the root of the mean square, of ONNX's own ops."""
        gamma = self.parameter(f"{name}.gamma", width)
        square = self.node("ReduceMean", [self.node("Mul", [x, x])], axes=[-1])
        root = self.node("Sqrt", [self.node("Add", [square, "epsilon"])])
        even = self.node("Div", [x, root])
        y = self.node("Mul", [even, gamma])

        def gradient() -> None:
            dy = self.gradient(y)
            self.give(gamma, self.node("ReduceSum", [self.node("Mul", [dy, even]), "first_axis"], keepdims=0))
            part = self.node("Mul", [dy, gamma])
            mean = self.node("ReduceMean", [self.node("Mul", [part, even])], axes=[-1])
            self.give(x, self.node("Div", [self.node("Sub", [part, self.node("Mul", [even, mean])]), root]))
        self.record(gradient)
        return y

    def convolution(self, x: str, name: str, out: int, into: int, kernel: int, stride: int) -> str:
        w = self.parameter(name, out, into, kernel, kernel)
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": 1}
        y = self.node("Conv", [x, w], **shape)

        def gradient() -> None:
            outputs = ["" if x == "image" else f"{self.scope}/{name}_to_x", f"{self.scope}/{name}_to_w"]
            self.node("ConvGrad", [self.gradient(y), x, w], outputs, MICROSOFT, **shape)
            if outputs[0]:
                self.give(x, outputs[0])
            self.give(w, outputs[1])
        self.record(gradient)
        return y

    def batch_norm(self, x: str, name: str, width: int) -> str:
        gamma, beta = self.parameter(f"{name}.gamma", width), self.parameter(f"{name}.beta", width)
        mean, variance = self.weight(f"{name}.mean", [width]), self.weight(f"{name}.variance", [width])
        y, _, _, saved_mean, saved_deviation = self.node(
            "BatchNormInternal", [x, gamma, beta, mean, variance], 5, MICROSOFT, training_mode=1)

        def gradient() -> None:
            made = self.node("BatchNormalizationGrad", [self.gradient(y), x, gamma, saved_mean, saved_deviation],
                             3, MICROSOFT)
            for value, part in zip((x, gamma, beta), made):
                self.give(value, part)
        self.record(gradient)
        return y

    def relu(self, x: str) -> str:
        y = self.node("Relu", [x])
        self.record(lambda: self.give(x, self.node("ReluGrad", [self.gradient(y), y], domain=MICROSOFT)))
        return y

    def max_pool(self, x: str, shape: list[int | str]) -> str:
        y, indices = self.node("MaxPool", [x], 2, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

        def gradient() -> None:
            made = self.node("MaxPoolGrad", [self.gradient(y), indices], domain=MICROSOFT, kernel_shape=[3, 3],
                             strides=[2, 2], pads=[1] * 4)
            self.info(made, shape)
            self.give(x, made)
        self.record(gradient)
        return y

    def average(self, x: str) -> str:
        y = self.node("GlobalAveragePool", [x])
        self.record(lambda: self.give(
            x, self.node("GlobalAveragePoolGrad", [x, self.gradient(y)], domain=MICROSOFT)))
        return y

    def cross_entropy(self, logits: str) -> str:
        loss, log_probability = self.node("SoftmaxCrossEntropyLoss", [logits, "label"], ["loss", "log_probability"])
        self.output(loss, [])
        one = self.scalar("one", 1.0)
        self.record(lambda: self.give(logits, self.node(
            "SoftmaxCrossEntropyLossGrad", [one, log_probability, "label"], domain=MICROSOFT)))
        return loss


def resnet50(inference: bool, small: bool, weights: bool) -> bytes:
    """Bottleneck blocks; images of 224 x 224, or 32 x 32."""
    m = Step("resnet50", weights, microsoft=True)
    size, widths, counts = (32, 8, (1, 1)) if small else (224, 64, (3, 4, 6, 3))
    m.input("image", ["batch", 3, size, size])
    m.input("label", ["batch"], INT64)
    m.scope = "/stem"
    x = m.relu(m.batch_norm(m.convolution("image", "stem.conv", widths, 3, 7, 2), "stem.norm", widths))
    x = m.max_pool(x, ["batch", widths, size // 2, size // 2])
    into = widths
    for stage, count in enumerate(counts):
        inner = widths << stage
        for block in range(count):
            name, stride = f"layer{stage + 1}.{block}", 2 if block == 0 and stage > 0 else 1
            m.scope = f"/layer{stage + 1}/{block}"
            y = m.relu(m.batch_norm(m.convolution(x, f"{name}.conv1", inner, into, 1, 1), f"{name}.norm1", inner))
            y = m.relu(m.batch_norm(m.convolution(y, f"{name}.conv2", inner, inner, 3, stride), f"{name}.norm2",
                                    inner))
            y = m.batch_norm(m.convolution(y, f"{name}.conv3", 4 * inner, inner, 1, 1), f"{name}.norm3", 4 * inner)
            if block == 0:
                x = m.batch_norm(m.convolution(x, f"{name}.conv0", 4 * inner, into, 1, stride), f"{name}.norm0",
                                 4 * inner)
            x, into = m.relu(m.add(y, x)), 4 * inner
    m.scope = "/head"
    flat, pooled = m.integers("flat", [-1, into]), m.integers("pooled", [-1, into, 1, 1])
    logits = m.matmul(m.reshape(m.average(x), flat, pooled), m.parameter("head.weight", into, 1000))
    return finish(m, logits, inference)


def finish(m: Step, logits: str, inference: bool) -> bytes:
    if inference:
        m.output(logits, ["rows", 1000])
    else:
        m.cross_entropy(logits)
        m.backward(update=True)
    return m.model()


def transformer(inference: bool, small: bool, weights: bool) -> bytes:
    """Blocks of attention and a perceptron, normalised before each."""
    m = Step("transformer", weights, microsoft=True)
    layers, width, length, heads = (2, 16, 8, 2) if small else (6, 512, 256, 8)
    m.input("tokens", ["batch", length, width])
    m.input("label", [None], INT64)
    rows = m.integers("rows", [-1, width])
    m.integers("split", [-1, length, heads, width // heads])
    m.scalar("attention_scale", (width // heads) ** -0.5)
    x = m.node("Reshape", ["tokens", rows])
    for layer in range(layers):
        m.scope = f"/layer{layer}/attention"
        x = m.add(x, attention(m, m.norm(x, f"{layer}.norm1", width), f"{layer}", width, plain=False))
        m.scope = f"/layer{layer}/perceptron"
        y = m.matmul(m.norm(x, f"{layer}.norm2", width), m.parameter(f"{layer}.up", width, 4 * width))
        x = m.add(x, m.matmul(m.gelu(y), m.parameter(f"{layer}.down", 4 * width, width)))
    m.scope = "/head"
    return finish(m, m.matmul(m.norm(x, "norm", width), m.parameter("head", width, 1000)), inference)


def attention(m: Step, x: str, name: str, width: int, plain: bool) -> str:
    def split(part: str, perm: list[int]) -> str:
        return m.transpose(m.reshape(m.matmul(x, m.parameter(f"{name}.{part}", width, width)), "split", "rows"), perm)
    scores = m.scale(m.products(split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1])), "attention_scale")
    mixed = m.products(m.softmax(scores, plain), split("value", [0, 2, 1, 3]))
    joined = m.reshape(m.transpose(mixed, [0, 2, 1, 3]), "rows", "split")
    return m.matmul(joined, m.parameter(f"{name}.join", width, width))


def plain(inference: bool, small: bool, weights: bool) -> bytes:
    """The same with SiLU and norms of ONNX's own ops, and the squared distance to a target as loss."""
    m = Step("plain", weights)
    layers, width, length, heads, batch = (2, 16, 8, 2, 2) if small else (4, 256, 128, 8, 8)
    m.input("tokens", [batch, length, width])
    m.integers("rows", [-1, width])
    m.integers("split", [-1, length, heads, width // heads])
    m.integers("first_axis", [0])
    m.integers("last_axis", [-1])
    m.scalar("attention_scale", (width // heads) ** -0.5)
    m.scalar("epsilon", 1e-5)
    x = m.node("Reshape", ["tokens", "rows"])
    for layer in range(layers):
        m.scope = f"/layer{layer}/attention"
        x = m.add(x, attention(m, m.plain_norm(x, f"{layer}.norm1", width), f"{layer}", width, plain=True))
        m.scope = f"/layer{layer}/perceptron"
        y = m.matmul(m.plain_norm(x, f"{layer}.norm2", width), m.parameter(f"{layer}.up", width, 4 * width))
        x = m.add(x, m.matmul(m.silu(y), m.parameter(f"{layer}.down", 4 * width, width)))
    m.scope = "/loss"
    if inference:
        m.output(x, [batch * length, width])
        return m.model()
    m.input("target", [batch * length, width])
    far = m.node("Sub", [x, "target"])
    m.output(m.node("ReduceMean", [m.node("Mul", [far, far])], ["loss"], keepdims=0), [])
    m.scope = "/loss_Grad"
    m.give(x, m.node("Mul", [far, m.scalar("two_over_count", 2 / (batch * length * width))]))
    m.backward(update=False)
    return m.model()


MODELS = {"resnet50": resnet50, "transformer": transformer, "plain": plain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("file", type=pathlib.Path)
    for option in ("inference", "small", "weights"):
        parser.add_argument(f"--{option}", action="store_true")
    chosen = parser.parse_args()
    chosen.file.write_bytes(MODELS[chosen.name](chosen.inference, chosen.small, chosen.weights))


if __name__ == "__main__":
    main()
