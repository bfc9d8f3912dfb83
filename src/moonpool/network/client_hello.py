"""The server name in the first message of TLS. Pure: bytes in, name out.

A tunnel carries what the host cannot read; that it is TLS for the domain that was allowed is what can be seen of it.
"""

from __future__ import annotations

from typing import Final

HELLO_BYTES_MAX: Final = 32 * 1024
"""A ClientHello with its record headers; real ones have below 4 KiB, those with long tickets below 20."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0


class NotTlsError(Exception):
    """The bytes do not begin with a ClientHello that can be read."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise NotTlsError
        self._at += count
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))

    @property
    def more(self) -> bool:
        return self._at < len(self._data)


def server_name(data: bytes) -> tuple[bool, str]:
    """Whether all of the ClientHello has arrived, and the name in it in lower case, "" without one.

    Raises NotTlsError as soon as the bytes cannot become one.
    """
    hello = b""
    at = 0
    while at < len(data):
        header = data[at : at + 5]
        if header[0] != _HANDSHAKE or (len(header) > 1 and header[1] != 3):
            raise NotTlsError
        if len(header) < 5:
            break
        length = int.from_bytes(header[3:5])
        if not 0 < length <= 16_384:
            raise NotTlsError
        hello += data[at + 5 : at + 5 + length]
        at += 5 + length
        if hello and hello[0] != _CLIENT_HELLO:
            raise NotTlsError
        if len(hello) >= 4 and len(hello) >= (end := 4 + int.from_bytes(hello[1:4])):
            return True, _name_of(hello[4:end])
    if len(data) >= HELLO_BYTES_MAX:
        raise NotTlsError
    return False, ""


def _name_of(body: bytes) -> str:
    reader = _Reader(body)
    reader.take(2 + 32)  # version, random
    reader.vector(1)  # session id
    reader.vector(2)  # cipher suites
    reader.vector(1)  # compression
    if not reader.more:
        return ""
    extensions = _Reader(reader.vector(2))
    names: list[str] = []
    while extensions.more:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names.append(_host_name(content))
    if len(names) > 1:  # which one a server takes, nobody knows
        raise NotTlsError
    return names[0] if names else ""


def _host_name(content: bytes) -> str:
    entries = _Reader(_Reader(content).vector(2))
    kind, name = entries.number(1), entries.vector(2)
    if kind != _HOST_NAME or entries.more:
        raise NotTlsError
    try:
        return name.decode("ascii").lower()
    except UnicodeDecodeError:
        raise NotTlsError from None
