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
    lines = code.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    if b"." * NAME_PARTS_MAX in lines.translate(None, _OF_NAMES):
        raise InputError(
            f"a line of the code has a name of more than {NAME_PARTS_MAX:,} parts, or as many dots; write it otherwise"
        )
