"""Records of executions and deliveries of webhooks, on both databases."""

from __future__ import annotations

import base64
import json
import math
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text

from databases import database_address, opened
from moonpool.core.errors import InputError
from moonpool.features.execution_records import table
from moonpool.features.execution_records.model import KEPT_S, ExecutionRecord, RunQuery, new_trace_id
from moonpool.features.execution_records.service import ExecutionRecords
from moonpool.features.webhooks import model
from moonpool.features.webhooks.table import WebhookTable
from moonpool.store.database.tables import EXECUTION_LABEL, WEBHOOK_DELIVERY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from moonpool.features.webhooks.model import Delivery
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio
URL = "https://hooks.example.com/"


def record(**members: object) -> ExecutionRecord:
    whole = {
        "trace_id": new_trace_id(), "principal": "key:a", "run_id": "run_1", "language": "python",
        "delivery_mode": "webhook", "created_at": time.time(), **members,
    }  # fmt: skip
    return ExecutionRecord(**whole)  # pyright: ignore[reportArgumentType]


def over(one: ExecutionRecord) -> ExecutionRecord:
    return replace(one, status="success", exit_code=0, stdout="a\0é", stderr="", completed_at=time.time(), last_seq=3)


async def test_a_record_is_kept_as_it_is(opened: Database) -> None:
    records = ExecutionRecords(opened)
    metadata = {"text": "a\0\U0001f600", "list": [1, {"x": None}], "number": 1.5, "yes": True, "none": None}
    begun = record(metadata=metadata, thread_id="t", webhook_url=URL, webhook_status="pending")

    await records.add("acme", begun)
    first = await records.find("acme", begun.trace_id, "key:a")
    foreign = [await records.find("acme", begun.trace_id, "key:b"), await records.find("other", begun.trace_id, None)]
    done = over(begun)
    ended = [await records.end("acme", done) for _ in range(2)]
    found = await records.find("acme", begun.trace_id, None)

    assert first == (begun, True)
    assert foreign == [None, None]
    assert ended == [True, False]
    assert found == (done, True)


async def test_records_are_found_by_what_was_attached(opened: Database) -> None:
    records = ExecutionRecords(opened)
    for n, value in enumerate(["a", "1", 1, True, None, ["a"], {"a": 1}]):
        await records.add("acme", over(record(metadata={"k": value}, run_id=f"run_{n}")), durable=False)

    async def found(value: str) -> set[str]:
        page = await records.page("acme", None, RunQuery(limit=100, metadata={"k": value}))
        return {one.run_id for one in page.records}

    assert await found("a") == {"run_0"}
    assert await found("1") == {"run_1", "run_2"}
    assert await found("true") == {"run_3"}
    assert await found("null") == {"run_4"}
    assert await found("%") == await found("[" * 900) == set()


@pytest.mark.parametrize(
    ("at", "trace_id"),
    [
        pytest.param(1.0, "trc_\0", id="NUL, which PostgreSQL refuses"),
        pytest.param(1.0, "\ud800", id="half a surrogate pair, which no database takes"),
        pytest.param(math.nan, "trc_1", id="a time that is none"),
        pytest.param(math.inf, "trc_1", id="a time without end"),
    ],
)
async def test_a_cursor_that_was_altered_is_refused(opened: Database, at: float, trace_id: str) -> None:
    records = ExecutionRecords(opened)
    for _ in range(2):
        await records.add("acme", over(record()), durable=False)
    given = (await records.page("acme", None, RunQuery(limit=1))).next_cursor
    assert given is not None
    digest, _, _ = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    altered = base64.urlsafe_b64encode(json.dumps([digest, at, trace_id]).encode()).decode().rstrip("=")

    assert len((await records.page("acme", None, RunQuery(limit=1, cursor=given))).records) == 1
    with pytest.raises(InputError, match="this cursor is not of this query"):
        await records.page("acme", None, RunQuery(limit=1, cursor=altered))


async def test_what_is_old_or_too_much_goes(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "KEPT_COUNT_MAX", 3)
    records, now = ExecutionRecords(opened), time.time()
    made = [over(record(created_at=now - n, metadata={"n": n})) for n in range(6)]
    old = over(record(created_at=now - KEPT_S - 1))
    running = record(created_at=now - 100)
    owed = replace(record(created_at=now - 101), webhook_url=URL, webhook_status="pending")
    for one in (*made, old, running, owed):
        await records.add("acme", one)
    await records.end("acme", over(owed))
    of_another = over(record(created_at=now - 50))
    await records.add("other", of_another)

    removed = await records.sweep()
    left = {one.trace_id for one in (await records.page("acme", None, RunQuery(limit=100))).records}
    labels = await opened.read(select(EXECUTION_LABEL.c.trace_id))

    assert removed == 4
    assert left == {one.trace_id for one in (*made[:3], running, owed)}
    assert {row.trace_id for row in labels} == {one.trace_id for one in made[:3]}
    assert await records.find("other", of_another.trace_id, None) is not None


async def test_much_output_goes(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "KEPT_OUTPUT_BYTES_MAX", 25)
    records, now = ExecutionRecords(opened), time.time()
    made = [replace(over(record(created_at=now - n)), stdout="x" * 10) for n in range(4)]
    for one in made:
        await records.add("acme", one)

    await records.sweep()

    left = {one.trace_id for one in (await records.page("acme", None, RunQuery(limit=100))).records}
    assert left == {one.trace_id for one in made[:2]}


async def test_what_a_process_that_ended_left_is_lost_and_told(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _replicas(opened)
    is_postgres = await _is_postgres(opened)
    first = ExecutionRecords(opened, replica="one" if is_postgres else None)
    second = ExecutionRecords(opened, replica="two" if is_postgres else None)
    if not is_postgres:  # two processes on one file: the first ended with the machine
        first.process = f"x@{'0' * 36}/1/1/1"
    dead = record(webhook_url=URL, webhook_status="pending")
    alive = record()
    await first.add("acme", dead)
    await second.add("acme", alive)
    await _replica_ends(opened, "one")

    count = [await second.lose_ended() for _ in range(2)]
    late = await first.end("acme", over(dead))
    found = await second.find("acme", dead.trace_id, None)
    owed = await opened.read(select(WEBHOOK_DELIVERY.c.trace_id))

    assert count == [1, 0]
    assert late is False
    assert found is not None
    assert (found[0].status, found[0].error, found[0].exit_code) == ("failed", "lost", -1)
    assert [row.trace_id for row in owed] == [dead.trace_id]
    assert (await second.find("acme", alive.trace_id, None)) == (alive, True)


async def test_a_cancel_reaches_the_process_that_runs_it(opened: Database) -> None:
    one, other = ExecutionRecords(opened, replica="one"), ExecutionRecords(opened, replica="two")
    runs, ended = record(), record()
    for each in (runs, ended):
        await one.add("acme", each)
    await one.end("acme", over(ended))

    for each in (runs, ended):
        await other.ask_cancel("acme", each.trace_id)

    assert await one.cancels_asked() == [("acme", runs.trace_id)]
    assert await other.cancels_asked() == []


async def test_a_delivery_is_had_by_one_and_ends_in_the_record(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "AFTER_S", (0.0,))
    records, webhooks = ExecutionRecords(opened), WebhookTable(opened)
    made = [record(webhook_url=URL, webhook_status="pending") for _ in range(2)]
    assert await webhooks.is_empty()
    for one in made:
        await records.add("acme", one)
        await records.end("acme", over(one))

    assert await webhooks.claim(5, {"acme": 4}, 4) == []
    claimed = await webhooks.claim(5, {}, 4)
    again = await webhooks.claim(5, {}, 4)
    first, second = sorted(claimed, key=lambda one: one.trace_id != made[0].trace_id)
    await webhooks.settle(first, is_delivered=True)
    await webhooks.settle(second, is_delivered=False)
    (retried,) = await webhooks.claim(5, {}, 4)
    await webhooks.settle(retried, is_delivered=False)
    found = [await records.find("acme", one.trace_id, None) for one in made]

    assert {one.trace_id for one in claimed} == {one.trace_id for one in made}
    assert again == []
    assert (retried.delivery_id, retried.attempts) == (second.delivery_id, 1)
    assert [one and one[0].webhook_status for one in found] == ["delivered", "failed"]
    assert await webhooks.is_empty()


@pytest.mark.claim("C-TEN-3")
async def test_whoever_has_the_fewest_on_the_way_comes_first_and_nobody_has_too_many(opened: Database) -> None:
    records, webhooks = ExecutionRecords(opened), WebhookTable(opened)
    for organisation in [*["first"] * 6, *["second"] * 6, "last"]:
        one = record(webhook_url=URL, webhook_status="pending")
        await records.add(organisation, one)
        await records.end(organisation, over(one))

    def whose(claimed: Sequence[Delivery]) -> Counter[str]:
        return Counter(one.organisation for one in claimed)

    alone = whose(await webhooks.claim(8, {"second": 4, "last": 4}, 4))
    then = whose(await webhooks.claim(3, {"first": 4, "second": 1}, 4))
    rest = whose(await webhooks.claim(8, {"first": 3, "second": 3, "last": 1}, 4))

    assert alone == {"first": 4}
    assert then == {"last": 1, "second": 2}
    assert rest == {"first": 1, "second": 1}


def test_attempts_are_spread_over_an_hour() -> None:
    waits = [model.retry_s(count) for count in range(1, 8)]

    assert waits[5:] == [None, None]
    given = [wait for wait in waits if wait is not None]
    assert given == sorted(given)
    assert 2700 < sum(given) < 4200


async def _is_postgres(database: Database) -> bool:
    return await database.write(lambda connection: connection.dialect.name == "postgresql")


async def _replicas(database: Database) -> None:
    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("CREATE TABLE IF NOT EXISTS replica (replica_id text PRIMARY KEY)"))
            connection.execute(text("INSERT INTO replica (replica_id) VALUES ('one'), ('two')"))

    await database.write(work)


async def _replica_ends(database: Database, name: str) -> None:
    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("DELETE FROM replica WHERE replica_id = :name"), {"name": name})

    await database.write(work)
