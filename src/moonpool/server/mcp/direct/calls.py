"""One call of a client: begun or resumed, asked about, made through the pipeline, and brought into the protocol's form.

A call waits for its client's answers as code does (`connection_calls`): it is one execution on record, however many
requests it takes. What a server refuses by a JSON-RPC error is that error again; what Moonpool refuses, or what fails
on the way, is a tool error, which a model can read (X-02), or for what is no tool an error of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from moonpool.core.calls import CallErrorType
from moonpool.core.json import digest_json
from moonpool.engine.direct_calls import ClientCall, call_directly
from moonpool.engine.request_state import RequestStateError
from moonpool.server.mcp.client_requests import ROOTS, SAMPLE, LeavingAsker, SendingAsker, WaitingClient
from moonpool.server.mcp.connection_calls import Caller, InputNeeded
from moonpool.server.mcp.direct.relay import CallRelay, log_level
from moonpool.server.mcp.direct.waiting import WaitingCalls
from moonpool.server.mcp.input_rounds import SEALED_FROM, abilities, sender
from moonpool.upstreams.forms import URL_ELICITATION_REQUIRED
from moonpool.upstreams.open_call import CallingClient
from moonpool.upstreams.server_requests import INPUT_KEY

if TYPE_CHECKING:
    import asyncio

    from mcp.server.context import ServerRequestContext

    from moonpool.core.calls import CallError, ToolCallOutcome
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.pending_calls import Parked
    from moonpool.engine.runtime import Runtime
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.server.mcp.client_requests import Abilities, Bindings
    from moonpool.server.mcp.connection_calls import CallingApp
    from moonpool.server.mcp.progress import Report

    Context = ServerRequestContext[Any, Any]

RESOURCE_NOT_FOUND: Final = -32002  # removed in 2026-07-28
_OF_THE_SERVER: Final = range(-32019, -31999)  # codes that the protocol leaves to servers


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectCall:
    """What is called: a tool of a server, or one of the protocol's methods by its reserved name."""

    server_id: str
    tool: str
    arguments: JsonObject
    said: str  # how the client names it

    @property
    def key(self) -> str:
        """The digest of the request. Raises ValueError for what no record could hold."""
        return digest_json([self.server_id, self.tool, self.arguments])


@dataclass(frozen=True, slots=True)
class KeyedAsker(LeavingAsker):
    """Keeps a server's questions under the names that the server gave them."""

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self.call.ask(method, params, INPUT_KEY.get())


class DirectCalls:
    """The calls of one principal."""

    def __init__(self, app: CallingApp, runtime: Runtime, bindings: Bindings, grant: CallerGrant) -> None:
        self._runtime, self._bindings, self._grant = runtime, bindings, grant
        self._waiting = WaitingCalls(app.settings, grant.principal, bindings, grant.waiting)
        self.session_id = f"direct_{token_hex(8)}"
        self.hides_host = grant.hides_host

    async def outcome(
        self, ctx: Context, call: DirectCall, *, report: Report | None, level: str, turn: asyncio.Lock
    ) -> ToolCallOutcome | InputNeeded:
        """Make the call, or wait for it again. Raises MCPError, MoonpoolError.

        `report`: where its progress goes; `level`: from which on the connection wants log messages, if it said so;
        `turn`: whose person answers one form after the other.
        """
        able, modern = abilities(ctx), ctx.protocol_version >= SEALED_FROM
        wanted = log_level(ctx, level)
        relay = CallRelay(ctx, self._runtime.redactor, report=report, level=wanted)
        given: Any = ctx.params or {}
        caller = Caller(
            listener=relay,
            asker=lambda parked: _asker(ctx, able, parked, turn),
            state=given.get("requestState") if modern else None,
            answers=given.get("inputResponses") or {} if modern else {},
        )

        async def work(parked: Parked[ToolCallOutcome]) -> ToolCallOutcome:
            client = CallingClient(
                abilities=_names(able), log_level=wanted if modern or level else "", log=parked.hear_log
            )
            with self._bindings.binding(parked, WaitingClient(parked)):
                return await call_directly(
                    self._runtime,
                    self._grant,
                    call.server_id,
                    call.tool,
                    call.arguments,
                    begun=parked.run_ids.append,
                    by=ClientCall(
                        client=client,
                        session_id=self.session_id,
                        progress=None if report is None else parked.hear_progress,
                    ),
                )

        try:
            key = call.key
        except (ValueError, RecursionError):
            raise MCPError(types.INVALID_PARAMS, "the arguments hold what no JSON can carry") from None
        async with relay.telling():
            try:
                return await self._waiting.outcome(call.said, key, work, caller)
            except RequestStateError as error:
                raise MCPError(types.INVALID_PARAMS, str(error), {"reason": error.code}) from None

    @property
    def is_busy(self) -> bool:
        return self._waiting.is_busy

    def leave(self) -> int:
        return self._waiting.leave()

    async def wait_spared(self) -> None:
        await self._waiting.wait_spared()

    async def close(self) -> None:
        await self._waiting.close()


def refused(kind: str, message: str) -> JsonObject:
    """The members of a tool result that says what Moonpool refused, or what failed on the way."""
    return {"content": [{"type": "text", "text": f"{kind}: {message}"}], "isError": True}


def protocol_error(error: CallError, version: str, *, uri: str = "") -> MCPError:
    """A failed call as an error of the protocol; `uri` is the resource that it was about."""
    modern = version >= SEALED_FROM
    data: JsonValue = {"reason": str(error.type), **({"uri": uri} if uri else {})}
    if error.rpc is None:
        wrong = error.type in {CallErrorType.VALIDATION_ERROR, CallErrorType.UNKNOWN_TOOL}
        return MCPError(types.INVALID_PARAMS if wrong else types.INTERNAL_ERROR, error.message, data)
    code = error.rpc.code
    if uri and code in {RESOURCE_NOT_FOUND, types.INVALID_PARAMS}:
        return MCPError(types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND, error.message, data)
    needs = error.rpc.data.get("requiredCapabilities") if isinstance(error.rpc.data, dict) else None
    if code == types.MISSING_REQUIRED_CLIENT_CAPABILITY and modern and isinstance(needs, dict):
        asked = {str(name): cast("JsonObject", {}) for name in needs}
        return MCPError(code, error.message, {"requiredCapabilities": asked})
    passes = code == types.INVALID_PARAMS or code not in range(-32768, -31999)
    passes |= not modern and (code == URL_ELICITATION_REQUIRED or code in _OF_THE_SERVER)
    return MCPError(code, error.message, error.rpc.data) if passes else MCPError(types.INTERNAL_ERROR, error.message)


def _asker(ctx: Context, able: Abilities, parked: Parked[Any], turn: asyncio.Lock) -> RequestResponder:
    if ctx.protocol_version >= SEALED_FROM:
        return KeyedAsker(able, parked)
    return SendingAsker(able, sender(ctx), turn)


def _names(able: Abilities) -> frozenset[str]:
    asked = {"form": able.form, "url": able.url, "sampling": able.can(SAMPLE), "roots": able.can(ROOTS)}
    return frozenset(name for name, can in asked.items() if can)
