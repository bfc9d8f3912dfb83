"""Datagrams between PID 1, the kernel and its twins. SECURITY: what PID 1 reads here may be the code's."""

import json
import socket
from typing import Any, cast

_BYTES_MAX = 8192


def pair() -> "tuple[socket.socket, socket.socket]":
    """Two ends of a link."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def receive(link: socket.socket) -> "tuple[dict[str, Any], socket.socket | None]":
    """One datagram and the socket that came with it. Empty when it has ended; nonsense has no known `op`."""
    try:
        data, fds, _, _ = socket.recv_fds(link, _BYTES_MAX, 4)
    except OSError:
        return {}, None
    sockets = [socket.socket(fileno=fd) for fd in fds]
    for extra in sockets[1:]:
        extra.close()
    return _object(data), sockets[0] if sockets else None


def _object(data: bytes) -> "dict[str, Any]":
    if not data:
        return {}
    try:
        said: Any = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    return cast("dict[str, Any]", said) if isinstance(said, dict) and said else {"op": ""}


def number(said: "dict[str, Any]", name: str) -> int:
    """A member that is a number; 0 for anything else."""
    value = said.get(name)
    return value if isinstance(value, int) else 0


def numbers(said: "dict[str, Any]", name: str) -> "list[int]":
    """The numbers in a member that is a list."""
    return [value for value in _members(said, name) if isinstance(value, int)]


def texts(said: "dict[str, Any]", name: str) -> "list[str]":
    """The strings in a member that is a list, shortened."""
    return [value[:80] for value in _members(said, name) if isinstance(value, str)]


def _members(said: "dict[str, Any]", name: str) -> "list[object]":
    value = said.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []
