"""What is said when a kernel does not come up, and at which step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes import ready
from moonpool.sandboxes.base import ExitCause, ExitOutcome, SandboxClosedError, SandboxStartError
from moonpool.sandboxes.messages import Done, Failed, GuestError, Ready
from moonpool.sandboxes.ready import rehearse, wait_ready
from moonpool_wire.limits import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.base import GuestSink
    from moonpool.sandboxes.messages import HostMessage

pytestmark = pytest.mark.anyio

READY = Ready(pid=1, protocol=PROTOCOL_VERSION, language="python", version="3")
FOREIGN = Ready(pid=1, protocol=PROTOCOL_VERSION + 1, language="python", version="3")
DONE = Done(run="rehearsal", status="ok")


class Kernel:
    """Does one thing as soon as somebody listens."""

    def __init__(self, act: Callable[[GuestSink], None]) -> None:
        self._act = act

    def attach(self, sink: GuestSink) -> None:
        self._act(sink)

    def detach(self) -> None:
        pass

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        pass


class EndedKernel(Kernel):
    def send(self, message: HostMessage, body: bytes = b"") -> None:
        del message, body
        raise SandboxClosedError("s")


def says(message) -> Kernel:
    return Kernel(lambda sink: sink.on_message(message, b""))


def end(sink: GuestSink) -> None:
    sink.on_exit(ExitOutcome(cause=ExitCause.EXITED, exit_code=3))


WAITS = [pytest.param(wait_ready, "ready", id="ready"), pytest.param(rehearse, "rehearsal", id="rehearsal")]


@pytest.mark.parametrize(("wait", "step"), WAITS)
async def test_silence_is_told_with_the_step(wait, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_READY_TIMEOUT_S", 0)
    with pytest.raises(SandboxStartError, match="the kernel said nothing") as raised:
        await wait(Kernel(lambda _: None))
    assert raised.value.step == step


@pytest.mark.parametrize(("wait", "step"), WAITS)
@pytest.mark.parametrize("kind", [Kernel, EndedKernel])
async def test_an_end_is_told_with_the_step(wait, step: str, kind) -> None:
    with pytest.raises(SandboxStartError, match="status 3") as raised:
        await wait(kind(end))
    assert raised.value.step == step


@pytest.mark.parametrize(
    ("wait", "message", "step", "reason"),
    [
        pytest.param(
            wait_ready,
            FOREIGN,
            "ready",
            "another protocol",
            id="protocol",
        ),
        pytest.param(wait_ready, DONE, "ready", "the kernel said 'done' instead of 'ready'", id="done too early"),
        pytest.param(rehearse, READY, "rehearsal", "the kernel said 'ready' instead of 'done'", id="ready twice"),
        pytest.param(wait_ready, Failed(step="mounts", message="no"), "mounts", "no", id="the guest names a step"),
        pytest.param(
            rehearse,
            Done(run="rehearsal", status="error", error=GuestError(type="SyntaxError", message="node: not found")),
            "rehearsal",
            "node: not found",
            id="a failed rehearsal",
        ),
    ],
)
async def test_another_word_is_told_with_the_step(wait, message, step: str, reason: str) -> None:
    with pytest.raises(SandboxStartError) as raised:
        await wait(says(message))
    assert (raised.value.step, reason in raised.value.reason) == (step, True)
