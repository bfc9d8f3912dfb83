"""The profile `ipybox` over HTTP: a kernel for each MCP session, and one for requests without."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import SERVERS
from from_ipybox.test_folders import PICTURE
from from_ipybox.test_mcp_server import CALL
from moonpool.configuration.servers import parse_config
from moonpool.features.approvals.model import Answerer, ApprovalAnswerError
from moonpool.ipybox.mcp_server import hosted
from server.services import MODERN_META, OpenService, caller, modern_headers, request, serving
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2

pytestmark = pytest.mark.anyio
PATH = "/mcp/ipybox"
ALICE, BOB, CAROL = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob", "carol"))
ECHO = {"command": sys.executable, "args": [str(SERVERS / "echo.py")]}


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    entries = json.dumps({"mcpServers": {"echo": ECHO}}).encode()
    config = parse_config(entries, source="test", environ={})
    callers = {name: caller(name) for name in ("alice", "bob", "carol")}
    async with serving(callers, config=config, approval_wait_s=0.05) as one:
        yield one


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": name, "arguments": arguments})


def told(answer: httpx2.Response) -> str:
    """The text of an answer; how it failed, too."""
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    return ("FAILED: " if result["isError"] else "") + result["content"][0]["text"]


async def cell(service: OpenService, code: str, **headers: str) -> str:
    return told(await service.post(call("execute_ipython_cell", code=code), path=PATH, **headers))


async def opened(service: OpenService, who: dict[str, str]) -> dict[str, str]:
    """The headers of a new session."""
    shake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = await service.post(request("initialize", shake), path=PATH, **who)
    assert answer.status_code == 200, answer.text
    return {"mcp_session_id": answer.headers["mcp-session-id"], **who}


async def ended(service: OpenService, session: dict[str, str]) -> int:
    headers = {name.replace("_", "-"): value for name, value in session.items()}
    return (await service.http.delete(PATH, headers=headers)).status_code


@pytest.mark.req("I-091")
async def test_each_session_has_its_own_kernel_which_ends_with_it(service: OpenService) -> None:
    with anyio.fail_after(60):
        one, other = await opened(service, ALICE), await opened(service, ALICE)
        assert await cell(service, "import os\nx = 1\nprint(os.getcwd())", **one) == "/workspace"
        assert (await cell(service, "print(x)", **other)).startswith("FAILED: ")
        assert await cell(service, "x = 2\nprint(x)", **other) == "2"
        assert await cell(service, "print(x)", **one) == "1"

        # Nobody else reaches it, whatever id they send.
        foreign = await service.post(call("execute_ipython_cell", code="print(x)"), path=PATH, **{**one, **BOB})
        never = {**one, **ALICE, "mcp_session_id": "A" * 32}
        unknown = await service.post(call("execute_ipython_cell", code="print(x)"), path=PATH, **never)
        assert (foreign.status_code, foreign.text) == (unknown.status_code, unknown.text)
        assert foreign.status_code == 404

        assert told(await service.post(call("reset"), path=PATH, **one)) == ""
        assert (await cell(service, "print(x)", **one)).startswith("FAILED: ")
        assert await cell(service, "print(x)", **other) == "2"
        assert [await ended(service, session) for session in (one, other)] == [204, 204]


@pytest.mark.req("X-10")
async def test_no_variables_of_the_service_are_the_kernels(
    service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_ENV_API_KEY", "canary-4711")  # which over stdio names a variable of the kernel
    with anyio.fail_after(60):
        session = await opened(service, ALICE)
        seen = await cell(
            service, "import os\nprint([n for n in os.environ if 'API' in n or 'MOONPOOL' in n])", **session
        )
        assert seen == "[]"
        assert await ended(service, session) == 204


async def test_requests_without_a_session_share_the_kernel_of_their_caller(service: OpenService) -> None:
    modern = call("execute_ipython_cell", code="print(y)")
    modern["params"]["_meta"] = MODERN_META
    with anyio.fail_after(60):
        assert await cell(service, "y = 7", **ALICE) == ""
        assert await cell(service, "print(y)", **ALICE) == "7"
        headers = {**modern_headers("tools/call", "execute_ipython_cell"), **ALICE}
        assert told(await service.post(modern, path=PATH, **headers)) == "7"
        assert (await cell(service, "print(y)", **BOB)).startswith("FAILED: ")
        assert (await cell(service, "print(y)", **await opened(service, ALICE))).startswith("FAILED: ")


async def test_pictures_are_in_the_answer_and_much_output_is_cut(service: OpenService) -> None:
    with anyio.fail_after(60):
        answer = await service.post(call("execute_ipython_cell", code=PICTURE), path=PATH, **ALICE)
        text, picture = answer.json()["result"]["content"]
        assert "(/workspace/picture-1.png)" in text["text"]
        assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")
        long = await service.post(
            call("execute_ipython_cell", code="print('x' * 9000)", max_output_chars=100), path=PATH, **ALICE
        )
        assert "of 9,000 characters" in told(long)
        assert str(service.service.engine.data) not in told(long)


async def test_servers_of_the_organisation_are_told_of_and_none_is_registered(service: OpenService) -> None:
    with anyio.fail_after(60):
        known = call("register_mcp_server", server_name="echo", server_params={"command": "anything"})
        assert "echo" in told(await service.post(known, path=PATH, **ALICE)).split("\n")
        started = call("register_mcp_server", server_name="mine", server_params={"command": "/bin/sh"})
        refused = told(await service.post(started, path=PATH, **ALICE))
        assert refused.startswith("FAILED: there is no server 'mine' here")


async def test_a_call_that_policy_asks_about_waits_in_the_queue(service: OpenService) -> None:
    with anyio.fail_after(60):
        session = await opened(service, ALICE)
        assert "[approval_pending]" in await cell(service, CALL, **session)
        approvals = (await service.service.organisations.get("default")).tenant.approvals
        (asked,) = await asyncio.to_thread(approvals.requests)
        assert (asked.request.server_id, asked.request.principal) == ("echo", "key:alice")
        own = Answerer(name="key:alice", person=False, principal="key:alice")
        with pytest.raises(ApprovalAnswerError):
            await asyncio.to_thread(approvals.approve, asked.request.request_id, own)
        await asyncio.to_thread(approvals.approve, asked.request.request_id, Answerer(name="terminal:b", person=True))

        async def outcome() -> bool:
            return "hello" in await cell(service, CALL, **session)  # the same request again takes its outcome

        while not await outcome():
            pass


async def test_kernels_of_one_caller_are_bounded_and_a_session_that_ends_makes_room(
    service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted, "PER_PRINCIPAL_MAX", 1)
    sessions = await opened(service, CAROL), await opened(service, CAROL)
    with anyio.fail_after(60):
        await cell(service, "pass", **sessions[0])
        assert "[kernels_busy]" in await cell(service, "pass", **sessions[1])
        assert await ended(service, sessions[0]) == 204

        while await cell(service, "print(3)", **sessions[1]) != "3":
            pass  # the session ends in the background


async def test_a_kernel_that_nobody_uses_ends_and_the_next_cell_says_so() -> None:
    with anyio.fail_after(60):
        async with serving(session_idle_s=0.01) as service:
            await cell(service, "z = 1")
            pool = service.service.engine.pool
            await until(lambda: pool.statistics().alive == pool.statistics().ready)
            assert "This is a new kernel" in await cell(service, "print('z' in dir())")
