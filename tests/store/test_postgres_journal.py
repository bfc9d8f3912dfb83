"""The audit journal in PostgreSQL: several processes on one chain; a server that crashes, hangs, was tampered with."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import asyncpg
import pytest
from anyio.to_thread import run_sync

from moonpool.core.audit import JournalError, JournalLostError, JournalUncertainError
from moonpool.core.audit_records import ApprovalGrantRecord
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import open_postgres_journal
from moonpool.store.postgres_schema import create_schema
from postgres import new_server
from store.audit_records import intent, outcome, start
from store.cutting_proxy import cutting
from store.journals import address_of, journal_database, postgres_journal, reader_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.audit import ChainOutcome, Journal
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncGenerator[str]:
    async with journal_database(postgres) as found:
        yield found


async def calls_on_record(url: str, tenant_id: str = "default") -> list[tuple[str, int]]:
    """Run and call of every record, of a chain that is whole."""
    reader = reader_of(url, tenant_id)
    assert (verdict := await run_sync(reader.verify)).ok, verdict.why
    rows = await run_sync(lambda: list(reader.rows()))
    return [(row.run_id, int(str(row.to_json()["call_id"]))) for row in rows]


async def verified(url: str) -> ChainOutcome:
    return await run_sync(reader_of(url).verify)


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def record_calls(journal: Journal, run_id: str, count: int) -> None:
    """Three at a time, of both kinds."""
    for first in range(0, count, 3):
        calls = range(first, min(first + 3, count))
        await asyncio.gather(*(journal.record((intent if call % 3 else outcome)(call, run_id)) for call in calls))


@pytest.mark.req("H-058")
async def test_two_processes_continue_one_chain_each_in_its_order(url: str) -> None:
    async with postgres_journal(url) as one, postgres_journal(url) as other:
        with anyio.fail_after(60):
            await asyncio.gather(
                *(record_calls(journal, run, 90) for journal, run in ((one, "a"), (other, "b"), (one, "c")))
            )
    calls = await calls_on_record(url)
    assert {run: [call for of, call in calls if of == run] for run in "abc"} == {run: list(range(90)) for run in "abc"}


async def test_what_two_processes_deliver_from_an_outbox_stands_once(url: str) -> None:
    given = [
        ApprovalGrantRecord(run_id=f"a{number}", at="2026-01-01T00:00:00.000Z", what="given", approver="terminal:me")
        for number in range(20)
    ]
    async with postgres_journal(url) as one, postgres_journal(url) as other:
        with anyio.fail_after(60):
            await asyncio.gather(*(journal.record(entry) for entry in given for journal in (one, other, one)))
    rows = await run_sync(lambda: list(reader_of(url).rows()))
    assert sorted(row.run_id for row in rows) == sorted(entry.run_id for entry in given)
    assert (await verified(url)).ok


async def test_each_tenant_has_a_chain_of_its_own(url: str) -> None:
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(open_connections(address_of(url), count_max=2))
        tenants = {name: open_postgres_journal(connections, name) for name in ("a", "b", "c", "o'; --")}
        journals = {name: await stack.enter_async_context(opened) for name, opened in tenants.items()}
        with anyio.fail_after(60):
            await asyncio.gather(*(record_calls(journal, name, 30) for name, journal in journals.items()))
    for name in journals:
        assert await calls_on_record(url, name) == [(name, call) for call in range(30)]
    assert await run_sync(lambda: reader_of(url, "b").run("a")) == []


@asynccontextmanager
async def busy(journal: Journal, run_id: str) -> AsyncGenerator[list[tuple[str, int]]]:
    """Calls are recorded while this is open; yields those whose record is acknowledged."""
    acknowledged: list[tuple[str, int]] = []
    stop = False

    async def worker(name: str) -> None:
        call = 0
        while not stop:
            await journal.record((outcome if call % 4 else intent)(call, name))
            acknowledged.append((name, call))
            call += 1

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(worker, f"{run_id}{number}")
        yield acknowledged
        stop = True


@pytest.mark.req("H-058")
@pytest.mark.parametrize("crashes", [1, pytest.param(6, marks=pytest.mark.slow)])
async def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_crashes(
    postgres: PostgresServer, url: str, crashes: int
) -> None:
    with anyio.fail_after(200):
        async with (
            postgres_journal(url, patience_s=60) as one,
            postgres_journal(url, patience_s=60) as other,
            busy(one, "a") as first,
            busy(other, "b") as second,
        ):
            for _ in range(crashes):
                for acknowledged in (first, second):
                    wanted = len(acknowledged) + 30
                    await until(lambda seen=acknowledged, count=wanted: len(seen) > count)
                await postgres.crash()
    stands = Counter(calls := await calls_on_record(url))
    assert [one for one in (*first, *second) if stands[one] != 1] == []
    assert max(stands.values()) == 1
    for run in {run for run, _ in calls}:
        assert sorted(call for of, call in calls if of == run) == list(range(stands_of(stands, run)))


def stands_of(stands: Counter[tuple[str, int]], run: str) -> int:
    return sum(of == run for of, _ in stands)


async def test_what_a_crash_loses_is_written_again_also_at_the_end(postgres: PostgresServer, url: str) -> None:
    with anyio.fail_after(60):
        async with postgres_journal(url, patience_s=30) as journal:
            await journal.record(intent(0))
            for call in range(1, 50):
                await journal.record(outcome(call))  # their commits do not wait for the disk
            await postgres.crash()
    assert await calls_on_record(url) == [("r", call) for call in range(50)]


async def test_while_the_server_is_away_records_are_refused_and_later_taken(postgres: PostgresServer, url: str) -> None:
    with anyio.fail_after(60):
        async with postgres_journal(url, patience_s=0.3) as journal:
            await journal.record(intent(0))
            postgres.kill()
            try:
                failed = await asyncio.gather(
                    *(journal.record(intent(call)) for call in range(1, 400)), return_exceptions=True
                )
            finally:
                postgres.start()
            assert {type(error) for error in failed} <= {JournalError, JournalUncertainError}
            assert all("cannot be reached" in str(error) for error in failed)
            await until_taken(journal)
    assert (await calls_on_record(url))[-1] == ("r", 1000)


async def test_what_is_cut_off_under_way_stands_once(url: str) -> None:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # a socket's path holds 107 bytes
    try:
        with anyio.fail_after(60):
            async with cutting(url, folder) as cut, postgres_journal(cut) as one, postgres_journal(url) as other:
                for number in range(6):
                    await asyncio.gather(
                        one.record(intent(number, f"unanswered-{number}")),
                        one.record(outcome(number, "same batch")),
                        other.record(outcome(number, "beside")),
                    )
                    await one.record(outcome(number, f"unsent-{number}"))
    finally:
        shutil.rmtree(folder)
    counts = Counter(await calls_on_record(url))
    runs = ["same batch", "beside", "unanswered", "unsent"]
    assert counts == {
        (f"{run}-{number}" if run.startswith("un") else run, number): 1 for run in runs for number in range(6)
    }


async def until_taken(journal: Journal) -> None:
    while True:
        try:
            return await journal.record(intent(1000))
        except JournalError:
            await anyio.sleep(0.01)


async def test_a_record_without_an_answer_is_uncertain_and_stands_once_at_most(
    postgres: PostgresServer, url: str
) -> None:
    with anyio.fail_after(60):
        async with postgres_journal(url, patience_s=1.0) as journal:
            await journal.record(intent(0))
            postgres.pause()
            try:
                with pytest.raises(JournalUncertainError, match="not known"):
                    await journal.record(intent(1))
                with pytest.raises(JournalError):
                    await journal.record(intent(2))
            finally:
                postgres.resume()
            await until_taken(journal)
    calls = await calls_on_record(url)
    assert (calls[0], calls[-1]) == (("r", 0), ("r", 1000))
    assert max(Counter(calls).values()) == 1


async def test_the_queue_is_bounded_for_what_begins(postgres: PostgresServer, url: str) -> None:
    async with postgres_journal(url, queue_count_max=3) as journal:
        waiting = [journal.record(start()) for _ in range(3)]
        with pytest.raises(JournalError, match="3 audit records wait"):
            journal.record(start())
        waiting.append(journal.record(outcome()))
        with anyio.fail_after(30):
            await asyncio.gather(*waiting)
    assert (await verified(url)).rows == 4


FREE = "SET session_replication_role = replica"  # no trigger fires


@pytest.mark.parametrize(
    "tampering",
    [
        pytest.param("DELETE FROM audit_record WHERE seq = 3", id="the last record is gone"),
        pytest.param("UPDATE audit_record SET hash = repeat('a', 64) WHERE seq = 3", id="the last record is another"),
        pytest.param("DELETE FROM audit_head", id="the head is gone"),
        pytest.param("DELETE FROM audit_record; DELETE FROM audit_head", id="all is gone"),
        pytest.param(
            "DELETE FROM audit_record WHERE seq > 1;"
            "UPDATE audit_head SET seq = 1, hash = (SELECT hash FROM audit_record WHERE seq = 1)",
            id="an older state was restored",
        ),
        pytest.param("UPDATE audit_head SET seq = 0, hash = repeat('0', 64)", id="the head was set back"),
    ],
)
async def test_nothing_is_recorded_in_a_chain_that_is_not_the_one_written_to(url: str, tampering: str) -> None:
    with anyio.fail_after(60):
        async with postgres_journal(url) as journal:
            for call in range(3):
                await journal.record(intent(call))
            await execute(url, FREE, tampering)
            for _ in range(2):
                with pytest.raises(JournalLostError, match="is not the one that this process wrote to"):
                    await journal.record(intent(9))
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM audit_record WHERE body LIKE '%\"call_id\":9%'::bytea") == 0
    await connection.close()


@pytest.mark.parametrize(
    ("tampering", "why"),
    [
        pytest.param("UPDATE audit_record SET body = 'x' WHERE seq = 2", "changed after it was written", id="changed"),
        pytest.param("DELETE FROM audit_record WHERE seq = 2", "row 2 is missing", id="removed"),
        pytest.param("DELETE FROM audit_record WHERE seq = 3", "the end was cut off", id="cut off"),
        pytest.param("INSERT INTO audit_record VALUES ('default', 0, '', '', '', '')", "another program", id="zero"),
        pytest.param("INSERT INTO audit_record VALUES ('default', 4, '', '', '', '')", "changed after", id="more"),
    ],
)
async def test_tampering_fails_verification(url: str, tampering: str, why: str) -> None:
    async with postgres_journal(url) as journal:
        for call in range(3):
            await journal.record(intent(call))
    await execute(url, FREE, tampering)
    verdict = await verified(url)
    assert not verdict.ok
    assert why in verdict.why


@pytest.mark.parametrize(
    "mistake",
    [
        "UPDATE audit_record SET body = 'x'",
        "DELETE FROM audit_record",
        "TRUNCATE audit_record",
        "UPDATE audit_head SET seq = seq - 1",
        "UPDATE audit_head SET tenant_id = 'other'",
        "DELETE FROM audit_head",
        "TRUNCATE audit_head",
    ],
)
async def test_the_tables_refuse_all_but_appending(url: str, mistake: str) -> None:
    async with postgres_journal(url) as journal:
        await journal.record(intent())
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await execute(url, mistake)
    assert await calls_on_record(url) == [("r", 1)]


async def test_a_foreign_trigger_that_swallows_records_is_noticed(url: str) -> None:
    async with postgres_journal(url) as journal:
        await journal.record(intent(0))
        await execute(
            url,
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
            "CREATE TRIGGER swallows BEFORE INSERT ON audit_record FOR EACH ROW EXECUTE FUNCTION swallow()",
        )
        for _ in range(2):
            with pytest.raises(JournalLostError):
                await journal.record(intent(1))


async def test_a_server_that_does_not_sync_is_refused() -> None:
    with new_server(fsync="off") as server:
        async with open_connections(address_of(server.url())) as connections:
            await create_schema(connections)
            with pytest.raises(JournalError, match="fsync=off"):
                await open_postgres_journal(connections, "default").__aenter__()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda url: url.replace("/test_", "/none_"), "there is no such database", id="database"),
        pytest.param(lambda url: url.replace("moonpool@", "nobody@"), "refuses the user", id="user"),
        pytest.param(lambda _: "postgresql://u:hidden@h:hidden/x", "the URL cannot be read", id="URL"),
        pytest.param(lambda _: "postgresql://u:hidden@127.0.0.1:1/x", "cannot be reached", id="nobody listens"),
    ],
)
async def test_a_database_that_cannot_be_used_is_one_clear_error(url: str, change: object, says: str) -> None:
    assert callable(change)
    with anyio.fail_after(30), pytest.raises(JournalError, match=says) as caught:
        async with postgres_journal(change(url), patience_s=0.1):
            pass
    assert "hidden" not in str(caught.value)
    with anyio.fail_after(30), pytest.raises(JournalError) as caught:
        await run_sync(reader_of(change(url)).newest_run)
    assert "hidden" not in str(caught.value)


async def test_without_its_tables_the_journal_says_what_is_missing(database: str) -> None:
    with pytest.raises(JournalError, match="tables are missing"):
        async with postgres_journal(database):
            pass


async def test_tables_of_another_version_are_refused(url: str) -> None:
    await execute(url, "COMMENT ON TABLE audit_record IS '2'")
    with pytest.raises(JournalError, match="another version of Moonpool"):
        async with postgres_journal(url):
            pass


async def test_a_user_who_may_not_create_tables_finds_them(url: str) -> None:
    role = url.rpartition("/test_")[2].partition("?")[0]
    await execute(
        url,
        f"CREATE ROLE writer_{role} LOGIN",
        f"GRANT USAGE ON SCHEMA public TO writer_{role}",
        f"GRANT SELECT, INSERT ON audit_record TO writer_{role}",
        f"GRANT SELECT, INSERT, UPDATE ON audit_head TO writer_{role}",
        f"GRANT SELECT, UPDATE ON replica TO writer_{role}",
    )
    other = url.replace("moonpool@", f"writer_{role}@")
    try:
        async with open_connections(address_of(other)) as connections:
            await create_schema(connections)
        async with postgres_journal(other) as journal:
            await journal.record(intent())
        assert await calls_on_record(url) == [("r", 1)]
    finally:
        await execute(url, f"DROP OWNED BY writer_{role}", f"DROP ROLE writer_{role}")


async def test_several_processes_may_create_the_tables_at_once(database: str) -> None:
    async def create() -> None:
        async with open_connections(address_of(database)) as connections:
            await create_schema(connections)

    with anyio.fail_after(60):
        await asyncio.gather(*(create() for _ in range(5)))
    async with postgres_journal(database) as journal:
        await journal.record(intent())
    rows = await run_sync(lambda: list(reader_of(database).rows()))
    assert json.loads(rows[0].body)["kind"] == "call_intent"
