# SPDX-License-Identifier: BSL-1.0
"""What peers make of a graph, as plans of docs/formats.md that move values: PyTorch's offloading pass, and torchtitan's
policy `sac_and_offload`. Both are told here from their sources, read in PyTorch 2.13
(torch/_functorch/_activation_offloading) and torchtitan b5bcd76 (experiments/graph_trainer).

Where the two leave something open, what is better for them is taken: all that may leave does (PyTorch's pass asks for marks),
a copy out begins when its value is made, and a view of what left is made again for nothing.
"""
import re

import replay


class Peer:
    """A graph, and who reads what in it. Nodes are numbers, values are (node, output)."""

    def __init__(self, graph, link):
        self.json, self.link = graph, link
        self.graph = replay.read_graph(graph)
        self.nodes = self.graph.nodes
        self.forward = [n for n, node in enumerate(self.nodes) if node.phase == "forward"]
        self.backward = [n for n, node in enumerate(self.nodes) if node.phase not in ("input", "forward")]
        self.readers = {}
        for n, node in enumerate(self.nodes):
            for value in node.inputs:
                self.readers.setdefault(value, []).append(n)

    def has_two_halves(self):
        """All of the forward pass stands before all gradients; the peers take nothing else."""
        return self.forward[-1] < self.backward[0]

    def is_view(self, n):
        return self.nodes[n].kind == "view"

    def uses(self, value):
        """Nodes that read the value, or a view of it that the forward pass makes."""
        found = set()
        for n in self.readers.get(value, ()):
            found.add(n)
            if self.is_view(n) and self.nodes[n].phase == "forward":
                for k in range(len(self.nodes[n].outputs)):
                    found |= self.uses((n, k))
        return found

    def forward_uses(self, value):
        return [n for n in self.uses(value) if self.nodes[n].phase == "forward"]

    def backward_uses(self, value):
        return [n for n in self.uses(value) if self.nodes[n].phase not in ("forward", "input")]

    def may_leave(self, value):
        """No view, no result, nothing that stays for good, and read by a gradient."""
        n, k = value
        out = self.nodes[n].outputs[k]
        return (not self.is_view(n) and out.view_of is None and not out.resident and out.bytes > 0
                and value not in self.graph.results and bool(self.backward_uses(value)))


class Writer:
    """Writes a schedule: `leave_behind`: values that leave behind a forward node; `fetch_before`: values whose copy back
    begins before a backward node, else before what reads them first; `again`: forward nodes that gradients from
    `again_from` on have made again."""

    def __init__(self, peer, leave_behind, fetch_before, again=(), again_from=None):
        self.peer, self.nodes = peer, peer.nodes
        self.leave_behind, self.fetch_before, self.again = leave_behind, fetch_before, set(again)
        self.away = {value for values in leave_behind.values() for value in values}
        self.schedule, self.ran, self.made, self.back, self.left = [], set(), {}, {}, {}
        self.again_from, self.in_backward, self.repeats = again_from, False, False

    def add(self, item):
        self.schedule.append(item)
        return len(self.schedule) - 1

    def run(self, n, sources):
        item = {"node": n} | ({"recompute": True} if n in self.ran else {}) | ({"inputs": sources} if sources else {})
        self.ran.add(n)
        return self.add(item)

    def fetch(self, value):
        if value not in self.back:
            self.back[value] = [self.add({"reload": self.left[value]}), 0]
        return self.back[value]

    def is_made_again(self, n):
        """Of a forward node: for gradients there is another copy of it, since it is made again or looks at what left."""
        if n in self.again:
            return self.repeats
        if not self.peer.is_view(n) or self.nodes[n].phase != "forward":
            return False
        return self.nodes[n].inputs[0] in self.left or self.is_made_again(self.nodes[n].inputs[0][0])

    def source(self, value):
        n, k = value
        if not self.in_backward or self.nodes[n].phase != "forward":
            return [self.made[n], k]
        if value in self.left:
            return self.fetch(value)
        if not self.is_made_again(n):
            return [self.made[n], k]
        key = (n, "again")
        if key not in self.made:
            self.made[key] = self.run(n, [self.source(v) for v in self.nodes[n].inputs])
        return [self.made[key], k]

    def plan(self):
        for n, node in enumerate(self.nodes):
            if node.phase == "input":
                self.made[n] = self.run(n, [])
        needed = self.needed_forward()
        for n in self.peer.forward:
            if n in needed:
                self.made[n] = self.run(n, [self.source(v) for v in self.nodes[n].inputs])
            for value in self.leave_behind.get(n, ()):
                self.left[value] = self.add({"offload": [self.made[value[0]], value[1]]})
        self.in_backward = True
        for n in self.peer.backward:
            self.repeats |= n == self.again_from
            for value in self.fetch_before.get(n, ()):
                self.fetch(value)
            self.made[n] = self.run(n, [self.source(v) for v in self.nodes[n].inputs])
        link = self.peer.link
        return {"format": "echo-plan/1", "graph": self.peer.json["name"], "strategy": "peer", "schedule": self.schedule,
                "link": {"out_bytes_per_us": link, "in_bytes_per_us": link}}

    def needed_forward(self):
        """Forward nodes but those to be made again that no other node than gradients of `again_from` and behind reads."""
        results = {n for n, _ in self.peer.graph.results}
        needed = set()
        for n in reversed(self.peer.forward):
            readers = [r for k in range(len(self.nodes[n].outputs)) for r in self.peer.readers.get((n, k), ())]
            if (n not in self.again or n in results or not readers
                    or any(r in needed if self.nodes[r].phase == "forward" else r < self.again_from for r in readers)):
                needed.add(n)
        return needed


# ---- PyTorch's pass


def pytorch(peer, prefetch):
    """Values of ops with one output leave behind their last reader of the forward pass, and come back before their first
    reader in the backward pass; with `prefetch` so much earlier that products and convolutions cover the copy."""
    leave, first_reads = {}, {}
    for n in peer.forward:
        if len(peer.nodes[n].outputs) == 1 and peer.may_leave((n, 0)):
            leave.setdefault(max([n, *peer.forward_uses((n, 0))]), []).append((n, 0))
            first_reads.setdefault(min(peer.backward_uses((n, 0))), []).append((n, 0))
    return Writer(peer, leave, fetched_early(peer, first_reads) if prefetch else first_reads).plan()


def fetched_early(peer, first_reads):
    """From the end: each copy in turn is covered by the compute-heavy ops in front of it."""
    placed, waiting = {}, []
    for n in reversed(peer.backward):
        if waiting:
            if peer.nodes[n].kind == "heavy":
                waiting[0][1] -= peer.nodes[n].time_us
            if waiting[0][1] <= 0:
                placed.setdefault(n, []).append(waiting.pop(0)[0])
        for value in reversed(first_reads.get(n, ())):
            waiting.append([value, peer.nodes[value[0]].outputs[value[1]].bytes / peer.link])
    placed.setdefault(peer.backward[0], []).extend(value for value, _ in reversed(waiting))
    return placed


# ---- torchtitan's policy


OUTSIDE = -1  # the layer of what is in none
LEAST_BYTES = 4096
MOST_BYTES = 100 * 2**30


def layers_of(graph):
    """The number of the layer that each node is in: layers are modules with a number that hold modules."""
    paths = [node.get("layer") or "" for node in graph["nodes"]]
    known = {}
    for path, node in zip(paths, graph["nodes"]):
        found = re.match(r"(?:.*?[._])?\d+(?=\.)", path)
        if found and node["phase"] == "forward":
            known.setdefault(found[0], len(known))
    return [next((number for name, number in known.items() if path == name or path.startswith(name + ".")), OUTSIDE)
            for path in paths]


def regions(nodes, layer):
    """Runs of nodes of one layer."""
    runs = []
    for n in nodes:
        if not runs or layer[runs[-1][-1]] != layer[n]:
            runs.append([])
        runs[-1].append(n)
    return runs


def torchtitan(peer):
    """Compute-heavy ops of a layer are saved, and so is what one layer hands to the next; the rest runs again. What is
    saved leaves, but of the last layer; it is waited for a layer later, and comes back a layer early. None where the
    graph has no two layers."""
    layer = layers_of(peer.json)
    last = max(layer)
    if last < 1:
        return None
    again = made_again(peer, layer)
    saved = [n for n in peer.forward if OUTSIDE < layer[n] < last and n not in again]
    values = [(n, k) for n in saved for k in range(len(peer.nodes[n].outputs)) if peer.may_leave((n, k))]
    leaving, total = [], 0
    for n, k in sorted(values, key=lambda value: -peer.nodes[value[0]].outputs[value[1]].bytes):
        size = peer.nodes[n].outputs[k].bytes
        if size >= LEAST_BYTES and total + size <= MOST_BYTES:
            leaving.append((n, k))
            total += size
    in_layers = [n for n in peer.backward if layer[n] != OUTSIDE]
    return Writer(peer, waited_late(peer, layer, sorted(leaving)), fetched_a_layer_early(peer, layer, leaving), again,
                  min(in_layers, default=peer.backward[-1])).plan()


def made_again(peer, layer):
    behind = max(n for n in peer.forward if layer[n] != OUTSIDE)  # the head and the loss are left alone
    again = {n for n in peer.forward if n <= behind and peer.nodes[n].kind != "heavy" and peer.nodes[n].rerun == "pure"}
    for n in sorted(again):
        readers = [r for k in range(len(peer.nodes[n].outputs)) for r in peer.readers.get((n, k), ())]
        if any(r in again and layer[r] > layer[n] for r in readers):
            again.discard(n)
    return again


def waited_late(peer, layer, leaving):
    runs = regions(peer.forward, layer)
    region = {n: i for i, run in enumerate(runs) for n in run}
    leave = {}
    for value in leaving:
        last_use = max([value[0], *peer.forward_uses(value)])
        target = min(max(region[value[0]] + 1, region[last_use]), len(runs) - 1)
        leave.setdefault(runs[target][-1], []).append(value)
    return leave


def fetched_a_layer_early(peer, layer, leaving):
    runs = regions(peer.backward, layer)
    first = {}
    for i, run in enumerate(runs):
        if layer[run[0]] != OUTSIDE:
            first.setdefault(layer[run[0]], i)
    order = sorted(first, key=first.get)
    fetch = {}
    for value in sorted(leaving, key=lambda value: min(peer.backward_uses(value))):
        reader = min(peer.backward_uses(value))
        own = layer[value[0]]
        if own in first:
            place = order.index(own) - 1
            target = first[order[place]] if place >= 0 else 0
            if target < first[own]:
                reader = runs[target][0]
        fetch.setdefault(reader, []).append(value)
    return fetch
