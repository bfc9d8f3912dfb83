"""Which protocol version a server speaks, and what each request of that version carries.

2026-07-28 has no handshake: every request carries version, client and capabilities in `_meta`, and over HTTP in
headers. The four older revisions begin with `initialize`. An unknown server is asked `server/discover` first; anything
but a positive answer means one of the older versions (the SDK's own rule). A known version skips the probe.

The SDK's `ClientSession` keeps the state (`adopt`) and answers what a server asks of us; requests of ours pass the
dispatcher raw, because the SDK's models drop members they do not know and fail a whole listing for one bad tool. Which
client capabilities are declared is up to the caller: `server_requests` knows what is answered.
"""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
)
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    Implementation,
    InitializedNotification,
    InitializeResult,
    ServerCapabilities,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp import ClientSession
    from mcp.shared.dispatcher import CallOptions
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    from moonpool.core.json import JsonObject

CLIENT: Final = Implementation(name="moonpool", version=installed_version("moonpool"))
_CLIENT_JSON: Final = {"name": CLIENT.name, "version": CLIENT.version}


class UnknownRevisionError(Exception):
    """The server answered the handshake with a revision that Moonpool does not support."""


def is_modern(version: str | None) -> bool:
    return version in MODERN_PROTOCOL_VERSIONS


async def negotiate(
    session: ClientSession,
    dispatcher: JSONRPCDispatcher,
    *,
    known_version: str | None,
    probe_s: float,
    capabilities: JsonObject,
) -> JsonObject | None:
    """Negotiate the version and return what the server said about itself; None when the version was known.

    Raises MCPError, UnknownRevisionError, or what the transport raises.
    """
    if known_version is not None and is_modern(known_version):
        session.adopt(_discovered({}, known_version))
        return None
    if known_version is None and (raw := await _probe(session, LATEST_MODERN_VERSION, probe_s)) is not None:
        return raw
    try:
        return await _initialize(session, dispatcher, capabilities)
    except MCPError as exc:
        # The probe ran into its time limit but reached a slow server, which now uses the modern version.
        mutual = _named_versions(exc, MODERN_PROTOCOL_VERSIONS) if exc.code == UNSUPPORTED_PROTOCOL_VERSION else []
        raw = await _probe(session, mutual[-1], probe_s) if mutual else None
        if raw is None:
            raise
        return raw


def stamp(
    version: str | None, method: str, params: JsonObject, capabilities: JsonObject, header_map: Any = None
) -> CallOptions:
    """Put into `params` and return as options what a request of this version carries beside its own members."""
    if not is_modern(version):
        return {} if version is None else {"headers": {MCP_PROTOCOL_VERSION_HEADER: version}}
    meta: JsonObject = {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: dict(_CLIENT_JSON),
        CLIENT_CAPABILITIES_META_KEY: dict(capabilities),
    }
    params["_meta"] = meta
    headers = {MCP_PROTOCOL_VERSION_HEADER: str(version), MCP_METHOD_HEADER: method}
    name = params.get(NAME_BEARING_METHODS.get(method, ""))
    if isinstance(name, str):
        headers[MCP_NAME_HEADER] = encode_header_value(name)
    if header_map:
        headers.update(mcp_param_headers(header_map, cast("Mapping[str, Any]", params.get("arguments") or {})))
    return {"headers": headers}


async def discover(session: ClientSession, version: str) -> JsonObject:
    """What a modern server says about itself."""
    return cast("JsonObject", await session.send_discover(version))


async def _probe(session: ClientSession, version: str, probe_s: float) -> JsonObject | None:
    """The discover result if the server is modern, else None. Raises MCPError when it is modern but not for us."""
    for attempt in (0, 1):
        raw: JsonObject | None = None
        try:
            with anyio.move_on_after(probe_s):
                raw = await discover(session, version)
        except MCPError as exc:
            if exc.code != UNSUPPORTED_PROTOCOL_VERSION:
                return None
            mutual = _named_versions(exc, MODERN_PROTOCOL_VERSIONS)
            if mutual and attempt == 0:
                version = mutual[-1]
                continue
            if not _named_versions(exc, HANDSHAKE_PROTOCOL_VERSIONS):
                raise
            return None
        if raw is None:
            return None
        supported = raw.get("supportedVersions")
        mutual = [known for known in MODERN_PROTOCOL_VERSIONS if isinstance(supported, list) and known in supported]
        if not mutual:
            return None
        session.adopt(_discovered(raw, mutual[-1]))
        return raw
    return None


async def _initialize(session: ClientSession, dispatcher: JSONRPCDispatcher, capabilities: JsonObject) -> JsonObject:
    params: JsonObject = {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": dict(capabilities),
        "clientInfo": dict(_CLIENT_JSON),
    }
    raw = await dispatcher.send_raw_request("initialize", params, {"cancel_on_abandon": False})
    version = raw.get("protocolVersion")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise UnknownRevisionError(str(version)[:40])
    try:
        adopted = InitializeResult.model_validate(raw)
    except ValidationError:  # a server that describes itself badly may still work
        named = Implementation(name="", version="")
        adopted = InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=named)
    session.adopt(adopted)
    await session.send_notification(InitializedNotification())
    return cast("JsonObject", raw)


def _discovered(raw: JsonObject, version: str) -> DiscoverResult:
    try:
        return DiscoverResult.model_validate(raw)
    except ValidationError:
        return DiscoverResult(
            supported_versions=[version],
            capabilities=ServerCapabilities(),
            result_type="complete",
            ttl_ms=0,
            cache_scope="private",
        )


def _named_versions(exc: MCPError, known: tuple[str, ...] | list[str]) -> list[str]:
    data = exc.error.data
    supported = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    return [version for version in known if isinstance(supported, list) and version in supported]
