"""Echo inside MXNet: `symbol = echo_mxnet.optimize(symbol, shapes)` before binding."""

from __future__ import annotations

import os
import sys
from typing import Mapping, Sequence, Tuple

os.environ.setdefault(
    "MXNET_SUBGRAPH_BACKEND", "NONE"
)  # else oneDNN's partitioner rewrites the marked graph

import mxnet as mx  # noqa: E402 (MXNet reads the variable when it is loaded)


_is_loaded = None  # not yet asked for


def load(library: str) -> None:
    """Registers the pass `echo`. Where MXNet or the library refuses that: one line, and symbols stay as they are."""
    global _is_loaded
    try:
        mx.library.load(os.path.abspath(library), verbose=False)
        _is_loaded = True
    except Exception as refused:  # another version, another file: training goes on without Echo
        _is_loaded = False
        why = str(refused).strip().splitlines()[-1]
        print(f"echo: symbols stay as they are: {library}: {why}", file=sys.stderr)


def optimize(
    symbol: mx.sym.Symbol, shapes: Mapping[str, Sequence[int]], **options: object
) -> mx.sym.Symbol:
    """The symbol with the marks that Echo chose; options as in the README.

    MXNet infers shapes for a pass only if it is handed an array, so the smallest argument is.
    """
    if _is_loaded is None:
        print("echo: the symbol stays as it is: no library is loaded; call load() before", file=sys.stderr)
    if not _is_loaded:
        return symbol
    arguments, _, auxiliary = symbol.infer_shape(**shapes)
    if arguments is None:
        print("echo: the symbol stays as it is: shapes: not all arguments can be inferred; "
              "give those of data and labels", file=sys.stderr)  # fmt: skip
        return symbol

    def smallest(names: Sequence[str], known: Sequence[Tuple[int, ...]]) -> dict:
        if not names:
            return {}
        _, shape, name = min(
            (mx.nd.array(s).prod().asscalar(), tuple(s), n) for n, s in zip(names, known)
        )
        return {name: mx.nd.zeros(shape)}

    return symbol.optimize_for(
        "echo",
        args=smallest(symbol.list_arguments(), arguments),
        aux=smallest(symbol.list_auxiliary_states(), auxiliary),
        shape_dict={k: tuple(v) for k, v in shapes.items()},
        **options,
    )
