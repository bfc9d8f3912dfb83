"""Replicas of the service on one PostgreSQL: a journal, executions and questions of either, some that die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.to_thread import run_sync

from apps import DATA, fixture_server
from moonpool.bootstrap.library import open_library_changes
from moonpool.bootstrap.stores import opened_stores
from moonpool.configuration.servers import parse_config
from moonpool.engine import shared_executions
from moonpool.engine.shared_executions import SharedExecutions
from moonpool.features.approvals import database_table, queue_approver
from moonpool.features.consents import service as consents
from moonpool.features.keys.service import REMEMBERED_S
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.server.http.lapsed_callers import LOOK_EVERY_S
from moonpool.settings import Settings
from moonpool.store import signals
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import PostgresJournalPlace
from moonpool.store.secrets import WrongSecretsKeyError
from moonpool.store.signals import open_signals
from run_folder import run_folder
from server.services import caller, execute, serving
from server.test_http_long_runs import gated, told, wait
from server.test_serve_command import Serving
from store.journals import address_of, reader_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.configuration.servers import McpConfig
    from postgres import PostgresServer
    from server.services import OpenService

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.service_kills import ServiceKilling  # noqa: E402  the benchmarks are no part of the distribution

pytestmark = pytest.mark.anyio
SERVERS = {"mcpServers": {"echo": fixture_server("echo.py")}}
CONFIG = parse_config(json.dumps(SERVERS).encode(), source="test", environ=os.environ)
CALLERS = {"a": caller("a"), "b": caller("b")}


@asynccontextmanager
async def replicas(
    database: str, folder: Path, count: int = 2, config: McpConfig = CONFIG, **settings: Any
) -> AsyncGenerator[list[OpenService]]:
    """Each with a folder of its own, as on machines of their own."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                serving(CALLERS, config=config, state=folder / str(one), database_url=database, **settings)
            )
            for one in range(count)
        ]


async def run(service: OpenService, code: str, **more: Any) -> Any:
    return told((await service.post(execute(code, **more), authorization="Bearer a")).json())


DEAD = f"run_{'d' * 32}"


async def mark_of_a_dead_replica(database: str, execution_id: str) -> None:
    address = address_of(database)
    async with open_connections(address) as connections, open_signals(address) as opened:
        await SharedExecutions(connections, opened, "default", "replica/dead").mark(execution_id, "key:a")


@pytest.mark.req("H-058")
async def test_executions_of_both_are_on_one_chain_and_reached_at_either(database: str, tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with replicas(database, tmp_path) as (one, other):
            answers = await asyncio.gather(*(run(each, f"result = {n}") for n in range(4) for each in (one, other)))
            begun = [(await run(one, gated(tmp_path / name), patience_s=0))["execution"] for name in ("go", "never")]
            waiting = asyncio.ensure_future(wait(other, begun[0]))
            foreign = await wait(other, begun[0], who="b", cancel=True)
            still = await wait(other, begun[0], patience_s=0)
            cancelled = await wait(other, begun[1], cancel=True)
            (tmp_path / "go").touch()
            outcome = await waiting
            await mark_of_a_dead_replica(database, DEAD)
            dead = await wait(other, DEAD)
            after = [await wait(each, begun[1]) for each in (one, other)]
        reader = reader_of(database)
        assert (await run_sync(reader.verify)).ok
        kinds = Counter(row.kind for row in await run_sync(lambda: list(reader.rows())))

    assert sorted(answer["data"] for answer in answers) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert outcome == {"ok": True, "data": 42, "stdout": "begun\n"}
    assert still["state"] == "running"
    assert "execution_unknown" in json.dumps(foreign)
    assert cancelled["state"] == "cancelled"
    assert [("execution_cancelled" in json.dumps(one), "execution_unknown" in json.dumps(one)) for one in after] == [
        (True, False),
        (False, True),
    ]
    assert (dead["state"], "execution_lost" in json.dumps(dead)) == ("lost", True)
    assert kinds["execution_start"] == kinds["execution_end"] == 10
    assert list(tmp_path.glob("**/audit.sqlite3")) == []


@pytest.mark.slow
@pytest.mark.req("H-059")
async def test_a_database_that_goes_away_under_a_call_stops_all_calls_until_it_is_back(
    postgres: PostgresServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresJournalPlace.__init__, "__defaults__", (3.0, None))  # how long it is waited for
    tools, seen = tmp_path / "tools.json", tmp_path / "seen.jsonl"
    tools.write_text(json.dumps([{"name": "put", "inputSchema": {"type": "object"}}]), "utf-8")
    servers = {"echo": fixture_server("echo.py"), "recorder": fixture_server("recorder.py", str(tools), str(seen))}
    config = parse_config(json.dumps({"mcpServers": servers}).encode(), source="test", environ=os.environ)
    put = "import servers.recorder as r\nresult = await r.put(token='x')"
    with anyio.fail_after(120):
        async with serving(CALLERS, config=config, state=tmp_path / "state", database_url=database) as service:
            assert "x" in json.dumps(await run(service, put))
            begun = (await run(service, gated(tmp_path / "go"), patience_s=0))["execution"]
            while "begun" not in (await wait(service, begun, patience_s=0.05, offset=0)).get("output", ""):
                pass
            postgres.kill()
            (tmp_path / "go").touch()
            withheld, refused = await wait(service, begun), await run(service, put)
            assert len(seen.read_bytes().splitlines()) == 1
            postgres.start()
            while "x" not in json.dumps(await run(service, put)):  # a busy machine may not answer in time
                pass
        assert (await run_sync(reader_of(database).verify)).ok
    for answer in (withheld, refused):
        assert "journal" in json.dumps(answer), answer
        assert answer.get("ok") is False


@pytest.mark.slow
async def test_a_replica_that_was_taken_for_dead_ends(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONPOOL_REPLICA_LEASE_S", "2")

    def serve() -> tuple[int, str]:
        with Serving(tmp_path, "--database-url", database, "--data-dir", str(tmp_path / "state")) as serving:
            assert serving.post(execute("result = 1")).status_code == 200
            asyncio.run(fence_all())
            return serving.process.wait(60), "".join(serving.said)

    async def fence_all() -> None:
        async with open_connections(address_of(database)) as connections:
            await connections.fetch("DELETE FROM replica", within_s=30)

    exit_code, said = await run_sync(serve)
    assert exit_code == 2
    assert "taken this one for dead" in said
    assert said.rstrip().endswith("[replica_lost]")


@pytest.mark.slow
@pytest.mark.req("H-058")
async def test_kills_of_replicas_under_load_lose_nothing(database: str, tmp_path: Path) -> None:
    """A short form of `bench.service_kills`."""
    seed = secrets.randbits(32)
    folder = run_folder() / f"kills-{seed:08x}"  # sandbox uids must be able to pass through it
    folder.mkdir(mode=0o755)
    with anyio.fail_after(250):
        outcome = await ServiceKilling(database, DATA, folder, seed=seed).run(3)
    assert outcome.faults == [], f"seed {seed}: {outcome.summary()}"
    assert outcome.answers > 0


ASKING = parse_config(
    json.dumps({"mcpServers": {"echo": fixture_server("echo.py", ask=["*"])}}).encode(),
    source="test",
    environ=os.environ,
)
TEXT = "from servers.echo import text\nr = await text(text='hi')\nresult = r.data if r.ok else r.error['message']"


async def open_questions(service: OpenService) -> list[Any]:
    with anyio.fail_after(60):
        while True:
            answer = await service.http.get("/v1/approvals", headers={"authorization": "Bearer b"})
            assert answer.status_code == 200, answer.text
            if found := answer.json()["approvals"]:
                return found


@pytest.mark.slow
async def test_what_one_asks_is_answered_at_the_other(database: str, tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with replicas(database, tmp_path, config=ASKING) as (one, other):
            told_ones: list[Any] = []
            for approve in (True, False):
                running = asyncio.ensure_future(run(one, TEXT))
                (question,) = await open_questions(other)
                path = f"/v1/approvals/{question['request']['request_id']}"
                own = await other.http.post(path, json={"approve": True}, headers={"authorization": "Bearer a"})
                assert own.status_code == 403, own.text
                given = await other.http.post(path, json={"approve": approve}, headers={"authorization": "Bearer b"})
                assert given.status_code == 204, given.text
                told_ones.append(await running)
    assert told_ones[0]["data"] == "hi"
    assert "not approved" in told_ones[1]["data"]


async def test_changes_are_looked_for_within_a_second_where_no_signal_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for by a clock; that one look is enough is shown elsewhere: `test_keys`, `test_signals`, here."""
    assert REMEMBERED_S + LOOK_EVERY_S <= 1  # keys that were revoked, consents that were withdrawn
    assert consents.REMEMBERED_S < 1
    assert signals.PING_S + signals.PONG_S + signals.POLL_S <= 1  # executions that were cancelled or have ended
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    class AnsweredAtLast:
        looks = iter([None] * 40 + ["yes"])

        def take(self, _request_id: str, _digest: str) -> Any:
            return next(self.looks)

    asked: Any = SimpleNamespace(request_id="approval_x", arguments_digest="sha256:x")
    asyncio_without_time = SimpleNamespace(**{**vars(asyncio), "sleep": pause})
    monkeypatch.setattr(queue_approver, "asyncio", asyncio_without_time)
    queue: Any = AnsweredAtLast()
    async with queue_approver.QueueApprover(queue, owner="me") as approver:
        assert await approver._wait(asked) == "yes"
    assert (len(pauses), max(pauses)) == (40, queue_approver.PAUSE_S_MAX)
    assert max(pauses) <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("heard", [True, False], ids=["by its signal", "by the next look without signals"])
async def test_a_cancel_and_an_end_reach_the_other(
    heard: bool, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_executions, "_LOOK_S", 3600.0)  # nothing else would tell
    if heard:
        monkeypatch.setattr(signals.Signals, "tick", _never)
    else:
        monkeypatch.setattr(signals.Signals, "hear", _never)
    with anyio.fail_after(120):
        async with replicas(database, tmp_path) as (one, other):
            for name in ("cancelled", "ends"):
                begun = (await run(one, gated(tmp_path / name), patience_s=0))["execution"]
                if name == "cancelled":
                    assert (await wait(other, begun, cancel=True))["state"] == "cancelled"
                    continue
                waiting = asyncio.ensure_future(wait(other, begun))
                await asyncio.wait({waiting}, timeout=0.1)
                (tmp_path / name).touch()
                assert (await waiting)["data"] == 42


async def _never(*_: object) -> None:
    await anyio.sleep_forever()


@pytest.mark.slow
async def test_a_budget_is_spent_once_at_both(database: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("version = 1\n[budget.key]\ncalls = 3\n", encoding="utf-8")
    policy.chmod(0o600)
    with anyio.fail_after(200):
        async with replicas(database, tmp_path, policy=policy) as both:
            answers = await asyncio.gather(*(run(each, TEXT) for _ in range(3) for each in both))
    assert sorted(answer["data"] == "hi" for answer in answers) == [False] * 3 + [True] * 3


@pytest.mark.slow
async def test_a_plan_made_at_one_is_approved_and_used_at_the_other(database: str, tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with replicas(database, tmp_path, config=ASKING) as (one, other):
            plan_id = (await run(one, TEXT, dry_run=True))["plan"]["plan_id"]
            running = asyncio.ensure_future(run(other, TEXT, plan=plan_id))
            (question,) = await open_questions(one)
            path = f"/v1/approvals/{question['request']['request_id']}"
            given = await one.http.post(path, json={"approve": True}, headers={"authorization": "Bearer b"})
            assert given.status_code == 204, given.text
            real, again = await running, await run(one, TEXT, plan=plan_id)
    assert real["data"] == "hi"
    assert again["error"]["type"] == "plan_unusable"


@pytest.mark.slow
async def test_questions_of_a_replica_that_was_killed_are_answered_once_or_closed(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", ask=["*"])}}), "utf-8")
    by_b = {"authorization": "Bearer b"}
    more = ("--database-url", database, "--data-dir", str(tmp_path / "killed"), "--config", str(config))
    with anyio.fail_after(200), contextlib.ExitStack() as stack:
        async with replicas(database, tmp_path, count=1, config=ASKING) as (other,):
            killed = stack.enter_context(await run_sync(Serving, tmp_path, *more))
            for expected in (1, 2):
                begun = await run_sync(killed.post, execute(TEXT, patience_s=0))
                assert "running" in begun.text, begun.text
                while len(found := await open_questions(other)) < expected:
                    pass
            killed.process.kill()
            answered, left = (f"/v1/approvals/{one['request']['request_id']}" for one in found)
            given = [await other.http.post(answered, json={"approve": True}, headers=by_b) for _ in range(2)]
            monkeypatch.setattr(database_table, "SEEN_WITHIN_S", 0.0)
            late = await other.http.post(left, json={"approve": True}, headers=by_b)
            closed = (await other.http.get("/v1/approvals", headers=by_b)).json()["approvals"]
        kinds = Counter(row.kind for row in await run_sync(lambda: list(reader_of(database).rows())))
    assert [one.status_code for one in given] == [204, 409], [one.text for one in given]
    assert (late.status_code, closed) == (409, [])
    assert kinds["call_intent"] == 0  # nobody is left who would have made the calls


@pytest.mark.slow
async def test_what_a_person_saved_by_a_command_is_there_at_both(database: str, tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path / "commands", database_url=database)
    use = "from actions.answer import run\nresult = run()"
    source = LibrarySource(
        kind="action", name="answer", files={ACTION_FILE: b'"""Answer."""\ndef run() -> int:\n    return 42\n'}
    )
    with anyio.fail_after(200):
        async with replicas(database, tmp_path) as both:
            assert [(await run(each, use))["ok"] for each in both] == [False, False]
            async with open_library_changes(settings, None, {}) as changes:
                await changes.save(source)
            for each in both:
                while (await run(each, use)).get("data") != 42:
                    pass
    assert list(tmp_path.glob("**/library")) == []


@pytest.mark.slow
async def test_a_replica_with_another_key_does_not_start(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign() -> None:
        settings = Settings.load({}, data_dir=tmp_path / "commands", database_url=database)
        with opened_stores(settings, tmp_path / "commands") as stores:
            assert stores.signing_keys().current()

    monkeypatch.delenv("MOONPOOL_SECRETS_KEY", raising=False)
    await run_sync(sign)
    with anyio.fail_after(100), pytest.raises(WrongSecretsKeyError, match="with the same MOONPOOL_SECRETS_KEY"):
        async with replicas(database, tmp_path, count=1):
            pass
