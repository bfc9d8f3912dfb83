"""`ApprovalRequest`: a tool call that waits for the application's answer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
        given = ", ".join(f"{name}={value!r}" for name, value in self.tool_args.items())
        return f"{self.server_name}.{self.tool_name}({given})"

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
