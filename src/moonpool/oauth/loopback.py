"""Receives the redirect from an authorization server: on a port of this machine, or as a pasted address.

SECURITY: the port is bound on a loopback address only, is open for one answer and at most `timeout_s`, accepts few
bytes, and its page says only that the login is over. Any program on this machine can call it: only a request with the
`state` that was sent counts as the answer; others are refused and it keeps waiting. `login` checks the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread

from moonpool.configuration.oauth_settings import is_loopback
from moonpool.oauth.errors import OAuthError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
_REQUEST_BYTES_MAX: Final = 32 * 1024
_REQUEST_S: Final = 10.0
STRANGERS_MAX: Final = 100
"""After this many requests with a wrong state an attack is assumed and the login is aborted."""
_PAGE: Final = (
    b"<!doctype html><meta charset=utf-8><title>Moonpool</title>"
    b"<p>Moonpool has the answer. You can close this page and go back to the terminal.</p>"
)
_STRANGER_PAGE: Final = (
    b"<!doctype html><meta charset=utf-8><title>Moonpool</title>"
    b"<p>This is not the answer that Moonpool waits for: it belongs to another login.</p>"
)
_HEADERS: Final = (
    b"content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
    b"content-security-policy: default-src 'none'\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
)


class LoopbackAgent:
    """Shows a person an address and listens for the redirect."""

    def __init__(self, show: Callable[[str], None], *, timeout_s: float) -> None:
        self._show, self._timeout_s = show, timeout_s

    @asynccontextmanager
    async def open(self, redirect_uri: str) -> AsyncGenerator[_Listener]:
        """Listen at `redirect_uri`, or at a free port if it is empty. Raises OAuthError."""
        parts = urlsplit(redirect_uri)
        if redirect_uri and (parts.scheme != "http" or not is_loopback(redirect_uri) or parts.port is None):
            raise OAuthError(f"cannot listen at {redirect_uri} here; log in with --headless")
        listener = _Listener(self._show, parts.path or "/" if redirect_uri else PATH, self._timeout_s)
        try:
            server = await asyncio.start_server(
                listener.serve, _host(parts.hostname or HOST), parts.port or 0, limit=_REQUEST_BYTES_MAX
            )
        except OSError as exc:
            raise OAuthError(f"cannot listen at {redirect_uri or HOST}: {exc.strerror or exc}") from None
        listener.redirect_uri = redirect_uri or f"http://{HOST}:{server.sockets[0].getsockname()[1]}{PATH}"
        try:
            yield listener
        finally:
            server.close()


class _Listener:
    def __init__(self, show: Callable[[str], None], path: str, timeout_s: float) -> None:
        self.redirect_uri = ""
        self._show, self._path, self._timeout_s = show, path, timeout_s
        self._came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state, self._strangers = "", 0

    async def fetch(self, address: str) -> str:
        self._state = _state_of(address)
        self._show(address)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._came
        except TimeoutError:
            raise OAuthError(
                f"the browser did not return from the authorization server within {self._timeout_s:g} s; if its page "
                f"refused the request, register {self.redirect_uri} as a redirect URI there, or name a registered one "
                'as "redirect_uri" in the "oauth" block'
            ) from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = ""
        refused = (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)  # or arrived too slowly
        with contextlib.suppress(TimeoutError, *refused):
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ", 2)
                ours = method == "GET" and urlsplit(target).path == self._path and not self._came.done()
                status, page = (b"200 OK", _PAGE) if ours else (b"404 Not Found", b"")
                if ours and not self._fits(target):
                    ours, status, page = False, b"400 Bad Request", _STRANGER_PAGE
                target = target if ours else ""
                length = b"content-length: %d\r\n\r\n" % len(page)
                writer.write(b"HTTP/1.1 " + status + b"\r\n" + _HEADERS + length + page)
                await writer.drain()
        writer.close()
        if target and not self._came.done():
            self._came.set_result(target)

    def _fits(self, target: str) -> bool:
        if self._state and hmac.compare_digest(_state_of(target).encode(), self._state.encode()):
            return True
        self._strangers += 1
        if self._strangers >= STRANGERS_MAX:
            why = f"{STRANGERS_MAX} requests with another state came to the login's page; see what runs on this machine"
            self._came.set_exception(OAuthError(why))
        return False


class PastingAgent:
    """Shows a person an address and reads the pasted redirect address, which shows an error in their browser."""

    def __init__(self, show: Callable[[str], None], read: Callable[[], str]) -> None:
        self._show, self._read = show, read

    @asynccontextmanager
    async def open(self, redirect_uri: str) -> AsyncGenerator[_Paste]:
        yield _Paste(redirect_uri or f"http://{HOST}:8765{PATH}", self._show, self._read)


class _Paste:
    def __init__(self, redirect_uri: str, show: Callable[[str], None], read: Callable[[], str]) -> None:
        self.redirect_uri = redirect_uri
        self._show, self._read = show, read

    async def fetch(self, address: str) -> str:
        self._show(address)
        pasted = (await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)).strip()
        if not pasted.startswith(self.redirect_uri):
            raise OAuthError(f"paste the whole address that the browser shows; it begins with {self.redirect_uri}")
        return pasted


def _host(name: str) -> str:
    return HOST if name == "localhost" else name


def _state_of(address: str) -> str:
    """The `state` of an address; empty if there is none or several."""
    states = parse_qs(urlsplit(address).query, max_num_fields=64).get("state", [])
    return states[0] if len(states) == 1 else ""
