# SPDX-License-Identifier: BSL-1.0
"""What bench/results keeps of a result: summaries, and the rows that a page, a bar or a test reads.

The whole of it lies in build/bench/results on the machine that measured. The command that the result's page or bench/run
names makes it again."""


def without(record, *keys):
    """A dictionary without some of its keys."""
    return {key: value for key, value in record.items() if key not in keys}


def of_arena(result):
    """Rows over all tables of a set: of each table alone nothing is shown."""
    return {**result, "rows": [row for row in result["rows"] if "/all" in row["benchmark"]]}


def of_graphs(result):
    """The slowest row of each strategy, by time for a node."""
    slowest = {}
    for row in result["rows"]:
        known = slowest.get(row["strategy"])
        if known is None or row["pass us per node"] > known["pass us per node"]:
            slowest[row["strategy"]] = row
    return {**result, "rows": list(slowest.values())}


def of_mutants(result):
    """Changes that no test has found."""
    return {**result, "rows": [row for row in result["rows"] if not row["found_by"]]}


def of_counts(result):
    """What may not grow, what bars ask of it, and what is predicted from it."""
    inner = ("pipes", "longest", "resident_threads", "least_read")
    return {**result,
            "kernels": [{**without(row, "elements", "asked"),
                         "counts": {sm: without(counts, *inner) for sm, counts in row["counts"].items()}}
                        for row in result["kernels"]]}


def of_torch(result):
    """The points' budgets, peaks and times."""
    inner = ("seconds", "recomputed_nodes", "stash")
    return {**result, "models": {name: {**model, "points": [without(point, *inner) for point in model["points"]]}
                                 for name, model in result["models"].items()}}


def of_paper(result):
    """Without what lies at the peak where no page tells it."""
    rows = [{how: without(one, "by_op", "by_structure") if isinstance(one, dict) and how not in ("echo", "min_cut") else one
             for how, one in row.items()} for row in result["footprints"]]
    return {**result, "footprints": rows}


def of_moves(result):
    """Where a better plan than Echo's is known."""
    return {**result, "rows": [without(row, "nodes", "bound", "seconds") for row in result["rows"] if row["better"] and row["better"] < row["echo"]]}


KEPT = {
    "arena": of_arena,
    "cuda-counts": of_counts,
    "cuda-mutants": lambda result: without(result, "equivalents"),
    "graphs": of_graphs,
    "mutants": of_mutants,
    "offload-optimum": of_moves,
    "paper": of_paper,
    "peers-fronts": lambda result: {**result, "rows": [without(row, "front", "points") for row in result["rows"]]},
    "peers-optimum": lambda result: without(result, "rows"),
    "peers-torch": of_torch,
    "scaling": lambda result: without(result, "one cut", "budgets"),
}


def kept(piece, result):
    """What bench/results keeps of a result. What it keeps of that is the same."""
    return KEPT[piece](result) if piece in KEPT else result
