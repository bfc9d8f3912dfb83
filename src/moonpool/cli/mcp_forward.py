"""`moonpool mcp` where a service is configured: each line of the client is one POST to it, what it answers are lines.

The service has the sessions, checks the messages and speaks every revision; here only what stdio and HTTP say in
different ways is translated: the session of `initialize`, the headers of a revision, `notifications/cancelled` of one
without sessions, which there is a connection that closes. INVARIANT: every request is answered once.

SECURITY: what comes from either side is bounded (`LINE_BYTES_MAX`, `REQUESTS_MAX`); a line of the service is decoded
and encoded again before it is written. The key is in one header of requests to this service, and in no message.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2

from moonpool.core.errors import MoonpoolError
from moonpool.core.version import VERSION
from moonpool.server.mcp.lines import LINE_BYTES_MAX, TooLong
from moonpool.server.mcp.messages import encode_line, parse_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from moonpool.server.mcp.lines import LineReader, LineWriter

REQUESTS_MAX: Final = 512
EOF_GRACE_S: Final = 5.0
_CONNECT_S: Final = 10.0
_ROUTINE_S: Final = 60.0  # for what is no request, and for the end
_RESUME_S: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
_INTERNAL_ERROR: Final = -32603
_STREAM: Final = "text/event-stream"
_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_OWN_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def http_client(base_url: str, key: str, transport: httpx2.AsyncHTTPTransport) -> httpx2.AsyncClient:
    """For one service. SECURITY: redirects are not followed, they would take the key along."""
    headers = {"user-agent": f"moonpool/{VERSION}", "accept-encoding": "identity"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    timeout = httpx2.Timeout(None, connect=_CONNECT_S)  # calls take their time; the client cancels
    return httpx2.AsyncClient(
        base_url=base_url,
        headers=headers,
        transport=transport,
        timeout=timeout,
        follow_redirects=False,
        trust_env=False,
    )


class Forwarder:
    """One client's connection."""

    def __init__(
        self, http: httpx2.AsyncClient, path: str, writer: LineWriter, revive: Callable[[], Awaitable[None]] | None
    ) -> None:
        """`revive` starts the service again, where it may have ended because nobody used it."""
        self._http, self._path, self._writer, self._revive = http, path, writer, revive
        self._session: dict[str, str] = {}  # its headers, once `initialize` was answered
        self._running: dict[str, asyncio.Task[None]] = {}  # requests, by their ids as JSON
        self._unwanted: set[str] = set()  # ids of those that were cancelled: nothing is said of them
        self._listening: asyncio.Task[None] | None = None

    async def forward(self, reader: LineReader) -> None:
        """Until the client has left; then requests in progress have a moment to end."""
        try:
            while (line := await reader.receive()) is not None:
                await self._take(line)
            if self._running:
                await asyncio.wait(tuple(self._running.values()), timeout=EOF_GRACE_S)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        tasks = [*self._running.values(), *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            with suppress(httpx2.HTTPError, OSError):
                await self._http.delete(self._path, headers=self._session, timeout=EOF_GRACE_S)

    async def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            await self._fail(None, f"the message is longer than {LINE_BYTES_MAX:,} bytes", -32600)
            return
        try:
            value = parse_line(line)
        except ValueError as error:
            await self._fail(None, f"Parse error: {error}", -32700)
            return
        if _member(value, "method") == "notifications/cancelled" and self._cancel(value):
            return
        ids = _request_ids(value)
        if not ids or _member(value, "method") == "initialize":
            await self._exchange(line, value, ids)  # in order: what follows counts on it
            return
        key = json.dumps(ids[0])
        if key in self._running or len(self._running) >= REQUESTS_MAX:
            problem = "this id is in use" if key in self._running else f"{REQUESTS_MAX} requests are in progress"
            await self._fail(ids[0], problem, -32600)
            return
        task = self._running[key] = asyncio.create_task(self._exchange(line, value, ids))
        task.add_done_callback(lambda _: (self._running.pop(key), self._unwanted.discard(key)))

    def _cancel(self, value: object) -> bool:
        """Expect no answer of this request; whether that is all, as for one without a session: it ends with its
        connection.
        """
        key = json.dumps(_member(_member(value, "params"), "requestId"))
        task = self._running.get(key)
        if task is None:
            return False
        self._unwanted.add(key)
        if self._session:
            return False
        task.cancel()
        return True

    async def _exchange(self, line: bytes, value: object, ids: list[Any]) -> None:
        """Send one message and write what comes of it."""
        open_ids = {json.dumps(one): one for one in ids}
        try:
            try:
                await self._post(line, value, open_ids)
            except httpx2.ConnectError:  # nothing was sent
                if self._revive is None:
                    raise
                await self._revive()
                await self._post(line, value, open_ids)
        except MoonpoolError as error:
            for one in open_ids.values():
                await self._fail(one, str(error))
        except (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError) as error:
            # SECURITY: texts of a library may hold what was sent.
            gone = f"the service cannot be reached ({_kind(error)}); look whether it runs, and at MOONPOOL_SERVICE_URL"
            why = str(error) if isinstance(error, _RefusedError) else gone
            for one in open_ids.values():
                await self._fail(one, why)
        else:
            for key, one in open_ids.items():
                if key not in self._unwanted:
                    await self._fail(one, "the service ended its answer before it was whole")

    async def _post(self, line: bytes, value: object, open_ids: dict[str, Any]) -> None:
        headers = {"content-type": "application/json", "accept": f"application/json, {_STREAM}", **self._session}
        headers |= _headers_of(value)
        timeout = httpx2.USE_CLIENT_DEFAULT if open_ids else _ROUTINE_S
        async with self._http.stream("POST", self._path, content=line, headers=headers, timeout=timeout) as answer:
            if _STREAM in answer.headers.get("content-type", "") and answer.status_code == 200:
                await self._events(answer, open_ids)
                return
            body = bytearray()
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > LINE_BYTES_MAX:
                    raise _RefusedError(f"the answer is longer than {LINE_BYTES_MAX:,} bytes")
        if answer.status_code // 100 == 2:
            if body:
                await self._hand_over(bytes(body), open_ids)
            self._note(value, answer, bytes(body))
            return
        told = _decoded(bytes(body))
        error = _member(told, "error")
        if isinstance(_member(error, "code"), int):
            for key in tuple(open_ids):
                await self._write({"jsonrpc": "2.0", "id": open_ids.pop(key), "error": error})
        elif open_ids:
            raise _RefusedError(_refusal(answer.status_code, error))

    def _note(self, value: object, answer: httpx2.Response, body: bytes) -> None:
        """Take the session of `initialize`, and listen to it once the client is ready."""
        method = _member(value, "method")
        if method == "initialize" and (session := answer.headers.get(_SESSION)):
            self._session = {_SESSION: session}
            version = _member(_member(_decoded(body), "result"), "protocolVersion")
            if isinstance(version, str):
                self._session[_VERSION] = version
        elif method == "notifications/initialized" and self._session and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """What belongs to no call, again where the stream ends."""
        for wait_s in (*_RESUME_S, *_RESUME_S):
            with suppress(httpx2.HTTPError, httpx2.StreamError, OSError, ValueError):
                headers = {"accept": _STREAM, **self._session}
                async with self._http.stream("GET", self._path, headers=headers) as answer:
                    if answer.status_code != 200:
                        return
                    await self._read_events(answer, {})
            await asyncio.sleep(wait_s)

    async def _events(self, answer: httpx2.Response, open_ids: dict[str, Any]) -> None:
        """The stream of a call. Where it breaks, the rest is asked for: the call goes on."""
        last, waits = await self._read_events(answer, open_ids), iter(_RESUME_S)
        while open_ids and last and self._session and (wait_s := next(waits, None)) is not None:
            await asyncio.sleep(wait_s)
            headers = {"accept": _STREAM, "last-event-id": last, **self._session}
            with suppress(httpx2.TransportError):
                async with self._http.stream("GET", self._path, headers=headers) as rest:
                    if rest.status_code != 200:
                        return
                    last = await self._read_events(rest, open_ids) or last

    async def _read_events(self, answer: httpx2.Response, open_ids: dict[str, Any]) -> str:
        """Write its events until it ends or breaks; returns the id of the last."""
        last = ""
        with suppress(httpx2.TransportError):
            async for event_id, data in _events_of(answer):
                last = event_id or last
                if data:
                    await self._hand_over(data, open_ids)
        return last

    async def _hand_over(self, data: bytes, open_ids: dict[str, Any]) -> None:
        told: Any = parse_line(data)
        messages = cast("list[object]", told) if isinstance(told, list) else [told]
        if wanted := [one for one in messages if _is_wanted(one, open_ids)]:
            await self._write(wanted if isinstance(told, list) else told)

    async def _fail(self, request_id: Any, problem: str, code: int = _INTERNAL_ERROR) -> None:
        await self._write({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": problem}})

    async def _write(self, message: Any) -> None:
        await self._writer.send(encode_line(message))


class _RefusedError(ValueError):
    """What the service says, or does, in words for the client."""


async def _events_of(answer: httpx2.Response) -> AsyncIterator[tuple[str, bytes]]:
    """Id and data of each event. Raises _RefusedError for one that is too long."""
    rest, data, event_id = bytearray(), bytearray(), ""
    async for piece in answer.aiter_raw():
        rest += piece
        if len(rest) + len(data) > LINE_BYTES_MAX:
            raise _RefusedError(f"the answer is longer than {LINE_BYTES_MAX:,} bytes")
        if b"\n" not in piece:  # a long line in many pieces is copied once
            continue
        *lines, rest = rest.split(b"\n")
        for line in lines:
            name, _, value = bytes(line).rstrip(b"\r").partition(b":")
            if name == b"data":
                data += value.removeprefix(b" ")
            elif name == b"id":
                event_id = value.strip().decode("latin-1")
            elif not name and not value:
                yield event_id, bytes(data)
                data.clear()


def _member(value: object, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _is_wanted(message: object, open_ids: dict[str, Any]) -> bool:
    """Whether a message is for the client: no answer is that nobody waits for, such as a second one."""
    if _member(message, "method") is not None:
        return True
    key = json.dumps(_member(message, "id"))
    is_open = key in open_ids
    open_ids.pop(key, None)
    return is_open


def _request_ids(value: object) -> list[Any]:
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    return [_member(one, "id") for one in messages if _member(one, "id") is not None and _member(one, "method")]


def _headers_of(value: object) -> dict[str, str]:
    """What a request that names its revision says in headers, too."""
    method, params = _member(value, "method"), _member(value, "params")
    version = _member(_member(params, "_meta"), _OWN_VERSION)
    if not isinstance(version, str) or not isinstance(method, str):
        return {}
    headers = {_VERSION: _in_header(version), "mcp-method": _in_header(method)}
    name = _member(params, _NAMES.get(method, ""))
    if isinstance(name, str):
        headers["mcp-name"] = _in_header(name)
    return headers


def _in_header(text: str) -> str:
    """As the protocol writes it: in base64 where a header could not carry it."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _decoded(body: bytes) -> object:
    try:
        return parse_line(body)
    except ValueError:
        return None


def _refusal(status: int, error: object) -> str:
    if status == 401:
        return "the service refuses the key; set MOONPOOL_SERVICE_KEY to one that is valid there"
    told = _member(error, "message") or error
    return f"the service answers {status}" + (f": {told[:2000]}" if isinstance(told, str) else "")


def _kind(error: Exception) -> str:
    return "no connection" if isinstance(error, httpx2.ConnectError) else "the connection broke"
