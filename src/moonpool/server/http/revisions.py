"""How one POST is to be read: which revision, which answer its client takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from mcp_types import HEADER_MISMATCH, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from moonpool.server.http.responses import JSON, STREAM, rpc_error

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.responses import Response

VERSION_HEADER: Final = "mcp-protocol-version"
ASSUMED: Final = "2025-03-26"
"""The revision of a request without a header outside of a session (B-072)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The kinds of answer that a client takes."""

    json: bool
    streams: bool

    @classmethod
    def of(cls, headers: Headers) -> Accepted:
        """A client that says nothing takes one body (B-033)."""
        given = ",".join(headers.getlist("accept"))
        kinds = {one.partition(";")[0].strip().lower() for one in given.split(",")} - {""}
        return cls(
            json=not kinds or not kinds.isdisjoint({JSON, "application/*", "*/*"}),
            streams=not kinds.isdisjoint({STREAM, "text/*"}),
        )


def is_modern(version: str | None) -> bool:
    """Whether the revision has no sessions."""
    return version in MODERN_PROTOCOL_VERSIONS


def version_problem(version: str | None, value: object) -> Response | None:
    """The refusal of a revision that is not served, or that the body contradicts."""
    if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
        if (named := named_version(value)) is None:
            return None
        return rpc_error(
            400,
            f"the body names revision {str(named)[:40]!r}; send it as MCP-Protocol-Version, too",
            code=HEADER_MISMATCH,
            request_id=request_id_of(value),
        )
    if is_modern(version):
        return None
    supported = list(MODERN_PROTOCOL_VERSIONS)  # a client of that kind compares them with those of server/discover
    if named_version(value) is None:
        supported += reversed(HANDSHAKE_PROTOCOL_VERSIONS)
    return rpc_error(
        400,
        f"Unsupported protocol version; use one of {', '.join(supported)}",
        code=UNSUPPORTED_PROTOCOL_VERSION,
        request_id=request_id_of(value),
        data={"supported": supported, "requested": version[:40]},
    )


def member(value: object, name: str) -> object:
    """A member of decoded JSON; None for what is no object or has none."""
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def named_version(value: object) -> object:
    """The revision that a request names itself, as from 2026-07-28 on; None: none."""
    return member(member(member(value, "params"), "_meta"), PROTOCOL_VERSION_META_KEY)


def request_id_of(value: object) -> int | str | None:
    """The id to answer under, where it can be read."""
    given = member(value, "id")
    return given if isinstance(given, int | str) and not isinstance(given, bool) else None
