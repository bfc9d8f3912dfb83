"""An attack on the credential that the host adds for a domain: the real TLS termination, and a server on loopback."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import judge, trouble
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe
from moonpool.network.destinations import Destinations
from moonpool.network.proxy import NetworkProxy
from moonpool.network.rules import HeaderCredential, NetworkRules, parse_domain
from moonpool.network.session_network import SessionNetwork
from moonpool.network.session_trust import SessionTrust
from moonpool.redaction.redactor import Redactor
from moonpool.sandboxes.base import CA_BUNDLE_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from ssl import SSLContext

    from moonpool.doctor.probes.record import Stage
    from moonpool.network.connections import Connection

_HOST: Final = "api.doctor.example"
_IMPOSTOR: Final = "impostor.doctor.example"  # has a credential, too, and a server that cannot prove its name
_ADDRESS: Final = "93.184.215.14"

_ASK: Final = """
import urllib.error, urllib.request
def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
answer, key = fetch("https://HOST/"), "DLROW"[::-1]
seen("answered")
if key in answer:
    note("the answer has the credential")
if "[REDACTED:CREDENTIAL]" not in answer:
    note(f"no request with the credential was answered: {answer[:200]}")
for expected, url, headers in (("403", "http://HOST/", {}), ("502", "https://IMPOSTOR/", {}),
                               ("421", "https://HOST/", {"Host": "IMPOSTOR"})):
    seen(expected)
    if (status := fetch(url, **headers)) != expected:
        note(f"{url} {headers} was answered {status[:100]}")
bundle = os.environ["SSL_CERT_FILE"]
attempt("the bundle", lambda: os.open(bundle, os.O_WRONLY), "EROFS", "EACCES")
for name, text in {bundle: open(bundle).read(), **os.environ}.items():
    if "PRIVATE KEY" in text or key in text:
        note(f"a key is in {name}")
"""


@dataclass(frozen=True)
class _Server:
    """Answers every request with its own head, over TLS, and keeps it."""

    context: SSLContext
    heads: list[str] = field(default_factory=list[str])
    port: list[int] = field(default_factory=list[int])

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self.port.append(server.sockets[0].getsockname()[1])
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(head), head))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def resolve(self, host: str, port: int) -> list[str]:
        del host, port
        return [_ADDRESS]

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        del address, port
        return await asyncio.open_connection("127.0.0.1", self.port[0])


async def _record(connection: Connection) -> None:
    """No real connection is made, so none is on record."""
    del connection


async def _credential(stage: Stage) -> Finding:
    """The server gets the credential once, the code never."""
    # Imported here: `cryptography` takes as long to import as a sandbox to start.
    from moonpool.network.session_ca import SessionAuthority  # noqa: PLC0415

    public = SessionAuthority([_HOST], roots=b"")  # stands for an authority that everybody trusts
    server, key = _Server(public.server_context(_HOST)), f"doctor-{secrets.token_hex(16)}"
    credential = HeaderCredential("Authorization", f"Bearer {key}")
    sandbox = await stage.open_sandbox(network=True)
    if sandbox.listener is None:
        return Finding(blocked=False, detail="a sandbox with a network has no listener")
    with tempfile.TemporaryDirectory(prefix="moonpool-doctor-") as folder:
        roots = Path(folder) / "roots.pem"
        await asyncio.to_thread(roots.write_bytes, public.bundle())
        trust = SessionTrust(roots, Redactor.of_values)
        bundle = await asyncio.to_thread(trust.bundle, (_HOST, _IMPOSTOR))
    await asyncio.to_thread(sandbox.show_file, CA_BUNDLE_NAME, bundle)
    network = SessionNetwork(
        rules=NetworkRules(tuple(parse_domain(host, credential) for host in (_HOST, _IMPOSTOR))),
        record=_record,
        destinations=Destinations(resolve=server.resolve, dial=server.dial),
        forward=trust.forward,
    )
    proxy = NetworkProxy(network, sandbox.listener)
    try:
        async with server.running():
            program = _ASK.replace("HOST", _HOST).replace("IMPOSTOR", _IMPOSTOR).replace("DLROW", key[::-1])
            heard = await stage.run(sandbox, program)
    finally:
        await proxy.close()
    if found := trouble(heard):
        return found
    with_key = [head for head in server.heads if f"Authorization: Bearer {key}\r\n" in head]
    if (len(with_key), len(server.heads)) != (1, 1):
        detail = f"the server had {len(server.heads)} requests, {len(with_key)} with the credential, instead of one"
        return Finding(blocked=False, detail=detail)
    return judge(heard)


CREDENTIALS: Final[tuple[AnyProbe, ...]] = (
    HostProbe(
        probe_id="credential-value",
        claim="C-SEC-4",
        title="with a credential for a domain: learn its value, send it elsewhere or in clear, find a key",
        play=_credential,
    ),
)
