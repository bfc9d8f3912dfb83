"""What is sent on of a request to a host with a credential, and of its answer. Pure.

SECURITY: nothing of the code's request is copied as it arrived: h11 has parsed it, and it is written anew, so that host
and server agree where it ends. The header of the credential is the operator's, whatever the code sent under that name
or one that servers take for it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import h11

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.forwarding import FRAMING, HEADERS_MAX, check_framing, hop_by_hop, named_in_connection
from moonpool.network.rules import SECRET_CHARS_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.network.rules import HeaderCredential

_HTTPS_PORT: Final = 443
_NOT_PASSED: Final = frozenset({b"TRACE", b"TRACK", b"CONNECT"})


class StreamRedaction(Protocol):
    """Takes values out of a stream, whatever its chunks."""

    def feed(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class Redaction(Protocol):
    """Takes values out of bytes: `moonpool.redaction.redactor.Redactor`, which lies above this package."""

    def data(self, data: bytes, tally: Counter[str]) -> bytes: ...

    def stream(self) -> StreamRedaction: ...


MakeRedaction: TypeAlias = "Callable[[Mapping[str, str]], Redaction]"
"""Of values by name."""


def outgoing_request(request: h11.Request, host: str, port: int, credential: HeaderCredential) -> h11.Request:
    """The request as it is sent to `host`. Raises RefusedError."""
    _check(request, host, port)
    own = credential.header.encode()
    dropped = hop_by_hop(request.headers) | {b"host", b"accept-encoding"}
    kept = [
        (name, value)
        for name, value in request.headers.raw_items()
        if not {name.lower(), _as_variable(name)} & dropped and _as_variable(name) != _as_variable(own)
    ]
    # SECURITY: `identity`, because a credential is not found in a compressed answer.
    ours = [(b"Accept-Encoding", b"identity"), (own, credential.value.encode())]
    try:
        return h11.Request(
            method=request.method,
            target=request.target,
            headers=[(b"Host", _authorities(host, port)[0]), *kept, *ours],
        )
    except h11.LocalProtocolError:  # its text may hold the value
        raise _malformed(HTTPStatus.BAD_REQUEST, "the request cannot be written with the credential") from None


def _check(request: h11.Request, host: str, port: int) -> None:
    names = [name for name, _ in request.headers]
    if request.http_version != b"1.1":
        raise _malformed(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is spoken here")
    if len(names) > HEADERS_MAX:
        raise _malformed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {HEADERS_MAX} headers")
    if b"upgrade" in {*names, *named_in_connection(request.headers)}:
        text = f"WebSockets and other upgrades are not possible with {host}, to which the host adds a credential"
        raise _malformed(HTTPStatus.NOT_IMPLEMENTED, text)
    check_framing(request)
    if request.method in _NOT_PASSED:
        raise _malformed(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method.decode()} is not passed on")
    if not (request.target.startswith(b"/") or (request.target, request.method) == (b"*", b"OPTIONS")):
        raise _malformed(HTTPStatus.BAD_REQUEST, "the target of a request must be a path")
    sent_to = [value.lower() for name, value in request.headers if name == b"host"]
    if len(sent_to) != 1 or sent_to[0] not in _authorities(host, port):
        text = f"the header Host must name {host}, which the connection was opened to"
        raise _malformed(HTTPStatus.MISDIRECTED_REQUEST, text)


def _malformed(status: int, text: str) -> RefusedError:
    return RefusedError(status, Outcome.MALFORMED, text)


def _authorities(host: str, port: int) -> tuple[bytes, ...]:
    """What the header Host may be, the usual form first."""
    bare, full = host.encode(), f"{host}:{port}".encode()
    return (bare, full) if port == _HTTPS_PORT else (full,)


def _as_variable(name: bytes) -> bytes:
    """A header's name as servers compare it: many turn it into the name of a variable first."""
    return name.lower().replace(b"_", b"-")


def secret_values(credential: HeaderCredential) -> dict[str, str]:
    """What must not come back, by the name that is shown for it.

    The whole value, what follows a word such as `Bearer`, user and password in `Basic`, and parts that servers read and
    may repeat alone.
    """
    values = {"CREDENTIAL": credential.value}
    scheme, _, rest = credential.value.partition(" ")
    parts = _parts(credential.value)
    if token := rest.strip():
        values["CREDENTIAL_TOKEN"] = token
    if token and scheme.lower() == "basic":
        try:
            pair = base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            pair = ""
        user, _, password = pair.partition(":")
        values |= {"CREDENTIAL_PAIR": pair, "CREDENTIAL_PASSWORD": password}
        parts.append(user)  # for some servers the key
    long = (part for part in parts if len(part) >= SECRET_CHARS_MIN)
    return values | {f"CREDENTIAL_PART_{number}": part for number, part in enumerate(long, 1)}


def _parts(value: str) -> list[str]:
    """What stands behind `=`, as in cookies and `token="..."`, and behind a colon, as in `ApiKey id:key`."""
    named = [part.partition("=")[2] for part in re.split(r"[;,\s]+", value)]
    return [part.strip('"') for part in (*named, *value.split(":")[1:])]


def incoming_response(response: h11.Response, redactor: Redaction, *, body: bool) -> h11.Response:
    """The head of the answer as the code gets it. `body`: whether one may follow. Raises RefusedError."""
    if len(response.headers) > HEADERS_MAX:
        raise RefusedError(
            HTTPStatus.BAD_GATEWAY, Outcome.FAILED, f"the server answered with more than {HEADERS_MAX} headers"
        )
    encodings = [value.lower() for name, value in response.headers if name == b"content-encoding"]
    if body and any(value not in {b"identity", b""} for value in encodings):
        # SECURITY: a compressed answer may hold the credential, and nobody could tell.
        text = "the server answered compressed although it was asked not to, and its answer cannot be searched"
        raise RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, text)
    listed, tally = named_in_connection(response.headers), Counter[str]()
    dropped = hop_by_hop(response.headers) | (FRAMING if body else {b"transfer-encoding"})
    headers = [pair for pair in response.headers.raw_items() if pair[0].lower() not in dropped]
    if b"close" in listed or response.http_version < b"1.1":
        headers.append((b"Connection", b"close"))
    return h11.Response(
        status_code=response.status_code,
        reason=redactor.data(response.reason, tally),
        headers=_redacted(headers, redactor, tally),
    )


def _redacted(
    headers: list[tuple[bytes, bytes]], redactor: Redaction, tally: Counter[str]
) -> list[tuple[bytes, bytes]]:
    shown = [(name, redactor.data(value, tally)) for name, value in headers]
    return [(name, value) for name, value in shown if redactor.data(name, tally) == name]
