#!/usr/bin/env python3
"""Writes a synthetic training graph of any size as echo-graph/1, node by node, so that a million nodes need no memory.

    make_graph.py chain|light-chain|fan|transformer|nmt NODES FILE.json

chain        a deep network of alternating fully-connected and element-wise ops, and its gradients
light-chain  element-wise ops only, of which a single gradient reads a single value, the last
fan          one value read by every op, each with a gradient of its own
transformer  layers of attention and feed-forward parts on a residual stream, and their gradients
nmt          an unrolled encoder and decoder of two LSTM layers each, with MLP attention over all words, and their
             gradients, as in examples/pytorch/models.py; NODES is the number of words in a sentence instead
"""
import json
import sys


class Writer:
    def __init__(self, out):
        self.out = out
        self.count = 0
        out.write('{"format":"echo-graph/1","name":"synthetic","nodes":[\n')

    def add(self, op, phase, inputs, outputs, kind="light", **more):
        node = {"name": f"{op}_{self.count}", "op": op, "phase": phase, "inputs": inputs, "outputs": outputs}
        if phase != "input":
            node.update(kind=kind, rerun="pure")
        node.update(more)
        self.out.write((",\n" if self.count else "") + json.dumps(node, separators=(",", ":")))
        self.count += 1
        return [self.count - 1, 0]

    def finish(self, outputs):
        self.out.write('\n],"outputs":' + json.dumps(outputs) + "}\n")


def tensor(elements):
    return {"dtype": "f32", "shape": [elements]}


def chain(w, nodes):
    x = w.add("data", "input", [], [tensor(1024)])
    weight = w.add("weight", "input", [], [tensor(4096)])
    tape = []
    for _ in range(nodes // 4):
        y = w.add("fully_connected", "forward", [x, weight], [tensor(1024)], "heavy", flops=2e6)
        z = w.add("tanh", "forward", [y], [tensor(1024)])
        tape.append((x, z))
        x = z
    loss = w.add("loss", "forward", [x], [tensor(1)])
    gradient = w.add("loss_gradient", "backward", [x], [tensor(1024)])
    for before, z in reversed(tape):
        gradient = w.add("tanh_gradient", "backward", [gradient, z], [tensor(1024)])
        gradient = w.add("fully_connected_gradient", "backward", [gradient, before, weight],
                         [tensor(1024), tensor(4096)], "heavy", flops=4e6)
    return [loss, gradient]


def light_chain(w, nodes):
    x = w.add("data", "input", [], [tensor(1024)])
    x = w.add("fully_connected", "forward", [x], [tensor(1024)], "heavy", flops=2e6)
    for _ in range(nodes - 3):
        x = w.add("square", "forward", [x], [tensor(1024)])
    loss = w.add("loss", "forward", [x], [tensor(1)])
    return [loss, w.add("gradient", "backward", [x], [tensor(1024)])]


def fan(w, nodes):
    x = w.add("data", "input", [], [tensor(4096)])
    shared = w.add("fully_connected", "forward", [x], [tensor(4096)], "heavy", flops=2e6)
    leaves = [w.add("exp", "forward", [shared], [tensor(4096)]) for _ in range(nodes // 2)]
    loss = w.add("loss", "forward", leaves, [tensor(1)])
    gradient = w.add("loss_gradient", "backward", [loss], [tensor(4096)])
    for leaf in reversed(leaves):
        gradient = w.add("exp_gradient", "backward", [gradient, leaf], [tensor(4096)])
    return [loss, gradient]


def transformer(w, nodes, width=512, tokens=256):
    per_layer = 22
    hidden, wide, scores = tensor(tokens * width), tensor(4 * tokens * width), tensor(8 * tokens * tokens)
    small, big = tensor(width * width), tensor(4 * width * width)
    flops = 2.0 * tokens * width * width
    weights = [w.add("weight", "input", [], [small]), w.add("weight", "input", [], [big])]
    x = w.add("data", "input", [], [hidden])
    statistics = [hidden, tensor(tokens), tensor(tokens)]
    tape = []
    for _ in range(max(1, nodes // per_layer)):
        norm = w.add("layer_norm", "forward", [x], statistics)
        q, k, v = (w.add("mm", "forward", [norm, weights[0]], [hidden], "heavy", flops=flops) for _ in range(3))
        score = w.add("bmm", "forward", [q, k], [scores], "heavy", flops=flops)
        soft = w.add("softmax", "forward", [score], [scores])
        mixed = w.add("bmm", "forward", [soft, v], [hidden], "heavy", flops=flops)
        added = w.add("add", "forward", [x, mixed], [hidden])
        norm2 = w.add("layer_norm", "forward", [added], statistics)
        up = w.add("mm", "forward", [norm2, weights[1]], [wide], "heavy", flops=4 * flops)
        active = w.add("gelu", "forward", [up], [wide])
        down = w.add("mm", "forward", [active, weights[1]], [hidden], "heavy", flops=4 * flops)
        tape.append((x, norm, q, k, v, soft, added, norm2, up, active))
        x = w.add("add", "forward", [added, down], [hidden])
    loss = w.add("loss", "forward", [x], [tensor(1)])
    g = w.add("loss_gradient", "backward", [x], [hidden])
    gradients = []

    def heavy(inputs, outputs, factor=1.0):
        return w.add("mm_gradient", "backward", inputs, outputs, "heavy", flops=2 * factor * flops)

    for x, norm, q, k, v, soft, added, norm2, up, active in reversed(tape):
        down = heavy([g, active, weights[1]], [wide, big], 4)
        up_gradient = w.add("gelu_gradient", "backward", [down, up], [wide])
        part = heavy([up_gradient, norm2, weights[1]], [hidden, big], 4)
        part = w.add("layer_norm_gradient", "backward", [part, added, [norm2[0], 1], [norm2[0], 2]], [hidden])
        g = w.add("add", "backward", [g, part], [hidden])
        mixed = heavy([g, soft, v], [scores, hidden])
        score = w.add("softmax_gradient", "backward", [mixed, soft], [scores])
        part = heavy([score, q, k], [hidden, hidden])
        part = heavy([part, norm, weights[0]], [hidden, small])
        part = w.add("layer_norm_gradient", "backward", [part, x, [norm[0], 1], [norm[0], 2]], [hidden])
        g = w.add("add", "backward", [g, part], [hidden])
        gradients += [[down[0], 1]]
    return [loss, g] + gradients


class Tape:
    """Writes forward ops and remembers what their gradients read; `backward` writes those."""

    def __init__(self, w):
        self.w, self.ops, self.shapes = w, [], {}

    def input(self, op, *shape):
        return self.remember(self.w.add(op, "input", [], [array(*shape)]), shape)

    def remember(self, node, shape, k=0):
        self.shapes[node[0], k] = shape
        return [node[0], k]

    def add(self, op, inputs, shape, reads, outputs=1, to=None, flops=None):
        """`reads`: the positions of the inputs that the gradient reads, and "y" for the output; `to`: those that get a
        gradient; `flops`: the op is heavy."""
        view = op in ("chunk", "unbind")
        made = [dict(array(*shape), **({"view_of": 0} if view else {})) for _ in range(outputs)]
        more = {"kind": "view"} if view else {"kind": "light"} if flops is None else {"kind": "heavy", "flops": flops}
        node = self.w.add(op, "forward", inputs, made, **more)
        values = [self.remember(node, shape, k) for k in range(outputs)]
        read = [node if r == "y" else inputs[r] for r in reads]
        self.ops.append((op, inputs, values, read, range(len(inputs)) if to is None else to, flops))
        return values if outputs > 1 else values[0]

    def backward(self, loss):
        gradient = {tuple(loss): self.w.add("ones", "backward", [], [array(1)])}
        for op, inputs, values, read, to, flops in reversed(self.ops):
            given = [gradient[tuple(v)] for v in values if tuple(v) in gradient]
            if not given:
                continue
            targets = [inputs[i] for i in to]
            more = {"kind": "light"} if flops is None else {"kind": "heavy", "flops": 2 * flops}
            node = self.w.add(op + "_gradient", "backward", given + read,
                              [array(*self.shapes[tuple(v)]) for v in targets], **more)
            for k, v in enumerate(targets):
                mine = [node[0], k]
                if tuple(v) in gradient:
                    mine = self.w.add("add", "backward", [gradient[tuple(v)], mine], [array(*self.shapes[tuple(v)])])
                gradient[tuple(v)] = mine
        return gradient


def array(*shape):
    return {"dtype": "f32", "shape": list(shape)}


def nmt(w, length, batch=128, hidden=512, words=17192):
    t = Tape(w)
    one, many = (batch, hidden), (batch, length, hidden)
    product = 2.0 * batch * hidden * hidden

    def mm(x, weight, shape, factor=1.0):
        return t.add("mm", [x, weight], shape, [0, 1], flops=factor * product)

    def cell(x, h, c, weights):
        parts = (mm(v, weight, (batch, 4 * hidden), 4) for v, weight in zip((x, h), weights))
        gates = t.add("chunk", [t.add("add", list(parts), (batch, 4 * hidden), [])], one, [], 4)
        i, f, o = (t.add("sigmoid", [g], one, ["y"]) for g in gates[:3])
        kept = t.add("mul", [f, c], one, [0, 1])
        c = t.add("add", [kept, t.add("mul", [i, t.add("tanh", [gates[3]], one, ["y"])], one, [0, 1])], one, [])
        return t.add("mul", [o, t.add("tanh", [c], one, ["y"])], one, [0, 1]), c

    def layer():
        return [t.input("weight", hidden, 4 * hidden) for _ in range(2)]

    tokens = [t.input("data", batch, length) for _ in range(2)]
    tables = [t.input("weight", words, hidden) for _ in range(2)]
    layers = [layer() for _ in range(4)]
    square = [t.input("weight", hidden, hidden) for _ in range(4)]
    score, last = t.input("weight", hidden, 1), t.input("weight", hidden, words)
    zero = t.input("zeros", *one)
    parameters = tables + [weight for pair in layers for weight in pair] + square + [score, last]

    def embedded(side):
        table = t.add("embedding", [tables[side], tokens[side]], many, [1], to=[0])
        return t.add("unbind", [table], one, [], length) if length > 1 else [table]

    states = [(zero, zero)] * 4

    def run(x, first):
        for l in (first, first + 1):
            states[l] = cell(x, *states[l], layers[l])
            x = states[l][0]
        return x

    memory = t.add("stack", [run(x, 0) for x in embedded(0)], many, [])
    keys = mm(memory, square[0], many, length)
    states[2:] = states[:2]
    outputs, context = [], zero
    for word in embedded(1):
        h = run(t.add("add", [word, mm(context, square[1], one)], one, []), 2)
        both = t.add("add", [keys, mm(h, square[2], one)], many, [])
        scores = mm(t.add("tanh", [both], many, ["y"]), score, (batch, length), length / hidden)
        attention = t.add("softmax", [scores], (batch, length), ["y"])
        mixed = t.add("bmm", [attention, memory], one, [0, 1], flops=2.0 * batch * length * hidden)
        joined = t.add("add", [h, mm(mixed, square[3], one)], one, [])
        context = t.add("tanh", [joined], one, ["y"])
        outputs.append(context)
    logits = mm(t.add("stack", outputs, many, []), last, (batch, length, words), length * words / hidden)
    loss = t.add("cross_entropy", [logits, tokens[1]], (1,), [0, 1], to=[0])
    gradient = t.backward(loss)
    return [loss] + [gradient[tuple(p)] for p in parameters]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        w = Writer(out)
        w.finish(KINDS[sys.argv[1]](w, int(sys.argv[2])))


KINDS = {"chain": chain, "light-chain": light_chain, "fan": fan, "transformer": transformer, "nmt": nmt}

if __name__ == "__main__":
    main()
