"""How a peer's agent talks to the benchmark: one JSON object per line in, one out. Runs in the peer's own environment.

An agent is a script beside this file. It gives `serve` one async function per kind of order; each gets the order and
returns what becomes the answer. Whatever a peer prints goes to stderr, so that nothing gets between the answers.
Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Order = dict[str, Any]
    Work = Callable[[Order], Awaitable[dict[str, Any]]]

_LINE_BYTES_MAX = 64 * 1024 * 1024


async def serve(works: dict[str, Work]) -> None:
    """Answer orders until standard input ends. An order that fails is answered with `error`."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = json.loads(line)
        try:
            answer = await works[order["do"]](order)
        except Exception as error:  # noqa: BLE001  the benchmark decides what it means
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
