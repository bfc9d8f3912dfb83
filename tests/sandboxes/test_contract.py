"""The contract of every sandbox backend. `zygote` and `bubblewrap` run programs, `fake` plays a script for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import ExitCause, ExitOutcome, SandboxClosedError, SandboxSpec, SandboxStartError, Stream
from moonpool.sandboxes.fake import FakeBackend
from moonpool.sandboxes.host_folders import NO_NEWS
from moonpool.sandboxes.messages import Done, Execute, RecordedNondeterminism, ToolCall
from sandboxes.conftest import REAL
from sandboxes.images import REQUIRED, readable_folder, skip_unless_required
from sandboxes.probe import Probe
from sandboxes.scripts import (
    ADD,
    BOTH_STREAMS,
    BREAKS_THE_PROTOCOL,
    CALLS_A_TOOL,
    FLOODS,
    IS_BUSY,
    READS_CLOCK_AND_CHANCE,
    READS_WHAT_IS_SHOWN,
    SENDS_A_HUGE_LOG,
    TALKS_BETWEEN_CALLS,
    echoes,
    ends,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec, Sandbox, SandboxBackend
    from sandboxes.probe import Run
    from sandboxes.scripts import Program

pytestmark = pytest.mark.anyio


@dataclass
class Subject:
    """A backend under test, and how it is told to run a program."""

    name: str
    image: ImageSpec
    backend: SandboxBackend | None  # None: the fake, of which each program gets its own
    fakes: list[FakeBackend] = field(default_factory=list)
    sandboxes: list[Sandbox] = field(default_factory=list)

    async def open(self, program: Program, *, hash_seed: int | None = None) -> Probe:
        backend = self.backend
        if backend is None:
            backend = FakeBackend(program.play)
            self.fakes.append(backend)
        with anyio.fail_after(20):
            sandbox = await backend.open_sandbox(SandboxSpec(image=self.image, hash_seed=hash_seed))
        self.sandboxes.append(sandbox)
        return Probe(sandbox)

    async def run(self, program: Program) -> tuple[Probe, Run]:
        probe = await self.open(program)
        return probe, await probe.run(program.code)


@pytest.fixture(scope="session")
async def real_backends() -> AsyncGenerator[dict[str, SandboxBackend]]:
    """One of each that isolates, for all tests: what is opened is closed by the test that opened it."""
    with readable_folder() as folder:
        backends: dict[str, SandboxBackend] = {name: kind(folder / name) for name, kind in REAL.items()}
        yield backends
        with anyio.fail_after(20):
            for backend in backends.values():
                await backend.close()


@pytest.fixture(params=["bubblewrap", "fake", "zygote"])
async def subject(
    request: pytest.FixtureRequest, real_backends: dict[str, SandboxBackend], image: ImageSpec
) -> AsyncGenerator[Subject]:
    name = request.param
    backend = real_backends.get(name)
    if backend is not None:
        skip_unless_required(name, backend.missing_features())
    request.node.user_properties.append(("sandbox backend", name))
    subject = Subject(name, image, backend)
    yield subject
    with anyio.fail_after(20):
        for one in (*subject.sandboxes, *subject.fakes):
            await one.close()


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_a_required_backend_is_there(name: str, state_dir: Path) -> None:
    assert REAL[name](state_dir).missing_features() == []


# --- executions


async def test_an_open_sandbox_runs_one_execution_after_the_other(subject: Subject) -> None:
    probe = await subject.open(ADD)
    assert [(await probe.run(ADD.code)).result for _ in range(3)] == [2, 2, 2]


async def test_stdout_and_stderr_stay_apart_and_in_order(subject: Subject) -> None:
    _, run = await subject.run(BOTH_STREAMS)
    assert run.stdout == "".join(f"o{n}\n" for n in range(100))
    assert run.stderr == "".join(f"e{n}\n" for n in range(100))


async def test_output_comes_before_the_message_that_was_sent_after_it(subject: Subject) -> None:
    probe, _ = await subject.run(TALKS_BETWEEN_CALLS)
    said = b""
    for item, body in probe.heard:
        if item is Stream.STDOUT:
            said += body or b""
        elif isinstance(item, ToolCall):
            assert said.endswith(b"before %d\n" % item.id)


async def test_all_output_comes_before_done(subject: Subject) -> None:
    probe, run = await subject.run(FLOODS)
    assert len(run.stdout) == 64 * 65_536
    assert isinstance(probe.heard[-1][0], Done)


async def test_files_and_packages_are_shown_as_they_were_given_last(subject: Subject, tmp_path: Path) -> None:
    probe = await subject.open(READS_WHAT_IS_SHOWN)
    sandbox, folders = probe.sandbox, [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        (folder / f"{folder.name}.py").touch()
    assert sandbox.shows_packages("")
    with pytest.raises(OSError, match="missing"):
        await anyio.to_thread.run_sync(sandbox.publish_packages, [folders[0], tmp_path / "missing"], "1" * 64)
    assert sandbox.shows_packages("")
    for digest in ("2" * 64, "3" * 64):
        await anyio.to_thread.run_sync(sandbox.publish_packages, folders, digest)
        assert [sandbox.shows_packages(other) for other in (digest, "1" * 64, "")] == [True, False, False]
    for content in (b"before", b"now"):
        await anyio.to_thread.run_sync(sandbox.show_file, "a.txt", content)
    assert (await probe.run(READS_WHAT_IS_SHOWN.code)).result == ["now", "first", "second"]


async def test_a_sandbox_without_copies_of_folders_has_nothing_to_synchronise(subject: Subject) -> None:
    sandbox = (await subject.open(ADD)).sandbox
    assert await sandbox.synchronise_folders() == NO_NEWS
    await sandbox.close()
    assert await sandbox.synchronise_folders() == NO_NEWS


async def test_a_tool_call_goes_out_and_its_reply_comes_back(subject: Subject) -> None:
    _, run = await subject.run(CALLS_A_TOOL)
    assert run.calls == [ToolCall(id=1, server="srv", tool="t.o-ol", line=3)]
    assert run.result == {
        "ok": True,
        "data_from": "structured",
        "raw": {"structuredContent": {"server": "srv", "tool": "t.o-ol", "arguments": {"text": "ä\0"}}},
    }


@pytest.mark.parametrize("size", [65_500, 1 << 20, 10 << 20])
async def test_bodies_of_any_size_travel_both_ways(subject: Subject, size: int) -> None:
    _, run = await subject.run(echoes(size))
    assert run.result is True


async def test_what_comes_while_nobody_is_attached_is_kept_for_the_next(subject: Subject) -> None:
    probe = await subject.open(ADD)
    probe.sandbox.detach()
    probe.start(ADD.code)
    with anyio.fail_after(30):
        while not (waiting := Probe(probe.sandbox)).heard:
            waiting.sandbox.detach()
            await anyio.sleep(0.01)
    assert isinstance(waiting.heard[0][0], Done)


# --- nondeterminism logs


async def test_what_was_recorded_can_be_played_in_a_sandbox_of_the_same_hash_seed(subject: Subject) -> None:
    program = READS_CLOCK_AND_CHANCE
    first = await subject.open(program)
    recorded = await first.record(program.code)
    second = await subject.open(program, hash_seed=first.sandbox.hash_seed)
    assert second.sandbox.hash_seed == first.sandbox.hash_seed
    (tape,) = recorded.tapes
    played = await second.replay(program.code, tape)
    assert (played.stdout, played.stderr, played.divergence) == (recorded.stdout, "", "")


async def test_every_execution_of_a_session_has_a_log_of_its_own(subject: Subject) -> None:
    program = READS_CLOCK_AND_CHANCE
    first = await subject.open(program)
    runs = [await first.record(program.code) for _ in range(2)]
    second = await subject.open(program, hash_seed=first.sandbox.hash_seed)
    played = [await second.replay(program.code, run.tapes[0]) for run in runs]
    assert [run.stdout for run in played] == [run.stdout for run in runs]
    assert runs[0].stdout != runs[1].stdout


async def test_without_being_asked_for_there_is_no_log(subject: Subject) -> None:
    _, run = await subject.run(READS_CLOCK_AND_CHANCE)
    assert run.tapes == []


async def test_a_log_comes_before_done(subject: Subject) -> None:
    probe = await subject.open(READS_CLOCK_AND_CHANCE)
    await probe.record(READS_CLOCK_AND_CHANCE.code)
    told = [type(item) for item, _ in probe.heard if isinstance(item, RecordedNondeterminism | Done)]
    assert told == [RecordedNondeterminism, Done]


async def test_a_log_that_is_too_long_discards_the_sandbox(subject: Subject) -> None:
    probe = await subject.open(SENDS_A_HUGE_LOG)
    run = await probe.run_to_exit(SENDS_A_HUGE_LOG.code)
    assert run.exit is not None
    assert "a nondeterminism log of 1,048,577 bytes" in (run.exit.violation or "")


async def test_a_hash_seed_is_chosen_and_known(subject: Subject) -> None:
    probe = await subject.open(ADD)
    assert 1 <= probe.sandbox.hash_seed < 2**32


# --- the end


async def test_an_interrupt_ends_the_code_and_the_sandbox_goes_on(subject: Subject) -> None:
    probe = await subject.open(IS_BUSY)
    for _ in range(3):
        probe.start(IS_BUSY.code)
        await probe.said("busy")
        probe.sandbox.interrupt()
        run = await probe.finish()
        assert run.done is not None
        assert run.done.status == "interrupted"


async def test_kill_ends_it_and_says_who_did(subject: Subject) -> None:
    probe = await subject.open(IS_BUSY)
    probe.start(IS_BUSY.code)
    await probe.said("busy")
    probe.sandbox.kill()
    run = await probe.exited()
    assert run.exit == ExitOutcome(cause=ExitCause.KILLED, signal=9)
    assert probe.sandbox.has_ended


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param(ends(code=0, how="os._exit(0)"), ExitOutcome(cause=ExitCause.EXITED, exit_code=0), id="_exit(0)"),
        pytest.param(ends(code=7, how="os._exit(7)"), ExitOutcome(cause=ExitCause.EXITED, exit_code=7), id="_exit(7)"),
        pytest.param(
            ends(signal=11, how="ctypes.string_at(0)"),
            ExitOutcome(cause=ExitCause.SIGNALLED, signal=11),
            id="segmentation fault",
        ),
    ],
)
async def test_an_end_is_reported_with_its_cause_after_the_last_words(
    subject: Subject, program: Program, expected: ExitOutcome
) -> None:
    probe = await subject.open(program)
    run = await probe.run_to_exit(program.code)
    assert run.exit == expected
    assert run.stdout == "last words\n"
    assert await probe.sandbox.wait_exited() == expected
    assert isinstance(probe.heard[-1][0], ExitOutcome)


async def test_a_broken_protocol_discards_the_sandbox_and_says_why(subject: Subject) -> None:
    probe = await subject.open(BREAKS_THE_PROTOCOL)
    run = await probe.run_to_exit(BREAKS_THE_PROTOCOL.code)
    assert run.exit is not None
    assert run.exit.cause is ExitCause.KILLED
    assert "broke the channel's protocol" in (run.exit.violation or "")


async def test_whoever_attaches_after_the_end_hears_of_it(subject: Subject) -> None:
    probe = await subject.open(ADD)
    outcome = await probe.sandbox.close()
    assert Probe(probe.sandbox).heard == [(outcome, None)]
    probe.sandbox.detach()
    assert Probe(probe.sandbox).heard == [(outcome, None)]


async def test_closing_twice_gives_the_same_outcome(subject: Subject) -> None:
    probe = await subject.open(ADD)
    with anyio.fail_after(30):
        first, second = await probe.sandbox.close(), await probe.sandbox.close()
    assert first == second
    assert first.cause is ExitCause.KILLED


async def test_closing_right_after_opening_ends(subject: Subject) -> None:
    with anyio.fail_after(30):
        probe = await subject.open(IS_BUSY)
        outcome = await probe.sandbox.close()
    assert outcome.cause is ExitCause.KILLED


async def test_the_end_is_told_once(subject: Subject) -> None:
    probe = await subject.open(ADD)
    probe.sandbox.kill()
    probe.sandbox.kill()
    await probe.sandbox.close()
    assert [isinstance(item, ExitOutcome) for item, _ in probe.heard].count(True) == 1


async def test_sending_after_the_end_raises_instead_of_hanging(subject: Subject) -> None:
    probe = await subject.open(ADD)
    await probe.sandbox.close()
    with pytest.raises(SandboxClosedError, match=probe.sandbox.sandbox_id):
        probe.sandbox.send(Execute(run="r", name="c", manifest="", final=False, result_bytes_max=1), b"")


async def test_interrupting_after_the_end_does_nothing(subject: Subject) -> None:
    probe = await subject.open(ADD)
    await probe.sandbox.close()
    probe.sandbox.interrupt()
    probe.sandbox.kill()


async def test_sandbox_ids_are_random(subject: Subject) -> None:
    assert (await subject.open(ADD)).sandbox.sandbox_id != (await subject.open(ADD)).sandbox.sandbox_id


async def test_a_start_error_of_the_fake_is_typed() -> None:
    backend = FakeBackend(ADD.play, start_error="on purpose")
    with pytest.raises(SandboxStartError, match="on purpose"):
        await backend.open_sandbox(SandboxSpec(image=None))  # pyright: ignore[reportArgumentType]
