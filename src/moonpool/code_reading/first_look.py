"""Checks of Python code before it is parsed. Pure, in linear time."""

from __future__ import annotations

import re
from typing import Final

from moonpool.core.errors import InputError

NAME_PARTS_MAX: Final = 1000
_OF_NAMES: Final = bytes(byte for byte in range(256) if byte > 127 or chr(byte).isalnum() or chr(byte) in "_ \t\f")


def refuse_endless_names(code: bytes) -> None:
    """Raise InputError for an unreasonably long dotted name.

    SECURITY: CPython's parser stores every prefix of the name in `import a.a.a`: 400 KB of it took 23 GB.
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


_LINE_END: Final = re.compile(rb"\r\n?|\n")
_ENCODING: Final = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UTF_8: Final = re.compile(r"utf[-_]?8(?:[-_].*)?|u8", re.ASCII)


def refuse_other_encoding(code: bytes, *, of: str) -> None:
    """Raise InputError for a module that Python would not decode as UTF-8, as which it is displayed.

    SECURITY: after `# coding: utf-7` the comment `# +AAo-f()` is executed when the file is imported (PEP 263).
    """
    lines = _LINE_END.split(code.removeprefix(b"\xef\xbb\xbf"), maxsplit=2)[:2]
    for match in filter(None, map(_ENCODING.match, lines)):
        name = match[1].decode("ascii", "replace")
        if not _UTF_8.fullmatch(name.lower()):
            raise InputError(f"{of} says that its encoding is {name[:40]!r}; save it as UTF-8 and take that line out")
