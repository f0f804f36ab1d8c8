#!/usr/bin/env python3
"""Writes a synthetic training graph of any size as echo-graph/1, node by node, so that a million nodes need no memory.

    make_graph.py chain|light-chain|fan|transformer NODES FILE.json

chain        a deep network of alternating fully-connected and element-wise ops, and its gradients
light-chain  element-wise ops only, of which a single gradient reads a single value, the last
fan          one value read by every op, each with a gradient of its own
transformer  layers of attention and feed-forward parts on a residual stream, and their gradients
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


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        w = Writer(out)
        w.finish(KINDS[sys.argv[1]](w, int(sys.argv[2])))


KINDS = {"chain": chain, "light-chain": light_chain, "fan": fan, "transformer": transformer}

if __name__ == "__main__":
    main()
