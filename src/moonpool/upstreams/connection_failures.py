"""What became of a request or a handshake that failed: the typed error, from all that this end of the connection knows.

HTTP statuses, the end of a process with its last words, and garbage on stdout each explain what the SDK reports as one
and the same JSON-RPC error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR

from moonpool.configuration.expansion import conceal
from moonpool.core.phrases import ends_of, said
from moonpool.net.message_limits import RESULT_BYTES_MAX, too_large
from moonpool.upstreams.base import (
    UpstreamClosedAtOnceError,
    UpstreamConnectTimeoutError,
    UpstreamDiedError,
    UpstreamError,
    UpstreamGarbageError,
    UpstreamProtocolError,
    UpstreamResultError,
    UpstreamResultTooLargeError,
    UpstreamSessionGoneError,
)
from moonpool.upstreams.forms import URL_ELICITATION_REQUIRED, addresses_problem
from moonpool.upstreams.frames import LocalFault
from moonpool.upstreams.protocol_version import is_modern
from moonpool.upstreams.stdio import LineReader

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp.types import ErrorData

    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.json import JsonValue
    from moonpool.oauth.credentials import Credentials
    from moonpool.upstreams.http import Exchange
    from moonpool.upstreams.process import ServerProcess
    from moonpool.upstreams.streams import EndOfMessages

_EXIT_STATUS_S: Final = 0.3
_ANSWERED_WITH_404: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})


class ConnectionFailures:
    """The failures of one connection."""

    def __init__(
        self,
        config: ServerConfig,
        reader: EndOfMessages,
        process: ServerProcess | None,
        credentials: Credentials | None = None,
    ) -> None:
        self._config, self._reader, self._process, self._credentials = config, reader, process, credentials

    async def of_request(
        self, exc: MCPError, exchange: Exchange, *, doing: str, protocol_version: str | None
    ) -> UpstreamError:
        """The typed error of a request that failed after the handshake."""
        server_id, error = self._config.server_id, exc.error
        if error.data is LocalFault.TOO_LARGE or exchange.too_large or _above_event_cap(exc):
            bound = exchange.too_large or (error.message if error.data is LocalFault.TOO_LARGE else "")
            problem = f"answered {doing!r} with {bound or too_large(RESULT_BYTES_MAX)}; ask it for less"
            return UpstreamResultTooLargeError(server_id, problem, for_guest=problem)
        if error.data is LocalFault.UNUSABLE or (error.code == PARSE_ERROR and exchange.status == 200):
            problem = f"answered {doing!r} with something that is not JSON"
            first, _, _ = error.message.partition("\n")  # further lines of the SDK's quote values, cut in their middle
            operators = f"{problem}: {self._said(first, 300)}"
            return UpstreamResultError(server_id, operators, for_guest=problem)
        if (fault := exchange.fault(self._config)) is not None:
            return fault
        if exchange.status == 404 and not is_modern(protocol_version) and error.code not in _ANSWERED_WITH_404:
            problem = f"no longer knows our session; {doing!r} was not run, call it again"
            return UpstreamSessionGoneError(server_id, problem, for_guest=problem)
        if self._reader.ended.is_set() or _is_closed(error):
            problem = f"closed the connection while {doing!r} ran"
            return UpstreamDiedError(server_id, f"{problem}{await self._last_words()}", for_guest=problem)
        problem = f"refused {doing!r}: {self._said(error.message)} (JSON-RPC error {error.code})"
        code, data = error.code, cast("JsonValue", error.data)
        if code == URL_ELICITATION_REQUIRED and (self._config.elicitation != "relay" or addresses_problem(data)):
            code, data = INTERNAL_ERROR, None  # SECURITY: it names addresses to people only where it may ask them
        return UpstreamProtocolError(server_id, problem, for_guest=problem, rpc_code=code, rpc_data=data)

    async def of_handshake(self, exc: MCPError, exchange: Exchange) -> UpstreamError:
        """The same before the handshake was over."""
        server_id = self._config.server_id
        if (fault := exchange.fault(self._config)) is not None:
            return fault
        ended = self._reader.ended.is_set()
        if self._garbage and ended:
            return self.of_garbage()
        if ended or _is_closed(exc.error):
            words = await self._last_words()
            problem = f"closed the connection at once{words}; run its command in a terminal to see why"
            return UpstreamClosedAtOnceError(server_id, problem)
        if exchange.no_such_transport:
            problem = f"answered HTTP {exchange.status} at {self._config.address}; check the URL and the type"
            return UpstreamProtocolError(server_id, problem)
        return UpstreamProtocolError(server_id, f"refused the handshake: {self._said(exc.error.message)}")

    def of_silence(self) -> UpstreamError:
        """The error for a server that did not finish the handshake in time."""
        if self._garbage:
            return self.of_garbage()
        words = ""
        if self._process is not None:
            words = self._process.last_words(self.secrets, ended_itself=False)
        limit = f"{self._config.connect_timeout_s:g} s"
        problem = f'did not answer the handshake within {limit}{words}; raise "connect_timeout_s" if it starts slowly'
        return UpstreamConnectTimeoutError(self._config.server_id, problem)

    def of_garbage(self) -> UpstreamError:
        """The error for a server that printed something else than MCP."""
        sample = conceal(self._garbage, self.secrets)
        problem = (
            f"prints to stdout something that is not MCP: {sample!r}; a server must print its own output to stderr"
        )
        return UpstreamGarbageError(self._config.server_id, problem)

    @property
    def silence_note(self) -> str:
        """What may explain a silence, for the operator."""
        sample = conceal(self._garbage, self.secrets)
        return f"; it printed something that is not MCP: {sample!r}" if sample else ""

    @property
    def _garbage(self) -> str:
        return self._reader.garbage_sample if isinstance(self._reader, LineReader) else ""

    async def _last_words(self) -> str:
        if self._process is None:
            return ""
        await self._process.wait_exited(_EXIT_STATUS_S)  # stdout ends a moment before the exit status is known
        return self._process.last_words(self.secrets)

    @property
    def secrets(self) -> frozenset[str]:
        """The configured ones, and the tokens that this process has had for the server."""
        tokens = frozenset[str]() if self._credentials is None else self._credentials.secrets
        return self._config.secrets | tokens

    def _said(self, text: str, length_max: int = 2000) -> str:
        return said(conceal(ends_of(text), self.secrets), length_max)


def _above_event_cap(exc: MCPError) -> bool:
    """The SDK's wording for an SSE event that exceeds `max_sse_event_size`."""
    return "SSE stream failed" in exc.error.message and "limit" in exc.error.message


def _is_closed(error: ErrorData) -> bool:
    """Whether the SDK says so: its code for it is the one that many servers give to any error of theirs."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed" and error.data is None
