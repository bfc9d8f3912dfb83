"""Receives the output of one attack program: messages, the verdict, or the sandbox's end.

SECURITY: the verdict is text of the guest. A compromised sandbox could report anything; that is why scenes check from
the host, and why tests remove layers to verify that probes notice.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import msgspec

from moonpool.doctor.probes.record import Finding, Heard
from moonpool.sandboxes.base import Stream
from moonpool.sandboxes.messages import Done, Execute

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ExitOutcome, Sandbox
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

_RESULT_BYTES_MAX = 65_536
_MESSAGES_MAX = 1000


class Listener:
    """Receives the messages of one execution to its end."""

    def __init__(self, language: str = "python") -> None:
        self._language = language
        self._said = bytearray()  # Bash prints its verdict as its last line
        self._run = secrets.token_hex(8)
        self._heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._messages: list[GuestMessage] = []

    async def hear(self, sandbox: Sandbox, code: str) -> Heard:
        sandbox.attach(self)
        order = Execute(
            run=self._run,
            name="<probe>",
            manifest="",
            final=False,
            result_bytes_max=_RESULT_BYTES_MAX,
            language=self._language,
        )
        sandbox.send(order, code.encode())
        return await self._heard

    def on_output(self, stream: Stream, data: bytes) -> None:
        if self._language == "bash" and stream is Stream.STDOUT:
            self._said += data
            del self._said[:-_RESULT_BYTES_MAX]

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        if isinstance(message, Done) and message.run == self._run:
            said = bytes(self._said).rstrip().rpartition(b"\n")[2]
            self._finish(_heard(message, said or body, tuple(self._messages)))
        elif len(self._messages) < _MESSAGES_MAX:
            self._messages.append(message)

    def on_refused(self, message: HostMessage) -> None:
        self._finish(Heard(error=f"the sandbox did not take {type(message).__name__}"))

    def on_exit(self, outcome: ExitOutcome) -> None:
        self._finish(Heard(outcome=outcome, messages=tuple(self._messages)))

    def _finish(self, heard: Heard) -> None:
        if not self._heard.done():
            self._heard.set_result(heard)


class _Verdict(msgspec.Struct, frozen=True):
    blocked: bool
    detail: str


def _heard(done: Done, body: bytes, messages: tuple[GuestMessage, ...]) -> Heard:
    if done.error is not None:
        return Heard(error=f"the attack broke: {done.error.type}: {done.error.message[:300]}", messages=messages)
    try:
        verdict = msgspec.json.decode(body, type=_Verdict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Heard(error=f"the attack gave no verdict: {error}", messages=messages)
    return Heard(finding=Finding(blocked=verdict.blocked, detail=verdict.detail[:2000]), messages=messages)
