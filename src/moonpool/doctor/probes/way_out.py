"""Attacks from sandboxes with a network: on the one way out that they have, and around it."""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import judge, trouble
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe
from moonpool.network.destinations import Destinations
from moonpool.network.proxy import NetworkProxy
from moonpool.network.rules import NetworkRules, parse_domain
from moonpool.network.session_network import SessionNetwork

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Stage
    from moonpool.network.connections import Connection

_SOCKETS: Final = """
for family in (2, 10):
    for kind, protocol in ((2, 0), (3, 1), (3, 255), (5, 132), (1, 132), (1, 256), (1, 262), (4, 0), (6, 0), (10, 0)):
        attempt(f"{family} {kind} {protocol}", lambda: socket.socket(family, kind, protocol).close(), "EAFNOSUPPORT")
    attempt(f"pair {family}", lambda: socket.socketpair(family, 1), "EAFNOSUPPORT")
for family in (3, 4, 5, 9, 15, 16, 17, 21, 26, 27, 29, 30, 31, 38, 39, 40, 41, 42, 43, 44, 45):
    for kind in (1, 2, 3, 5):
        attempt(f"{family} {kind}", lambda: socket.socket(family, kind).close(), "EAFNOSUPPORT", "EPERM")
for level, option in ((1, 7), (1, 8), (1, 26), (1, 33), (1, 60), (0, 64), (0, 35), (41, 64), (6, 31), (6, 19), (6, 13)):
    attempt(f"option {level} {option}", lambda: socket.socket().setsockopt(level, option, 1 << 20),
            "EPERM", "ENOPROTOOPT")
for name in ("tcp_rmem", "ip_forward"):
    attempt(name, lambda: write(f"/proc/sys/net/ipv4/{name}", "1"), "ENOENT", "EACCES", "EROFS", "EPERM")
"""

_REACH: Final = """
for where in (("1.1.1.1", 443), ("169.254.169.254", 80), ("10.0.0.1", 80), ("192.168.0.1", 80), ("172.17.0.1", 80)):
    attempt(str(where), lambda: socket.create_connection(where, timeout=3).close(), "ENETUNREACH", "EACCES")
attempt("6", lambda: socket.create_connection(("2606:4700::1111", 443), timeout=3).close(),
        "ENETUNREACH", "EADDRNOTAVAIL")
attempt("the host's loopback", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=3).close(), "ECONNREFUSED")
def abstract():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\\0NAME")
attempt("the host's abstract socket", abstract, "ECONNREFUSED")
attempt("the proxy's own port", lambda: socket.create_server(("127.0.0.1", 3128)), "EADDRINUSE")
names = [line.split(":")[0].strip() for line in open("/proc/self/net/dev").read().splitlines()[2:]]
if set(names) - {"lo"}:
    note(f"interfaces {names}")
if len(routes := open("/proc/self/net/route").read().splitlines()) > 1:
    note(f"{len(routes) - 1} routes")
"""

_ASK: Final = r"""
def ask(request, more=b""):
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", 3128), timeout=20) as one:
            one.sendall(request)
            while piece := one.recv(65536):
                answer += piece
                if more and answer.endswith(b"\r\n\r\n"):
                    one.sendall(more)
                    more = b""
    except OSError:
        pass
    status = int((answer.split(b" ", 2) + [b"0", b"0"])[1])
    seen(str(status))
    if status == 200 and not (more == b"" and answer.endswith(b"\r\n\r\n")):
        note(f"{request[:60]} was answered {answer[:60]}")
    return status

for host in ("evil.example", "allowed.example.evil.example", "127.0.0.1", "169.254.169.254", "[::1]",
             "[::ffff:127.0.0.1]", "localhost", "127.1", "2130706433", "0x7f.1", "allowed.example@127.0.0.1",
             "allowed.example\\.evil.example"):
    for port in (80, 443, 22):
        ask(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: allowed.example\r\n\r\n".encode())
    ask(f"GET http://{host}/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n".encode())
ask(b"CONNECT allowed.example:22 HTTP/1.1\r\nHost: x\r\n\r\n")
ask(b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
for name in ("loopback", "metadata", "private", "mapped"):  # allowed, and lead inside
    ask(f"CONNECT {name}.inside.example:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    ask(f"GET http://{name}.inside.example/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
ask(b"CONNECT allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n")
ask(b"x" * 100_000)
"""

_ASKED: Final = 60  # connections; of each there is a record
_INSIDE: Final = {
    "loopback": "127.0.0.1", "metadata": "169.254.169.254", "private": "10.0.0.1", "mapped": "::ffff:10.0.0.1",
}  # fmt: skip


async def _sockets(stage: Stage) -> Finding:
    return judge(await stage.run(await stage.open_sandbox(network=True), _SOCKETS))


async def _around(stage: Stage) -> Finding:
    """Past the proxy: to listeners of this machine, and to addresses outside."""
    sandbox, name = await stage.open_sandbox(network=True), f"mp{secrets.token_hex(6)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        program = _REACH.replace("PORT", str(tcp.getsockname()[1])).replace("NAME", name)
        return judge(await stage.run(sandbox, program))


class _Outside:
    """Stands for all that is outside: says where names lead, remembers who was dialled, answers nothing."""

    def __init__(self) -> None:
        self.dialled: list[str] = []
        self.records: list[Connection] = []
        self.sent = bytearray()

    async def resolve(self, host: str, port: int) -> list[str]:
        del port
        return [_INSIDE.get(host.partition(".")[0], "93.184.215.14")]

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append(f"{address}:{port}")
        ours, theirs = socket.socketpair()
        asyncio.ensure_future(self._hear(theirs))  # noqa: RUF006  ends with the connection
        return await asyncio.open_connection(sock=ours)

    async def _hear(self, theirs: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=theirs)
        self.sent += await reader.read(-1)
        writer.close()

    async def record(self, connection: Connection) -> None:
        self.records.append(connection)


async def _through(stage: Stage) -> Finding:
    """Through the proxy, to what its rules do not allow."""
    sandbox, outside = await stage.open_sandbox(network=True), _Outside()
    if sandbox.listener is None:
        return Finding(blocked=False, detail="a sandbox with a network has no listener")
    network = SessionNetwork(
        rules=NetworkRules(tuple(map(parse_domain, ("allowed.example", "*.inside.example")))),
        record=outside.record,
        destinations=Destinations(resolve=outside.resolve, dial=outside.dial),
    )
    proxy = NetworkProxy(network, sandbox.listener)
    try:
        heard = await stage.run(sandbox, _ASK)
    finally:
        await proxy.close()
    if found := trouble(heard):
        return found
    problems = [
        text
        for text, is_so in (
            (f"dialled {outside.dialled}", outside.dialled != ["93.184.215.14:443"]),
            (f"{bytes(outside.sent[:60])!r} went out", bool(outside.sent)),
            (f"only {len(outside.records)} records", len(outside.records) < _ASKED),
        )
        if is_so
    ]
    return Finding(blocked=False, detail="; ".join(problems)) if problems else judge(heard)


WAY_OUT: Final[tuple[AnyProbe, ...]] = (
    HostProbe(
        probe_id="way-out-sockets",
        claim="C-NET-3",
        title="with a network: open a socket other than TCP, or take memory by its options",
        play=_sockets,
    ),
    HostProbe(
        probe_id="way-out-around",
        claim="C-NET-3",
        title="with a network: reach this machine, a neighbour or the internet without the proxy",
        play=_around,
    ),
    HostProbe(
        probe_id="way-out-through",
        claim="C-NET-4",
        title="with a network: reach through the proxy what the session does not allow",
        play=_through,
    ),
)
