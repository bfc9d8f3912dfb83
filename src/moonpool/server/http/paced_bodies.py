"""Bodies that are files: in pieces as they come, at a least pace, so that nobody holds what they are written to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from moonpool.core.errors import InputError
from moonpool.engine.files.errors import FileTransferError, TransferTimeoutError
from moonpool.server.http.request_limits import BODY_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

RATE_MIN: Final = 1024
"""Bytes a second of a file that is written, beyond `BODY_S` in which it need not come."""


async def paced_pieces(request: Request, *, rate_min: int = RATE_MIN) -> AsyncIterator[bytes]:
    """The body. Raises InputError, FileTransferError when its client goes away, TransferTimeoutError.

    SECURITY: while it comes a sandbox may serve nothing else, or a transfer is taken, so it must not come for ever.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise InputError("the body must not be compressed: it is the file")
    loop, stream = asyncio.get_running_loop(), request.stream()
    left_s = BODY_S
    try:
        while True:
            since = loop.time()
            async with asyncio.timeout(left_s):
                piece = await anext(stream, None)
            if piece is None:
                return
            left_s += len(piece) / rate_min - (loop.time() - since)
            if piece:
                yield piece
    except ClientDisconnect:
        raise FileTransferError(
            "the client went away before all of the file was here; nothing of it was kept"
        ) from None
    except TimeoutError:
        raise TransferTimeoutError(
            f"the file came slower than {rate_min:,} bytes a second; nothing of it was kept"
        ) from None
