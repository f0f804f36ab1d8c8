#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Every figure in README.md, docs and the page of the PyTorch package was measured, and the measurement is kept in bench/results.

- What stands between `<!-- table: COMMAND -->` and `<!-- end of table -->` is made again from
  bench/results and must be the same, letter by letter.
- Elsewhere a number with a unit or a ratio (12.3 MB, 4.5 s, 1.2 ×, 5 %, 3 times), and a number that
  fills a cell of a table, is a figure. It must be in a file of bench/results that its page names,
  rounded as it is printed; or in tests/figures.txt, with the reason why it is no measurement.
- bench/results holds what is read of it, in MOST bytes at most (bench/kept.py, bench/picture.py).
"""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
sys.path[:0] = [
    str(ROOT / "bench"),
    str(ROOT / "bench" / "pieces" / "paper"),
    str(ROOT / "bench" / "pieces" / "peers"),
    str(ROOT / "bench" / "pieces" / "engine"),
    str(ROOT / "bench" / "pieces" / "onnx"),
    str(ROOT / "bench" / "pieces" / "pytorch"),
    str(ROOT / "bench" / "pieces" / "scripts"),
    str(ROOT / "examples"),
    str(ROOT / "examples" / "tools" / "train"),
    str(ROOT / "examples" / "ggml"),
    str(ROOT / "tests" / "cuda" / "counts"),
    str(ROOT / "tests" / "onnx"),
]
sys.dont_write_bytecode = True

BEGIN, END = "<!-- table: ", "<!-- end of table -->"
SECTION = re.compile(r"<!-- table: (.*?) -->.*?<!-- end of table -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
NUMBER = r"(?<![\w.,/^_+-])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
UNIT = (
    r"×|x\b|%|per cent\b|times\b|ms\b|s\b|seconds?\b|minutes?\b|hours?\b|[µun]s\b|"
    r"[GTM]B/s|[kKMGT]i?B\b|bytes\b|"
    r"[GT]FLOP/s|frames/s|graphs/s|nodes/s"
)
FIGURE = re.compile(rf"({NUMBER})[ \u00a0\n]?({UNIT})")
CELL = re.compile(rf"[≤≥+-]? ?({NUMBER})(?:[ \u00a0]?({UNIT}))?")
ALLOWED = ROOT / "tests" / "figures.txt"
MOST = 400_000  # bytes of bench/results


def load(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def generated():
    """What each command would write, by the name in its mark."""
    import bars
    import causes_table
    import count
    import front_page
    import host_pages
    import learn
    import show
    import table

    paper, peers, engine, offload, pytorch, zoo, inductor, scripts, scripts_inductor, gpu = (
        module_of(ROOT / "bench" / "pieces" / path)
        for path in (
            "paper/tables.py",
            "peers/tables.py",
            "engine/engine.py",
            "engine/offload.py",
            "pytorch/rows.py",
            "pytorch/zoo.py",
            "pytorch/inductor.py",
            "scripts/scripts.py",
            "scripts/scripts_inductor.py",
            "gpu/tables.py",
        )
    )
    return {
        **{
            f"bench/run {name}": (lambda name=name: front_page.section(name))
            for name in front_page.TABLES
        },
        **{f"bench/run {name}": (lambda name=name: bars.section(name)) for name in bars.PLACES},
        "bench/paper": lambda: paper.section(load("paper")),
        "bench/peers --markdown": peers.section,
        "bench/engine": lambda: engine.section(load("engine")),
        "bench/engine --offload": lambda: offload.section(load("engine-offload")),
        **{
            f"bench/results/{name}.json": (lambda name=name: host_pages.section(name))
            for name in host_pages.PAGES
        },
        **{
            f"bench/host_pages lines {name}": (lambda name=name: host_pages.lines(name))
            for name in host_pages.SPECIALISED
        },
        **{
            f"bench/host_pages traits {name}": (lambda name=name: host_pages.traits(name))
            for name in host_pages.SPECIALISED
        },
        **of_report(),
        "bench/gpu": lambda: gpu.section(load("gpu") if (RESULTS / "gpu.json").exists() else None),
        "bench/pytorch": lambda: pytorch.section(load("pytorch")),
        "bench/zoo": lambda: zoo.section(load("zoo")),
        "bench/inductor": lambda: inductor.section(load("inductor")),
        "bench/scripts": lambda: scripts.section(load("scripts")),
        "bench/scripts --inductor": lambda: scripts_inductor.section(load("scripts-inductor")),
        "tests/cuda/counts/count.py --markdown": lambda: count.section(
            load("cuda-counts"), load("cuda-mutants")
        ),
        causes_table.NAME: lambda: causes_table.section(load("onnx-node-tests")),
        "examples/ggml/run": lambda: show.section(load("ggml")),
        "examples/run --markdown": lambda: table.section(load("strategies")),
        "examples/run --learn": lambda: learn.section(load("training")),
    }


def of_report():
    """The tables of docs/report.md, where the report has been measured."""
    file = ROOT / "bench" / "pieces" / "report" / "tables.py"
    if not file.exists():
        return {}
    made, found = module_of(file), load("report")
    return {
        f"bench/report {name}": (lambda name=name, key=key: made.section(name, found, found[key]))
        for name, key in (("libraries", "libraries"), ("costs", "rows"))
    }


def module_of(file):
    """A module by its file: several are called alike."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents():
    pages = [ROOT / "README.md", ROOT / "examples" / "pytorch" / "README.md"]
    return [*pages, *sorted((ROOT / "docs").rglob("*.md"))]


def wrong_sizes(text, rows):
    """Lines of a table `| graph | nodes | peak MB | … |` that say other sizes than `rows`, by graph."""
    wrong = []
    for name, *said in re.findall(r"^\| (\w+) \| ([\d,]+) \| ([\d,.]+) \|", text, re.MULTILINE):
        row = rows.get(name)
        true = row and [
            f"{row['nodes']:,}",
            f"{row['baseline MB']:,.{0 if row['baseline MB'] >= 10 else 1}f}",
        ]
        if said != true:
            wrong.append(f"{name}: {said} instead of {true}")
    return wrong


NO_CARD = "**No card yet.**"
OF_A_CARD = ("gpu.json", "cuda.json")  # what bench/gpu --all measures


def card_problem(text, measured):
    """What docs/results/gpu.md claims wrongly of the results that there are; "" where it is right."""
    if not measured:
        return "" if NO_CARD in text else f"nothing was measured on a GPU: say {NO_CARD}"
    if NO_CARD in text:
        return f"it says {NO_CARD} beside {', '.join(measured)}"
    silent = [name for name in measured if f"bench/results/{name}" not in text]
    return f"it does not name {', '.join(silent)}" if silent else ""


def sections(text):
    return {match[1]: match[0] for match in SECTION.finditer(text)}


def blanked(pattern, text):
    """The text without what matches, every line in its place."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def figures_in(text):
    """Figures outside of generated sections and code, each with its line: (line, number, unit)."""
    text = blanked(CODE, blanked(SECTION, text))
    found = [
        (text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in FIGURE.finditer(text)
    ]
    for line, row in enumerate(text.splitlines(), 1):
        if row.startswith("|"):
            for cell in row.strip("| \n").split("|"):
                match = CELL.fullmatch(cell.strip())
                if match and not match[2]:
                    found.append((line, match[1], ""))
    return sorted(set(found))


def numbers_of(value):
    """All numbers in a result, those within its texts too."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers_of(one)
    elif isinstance(value, str):
        yield from (
            float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", value)
        )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def measured_in(name):
    file = RESULTS / name
    data = file.read_text(encoding="utf-8")
    return list(numbers_of(json.loads(data) if name.endswith(".json") else data))


def is_measured(number, unit, results):
    """Whether a result, rounded as the figure is, is the figure. Bytes may stand as MB or GB, a
    ratio as per cent.
    """
    digits = len(number.partition(".")[2])
    scales = {
        "%": (1, 100),
        "MB": (1, 1e-6),
        "GB": (1, 1e-9, 1e-3),
        "ms": (1, 1e3),
        "s": (1, 1e-3),
    }.get(unit, (1,))
    return any(
        f"{result * scale:,.{digits}f}" in (number, f"{float(number.replace(',', '')):,.{digits}f}")
        for result in results
        for scale in scales
    )


def allowed():
    """Lines `PAGE | FIGURE | REASON` of tests/figures.txt."""
    rows = {}
    for line in ALLOWED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            page, figure, reason = (part.strip() for part in line.split("|", 2))
            rows[page, figure] = reason
    return rows


def unfounded(page, text, allow, used):
    """One line for each figure that is neither measured nor allowed."""
    named = sorted(set(re.findall(r"bench/results/([\w.-]+\.(?:json|txt))", text)))
    results = [
        number for name in named if (RESULTS / name).exists() for number in measured_in(name)
    ]
    found = []
    for line, number, unit in figures_in(text):
        figure = f"{number} {unit}".strip()
        if (page, figure) in allow:
            used.add((page, figure))
        elif not is_measured(number, unit, results):
            found.append(
                f"{page}:{line}: {figure} is in no file under bench/results that the page names; "
                "measure it there, take it away, or say in tests/figures.txt why it is no measurement"
            )
    return found


class Figures(unittest.TestCase):
    maxDiff = None

    def test_generated_sections_are_what_the_results_say(self):
        makers, seen = generated(), set()
        for document in documents():
            text = document.read_text(encoding="utf-8")
            self.assertEqual(
                text.count(BEGIN),
                len(sections(text)),
                f"{document.name}: a section has no end, or stands twice",
            )
            for name, section in sections(text).items():
                with self.subTest(document.name, section=name):
                    self.assertIn(name, makers, "no command makes this section")
                    self.assertEqual(section, makers[name]())
                    seen.add(name)
        self.assertEqual(set(makers) - seen, set())

    def test_a_page_says_whether_a_gpu_was_had(self):
        page = (ROOT / "docs" / "results" / "gpu.md").read_text(encoding="utf-8")
        there = [name for name in OF_A_CARD if (RESULTS / name).exists()]
        self.assertEqual(card_problem(page, there), "")
        for document in documents() if there else ():
            self.assertNotIn("no card yet", document.read_text(encoding="utf-8").lower(), document)

    def test_sizes_of_graphs_are_those_that_were_measured(self):
        page = (ROOT / "docs" / "pytorch" / "graphs.md").read_text(encoding="utf-8")
        rows = {row["graph"]: row for row in load("default")["rows"]}
        self.assertEqual(wrong_sizes(page, rows), [])
        for name in rows:
            self.assertIn(f"\n| {name} | ", page)

    def test_what_two_commands_measure_is_the_same(self):
        """The default's peak of a graph, in MB with one digit."""
        rows = {name: json.loads((ROOT / f"bench/results/{name}.json").read_text())["rows"]
                for name in ("default", "strategies")}
        by_default = {row["graph"]: row["default MB"] for row in rows["default"]}
        compared = [row for row in rows["strategies"] if row["strategy"] == "budget 5 %"]
        self.assertTrue(compared)
        for row in compared:
            with self.subTest(row["graph"]):
                self.assertAlmostEqual(float(row["after MB"]), by_default[row["graph"]], delta=0.051)

    def test_figures_elsewhere_are_measured(self):
        allow, used = allowed(), set()
        found = [
            line
            for document in documents()
            for line in unfounded(
                document.relative_to(ROOT).as_posix(),
                document.read_text(encoding="utf-8"),
                allow,
                used,
            )
        ]
        self.assertEqual(found, [])
        self.assertEqual(set(allow) - used, set(), "tests/figures.txt allows what no page says")
        for figure, reason in allow.items():
            self.assertGreater(len(reason), 10, f"{figure}: say why it is no measurement")

    def test_results_are_small(self):
        sizes = {file.name: file.stat().st_size for file in RESULTS.iterdir()}
        largest = sorted(sizes, key=sizes.get, reverse=True)[:5]
        self.assertLessEqual(
            sum(sizes.values()),
            MOST,
            f"take from {', '.join(largest)} what nothing reads: by bench/kept.py, or bench/picture.py",
        )

    def test_results_hold_what_is_kept(self):
        import kept
        import picture

        for piece in kept.KEPT:
            with self.subTest(piece):
                self.assertTrue(
                    load(piece) == kept.kept(piece, load(piece)), f"python3 bench/results.py bench/results/{piece}.json drops the rest"
                )
        for file in RESULTS.glob("*.svg"):
            with self.subTest(file.name):
                text = file.read_text(encoding="utf-8")
                self.assertTrue(text == picture.small(text), "write it by bench/picture.py")

    def test_a_result_reads_as_it_was_written(self):
        import results

        for result in (
            {"date": "2026-01-02", "rows": [{"a": 1, "b": None}, {"a": 0.1, "b": "é"}]},
            {"machine": {"cores": 2}, "models": {"mlp": {"points": [{"peak": 1}]}}, "rows": []},
        ):
            self.assertEqual(json.loads(results.as_text(result)), result)
        self.assertEqual(results.as_text({"rows": [{"a": 1}, {"a": 2}]}).count("\n"), 6)

    def test_all_of_a_result_is_written_and_what_is_kept(self):
        import results

        rows = [{"before": "a", "found_by": None}, {"before": "b", "found_by": "a test"}]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            with unittest.mock.patch.object(results, "ROOT", pathlib.Path(folder)):
                results.save("mutants", {"found": 1, "rows": rows})
                whole = json.loads(results.whole_file_of("mutants").read_text(encoding="utf-8"))
                self.assertEqual(whole, {"found": 1, "rows": rows})
                self.assertEqual(results.load("mutants"), {"found": 1, "rows": rows[:1]})
        for file in ("build/bench/results/mutants.json", "bench/results/mutants.json"):
            self.assertIn(f"written to {file}", said.getvalue())

    def test_a_small_picture_has_every_mark(self):
        import picture

        style = 'style="fill: #ffffff"'
        marks = (
            f'<g id="patch_1"><path d="M 0.04 1.26 \nL 2.999 0 \nz\n" {style}/></g>\n'
            f'<g clip-path="url(#p1)"><use x="7.123456" {style}/></g>'
            '<text transform="rotate(-0 1 2)">1.25 GB</text>'
        )
        head = '<svg width="9.5pt"><metadata>M</metadata><style type="text/css">*{}</style>'
        self.assertEqual(
            picture.small(f"{head}{marks}</svg>").split("</style>")[1],
            '<path d="M0 1.3L3 0z" class="c0"/>\n<g clip-path="url(#p1)"><use x="7.1" class="c0"/></g>'
            "<text>1.25 GB</text></svg>\n",
        )

    # The checks find what is planted.

    def test_wrong_sizes_are_found(self):
        rows = {"mlp": {"nodes": 1053, "baseline MB": 0.41}}
        self.assertEqual(wrong_sizes("| mlp | 1,053 | 0.4 | words |", rows), [])
        for line in ("| mlp | 1,054 | 0.4 | |", "| mlp | 1,053 | 0.5 | |", "| other | 1,053 | 0.4 | |"):
            self.assertEqual(len(wrong_sizes(line, rows)), 1, line)

    def test_a_wrong_claim_about_a_gpu_is_found(self):
        for text, measured, word in (
            ("1.5 × on a card", [], "nothing was measured"),
            (f"{NO_CARD} Measured: bench/results/gpu.json", ["gpu.json"], "it says"),
            ("Measured: bench/results/gpu.json", ["gpu.json", "cuda.json"], "name cuda.json"),
        ):
            with self.subTest(text):
                self.assertIn(word, card_problem(text, measured))
        self.assertEqual(card_problem("Measured: bench/results/gpu.json", ["gpu.json"]), "")

    def test_figures_are_found(self):
        for text, number, unit in (
            ("It takes 12.5 MB.", "12.5", "MB"),
            ("up to 1,234 ms", "1,234", "ms"),
            ("1.5 × less", "1.5", "×"),
            ("| a | 7.25 |", "7.25", ""),
            ("wraps 3\ntimes", "3", "times"),
            ("at 4x", "4", "x"),
        ):
            with self.subTest(text):
                self.assertIn((1, number, unit), figures_in(text))
        for text in (
            "`12 MB`",
            "```sh\n12 MB\n```",
            "version 1.2.3",
            "32-bit words",
            "issue 7",
            "<!-- table: x -->\n12 MB\n<!-- end of table -->",
            "2^32 bytes",
            "| 2024 models |",
        ):
            with self.subTest(text):
                self.assertEqual(figures_in(text), [])

    def test_rounding(self):
        for number, unit, result in (
            ("12.5", "MB", 12.46),
            ("12.5", "MB", 12.46e6),
            ("5", "%", 0.052),
            ("1,234", "ms", 1234.4),
            ("1.50", "×", 1.4951),
        ):
            with self.subTest(number, unit=unit):
                self.assertTrue(is_measured(number, unit, [1e9, result]))
        for number, unit, result in (("12.5", "MB", 12.4), ("1.50", "×", 1.49), ("5", "ms", 0.052)):
            with self.subTest(number, unit=unit):
                self.assertFalse(is_measured(number, unit, [1e9, result]))

    def test_what_nobody_measured_is_found(self):
        self.assertEqual(
            len(unfounded("x.md", "It takes 99.9 s. See bench/results/onnx.json", {}, set())), 1
        )
        self.assertEqual(
            unfounded("x.md", "It takes 98.7 MB. See `bench/results/onnx.json`", {}, set()), []
        )
        self.assertEqual(len(unfounded("x.md", "It takes 98.7 MB.", {}, set())), 1)
        self.assertEqual(
            unfounded("x.md", "at most 5 %", {("x.md", "5 %"): "an option's default"}, set()), []
        )


if __name__ == "__main__":
    unittest.main()
