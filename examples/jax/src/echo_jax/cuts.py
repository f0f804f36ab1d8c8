"""The cheapest set of values from which others can be computed: a minimum cut."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence


def cheapest(
    prices: Mapping[Hashable, int],
    made_from: Mapping[Hashable, Sequence[Hashable]],
    wanted: Collection[Hashable],
    bases: Collection[Hashable],
) -> list[Hashable]:
    """Values with the least sum of prices such that each way from `bases` to `wanted` passes one of them.

    `made_from`: what each value that may be computed again is computed from. All values are keys of `prices`, in an
    order that decides where two sets cost the same. Complexity: one search in the graph for each path that is filled.
    """
    number = {value: at for at, value in enumerate(prices)}
    source, sink = 2 * len(number), 2 * len(number) + 1
    room: list[dict[int, float]] = [{} for _ in range(sink + 1)]

    def connect(a: int, b: int, width: float) -> None:
        room[a][b] = room[a].get(b, 0) + width
        room[b].setdefault(a, 0)

    for value, at in number.items():
        connect(2 * at, 2 * at + 1, prices[value])
        if value in bases:
            connect(source, 2 * at, math.inf)
        for each in () if value in bases else made_from.get(value, ()):
            connect(2 * number[each] + 1, 2 * at, math.inf)
        if value in wanted:
            connect(2 * at + 1, sink, math.inf)
    while sink in (came := _reached(room, source, sink)):
        path = [sink]
        while path[-1] != source:
            path.append(came[path[-1]])
        width = min(room[b][a] for a, b in zip(path, path[1:]))
        for a, b in zip(path, path[1:]):
            room[b][a] -= width
            room[a][b] += width
    return [value for value, at in number.items() if 2 * at in came and 2 * at + 1 not in came]


def _reached(room: Sequence[Mapping[int, float]], source: int, sink: int) -> dict[int, int]:
    """What can still be reached, and from where; it ends at the sink."""
    came, waiting = {source: source}, deque([source])
    while waiting and sink not in came:
        at = waiting.popleft()
        for further, width in room[at].items():
            if width > 0 and further not in came:
                came[further] = at
                waiting.append(further)
    return came
