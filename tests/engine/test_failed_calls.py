"""A call that failed stands in the envelope and in what a model reads, whatever the code made of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server, open_app
from moonpool.core.calls import CallError, CallErrorType
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelope_line import envelope_line
from moonpool.engine.failed_calls import FailedCalls
from moonpool.server.mcp.answers import execution_answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope

pytestmark = pytest.mark.anyio

LOOKS_AWAY = {
    "python": """
import asyncio
import servers.echo as e
from client.mcp_client import call_tool
for n in range(3):
    await e.text(text=str(n))
r = await e.fail(text='no such table: t. Try another one.')
try:
    (await call_tool(server_id='echo', name='ehco')).unwrap()
except Exception:
    pass
await asyncio.gather(e.fail(text='six'), return_exceptions=True)
result = {'inserted': 3}
""",
    "node": """
import * as e from './servers/echo/index.js';
const callTool = globalThis[Symbol.for('moonpool.callTool')];
for (let n = 0; n < 3; n += 1) await e.text({ text: String(n) });
const r = await e.fail({ text: 'no such table: t. Try another one.' });
await callTool('echo', 'ehco', {});
await e.fail({ text: 'six' });
globalThis.result = { inserted: 3 };
""",
    "bash": """
for n in 0 1 2; do moonpool call echo.text "{\\"text\\": \\"$n\\"}" 2>/dev/null; done
moonpool call echo.fail '{"text": "no such table: t. Try another one."}' >/dev/null 2>&1
moonpool call echo.ehco '{}' 2>/dev/null || true
moonpool call echo.fail '{"text": "six"}' >/dev/null 2>&1
echo '{"inserted": 3}'
""",
}


@pytest.fixture(scope="module")
async def app() -> AsyncGenerator[Tenant]:
    async with open_app({"echo": fixture_server("echo.py", allow=["*"], deny=["text"])}) as opened:
        yield opened


async def execute(app: Tenant, code: str, language: str = "python") -> Envelope:
    with anyio.fail_after(60):
        return await app.runtime.run(CodeRequest(code=code.encode(), language=language), app.caller_grant)


def told(failed: Any) -> list[tuple[str, str]]:
    return [(one["tool"], one["type"]) for one in failed["first"]]


@pytest.mark.req("H-027", "H-041", "L-012")
@pytest.mark.parametrize("language", LOOKS_AWAY)
async def test_failed_calls_are_told_where_code_looked_away(app: Tenant, language: str) -> None:
    envelope = await execute(app, LOOKS_AWAY[language], language)
    failed: Any = envelope.failed_calls
    assert (envelope.error, envelope.data, envelope.extras["exit_code"]) == (None, {"inserted": 3}, 0)
    assert failed["count"] == 6
    assert told(failed) == [
        *[("echo.text", "PolicyDenied")] * 3,
        ("echo.fail", "ToolError"),
        ("echo.ehco", "UnknownTool"),
    ]
    assert "\n" not in failed["first"][0]["message"]
    assert failed["first"][3]["message"] == "no such table: t."
    line = json.loads(envelope_line(envelope).line)
    answer = execution_answer(envelope)
    assert line["result"]["failed_calls"] == failed == json.loads(answer.text)["failed_calls"]
    assert (line["result"]["ok"], answer.is_error) == (True, False)


@pytest.mark.slow
async def test_outer_sandboxes_of_their_own_tell_them_too() -> None:
    servers = {"echo": fixture_server("echo.py", allow=["*"], deny=["text"])}
    async with open_app(servers, backend="bubblewrap") as app:
        for language, code in LOOKS_AWAY.items():
            envelope = await execute(app, code, language)
            assert (envelope.data, envelope.failed_calls and envelope.failed_calls["count"]) == ({"inserted": 3}, 6)
        assert (await execute(app, "x = 6\nx * 7")).data == 42


async def test_an_execution_without_failed_calls_says_nothing_of_them(app: Tenant) -> None:
    envelope = await execute(app, "import servers.echo as e\nresult = (await e.echo(a=1)).data")
    assert "failed_calls" not in envelope.result
    assert "failed_calls" not in execution_answer(envelope).text


async def test_a_failed_call_that_ended_the_code_is_said_once(app: Tenant) -> None:
    envelope = await execute(app, "import servers.echo as e\nr = await e.fail(text='no such table')\nresult = r.rows")
    assert envelope.error is not None
    assert envelope.error.type == "ToolError"
    assert "(called at line 2)" in envelope.error.message
    result: Any = envelope.result
    assert result["failed_calls"] == {
        "count": 1,
        "first": [{"tool": "echo.fail", "type": "ToolError", "message": "no such table"}],
    }
    answer = json.loads(execution_answer(envelope).text)
    assert answer["failed_calls"] == {"count": 1, "first": [{"tool": "echo.fail", "type": "ToolError"}]}


async def test_arguments_that_are_refused_before_they_are_sent_on_count_too(app: Tenant) -> None:
    code = "import servers.echo as e\nfrom moonpool_guest import toolcalls\n"
    code += "await toolcalls.relay('echo', 'echo', b'[1]')\nawait e.echo(a={1, 2})\nresult = 1"
    failed: Any = (await execute(app, code)).failed_calls
    assert (failed["count"], told(failed)) == (2, [("echo.echo", "ValidationError")] * 2)
    assert failed["first"][1]["message"] == (
        "the arguments of echo.echo are not JSON: Object of type set is not JSON serializable"
    )
    node = "import * as e from './servers/echo/index.js';\nawait e.echo({ a: 1n });\nglobalThis.result = 1"
    failed = (await execute(app, node, "node")).failed_calls
    assert (failed["count"], told(failed)) == (1, [("echo.echo", "ValidationError")])


def test_what_is_told_is_redacted_cut_and_one_sentence() -> None:
    failed = FailedCalls()
    message = "the secret was not taken; e.g. see v1.2 of it. More.\nAnd more"
    for _ in range(7):
        failed.note("s." + "x" * 500, CallError(type=CallErrorType.TOOL_ERROR, message=message))
    shown: Any = failed.to_json(lambda text: text.replace("secret", "***"))
    assert (shown["count"], len(shown["first"])) == (7, 5)
    assert shown["first"][0]["message"] == "the *** was not taken; e.g. see v1.2 of it."
    assert len(shown["first"][0]["tool"]) <= 120
    long = FailedCalls()
    long.note("s.t", CallError(type=CallErrorType.TOOL_ERROR, message="ü\u202e" * 3000))
    assert len(json.dumps(long.to_json(lambda text: text))) < 1500


@pytest.mark.req("H-041")
async def test_a_call_that_was_not_answered_when_the_code_ended_is_told(app: Tenant) -> None:
    code = "import asyncio, servers.echo as e\nt = asyncio.create_task(e.sleep(seconds=60))\n"
    code += "await asyncio.sleep(0)\n'done'"
    envelope = await execute(app, code)
    failed: Any = envelope.failed_calls
    assert (envelope.data, failed["count"], told(failed)) == ("done", 1, [("echo.sleep", "ExecutionEnded")])
    assert "before this call was answered" in failed["first"][0]["message"]


async def test_what_the_sandbox_says_of_its_calls_takes_no_place_from_what_the_host_knows(app: Tenant) -> None:
    code = "import servers.echo as e\nfrom moonpool_guest import toolcalls\n"
    code += (
        "for _ in range(5): toolcalls.tell_refused('echo', 'echo', 'all is well')\nawait e.text(text='x')\nresult = 1"
    )
    failed: Any = (await execute(app, code)).failed_calls
    assert (failed["count"], told(failed)[0]) == (6, ("echo.text", "PolicyDenied"))
