"""HTTPS to the public internet only: which addresses are refused as they are written, and where names lead."""

from __future__ import annotations

import asyncio
import socket
import threading

import anyio
import httpx2
import pytest

from moonpool.core.errors import InputError
from moonpool.network.destinations import Destinations
from moonpool.network.public_http import NAMES_MAX, PublicTransport, check_public_url

pytestmark = pytest.mark.anyio
REFUSED = [
    "http://mcp.example.com/", "https://user:pw@mcp.example.com/", "https://mcp.example.com/?key=1",
    "https://mcp.example.com/#a", "https://mcp.example.com:0/", "https://", "mcp.example.com", "https://a b.example/",
    "https://127.0.0.1/", "https://127.1/", "https://0x7f.1/", "https://0x7f000001/", "https://2130706433/",
    "https://0177.0.0.1/", "https://0/", "https://10.0.0.1/", "https://172.16.0.1", "https://192.168.1.1",
    "https://169.254.169.254/latest", "https://168.63.129.16/", "https://100.64.0.1", "https://[::1]/", "https://[::]/",
    "https://[::ffff:10.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
    "https://[fc00::1]/", "https://[64:ff9b::a00:1]/", "https://[2002:7f00:1::]/", "https://localhost/",
    "https://LOCALHOST./", "https://x.localhost/", "https://metadata.google.internal/", "https://intranet/",
    "https://\u2460\u2461\u2466.0.0.1/", "https://127\u30020.0.1/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_is_not_public_is_refused_in_every_spelling(url: str) -> None:
    with pytest.raises(InputError):
        check_public_url(url)


def test_public_addresses_may_be_used() -> None:
    for url in ("https://mcp.example.com:8443/a", "https://1.1.1.1/", "https://[2606:4700::1111]/mcp"):
        check_public_url(url)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1", "fd00::1"])
async def test_a_name_that_leads_to_a_private_address_is_not_even_dialled(address: str) -> None:
    seen: list[object] = []

    async def resolve(host: str, port: int) -> list[str]:
        seen.append((host, port))
        return [address]

    with anyio.fail_after(30):
        server = await asyncio.start_server(lambda *_: seen.append("dialled"), "127.0.0.1", 0, family=socket.AF_INET)
        async with server:
            port = server.sockets[0].getsockname()[1]
            transport = PublicTransport(limits=httpx2.Limits(), destinations=Destinations(resolve=resolve))
            async with httpx2.AsyncClient(transport=transport) as client:
                for _ in range(2):  # resolved each time: it may lead elsewhere by now
                    with pytest.raises(httpx2.ConnectError, match="not on the public internet"):
                        await client.get(f"https://mcp.example.com:{port}/")
                with pytest.raises(httpx2.UnsupportedProtocol):
                    await client.get(f"http://mcp.example.com:{port}/")
    assert seen == [("mcp.example.com", port)] * 2


async def test_names_that_nobody_answers_take_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = list[str](), threading.Event()

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        answered.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with httpx2.AsyncClient(transport=PublicTransport(limits=httpx2.Limits(max_connections=None))) as client:
        with anyio.fail_after(30):
            asking = [asyncio.create_task(client.get(f"https://mcp{n}.example.com/")) for n in range(NAMES_MAX + 2)]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            answered.set()
            told = [str(error) for error in await asyncio.gather(*asking, return_exceptions=True)]
    assert (len(asked), sum("too many names" in one for one in told)) == (NAMES_MAX, 2)
