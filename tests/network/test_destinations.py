"""Addresses: what the host refuses to dial, whatever name leads there."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.destinations import Destinations, is_public
from moonpool.network.resolving import Resolver
from tables import every_row

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

pytestmark = pytest.mark.anyio

PUBLIC = ["1.1.1.1", "93.184.215.14", "100.63.255.255", "172.32.0.1", "223.255.255.255", "2606:4700::1111", "2a00::1"]
NOT_PUBLIC = [
    "", "example.com", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:1.1.1.1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a00:1",
    "64:ff9b:1::1", "100::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
    "2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "4000::1",
    "2606:4700::1111%eth0", "::ffff:0:10.0.0.1", "::ffff:a00:1", "::10.0.0.1", "64:ff9b::1.1.1.1", "2002:a00:1::1",
    "2001:0:a00:1::", "fec0::a", "10.0.0.1%lo", "010.0.0.1", "10.1", "0x0a000001", "[2606:4700::1111]",
    "2606:4700::1111.",
]  # fmt: skip


@every_row(("address", "public"), [(one, True) for one in PUBLIC] + [(one, False) for one in NOT_PUBLIC])
def test_only_the_public_internet_is_public(address: str, public: bool) -> None:
    assert is_public(address) is public


class Net:
    """Names and who answers at which address; remembers what was asked and dialled."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.resolved = 0
        self.dialled: list[str] = []

    async def resolve(self, _host: str, _port: int) -> list[str]:
        self.resolved += 1
        return self._answers.pop(0)

    async def dial(self, address: str, _port: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append(address)
        raise ConnectionRefusedError

    def destinations(self) -> Destinations:
        return Destinations(resolve=self.resolve, dial=self.dial)


async def _refused(net: Net, **options: bool) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        await net.destinations().connect("example.com", 443, **options)
    return refused.value


async def test_the_address_that_was_checked_is_the_one_that_is_dialled_and_the_name_is_asked_for_once() -> None:
    net = Net(["93.184.215.14"], ["127.0.0.1"])
    assert (await _refused(net)).outcome is Outcome.UNREACHABLE
    assert (net.resolved, net.dialled) == (1, ["93.184.215.14"])
    again = await _refused(net)  # the name leads elsewhere now
    assert (again.outcome, again.address, net.dialled) == (Outcome.ADDRESS_REFUSED, "127.0.0.1", ["93.184.215.14"])


async def test_of_mixed_addresses_only_the_public_ones_are_dialled() -> None:
    net = Net(["10.0.0.1", "93.184.215.14", "::1", "fd00::1"])
    await _refused(net)
    assert net.dialled == ["93.184.215.14"]


async def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Net):
        async def dial(self, address: str, _port: int) -> tuple[StreamReader, StreamWriter]:
            self.dialled.append(address)
            if len(self.dialled) == 1:
                await asyncio.Event().wait()
            raise ConnectionRefusedError

    monkeypatch.setattr("moonpool.network.destinations._ADDRESS_S", 0.01)
    net = Silent(["2606:4700::1111", "93.184.215.14"])
    assert (await _refused(net)).text == "example.com cannot be reached on port 443"
    assert net.dialled == ["2606:4700::1111", "93.184.215.14"]


async def test_an_index_may_be_private_but_no_metadata_service() -> None:
    for address in ("10.1.2.3", "127.0.0.1", "fd00::1"):
        net = Net([address])
        assert (await _refused(net, allow_private=True)).outcome is Outcome.UNREACHABLE
        assert net.dialled == [address]
    metadata = (
        "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fe80::1", "fe80::1%lo",
        "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "::ffff:169.254.169.254", "::169.254.169.254",
        "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "::ffff:0:169.254.169.254", "a name",
    )  # fmt: skip
    for address in metadata:
        net = Net([address])
        assert (await _refused(net, allow_private=True)).outcome is Outcome.ADDRESS_REFUSED
        assert net.dialled == []


async def test_an_address_of_this_machine_is_refused_though_it_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    class Routed(socket.socket):
        def connect(self, address: tuple[str, int]) -> None:
            self.asked = address[0]

        def getsockname(self) -> tuple[str, int]:
            return (self.asked, 1)

    monkeypatch.setattr(socket, "socket", Routed)
    net = Net(["93.184.215.14"])
    assert (await _refused(net)).outcome is Outcome.ADDRESS_REFUSED
    assert net.dialled == []


async def test_names_that_are_never_answered_take_a_bounded_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    release, asked = threading.Event(), threading.Semaphore(0)

    def slow(*_: object, **__: object) -> list[object]:
        asked.release()
        release.wait(30)
        return [(2, 1, 6, "", ("93.184.215.14", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    resolver = Resolver(threads_max=2)
    waiting = [asyncio.ensure_future(resolver("example.com", 443)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RefusedError) as refused:
        await resolver("example.com", 443)
    assert refused.value.outcome is Outcome.TOO_MANY
    waiting[0].cancel()  # whoever asked has gone, the thread has not
    await asyncio.gather(waiting[0], return_exceptions=True)
    with pytest.raises(RefusedError):
        await resolver("example.com", 443)
    release.set()
    assert await waiting[1] == ["93.184.215.14"]


async def test_names_of_one_session_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    asked: list[str] = []

    def slow(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        if host == "slow.example":
            release.wait(30)
        return [(2, 1, 6, "", ("93.184.215.14", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    shared = Destinations()
    one, other = (shared.for_session().resolve for _ in range(2))
    waiting = [asyncio.ensure_future(one("slow.example", 443)) for _ in range(40)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # whoever asked has gone, the thread has not
    assert await other("example.com", 443) == ["93.184.215.14"]
    assert (asked.count("slow.example"), asked.count("example.com")) == (8, 1)
    release.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [one.result() for one in waiting[1:]] == [["93.184.215.14"]] * 39
    assert asked.count("slow.example") == 40
