"""Writes an ONNX file: the few messages of the format that a feed-forward graph needs, as protocol-buffer bytes.

Used instead of the package `onnx`, which has large dependencies for a file that is written once. Field numbers are
those of onnx.proto3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOAT: Final = 1
INT8: Final = 3
INT64: Final = 7
_KINDS: Final = {"float32": FLOAT, "int8": INT8, "int64": INT64}
_IR_VERSION: Final = 9
_OPSET: Final = 20


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _block(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _block(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _block(1, name) + _number(3, value) + _number(20, 2)
    return _block(1, name) + b"".join(_number(8, item) for item in value) + _number(20, 7)


def _value(name: str, kind: int, dimensions: Sequence[int | str]) -> bytes:
    shape = b"".join(_block(1, _number(1, size) if isinstance(size, int) else _block(2, size)) for size in dimensions)
    return _block(1, name) + _block(2, _block(1, _number(1, kind) + _block(2, shape)))


@dataclass(slots=True)
class OnnxFile:
    """A graph under construction. Every method returns the name of its result."""

    _parts: list[bytes] = field(default_factory=list[bytes])
    _count: int = 0

    def constant(self, array: Any) -> str:
        name = self._name("c")
        dimensions = b"".join(_number(1, size) for size in array.shape)
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        self._parts.append(
            _block(5, dimensions + _number(2, _KINDS[array.dtype.name]) + _block(8, name) + _block(9, raw))
        )
        return name

    def node(self, operation: str, *inputs: str, outputs: int = 1, **attributes: float | Sequence[int]) -> list[str]:
        names = [self._name("v") for _ in range(outputs)]
        content = b"".join(_block(1, name) for name in inputs) + b"".join(_block(2, name) for name in names)
        content += _block(4, operation)
        content += b"".join(_block(5, _attribute(name, value)) for name, value in attributes.items())
        self._parts.append(_block(1, content))
        return names

    def one(self, operation: str, *inputs: str, **attributes: float | Sequence[int]) -> str:
        return self.node(operation, *inputs, outputs=1, **attributes)[0]

    def finish(self, inputs: dict[str, Sequence[int | str]], output: str, shape: Sequence[int | str]) -> bytes:
        """The bytes of the file: integer inputs by name, and one output of floats."""
        graph = b"".join(self._parts) + _block(2, "graph")
        graph += b"".join(_block(11, _value(name, INT64, dimensions)) for name, dimensions in inputs.items())
        graph += _block(12, _value(output, FLOAT, shape))
        return _number(1, _IR_VERSION) + _block(7, graph) + _block(8, _block(1, "") + _number(2, _OPSET))

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"
