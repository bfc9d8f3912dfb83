"""`ApprovalChannel` by itself, with a WebSocket that a test answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from starlette.websockets import WebSocketDisconnect

from moonpool.ipybox import ApprovalChannel

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

pytestmark = pytest.mark.anyio


class FakeWebSocket:
    """What the channel sent, and what its client says next."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    async def accept(self) -> None:
        await self.sent.put("accepted")

    async def receive_json(self) -> Any:
        if (answer := await self.answers.get()) is None:
            raise WebSocketDisconnect
        return answer

    async def send_json(self, data: Any) -> None:
        await self.sent.put(data)

    async def close(self, code: int = 1000) -> None:
        await self.sent.put(f"closed {code}")
        await self.answers.put(None)


def connecting(channel: ApprovalChannel, socket: Any) -> asyncio.Task[None]:
    websocket: WebSocket = socket
    return asyncio.ensure_future(channel.connect(websocket))


@pytest.mark.req("I-062", "I-063", "I-065")
async def test_a_question_is_allowed_at_once_refused_without_a_client_or_answered_in_time() -> None:
    assert await ApprovalChannel().request("s", "t", {})
    channel, socket = ApprovalChannel(approval_required=True, approval_timeout=0.05), FakeWebSocket()
    with pytest.raises(RuntimeError, match="not connected"):
        await channel.request("s", "t", {})
    with anyio.fail_after(30):
        connection = connecting(channel, socket)
        assert (await socket.sent.get(), channel.open) == ("accepted", True)
        with pytest.raises(RuntimeError, match="another"):
            await connecting(channel, FakeWebSocket())
        with pytest.raises(TimeoutError):
            await channel.request("s", "t", {"a": 1})
        late = await socket.sent.get()
        asked_about = {"server_name": "s", "tool_name": "t", "tool_args": {"a": 1}}
        assert late == {"jsonrpc": "2.0", "method": "approve", "params": asked_about, "id": late["id"]}
        channel.approval_timeout = None
        for accepted in (True, False):
            asked = asyncio.ensure_future(channel.request("s", "t", {}))
            number = (await socket.sent.get())["id"]
            for answer in ({"id": late["id"], "result": True}, {"id": number, "result": accepted}):
                await socket.answers.put({"jsonrpc": "2.0", **answer})
            assert await asked is accepted
        await channel.disconnect()
        await channel.join()
        await connection
    assert not channel.open


@pytest.mark.req("I-062", "I-064")
async def test_a_channel_that_is_disconnected_fails_all_that_wait() -> None:
    channel, socket = ApprovalChannel(approval_required=True), FakeWebSocket()
    with anyio.fail_after(30):
        connection = connecting(channel, socket)
        assert await socket.sent.get() == "accepted"
        waiting = [asyncio.ensure_future(channel.request("s", f"t{number}", {})) for number in range(2)]
        assert [(await socket.sent.get())["params"]["tool_name"] for _ in waiting] == ["t0", "t1"]
        await channel.disconnect()
        for one in waiting:
            with pytest.raises(RuntimeError, match="disconnected"):
                await one
        await connection
        assert not channel.open
        with pytest.raises(RuntimeError, match="not connected"):
            await channel.request("s", "t", {})


@pytest.mark.req("I-065")
@pytest.mark.parametrize("answer", [{"id": "x"}, {"id": "x", "result": "yes"}, [], "yes", 7])
async def test_what_is_no_answer_ends_the_connection(answer: Any) -> None:
    channel, socket = ApprovalChannel(approval_required=True), FakeWebSocket()
    await socket.answers.put(answer)
    with anyio.fail_after(30):
        await connecting(channel, socket)
    assert [socket.sent.get_nowait() for _ in range(2)] == ["accepted", "closed 1003"]
    assert not channel.open
