"""A client that goes away: what waits for somebody else's answer goes on, everything else ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps import DATA, fixture_server
from commands.process import Command
from moonpool.bootstrap.replays import replay_run
from moonpool.engine.outcomes import OutcomeStore
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.replay.service import ReplayRequest
from moonpool.settings import Settings
from moonpool.store.paths import approvals_path, outcomes_dir
from moonpool.store.process_marks import is_gone
from process_tree import descendants_of, wait_gone
from security.canaries import leaks, new_canary
from server.modern_client import ModernClient, answers_to
from server.raw_client import PATIENCE_S, SERVE, RawClient, environment

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.features.approvals.model import ApprovalRequest

CALL = "import servers.echo as e\nr = await e.echo(word='hello')\nresult = r.data if r['ok'] else r['error']['type']"
BOSS = Answerer(name="terminal:boss", person=True)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lost") / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=[])}}), encoding="utf-8")
    return path


@pytest.fixture
def queue() -> Generator[Approvals]:
    store = ApprovalStore(approvals_path(DATA), is_gone=is_gone)
    yield Approvals(store, lambda _: None)
    store.close()


def waiting(queue: Approvals) -> ApprovalRequest:
    end = time.monotonic() + PATIENCE_S
    while not (found := queue.requests()):
        assert time.monotonic() < end, "nothing waits"
        threading.Event().wait(0.05)
    return found[0].request


def leave(client: RawClient) -> None:
    assert client.process.stdin is not None
    client.process.stdin.close()


@pytest.mark.req("P-036")
@pytest.mark.parametrize("yes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_run_in_the_queue_outlives_its_client(config: Path, queue: Approvals, yes: bool) -> None:
    with RawClient(config, approve="queue", EOF_GRACE_S="0.5") as client:
        client.handshake()
        client.start(CALL)
        request = waiting(queue)
        leave(client)
        while b"the client has left" not in client.said().encode():
            threading.Event().wait(0.05)
        (queue.approve if yes else queue.deny)(request.request_id, BOSS)
        assert client.process.wait(PATIENCE_S) == 0
    kept = OutcomeStore(outcomes_dir(DATA)).find(request.run_id)
    again = asyncio.run(
        replay_run(Settings.load({}, data_dir=DATA), ReplayRequest(run_id=request.run_id), environ=os.environ)
    )

    assert (again.same, again.calls_served) == (True, 1)
    assert kept is not None
    assert kept["result"]["data"] == ({"word": "hello"} if yes else "ApprovalRejected")


def test_what_ends_just_after_a_client_crashed_is_kept_too(config: Path, queue: Approvals, tmp_path: Path) -> None:
    """Both of its pipes are closed at once, and nobody waits out the time for those who closed stdin only."""
    said = tmp_path / "stderr"
    execute = {"name": "execute_code", "arguments": {"code": CALL}}
    handshake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": execute},
    ]
    with (
        said.open("wb") as stderr,
        Command(
            [SERVE, config, "queue"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(EOF_GRACE_S=str(10 * PATIENCE_S)),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.flush()
        request = waiting(queue)
        process.stdout.close()
        process.stdin.close()
        end = time.monotonic() + PATIENCE_S
        while b"the client has left" not in said.read_bytes():
            assert time.monotonic() < end, "it waits for a client that has gone"
            threading.Event().wait(0.05)
        queue.approve(request.request_id, BOSS)
        assert process.wait(PATIENCE_S) == 0
    kept = OutcomeStore(outcomes_dir(DATA)).find(request.run_id)

    assert kept is not None
    assert kept["result"]["data"] == {"word": "hello"}


TELL = """
from servers import leaky
call = await leaky.succeed(form="json")
print(call.data, (await leaky.refuse(form="url")).error)
result = [call.data, call.raw]
"""


def test_what_is_kept_of_it_tells_no_secret(tmp_path: Path, queue: Approvals) -> None:
    canary = new_canary("kept")
    leaky = fixture_server("leaky.py", "${CANARY_TOKEN}", allow=["refuse"]) | {"env": {"CANARY": "${CANARY_TOKEN}"}}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"leaky": leaky}}), encoding="utf-8")
    with RawClient(config, approve="queue", EOF_GRACE_S="0.5", CANARY_TOKEN=canary) as client:
        client.handshake()
        client.start(TELL)
        request = waiting(queue)
        leave(client)
        while b"the client has left" not in client.said().encode():
            threading.Event().wait(0.05)
        queue.approve(request.request_id, BOSS)
        assert client.process.wait(PATIENCE_S) == 0
        told = client.said().encode()
    kept = (outcomes_dir(DATA) / f"{request.run_id}.json").read_bytes()

    assert b"REDACTED" in kept
    assert leaks({"kept": kept, "log": told}, [canary]) == []


@pytest.mark.req("I-092")
def test_a_signal_ends_it_and_its_question(config: Path, queue: Approvals) -> None:
    with RawClient(config, approve="queue", EOF_GRACE_S="0.5") as client:
        client.handshake()
        client.start(CALL)
        request = waiting(queue)
        leave(client)
        while b"the client has left" not in client.said().encode():
            threading.Event().wait(0.05)
        family = descendants_of(client.process.pid)
        os.kill(client.process.pid, signal.SIGTERM)
        assert client.process.wait(PATIENCE_S) == 0

    assert wait_gone(family, PATIENCE_S) == set()
    assert queue.requests() == []
    assert OutcomeStore(outcomes_dir(DATA)).find(request.run_id) is None


def test_what_only_the_client_could_answer_ends_with_it(config: Path) -> None:
    with RawClient(config, approve="ask") as wire:
        ModernClient(wire).ask(CALL)
        family = descendants_of(wire.process.pid)
        assert wire.close() == 0

    assert wait_gone(family, PATIENCE_S) == set()


def test_a_repeat_cancelled_by_the_client_that_left_is_no_second_run(config: Path) -> None:
    with RawClient(config, approve="ask") as wire:
        client = ModernClient(wire)
        asked = client.ask(CALL)
        client.start(CALL, state=asked["requestState"], answers=answers_to(asked))
        leave(wire)
        [outcome] = [message["result"] for message in wire.rest() if "result" in message]

    assert outcome["structuredContent"] == {"ok": True, "data": {"word": "hello"}}
