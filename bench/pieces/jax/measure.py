# SPDX-License-Identifier: BSL-1.0
"""What the compiler for a TPU says, without one: how exact explanations are, and steps beside JAX's own policies.

    python3 measure.py explain FILE [MODEL…]    explanations of training steps, against the compiler's figures
    python3 measure.py policies FILE [MODEL…]   steps as they are, by JAX's own policies, and rewritten by Echo

Rows are added to FILE as they come, in place of those of the same model or way. Minutes each.
"""

from __future__ import annotations

import datetime
import json
import math
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples" / "jax")]

import jax  # noqa: E402
import results  # noqa: E402
from run import LARGE  # noqa: E402

import echo_jax  # noqa: E402
from echo_jax.compiling import Compiled, compile_step  # noqa: E402
from echo_jax.explain import explained  # noqa: E402

TOPOLOGY = "v5e:2x2"
CHEAP, THOROUGH = "dots_with_no_batch_dims_saveable", "nothing_saveable"
STOCK = (CHEAP, "dots_saveable", THOROUGH)


def add(file: pathlib.Path, part: str, key: str, row: dict[str, Any]) -> None:
    import libtpu

    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    versions = f"JAX {jax.__version__}, libtpu {libtpu.__version__}"
    told |= {"date": datetime.date.today().isoformat(), "machine": results.machine(), "compiler": versions}
    told["topology"] = TOPOLOGY
    told[part] = [each for each in told.get(part, []) if each[key] != row[key]] + [row]
    file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(part, row, flush=True)


def explain(file: pathlib.Path, names: list[str]) -> None:
    for name in names or LARGE:
        note(file, name, compiled(name))


def compiled(name: str, policy: Any = None) -> Compiled:
    step = LARGE[name](policy=policy)
    train = jax.jit(step.step, donate_argnums=(0, 1))
    return compile_step(train, step.arguments, {}, topology=TOPOLOGY)


def rewritten(name: str, added: float) -> echo_jax.Decision:
    """By Echo, for as many operations, rounded up to a tenth of a per cent: two programs never count quite the same."""
    step, most = LARGE[name](), math.ceil(1000 * added) / 10
    train = jax.jit(step.step, donate_argnums=(0, 1))
    decision = echo_jax.remat(train, topology=TOPOLOGY, max_overhead=f"{most}%").decide(*step.arguments)
    print(decision.table(), flush=True)
    return decision


def note(file: pathlib.Path, name: str, compiled: Compiled) -> None:
    """What an explanation tells, beside what the compiler states."""
    told = explained(compiled)
    assert compiled.memory is not None
    row = {"model": name, "stated MB": told.sizes.temp / 1e6, "told MB": compiled.memory.temp_bytes() / 1e6}
    add(file, "explained", "model", {**row, "live MB": told.live_bytes / 1e6})


def policies(file: pathlib.Path, names: list[str]) -> None:
    """Each model as it is; under JAX's policies around each layer; and by Echo, for as many operations as the cheap
    policy adds and for half of what the thorough one adds.
    """
    for name in names or LARGE:

        def told(way: str, temp: int, overhead: float, name: str = name) -> None:
            row = {
                "case": f"{name}: {way}",
                "model": name,
                "way": way,
                "MB": temp / 1e6,
                "overhead": round(overhead, 5),
            }
            add(file, "policies", "case", row)

        own, added = compiled(name), dict[str, float]()
        note(file, name, own)
        told("as it is", own.sizes.temp, 0.0)
        for policy in STOCK:
            found = compiled(name, getattr(jax.checkpoint_policies, policy))
            added[policy] = found.flops / own.flops - 1
            told(policy, found.sizes.temp, added[policy])
        for policy, part in ((CHEAP, 1.0), (THOROUGH, 0.5)):
            decision = rewritten(name, max(0.0, part * added[policy]))
            told(f"Echo, {part} x {policy}", decision.after, decision.overhead)


if __name__ == "__main__":
    what, file, *names = sys.argv[1:]
    {"explain": explain, "policies": policies}[what](pathlib.Path(file), names)
