"""What the guest is told of a server that fails: what happened, and never how the server is run or what it printed."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from call_contexts import call_context
from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.pipeline.approval import AutoApprover, LiveApprovals
from moonpool.pipeline.execution_grant import CallLimits, ServerTrust
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Policy, configuration_layer, server_rules
from moonpool.redaction.redactor import Redactor
from moonpool.store.fake import MemoryJournal
from moonpool.upstreams import base
from tables import every_row
from upstreams.peers import command, raw, upstream

if TYPE_CHECKING:
    from moonpool.upstreams import Upstream
    from upstreams.peers import HttpServer

CANARY = "opt-canary-4711"
SERVERS: dict[str, Any] = {
    "no such command": {"command": f"/{CANARY}/bin/server"},
    "no such working folder": {"command": sys.executable, "cwd": f"/{CANARY}"},
    "nobody at the address": {"url": f"http://127.0.0.1:9/{CANARY}/mcp"},
    "nobody at the address of SSE": {"url": f"http://127.0.0.1:9/{CANARY}/sse", "type": "sse"},
    "crashes at once": {
        "command": sys.executable, "args": ["-c", f"import sys; sys.exit('{CANARY} ' * 200)"]
    },
    "hangs": {
        "command": sys.executable, "moonpool": {"connect_timeout_s": 0.3},
        "args": ["-c", f"import sys, time; print('{CANARY}', file=sys.stderr, flush=True); time.sleep(60)"],
    },
    "prints garbage": {"command": sys.executable, "args": ["-c", f"print('{CANARY}')"]},
    "prints garbage and hangs": {
        "command": sys.executable, "moonpool": {"connect_timeout_s": 0.5},
        "args": ["-c", f"import time; print('{CANARY}', flush=True); time.sleep(60)"],
    },
    "refuses the handshake": {
        "command": sys.executable,
        "args": ["-c", f"""
import json, sys
for line in sys.stdin:
    error = {{"code": -32000, "message": "cannot open /{CANARY}"}}
    print(json.dumps({{"jsonrpc": "2.0", "id": json.loads(line).get("id"), "error": error}}), flush=True)
"""],
    },
}  # fmt: skip


async def failures(srv: Upstream) -> list[ToolCallOutcome]:
    """What a guest gets that calls the same tool three times."""
    tool = ToolDefinition(server_id="srv", name="echo", raw={"name": "echo"})
    manifest = Manifest(servers=(ServerListing(server_id="srv", tools=(tool,)),))
    pipeline = CallPipeline({"srv": srv}, journal=MemoryJournal(), redactor=Redactor.of_values({}))
    context = call_context(
        lambda: manifest, approvals=LiveApprovals(AutoApprover(), expiry_s=60.0),
        policy=Policy(layers=(configuration_layer(server_rules("srv", [("*", "allow")])),)),
        trust={"srv": ServerTrust(trusted=True)},
        limits=CallLimits(timeout_s=10.0),
    )  # fmt: skip
    spec = ToolCallSpec(run_id="run", call_id=1, server_id="srv", tool="echo", arguments={})
    return [await pipeline.run(spec, context) for _ in range(3)]


def assert_nothing_is_disclosed(outcomes: list[ToolCallOutcome], *secrets: str) -> None:
    for outcome in outcomes:
        assert outcome.error is not None
        assert outcome.error.message.startswith("server 'srv' ")
        for secret in (*secrets, sys.executable, "stderr"):
            assert secret not in repr(outcome)


@pytest.mark.req("A-062")
@pytest.mark.anyio
@pytest.mark.parametrize("entry", SERVERS.values(), ids=list(SERVERS))
async def test_a_server_that_does_not_come_up_tells_the_guest_nothing_of_itself(entry: Any) -> None:
    with anyio.fail_after(60):
        async with upstream(entry) as srv:
            outcomes = await failures(srv)
    assert_nothing_is_disclosed(outcomes, CANARY, "127.0.0.1")


@pytest.mark.anyio
async def test_a_server_that_keeps_dying_keeps_its_last_words_from_the_guest() -> None:
    with anyio.fail_after(60):
        async with upstream(raw("dies-mid-call")) as srv:
            outcomes = await failures(srv)
    assert_nothing_is_disclosed(outcomes, "about to die")


@pytest.mark.anyio
async def test_an_address_without_a_server_stays_here(echo_http: HttpServer) -> None:
    with anyio.fail_after(60):
        async with upstream({"url": echo_http.url(f"/{CANARY}"), "type": "http"}) as srv:
            outcomes = await failures(srv)
    assert_nothing_is_disclosed(outcomes, CANARY, "127.0.0.1")


@pytest.mark.anyio
async def test_a_hanging_tool_is_named_to_the_guest() -> None:
    with anyio.fail_after(60):
        async with upstream(command("raw.py", "hangs-on-call", moonpool={"timeout_s": 0.2})) as srv:
            await srv.list_tools()  # its start is not what takes so long
            with pytest.raises(base.UpstreamCallTimeoutError) as caught:
                await srv.call_tool("echo", {}, timeout_s=0.5)
    assert caught.value.for_guest == "server 'srv' did not answer 'echo' within 0.5 s and was told to cancel it"


ERRORS = [kind for _, kind in inspect.getmembers(base, inspect.isclass) if issubclass(kind, base.UpstreamError)]


@pytest.mark.req("A-062")
@every_row("kind", ERRORS)
def test_no_error_says_more_to_the_guest_than_it_was_given_for_it(kind: type[base.UpstreamError]) -> None:
    assert str(kind("db", f"failed at {CANARY}")) == f"server 'db' failed at {CANARY}"
    assert CANARY not in kind("db", f"failed at {CANARY}").for_guest
    assert kind("db", CANARY, for_guest="is ill").for_guest == "server 'db' is ill"
