"""Questions to the client in the two forms of the revisions: a request from the server, or `input_required`.

SPEC: only what the client declared is asked. Up to 2025-11-25 the handshake declares it once; from 2026-07-28 on every
request does, so a repeated request without the declaration gets error -32021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from moonpool.server.mcp.client_requests import ROOTS, SAMPLE, Abilities
from moonpool.upstreams.server_requests import ServerRequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext

    from moonpool.core.json import JsonObject
    from moonpool.server.mcp.tools import InputNeeded

    Context = ServerRequestContext[Any, Any]

SEALED_FROM: Final = "2026-07-28"
"""From this revision on a server sends no requests; its questions are in its answer."""
_FORMS_FROM: Final = "2025-06-18"
_URLS_FROM: Final = "2025-11-25"


def abilities(ctx: Context) -> Abilities:
    """What the client of this request supports."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None:
        return Abilities()
    elicitation, version = capabilities.elicitation, ctx.protocol_version
    sample, roots = capabilities.sampling is not None, capabilities.roots is not None
    if elicitation is None or version < _FORMS_FROM:
        return Abilities(sample=sample, roots=roots)
    return Abilities(
        form=elicitation.form is not None or elicitation.url is None,  # a client may declare URLs only
        url=version >= _URLS_FROM and elicitation.url is not None,
        sample=sample,
        roots=roots,
    )


def sender(ctx: Context) -> Callable[[str, JsonObject], Awaitable[JsonObject]]:
    """A function that sends a request to the client while the client's own request is in progress."""

    async def send(method: str, params: JsonObject) -> JsonObject:
        request, result_type = _request(method, params)
        related = ServerMessageMetadata(related_request_id=ctx.request_id)  # so that it goes where the answer will
        try:
            result = await ctx.session.send_request(request, result_type, metadata=related)
        except MCPError as refused:
            raise ServerRequestRefusedError(refused.error.message, code=refused.error.code) from None
        return result.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})

    return send


def input_required(needed: InputNeeded, able: Abilities) -> types.InputRequiredResult:
    """The answer that asks. Raises MCPError."""
    for question in needed.questions:
        mode = str(question.params.get("mode", "form"))
        if not able.can(question.method, mode):
            name = {SAMPLE: "sampling", ROOTS: "roots"}.get(question.method, "elicitation")
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"this call waits for an answer by {name}, which this request no longer declares",
                {"requiredCapabilities": {name: {}}},
            )
    requests = {one.name: _request(one.method, one.params)[0] for one in needed.questions}
    return types.InputRequiredResult.model_validate({"input_requests": requests, "request_state": needed.state})


def _request(method: str, params: JsonObject) -> tuple[Any, Any]:
    if method == SAMPLE:
        sampling = types.CreateMessageRequestParams.model_validate(params)
        return types.CreateMessageRequest(params=sampling), types.CreateMessageResult
    if method == ROOTS:
        return types.ListRootsRequest(), types.ListRootsResult
    if params.get("mode") == "url":
        return types.ElicitRequest(params=types.ElicitRequestURLParams.model_validate(params)), types.ElicitResult
    return types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(params)), types.ElicitResult
