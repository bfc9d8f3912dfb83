"""Makes the one way out of a sandbox with a network: a listening socket on its loopback interface, held by the host.

The host accepts the connections itself, so nothing in the sandbox stands between code and the host's proxy. Runs while
the sandbox is being locked in, before any code and before its capabilities go: nobody inside can do it again.

SECURITY: the interface is the only one, no route leads anywhere else, and this process keeps no copy of the socket.
"""

import fcntl
import socket
import struct

PORT = 3128
"""The proxy's, in every sandbox with a network; the variables that the host sets name it."""

_CONNECTIONS_WAITING_MAX = 128
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_INTERFACE_FLAGS = "16sh14x"
_BOUNDS = (
    ("tcp_rmem", "4096 65536 65536"),  # memory that no rlimit counts: bounded where each socket takes it
    ("tcp_wmem", "4096 65536 65536"),
    ("tcp_max_tw_buckets", "1024"),
)


def hand_over(handover_fd: int) -> None:
    """Listen, and give the socket to the host over `handover_fd`, which is closed. Raises OSError."""
    with socket.socket(fileno=handover_fd) as handover, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        _raise_loopback(listener)
        for name, value in _BOUNDS:
            with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
                file.write(value)
        listener.bind(("127.0.0.1", PORT))
        listener.listen(_CONNECTIONS_WAITING_MAX)
        socket.send_fds(handover, [b"\0"], [listener.fileno()])


def _raise_loopback(any_socket: socket.socket) -> None:
    asked = struct.pack(_INTERFACE_FLAGS, b"lo", 0)
    _, flags = struct.unpack(_INTERFACE_FLAGS, fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
    if not flags & _IFF_UP:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_INTERFACE_FLAGS, b"lo", flags | _IFF_UP))
