"""Webhooks of the SDK's `execute_webhook` to a real TLS receiver, across restarts; when the SDK may try again."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync
from baponi import RateLimitError

from from_baponi.clients import sdk
from from_baponi.service import make_key, serving_baponi
from network.tls_hosts import running, signer
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from from_baponi.clients import Client
    from from_baponi.service import BaponiService
    from network.tls_hosts import Server, Talk
    from service_stores import Stores

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.filterwarnings("ignore:Base URL")]


@dataclass
class Receiver:
    """Answers with `statuses`, then with 204."""

    statuses: list[int] = field(default_factory=list[int])
    sent: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    server: Server | None = None

    async def __call__(self, talk: Talk) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in talk.request.headers}
        self.sent.append((headers, await talk.body()))
        await talk.answer(b"", self.statuses.pop(0) if self.statuses else 204)

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"https://localhost:{self.server.port}/hook"


@asynccontextmanager
async def received(folder: Path, stores: Stores, *statuses: int) -> AsyncGenerator[tuple[Receiver, BaponiService]]:
    roots, receiver = folder / "roots.pem", Receiver(list(statuses))
    roots.write_bytes(signer("public").roots)
    listed = {"SSL_CERT_FILE": str(roots), "MOONPOOL_WEBHOOK_PRIVATE_HOSTS": "localhost"}
    async with running(receiver, signer("public").context(folder, "localhost")) as receiver.server:
        opened = serving_baponi(folder, stores=stores, **listed)
        service = await run_sync(opened.__enter__)
        try:
            yield receiver, service
        finally:
            await run_sync(opened.__exit__, None, None, None)


def begin(service: BaponiService, receiver: Receiver, code: str) -> str:
    with sdk("sync", service.url, service.key) as client:
        return client.execute_webhook(code, webhook_url=receiver.url).trace_id


def secret_of(service: BaponiService) -> str:
    key = make_key(service.folder, "--scope", "admin", stores=service.stores)
    headers = {"authorization": f"Bearer {key}"}
    return (
        httpx.get(f"{service.url}/v1/webhooks/secret", headers=headers, timeout=60).raise_for_status().json()["secret"]
    )


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "kill -9"])
async def test_a_result_is_signed_tried_again_and_sent_after_a_restart(
    tmp_path: Path, stores: Stores, kill: bool
) -> None:
    with anyio.fail_after(120):
        async with received(tmp_path, stores, 500) as (receiver, service):
            trace_id = await run_sync(begin, service, receiver, "print('é')")
            await until(lambda: len(receiver.sent) == 1, within_s=60)
            await run_sync(lambda: service.restart(kill=kill))
            await until(lambda: len(receiver.sent) == 2, within_s=60)
            secret = await run_sync(secret_of, service)
    for headers, body in receiver.sent:
        signed = f"{headers['x-webhook-id']}.{headers['x-webhook-timestamp']}.".encode() + body
        mac = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        assert headers["x-webhook-signature"] == f"sha256={mac}"
        told = json.loads(body)
        assert (told["trace_id"], told["status"], told["stdout"]) == (trace_id, "success", "é\n")
    assert len({headers["x-webhook-id"] for headers, _ in receiver.sent}) == 1


def hurry(client: Client) -> None:
    for _ in range(20):
        client.execute("print(1)")


def test_a_rate_limit_says_when_and_the_sdk_waits_for_it(tmp_path: Path, stores: Stores) -> None:
    key = make_key(tmp_path, "--profile", "baponi", "--rate-limit", "1/s", stores=stores)
    with serving_baponi(tmp_path, stores=stores, key=key) as service:
        with sdk("sync", service.url, key, max_retries=0) as client, pytest.raises(RateLimitError) as refused:
            hurry(client)
        with sdk("sync", service.url, key, max_retries=5) as client:
            assert [client.execute("print(1)").stdout for _ in range(3)] == ["1\n"] * 3
    assert refused.value.retry_after is not None
    assert 1 <= refused.value.retry_after <= 2
