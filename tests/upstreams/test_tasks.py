"""Tools that can only be called as tasks: called so where the configuration says it, never otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from call_contexts import call_context
from moonpool.core.audit_records import CallOutcomeRecord
from moonpool.core.calls import ToolCallSpec
from moonpool.core.manifest import Manifest
from moonpool.pipeline.approval import AutoApprover, LiveApprovals
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Policy, configuration_layer, server_rules
from moonpool.redaction.redactor import Redactor
from moonpool.store.fake import MemoryJournal
from moonpool.upstreams.base import UpstreamCallTimeoutError, UpstreamResultError
from moonpool.upstreams.tasks import TaskCall, supports_tasks
from upstreams.peers import command, configure, upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def entry(log: Path, **block: Any) -> dict[str, Any]:
    return command("tasks.py", log, moonpool=block)


def asked(log: Path) -> list[str]:
    wanted = ("tasks/", "tools/call")
    return [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith(wanted)]


@pytest.mark.req("H-068", "H-069", "L-038")
async def test_a_tool_that_requires_a_task_is_called_as_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(20):
        async with upstream(entry(log, tasks=True)) as srv:
            both: list[Any] = [await srv.call_tool(name, {}, timeout_s=10) for name in ("research", "plain")]

    assert [one["content"][0]["text"] for one in both] == ["found", "done at once"]
    assert asked(log) == ["tools/call", "tasks/get", "tasks/get", "tasks/result", "tools/call"]


@pytest.mark.req("H-069", "L-038")
async def test_without_a_word_in_the_configuration_no_task_is_made(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(20):
        async with upstream(entry(log)) as srv:
            refused = await srv.call_tool("research", {}, timeout_s=10)

    assert refused["isError"] is True
    assert asked(log) == ["tools/call"]
    assert configure({"srv": entry(log)}).servers[0].tasks is False


async def test_a_call_that_runs_out_of_time_cancels_its_task(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(20):
        async with upstream(entry(log, tasks=True)) as srv:
            await srv.list_tools()  # its start is not what takes so long
            with pytest.raises(UpstreamCallTimeoutError):
                await srv.call_tool("research", {"forever": True}, timeout_s=1)

    assert asked(log)[-1] == "tasks/cancel"


@pytest.mark.req("H-069")
async def test_the_id_of_a_task_is_on_record(tmp_path: Path) -> None:
    journal = MemoryJournal()
    with anyio.fail_after(20):
        async with upstream(entry(tmp_path / "log", tasks=True)) as srv:
            manifest = Manifest(servers=(await srv.list_tools(),))
            session = call_context(
                lambda: manifest, approvals=LiveApprovals(AutoApprover()),
                policy=Policy(layers=(configuration_layer(server_rules("srv", [("*", "allow")])),)),
            )  # fmt: skip
            pipeline = CallPipeline({"srv": srv}, journal=journal, redactor=Redactor.of_values({}))
            spec = ToolCallSpec(run_id="run", call_id=1, server_id="srv", tool="research", arguments={})
            outcome = await pipeline.run(spec, session)

    assert outcome.ok
    assert [one.task_id for one in journal.entries if isinstance(one, CallOutcomeRecord)] == ["task-1"]


@pytest.mark.parametrize(
    "created",
    [
        pytest.param({}, id="none"),
        pytest.param({"task": {"taskId": 1, "status": "working"}}, id="no id"),
        pytest.param({"task": {"taskId": "x" * 300, "status": "working"}}, id="a long id"),
        pytest.param({"task": {"taskId": "t", "status": "odd"}}, id="an unknown status"),
    ],
)
async def test_a_task_that_is_none_is_an_error(created: Any) -> None:
    async def send(method: str, params: Any) -> Any:
        del params
        return created if method == "tools/call" else {}

    with pytest.raises(UpstreamResultError):
        await TaskCall("srv", send).result({"name": "research", "arguments": {}})


@pytest.mark.parametrize("declared", ['{"tasks": {}}', '{"tasks": {"requests": {"tools": true}}}', "null", "[]"])
async def test_only_what_is_declared_counts(declared: str) -> None:
    assert supports_tasks(json.loads(declared)) is False
