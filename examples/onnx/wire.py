# SPDX-License-Identifier: BSL-1.0
"""ONNX models as bytes, and back, without any package: the part of the format that make_model.py and the tests need.

A model is written by `Builder`. `decode` reads any of its messages as a list of fields.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

FLOAT, INT64, BOOL, FLOAT16 = 1, 7, 9, 10
Extent = int | str | None  # a name is a symbolic dimension; None is one without a name


def varint(number: int) -> bytes:
    """A whole number as protobuf writes it."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, content: bytes | str) -> bytes:
    """A text, or a message within a message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def decode(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and its value."""
    at = 0

    def take() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = take()
        if key & 7 == 0:
            yield key >> 3, take()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or take()
        yield key >> 3, message[at:at + size]
        at += size


def value_info(name: str, shape: Sequence[Extent] | None, element: int = FLOAT) -> bytes:
    """The type of a value; without a shape, the element type alone."""
    dims = b""
    for extent in shape or ():
        dim = b"" if extent is None else data(2, extent) if isinstance(extent, str) else number(1, extent)
        dims += data(1, dim)
    tensor = number(1, element) + (b"" if shape is None else data(2, dims))
    return data(1, name) + data(2, data(1, tensor))


def tensor(name: str, shape: Sequence[int], element: int, raw: bytes | None, file: str = "weights.bin") -> bytes:
    """Without `raw`, its data lies in a file of that name."""
    out = b"".join(number(1, extent) for extent in shape) + number(2, element) + data(8, name)
    if raw is not None:
        return out + data(9, raw)
    return out + data(13, data(1, "location") + data(2, file)) + number(14, 1)


def attribute(name: str, value: int | float | str | bytes | Sequence[int]) -> bytes:
    """`bytes` is a graph."""
    out = data(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + data(4, value) + number(20, 3)
    if isinstance(value, bytes):
        return out + data(6, value) + number(20, 5)
    return out + b"".join(number(8, one) for one in value) + number(20, 7)


class Builder:
    """A graph that grows node by node. Values are named by their names."""

    def __init__(self, name: str, opset: int = 17, microsoft: bool = False):
        self.name, self.opset = name, opset
        self.domains = ["com.microsoft"] if microsoft else []
        self.nodes: list[bytes] = []
        self.inputs: list[bytes] = []
        self.outputs: list[bytes] = []
        self.weights: list[bytes] = []
        self.infos: list[bytes] = []
        self.functions: list[bytes] = []
        self.scope = ""
        self.count = 0

    def input(self, name: str, shape: Sequence[Extent] | None, element: int = FLOAT) -> str:
        self.inputs.append(value_info(name, shape, element))
        return name

    def output(self, name: str, shape: Sequence[Extent] | None = None, element: int = FLOAT) -> str:
        self.outputs.append(value_info(name, shape, element))
        return name

    def info(self, name: str, shape: Sequence[Extent], element: int = FLOAT) -> None:
        """States the type of a value that no rule tells."""
        self.infos.append(value_info(name, shape, element))

    def weight(self, name: str, shape: Sequence[int], raw: bytes | None = None, element: int = FLOAT) -> str:
        self.weights.append(tensor(name, shape, element, raw))
        return name

    def integers(self, name: str, values: Sequence[int]) -> str:
        return self.weight(name, [len(values)], struct.pack(f"<{len(values)}q", *values), INT64)

    def scalar(self, name: str, value: float) -> str:
        return self.weight(name, [], struct.pack("<f", value))

    def node(self, op: str, inputs: Sequence[str], outputs: int | Sequence[str] = 1, domain: str = "",
             **attributes: int | float | str | bytes | Sequence[int]) -> str | list[str]:
        """Its output, or a list of several. `value_tensor` is the attribute `value`, as `tensor` makes it."""
        self.count += 1
        name = f"{self.scope}/{op}_{self.count}"
        held = attributes.pop("value_tensor", None)
        if isinstance(outputs, int):
            outputs = [f"{name}_output_{k}" for k in range(outputs)]
        self.nodes.append(
            b"".join(data(1, one) for one in inputs) + b"".join(data(2, one) for one in outputs)
            + data(3, name) + data(4, op) + b"".join(data(5, attribute(*pair)) for pair in attributes.items())
            + (data(5, data(1, "value") + data(5, held) + number(20, 4)) if held else b"")
            + (data(7, domain) if domain else b""))
        return outputs[0] if len(outputs) == 1 else list(outputs)

    def function(self, name: str, body: Builder, inputs: Sequence[str], outputs: Sequence[str], domain: str = "own",
                 opset: int | None = None, attributes: Sequence[str] = ()) -> None:
        """The nodes of `body` as a function of the model."""
        self.domains += [domain] if domain not in self.domains else []
        parts = [data(1, name), *(data(4, one) for one in inputs), *(data(5, one) for one in outputs),
                 *(data(6, one) for one in attributes), *(data(7, one) for one in body.nodes), data(10, domain)]
        for imported, version in (("", opset or self.opset), (domain, 1)):
            parts.append(data(9, data(1, imported) + number(2, version)))
        self.functions.append(b"".join(parts))

    def graph(self) -> bytes:
        parts = [*(data(1, one) for one in self.nodes), data(2, self.name)]
        for field, values in ((5, self.weights), (11, self.inputs), (12, self.outputs), (13, self.infos)):
            parts += [data(field, one) for one in values]
        return b"".join(parts)

    def model(self) -> bytes:
        imports = data(8, data(1, "") + number(2, self.opset))
        for domain in self.domains:
            imports += data(8, data(1, domain) + number(2, 1))
        functions = b"".join(data(25, one) for one in self.functions)
        return number(1, 8) + data(2, "echo") + data(7, self.graph()) + imports + functions
