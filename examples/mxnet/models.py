"""The models of the comparison as MXNet symbols: translation with LSTMs, Transformer, ResNet."""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Tuple

import mxnet as mx

Shapes = Dict[str, Tuple[int, ...]]


class Model(NamedTuple):
    """A symbol and the shapes of its inputs; these are data, all other arguments are trained."""

    symbol: mx.sym.Symbol
    shapes: Shapes


def _lstm(
    x: mx.sym.Symbol,
    state: Tuple[mx.sym.Symbol, mx.sym.Symbol],
    weights: Dict[str, mx.sym.Symbol],
    hidden: int,
    name: str,
) -> Tuple[mx.sym.Symbol, mx.sym.Symbol]:
    """One step of an LSTM: new output and cell."""
    h, c = state
    gates = mx.sym.FullyConnected(
        x, weights["i2h_weight"], weights["i2h_bias"], num_hidden=4 * hidden, name=name + "_i2h"
    )
    gates = gates + mx.sym.FullyConnected(
        h, weights["h2h_weight"], weights["h2h_bias"], num_hidden=4 * hidden, name=name + "_h2h"
    )
    i, f, g, o = mx.sym.SliceChannel(gates, num_outputs=4, name=name + "_slice")
    i, f, o = (mx.sym.Activation(gate, act_type="sigmoid") for gate in (i, f, o))
    c = f * c + i * mx.sym.Activation(g, act_type="tanh")
    return o * mx.sym.Activation(c, act_type="tanh"), c


def _weights(layer: str) -> Dict[str, mx.sym.Symbol]:
    names = ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
    return {name: mx.sym.Variable(f"{layer}_{name}") for name in names}


def nmt(batch: int = 128, length: int = 50, hidden: int = 512, vocabulary: int = 17192) -> Model:
    """Two layers of LSTM on each side, the first in both directions, attention by an MLP."""
    shapes: Shapes = {
        "source_data": (batch, length),
        "target_data": (batch, length),
        "softmax_label": (batch * length,),
        "zero_data": (batch, hidden),
        "half_data": (batch, hidden // 2),
    }
    zero, half = mx.sym.Variable("zero_data"), mx.sym.Variable("half_data")

    def embed(side: str) -> list:
        rows = mx.sym.Embedding(
            mx.sym.Variable(side + "_data"),
            mx.sym.Variable(side + "_embed_weight"),
            input_dim=vocabulary,
            output_dim=hidden,
            name=side + "_embed",
        )
        return list(mx.sym.SliceChannel(rows, num_outputs=length, axis=1, squeeze_axis=True))

    source = embed("source")
    both = []
    for direction, steps in (("forward", range(length)), ("backward", reversed(range(length)))):
        weights, state = _weights("encoder_" + direction), (half, half)
        made = {}
        for t in steps:
            state = _lstm(source[t], state, weights, hidden // 2, f"encoder_{direction}_t{t}")
            made[t] = state[0]
        both.append(made)
    weights, state, encoded = _weights("encoder_top"), (zero, zero), []
    for t in range(length):
        x = mx.sym.Concat(both[0][t], both[1][t], dim=1)
        state = _lstm(x, state, weights, hidden, f"encoder_top_t{t}")
        encoded.append(mx.sym.expand_dims(state[0], axis=1))
    values = mx.sym.Concat(*encoded, dim=1)
    keys = mx.sym.FullyConnected(
        values, num_hidden=hidden, flatten=False, no_bias=True, name="attention_keys"
    )

    query_weight = mx.sym.Variable("attention_query_weight")
    score_weight = mx.sym.Variable("attention_score_weight")
    mix_weight, mix_bias = mx.sym.Variable("attention_mix_weight"), mx.sym.Variable(
        "attention_mix_bias"
    )
    layers = [_weights("decoder_0"), _weights("decoder_1")]
    states, attended, outputs = [(zero, zero), (zero, zero)], zero, []
    for t, word in enumerate(embed("target")):
        x = mx.sym.Concat(word, attended, dim=1)
        for layer, weights in enumerate(layers):
            states[layer] = _lstm(x, states[layer], weights, hidden, f"decoder_{layer}_t{t}")
            x = states[layer][0]
        query = mx.sym.FullyConnected(
            x, query_weight, num_hidden=hidden, no_bias=True, name=f"query_t{t}"
        )
        energy = mx.sym.Activation(
            mx.sym.broadcast_add(keys, mx.sym.expand_dims(query, axis=1)),
            act_type="tanh",
            name=f"energy_t{t}",
        )
        score = mx.sym.FullyConnected(
            energy, score_weight, num_hidden=1, flatten=False, no_bias=True, name=f"score_t{t}"
        )
        weight = mx.sym.softmax(mx.sym.Reshape(score, shape=(0, -1)), axis=1)
        context = mx.sym.batch_dot(mx.sym.expand_dims(weight, axis=1), values, name=f"context_t{t}")
        mixed = mx.sym.Concat(x, mx.sym.Reshape(context, shape=(0, -1)), dim=1)
        attended = mx.sym.Activation(
            mx.sym.FullyConnected(mixed, mix_weight, mix_bias, num_hidden=hidden, name=f"mix_t{t}"),
            act_type="tanh",
        )
        outputs.append(mx.sym.expand_dims(attended, axis=1))
    rows = mx.sym.Reshape(mx.sym.Concat(*outputs, dim=1), shape=(-3, 0))
    logits = mx.sym.FullyConnected(rows, num_hidden=vocabulary, name="logits")
    return Model(
        mx.sym.SoftmaxOutput(logits, mx.sym.Variable("softmax_label"), name="softmax"), shapes
    )


def transformer(
    batch: int = 32,
    length: int = 64,
    width: int = 512,
    layers: int = 6,
    heads: int = 8,
    vocabulary: int = 8192,
) -> Model:
    """An encoder with a prediction for every position, layer norm behind each part."""
    shapes: Shapes = {"data": (batch, length), "softmax_label": (batch * length,)}
    x = mx.sym.Embedding(
        mx.sym.Variable("data"),
        mx.sym.Variable("embed_weight"),
        input_dim=vocabulary,
        output_dim=width,
        name="embed",
    )
    x = mx.sym.broadcast_add(x, mx.sym.Variable("position_weight", shape=(1, length, width)))

    def dense(y: mx.sym.Symbol, size: int, name: str) -> mx.sym.Symbol:
        return mx.sym.FullyConnected(y, num_hidden=size, flatten=False, name=name)

    def split(y: mx.sym.Symbol) -> mx.sym.Symbol:
        y = mx.sym.Reshape(y, shape=(0, 0, heads, -1))
        return mx.sym.Reshape(mx.sym.transpose(y, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    for layer in range(layers):
        name = f"layer{layer}"
        q, k, v = (split(dense(x, width, f"{name}_{part}")) for part in ("query", "key", "value"))
        scores = mx.sym.batch_dot(q, k, transpose_b=True) * (width // heads) ** -0.5
        y = mx.sym.batch_dot(mx.sym.softmax(scores, axis=-1), v)
        y = mx.sym.transpose(mx.sym.Reshape(y, shape=(-4, -1, heads, 0, 0)), axes=(0, 2, 1, 3))
        y = dense(mx.sym.Reshape(y, shape=(0, 0, -3)), width, name + "_join")
        x = mx.sym.LayerNorm(x + y, name=name + "_norm0")
        y = mx.sym.Activation(dense(x, 4 * width, name + "_wide"), act_type="relu")
        x = mx.sym.LayerNorm(x + dense(y, width, name + "_narrow"), name=name + "_norm1")
    logits = mx.sym.FullyConnected(
        mx.sym.Reshape(x, shape=(-3, 0)), num_hidden=vocabulary, name="logits"
    )
    return Model(
        mx.sym.SoftmaxOutput(logits, mx.sym.Variable("softmax_label"), name="softmax"), shapes
    )


def resnet(batch: int = 32, size: int = 112, blocks: Tuple[int, ...] = (3, 4, 6, 3)) -> Model:
    """ResNet with bottlenecks; the default blocks are those of ResNet-50."""
    shapes: Shapes = {"data": (batch, 3, size, size), "softmax_label": (batch,)}

    def convolve(
        y: mx.sym.Symbol, filters: int, kernel: int, stride: int, name: str, relu: bool = True
    ) -> mx.sym.Symbol:
        y = mx.sym.Convolution(
            y,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            num_filter=filters,
            pad=(kernel // 2, kernel // 2),
            no_bias=True,
            name=name + "_conv",
        )
        y = mx.sym.BatchNorm(y, fix_gamma=False, eps=2e-5, name=name + "_norm")
        return mx.sym.Activation(y, act_type="relu", name=name + "_relu") if relu else y

    x = convolve(mx.sym.Variable("data"), 64, 7, 2, "stem")
    x = mx.sym.Pooling(
        x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="stem_pool"
    )
    for stage, count in enumerate(blocks):
        for block in range(count):
            name, filters = f"stage{stage}_block{block}", 64 << stage
            stride = 2 if block == 0 and stage > 0 else 1
            y = convolve(x, filters, 1, 1, name + "_a")
            y = convolve(y, filters, 3, stride, name + "_b")
            y = convolve(y, 4 * filters, 1, 1, name + "_c", relu=False)
            if block == 0:
                x = convolve(x, 4 * filters, 1, stride, name + "_skip", relu=False)
            x = mx.sym.Activation(x + y, act_type="relu", name=name + "_relu")
    x = mx.sym.Flatten(
        mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg", name="pool")
    )
    logits = mx.sym.FullyConnected(x, num_hidden=1000, name="logits")
    return Model(
        mx.sym.SoftmaxOutput(logits, mx.sym.Variable("softmax_label"), name="softmax"), shapes
    )


MODELS: Dict[str, Callable[..., Model]] = {"nmt": nmt, "transformer": transformer, "resnet": resnet}
SMALL: Dict[str, Dict[str, object]] = {
    "nmt": {"batch": 64, "length": 12, "hidden": 128, "vocabulary": 1000},
    "transformer": {
        "batch": 8,
        "length": 64,
        "width": 128,
        "layers": 3,
        "heads": 4,
        "vocabulary": 1000,
    },
    "resnet": {"batch": 8, "size": 64, "blocks": (1, 1, 1)},
}
