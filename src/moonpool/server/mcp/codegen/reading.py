"""`Read`: lines of a text file with their numbers.

The file is read in parts, so its size costs no memory, and to `SCANNED_BYTES_MAX` only, so it costs no more time than
that. Secrets are looked for in the text as it is: with numbers between its lines, a key of many lines would not be
seen. Such a key becomes one line, and the lines after it have smaller numbers.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from moonpool.pipeline.validation import LARGE_BYTES
from moonpool.server.mcp.codegen.workspace import ToolError, number_argument, text_argument

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.core.json import JsonValue
    from moonpool.features.storage.base import Snapshot
    from moonpool.features.storage.model import Entry
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.mcp.codegen.workspace import Workspace

LINES: Final = 2000
"""Returned when a caller names no number."""
LINE_BYTES_MAX: Final = 1024**2
TEXT_BYTES_MAX: Final = 1024**2
"""Of one result."""
SCANNED_BYTES_MAX: Final = 64 * 1024**2


async def read(workspace: Workspace, arguments: Mapping[str, JsonValue]) -> str:
    """See `tool_table`. Raises ToolError, StorageError, DatabaseError."""
    given = text_argument(arguments, "file_path")
    offset = max(1, number_argument(arguments, "offset", 1))
    limit = number_argument(arguments, "limit", LINES)
    limit = limit if limit > 0 else LINES
    snapshot, entry = await workspace.file(given)
    shown: list[str] = []
    size = number = 0
    async with aclosing(_lines(given, snapshot, entry, workspace.redactor)) as lines:
        async for line in lines:
            number += 1
            if number < offset:
                continue
            numbered = f"{number}\t{line.decode(errors='replace')}\n"
            size += len(numbered.encode())
            if shown and size > TEXT_BYTES_MAX:
                shown.append(f"... (output truncated; go on with offset={number})\n")
                break
            shown.append(numbered)
            if len(shown) == limit:
                break
    if not shown and offset > 1:
        raise ToolError(f"offset {offset} is past the end of {given}, which has {number} lines")
    return "".join(shown)


async def _lines(given: str, snapshot: Snapshot, entry: Entry, redactor: Redactor) -> AsyncGenerator[bytes]:
    """The redacted lines of a file, without their ends. Raises ToolError."""
    rest = b""
    async with aclosing(_redacted(given, snapshot, entry, redactor)) as parts:
        async for part in parts:
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield _checked(line)
            _checked(rest)
    if rest:
        yield _checked(rest)


def _checked(line: bytes) -> bytes:
    if len(line) > LINE_BYTES_MAX:
        raise ToolError(f"bufio.Scanner: token too long: a line has more than {LINE_BYTES_MAX:,} bytes")
    return line.removesuffix(b"\r")


async def _redacted(given: str, snapshot: Snapshot, entry: Entry, redactor: Redactor) -> AsyncGenerator[bytes]:
    stream, scanned = redactor.stream(), 0
    async for part in snapshot.read(entry):
        for at in range(0, len(part), LARGE_BYTES):
            piece = part[at : at + LARGE_BYTES]
            scanned += len(piece)
            if scanned > SCANNED_BYTES_MAX:
                raise ToolError(f"{given} is read to {SCANNED_BYTES_MAX:,} bytes; fetch it with the REST Files API")
            if b"\0" in piece:
                raise ToolError(f"{given} is a binary file; fetch it with the REST Files API")
            yield await asyncio.to_thread(stream.feed, piece)
    yield stream.finish()
