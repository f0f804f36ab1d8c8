#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""All malformed inputs of the commands, as files, from standard input and beside a sound one: each is refused by one
line of less than 400 characters that says what is wrong, or read as what it is. Nothing crashes, hangs or fills the
memory.

    python3 hostile.py ECHO_PLAN ECHO_ARENA
"""
import gzip
import json
import os
import resource
import sys
import unittest

import command

BIG = 2**62
DEEP = 2_000_000


def node(name="a", op="x", phase="forward", inputs=((0, 0),), outputs=({"bytes": 4},), **more):
    return {"name": name, "op": op, "phase": phase, "inputs": inputs, "outputs": outputs} | more


INPUT = node("i", "data", "input", ())


def graph(*nodes, outputs=None, **more):
    nodes = [INPUT, *nodes]
    return {"format": "echo-graph/1", "nodes": nodes, "outputs": [[len(nodes) - 1, 0]] if outputs is None else outputs} | more


def one(**more):
    return graph(node(**more))


def sized(**output):
    return one(outputs=[output])


# What each graph is refused for; None: it is odd, and sound.
GRAPHS = {
    "a cycle of two": (graph(node("a", inputs=[[2, 0]]), node("b", inputs=[[1, 0]])), "node 'a', inputs: reads node 2"),
    "a node that reads itself": (one(inputs=[[1, 0]]), "node 'a', inputs: reads node 1"),
    "an input that is nowhere": (one(inputs=[[9, 0]]), "node 'a', inputs: reads node 9"),
    "an output that is nowhere": (one(inputs=[[0, 3]]), "node 'a', inputs: reads output 3 of 'i' which has 1"),
    "an index below 0": (one(inputs=[[-1, 0]]), "node 'a', inputs: is negative"),
    "an index of 2^64": (one(inputs=[[2**64, 0]]), "does not fit in 64 bits"),
    "an index that is a text": (one(inputs=[["0", 0]]), "expected a whole number, got a text"),
    "an index of one part": (one(inputs=[[0]]), "node 'a', inputs: "),
    "an index of three parts": (one(inputs=[[0, 0, 0]]), "node 'a', inputs: "),
    "an index without brackets": (one(inputs=[0, 0]), "node 'a', inputs: "),
    "bytes below 0": (sized(bytes=-4), "outputs[0].bytes: is negative"),
    "bytes of 2^63": (sized(bytes=2**63), "more than 2^62 bytes"),
    "bytes of 2^63 - 1": (sized(bytes=2**63 - 1), "more than 2^62 bytes"),
    "bytes of 2^64": (sized(bytes=2**64), "does not fit in 64 bits"),
    "bytes of 10^400": (sized(bytes=10**400), "outputs[0].bytes: "),
    "four times 2^62 bytes": (graph(*(node(f"a{k}", outputs=[{"bytes": BIG}]) for k in range(4))), "exceed 2^62 bytes together"),
    "bytes with a point": (sized(bytes=4.0), "4.0 is not a whole number"),
    "bytes of a half": (sized(bytes=4.5), "4.5 is not a whole number"),
    "bytes in quotes": (sized(bytes="4"), "expected a whole number, got a text"),
    "bytes that are true": (sized(bytes=True), "outputs[0].bytes: expected a whole number"),
    "bytes that are null": (sized(bytes=None), "outputs[0].bytes: expected a whole number, got null"),
    "no size at all": (sized(), "node 'a', outputs"),
    "a shape beyond 63 bits": (sized(shape=[2**40, 2**40], dtype="f32"), "does not fit in 63 bits"),
    "a shape of 10^6 extents": (sized(shape=[2] * 10**6, dtype="f32"), "does not fit in 63 bits"),
    "a shape with a 0 in it": (sized(shape=[2**40, 2**40, 0], dtype="f32"), None),
    "an extent below 0": (sized(shape=[-1, 4], dtype="f32"), "outputs[0].shape: is negative"),
    "a dtype of unknown size": (sized(shape=[4], dtype="f12"), "missing for dtype 'f12'"),
    "a dtype that is a number": (sized(shape=[4], dtype=32), "outputs[0].dtype: expected a text"),
    "a node without outputs": (graph(node(outputs=[]), outputs=[]), None),
    "times beyond all sums": (graph(node(time_us=1e308), node("b", phase="backward", time_us=1e308)), None),
    "flops beyond all sums": (graph(node(flops=1e308), node("b", phase="backward")), None),
    "flops of 2^64": (graph(node(flops=2**64), node("b", phase="backward")), None),
    "a time below 0": (one(time_us=-1), "time_us: is negative"),
    "a workspace below 0": (one(workspace=-1), "workspace: is negative"),
    "a workspace of 2^62": (one(workspace=BIG, outputs=[{"bytes": BIG}]), "exceed 2^62 bytes together"),
    "a phase of no name": (one(phase="train"), "give one of input, forward, backward, update"),
    "no phase": ({**graph(), "nodes": [{"op": "x", "inputs": [], "outputs": []}], "outputs": []}, "phase: missing"),
    "backward before forward": (graph(node(phase="backward"), node("b", inputs=[[1, 0]])), None),
    "an input that reads": (one(phase="input"), "an input node has inputs"),
    "a view of an input that is not there": (sized(bytes=4, view_of=1), "names input 1 of a node with 1"),
    "a view that is larger": (graph(node(), node("b", inputs=[[1, 0]], outputs=[{"bytes": 400, "view_of": 0}])), None),
    "a view and in place": (graph(node(), node("b", inputs=[[1, 0]], outputs=[{"bytes": 4, "view_of": 0, "inplace": 0}])), None),
    "in place on what is read later": (graph(node(inputs=[[0, 0]], outputs=[{"bytes": 4, "inplace": 0}]), node("b")), "inplace"),
    "in place on what is smaller": (sized(bytes=400, inplace=0), "node 'a'"),
    "names that are the same": (graph(node(), node(inputs=[[1, 0]])), None),
    "outputs that are the same": (graph(node(), outputs=[[1, 0], [1, 0]]), None),
    "inputs that are the same": (one(inputs=[[0, 0], [0, 0]]), None),
    "control of a later node": (graph(node(control=[2]), node("b")), "control: names node 2"),
    "control of itself": (one(control=[1]), "control: names node 1"),
    "a resident that is nowhere": (graph(node(), resident=[[7, 0]]), "resident: names node 7 of a graph with 2"),
    "a result that is nowhere": (graph(node(), outputs=[[7, 0]]), "outputs: names node 7"),
    "a name that is null": (one(name=None), "name: expected a text, got null"),
    "a name that is a list": (one(name=["a"]), "name: expected a text"),
    "an op without letters": (one(op=""), None),
    "an op that is a number": (one(op=7), "op: expected a text"),
    "a name of commands for a terminal": (one(name="a\0\x1b[31mred\n\x07"), None),
    "lines in a name": (one(name="line1\nline2\x1b[2J", inputs=[[0, 5]]), "line1\\x0aline2\\x1b[2J"),
    "a name of a million letters": (one(name="n" * 10**6, inputs=[[0, 5]]), "reads output 5 of 'i'"),
    "a name of a million words": (one(name="a 'b' " * 10**6, inputs=[[0, 5]]), "node 'a 'b' "),
    "a name of markup": (graph(node("<script>alert(1)</script>", layer="</script><img src=x onerror=alert(2)>"), name="</title>"), None),
    "an op of a million letters": (one(op="o" * 10**6, inputs=[[0, 5]]), "reads output 5 of 'i'"),
    "a bit of an input that is not there": (one(one_bit_inputs=[5]), "names input 5 of a node with 1"),
    "a rerun of no name": (one(rerun="sometimes"), "give one of pure, seeded, never"),
    "a kind of no name": (one(kind="medium"), "give one of heavy, light, view"),
    "a kind of a million letters": (one(kind="k" * 10**6), "give one of heavy, light, view"),
    "nodes that are an object": ({**graph(), "nodes": {}}, "nodes: expected an array, got an object"),
    "a node that is a list": ({**graph(), "nodes": [[]]}, "nodes: expected an object, got an array"),
    "another format": ({**graph(), "format": "echo-graph/2"}, "format: is 'echo-graph/2'"),
    "a plan": ({"format": "echo-plan/1", "schedule": []}, "plan"),
    "no format": ({"nodes": [], "outputs": []}, "format: missing"),
    "no results": ({"format": "echo-graph/1", "nodes": []}, "outputs: missing"),
    "an empty graph": ({"format": "echo-graph/1", "nodes": [], "outputs": []}, None),
}

HEAD = '{"format":"echo-graph/1","nodes":[],"outputs":[]'
NODE = '{"format":"echo-graph/1","nodes":[{"op":"x","phase":"forward","inputs":[],"outputs":[{"bytes":4}],"time_us":%s}],"outputs":[]}'
TEXTS = {
    "nothing": ("", "JSON"), "one blank": (" ", "JSON"), "zeros": (b"\0" * 100, "JSON"), "a number": ("7", "expected an object"),
    "a text": ('"echo-graph/1"', "expected an object"), "null": ("null", "expected an object"), "a list": ("[]", "expected an object"),
    "an open brace": ("{", "JSON"), "a graph that is cut off": (HEAD, "JSON"), "two graphs": (HEAD + "}" + HEAD + "}", "JSON"),
    "letters behind the graph": (HEAD + "}x", "JSON"), "a byte order mark in front": ("\ufeff" + HEAD + "}", None),
    "a key twice": ('{"format":"echo-graph/1",' + HEAD[1:] + "}", "format: stands twice"),
    "NaN": (NODE % "NaN", "time_us: not valid JSON"), "an infinity": (NODE % "Infinity", "time_us: not valid JSON"),
    "1e999": (NODE % "1e999", "1e999"), "-0": (NODE % "-0", None), "a number of a million digits": (NODE % ("9" * 10**6), "time_us"),
    "bytes of 1e3": (HEAD.replace("[]", '[{"op":"x","phase":"forward","inputs":[],"outputs":[{"bytes":1e3}]}]', 1) + "}", "1e3 is not a whole number"),
    "brackets without end": ("[" * DEEP, "expected an object, got an array"),
    "brackets in an unknown key": (HEAD + ',"extra":' + "[" * DEEP + "]" * DEEP + "}", None),
    "brackets in an unknown key, cut off": (HEAD + ',"extra":' + "[" * DEEP, "JSON"),
    "brackets for inputs": (HEAD.replace("[]", '[{"op":"x","inputs":' + "[" * DEEP, 1), "inputs"),
    "a key of a million letters": (HEAD + ',"' + "k" * 10**6 + '":1}', None),
    "a name that is no UTF-8": (b'{"name":"\xff\xfe"}', "UTF-8"), "half a surrogate": (HEAD + ',"name":"\\ud800"}', "U+D800"),
    "a comment": ("{/* hi */" + HEAD[1:] + "}", "JSON"), "a comma too many": (HEAD + ",}", "JSON"),
    "quotes of one stroke": (HEAD.replace('"', "'") + "}", "JSON"), "UTF-16": ((HEAD + "}").encode("utf-16"), "JSON"),
    "markup": ("<html></html>", "JSON"),
}
FLAT = gzip.compress((HEAD + "}").encode())
PACKED = {
    "nothing": b"", "a head alone": FLAT[:10], "all but a byte": FLAT[:-1], "letters behind": FLAT + b"x", "no gzip": b"{}",
    "a wrong sum": FLAT[:-8] + b"\0\0\0\0" + FLAT[-4:], "a wrong length": FLAT[:-4] + b"\1\1\1\1",
}
MODELS = {
    "nothing": b"", "a text": b"{}", "zeros": b"\0" * 64, "a length beyond the end": b"\x08\x08\x3a\xff\xff\xff\xff\x7f", "groups": b"\x0b" * 10**5,
    "no end": b"\x08" + b"\xff" * 64, "bytes of all kinds": bytes(range(256)) * 16,
}
TABLES = {
    "nothing": ("", "column id"), "no head": ("0,0,1,1\n", "column"), "a column twice": ("id,lower,upper,size,size\n", "size twice"),
    "a cell too few": ("id,lower,upper,size\na,1,3\n", "3 columns"), "a cell too many": ("id,lower,upper,size\na,1,3,4,5\n", "5 columns"),
    "an end before the start": ("id,lower,upper,size\na,5,3,1\n", "below"), "a size below 0": ("id,lower,upper,size\na,1,3,-1\n", "negative"),
    "a size of 2^63": (f"id,lower,upper,size\na,1,3,{2**63}\n", "size"), "a time of 2^70": (f"id,lower,upper,size\na,1,{2**70},1\n", "too large"),
    "sizes beyond 64 bits": (f"id,lower,upper,size\na,0,1,{2**63 - 1}\nb,0,1,{2**63 - 1}\n", "2^62"), "no number": ("id,lower,upper,size\na,1,3,nan\n", "size 'nan'"),
    "an id twice": ("id,lower,upper,size\na,1,3,1\na,1,3,1\n", "line 2"), "no id": ("id,lower,upper,size\n,1,3,1\n", "no id"),
    "an id of a million letters": ("id,lower,upper,size\n" + "n" * 10**6 + ",5,3,1\n", "below"), "zeros": (b"\0" * 1000, "column"),
    "a million columns": (",".join(map(str, range(10**6))) + "\n", "column"), "one line without end": ("id,lower,upper,size," + "x" * 10**6, "column"),
}
LIMIT = 3 * 2**30


class Hostile(command.Command):
    name = "echo-plan"
    arena = ""

    def limit(self):
        if not self.sanitized: # a sanitizer maps terabytes, of which it uses little
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def run_of(self, *arguments, **more):
        return self.call(*arguments, preexec_fn=self.limit, **more)

    def judge(self, wanted, arguments, **more):
        """It is refused for `wanted`, or, where that is None, read without a word on standard error."""
        done = self.run_of(*arguments, **more)
        line = done.stderr.decode() # as UTF-8
        if wanted is None:
            self.assertEqual((done.returncode, line), (0, ""))
            self.assertNotIn(b"\x1b", done.stdout)
            self.assertLess(max(map(len, done.stdout.decode().splitlines())), 400)
            return
        self.assertEqual((done.returncode, done.stdout), (1, b""), line[:1000])
        self.assertEqual((line.count("\n"), line[-1:]), (1, "\n"), line[:1000])
        self.assertTrue(all(ord(c) >= 32 and not 127 <= ord(c) < 160 for c in line[:-1]), line)
        self.assertLess(len(line), 400, line)
        self.assertIn(wanted, line)

    def every_way(self, wanted, content, name="bad.json"):
        """As a file, from standard input, and compared with a sound graph."""
        content = content if isinstance(content, bytes) else content.encode()
        path, sound = self.write(name, content), self.write("sound.json", HEAD + "}")
        self.judge(wanted, [path])
        self.judge(wanted, ["-"], input=content)
        if wanted is not None:
            self.judge(wanted, ["diff", sound, path])
            self.judge(wanted, [path, "--emit-plan", self.folder / "none.json"])
            self.assertFalse((self.folder / "none.json").exists())

    def test_graphs(self):
        for name, (content, wanted) in GRAPHS.items():
            with self.subTest(name):
                self.every_way(wanted, json.dumps(content))

    def test_texts(self):
        for name, (content, wanted) in TEXTS.items():
            with self.subTest(name):
                self.every_way(wanted, content)

    def test_compressed_files(self):
        for name, content in PACKED.items():
            with self.subTest(name):
                self.judge("gzip", [self.write("bad.json.gz", content)])
                if content.startswith(b"\x1f"):
                    self.judge("gzip", ["-"], input=content)

    def test_models(self):
        for name, content in MODELS.items():
            with self.subTest(name):
                self.judge("ONNX", [self.write("bad.onnx", content)])
                if content.startswith(b"\x08"):
                    self.judge("ONNX", ["-"], input=content)

    def test_plans(self):
        sound = self.write("graph.json", json.dumps(one()))
        for name, content in TEXTS.items():
            with self.subTest(name):
                plan = self.write("plan.json", content[0] if isinstance(content[0], bytes) else content[0].encode())
                self.judge(f"{plan}: ", [sound, "--plan", plan])
        for name, content in {
                "steps without end": {"schedule": [{"node": 0}] * 10**5}, "a step of 2^63": {"schedule": [{"node": 2**63}]},
                "a name of a million letters": {"graph": "g" * 10**6, "schedule": [{"node": 9}]},
                "a strategy of a million letters": {"strategy": "s" * 10**6, "schedule": [{"node": 9}]},
                "inputs without end": {"schedule": [{"node": 0}, {"node": 1, "inputs": [[0, 0]] * 10**5}]},
                "blocks that overflow": {"schedule": [{"node": 0}, {"node": 1}], "arena": {"bytes": 2**64, "blocks": []}}}.items():
            with self.subTest(name):
                plan = self.write("plan.json", json.dumps({"format": "echo-plan/1"} | content))
                self.judge(f"{plan}: ", [sound, "--plan", plan])

    def test_what_is_no_file(self):
        self.judge("cannot be opened", [self.folder / "none.json"])
        self.judge("cannot be read", [self.folder])
        self.judge("cannot be opened", [self.folder / ("n" * 255) / ("n" * 3000)])
        self.judge("cannot be opened", [self.folder / ("n" * 5000)])
        self.judge("cannot be opened", [self.folder / "line\nbreak\x1b[31m\u2028.json"])
        around = self.folder / "around.json"
        around.symlink_to("around.json")
        self.judge("cannot be opened", [around])
        self.judge("JSON", ["/dev/null"])
        self.judge("more than 1000000 bytes", [self.write("blanks.json", " " * 2_000_000), "--max-bytes", "1MB"])

    def test_tables(self):
        program, self.program, self.name = self.program, self.arena, "echo-arena"
        self.addCleanup(setattr, self, "program", program)
        for name, (content, wanted) in TABLES.items():
            with self.subTest(name):
                content = content if isinstance(content, bytes) else content.encode()
                self.judge(wanted, [self.write("bad.csv", content), "--output", self.folder / "none.csv"])
                self.judge(wanted, ["-"], input=content)
                self.assertFalse((self.folder / "none.csv").exists())
        for name, content in PACKED.items():
            with self.subTest(name):
                self.judge("gzip", [self.write("bad.csv.gz", content)])


if __name__ == "__main__":
    Hostile.arena = os.path.abspath(sys.argv.pop(2))
    Hostile.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
