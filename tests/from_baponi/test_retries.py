"""What the `baponi` SDK sends again, and what it must not: code that may have run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from baponi.exceptions import ServerError

from from_baponi.clients import sdk
from from_baponi.service import serving_baponi

if TYPE_CHECKING:
    from collections.abc import Generator

    from from_baponi.service import BaponiService

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Base URL")]
ONE_SANDBOX: Any = {
    "MOONPOOL_SANDBOXES_MAX": "1", "MOONPOOL_SANDBOXES_PER_TENANT_MAX": "1", "MOONPOOL_WAITING_S_MAX": "1",
}  # fmt: skip
APPENDS = "open('runs', 'a').write('run\\n')"
HANGS = "\nprint('begun', flush=True)\nimport time\ntime.sleep(600)"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Generator[BaponiService]:
    """A service with one sandbox."""
    with serving_baponi(tmp_path_factory.mktemp("crowded"), **ONE_SANDBOX) as service:
        yield service


def statuses(service: BaponiService, job: str) -> list[str]:
    """Of all executions on record with it."""
    query, headers = {"metadata.job": job}, {"authorization": f"Bearer {service.key}"}
    answer = httpx.get(f"{service.url}/v1/executions", params=query, headers=headers, timeout=60)
    return [one["status"] for one in answer.raise_for_status().json()["executions"]]


@pytest.mark.req("J-029")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_found_no_room_ran_nothing_and_runs_once_when_it_is_sent_again(
    crowded: BaponiService, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = job = f"room-{kind}"
    with (
        sdk("sync", crowded.url, crowded.key) as other,
        sdk(kind, crowded.url, crowded.key, max_retries=0) as impatient,
        sdk(kind, crowded.url, crowded.key, max_retries=50) as patient,
    ):
        stream = other.execute_stream(HANGS)
        while stream.next().type != "output":
            pass
        with pytest.raises(ServerError) as refused:
            impatient.execute(APPENDS, thread_id=thread, metadata={"job": job})
        assert (refused.value.status_code, refused.value.error_type) == (503, "service_unavailable")
        assert statuses(crowded, job) == []
        assert other.list_files(id=thread) == []

        attempts: list[int] = []

        def make_room(attempt: int, _: float | None = None) -> float:  # how long the SDK waits before it tries again
            if not attempts:
                other.cancel_execution(stream.trace_id)
                stream.events()
            attempts.append(attempt)
            return 0.0

        monkeypatch.setattr("baponi._base.retry_delay", make_room)
        assert patient.execute(APPENDS, thread_id=thread, metadata={"job": job}).success
        assert attempts
        stream.close()
        read = patient.execute("print(open('runs').read(), end='')", thread_id=thread)
    assert read.stdout == "run\n"
    assert statuses(crowded, job) == ["success"]


@pytest.mark.req("J-021")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_timeout_is_told_once_and_nothing_is_sent_again(crowded: BaponiService, kind: str) -> None:
    thread = job = f"time-{kind}"
    with sdk(kind, crowded.url, crowded.key, max_retries=50) as client:
        result = client.execute(APPENDS + HANGS, timeout=1, thread_id=thread, metadata={"job": job})
        assert (result.success, result.error, result.stdout) == (False, "timeout", "begun\n")
        assert client.execute("print(open('runs').read(), end='')", thread_id=thread).stdout == "run\n"
    assert statuses(crowded, job) == ["timeout"]
