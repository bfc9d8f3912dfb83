"""Forwarding HTTP messages: which headers are hop-by-hop, and what frames a message. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from moonpool.network.connections import Outcome, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import h11

HEADERS_MAX: Final = 200
INTERIM_MAX: Final = 16
"""Answers before the answer."""
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"upgrade"),
    }
)


def named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The names in the headers Connection, in lower case."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(item.strip().lower() for value in values for item in value.split(b","))


def hop_by_hop(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The names of hop-by-hop headers, without those that frame the message."""
    return (_HOP_BY_HOP | named_in_connection(headers)) - FRAMING


def check_framing(request: h11.Request) -> None:
    """Raise RefusedError where servers disagree on the end of the request."""
    if {name for name, _ in request.headers} >= FRAMING:
        text = "a request with Content-Length and Transfer-Encoding"
        raise RefusedError(HTTPStatus.BAD_REQUEST, Outcome.MALFORMED, text)


def too_many_interim() -> RefusedError:
    """The server answers, and answers, without an answer."""
    text = f"the server sent more than {INTERIM_MAX} interim answers"
    return RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, text)
