"""Bash in a real sandbox, driven as the host drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.sandboxes.messages import Execute, ToolCall
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from moonpool.sandboxes.messages import GuestMessage
    from sandboxes.probe import Run


class BashProbe(Probe):
    """A `Probe` that speaks Bash; `python` runs Python in the same sandbox."""

    language = "bash"

    def start(self, code: str | bytes, *, final: bool = False, result_bytes_max: int = 1 << 20) -> None:
        self._runs += 1
        order = Execute(
            run=str(self._runs),
            name="<code>",
            manifest="",
            final=final,
            result_bytes_max=result_bytes_max,
            language=self.language,
        )
        self.sandbox.send(order, code.encode() if isinstance(code, str) else code)

    _left_open: tuple[str, ...] = ()

    def leave_open(self, *tools: str) -> None:
        """Do not answer calls of `tools`."""
        self._left_open = tools

    def always_answer(self, reply: object) -> None:
        """Answer every call with `reply`."""

        def broker(_call: ToolCall, _arguments: object) -> object:
            return reply

        self.broker = broker

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        if isinstance(message, ToolCall) and message.tool in self._left_open:
            self._hear((message, body))
        else:
            super().on_message(message, body)

    async def python(self, code: str) -> Run:
        """Run Python code to its end."""
        self.language = "python"
        try:
            return await self.run(code)
        finally:
            self.language = "bash"

    async def rehearse(self) -> None:
        """Have bash started before anybody waits for it."""
        self._runs += 1
        order = Execute(
            run=str(self._runs),
            name="<code>",
            manifest="",
            final=False,
            result_bytes_max=1,
            language="bash",
            rehearse=True,
        )
        self.sandbox.send(order, b"")
        await self.finish()
