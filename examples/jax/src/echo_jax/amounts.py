"""Amounts as people write them: bytes with a unit, parts with a per cent sign."""

from __future__ import annotations

import re

UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
UNITS |= {letter + "b": 1000**power for power, letter in enumerate("kmgt", 1)}
UNITS |= {letter + "ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def bytes_of_budget(amount: str | float) -> int:
    """Errors: ValueError, where it is no number of bytes, or below 2, which could be a part."""
    found = re.fullmatch(r"\s*([\d.]+(?:e\+?\d+)?)\s*([a-z]*)\s*", str(amount).lower())
    if found is None or found[2] not in UNITS:
        raise ValueError(f"budget is {amount!r}; write bytes, as '8GiB' or 8e9")
    size = float(found[1]) * UNITS[found[2]]
    if size < 2:
        raise ValueError(f"budget is {amount!r}, which is no number of bytes; write bytes, as '8GiB' or 8e9")
    return int(size)


def part_of(amount: str | float, name: str) -> float:
    """Errors: ValueError, where it is no part from 0 to below 1, such as 0.05 or '5%'."""
    text = str(amount).strip()
    try:
        part = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        part = -1.0
    if not 0 <= part < 1:
        raise ValueError(f"{name} is {amount!r}; write a part below 1, as 0.05 or '5%'")
    return part
