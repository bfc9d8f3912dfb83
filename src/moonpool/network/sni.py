"""The server name in the TLS ClientHello of a tunnel: it must be the host that the tunnel was opened to.

A tunnel's content is encrypted, so its name is all that shows whether it goes to the allowed domain or, through a
server that many domains share, to another one. `ServerNameCheck` holds back what the client sends until its ClientHello
is complete, compares, and lets it through unchanged. A second ClientHello, which a server may ask for
(HelloRetryRequest), is compared as well. With Encrypted ClientHello only the outer name can be seen; it counts like
any other.

SECURITY: the bytes come from the sandbox. What is held is bounded, a field that does not fit is refused, and so is
early data: without it, one record shows whether a second ClientHello follows the first.
"""

from __future__ import annotations

import re
from typing import Final

HELLO_BYTES_MAX: Final = 16 * 1024
"""Of one ClientHello; real ones have up to 2 KiB, with post-quantum keys."""
_RECORDS_MAX: Final = 64  # that one ClientHello is cut into
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 16 * 1024
_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO: Final = 1
_SERVER_NAME, _EARLY_DATA = 0, 42
_ENCRYPTED_BYTES_MIN: Final = 32  # of an encrypted handshake message of TLS 1.2
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NAME_BYTES_MAX: Final = 253


class ServerNameError(Exception):
    """The tunnel must be closed; the text says why and can be shown."""


class ServerNameCheck:
    """The client's half of one tunnel, from its first byte on. `host` is None for an address, which TLS cannot name."""

    def __init__(self, host: str | None) -> None:
        self.admitted = False  # whether the first ClientHello has passed
        self._host = host
        self._held = bytearray()
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """Take what the client sent; return what may be sent on, perhaps nothing yet. Raises ServerNameError."""
        if self._over:
            return data
        self._held += data
        if not self.admitted:
            end = self._hello(0)
            self.admitted = end > 0
        else:
            end = 0
        if self.admitted:
            end = self._after_first(end)
        given = bytes(self._held[:end])
        del self._held[:end]
        return given

    def _after_first(self, at: int) -> int:
        """The end of what may be sent on of what follows the first ClientHello, from `at` on."""
        while True:
            if not self._may_be_tls(at):  # which no server takes for a ClientHello
                self._over = True
                return len(self._held)
            kind, record = self._record(at)
            if record is None:
                return at
            if kind == _HANDSHAKE and _may_be_hello(record):
                end = self._hello(at)
                self._over = end > at
                return len(self._held) if self._over else at
            at += _HEADER_BYTES + len(record)
            if kind in {_HANDSHAKE, _APPLICATION_DATA}:  # the handshake goes on: no other ClientHello can follow
                self._over = True
                return len(self._held)

    def _hello(self, start: int) -> int:
        """Check the ClientHello whose records begin at `start`: where they end, or `start` if it is incomplete."""
        message, at = bytearray(), start
        for _ in range(_RECORDS_MAX):
            kind, record = self._record(at)
            if kind is not None and kind != _HANDSHAKE:
                raise ServerNameError("no TLS handshake: only TLS can pass a tunnel")
            if record is None:
                return start
            message += record
            at += _HEADER_BYTES + len(record)
            if message[0] != _CLIENT_HELLO:
                raise ServerNameError("no TLS ClientHello: only TLS can pass a tunnel")
            size = 4 + int.from_bytes(message[1:4], "big")
            if len(message) >= 4 and size > HELLO_BYTES_MAX:
                raise ServerNameError(f"a TLS ClientHello of more than {HELLO_BYTES_MAX} bytes")
            if len(message) >= max(size, 4):
                self._compare(bytes(message[4:size]), more=len(message) > size)
                return at
        raise ServerNameError(f"a TLS ClientHello in more than {_RECORDS_MAX} records")

    def _may_be_tls(self, at: int) -> bool:
        """False if no record can begin at `at`."""
        header = self._held[at : at + 2]
        known = not header or _CHANGE_CIPHER_SPEC <= header[0] <= _APPLICATION_DATA
        return known and (len(header) < 2 or header[1] == 3)

    def _record(self, at: int) -> tuple[int | None, bytes | None]:
        """Type and content of the record at `at`, each None until it has arrived. Raises ServerNameError."""
        header = self._held[at : at + _HEADER_BYTES]
        if not header:
            return None, None
        if not self._may_be_tls(at):
            raise ServerNameError("no TLS: only TLS can pass a tunnel")
        kind = header[0]
        if len(header) < _HEADER_BYTES:
            return kind, None
        size = int.from_bytes(header[3:5], "big")
        if kind == _APPLICATION_DATA:
            return kind, b""  # it is not looked at
        if not 0 < size <= _RECORD_BYTES_MAX:
            raise ServerNameError("a TLS record of a size that none may have")
        record = bytes(self._held[at + _HEADER_BYTES : at + _HEADER_BYTES + size])
        return kind, record if len(record) == size else None

    def _compare(self, hello: bytes, *, more: bool) -> None:
        if more:
            raise ServerNameError("bytes behind the TLS ClientHello")
        name = _server_name(hello)
        if name != self._host:
            is_shown = name is None or (len(name) <= _NAME_BYTES_MAX and _NAME.fullmatch(name))
            named = "without a server name" if name is None else f"for {name if is_shown else 'another name'}"
            raise ServerNameError(f"TLS {named}; the tunnel is for {self._host or 'an address'}")


def _may_be_hello(record: bytes) -> bool:
    """False if `record` cannot begin a ClientHello that is small enough, but an encrypted message."""
    if len(record) < _ENCRYPTED_BYTES_MIN:
        return record[0] == _CLIENT_HELLO
    return record[0] == _CLIENT_HELLO and record[1] == 0 and record[4] == 3


def _server_name(hello: bytes) -> str | None:
    """The name in a ClientHello in lower case, None without one. Raises ServerNameError."""
    fields = _Fields(hello)
    fields.take(2 + 32)  # version and random
    fields.vector(1)  # session
    fields.vector(2)  # cipher suites
    fields.vector(1)  # compression
    if not fields.left:
        return None
    extensions = _Fields(fields.vector(2))
    fields.end()
    found: dict[int, bytes] = {}
    while extensions.left:
        kind = int.from_bytes(extensions.take(2), "big")
        if kind in found:
            raise ServerNameError("a TLS ClientHello with an extension twice")
        found[kind] = extensions.vector(2)
    if _EARLY_DATA in found:
        raise ServerNameError("TLS early data, which cannot be checked")
    return _name_in(found[_SERVER_NAME]) if _SERVER_NAME in found else None


def _name_in(extension: bytes) -> str:
    fields = _Fields(extension)
    names = _Fields(fields.vector(2))
    fields.end()
    kind = names.take(1)
    name = names.vector(2)
    names.end()  # one name: of several the server might take another one
    if kind != b"\0" or not name:
        raise ServerNameError("a TLS server name of an unknown kind")
    return name.decode("latin-1").lower()


class _Fields:
    """Reads fields of a TLS message one after the other. Every method raises ServerNameError if they do not fit."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise ServerNameError("a TLS ClientHello whose fields do not fit")
        self._at += size
        return self._data[self._at - size : self._at]

    def vector(self, length_bytes: int) -> bytes:
        return self.take(int.from_bytes(self.take(length_bytes), "big"))

    def end(self) -> None:
        if self.left:
            raise ServerNameError("a TLS ClientHello whose fields do not fit")
