"""Decisions on disk: a step that was planned once is not planned again, also in another process."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib

from echo_jax import calls
from echo_jax.calls import first_line, shaped
from echo_jax.compiling import device_of, lowered, place_of
from echo_jax.recipes import Recipe
from echo_jax.search import Asked, Candidate, Decision
from echo_jax.tracing import Traced, is_literal, plain

FORMAT = 3  # of the files
OWN = ("name", "platform", "cached")  # what a decision has by itself
log = logging.getLogger("echo_jax")


def folder() -> Path:
    return Path(os.environ.get("ECHO_JAX_CACHE") or os.path.expanduser("~/.cache/echo_jax"))


def path_of(traced: Traced, leaves: Sequence[Any], asked: Asked) -> Path:
    """The file for this step: named by its program, what is asked for, the versions, and the compiler's machine."""
    from echo_jax import _core  # type: ignore[attr-defined, unused-ignore]

    place = place_of(asked.topology, leaves)
    jitted, flat = traced.jitted(plain(traced), asked.topology is not None), [shaped(leaf, place) for leaf in leaves]
    text = lowered(jitted, calls.of(jitted, flat, {})).as_text()
    device = device_of(leaves, asked.topology)
    options = sorted({**traced.options, **asked.options}.items())
    told = [
        (FORMAT, _core.version, jax.__version__, jaxlib.__version__, asked.budget, asked.max_overhead, asked.topology),
        (device.platform, device.device_kind, device.client.platform_version, jax.device_count()),
        (platform.machine(), os.cpu_count(), os.environ.get("XLA_FLAGS"), os.environ.get("LIBTPU_INIT_ARGS")),
        [(key, str(value)) for key, value in options],
        _equations(traced),
    ]
    name = hashlib.sha256(json.dumps(told).encode() + text.encode()).hexdigest()
    return folder() / f"decision-{name[:40]}.json"


def _equations(traced: Traced) -> list[Any]:
    """Which operator reads what: a recipe names equations by number, and a program does not tell these."""
    jaxpr = traced.closed.jaxpr
    number = {value: at for at, value in enumerate((*jaxpr.constvars, *jaxpr.invars))}
    told = []
    for equation in jaxpr.eqns:
        told.append([equation.primitive.name, [-1 if is_literal(v) else number[v] for v in equation.invars]])
        number.update((value, len(number) + k) for k, value in enumerate(equation.outvars))
    return told


def load(path: Path, decision: Decision) -> tuple[bool, Recipe | None]:
    """Whether the file is there and sound, and what it says; `decision` takes the figures."""
    try:
        told = json.loads(path.read_text())
        if told["sum"] != _sum(told["found"]):
            raise ValueError("the sum is another one")
        figures, recipe = told["found"]["decision"], told["found"]["recipe"]
        tried = [Candidate(**each, recipe=Recipe()) for each in figures.pop("tried")]
        found = None if recipe is None else Recipe(**recipe)
    except OSError:
        return False, None
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        log.info("echo: %s is damaged (%s); the step is planned anew", path, first_line(fault))
        return False, None
    for key, value in figures.items():
        setattr(decision, key, value)
    decision.tried, decision.cached = tried, True
    return True, found


def save(path: Path, decision: Decision, recipe: Recipe | None) -> None:
    """A folder that cannot be written costs time alone."""
    told = {key: value for key, value in dataclasses.asdict(decision).items() if key not in OWN}
    told["tried"] = [{key: value for key, value in each.items() if key != "recipe"} for each in told["tried"]]
    found = {"decision": told, "recipe": None if recipe is None else dataclasses.asdict(recipe)}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"found": found, "sum": _sum(found)}))
        temporary.replace(path)


def _sum(found: Any) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
