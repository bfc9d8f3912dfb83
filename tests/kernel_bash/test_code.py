"""Code runs as a script does: lines, constructs, streams, and what stays for the next execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_bash.probing import BashProbe

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param("echo one", "one\n", id="one line"),
        pytest.param("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n", id="a loop over lines"),
        pytest.param("cat <<EOF\n$HOME\nEOF\ncat <<'X'\n$y\nX", "/home/user\n$y\n", id="heredocs"),
        pytest.param("cat <<EOF\nnot closed", "not closed\n", id="a heredoc that ends with the code"),
        pytest.param("printf '%s\\n' a b | sort -r | tail -1", "a\n", id="a pipeline"),
        pytest.param("sleep 0.05 && echo late &\necho first; wait; echo last", "first\nlate\nlast\n", id="jobs"),
        pytest.param("diff <(echo a) <(echo a) && echo same", "same\n", id="process substitution"),
        pytest.param("coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l", "x\n", id="coprocess"),
        pytest.param("declare -A m=([k]=v); x=(1 2 3); echo ${m[k]} ${#x[@]}", "v 3\n", id="arrays"),
        pytest.param('[[ "${BASH_SOURCE[0]}" == "$0" ]] && echo main', "main\n", id="the main-script idiom"),
        pytest.param("source /dev/stdin <<< 'echo sourced'", "sourced\n", id="source"),
        pytest.param("echo $LINENO\n\necho $LINENO", "1\n3\n", id="LINENO"),
        pytest.param("break; continue; echo after", "after\n", id="break outside of a loop"),
        pytest.param("declare x=1; f() { echo $x; }; f", "1\n", id="declare at top level is global"),
        pytest.param("trap 'echo usr' USR1; kill -USR1 $$; echo end", "usr\nend\n", id="a trap on a signal"),
        pytest.param("set -o pipefail; false | true || echo noticed", "noticed\n", id="pipefail"),
        pytest.param("yes | head -1", "y\n", id="SIGPIPE ends a writer"),
        pytest.param("echo $BASH_SUBSHELL $# $PWD", "0 0 /workspace\n", id="where code stands"),
        pytest.param("shopt -s extglob\n[[ ab == @(ab|cd) ]] && echo yes", "yes\n", id="an option for the next line"),
    ],
)
async def test_code_does_what_it_does_in_a_script(bash: BashProbe, code: str, said: str) -> None:
    run = await bash.run(code, final=True)
    assert run.done is not None
    assert (run.done.status, run.stdout) == ("ok", said), run.stderr


@pytest.mark.req("H-031")
@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param("echo\n\nno_such_command", 3, id="a command"),
        pytest.param("text='\n\n'\nno_such_command", 4, id="after a string over lines"),
        pytest.param("f() {\n  no_such_command\n}\n\nf", 2, id="in a function"),
        pytest.param("cat <<E >/dev/null\n1\n2\nE\nno_such_command", 5, id="after a heredoc"),
        pytest.param("for i in 1; do\n  :\n  no_such_command\ndone", 3, id="in a loop"),
    ],
)
async def test_messages_name_the_line_of_the_code(bash: BashProbe, code: str, line: int) -> None:
    for _ in range(2):  # the second execution counts from one again
        run = await bash.run(code)
        assert f": line {line}: no_such_command: command not found" in run.stderr


async def test_a_session_keeps_what_bash_holds(bash: BashProbe) -> None:
    await bash.run(
        "x=5; declare -A m=([a]='1 2'); f() { echo f$x; }; cd /tmp; alias ll=ls; shopt -s nullglob expand_aliases; "
        "trap 'echo usr' USR1; umask 027; set -o pipefail; sleep 30 & exec 7>/tmp/kept"
    )
    run = await bash.run(
        "f; echo ${m[a]} $PWD $(umask) ${BASH_ALIASES[ll]}; shopt -q nullglob && echo nullglob; kill -USR1 $$; "
        "[[ -o pipefail ]] && echo pipefail; jobs | grep -c Running; echo x >&7; cat /tmp/kept; kill $!"
    )
    assert run.stdout == "f5\n1 2 /tmp 0027 ls\nnullglob\nusr\npipefail\n1\nx\n", run.stderr


async def test_bash_and_python_share_files_and_nothing_else(bash: BashProbe) -> None:
    await bash.run("echo from bash > shared; x=1")
    run = await bash.python("result = [open('shared').read(), 'x' in globals()]")
    assert run.result == ["from bash\n", False]


@pytest.mark.parametrize("reader", ['read x; echo "$? [$x]"', "cat; echo '0 []'", "tr a b; echo '0 []'"])
async def test_standard_input_is_at_its_end(bash: BashProbe, reader: str) -> None:
    assert (await bash.run(reader)).stdout in {"0 []\n", "1 []\n"}


async def test_redirections_of_the_shell_last_as_long_as_the_execution(bash: BashProbe) -> None:
    hidden = await bash.run("exec > /tmp/log 2>&1; echo hidden; no_such_command")
    assert (hidden.stdout, hidden.stderr) == ("", "")
    run = await bash.run("cat /tmp/log; echo err >&2")
    assert run.stdout.startswith("hidden\n")
    assert run.stderr == "err\n"


@pytest.mark.parametrize("damage", ["exec 1>&-", "exec 2>&-", "exec 0<&- 1>&- 2>&-"])
async def test_closed_streams_work_again_in_the_next_execution(bash: BashProbe, damage: str) -> None:
    await bash.run(damage)
    run = await bash.run("echo out; echo err >&2; read x || echo eof")
    assert (run.stdout, run.stderr) == ("out\neof\n", "err\n")


async def test_tracing_shows_the_code_and_nothing_of_ours(bash: BashProbe) -> None:
    first = await bash.run("set -x; echo hi")
    second = await bash.run("echo again")
    third = await bash.run("set +x")
    assert (first.stderr, second.stderr, third.stderr) == ("++ echo hi\n", "++ echo again\n", "++ set +x\n")
    assert (await bash.run("echo quiet")).stderr == ""


async def test_verbose_shows_the_code_and_nothing_of_ours(bash: BashProbe) -> None:
    assert (await bash.run("set -v\necho 1")).stderr == "echo 1\n"
    assert (await bash.run("echo 2\necho 3")).stderr == "echo 2\necho 3\n"
    assert (await bash.run("set +v")).stderr == "set +v\n"
    assert (await bash.run("echo 4")).stderr == ""


@pytest.mark.req("H-018")
async def test_bytes_that_are_no_text_arrive(bash: BashProbe) -> None:
    run = await bash.run("printf 'a\\0b\\xff\\n'; x=$'\\xff'; printf %s \"$x\" | od -An -tx1")
    assert run.stdout == "a\0b\ufffd\n ff\n"


async def test_code_that_is_no_utf_8_is_run_as_it_is(bash: BashProbe) -> None:
    run = await bash.run(b"printf '\xff' | od -An -tx1")
    assert run.stdout == " ff\n"


async def test_ten_megabytes_arrive_before_the_end(bash: BashProbe) -> None:
    run = await bash.run("head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert len(run.stdout) == 10_000_000 + 1 + 4
    assert run.stdout.endswith("\nend\n")


async def test_long_code_is_no_different(bash: BashProbe) -> None:
    code = "".join(f"x{n}={n}\n" for n in range(20_000))
    assert (await bash.run(f"{code}echo $x19999 $LINENO")).stdout == "19999 20001\n"


async def test_the_environment_is_small_and_known(bash: BashProbe) -> None:
    run = await bash.run("env | cut -d= -f1 | sort | tr '\\n' ' '")
    names = set(run.stdout.split()) - {"LD_LIBRARY_PATH"}
    assert names == {
        *("HOME", "LANG", "NPM_CONFIG_OFFLINE", "OLDPWD", "PATH", "PIP_NO_INDEX", "PWD", "SHLVL", "TMPDIR", "USER"),
        *("UV_OFFLINE", "_"),
    } - ({"OLDPWD"} - set(run.stdout.split()))


async def test_resource_limits_are_the_code_s_own_to_lower(bash: BashProbe) -> None:
    assert (await bash.run("ulimit -n 20; ulimit -n")).stdout == "20\n"
    assert (await bash.run("ulimit -n; ulimit -n 256 2>/dev/null || echo no")).stdout == "20\nno\n"


async def test_a_rehearsal_leaves_no_trace(bash: BashProbe) -> None:
    await bash.rehearse()
    run = await bash.run('echo $? $- "$_"; jobs; ls -A')
    assert run.stdout.splitlines()[0].startswith("0 hB")
    assert run.stdout.count("\n") == 1 or "servers" in run.stdout
