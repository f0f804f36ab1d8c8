# SPDX-License-Identifier: BSL-1.0
"""What the compiler for a TPU says, without one: how exact explanations are, and a Llama beside JAX's own policies.

    python3 measure.py explain FILE [MODEL…]    explanations of training steps, against the compiler's figures
    python3 measure.py policies FILE            a Llama as it is, by JAX's own policies, and rewritten by Echo

Rows are added to FILE as they come, in place of those of the same model or way. Minutes each.
"""

from __future__ import annotations

import datetime
import functools
import json
import pathlib
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples" / "jax")]

import jax  # noqa: E402
import results  # noqa: E402
from run import LARGE  # noqa: E402

import echo_jax  # noqa: E402
from echo_jax.compiling import compile_step  # noqa: E402
from echo_jax.explain import explained  # noqa: E402

TOPOLOGY = "v5e:2x2"
STOCK = ("nothing_saveable", "dots_with_no_batch_dims_saveable", "dots_saveable")


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
        step = LARGE[name]()
        begun = time.monotonic()
        train = jax.jit(step.step, donate_argnums=(0, 1))
        compiled = compile_step(train, step.arguments, {}, topology=TOPOLOGY)
        told = explained(compiled)
        assert compiled.memory is not None
        row = {
            "model": name,
            "stated MB": told.sizes.temp / 1e6,
            "told MB": compiled.memory.temp_bytes() / 1e6,
            "live MB": told.live_bytes / 1e6,
            "seconds": round(time.monotonic() - begun),
        }
        add(file, "explained", "model", row)


def policies(file: pathlib.Path) -> None:
    def told(way: str, temp: int, flops: float) -> None:
        add(file, "llama", "way", {"way": way, "MB": temp / 1e6, "flops": flops})

    step = LARGE["llama"]()
    ours = echo_jax.remat(jax.jit(step.step, donate_argnums=(0, 1)), topology=TOPOLOGY)
    decision = ours.decide(*step.arguments)
    flops = decision.flops
    told("as it is", decision.before, flops)
    told("Echo, 5 %", decision.after, flops * (1 + decision.overhead))
    for name in STOCK:
        around = functools.partial(jax.checkpoint, policy=getattr(jax.checkpoint_policies, name))
        each = LARGE["llama"](around=around)
        train = jax.jit(each.step, donate_argnums=(0, 1))
        compiled = compile_step(train, each.arguments, {}, topology=TOPOLOGY)
        told(name, compiled.sizes.temp, compiled.flops)


if __name__ == "__main__":
    what, file, *names = sys.argv[1:]
    if what == "explain":
        explain(pathlib.Path(file), names)
    else:
        policies(pathlib.Path(file))
