"""Results sent to receivers over TLS: signed, tried again, given up, and where they do not go. Real receivers."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from moonpool.bootstrap import sandbox_runs
from moonpool.features.webhooks import delivering, model
from moonpool.network import resolving
from network.tls_hosts import running, signer
from server.sandbox_services import CALLERS, as_caller, begin, ended, get, sandbox_serving
from server.services import caller
from waiting import until, until_true

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from moonpool.features.webhooks.model import Delivery
    from network.tls_hosts import Server, Talk
    from server.services import OpenService

pytestmark = pytest.mark.anyio
HOST = "hooks.example.com"
LISTED = {"webhook_private_hosts": "127.0.0.1/32, other.internal"}


@dataclass
class Receiver:
    """Answers with `statuses`, then with 204; keeps what it was sent."""

    statuses: list[int] = field(default_factory=list[int])
    sent: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    server: Server | None = None

    async def __call__(self, talk: Talk) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in talk.request.headers}
        self.sent.append((headers, await talk.body()))
        status = self.statuses.pop(0) if self.statuses else 204
        await talk.answer(b"x" * 100_000 if status == 500 else b"", status, Location=f"https://{HOST}/elsewhere")

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"https://{HOST}:{self.server.port}/hook?token=t"


@asynccontextmanager
async def receiving(folder: Path, *statuses: int, signed_by: str = "public") -> AsyncGenerator[Receiver]:
    receiver = Receiver(list(statuses))
    async with running(receiver, signer(signed_by).context(folder, HOST)) as receiver.server:
        yield receiver


@pytest.fixture(autouse=True)
def quick_and_near(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Attempts follow each other at once, the tests' authority is trusted, and names lead to this machine."""
    roots = tmp_path / "roots.pem"
    roots.write_bytes(signer("public").roots)
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    monkeypatch.setattr(model, "AFTER_S", (0.0,) * 5)
    monkeypatch.setattr(delivering, "POLL_S", 0.05)
    found = delivering.webhook_destinations

    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        return ["127.0.0.1"]

    monkeypatch.setattr(sandbox_runs, "webhook_destinations", lambda listed: replace(found(listed), resolve=resolve))


async def sent_to(service: OpenService, url: str, code: str = "print(1)", *, until_is: str = "delivered") -> Any:
    """The record of an execution whose webhook has come to this state."""
    trace_id = await begin(service, code, webhook_url=url)
    await ended(service, trace_id)

    async def is_so() -> bool:
        return (await get(service, f"/{trace_id}")).json()["webhook_delivery_status"] == until_is

    await until_true(is_so)
    return (await get(service, f"/{trace_id}")).json()


async def test_a_result_is_sent_signed(tmp_path: Path) -> None:
    async with receiving(tmp_path) as receiver, sandbox_serving(tmp_path, **LISTED) as service:
        record = await sent_to(service, receiver.url, "print('é')")
        admin = as_caller("admin")
        secret = (await service.http.get("/v1/webhooks/secret", headers=admin)).json()["secret"]
        ((headers, body),) = receiver.sent
        assert receiver.server is not None
        target = receiver.server.requests[0].target

    signed = f"{headers['x-webhook-id']}.{headers['x-webhook-timestamp']}.".encode() + body
    assert headers["x-webhook-signature"] == f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
    assert abs(int(headers["x-webhook-timestamp"]) - time.time()) < 600
    assert headers["content-type"] == "application/json"
    assert target == b"/hook?token=t"
    assert json.loads(body) == {**record, "webhook_delivery_status": "pending"}
    assert (record["status"], record["stdout"]) == ("success", "é\n")


async def test_a_receiver_that_fails_is_asked_again(tmp_path: Path) -> None:
    async with receiving(tmp_path, 500, 302) as receiver, sandbox_serving(tmp_path, **LISTED) as service:
        await sent_to(service, receiver.url)
        assert receiver.server is not None
        targets = {request.target for request in receiver.server.requests}

    assert len(receiver.sent) == 3
    assert len({headers["x-webhook-id"] for headers, _ in receiver.sent}) == 1
    assert len({body for _, body in receiver.sent}) == 1
    assert targets == {b"/hook?token=t"}


async def test_a_receiver_that_goes_on_failing_is_given_up(tmp_path: Path) -> None:
    async with receiving(tmp_path, *[503] * 9) as receiver, sandbox_serving(tmp_path, **LISTED) as service:
        record = await sent_to(service, receiver.url, until_is="failed")

    assert len(receiver.sent) == 6
    assert record["status"] == "success"


async def test_private_addresses_are_not_even_connected_to(tmp_path: Path) -> None:
    async with receiving(tmp_path) as receiver, sandbox_serving(tmp_path) as service:
        await sent_to(service, receiver.url, until_is="failed")
        assert receiver.server is not None
        assert receiver.server.connections == 0


async def test_who_cannot_prove_to_be_the_receiver_is_sent_nothing(tmp_path: Path) -> None:
    async with receiving(tmp_path, signed_by="other") as receiver, sandbox_serving(tmp_path, **LISTED) as service:
        await sent_to(service, receiver.url, until_is="failed")

    assert receiver.sent == []


async def test_what_is_owed_survives_a_restart_and_is_sent_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving(tmp_path) as receiver:
        with monkeypatch.context() as patched:
            patched.setattr(delivering, "AT_ONCE_MAX", 0)
            async with sandbox_serving(tmp_path, **LISTED) as service:
                owed = await begin(service, "print(1)", webhook_url=receiver.url)
                assert (await ended(service, owed))["webhook_delivery_status"] == "pending"
                runs = await begin(service, "import time\ntime.sleep(600)", webhook_url=receiver.url)
        async with sandbox_serving(tmp_path, **LISTED) as service:
            with anyio.fail_after(60):
                await until(lambda: len(receiver.sent) >= 2)
                records = {one: (await get(service, f"/{one}")).json() for one in (owed, runs)}
    sent = {json.loads(body)["trace_id"]: json.loads(body)["status"] for _, body in receiver.sent}

    assert len(receiver.sent) == 2
    assert sent == {owed: "success", runs: "cancelled"}
    assert records[runs]["status"] == "cancelled"


async def test_the_secret_is_an_organisations_own_and_can_be_replaced(tmp_path: Path) -> None:
    callers = CALLERS | {"other": caller("other", "acme")}
    async with sandbox_serving(tmp_path, callers) as service:
        secrets = [
            (await service.http.request(method, "/v1/webhooks/secret", headers=as_caller(who))).json()["secret"]
            for method, who in [("GET", "admin")] * 2 + [("POST", "admin"), ("GET", "admin"), ("GET", "other")]
        ]
    stored = (tmp_path / "private" / "service.sqlite3").read_bytes()

    assert secrets[0] == secrets[1] != secrets[2] == secrets[3]
    assert secrets[4] not in secrets[:4]
    assert all(one.startswith("whsec_") and one.encode() not in stored for one in secrets)


@dataclass
class Owed:
    """What a `Deliverer` works on: two organisations' deliveries, and how each ended."""

    waiting: list[Delivery]
    settled: dict[str, bool] = field(default_factory=dict[str, bool])

    async def is_empty(self) -> bool:
        return not self.waiting

    async def claim(self, count: int, busy: object, own_max: int) -> list[Delivery]:
        del busy, own_max
        claimed, self.waiting = self.waiting[:count], self.waiting[count:]
        return claimed

    async def settle(self, delivery: Delivery, *, is_delivered: bool) -> None:
        self.settled[delivery.delivery_id] = is_delivered

    async def secret(self, organisation: str) -> str:
        return organisation


@asynccontextmanager
async def delivering_owed(*owed: tuple[str, str]) -> AsyncGenerator[Owed]:
    """`owed`: organisations and addresses."""
    waiting = [
        model.Delivery(organisation=of, delivery_id=f"{number}", trace_id="trc_1", url=url, attempts=0)
        for number, (of, url) in enumerate(owed)
    ]
    has: Any = Owed(waiting)

    async def body_of(organisation: str, trace_id: str) -> bytes:
        return f"{organisation} {trace_id}".encode()

    listed = delivering.webhook_destinations(model.PrivateHosts.parse("127.0.0.1"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(delivering.Deliverer(has, has, body_of, listed).run)
        yield has
        tasks.cancel_scope.cancel()


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Names that nobody answers for, below `silent.test`; all others lead to this machine."""
    end = threading.Event()

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        if host.endswith(".silent.test"):
            end.wait(120)
            raise OSError("nobody answered")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(resolving.socket, "getaddrinfo", getaddrinfo)
    yield
    end.set()


@pytest.mark.claim("C-TEN-3")
@pytest.mark.usefixtures("silent_names")
async def test_name_servers_that_do_not_answer_hold_up_their_own_organisation_only(tmp_path: Path) -> None:
    silent = [("noisy", f"https://{number}.silent.test/") for number in range(7)]
    async with receiving(tmp_path) as receiver, delivering_owed(*silent, ("acme", receiver.url)) as owed:
        await until(lambda: owed.settled)

    assert owed.settled == {"7": True}
    assert [body for _, body in receiver.sent] == [b"acme trc_1"]


@pytest.mark.usefixtures("silent_names")
async def test_an_answer_that_never_comes_to_its_end_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "ATTEMPT_S", 600)

    async def flood(talk: Talk) -> None:
        while True:
            await talk.interim(103)
            await anyio.lowlevel.checkpoint()

    async with (
        running(flood, signer("public").context(tmp_path, HOST)) as server,
        delivering_owed(("acme", f"https://{HOST}:{server.port}/")) as owed,
    ):
        await until(lambda: owed.settled)

    assert owed.settled == {"0": False}
