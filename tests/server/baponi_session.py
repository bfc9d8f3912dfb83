"""The four calls of curl on Baponi's page, as they stand there, against any service: `walk`.

Bodies are the page's own (`goldens/baponi/session/N.json`), answers beside them (`N.out`), byte by byte. The service is
started anew after the third call: what a thread holds must not depend on the process that wrote it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FOLDER: Final = Path(__file__).parent.parent / "goldens" / "baponi" / "session"
STEPS: Final = (1, 2, 3, 4)
RESTARTED_AFTER: Final = 3


async def curl(*arguments: str) -> bytes:
    """What curl writes. Raises CalledProcessError."""
    with anyio.fail_after(120):
        return (await anyio.run_process(["curl", "-s", *arguments])).stdout


async def walk(base: str, key: str, restart: Callable[[], Awaitable[str]], *, path: str = "/mcp") -> None:
    """Make the calls at `base` with `key`; `restart` starts the service anew and returns its new base."""
    for step in STEPS:
        body = (FOLDER / f"{step}.json").read_text(encoding="utf-8")
        told = await curl(
            *("-X", "POST", f"{base}{path}"),
            *("-H", f"Authorization: Bearer {key}"),
            *("-H", "Content-Type: application/json"),
            *("-d", body),
        )
        assert told == (FOLDER / f"{step}.out").read_bytes(), f"step {step}"
        if step == RESTARTED_AFTER:
            base = await restart()
