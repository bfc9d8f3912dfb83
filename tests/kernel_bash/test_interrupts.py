"""An interrupt ends the code, wherever it is; bash and what it holds go on, unless the code does not let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.lowlevel
import pytest

if TYPE_CHECKING:
    from kernel_bash.probing import BashProbe
    from sandboxes.probe import Run

pytestmark = pytest.mark.anyio

NEXT = "; echo NO"
STATES = {
    "sleep": "echo in; sleep 100",
    "busy loop": "echo in; while :; do :; done",
    "arithmetic loop": "echo in; for ((;;)); do :; done",
    "nested functions": "g() { while :; do sleep 50; done; }; f() { for i in 1 2; do g; echo NO; done; }; echo in; f",
    "a pipeline": "echo in; sleep 100 | cat",
    "substitution": "echo in; y=$(sleep 100)",
    "subshell": "echo in; ( sleep 100 )",
    "wait": "sleep 100 & echo in; wait",
    "read": "echo in; read y < <(sleep 100)",
    "opening a fifo": "rm -f ff; mkfifo ff; echo in; : < ff",
    "coprocess": "coproc cat; echo in; read -u ${COPROC[0]} y",
    "eval": "eval 'eval \"echo in; sleep 100; echo NO\"; echo NO'",
    "a condition": "echo in; if sleep 100; then echo NO; fi",
    "an alternative": "echo in; sleep 100 || echo NO",
    "a sourced file": "echo 'echo in; sleep 100; echo NO' > lib.sh; . ./lib.sh",
    "case": "echo in; case $(sleep 100) in *) echo NO;; esac",
    "set -e": "set -e; echo in; sleep 100",
    "set -e in a function": "set -euo pipefail; f() { echo in; sleep 100 | cat; echo NO; }; f",
    "an ERR trap": "trap 'echo failed' ERR; echo in; sleep 100",
    "a file that would be cut": "echo kept > precious; echo in; sleep 100; { echo NO; } > precious",
    "a tool call": "echo in; moonpool call s.hang",
}


async def interrupted(bash: BashProbe, code: str) -> Run:
    bash.start(code)
    await bash.said("in\n")
    bash.sandbox.interrupt()
    return await bash.finish()


@pytest.mark.parametrize("state", list(STATES))
async def test_an_interrupt_ends_the_code_and_keeps_the_state_every_time(bash: BashProbe, state: str) -> None:
    bash.leave_open("hang")
    await bash.run("kept=0")
    turn, late = 1, 0
    while turn < 4:
        run = await interrupted(bash, STATES[state] + NEXT)
        assert run.done is not None
        assert (run.done.status, run.done.exit_code) == ("interrupted", 130), run
        if "it was killed" in str(run.error) and (late := late + 1) < 4:  # a busy machine did not run bash in time
            await bash.run("kept=0")
            turn = 1
            continue
        assert run.error == ("KeyboardInterrupt", "the execution was interrupted")
        assert "NO" not in run.stdout
        again = await bash.run(
            "set +eu; kept=$((kept + 1)); echo $kept; f() { :; }; trap -p DEBUG; cat precious 2>&- || :"
        )
        assert again.stdout.split() == [str(turn), *(["kept"] if "precious" in STATES[state] else [])]
        turn += 1


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        "trap '' INT; echo in; sleep 100",
        "trap : INT; echo in; while :; do :; done",
        "trap '' INT TERM HUP QUIT PIPE; echo in; for ((;;)); do sleep 9; done",
        "exec sh -c \"trap '' INT; echo in; sleep 100\"",
    ],
)
async def test_code_that_does_not_let_go_is_killed(bash: BashProbe, code: str, final: bool) -> None:
    await bash.python("kept = 1")
    bash.start(code, final=final)
    await bash.said("in\n")
    bash.sandbox.interrupt()
    run = await bash.finish()
    assert run.done is not None
    assert (run.done.status, run.done.exit_code) == ("interrupted", 130)
    assert ("lost" in run.error[1]) is not final
    assert (await bash.run("echo fresh")).stdout == "fresh\n"
    assert (await bash.python("result = kept")).result == 1


async def test_a_trap_of_the_code_may_finish_its_work(bash: BashProbe) -> None:
    run = await interrupted(bash, "trap 'echo tidied; done=1' INT; echo in; sleep 100; echo $done")
    assert run.done is not None
    assert (run.done.status, run.stdout.replace("tidied\n" * 2, "tidied\n")) == ("ok", "in\ntidied\n1\n")


async def test_a_trap_of_the_code_may_exit(bash: BashProbe) -> None:
    await bash.run("kept=1")
    run = await interrupted(bash, "trap 'exit 4' INT; echo in; sleep 100")
    assert run.done is not None
    assert (run.done.status, run.done.exit_code) == ("interrupted", 130)
    assert (await bash.run("echo $kept")).stdout == "1\n"


async def test_an_interrupted_one_shot_runs_its_exit_trap(bash: BashProbe) -> None:
    bash.start("trap 'echo bye' EXIT; echo in; sleep 100; echo NO", final=True)
    await bash.said("in\n")
    bash.sandbox.interrupt()
    run = await bash.finish()
    assert run.done is not None
    assert (run.done.status, run.stdout) == ("interrupted", "in\nbye\n")


async def test_jobs_in_the_background_are_left_alone(bash: BashProbe) -> None:
    await interrupted(bash, "sh -c 'echo in; exec sleep 100' & sleep 100")
    run = await bash.run("jobs -r | wc -l; kill $!")
    assert run.stdout.strip() == "1"


async def test_an_interrupt_while_idle_does_nothing(bash: BashProbe) -> None:
    await bash.run("x=1")
    for _ in range(20):
        bash.sandbox.interrupt()
    assert (await bash.run("echo $x")).stdout == "1\n"


async def test_interrupts_at_any_moment_lose_nothing(bash: BashProbe) -> None:
    """They rain down while short executions start and end; each ends as ok or interrupted."""
    await bash.run("kept=kept")
    codes = ("echo 1", "f() { for i in 1 2 3; do :; done; }; f", "x=$(echo 1)", "true | cat")
    statuses: set[str] = set()
    for turn in range(80):
        bash.start(codes[turn % len(codes)])
        for _ in range(turn % 7):
            await anyio.lowlevel.checkpoint()
        bash.sandbox.interrupt()
        if turn % 3 == 0:
            bash.sandbox.interrupt()
        run = await bash.finish()
        assert run.done is not None
        statuses.add(run.done.status)
    assert statuses <= {"ok", "interrupted"}
    assert (await bash.run("echo $kept")).stdout == "kept\n"
