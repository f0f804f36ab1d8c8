"""Training steps as JAX's compiler plans their memory, and as Echo rewrites them: compiled here and now.

MB are 10^6 bytes of temporary memory, as the compiler states; operations are counted on the compiled programs.
`differs`: the largest difference between the optimizer's moments (means of gradients) after one step of both, in parts
of the largest one.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import pathlib
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import models
from models import filled

import echo_jax
from echo_jax.compiling import Declined

LARGE = {  # for a TPU, which keeps small models in its cache; `policy=` of jax.checkpoint around each layer
    "transformer, loop over layers": functools.partial(
        models.transformer, batch=16, length=512, width=1024, heads=8, layers=8, words=16384, scanned=True
    ),
    "lstm, loop over time": functools.partial(models.lstm, 512, 128, 512),
    "moe": functools.partial(models.moe, batch=16, length=512, layers=4, width=512, experts=8, words=16384),
    "llama": functools.partial(
        models.llama, batch=8, length=2048, layers=4, width=2048, wide=5632, words=32000, dtype=jnp.bfloat16
    ),
    "resnet": functools.partial(models.resnet, 256, 64, widths=(64, 128)),
}


def difference(step: models.Step, ours: Any, theirs: Any) -> float:
    """Of the optimizer's moments of the gradients after one step; without moments, of the parameters."""
    parameters, *batch = filled((step.parameters, *step.batch))
    results = []
    for run in (ours, theirs):
        given = jax.tree.map(jnp.copy, parameters)
        after, state, _ = run(given, step.optimizer.init(given), *batch)
        moments = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim and jnp.issubdtype(leaf.dtype, jnp.floating)]
        results.append(moments or jax.tree.leaves(jax.tree.map(jnp.subtract, after, parameters)))
    largest = max(float(jnp.max(jnp.abs(b))) for b in results[1])
    return max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(*results)) / largest


def row_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    step = (LARGE if options.topology else models.MODELS)[name]()
    compiler = {} if options.topology else echo_jax.MEMORY_SCHEDULER
    theirs = jax.jit(step.step, donate_argnums=(0, 1), compiler_options=compiler)
    ours = echo_jax.remat(theirs, max_overhead=options.max_overhead, topology=options.topology)
    if options.explain:
        print(echo_jax.explain(theirs, *step.arguments, topology=options.topology), "\n")
    begun = time.monotonic()
    decision = ours.decide(*step.arguments)
    return {
        "model": name,
        "before MB": decision.before / 1e6,
        "after MB": decision.after / 1e6,
        "overhead": decision.overhead,
        "again": decision.again,
        "kernels": decision.kernels,
        "differs": None if options.topology else difference(step, ours, theirs),
        "seconds": time.monotonic() - begun,
        "reason": decision.reason,
    }


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'model':30} {'MB':>9} {'with Echo':>9} {'ratio':>7} {'operations':>10} {'differs':>8} {'to plan':>8}"]
    for row in rows:
        differs = "" if row["differs"] is None else f"{row['differs']:.0e}"
        lines.append(
            f"{row['model']:30} {row['before MB']:9,.1f} {row['after MB']:9,.1f} "
            f"{row['before MB'] / row['after MB']:5.2f} x {100 * row['overhead']:+8.1f} % {differs:>8} "
            f"{row['seconds']:6.0f} s" + (f"  {row['reason']}" if row["reason"] else "")
        )
    return lines


def write(file: pathlib.Path, options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """The rows with date, machine and versions, as the other results of the repository."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
    import results

    told = {
        "date": datetime.date.today().isoformat(),
        "machine": results.machine(),
        "compiler": options.topology or "XLA for this CPU, memory scheduler",
        "jax": jax.__version__,
        "most overhead": float(options.max_overhead),
        "rows": [
            {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in row.items()}
            for row in rows
        ],
    }
    file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(models.MODELS))
    parser.add_argument("--explain", action="store_true", help="what is live at the peak of each step first")
    parser.add_argument("--topology", help="compile for a TPU that need not be there, such as v5e:2x2; larger models")
    parser.add_argument("--max-overhead", type=float, default=0.05, help="operations that may be added, as a part")
    parser.add_argument("--json", metavar="FILE", help="write the rows, with date and versions")
    options = parser.parse_args()
    known = LARGE if options.topology else models.MODELS
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"there is no model '{unknown[0]}'; there are {', '.join(known)}")
    rows = []
    for name in options.models or known:
        try:
            rows.append(row_of(name, options))
            print(lines_of(rows)[-1], flush=True)
        except Declined as why:
            print(f"{name}: {why}", flush=True)
    print("", *lines_of(rows), sep="\n")
    if options.json:
        write(pathlib.Path(options.json), options, rows)


if __name__ == "__main__":
    main()
