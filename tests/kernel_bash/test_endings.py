"""How an execution ends: as a script would, with a type that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_bash.probing import BashProbe

pytestmark = pytest.mark.anyio

FINAL = pytest.mark.parametrize("final", [False, True], ids=["session", "one-shot"])


@FINAL
@pytest.mark.req("H-018", "H-027")
@pytest.mark.parametrize(
    ("code", "status", "exit_code", "kind", "message"),
    [
        pytest.param("exit 3", "exit", 3, "SystemExit", "status 3", id="exit"),
        pytest.param("f() { exit 4; }; f", "exit", 4, "SystemExit", "status 4", id="exit in a function"),
        pytest.param("exec false", "exit", 1, "SystemExit", "status 1", id="exec"),
        pytest.param("false", "error", 1, "ExitStatus", "status 1", id="the last command fails"),
        pytest.param("no_such_command", "error", 127, "ExitStatus", "status 127", id="not found"),
        pytest.param("return 6", "error", 6, "ExitStatus", "status 6", id="return"),
        pytest.param("set -e\n\nls /nosuch\necho NO", "error", 2, "CommandFailed", "line 3: `ls /nosuch`", id="set -e"),
        pytest.param("set -e\nx=$(false)", "error", 1, "CommandFailed", "line 2: ", id="set -e, substitution"),
        pytest.param("set -eo pipefail\nfalse | true", "error", 1, "CommandFailed", "line 2: ", id="set -e, pipefail"),
        pytest.param("set -eE\nf() {\n  false\n}\nf", "error", 1, "CommandFailed", "line 3: `false`", id="set -E"),
        pytest.param("set -e\nf() {\n  false\n}\nf", "exit", 1, "SystemExit", "status 1", id="set -e in a function"),
        pytest.param("set -e\n[ 1 = 2 ] && echo x", "error", 1, "ExitStatus", "status 1", id="set -e, a test last"),
        pytest.param("set -u\necho $nosuch", "exit", 1, "SystemExit", "status 1", id="set -u"),
        pytest.param(": ${x:?is missing}", "exit", 1, "SystemExit", "status 1", id="a variable that must be set"),
        pytest.param("if true; then\n echo x", "error", 2, "SyntaxError", "end of file", id="not closed"),
        pytest.param("echo x\nfi", "error", 2, "SyntaxError", "(line 2)", id="a stray word"),
        pytest.param("ls /nosuch", "error", 2, "ExitStatus", "status 2", id="status 2 of a command"),
        pytest.param("kill -9 $$", "error", 137, "KernelKilled", "SIGKILL", id="killed"),
        pytest.param("kill -ALRM $$; sleep 9", "error", 142, "KernelKilled", "SIGALRM", id="alarmed"),
        pytest.param("kill -KILL 0", "error", 137, "KernelKilled", "SIGKILL", id="killed with its group"),
        pytest.param("kill -TERM $$; sleep 9", "error", 143, "KernelKilled", "SIGTERM", id="terminated"),
    ],
)  # fmt: skip
async def test_a_failure_has_a_status_and_a_type(
    bash: BashProbe, code: str, status: str, exit_code: int, kind: str, message: str, final: bool
) -> None:
    run = await bash.run(code, final=final)
    assert run.done is not None
    assert run.done.error is not None
    assert (run.done.status, run.done.exit_code, run.done.error.type) == (status, exit_code, kind)
    assert message in run.done.error.message
    assert "NO" not in run.stdout


@FINAL
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("exit 0", "exit"),
        ("exit", "exit"),
        ("exec true", "exit"),
        ("false; true", "ok"),
        ("set -e; false || true; if false; then :; fi; ! true; echo", "ok"),
        ("", "ok"),
        ("# nothing", "ok"),
    ],
)
async def test_a_success_is_one(bash: BashProbe, code: str, status: str, final: bool) -> None:
    run = await bash.run(code, final=final)
    assert run.done is not None
    assert (run.done.status, run.done.exit_code, run.done.error) == (status, 0, None)


async def test_a_nul_byte_is_refused_before_anything_runs(bash: BashProbe) -> None:
    run = await bash.run(b"echo x\necho a\0b")
    assert run.error[0] == "SyntaxError"
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("exit 3", "SystemExit"),
        ("set -e; false", "CommandFailed"),
        ("set -u; echo $nosuch", "SystemExit"),
        ("g() { exit 2; }; g", "SystemExit"),
    ],
)
async def test_what_ends_bash_does_not_end_its_state(bash: BashProbe, ending: str, kind: str) -> None:
    await bash.run(
        "x='a b'; declare -ri n=7; declare -A m=([k]=$'\\xff'); f() { cat <<<\"f $x\"; }; cd /tmp; umask 077; "
        "alias ll=ls; shopt -s nullglob; trap 'echo usr' USR1; export E=exported; declare -n ref=x"
    )
    before = await bash.run(f"y=late; {ending}")
    assert before.error[0] == kind
    assert "lost" not in before.error[1]
    run = await bash.run(
        "set +eu; f; echo $y $n $PWD $(umask) ${BASH_ALIASES[ll]} $ref; printf %s ${m[k]} | od -An -tx1; "
        "shopt -q nullglob && kill -USR1 $$; env | grep ^E=\nn=8\necho after"
    )
    assert run.stdout == "f a b\nlate 7 /tmp 0077 ls a b\n ff\nusr\nE=exported\nafter\n", run.stderr
    assert "readonly" in run.stderr


async def test_options_outlive_bash_too(bash: BashProbe) -> None:
    await bash.run("set -euo pipefail; shopt -s extglob; false")
    run = await bash.run("echo $-; shopt -q extglob; [[ -o pipefail ]] && echo ok")
    assert run.stdout == "ehuB\nok\n"


@pytest.mark.parametrize(
    "ending",
    ["trap 'echo bye' EXIT; exit 3", "exec sh -c 'exit 3'", "big=$(head -c 20000000 /dev/zero | tr '\\0' x); exit 3"],
    ids=["its own EXIT trap", "exec", "too much to keep"],
)
async def test_state_that_is_lost_is_said_to_be_lost(bash: BashProbe, ending: str) -> None:
    await bash.run("x=1")
    run = await bash.run(ending)
    assert run.error == (
        "SystemExit",
        "the code exited with status 3; the variables and functions of this session's bash are lost",
    )
    assert (await bash.run("echo [$x]")).stdout == "[]\n"


async def test_a_good_exit_that_loses_the_state_says_so_on_stderr(bash: BashProbe) -> None:
    run = await bash.run("trap 'echo bye' EXIT; exit 0")
    assert run.done is not None
    assert (run.done.error, run.stdout) == (None, "bye\n")
    assert run.stderr == "moonpool: bash has exited; the variables and functions of this session's bash are lost\n"


async def test_state_that_ends_bash_again_is_not_kept_for_ever(bash: BashProbe) -> None:
    await bash.run("set() { kill -9 $$; }; exit 0")
    run = await bash.run("echo fresh")
    assert run.stdout == "fresh\n"
    assert "lost" in run.stderr


@FINAL
async def test_an_exit_trap_runs_at_exit_with_both_streams(bash: BashProbe, final: bool) -> None:
    run = await bash.run("trap 'echo bye; echo err >&2' EXIT; echo x; exit 3", final=final)
    assert (run.stdout, run.stderr) == ("x\nbye\n", "err\n")


@pytest.mark.parametrize("last", ["true", "false", "set -e; false"])
async def test_an_exit_trap_runs_at_the_end_of_a_one_shot(bash: BashProbe, last: str) -> None:
    run = await bash.run(f"trap 'echo bye; echo err >&2' EXIT; {last}", final=True)
    assert (run.stdout, run.stderr) == ("bye\n", "err\n")


async def test_an_exit_trap_may_change_the_status(bash: BashProbe) -> None:
    run = await bash.run("trap 'exit 9' EXIT; true", final=True)
    assert run.done is not None
    assert run.done.exit_code == 9


async def test_an_exit_trap_of_a_session_waits_for_the_end_of_bash(bash: BashProbe) -> None:
    assert (await bash.run("trap 'echo bye' EXIT; echo x")).stdout == "x\n"
    assert (await bash.run("exit")).stdout == "bye\n"


async def test_an_err_trap_runs_once_for_a_failing_command(bash: BashProbe) -> None:
    run = await bash.run("trap 'echo ERR $LINENO' ERR\n\nfalse")
    assert run.stdout == "ERR 3\n"
    assert (await bash.run("true\nfalse")).stdout == "ERR 2\n"


async def test_an_err_trap_of_the_code_replaces_ours(bash: BashProbe) -> None:
    run = await bash.run("trap 'echo ERR' ERR\nset -e\nfalse", final=True)
    assert run.stdout == "ERR\n"
    assert run.error[0] == "SystemExit"


async def test_a_one_shot_does_not_wait_for_jobs(bash: BashProbe) -> None:
    run = await bash.run("sleep 1000 & echo started", final=True)
    assert run.stdout == "started\n"


async def test_what_a_job_writes_later_arrives_later(bash: BashProbe) -> None:
    run = await bash.run("mkfifo go; (read < go; echo late) & echo first")
    assert run.stdout == "first\n"
    await bash.python("open('go', 'w').write('x\\n')")
    await bash.until(lambda run: run.stdout == "late\n" or any(b"late" in (body or b"") for _, body in bash.heard))


async def test_jobs_can_be_waited_for_in_a_later_execution(bash: BashProbe) -> None:
    await bash.run("(exit 5) & job=$!")
    assert (await bash.run("wait $job; echo $?")).stdout == "5\n"
