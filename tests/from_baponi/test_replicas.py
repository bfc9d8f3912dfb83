"""Two replicas on PostgreSQL and S3: threads and executions of one at the other, and what a killed one leaves."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal
from baponi import ThreadBusyError

from from_baponi.clients import sdk
from from_baponi.service import make_key, serving_baponi
from service_stores import shared_stores
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Generator

    from from_baponi.service import BaponiService
    from postgres import PostgresServer
    from s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Base URL")]
SLEEPS = "import time\nopen('kept', 'w').write('torn')\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture
def both(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, s3_server: S3Server
) -> Generator[list[BaponiService]]:
    """With folders of their own, as on machines of their own."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        shared = portal.wrap_async_context_manager(shared_stores(postgres, s3_server))
        stores = stack.enter_context(shared)
        folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
        key = make_key(folders[0], "--profile", "baponi", stores=stores)
        lease = {"MOONPOOL_REPLICA_LEASE_S": "3"}
        yield [stack.enter_context(serving_baponi(folder, stores=stores, key=key, **lease)) for folder in folders]


@pytest.mark.req("J-003", "J-022", "J-023", "J-046")
def test_threads_and_executions_of_one_are_at_the_other(both: list[BaponiService]) -> None:
    one, other = both
    thread = f"t-{uuid.uuid4().hex}"
    with sdk("sync", one.url, one.key) as here, sdk("sync", other.url, other.key) as there:
        assert here.execute("open('kept', 'w').write('whole')", thread_id=thread).success
        assert there.execute("print(open('kept').read())", thread_id=thread).stdout == "whole\n"

        stream = here.execute_stream(SLEEPS, thread_id=thread)
        while stream.next().type != "output":
            pass
        with pytest.raises(ThreadBusyError):
            there.execute("print(1)", thread_id=thread)
        assert there.get_execution(stream.trace_id).status == "running"
        followed = there.reconnect_stream(stream.trace_id)
        assert there.cancel_execution(stream.trace_id).status == "cancelling"
        assert [s.events()[-1].status for s in (followed, stream)] == ["cancelled"] * 2
        for opened in (followed, stream):
            opened.close()


@pytest.mark.req("J-022", "J-023")
def test_what_a_killed_replica_ran_is_lost_and_its_thread_is_free_and_untouched(both: list[BaponiService]) -> None:
    one, other = both
    thread = f"t-{uuid.uuid4().hex}"
    with sdk("sync", one.url, one.key) as here, sdk("sync", other.url, other.key) as there:
        assert here.execute("open('kept', 'w').write('whole')", thread_id=thread).success
        stream = here.execute_stream(SLEEPS, thread_id=thread)
        while stream.next().type != "output":
            pass
        trace_id = stream.trace_id
        one.stop(kill=True)
        wait_until(lambda: there.get_execution(trace_id).status != "running", within_s=60)
        record = there.get_execution(trace_id)
        assert (record.status, record.error) == ("failed", "lost")

        def read() -> str:
            try:
                return there.execute("print(open('kept').read())", thread_id=thread).stdout
            except ThreadBusyError:  # until the lease has passed
                return ""

        said: list[str] = []
        wait_until(lambda: said.append(read()) or said[-1], within_s=60)
        assert said[-1] == "whole\n"
