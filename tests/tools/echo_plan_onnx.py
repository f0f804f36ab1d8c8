#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""`echo-plan` on ONNX models: what is read of them, what is written back, and what is refused.

    python3 echo_plan_onnx.py PROGRAM

What is written is judged by value numbers: two graphs that give all outputs the same numbers compute the same, operation by
operation. No package of ONNX is needed here; models are made by examples/onnx.
"""
from __future__ import annotations

import gzip
import json
import pathlib
import random
import sys

import command

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "onnx"))
import make_model
import wire
from wire import BOOL, FLOAT16, INT64, Builder

FLOAT = wire.FLOAT
MANY_DIMS = {"resnet50": ["--dim", "batch=4"], "transformer": ["--dim", "batch=2", "--dim", "label:0=16"], "plain": []}


def fields(message, wanted):
    return [value for field, value in wire.decode(message) if field == wanted]


def text(message, wanted):
    return b"".join(fields(message, wanted)).decode()


class Numbers:
    """The values of a model by what they compute: equal numbers, equal values."""

    def __init__(self, model):
        (graph,) = fields(model, 7)
        self.by_name, self.known, self.made = {}, {}, set()
        for value in fields(graph, 11):
            self.by_name[text(value, 1)] = self.number("input", text(value, 1))
        for value in fields(graph, 5):
            self.by_name[text(value, 8)] = self.number("weights", value)
        for node in fields(graph, 1):
            for k, output in enumerate(fields(node, 2)):
                if output:
                    number = self.number(self.node(node, self.by_name), k)
                    assert output.decode() not in self.by_name, output
                    self.by_name[output.decode()] = number
                    self.made.add(number)
        self.outputs = [self.by_name[text(value, 1)] for value in fields(graph, 12)]
        nodes = fields(graph, 1)
        self.count = len(nodes)
        needed = {text(value, 1) for value in fields(graph, 12)}
        self.needed_count = 0
        for node in reversed(nodes):
            if any(name.decode() in needed for name in fields(node, 2) if name):
                self.needed_count += 1
                needed |= {name.decode() for name in fields(node, 1)} | self.captures(node)

    def captures(self, node):
        """All names that stand in the bodies of a node."""
        names = set()
        for attribute in fields(node, 5):
            for body in fields(attribute, 6):
                for inner in fields(body, 1):
                    names |= {name.decode() for name in fields(inner, 1)} | self.captures(inner)
        return names

    def number(self, *what):
        return hash(what)

    def node(self, node, names):
        inputs = tuple(names[name.decode()] if name else None for name in fields(node, 1))
        # The momentum moves the running statistics, and nothing else.
        attributes = tuple(sorted(self.attribute(a, names) for a in fields(node, 5) if text(a, 1) != "momentum"))
        return hash((text(node, 4), text(node, 7), inputs, attributes))

    def attribute(self, attribute, names):
        bodies = fields(attribute, 6)
        if not bodies:
            return attribute
        inside = dict(names)
        lines = [text(attribute, 1)]
        for node in fields(bodies[0], 1):
            for k, output in enumerate(fields(node, 2)):
                inside[output.decode()] = hash((self.node(node, inside), k))
        lines += [str(inside[text(value, 1)]) for value in fields(bodies[0], 12)]
        return "\n".join(lines).encode()


def chain(with_gradient=True):
    """x -> MatMul -> Tanh -> MatMul, and back: Tanh is worth making again."""
    b = Builder("chain")
    b.input("x", [64, 64])
    b.input("out_grad", [64, 8])
    b.weight("w", [64, 2048])
    b.weight("v", [2048, 8])
    b.node("MatMul", ["x", "w"], ["a"])
    b.node("Tanh", ["a"], ["b"])
    b.node("Exp", ["b"], ["c"])
    b.output(b.node("MatMul", ["c", "v"], ["y"]), [64, 8])
    if with_gradient:
        b.node("Transpose", ["c"], ["ct"], perm=[1, 0])
        b.output(b.node("MatMul", ["ct", "out_grad"], ["v_grad"]), [2048, 8])
    return b


def branching():
    """The gradient is chosen by a condition: both bodies read a value that is worth making again."""
    b = chain(False)
    b.input("which", [], BOOL)

    def body(name, op):
        inner = Builder(name)
        inner.node("Transpose", ["c"], [name + "_t"], perm=[1, 0])
        inner.node("MatMul", [name + "_t", "out_grad"], [name + "_m"])
        inner.output(inner.node(op, [name + "_m"], [name]), [2048, 8])
        return inner.graph()
    b.node("MatMul", ["y", "v_turned"], ["wide"])
    b.weight("v_turned", [8, 2048])
    b.node("MatMul", ["wide", "v"], ["z"])
    b.node("If", ["which"], ["v_grad"], then_branch=body("then", "Neg"), else_branch=body("else", "Abs"))
    b.output("z", [64, 8])
    b.output("v_grad", [2048, 8])
    return b


class Onnx(command.Command):
    name = "echo-plan"

    def model(self, builder, name="model.onnx"):
        return self.write(name, builder if isinstance(builder, bytes) else builder.model())

    def report(self, *arguments):
        return json.loads(self.good(*arguments, "--json"))

    def refused(self, builder, *words, arguments=()):
        return self.bad(1, self.model(builder), *arguments, words=words)

    def small(self, name, **more):
        return self.model(make_model.MODELS[name](**{"inference": False, "small": True, "weights": False} | more),
                          f"{name}.onnx")

    # What is read

    def test_training_steps(self):
        for name, dims in MANY_DIMS.items():
            with self.subTest(name):
                report = self.report(self.small(name), *dims, "--max-overhead", "0.3")
                self.assertLess(report["peak_bytes"], report["baseline_peak_bytes"])
                self.assertGreater(report["recomputed_nodes"], 0)
                self.assertGreater(report["arena_bytes"], 0)
                self.assertEqual((report["unknown_ops"], report["notes"]), ([], []))

    def test_weights_count_but_are_never_loaded(self):
        here = self.report(self.small("plain", weights=True))
        away = self.report(self.small("plain"))
        self.assertFalse((self.folder / "weights.bin").exists())
        for key in ("peak_bytes", "baseline_peak_bytes", "resident_bytes", "arena_bytes"):
            self.assertEqual(here[key], away[key])

    def test_sizes(self):
        report = self.report(self.model(chain()), "--strategy", "baseline")
        wide, narrow = 64 * 2048 * 4, 64 * 8 * 4
        # Tanh and Exp run in place; at the end: c, its transposed copy, y, the gradient of v.
        self.assertEqual(report["resident_bytes"], (64 * 64 + 64 * 8 + 64 * 2048 + 2048 * 8) * 4)
        self.assertEqual(report["baseline_peak_bytes"], max(2 * wide + narrow, wide + narrow + 2048 * 8 * 4))
        for element, size in ((FLOAT16, 2), (INT64, 8), (BOOL, 1), (4, 2), (12, 4), (15, 16), (17, 1)):
            with self.subTest(element):
                b = Builder("types")
                b.input("x", [5, 7], element)
                b.output(b.node("Transpose", ["x"], ["y"], perm=[1, 0]), [7, 5], element)
                report = self.report(self.model(b))
                self.assertEqual((report["resident_bytes"], report["peak_bytes"]), (35 * size, 35 * size))

    def test_views_take_nothing(self):
        b = Builder("views")
        b.input("x", [4, 1, 8])
        y = b.node("Relu", ["x"])
        for op, more in (("Identity", []), ("Flatten", []), ("Reshape", [b.integers("to", [4, 1, 8])]),
                         ("Squeeze", [b.integers("axis", [1])]), ("Unsqueeze", ["axis"])):
            y = b.node(op, [y, *more])
        b.output(b.node("Identity", [y], ["out"]), [4, 1, 8])
        report = self.report(self.model(b))
        self.assertEqual(report["peak_bytes"], 128)

    def test_updates_lie_on_their_parameters(self):
        b = Builder("update", microsoft=True)
        for name in ("w", "w_grad"):
            b.input(name, [256])
        b.scalar("rate", 0.1)
        b.node("SGDOptimizer", ["rate", "w", "w_grad"], ["w_new", ""], "com.microsoft")
        b.output("w_new", [256])
        self.assertEqual(self.report(self.model(b))["peak_bytes"], 0)
        b.output(b.node("Neg", ["w"], ["late"]), [256])  # reads the old parameter after the update
        self.assertEqual(self.report(self.model(b))["peak_bytes"], 2 * 1024)

    def test_inference(self):
        path = self.small("transformer", inference=True)
        printed = self.good(path, *MANY_DIMS["transformer"])
        for word in ("strategy    baseline", "no gradient is computed", "arena"):
            self.assertIn(word, printed)
        report = self.report(path, *MANY_DIMS["transformer"])
        self.assertEqual((report["recomputed_nodes"], report["stash_bytes"]), (0, 0))
        self.assertEqual(report["peak_bytes"], report["baseline_peak_bytes"])
        self.assertGreaterEqual(report["arena_bytes"], report["peak_bytes"])

    def test_where_the_gradient_begins(self):
        b = Builder("unnamed")
        b.input("x", [64, 64])
        b.weight("w", [64, 2048])
        a = b.node("MatMul", ["x", "w"])
        c = b.node("Exp", [b.node("Tanh", [a])])
        y = b.node("ReduceSum", [c], ["loss"], keepdims=0)
        t = b.node("Transpose", [c], ["first"], perm=[1, 0])
        b.output(y, [])
        b.output(b.node("MatMul", [t, c], ["last"]), [2048, 2048])
        path = self.model(b)
        self.assertIn("no gradient is computed", self.good(path))
        report = self.report(path, "--first-backward", "first")
        self.assertEqual(report["notes"], [])
        self.assertGreater(report["stash_bytes"], 0)
        self.bad(1, path, "--first-backward", "nowhere", words=("--first-backward nowhere", "no node and no value"))

    def test_unknown_ops_are_kept_and_reported(self):
        b = chain()
        b.node("Mystery", ["c"], ["m"], "acme")
        b.info("m", [64, 2048])
        b.output("m", [64, 2048])
        self.refused(b, "node '/Mystery_", "the model imports no ops of 'acme'")
        b.domains.append("acme")
        report = self.report(self.model(b))
        self.assertEqual(report["unknown_ops"], ["acme::Mystery"])

    def test_dropout(self):
        def model(**attributes):
            b = chain(False)
            b.weight("training", [], b"\1", BOOL)
            d = b.node("Dropout", ["c", "", "training"], ["d", "mask"], **attributes)
            b.node("Transpose", [d[0]], ["dt"], perm=[1, 0])
            b.output(b.node("MatMul", ["dt", "out_grad"], ["v_grad"]), [2048, 8])
            return b
        self.assertIn("random ops without a seed, which never run again: 1", self.report(self.model(model()))["notes"])
        self.assertEqual(self.report(self.model(model(seed=3)))["notes"], [])
        b = chain(False)
        b.input("training", [], BOOL)  # the initializer of that name is a default
        b.weight("training", [], b"\0", BOOL)
        d = b.node("Dropout", ["c", "", "training"], ["d", "mask"])
        b.output(d[0], [64, 2048])
        self.assertIn("random ops without a seed, which never run again: 1", self.report(self.model(b))["notes"])

    def test_batch_norm_moves_its_statistics_once(self):
        def model(handed_out):
            b = Builder("norm", opset=15)
            b.input("x", [64, 8])
            for name in ("scale", "bias", "mean", "variance"):
                b.weight(name, [8])
            b.input("y_grad", [64, 8])
            v = "x"
            for i in range(4):
                v, mean, variance = b.node("BatchNormalization", [v, "scale", "bias", "mean", "variance"],
                                           [f"n{i}", f"m{i}", f"v{i}"], training_mode=1)
                v = b.node("Exp", [v])
                if handed_out and i == 0:
                    b.output(mean, [8])
            b.scope = "/loss_Grad"
            g = "y_grad"
            for i in reversed(range(4)):
                g = b.node("Mul", [g, f"n{i}"], [f"g{i}_grad"])
            b.output(g, [64, 8])
            return self.model(b)
        def again(path):
            _, out = self.written(path, "--max-overhead", "900%")
            (graph,) = fields(out.read_bytes(), 7)
            return [node for node in fields(graph, 1) if text(node, 4) == "BatchNormalization"
                    and fields(node, 2)[0].endswith(b".again")]
        moved = again(model(False))
        self.assertGreater(len(moved), 0)
        unmoved = wire.attribute("momentum", 1.0)
        self.assertTrue(all(unmoved in fields(node, 5) for node in moved))
        self.assertFalse([node for node in again(model(True)) if fields(node, 2)[0].startswith(b"n0.")])

    def test_what_an_update_may_write_over_is_not_read_again(self):
        b = chain(False)
        b.domains.append("com.microsoft")
        b.weight("sum", [64, 2048])
        b.node("Add", ["c", "sum"], ["s"])
        b.node("Transpose", ["s"], ["st"], perm=[1, 0])
        b.output(b.node("MatMul", ["st", "out_grad"], ["v_grad"]), [2048, 8])
        b.output(b.node("LambOptimizer", ["sum", "v_grad"], ["sum.new"], "com.microsoft"), [64, 2048])
        report, out = self.written(self.model(b), "--max-overhead", "900%")
        self.assertNotIn("s.again", out.read_bytes().decode("latin1"))

    def test_training_info_is_not_written_along(self):
        path = self.model(chain(False).model() + wire.data(20, wire.data(2, b"")))
        self.bad(1, path, "--emit-onnx", self.folder / "out.onnx", words=("training_info",))

    def test_bodies_are_not_looked_into_but_what_they_read_is(self):
        report = self.report(self.model(branching()), "--max-overhead", "100%")
        self.assertGreater(report["recomputed_nodes"], 0)
        self.assertEqual(report["unknown_ops"], [])

    def test_newer_opsets(self):
        b = Builder("newer", opset=18)
        b.input("x", [4, 8, 16])
        mean = b.node("ReduceMean", ["x", b.integers("axes", [-1])], keepdims=0)  # [4, 8]
        parts = b.node("Split", [mean], 3, axis=1, num_outputs=3)                 # 3, 3, 2 of 8
        b.output(b.node("Mish", [parts[2]], ["y"]), [4, 2])
        for one in parts[:2]:
            b.output(b.node("Neg", [one], [one + ".out"]), [4, 3])
        report = self.report(self.model(b))
        self.assertEqual(report["peak_bytes"], 4 * 8 * 4 * 2)
        self.assertIn("opset 18 is newer than the ONNX library", " ".join(report["notes"]))

    def test_compressed(self):
        path = self.write("model.onnx.gz", gzip.compress(chain().model()))
        self.assertEqual(self.report(path)["baseline_peak_bytes"], self.report(self.model(chain()))["baseline_peak_bytes"])

    # Dimensions

    def test_symbolic_dimensions(self):
        path = self.small("transformer")
        self.bad(1, path, words=("node 'tokens', shape: its dimension 'batch' is symbolic", "--dim batch=VALUE"))
        self.bad(1, path, "--dim", "batch=2", words=("'label'", "extent 0 is not stated", "--dim label:0=VALUE"))
        self.bad(1, path, "--dim", "batch=2", "--dim", "label:0=16", "--dim", "other=3",
                 words=("--dim other", "there are: batch, label:0"))
        one, two = (self.report(path, "--dim", f"batch={n}", "--dim", f"label:0={8 * n}", "--strategy", "baseline")
                    ["peak_bytes"] for n in (2, 4))
        self.assertGreater(two, 1.5 * one)

    def test_extents_that_hang_on_data(self):
        b = Builder("data")
        b.input("x", [4, 8])
        b.output(b.node("Transpose", [b.node("NonZero", ["x"], ["where"])], ["y"], perm=[1, 0]), [None, 2], INT64)
        path = self.model(b)
        self.bad(1, path, words=("output 'where'", "extent 1 is not known", "--dim where:1=VALUE"))
        self.assertEqual(self.report(path, "--dim", "where:1=10")["peak_bytes"], 2 * 2 * 10 * 8)

    def test_extents_that_are_computed(self):
        b = Builder("computed")
        b.input("x", ["rows", 6, 8])
        shape = b.node("Shape", ["x"])
        end = b.node("Mod", [b.integers("four", [4]), b.integers("three", [3])])  # 1
        end = b.node("Reshape", [end, b.integers("flat", [-1])])
        first = b.node("Slice", [shape, b.integers("zero", [0]), end])
        half = b.node("Div", [b.integers("sixteen", [16]), b.integers("two", [2])])
        rest = b.node("ConstantOfShape", [b.integers("one", [1])], value_tensor=wire.tensor("", [1], INT64, b"\1" + bytes(7)))
        to = b.node("Concat", [first, b.node("Identity", [half]), rest, "flat"], axis=0)
        cut = b.node("Slice", ["x", end, half, b.integers("axis", [1])])  # 1 to 6 of 6
        b.output(b.node("Reshape", ["x", to], ["y"]), ["rows", 8, 1, 6])
        b.output(b.node("Neg", [cut], ["z"]), ["rows", 5, 8])
        report = self.report(self.model(b), "--dim", "rows=1000")
        self.assertEqual(report["baseline_peak_bytes"] // 1000, 5 * 8 * 4)

    def test_wrong_options(self):
        path = self.model(chain())
        for dim in ("batch", "batch=", "=3", "batch=0", "batch=-1", "batch=1.5", "batch=99999999999999999999"):
            self.bad(2, path, "--dim", dim, words=(f"--dim {dim}", "such as batch=32"))
        self.bad(2, path, "--dim", "a=1", "--dim", "a=2", words=("given twice",))
        graph = self.write("graph.json", "{}")
        for option in (["--dim", "a=1"], ["--first-backward", "a"], ["--emit-onnx", "a.onnx"]):
            self.bad(2, graph, *option, words=("go with an ONNX model only",))
        self.bad(2, path, "--emit-onnx", self.folder / "out.onnx", "--fuse", words=("without --fuse",))
        self.bad(2, path, "--emit-onnx", path, words=("would overwrite the graph",))
        self.bad(2, path, "--emit-onnx", self.folder / "a", "--emit-plan", self.folder / "a", words=("the same file",))
        self.bad(2, path, "--emit-onnx", "", words=("names no file",))
        self.bad(2, path, "--emit-onnx", "x", "--pareto")

    # What is written

    def written(self, path, *arguments):
        out = self.folder / "out.onnx"
        report = self.report(path, *arguments, "--emit-onnx", out)
        return report, out

    def test_written_models_compute_the_same_in_the_memory_that_was_planned(self):
        models = {name: self.small(name) for name in MANY_DIMS} | {"branching": self.model(branching())}
        for name, path in models.items():
            dims = MANY_DIMS.get(name, [])
            with self.subTest(name):
                report, out = self.written(path, *dims, "--max-overhead", "0.5")
                before, after = Numbers(path.read_bytes()), Numbers(out.read_bytes())
                self.assertEqual(before.outputs, after.outputs)
                self.assertLessEqual(after.made, before.made)
                self.assertEqual(after.count, before.needed_count + report["recomputed_nodes"])
                again = self.report(out, *dims, "--strategy", "baseline")
                for key in ("peak_bytes", "resident_bytes", "arena_bytes"):
                    self.assertEqual(again[key], report[key], key)
                first = out.read_bytes()
                self.written(path, *dims, "--max-overhead", "0.5")
                self.assertEqual(out.read_bytes(), first)

    def test_a_model_without_a_plan_is_written_as_it_was(self):
        path = self.model(chain(False))
        _, out = self.written(path)
        before, after = Numbers(path.read_bytes()), Numbers(out.read_bytes())
        self.assertEqual((before.outputs, before.made), (after.outputs, after.made))

    def test_names_that_are_taken(self):
        b = branching()
        for name in "abc":
            b.node("Identity", ["y"], [f"{name}.again"])
            b.output(f"{name}.again", [64, 8])
        path = self.model(b)
        report, out = self.written(path, "--max-overhead", "100%")
        self.assertGreater(report["recomputed_nodes"], 0)
        self.assertEqual(Numbers(path.read_bytes()).outputs, Numbers(out.read_bytes()).outputs)

    def test_weights_in_other_files_stay_where_they_are(self):
        path = self.model(chain())
        other = self.folder / "other"
        other.mkdir()
        self.bad(1, path, "--emit-onnx", other / "out.onnx", words=("the weights lie in files beside the model",))
        self.written(path)

    def test_nothing_is_left_where_it_cannot_be_written(self):
        path = self.small("plain", weights=True)
        plan = self.folder / "plan.json"
        self.bad(1, path, "--emit-plan", plan, "--emit-onnx", self.folder / "none" / "out.onnx",
                 words=("cannot be written",))
        self.assertFalse(plan.exists())

    def test_what_the_checker_refused_before(self):
        b = chain()
        b.node("Neg", ["y"], ["z"], unheard_of=1)
        b.output("z", [64, 8])
        path = self.model(b)
        done = self.call(path, "--emit-onnx", self.folder / "out.onnx")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(b"not checked: the checker refuses the model as it was read", done.stderr)

    # What is refused

    def test_what_is_no_model(self):
        whole = chain().model()
        for content in (b"", b"\0", b"nonsense", b"{}", b"\xff" * 100, b"\x3a\xff\xff\xff\xff\x07", b"\x1f\x8b\x08",
                        wire.number(1, 8), wire.data(7, b""), bytes(1000), gzip.compress(whole),
                        wire.number(1, 8) + b"\x3a" + wire.varint(2 ** 31 - 1) + b"x"):
            with self.subTest(content[:20]):
                self.bad(1, self.model(content), words=("model.onnx: ",))

    def test_models_that_are_cut_off(self):
        whole = chain().model()
        for size in range(1, len(whole), 41):
            with self.subTest(size):
                done = self.call(self.model(whole[:size]))
                self.assertIn(done.returncode, (0, 1))
                self.assertEqual(len(done.stderr.splitlines()), done.returncode)

    def test_models_with_a_wrong_byte(self):
        draw = random.Random(5)
        whole = make_model.plain(inference=False, small=True, weights=False)
        for _ in range(60):
            broken = bytearray(whole)
            at = draw.randrange(len(broken))
            broken[at] = draw.randrange(256)
            done = self.call(self.model(bytes(broken)), "--strategy", "baseline")
            with self.subTest(at=at, byte=broken[at]):
                self.assertIn(done.returncode, (0, 1))
                self.assertEqual(len(done.stderr.splitlines()), done.returncode, done.stderr)

    def test_unsound_graphs(self):
        def of(*nodes, inputs=(("x", [4, 4], FLOAT),), outputs=("y",), element=None):
            b = Builder("unsound", microsoft=True)
            for one in inputs:
                b.input(*one)
            for op, reads, makes, *more in nodes:
                b.node(op, reads, makes, **(more[0] if more else {}))
            for one in outputs:
                b.output(one, None, element or inputs[0][2])
            return b
        neg = ("Neg", ["x"], ["y"])
        self.refused(of(("Add", ["x", "b"], ["a"]), ("Neg", ["a"], ["b"]), ("Neg", ["b"], ["y"])),
                     "reads 'b' of node '/Neg_2'", "a graph has no cycles")
        self.refused(of(("Add", ["x", "y"], ["y"])), "reads 'y'", "no cycles")
        self.refused(of(("Neg", ["nothing"], ["y"])), "reads 'nothing', which nothing makes")
        self.refused(of(neg, ("Neg", ["x"], ["y"])), "'y' stands twice")
        self.refused(of(neg, inputs=(("x", [4], FLOAT), ("x", [4], FLOAT))), "'x' stands twice")
        self.refused(of(neg, inputs=(("x", [4], FLOAT), ("y", [4], FLOAT))), "'y' stands twice")
        self.refused(of(neg, outputs=("z",)), "node 'z', output: nothing makes")
        self.refused(of(neg, inputs=(("x", [4, -4], FLOAT),)), "node 'x'", "negative")
        self.refused(of(neg, inputs=(("x", [2 ** 40, 2 ** 40], FLOAT),)), "node 'x'", "63 bits")
        self.refused(of(neg, inputs=(("x", [2 ** 62], FLOAT),)), "node 'x'")
        self.refused(of(neg, inputs=(("x", None, FLOAT),)), "node 'x', shape: this input states none")
        self.refused(of(neg, inputs=(("x", [4, 4], 8),)), "is of strings")
        self.refused(of(neg, inputs=(("x", [4, 4], 99),)), "element type that is not known")
        self.refused(of(("Mystery", ["x"], ["y"]), ("Neg", ["y"], ["z"]), outputs=("z",)), "output 'y'", "value_info")
        self.refused(of(("SequenceConstruct", ["x"], ["s"]), ("SequenceLength", ["s"], ["y"]), element=INT64),
                     "output 's'", "is a sequence")
        b = of(neg)
        b.weight("w", [4])
        b.weight("w", [4])
        self.refused(b, "node 'w', initializer: stands twice")
        b = of(neg)
        b.opset = 0
        self.refused(b, "opset_import")
        b = Builder("symbolic")
        b.input("x", ["rows", 4])
        b.domains.append("ai.onnx.preview.training")
        b.node("Gradient", ["x"], ["y"], b.domains[0])
        b.output("y", [4])
        self.refused(b, "Gradient stands for nodes", arguments=("--dim", "rows=4"))

    def test_what_breaks_the_library_ends_in_one_line(self):
        b = Builder("divides by zero")
        b.input("x", [1, 1, 8, 8])
        b.weight("w", [1, 1, 3, 3])
        b.output(b.node("Conv", ["x", "w"], ["y"], strides=[0, 0], kernel_shape=[3, 3]), [1, 1, 6, 6])
        done = self.call(self.model(b))
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(len(done.stderr.splitlines()), done.returncode, done.stderr)
        b = Builder("takes all memory")
        b.input("x", [2 ** 33], INT64)
        b.output(b.node("ConstantOfShape", ["x"], ["y"]), [1])
        self.refused(b, "takes more memory than it may", arguments=("--strategy", "baseline"))

    def test_deep_bodies(self):
        inner = Builder("inner")
        inner.output(inner.node("Neg", ["x"], ["n"]), [1])
        body = inner.graph()
        for depth in range(200):
            b = Builder(f"body{depth}")
            b.output(b.node("If", ["c"], [f"o{depth}"], then_branch=body, else_branch=wire.data(2, "e")), [1])
            body = b.graph()
        b = Builder("deep")
        b.input("c", [], BOOL)
        b.input("x", [1])
        b.output(b.node("If", ["c"], ["y"], then_branch=body, else_branch=body), [1])
        self.refused(b)

    def test_files_that_are_made_to_fill_the_memory(self):
        nodes = wire.data(1, b"") * 20_000_000  # two bytes each, and a hundred times that in memory
        self.bad(1, self.model(wire.number(1, 8) + wire.data(7, nodes)), words=("more memory than it may",))

    def test_a_file_that_is_too_large(self):
        self.bad(1, self.model(chain()), "--max-bytes", "100", words=("more than 100 bytes",))


if __name__ == "__main__":
    command.main()
