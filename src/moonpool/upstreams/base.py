"""The interface to MCP servers: a small Protocol and the closed set of errors of a server.

A message names the server, says what happened in the server's own words where there are any, and what to check. What a
server says is untrusted text: it is capped here and known secrets were blanked before. `retryable` says that the same
call may succeed later; for a tool that changes something the caller must still look first, because the call may have
been carried out before its answer was lost.

SECURITY: an error has two sentences. `str(error)` is the operator's; `for_guest` is what code in a sandbox may read. It
is never made from the other: commands, addresses and the server's stderr, which may print its credentials, stay on the
host (F.4). Whoever raises passes `for_guest` only if it holds nothing but our words, the guest's own request and the
server's answer to it; without it the class's own words are used.

Neighbours: `supervisor` raises these, `fake` is the in-memory twin, `tests/upstreams/test_upstream_contract.py` is the
contract that every implementation passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from moonpool.core.calls import CallErrorType
from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ServerListing
    from moonpool.upstreams.root_folders import RootFolders


class Upstream(Protocol):
    """One MCP server. Every method connects if needed, is safe to cancel and may be called concurrently."""

    server_id: str
    roots: RootFolders  # may be changed at any time (D-031)

    @property
    def protocol_version(self) -> str | None:
        """The protocol version of the last connection; pass it back as `known_versions` to skip the next probe."""
        ...

    async def list_tools(self) -> ServerListing:
        """All pages of `tools/list`, raw. A broken tool becomes a warning and never loses the others."""
        ...

    async def call_tool(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        """The raw CallToolResult, also when it says `isError`. Raises an UpstreamError within `timeout_s`."""
        ...

    def forget_caller(self, caller: str) -> None:
        """End what a caller (see `callers`) has subscribed to. Returns at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that a server reported, or that may have happened before a reconnect."""

    server_id: str
    kind: str  # "tools", "resources", "prompts": the list of these; "resource": the one at `uri`
    uri: str = ""


class UpstreamSource(Protocol):
    """Where the pipeline finds an upstream by its server id."""

    def get(self, server_id: str, /) -> Upstream | None: ...


class UpstreamError(MoonpoolError):
    """An MCP server failed."""

    code = "upstream_failed"
    fault = Fault.UPSTREAM
    call_error_type: ClassVar[CallErrorType] = CallErrorType.UPSTREAM_ERROR

    guest_problem: ClassVar[str] = "failed; the operator sees why"

    def __init__(
        self, server_id: str, problem: str, *, for_guest: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"server {server_id!r} {problem}")
        self.server_id = server_id
        self.retry_after_s = retry_after_s  # None: nobody knows
        self.for_guest = f"server {server_id!r} {self.guest_problem if for_guest is None else for_guest}"


class UpstreamStartError(UpstreamError):
    """The command could not be started at all."""

    code = "upstream_cannot_start"
    guest_problem = "cannot be reached; the operator sees why"


class UpstreamClosedAtOnceError(UpstreamError):
    """The server ended the connection before it said who it is."""

    code = "upstream_closed_at_once"
    guest_problem = "closed the connection at once; the operator sees why"
    retryable = True
    call_error_type = CallErrorType.TRANSIENT_NETWORK


class UpstreamConnectTimeoutError(UpstreamError):
    """The server did not answer the handshake in time."""

    code = "upstream_connect_timeout"
    guest_problem = "did not answer the handshake in time; the operator sees why"
    retryable = True
    call_error_type = CallErrorType.TIMEOUT


class UpstreamCallTimeoutError(UpstreamError):
    """The server did not answer a request in time. It was told to cancel it."""

    code = "upstream_call_timeout"
    guest_problem = "did not answer in time"
    retryable = True
    call_error_type = CallErrorType.TIMEOUT


class UpstreamDiedError(UpstreamError):
    """The connection ended while a request was under way. The request may have been carried out."""

    code = "upstream_died"
    guest_problem = "ended the connection; the operator sees why"
    retryable = True
    call_error_type = CallErrorType.TRANSIENT_NETWORK


class UpstreamSessionGoneError(UpstreamDiedError):
    """HTTP 404: the server no longer knows our session. It has certainly not carried out the request."""

    code = "upstream_session_gone"


class UpstreamUnreachableError(UpstreamError):
    """No connection could be made to the server's address."""

    code = "upstream_unreachable"
    guest_problem = "cannot be reached; the operator sees why"
    retryable = True
    call_error_type = CallErrorType.TRANSIENT_NETWORK


class UpstreamRestingError(UpstreamError):
    """The server failed several times in a row and is not called for a while."""

    code = "upstream_resting"
    guest_problem = "failed several times in a row and is left alone for a while; the operator sees why"
    retryable = True
    call_error_type = CallErrorType.TRANSIENT_NETWORK


class UpstreamCircuitOpenError(UpstreamRestingError):
    """The server failed so often in a row that its circuit is open: nothing is sent before the time that is named."""

    code = "upstream_circuit_open"
    guest_problem = "failed too often in a row and is not called for now; the operator sees why"


class UpstreamProtocolError(UpstreamError):
    """The server answered with a JSON-RPC error, or not as MCP says."""

    code = "upstream_protocol_error"
    guest_problem = "does not answer as MCP says; the operator sees why"

    def __init__(
        self,
        server_id: str,
        problem: str,
        *,
        for_guest: str | None = None,
        rpc_code: int | None = None,
        rpc_data: JsonValue = None,
    ) -> None:
        super().__init__(server_id, problem, for_guest=for_guest)
        self.rpc_code, self.rpc_data = rpc_code, rpc_data


class UpstreamGarbageError(UpstreamError):
    """The server printed something to stdout that is not MCP."""

    code = "upstream_garbage"
    guest_problem = "prints to stdout something that is not MCP; the operator sees what"


class UpstreamAuthError(UpstreamError):
    """The server refused our credential (HTTP 401 or 403)."""

    code = "upstream_auth_refused"
    guest_problem = "refused our credential; the operator sees why"


class UpstreamLoginNeededError(UpstreamAuthError):
    """Nobody has logged in to the server, or the login is no good any more. The request was not carried out."""

    code = "upstream_login_needed"
    guest_problem = "needs a person to log in; the operator sees how"


class UpstreamLoginFailedError(UpstreamAuthError):
    """Getting a new credential for the server failed. The request was not carried out."""

    code = "upstream_login_failed"
    guest_problem = "could not be logged in to; the operator sees why"


class UpstreamRateLimitedError(UpstreamError):
    """The server asked for fewer requests (HTTP 429)."""

    code = "upstream_rate_limited"
    guest_problem = "asks for fewer requests; try again later"
    retryable = True
    call_error_type = CallErrorType.RATE_LIMIT


class UpstreamThrottledError(UpstreamRateLimitedError):
    """`calls_per_minute` of the server's configuration is used up. The call was not made."""

    code = "upstream_throttled"
    fault = Fault.HOST
    _names_host = False
    guest_problem = "is called as often as it may be; try again later"


class UpstreamServerFaultError(UpstreamError):
    """The server answered with HTTP 5xx."""

    code = "upstream_server_fault"
    guest_problem = "failed; try again later"
    retryable = True
    call_error_type = CallErrorType.TRANSIENT_NETWORK


class UpstreamResultError(UpstreamError):
    """The answer arrived but cannot be used (not JSON, NaN, a lone surrogate, not a tool result)."""

    code = "upstream_result_unusable"
    guest_problem = "gave an answer that cannot be used; the operator sees why"


class UpstreamResultTooLargeError(UpstreamError):
    """The answer is larger than we take."""

    code = "upstream_result_too_large"
    guest_problem = "gave an answer that is too large; ask it for less"
    call_error_type = CallErrorType.OUTPUT_TOO_LARGE


class UpstreamNeedsInputError(UpstreamError):
    """The tool asks for more input (elicitation, sampling or roots), and nobody here can give it."""

    code = "upstream_needs_input"
    guest_problem = "needs more input, which nobody here can give; call it with all it needs"


class UpstreamClosedError(UpstreamError):
    """Moonpool is shutting this upstream down."""

    code = "upstream_closed"
    guest_problem = "is being shut down"
    fault = Fault.HOST
    _names_host = False
    call_error_type = CallErrorType.INTERNAL
