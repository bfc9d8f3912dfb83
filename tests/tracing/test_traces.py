"""One trace from the caller through Moonpool to upstream servers, over real sockets and real sandboxes."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, open_app, run
from moonpool.configuration.servers import parse_config
from server.services import MODERN_META, STREAMS, caller, execute, modern_headers, request, serving
from tracing.peers import Collector, collecting, http_upstream
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
CALL = "from servers.{0} import context\nresult = (await context(text={1!r})).data['meta']"
BAGGAGE = {"tracestate": "vendor=canary-state", "baggage": "user=canary-baggage"}


@pytest.fixture(scope="module")
def upstream() -> Generator[tuple[str, list[dict[str, str]]]]:
    with http_upstream() as opened:
        yield opened


@pytest.fixture(scope="module")
def collector() -> Generator[Collector]:
    with collecting() as opened, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield opened


@pytest.fixture(scope="module")
async def service(
    collector: Collector, upstream: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[OpenService]:
    remote = {"url": upstream[0], "type": "http", "moonpool": {"allow": ["*"]}}
    direct = fixture_server("traced.py", allow=["*"], expose="direct")
    servers = {"here": fixture_server("traced.py"), "there": remote, "plain": direct}
    config = parse_config(json.dumps({"mcpServers": servers}).encode(), source="test", environ=os.environ)
    state = tmp_path_factory.mktemp("state")
    callers = {"a": caller("canary-principal")}
    async with serving(callers, config=config, state=state, tracing="otlp") as opened:
        yield opened


def parent() -> tuple[str, str, str]:
    """A trace id, a span id, and what names them."""
    trace, span = token_hex(16), token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """What the upstream server got as `_meta`."""
    text = answer["result"]["content"][0]["text"]
    return json.loads(text)["data"]


@pytest.mark.req("H-033")
async def test_a_call_is_one_trace_in_the_callers(collector: Collector, service: OpenService) -> None:
    trace, span, given = parent()
    answer = await service.post(
        execute(CALL.format("here", "x")), authorization="Bearer a", traceparent=given, **BAGGAGE
    )
    meta = told(answer.json())
    await until(lambda: len(collector.of(trace)) == 5)
    spans = collector.of(trace)
    names = ["POST /mcp", "tools/call execute_code", "execution python", "execute_tool context", "tools/call context"]
    assert sorted(spans) == sorted(names)
    chain = [spans[name] for name in names]
    assert [one.parent for one in chain] == [span, *(one.id for one in chain[:-1])]
    assert meta["traceparent"] == f"00-{trace}-{chain[-1].id}-01"
    assert not BAGGAGE.keys() & meta.keys()
    assert not any(one.failed for one in chain)
    assert chain[0].attributes == {
        "http.request.method": "POST", "http.route": "/mcp", "http.response.status_code": 200
    }  # fmt: skip
    assert chain[1].attributes["gen_ai.tool.name"] == "execute_code"
    assert chain[2].attributes["moonpool.language"] == "python"
    assert chain[2].attributes["moonpool.run_id"].startswith("run_")
    assert chain[3].attributes == {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "context", "moonpool.server": "here",
        "moonpool.decision": "allow", "moonpool.approval": "NOT_REQUIRED",
    }  # fmt: skip
    assert chain[4].attributes == {
        "mcp.method.name": "tools/call", "mcp.protocol.version": "2025-11-25", "network.transport": "pipe",
        "gen_ai.tool.name": "context", "moonpool.server": "here",
    }  # fmt: skip


async def test_the_requests_own_meta_wins_in_every_revision(collector: Collector, service: OpenService) -> None:
    session = await service.session(authorization="Bearer a")
    for headers in (session, {}, None):
        (trace, span, given), (_, _, other) = parent(), parent()
        code, meta = CALL.format("here", "x"), {"traceparent": given, **BAGGAGE}
        if headers is None:
            message = execute(code, meta={**MODERN_META, **meta})
            headers = modern_headers("tools/call", "execute_code")  # noqa: PLW2901
        else:
            message = execute(code, meta=meta)
        answer = await service.http.post(
            "/mcp",
            json=message,
            headers={**STREAMS, "authorization": "Bearer a", "traceparent": other}
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )
        assert f"00-{trace}-" in answer.text
        assert "canary" not in answer.text
        await until(lambda trace=trace: len(collector.of(trace)) == 4)
        assert collector.of(trace)["tools/call execute_code"].parent == span


async def test_a_session_s_requests_are_in_their_own_http_requests(collector: Collector, service: OpenService) -> None:
    """The SDK answers all of a session in a task that began with its first request."""
    session = await service.session(authorization="Bearer a")
    for _ in range(2):
        trace, span, given = parent()
        await service.post(execute("result = 1"), traceparent=given, **session, accept="application/json")
        await until(lambda trace=trace: len(collector.of(trace)) == 3)
        assert collector.of(trace)["POST /mcp"].parent == span


async def test_servers_over_http_get_a_header_too(
    collector: Collector, service: OpenService, upstream: tuple[str, list[dict[str, str]]]
) -> None:
    trace, _, given = parent()
    unsampled = f"{given[:-2]}00"
    answer = await service.post(execute(CALL.format("there", "x")), authorization="Bearer a", traceparent=unsampled)
    assert told(answer.json())["traceparent"].endswith("-00")  # the caller wants no spans, and its servers are told
    answer = await service.post(execute(CALL.format("there", "x")), authorization="Bearer a", traceparent=given)
    await until(lambda: "tools/call context" in collector.of(trace))
    wire = f"00-{trace}-{collector.of(trace)['tools/call context'].id}-01"
    assert told(answer.json())["traceparent"] == wire
    assert upstream[1][-1]["traceparent"] == wire
    assert not BAGGAGE.keys() & upstream[1][-1].keys()


async def test_clients_own_calls_and_sessions_over_http(collector: Collector, service: OpenService) -> None:
    trace, _, given = parent()
    headers = {"authorization": "Bearer a", "traceparent": given}
    called = request("tools/call", {"name": "context", "arguments": {}})
    answer = await service.post(called, path="/mcp/direct", **headers)
    assert f"00-{trace}-" in answer.text
    await until(lambda: len(collector.of(trace)) == 5)
    assert {"POST /mcp/{profile}", "direct call"} <= collector.of(trace).keys()

    trace, _, given = parent()
    headers["traceparent"] = given
    opened = await service.http.post("/v1/sessions", json={}, headers=headers)
    path = f"/v1/sessions/{opened.json()['id']}"
    ran = await service.http.post(f"{path}/executions", json={"code": "1"}, headers=headers)
    assert ran.status_code < 300, ran.text
    await service.http.delete(path, headers=headers)
    await until(lambda: len(collector.of(trace)) == 4)
    spans = collector.of(trace)
    assert spans["execution python"].parent == spans["POST /v1/sessions/{session_id}/executions"].id


@pytest.mark.req("G-021")
async def test_nothing_that_somebody_wrote_is_in_a_span(collector: Collector, service: OpenService) -> None:
    """Canaries in everything that a caller, code or a server can write."""
    code = """
import client.mcp_client as m
from servers.here import context, fail
await context(text="canary-argument")
await fail(text="canary-failure")
for server, tool in (("here", "canary-tool"), ("canary-server", "context")):
    await m.call_tool(server_id=server, name=tool, arguments={"text": "canary"})
print("canary-output")
class CanaryError(Exception): "canary-class"
raise CanaryError("canary-message")
"""
    headers = {"authorization": "Bearer a", "user-agent": "canary-agent", **BAGGAGE}
    trace, _, given = parent()
    await service.post(execute(code), traceparent=given, **headers)
    await until(lambda: "POST /mcp" in collector.of(trace))
    odd, _, other = parent()
    strange = request("tools/call", {"name": "canary_tool", "arguments": {}, "_meta": {"traceparent": other}})
    await service.post(strange, path="/mcp?x=canary", **headers)
    await service.post(request("canary/method", {}), path="/mcp", **headers)
    await service.http.post("/canary", headers=headers)
    await service.http.get("/mcp/canary", headers=headers)
    await service.http.get("/v1/sessions/canary", headers=headers)
    last, _, given = parent()
    await service.post(execute("result = 1"), traceparent=given, **headers)
    await until(lambda: "POST /mcp" in collector.of(last) and "tools/call" in collector.of(odd))
    assert collector.of(trace)["execution python"].attributes["error.type"] == "code"
    assert collector.of(trace)["execute_tool fail"].attributes["error.type"] == "ToolError"
    assert collector.of(trace)["execute_tool"].attributes["error.type"] == "UnknownTool"
    assert collector.of(odd)["tools/call"].failed
    assert b"canary" not in b"".join(collector.bodies).lower()


@pytest.mark.req("G-021")
async def test_who_is_not_admitted_makes_no_span(collector: Collector, service: OpenService) -> None:
    trace, _, given = parent()
    refused = await service.post(execute("1"), traceparent=given)
    assert refused.status_code == 401
    refused = await service.http.get("/healthz", headers={"traceparent": given})
    last, _, after = parent()
    await service.post(execute("1"), authorization="Bearer a", traceparent=after)
    await until(lambda: "POST /mcp" in collector.of(last))
    assert collector.of(trace) == {}


async def test_code_neither_learns_nor_forges_a_trace(collector: Collector, service: OpenService) -> None:
    """What it can write reaches its server as arguments only; what it can read does not hold the trace's id."""
    trace, _, given = parent()
    forged = parent()[2]
    code = f"""
import gc, hashlib, os, re
import client.mcp_client as m
from servers.here import context
seen = [str(dict(os.environ)), open("/proc/self/cmdline").read(), open("/proc/self/environ", "rb").read().decode()]
seen += [one for one in gc.get_objects() if isinstance(one, str)]
seen += [repr(one) for one in gc.get_objects() if isinstance(one, (dict, list, tuple)) and len(one) < 50]
ids = [one for text in seen for one in re.findall("[0-9a-f]{{32}}", text)]
found = [one for one in ids if hashlib.sha256(one.encode()).hexdigest() == {sha256(trace.encode()).hexdigest()!r}]
os.environ["TRACEPARENT"] = {forged!r}
r = await m.call_tool(
    server_id="here", name="context", arguments={{"text": "x", "_meta": {{"traceparent": {forged!r}}}}})
result = {{"found": len(found), "meta": r.data["meta"]}}
"""
    answer = await service.post(execute(code), authorization="Bearer a", traceparent=given)
    text = answer.json()["result"]["content"][0]["text"]
    assert json.loads(text)["data"]["found"] == 0, text
    assert json.loads(text)["data"]["meta"].keys() == {"traceparent"}
    assert forged not in text
    assert f"00-{trace}-" in text  # its server may tell it: code then knows a number that opens nothing


async def test_the_record_has_the_trace_s_id(collector: Collector) -> None:
    async with open_app(tracing="otlp") as app:
        envelope = await run(app, "result = 1")
    (span,) = collector.of(envelope.trace_id).values()
    assert (span.name, span.parent) == ("execution python", "")
    assert span.attributes["moonpool.run_id"] == envelope.run_id
