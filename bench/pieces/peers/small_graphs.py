# SPDX-License-Identifier: BSL-1.0
"""Small training graphs on which the optimum can be proved: random ones, and pieces of real ones.

All are `echo-graph/1` objects of at most 60 nodes, without what the program of checkmate.py leaves out: writing in place,
control dependencies, and values that one bit per element could stand for.
"""
import random

LEAST_NODES, MOST_NODES = 24, 60
UNIT = 2 << 20  # the sizes of random graphs are multiples, so that a budget is met by far or not at all


# ---- Random graphs


class Builder:
    def __init__(self, rng):
        self.rng = rng
        self.nodes = []
        self.results = []

    def add(self, op, phase, inputs, outputs, **more):
        node = {"name": f"{op}{len(self.nodes)}", "op": op, "phase": phase, "inputs": [list(v) for v in inputs],
                "outputs": outputs}
        self.nodes.append(node | more)
        return len(self.nodes) - 1

    def tensor(self, units):
        return {"dtype": "f32", "shape": [units * UNIT // 4]}

    def units(self, least=2, most=5):
        return int(2 ** self.rng.uniform(least, most))

    def size(self, value):
        return self.nodes[value[0]]["outputs"][value[1]]["shape"][0] * 4 // UNIT

    def compute(self, heavy):
        """Kind, rerun, cost and scratch of an op. A heavy one takes 30 to 1,000 µs, a light one a pass over memory."""
        rng = self.rng
        facts = {"kind": "heavy" if heavy else "light", "rerun": "pure"}
        if heavy:
            facts["flops"] = int(15e6 * 10 ** rng.uniform(1.5, 3))
        if rng.random() < 0.06:
            facts["rerun"] = "never"
        elif not heavy and rng.random() < 0.15:
            facts["rerun"] = "seeded"
        if heavy and rng.random() < 0.2:
            facts["workspace"] = self.units(0, 4) * UNIT
        return facts


def random_graph(seed):
    """The training graph of a small random network: a trunk with skips, branches, views, masks and several outputs."""
    rng = random.Random(seed)
    while True:
        graph = _network(rng, rng.randint(10, 24))
        if LEAST_NODES <= len(graph["nodes"]) <= MOST_NODES:
            return graph | {"name": f"random {seed}"}


def _network(rng, ops):
    b = Builder(rng)
    data = (b.add("data", "input", [], [b.tensor(b.units())]), 0)
    tape, values = [], [data]  # tape: (node, what its gradient reads, the activations it has gradients for)

    def pick():
        """Mostly the newest value, sometimes a skip."""
        return values[-1] if rng.random() < 0.85 else rng.choice(values[-4:])

    for _ in range(ops):
        kind = rng.random()
        x = pick()
        if kind < 0.35:  # with a weight: the gradients read what goes in
            w = (b.add("weight", "input", [], [b.tensor(b.units(0, 3))]), 0)
            n = b.add("matmul", "forward", [x, w], [b.tensor(b.units())], **b.compute(heavy=True))
            tape.append((n, [x, w], [x], w))
            values.append((n, 0))
        elif kind < 0.65:  # by element: its gradient reads its input, its output or neither
            n = b.add("unary", "forward", [x], [b.tensor(b.size(x))], **b.compute(heavy=False))
            tape.append((n, rng.choice([[x], [(n, 0)], [(n, 0)], []]), [x], None))
            values.append((n, 0))
        elif kind < 0.77:
            y = pick()
            if y == x:
                y = rng.choice(values)
            n = b.add("binary", "forward", [x, y], [b.tensor(max(b.size(x), b.size(y)))], **b.compute(heavy=False))
            tape.append((n, rng.choice([[], [x, y], [x]]), [x, y] if x != y else [x], None))
            values.append((n, 0))
        elif kind < 0.86:  # a norm: small statistics beside its output
            n = b.add("norm", "forward", [x], [b.tensor(b.size(x)), b.tensor(1)], **b.compute(heavy=False))
            tape.append((n, [x, (n, 1)], [x], None))
            values.append((n, 0))
        elif kind < 0.94:  # a mask that only the gradient reads
            n = b.add("unary", "forward", [x], [b.tensor(b.size(x))], **b.compute(heavy=False))
            mask = b.add("mask", "forward", [x], [b.tensor(max(1, b.size(x) // 4))], kind="light", rerun="pure")
            tape.append((n, [(mask, 0)], [x], None))
            values.append((n, 0))
        elif x != data:
            n = b.add("view", "forward", [x], [b.tensor(b.size(x)) | {"view_of": 0}], kind="view", rerun="pure")
            tape.append((n, None, [x], None))
            values.append((n, 0))
    # A scalar, whose four bytes would decide what fits: budgets are often a multiple of UNIT, too.
    loss = b.add("loss", "forward", [values[-1]], [{"dtype": "f32", "shape": [1], "bytes": 0}], kind="light", rerun="pure")
    b.results.append((loss, 0))
    _gradients(b, tape, values[-1], loss)
    return _without_dead({"format": "echo-graph/1", "name": "", "nodes": b.nodes, "outputs": [list(v) for v in b.results]})


def _gradients(b, tape, last, loss):
    g = b.add("loss_gradient", "backward", [last], [b.tensor(b.size(last))], kind="light", rerun="pure")
    gradient = {last: (g, 0)}
    for n, reads, wanted, weight in reversed(tape):
        arriving = gradient.pop((n, 0), None)
        if arriving is None:
            continue
        node = b.nodes[n]
        if reads is None:
            out = {"view_of": 0} | b.tensor(b.size(wanted[0]))
            made = [(b.add("view_gradient", "backward", [arriving], [out], kind="view", rerun="pure"), 0)]
        else:
            facts = {key: node[key] for key in ("kind", "workspace") if key in node}
            if "flops" in node:
                facts["flops"] = 2 * node["flops"]
            sizes = [b.tensor(b.size(v)) for v in wanted] + ([b.tensor(b.size(weight))] if weight else [])
            g = b.add(f"{node['op']}_gradient", "backward", [arriving, *reads], sizes, rerun="pure", **facts)
            made = [(g, k) for k in range(len(wanted))]
            if weight:
                b.results.append((g, len(wanted)))
        for v, new in zip(wanted, made):
            if b.nodes[v[0]]["phase"] == "input":
                continue
            if v in gradient:
                inputs = [gradient[v], new]
                new = (b.add("add", "backward", inputs, [b.tensor(b.size(v))], kind="light", rerun="pure"), 0)
            gradient[v] = new


def _without_dead(graph):
    """The graph without nodes that no output needs; inputs that nobody reads go too."""
    nodes = graph["nodes"]
    needed = {n for n, _ in graph["outputs"]}
    for n in reversed(range(len(nodes))):
        if n in needed:
            needed.update(m for m, _ in nodes[n]["inputs"])
    at = {n: i for i, n in enumerate(sorted(needed))}
    kept = [nodes[n] | {"inputs": [[at[m], k] for m, k in nodes[n]["inputs"]]} for n in sorted(needed)]
    return graph | {"nodes": kept, "outputs": [[at[n], k] for n, k in graph["outputs"]]}


# ---- Pieces of real graphs


def cut(graph, start, length):
    """The forward nodes [start, start + length) with all gradients that read them; None if that is no piece of use.

    What the piece reads from outside becomes an input. What the forward pass reads of it elsewhere is read by one node
    `rest` behind its last forward node. Gradients that are read elsewhere, or returned, are outputs.
    """
    nodes = graph["nodes"]
    chosen = set(range(start, start + length))
    if any(nodes[n]["phase"] != "forward" for n in chosen):
        return None
    chosen |= {n for n in range(start + length, len(nodes)) if nodes[n]["phase"] == "backward"
               and any(m in chosen and nodes[m]["phase"] == "forward" for m, _ in nodes[n]["inputs"])}
    _fill(nodes, chosen)
    if len(chosen) >= MOST_NODES:
        return None

    outputs = {tuple(v) for v in graph["outputs"] if v[0] in chosen}
    rest = []
    for n, node in enumerate(nodes):
        for m, k in node["inputs"] if n not in chosen else []:
            if m in chosen and nodes[m]["phase"] == "backward":
                outputs.add((m, k))
            elif m in chosen and node["phase"] == "forward":
                rest.append((m, k))
    name = f"{graph['name']}: {nodes[start]['name']} and {length - 1} more"
    return _closed(graph, sorted(chosen), start + length - 1, list(dict.fromkeys(rest)), outputs, name)


def _fill(nodes, chosen):
    """Adds the gradients that stand between two chosen ones: made from chosen ones and read by chosen ones."""
    first = min((n for n in chosen if nodes[n]["phase"] == "backward"), default=len(nodes))
    below, above = set(), set()
    for n in range(first, len(nodes)):
        if n in chosen or any(m in below for m, _ in nodes[n]["inputs"]):
            below.add(n)
    for n in reversed(range(first, len(nodes))):
        if n in chosen or n in above:
            above.update(m for m, _ in nodes[n]["inputs"] if m >= first)
    chosen |= below & above


def _closed(graph, chosen, last_forward, rest, outputs, name):
    nodes = graph["nodes"]
    made, at = [], {}

    def value_of(value):
        if value not in at:
            out = {key: fact for key, fact in nodes[value[0]]["outputs"][value[1]].items() if key != "view_of"}
            made.append({"name": f"{nodes[value[0]]['name']}.{value[1]}", "op": "input", "phase": "input", "inputs": [],
                         "outputs": [out]})
            at[value] = [len(made) - 1, 0]
        return at[value]

    for n in chosen:
        inputs = [value_of(tuple(v)) for v in nodes[n]["inputs"]]
        made.append({key: fact for key, fact in nodes[n].items() if key not in ("one_bit_inputs", "control")} | {"inputs": inputs})
        at |= {(n, k): [len(made) - 1, k] for k in range(len(nodes[n]["outputs"]))}
        if n == last_forward and rest:
            made.append({"name": "rest", "op": "rest", "phase": "forward", "inputs": [at[v] for v in rest], "kind": "heavy",
                         "rerun": "never", "time_us": 0, "outputs": [{"dtype": "f32", "shape": [1]}]})
            at["rest"] = [len(made) - 1, 0]
    results = ([at["rest"]] if rest else []) + [at[v] for v in sorted(outputs)]
    if len(made) > MOST_NODES or not results:
        return None
    piece = _without_dead({"format": "echo-graph/1", "name": name, "nodes": made, "outputs": results})
    phases = [node["phase"] for node in piece["nodes"]]
    return piece if min(phases.count("forward"), phases.count("backward")) >= 4 else None
