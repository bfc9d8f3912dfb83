"""Requests to a service, and their answers as frozen types.

INVARIANT: nothing waits for ever. Who answers no more is found out by time limits, and by TCP where an order may take
long. What is tried again is only what may be done twice: reading.
SECURITY: certificates are checked, redirects are not followed, answers are bounded, and no answer is believed before it
has its type.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2
import msgspec

from moonpool.core.errors import InputError
from moonpool.core.version import VERSION
from moonpool.sdk.remote.errors import ServiceAnswerError, ServiceUnavailableError, error_of, unreachable
from moonpool.sdk.runtime_thread import CLOSED
from moonpool.server.http.sessions.messages import ErrorAnswer, ErrorBody
from moonpool.tracing.application import application_place
from moonpool.tracing.spans import TRACEPARENT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Mapping

    from moonpool.core.errors import MoonpoolError
    from moonpool.sdk.remote.address import ServiceAddress

_T = TypeVar("_T")
CONNECT_S: Final = 10.0
READ_S: Final = 60.0
"""How long a stream may be silent, which tells every few seconds that it is alive, or a small answer take."""
ORDER_S: Final = 3900.0
"""How long an order may take that waits for its turn, as an undo does while code runs."""
TRIES: Final = 3
ANSWER_BYTES_MAX: Final = 64 * 1024**2
_WAIT_S: Final = 0.2
_LAST_S: Final = 5.0  # for what is under way when all is closed
_KEEPALIVE: Final = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
]
_ROUTINE: Final = httpx2.Timeout(READ_S, connect=CONNECT_S)
PATIENT: Final = httpx2.Timeout(ORDER_S, connect=CONNECT_S, write=READ_S, pool=ORDER_S)


class Connection:
    """One application's connections to one service, for one session. Close it."""

    def __init__(self, address: ServiceAddress, check: Callable[[Mapping[str, str]], None] = lambda _: None) -> None:
        """`check` sees the headers of every answer, and may raise."""
        self._address, self._check = address, check
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_closed = False
        self._client = httpx2.AsyncClient(
            base_url=f"{address.url}/v1/",
            transport=transport_to(address, connections_max=100),
            timeout=_ROUTINE,
            headers={"user-agent": f"moonpool/{VERSION}", "accept-encoding": "identity"},
            follow_redirects=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Let what is under way come to its end for a moment, then end it. Nothing is asked any more. Idempotent."""
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._is_idle.wait()
        await self._client.aclose()

    async def get(self, path: str, answer: type[_T], query: dict[str, Any]) -> _T:
        """Ask, again if no answer comes. Raises MoonpoolError."""
        for attempt in range(TRIES):
            try:
                return await self._ask("GET", path, answer, params=query)
            except ServiceUnavailableError:
                if attempt == TRIES - 1:
                    raise
                await asyncio.sleep(_WAIT_S * 2**attempt)
        raise AssertionError("the last try returns or raises")

    async def order(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None,
        answer: type[_T],
        *,
        as_approver: bool = False,
        query: dict[str, Any] | None = None,
    ) -> _T:
        """Have something done, once. Raises MoonpoolError; without an answer nobody knows whether it was done."""
        content = b"" if body is None else msgspec.json.encode(body)
        return await self._ask(
            method, path, answer, content=content, params=query, timeout=PATIENT, as_approver=as_approver
        )

    async def send_file(self, path: str, pieces: AsyncIterable[bytes], answer: type[_T], query: dict[str, Any]) -> _T:
        """Send a file. Raises MoonpoolError."""
        return await self._ask("PUT", path, answer, content=pieces, params=query, timeout=PATIENT, is_file=True)

    async def _ask(self, method: str, path: str, answer: type[_T], **request: Any) -> _T:
        async with self.answer(method, path, **request) as response:
            data = await _whole(response)
        return self._decoded(data, answer)

    def _decoded(self, data: bytes, answer: type[_T]) -> _T:
        if answer is type(None):
            return None  # pyright: ignore[reportReturnType]
        try:
            return msgspec.json.decode(data, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise _no_service() from None

    @asynccontextmanager
    async def answer(
        self, method: str, path: str, *, as_approver: bool = False, is_file: bool = False, **request: Any
    ) -> AsyncGenerator[httpx2.Response]:
        """An answer whose head says that all is well. Raises MoonpoolError, also for what breaks in the block."""
        key = self._address.key
        if as_approver and self._address.approver is not None:
            key = self._address.approver
        kind = "application/octet-stream" if is_file else "application/json"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if (place := application_place()) is not None:
            headers[TRACEPARENT] = str(place)
        if "content" in request:
            headers["content-type"] = kind
        if self._is_closed:
            raise InputError(CLOSED)
        with translated(), self._counted():
            async with self._client.stream(method, path, headers=headers, **request) as response:
                self._check(response.headers)
                if response.status_code // 100 != 2:
                    raise _told(response.status_code, await _whole(response))
                yield response

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._under_way += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_idle.set()


def transport_to(address: ServiceAddress, *, connections_max: int) -> httpx2.AsyncHTTPTransport:
    """To a service, and nowhere else: variables of proxies do not count."""
    return httpx2.AsyncHTTPTransport(
        verify=_tls(address.url),
        trust_env=False,
        limits=httpx2.Limits(max_connections=connections_max, max_keepalive_connections=10, keepalive_expiry=30.0),
        socket_options=None if address.socket else _KEEPALIVE,
        uds=address.socket or None,
    )


@contextmanager
def translated() -> Generator[None]:
    """Have what breaks in the block raised as ServiceError."""
    try:
        yield
    except httpx2.TimeoutException:
        raise unreachable("it did not answer in time") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise unreachable(_why(error)) from None


def _tls(url: str) -> ssl.SSLContext:
    """Trusts whom this machine trusts; where http:// was asked for, nobody."""
    return ssl.create_default_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _whole(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > ANSWER_BYTES_MAX:
            raise _no_service()
    return bytes(data)


def _told(status: int, data: bytes) -> MoonpoolError:
    """The error in an answer; one without that form comes from something else than a service."""
    try:
        return error_of(msgspec.json.decode(data, type=ErrorAnswer).error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if status in {401, 403}:
        code, words = "authentication_failed", f"the service refuses this key ({status}); use one that is valid there"
        return error_of(ErrorBody(code=code, message=words, fault="caller"))
    if status in {502, 503, 504}:
        return unreachable(f"what stands before it answers {status}")
    return _no_service(status)


def _no_service(status: int | None = None) -> ServiceAnswerError:
    what = "something else" if status is None else f"with status {status}, and not as one"
    return ServiceAnswerError(f"this is no service of Moonpool, or a newer one: it answers {what}; check the address")


def _why(error: Exception) -> str:
    """SECURITY: texts of a library may hold what was sent; its kind is enough."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ConnectError):
        return "no connection"
    return "the connection broke"
