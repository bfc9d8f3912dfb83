"""How an execution handles nondeterminism logs, without a sandbox: opaque bytes that a guest sends, kept or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.engine.execution import Execution
from moonpool.engine.execution_spec import ExecutionSpec
from moonpool.sandboxes.messages import Done, Execute, NondeterminismLog, RecordedNondeterminism
from moonpool_wire.limits import NONDETERMINISM_BYTES_MAX

if TYPE_CHECKING:
    from moonpool.engine.execution_spec import ExecutionOutcome
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

pytestmark = pytest.mark.anyio


class Guest:
    """A sandbox that says what the test wants as soon as the code has come."""

    def __init__(self, *answers: tuple[GuestMessage, bytes]) -> None:
        self.answers, self.sent = answers, list[tuple["HostMessage", bytes]]()
        self.sink: Execution | None = None

    def attach(self, sink: Execution) -> None:
        self.sink = sink

    def detach(self) -> None:
        self.sink = None

    def limits_hit(self) -> None:
        return None

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        self.sent.append((message, body))
        if isinstance(message, Execute) and self.sink is not None:
            for answer, content in (*self.answers, (Done(run="r", status="ok"), b"")):
                self.sink.on_message(answer, content)


async def run(guest: Guest, *, record: bool = True, log: bytes | None = None) -> ExecutionOutcome:
    spec = ExecutionSpec(run_id="r", code=b"", record_nondeterminism=record, nondeterminism_log=log)
    with anyio.fail_after(30):
        return await Execution(guest, spec, None, {}).run()  # pyright: ignore[reportArgumentType]


async def test_a_recorded_log_is_handed_out_as_it_came() -> None:
    guest = Guest((RecordedNondeterminism(run="r"), b"anything"))
    assert (await run(guest)).nondeterminism_log == b"anything"
    assert [type(message) for message, _ in guest.sent] == [Execute]


async def test_a_log_to_play_goes_before_the_code() -> None:
    guest = Guest((RecordedNondeterminism(run="r", divergence="left it"), b""))
    outcome = await run(guest, record=False, log=b"bytes")
    assert guest.sent[0] == (NondeterminismLog(run="r"), b"bytes")
    assert isinstance(guest.sent[1][0], Execute)
    assert (outcome.nondeterminism_log, outcome.nondeterminism_divergence) == (b"", "left it")


async def test_of_several_logs_the_first_counts() -> None:
    guest = Guest(
        (RecordedNondeterminism(run="r"), b"first"), (RecordedNondeterminism(run="r", divergence="d"), b"second")
    )
    outcome = await run(guest)
    assert (outcome.nondeterminism_log, outcome.nondeterminism_divergence) == (b"first", "")


@pytest.mark.parametrize(
    ("run_named", "record"),
    [pytest.param("another", True, id="of another run"), pytest.param("r", False, id="nobody asked for")],
)
async def test_a_log_is_dropped(run_named: str, record: bool) -> None:
    outcome = await run(Guest((RecordedNondeterminism(run=run_named, divergence="d"), b"bytes")), record=record)
    assert (outcome.nondeterminism_log, outcome.nondeterminism_divergence) == (b"", "")


async def test_what_was_not_asked_for_is_not_kept() -> None:
    outcome = await run(Guest((RecordedNondeterminism(run="r"), b"bytes")), record=False, log=b"")
    assert outcome.nondeterminism_log == b""


def test_a_log_to_play_is_bounded() -> None:
    with pytest.raises(ValueError, match="a nondeterminism log holds at most 1,048,576 bytes, not 1,048,577"):
        ExecutionSpec(run_id="r", code=b"", nondeterminism_log=bytes(NONDETERMINISM_BYTES_MAX + 1))
