"""`ApprovalRequest`: a tool call that waits for an answer. `ApprovalClient` answers those of a `ToolServer`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import on_one_line
from moonpool.ipybox.tool_exec.addresses import access_to
from moonpool.ipybox.tool_exec.client import request, request_sync

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_log = logging.getLogger("moonpool.ipybox")


class ApprovalRequest:
    """A tool call that waits for `accept` or `reject`. The first answer counts.

    SECURITY: names and arguments come from code and servers; known secrets are removed. Show them, interpret none.
    """

    def __init__(
        self,
        server_name: str,
        tool_name: str,
        tool_args: dict[str, Any],
        respond: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`respond` gives the answer. Made in a running event loop."""
        self.server_name = server_name
        self.tool_name = tool_name
        self.tool_args = tool_args
        self.human_only = False  # policy wants a person to answer
        self._respond = respond
        self._decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answered = False

    def __str__(self) -> str:
        given = ", ".join(f"{shown_name(name)}={value!r}" for name, value in self.tool_args.items())
        return on_one_line(f"{self.server_name}.{shown_name(self.tool_name)}({given})")

    async def accept(self) -> None:
        """Allow the call. Raises moonpool.ApprovalAnswerError when its time is over or only a person may allow it."""
        await self._answer(accepted=True)

    async def reject(self) -> None:
        """Refuse the call. Raises moonpool.ApprovalAnswerError when its time is over."""
        await self._answer(accepted=False)

    async def response(self) -> bool:
        """Wait for the answer: whether the call was accepted."""
        return await asyncio.shield(self._decision)

    def on_decision(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` once with the answer, at once if it is there. What it raises is logged."""

        def call(decision: asyncio.Future[bool]) -> None:
            try:
                callback(decision.result())
            except Exception:  # noqa: BLE001  the callback is the application's
                _log.exception("the decision callback of an approval request failed")

        if self._decision.done():
            call(self._decision)
        else:
            self._decision.add_done_callback(call)

    def set_on_decision(self, on_decision: Callable[[], None]) -> None:
        """`on_decision` without the answer."""
        self.on_decision(lambda _: on_decision())

    async def _answer(self, *, accepted: bool) -> None:
        if self._answered:
            return
        self._answered = True
        try:
            await self._respond(accepted)
        except BaseException:
            self._answered = False  # nothing was answered
            raise
        if not self._decision.done():
            self._decision.set_result(accepted)


ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Awaitable[None]]
"""Answers a request with `accept()` or `reject()`, or leaves it open. What it raises is logged, and rejects it."""


class ApprovalClient:
    """Answers the requests of a `ToolServer`, which has one such client at a time. Use it with `async with`."""

    def __init__(self, callback: ApprovalCallback, host: str = "localhost", port: int = 8900) -> None:
        """`callback` is called for each request, beside others that it has not answered yet."""
        self.callback, self.host, self.port = callback, host, port
        self._connection: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def connect(self) -> None:
        """Begin to take requests. Raises RuntimeError when no tool server runs there or another client is connected."""
        if self._connection is not None:
            raise RuntimeError("this client is connected already")
        address, access = await asyncio.to_thread(access_to, self.host, self.port)
        headers = {"Authorization": f"Bearer {access.approval}"}
        try:
            self._connection = await connect(
                f"ws://{address.netloc}/approval",
                additional_headers=headers,
                proxy=None,
                compression=None,
                max_size=None,
            )
        except (OSError, InvalidHandshake) as error:
            problem = f"the tool server at {self.host}:{self.port} takes no approval client"
            raise RuntimeError(f"{problem}; is another one connected? ({error})") from error
        self._reading = asyncio.create_task(self._read(self._connection))

    async def disconnect(self) -> None:
        """Take no more requests; open ones fail. Disconnecting twice is fine."""
        connection, self._connection = self._connection, None
        if connection is None or self._reading is None:
            return
        await connection.close()
        await self._reading
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _read(self, connection: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for message in connection:
                asked = json.loads(message)
                if asked.get("method") == "approve":
                    task = asyncio.ensure_future(self._answer(connection, asked))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: ClientConnection, asked: dict[str, Any]) -> None:
        async def respond(accepted: bool) -> None:
            await connection.send(json.dumps({"jsonrpc": "2.0", "result": accepted, "id": asked["id"]}))

        given = asked["params"]
        question = ApprovalRequest(given["server_name"], given["tool_name"], given["tool_args"], respond)
        try:
            await self.callback(question)
        except Exception:  # noqa: BLE001  the callback is the application's
            _log.exception("the approval callback failed")
            with suppress(ConnectionClosed):
                await question.reject()


class ApprovalRequestor:
    """Asks the approval client of a `ToolServer` about something, without calling a tool."""

    def __init__(self, server_name: str, host: str = "localhost", port: int = 8900) -> None:
        self.server_name, self.host, self.port = server_name, host, port

    async def request(self, tool_name: str, tool_args: dict[str, Any]) -> None:
        """Return when it is accepted. Raises ApprovalRejectedError, ApprovalTimeoutError, ToolRunnerError."""
        await request(self.host, self.port, "/approve", self._body(tool_name, tool_args))

    def request_sync(self, tool_name: str, tool_args: dict[str, Any]) -> None:
        """`request`, blocking."""
        request_sync(self.host, self.port, "/approve", self._body(tool_name, tool_args))

    def _body(self, tool_name: str, tool_args: dict[str, Any]) -> dict[str, Any]:
        return {"server_name": self.server_name, "tool_name": tool_name, "tool_args": tool_args}
