"""A look at Python code before it is parsed. Pure, linear in the text."""

from __future__ import annotations

from typing import Final

from moonpool.core.errors import InputError

NAME_PARTS_MAX: Final = 1000
_OF_NAMES: Final = bytes(byte for byte in range(256) if byte > 127 or chr(byte).isalnum() or chr(byte) in "_ \t\f")


def refuse_endless_names(code: bytes) -> None:
    """Raise InputError for a dotted name that nobody writes.

    SECURITY: CPython's parser writes out every beginning of the name in `import a.a.a`: 400 KB of it took 23 GB.
    """
    lines = code.replace(b"\\\r\n", b"").replace(b"\\\n", b"").translate(None, _OF_NAMES)
    before, dots, _ = lines.partition(b"." * NAME_PARTS_MAX)
    if dots:
        joined = code.replace(b"\\\r\n", b"\\\n").replace(b"\\\n", b"\0").split(b"\n")[: before.count(b"\n")]
        line = 1 + len(joined) + sum(one.count(b"\0") for one in joined)
        raise InputError(
            f"line {line} of the code has a name of more than {NAME_PARTS_MAX:,} parts, or as many dots; "
            "write it otherwise"
        )
