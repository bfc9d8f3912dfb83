"""`execute_code` past `patience_s` and the tool `wait`, on real sandboxes: in process, and across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import DATA, fixture_server, open_app
from moonpool.engine.outcomes import OutcomeStore
from moonpool.features.approvals.model import Answerer
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.server.mcp.answers import Answer
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.connection_calls import Caller
from moonpool.server.mcp.tools import CodeTools
from moonpool.store.paths import approvals_path, outcomes_dir
from moonpool.store.process_marks import is_gone
from server.modern_client import YES, ModernClient, answers_to
from server.raw_client import SERVE, RawClient, environment
from waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant

ASKING = "print((await e.echo(word='hello')).data['word'])"
ENDLESS = "print('begun', flush=True)\nimport time\nwhile True: time.sleep(1)"


def gated(path: Path, then: str = "") -> str:
    """Code that says so when it has begun, and goes on when `path` is there."""
    return (
        "import servers.echo as e\nprint('ä begun', flush=True)\n"
        f"await e.await_file(path={str(path)!r})\n{then}\nprint('ended')\nresult = 42"
    )


class Model:
    """What a model reads of the tools of one principal."""

    def __init__(self, app: Tenant, principal: str | None = None) -> None:
        grant = app.caller_grant if principal is None else app.caller_grants.grant(principal)
        self.tools = CodeTools(replace(app, caller_grant=grant), Bindings())

    async def call(self, name: str, **arguments: Any) -> Any:
        answer = await self.tools.call(name, arguments, Caller(answers={}))
        assert isinstance(answer, Answer)
        assert json.loads(answer.text) == answer.structured
        return answer.structured

    async def begin(self, code: str, **arguments: Any) -> str:
        """Start it; its id once it goes on by itself."""
        running = await self.call("execute_code", code=code, patience_s=0, **arguments)
        assert running["state"] == "running"
        return running["execution"]

    async def until_printed(self, execution: str, text: str) -> None:
        with anyio.fail_after(60):
            while text not in (await self.call("wait", id=execution, patience_s=0.05, offset=0))["output"]:
                pass


@contextlib.asynccontextmanager
async def opened(**settings: Any) -> AsyncGenerator[tuple[Tenant, Model]]:
    async with open_app({"echo": fixture_server("echo.py")}, **settings) as app:
        model = Model(app)
        try:
            yield app, model
        finally:
            await model.tools.close()


@pytest.mark.anyio
async def test_code_past_patience_goes_on_and_wait_gives_its_outcome_to_everybody(tmp_path: Path) -> None:
    async with opened() as (_, model):
        execution = await model.begin(gated(tmp_path / "go"), session="s")
        await model.until_printed(execution, "begun")
        first = await model.call("wait", id=execution, patience_s=0, offset=0)
        inside = await model.call("wait", id=execution, patience_s=0, offset=1)
        again = await model.call("wait", id=execution, patience_s=0, offset=0)
        rest = await model.call("wait", execution=execution, patience_s=0)
        beyond = await model.call("wait", id=execution, offset=10_000)
        from_one = asyncio.ensure_future(model.call("wait", id=execution, patience_s=0.2, offset=3))
        await anyio.wait_all_tasks_blocked()
        await model.call("wait", id=execution, patience_s=0, offset=0)  # moves where the next answer begins
        with anyio.fail_after(60):
            given = await from_one
        with anyio.fail_after(60):
            waits = [asyncio.ensure_future(model.call("wait", id=execution)) for _ in range(20)]
            (tmp_path / "go").touch()
            ended = await asyncio.gather(*waits)
        after = await model.call("wait", id=execution, patience_s=0)

    assert first == again
    assert given["output"] == "begun\n"
    assert (first["output"], first["next_offset"]) == ("ä begun\n", 9)
    assert (inside["output"], inside["next_offset"]) == ("\N{REPLACEMENT CHARACTER} begun\n", 9)
    assert (rest["output"], rest["next_offset"]) == ("", 9)
    assert "the output has 9 bytes so far" in beyond["error"]["message"]
    assert all(one == {"ok": True, "data": 42, "stdout": "ä begun\nended\n"} for one in (*ended, after))


@pytest.mark.anyio
async def test_the_id_is_the_runs_own_and_patience_is_never_longer_than_the_operators(tmp_path: Path) -> None:
    async with opened(patience_s=0.05) as (app, model):
        running = await model.call("execute_code", code=gated(tmp_path / "go"), patience_s=10_000)
        still = await model.call("wait", id=running["execution"], patience_s=10_000)
        (tmp_path / "go").touch()
        with anyio.fail_after(60):
            while (await model.call("wait", id=running["execution"])).get("state") == "running":
                pass
        await app.executions.settled()
        kept = await asyncio.to_thread(OutcomeStore(outcomes_dir(DATA)).find, running["execution"])

    assert running["state"] == still["state"] == "running"
    assert "wait with this id" in running["note"]
    assert kept is not None
    assert kept["run_id"] == running["execution"]


def commands_with(word: str) -> list[str]:
    """Processes of this machine that have `word` in their command."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


@pytest.mark.anyio
async def test_cancelling_kills_the_run_and_leaves_no_process() -> None:
    word = f"{id(object())}.125"
    async with opened() as (_, model):
        execution = await model.begin(f"echo begun; sleep {word}", language="bash", timeout_s=600)
        await model.until_printed(execution, "begun")
        there = await asyncio.to_thread(commands_with, word)
        with anyio.fail_after(30):
            waiting = asyncio.ensure_future(model.call("wait", id=execution))
            cancelled = await model.call("wait", id=execution, cancel=True, offset=0)
            told = await waiting
        await until(lambda: not commands_with(word))
        later = await model.call("wait", id=execution)

    assert there
    assert (cancelled["ok"], cancelled["state"], cancelled["output"]) == (False, "cancelled", "begun\n")
    assert cancelled["error"]["type"] == told["error"]["type"] == later["error"]["type"] == "execution_cancelled"


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_the_run_and_a_cancelled_first_request_ends_it(tmp_path: Path) -> None:
    async with opened() as (app, model):
        execution = await model.begin(gated(tmp_path / "go"))
        wait = asyncio.ensure_future(model.call("wait", id=execution))
        await anyio.wait_all_tasks_blocked()
        wait.cancel()
        await asyncio.wait({wait})
        first = asyncio.ensure_future(model.call("execute_code", code=ENDLESS, timeout_s=600))
        view = app.executions.of(app.caller_grant.principal)
        await until(lambda: len(view.calls) == 2 and view.calls[1].output.total)
        first.cancel()
        with anyio.fail_after(30):
            await asyncio.wait({first})
        left = [call.call_id for call in view.calls]
        (tmp_path / "go").touch()
        outcome = await model.call("wait", id=execution)

    assert left == [execution]
    assert outcome["data"] == 42


@pytest.mark.anyio
async def test_an_id_of_another_principal_answers_like_an_unknown_one(tmp_path: Path) -> None:
    async with opened() as (app, model):
        other = Model(app, "key:other")
        execution = await model.begin(gated(tmp_path / "go"))
        unknown = f"run_{'0' * 32}"
        answers = [
            await other.call("wait", id=one, **more)
            for one in (execution, unknown)
            for more in ({}, {"cancel": True}, {"offset": 0})
        ]
        (tmp_path / "go").touch()
        outcome = await model.call("wait", id=execution)
        after = await other.call("wait", id=execution)
        await other.tools.close()

    told = {json.dumps(one).replace(execution, "ID").replace(unknown, "ID") for one in (*answers, after)}
    assert len(told) == 1
    assert answers[0]["error"]["type"] == "execution_unknown"
    assert outcome["data"] == 42


@pytest.mark.anyio
async def test_output_larger_than_the_window_says_what_is_missing(tmp_path: Path) -> None:
    """The window holds what both streams may have before they have artifacts."""
    numbers = "print('\\n'.join(str(n).zfill(7) for n in range(40_000)), flush=True)\n"
    async with opened(stdout_bytes_max=2_000, stderr_bytes_max=2_000) as (_, model):
        execution = await model.begin(numbers + gated(tmp_path / "go"))
        with anyio.fail_after(60):
            offset, heard = 0, ""
            while "begun" not in heard:
                part = await model.call("wait", id=execution, patience_s=0.05, offset=offset)
                offset, heard = part["next_offset"], heard + part["output"]
        old = await model.call("wait", id=execution, patience_s=0, offset=8)
        same = await model.call("wait", id=execution, patience_s=0, offset=8 + old["missing_bytes"])
        (tmp_path / "go").touch()
        outcome = await model.call("wait", id=execution)

    assert old["missing_bytes"] > 0
    assert (8 + old["missing_bytes"]) + len(old["output"]) == old["next_offset"]
    assert old["unread_bytes"] == offset - old["next_offset"] > 0
    assert "artifact" in old["note"]
    assert same == {key: value for key, value in old.items() if key not in {"missing_bytes", "note"}} | {
        "note": same["note"]
    }
    number = (8 + old["missing_bytes"]) // 8 + 1
    assert str(number).zfill(7) in old["output"]
    artifact = outcome["stdout"].partition("all of it: ")[2].partition(" ...")[0]
    assert Path(artifact).read_text(encoding="utf-8").startswith("0000000\n0000001\n")


@pytest.mark.anyio
async def test_only_so_many_go_on_and_one_more_is_refused_before_it_starts(tmp_path: Path) -> None:
    async with opened(detached_runs_max=1) as (_, model):
        execution = await model.begin(gated(tmp_path / "go"))
        refused = await model.call("execute_code", code="result = 1")
        await model.call("wait", id=execution, cancel=True)
        then = await model.call("execute_code", code="result = 1")

    assert (refused["error"]["type"], refused["error"]["retryable"]) == ("executions_busy", True)
    assert then["data"] == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        pytest.param("execute_code", {"code": "1", "patience_s": -1}, "patience_s is -1; give 0 or more", id="below 0"),
        pytest.param("execute_code", {"code": "1", "patience_s": "5"}, "patience_s", id="a text"),
        pytest.param("wait", {}, "id", id="no id"),
        pytest.param("wait", {"id": 7}, "id", id="a number as id"),
        pytest.param("wait", {"id": "run_" + "0" * 32, "patience_s": -0.5}, "patience_s is -0.5", id="wait below 0"),
        pytest.param("wait", {"id": "\ud800"}, "half a surrogate pair", id="half a character"),
        pytest.param("wait", {"id": "x", "offset": 0.5}, "offset", id="half an offset"),
        pytest.param("wait", {"id": "x" * 100_000}, "there is no execution 'xxx", id="a long id"),
        pytest.param("wait", {"id": "x", "seconds": 1}, "seconds", id="an unknown argument"),
    ],
)
async def test_bad_arguments_get_one_clear_error(tool: str, arguments: dict[str, Any], says: str) -> None:
    async with opened() as (_, model):
        answer = await model.call(tool, **arguments)

    assert says in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 500


# One process after another, and questions to clients


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "servers.json"
    servers = {"echo": fixture_server("echo.py", allow=["await_file"])}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def test_a_restart_makes_it_lost_and_keeps_what_had_ended(config: Path, tmp_path: Path) -> None:
    counted = tmp_path / "never"
    with RawClient(config) as client:
        client.handshake()
        ended = client.execute("print('x'); result = 'kept'", patience_s=0)["execution"]
        wait_until(lambda: client.tool("wait", id=ended)["structuredContent"].get("data") == "kept", within_s=60)
        lost = client.execute(gated(counted), patience_s=0)["execution"]
        found = OutcomeStore(outcomes_dir(DATA))
        wait_until(lambda: found.find(ended) is not None, within_s=60)
        client.process.kill()
        client.process.wait()
    with RawClient(config) as client:
        client.handshake()
        answer = client.tool("wait", id=lost)
        again = client.tool("wait", id=lost, cancel=True)["structuredContent"]
        kept = client.tool("wait", id=ended)
    told = answer["structuredContent"]

    assert (answer["isError"], told["ok"], told["error"]["type"]) == (True, False, "execution_lost")
    assert (told["state"], told["error"]["retryable"]) == ("lost", False)
    assert told == again
    assert "It is not run again" in told["error"]["message"]
    assert kept["structuredContent"] == {"ok": True, "data": "kept", "stdout": "x\n"}
    assert kept["_meta"]["moonpool/envelope"]["run_id"] == ended


@pytest.mark.slow
def test_on_stdio_it_ends_with_its_client(config: Path, tmp_path: Path) -> None:
    word = f"{id(object())}.25"
    with RawClient(config, EOF_GRACE_S="0.2") as client:
        client.handshake()
        running = client.execute(f"sleep {word}", language="bash", timeout_s=600, patience_s=0)
        wait_until(lambda: commands_with(word), within_s=60)
        assert client.close() == 0
    assert commands_with(word) == []
    with RawClient(config) as client:
        client.handshake()
        assert client.tool("wait", id=running["execution"])["structuredContent"]["state"] == "lost"


def test_progress_and_questions_reach_the_client_that_waits(config: Path, tmp_path: Path) -> None:
    with RawClient(config, approve="ask") as client:
        client.handshake(elicitation={})
        execution = client.execute(gated(tmp_path / "go", ASKING), patience_s=0)["execution"]
        params = {"name": "wait", "arguments": {"id": execution}, "_meta": {"progressToken": "t"}}
        request = client.request("tools/call", params)
        assert client.call("ping")["result"] == {}  # so it waits
        (tmp_path / "go").touch()
        heard: list[Any] = []
        while not heard or heard[-1].get("method") != "elicitation/create":
            heard.append(client.receive())
        client.send({"jsonrpc": "2.0", "id": heard[-1]["id"], "result": YES})
        outcome = client.answer(request)["result"]["structuredContent"]
        told = [one["params"] for one in (*heard, *client.heard) if one["method"] == "notifications/progress"]

    assert "echo.echo" in heard[-1]["params"]["message"]
    assert outcome["stdout"] == "ä begun\nhello\nended\n"
    assert {one["progressToken"] for one in told} == {"t"}
    assert "".join(one["message"] for one in told).endswith("ended\n")


@pytest.mark.slow
def test_a_question_while_nobody_waits_goes_to_the_queue_and_wait_says_so(config: Path, tmp_path: Path) -> None:
    store = ApprovalStore(approvals_path(DATA), is_gone=is_gone)
    queue = Approvals(store, lambda _: None)
    with RawClient(config, approve="ask", MOONPOOL_APPROVAL_WAIT_S="0.1") as client:
        client.handshake(elicitation={})
        code = gated(tmp_path / "go", ASKING)
        execution = client.execute(code, patience_s=0)["execution"]
        (tmp_path / "go").touch()
        wait_until(queue.requests, within_s=60)
        pending = client.tool("wait", id=execution)["structuredContent"]
        queue.approve(queue.requests()[0].request.request_id, Answerer(name="terminal:boss", person=True))
        outcome: dict[str, Any] = {}

        def ended() -> bool:
            outcome.update(client.tool("wait", id=execution)["structuredContent"])
            return "data" in outcome

        wait_until(ended, within_s=60)
    store.close()

    assert pending["error"]["type"] == "approval_pending"
    assert "call wait again with exactly the same arguments" in pending["error"]["message"]
    assert outcome["data"] == 42


def test_a_modern_client_is_asked_by_the_answer_of_wait(config: Path, tmp_path: Path) -> None:
    with RawClient(config, approve="ask") as wire:
        client = ModernClient(wire)
        code = gated(tmp_path / "go", ASKING)
        execution = client.finish(code, patience_s=0)["execution"]
        (tmp_path / "go").touch()
        asked = client.wait(execution)
        outcome = client.wait(execution, state=asked["requestState"], answers=answers_to(asked))
        other = client.finish(ENDLESS, patience_s=0)["execution"]
        refused = client.wait(other, state=asked["requestState"], answers=answers_to(asked))
        client.wait(other, cancel=True)

    assert asked["resultType"] == "input_required"
    assert outcome["structuredContent"]["stdout"] == "ä begun\nhello\nended\n"
    assert refused["data"] == {"reason": "request_state_refused"}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdks_client_takes_a_long_run(config: Path, tmp_path: Path, mode: str) -> None:
    import sys

    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(config), "deny"], env=environment())
    with anyio.fail_after(60):
        async with Client(command, mode=mode) as client:
            code = gated(tmp_path / "go")
            begun = await client.call_tool("execute_code", {"code": code, "patience_s": 0})
            assert begun.structured_content is not None
            execution = begun.structured_content["execution"]
            (tmp_path / "go").touch()
            ended = await client.call_tool("wait", {"id": execution})

    assert begun.is_error is False
    assert execution in begun.content[0].text
    assert ended.structured_content == {"ok": True, "data": 42, "stdout": "ä begun\nended\n"}
