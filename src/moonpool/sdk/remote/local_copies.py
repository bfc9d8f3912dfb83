"""Copies on this machine of files that code at a service made."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.engine.files.errors import FileTransferError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sdk.results import File, Result


async def copied_here(result: Result, get: Callable[[str, Path], Awaitable[Path]]) -> Result:
    """The result with the paths of copies, made by `get`. What cannot be copied has none.

    SECURITY: copies have numbers for names: those of the files are the code's.
    """
    if not any(file.path for file in result.files):
        return result
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="moonpool-"))
    copies: list[File] = []
    for number, file in enumerate(result.files, 1):
        local: str | None = None
        if file.path is not None:
            try:
                local = str(await get(file.path, folder / str(number)))
            except FileTransferError:
                local = None
        copies.append(replace(file, path=local))
    return replace(result, files=tuple(copies))
