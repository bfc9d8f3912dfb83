"""The server name in the TLS ClientHello of a tunnel: it must be the host that the tunnel was opened to.

A tunnel's content is encrypted, so its name is all that shows whether it goes to the allowed domain or, through a
server that many domains share, to another one. `ServerNameCheck` holds back what the client sends until its ClientHello
is complete, compares, and lets it through unchanged. With Encrypted ClientHello only the outer name can be seen; it
counts like any other.

A server may ask for a second ClientHello (HelloRetryRequest). So what follows the first is held until the server has
answered it: a ServerHello makes way for everything, any other answer for nothing but a ClientHello, which is compared.

SECURITY: the bytes come from the sandbox. Whether a ClientHello follows is read from what the server sent, never
guessed from what the client did: servers take one in more forms than can be listed. What is held is bounded, a field
that does not fit is refused, and so is early data, which a client would send before the server has answered.
"""

from __future__ import annotations

import re
from typing import Final

HELLO_BYTES_MAX: Final = 16 * 1024
"""Of one ClientHello; real ones have up to 2 KiB, with post-quantum keys."""
_RECORDS_MAX: Final = 64  # that one ClientHello is cut into
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 16 * 1024
_HEARD_BYTES_MAX: Final = 128 * 1024
"""Of what a server sends before it has the second ClientHello that it asked for."""
_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_BETWEEN: Final = frozenset({_CHANGE_CIPHER_SPEC, _ALERT})  # records that may stand between two messages
_SERVER_NAME, _EARLY_DATA = 0, 42
_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest (RFC 8446, 4.1.3)."""
_RANDOM: Final = slice(6, 38)  # in a ServerHello
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NAME_BYTES_MAX: Final = 253


class ServerNameError(Exception):
    """The tunnel must be closed for what the client sent; the text says why and can be shown."""


class ServerAnswerError(Exception):
    """The tunnel must be closed for what the server sent."""


class ServerNameCheck:
    """One tunnel, from its first byte on. `host` is None for an address, which TLS cannot name."""

    def __init__(self, host: str | None) -> None:
        self.admitted = False  # whether the first ClientHello has passed
        self._host = host
        self._held, self._heard = bytearray(), bytearray()  # of the client, of the server
        self._message = bytearray()  # the server's answer, without the records around it
        self._awaits_hello, self._over = True, False

    def feed(self, data: bytes) -> bytes:
        """Take what the client sent; return what may be sent on, perhaps nothing yet. Raises ServerNameError."""
        if self._over:
            return data
        self._held += data
        given = b""
        if self._awaits_hello:
            begin = self._between() if self.admitted else 0
            end = self._hello(begin)
            if end > begin:
                self.admitted, self._awaits_hello = True, False
            given = bytes(self._held[:end])
            del self._held[:end]
        if not self._awaits_hello and len(self._held) > HELLO_BYTES_MAX:
            raise ServerNameError("more than a TLS ClientHello before the server answered")
        return given

    def answered(self, data: bytes) -> bytes:
        """Take what the server sent, before the client has it; return what of the client's may be sent on now.

        Raises ServerNameError, ServerAnswerError.
        """
        if self._over:
            return b""
        self._heard += data
        if not self._awaits_hello:
            try:
                self._read_answer()
            except ServerNameError:
                raise ServerAnswerError("the server's answer is not TLS") from None
        if self._over:
            self._heard.clear()
            given, self._held = bytes(self._held), bytearray()
            return given
        if len(self._heard) > _HEARD_BYTES_MAX:
            raise ServerAnswerError("the server did not wait for a second TLS ClientHello")
        return self.feed(b"")

    def _read_answer(self) -> None:
        """Take the server's records up to the end of its answer to a ClientHello, if it has come."""
        while True:
            kind, record = _record(self._heard, 0)
            if kind is not None and kind not in _BETWEEN | {_HANDSHAKE}:
                raise ServerNameError
            if record is None:
                return
            del self._heard[: _HEADER_BYTES + len(record)]
            if kind == _HANDSHAKE:
                self._message += record
                if len(self._message) >= 4 + int.from_bytes(self._message[1:4], "big"):
                    break
                if len(self._message) > HELLO_BYTES_MAX:
                    raise ServerNameError
        random = bytes(self._message[_RANDOM])
        self._over = self._message[0] == _SERVER_HELLO and len(random) == len(_RETRY) and random != _RETRY
        self._awaits_hello = not self._over
        self._message.clear()

    def _between(self) -> int:
        """Where the second ClientHello begins, behind a change of keys that means nothing, and alerts."""
        at = 0
        while True:
            kind, record = _record(self._held, at)
            if record is None or kind not in _BETWEEN:
                return at
            at += _HEADER_BYTES + len(record)

    def _hello(self, start: int) -> int:
        """Check the ClientHello whose records begin at `start`: where they end, or `start` if it is incomplete."""
        message, at = bytearray(), start
        for _ in range(_RECORDS_MAX):
            kind, record = _record(self._held, at)
            if self.admitted and at == start and kind in _BETWEEN:
                return start  # it is not whole yet
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

    def _compare(self, hello: bytes, *, more: bool) -> None:
        if more:
            raise ServerNameError("bytes behind the TLS ClientHello")
        name = _server_name(hello)
        if name != self._host:
            is_shown = name is None or (len(name) <= _NAME_BYTES_MAX and _NAME.fullmatch(name))
            named = "without a server name" if name is None else f"for {name if is_shown else 'another name'}"
            remedy = f"; the code's client must name {self._host} as the server" if self._host else ""
            raise ServerNameError(f"TLS {named}; the tunnel is for {self._host or 'an address'}{remedy}")


def _record(data: bytearray, at: int) -> tuple[int | None, bytes | None]:
    """Type and content of the record at `at`, each None until it has arrived. Raises ServerNameError."""
    header = bytes(data[at : at + _HEADER_BYTES])
    if not header:
        return None, None
    kind = header[0]
    if not _CHANGE_CIPHER_SPEC <= kind <= _APPLICATION_DATA or header[1:2] not in {b"", b"\3"}:
        raise ServerNameError("no TLS: only TLS can pass a tunnel")
    if len(header) < _HEADER_BYTES:
        return kind, None
    size = int.from_bytes(header[3:5], "big")
    if not 0 < size <= _RECORD_BYTES_MAX:
        raise ServerNameError("a TLS record of a size that none may have")
    record = bytes(data[at + _HEADER_BYTES : at + _HEADER_BYTES + size])
    return kind, record if len(record) == size else None


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
