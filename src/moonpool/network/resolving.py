"""Names to addresses, as this machine resolves them, in threads: bounded for the process, and for each session."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Final

from moonpool.core.errors import STARVED
from moonpool.network.connections import Outcome, RefusedError

_SESSION_NAMES_MAX: Final = 8


class Resolver:
    """Resolves names as this machine does, in a bounded number of threads of its own.

    SECURITY: whoever chooses a name may choose a name server that never answers. The threads that the host's other work
    shares are not for that, and none of these keeps the process from ending.
    """

    def __init__(self, *, threads_max: int = 32) -> None:
        self._threads_max, self._threads = threads_max, 0

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a name. Raises OSError, RefusedError."""
        return _found(await self.begin(host, port))

    def begin(self, host: str, port: int) -> asyncio.Future[list[str] | OSError]:
        """Its addresses, or why there are none, once the thread that asks has ended. Raises OSError, RefusedError."""
        if self._threads >= self._threads_max:
            raise RefusedError(503, Outcome.TOO_MANY, "too many names are being resolved; try again later")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str] | OSError] = loop.create_future()

        def settle(answer: list[str] | OSError) -> None:
            self._threads -= 1
            if not found.done():
                found.set_result(answer)

        def look_up() -> None:
            answer: list[str] | OSError
            try:
                entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                answer = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
            except (OSError, UnicodeError) as error:
                answer = OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, answer)

        self._threads += 1
        try:
            threading.Thread(target=look_up, name="moonpool resolve", daemon=True).start()
        except RuntimeError:
            self._threads -= 1
            raise OSError(STARVED) from None
        return found


class SessionResolver:
    """Resolves the names of one session, a few at once; further ones wait.

    SECURITY: without it one session would take all threads of the process. A place is free when its thread has ended,
    not when whoever asked has gone.
    """

    def __init__(self, shared: Resolver) -> None:
        self._shared, self._places = shared, asyncio.Semaphore(_SESSION_NAMES_MAX)

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a name. Raises OSError, RefusedError."""
        await self._places.acquire()
        try:
            found = self._shared.begin(host, port)
        except (OSError, RefusedError):
            self._places.release()
            raise
        found.add_done_callback(lambda _: self._places.release())
        return _found(await asyncio.shield(found))


def _found(answer: list[str] | OSError) -> list[str]:
    if isinstance(answer, OSError):
        raise answer
    return answer
