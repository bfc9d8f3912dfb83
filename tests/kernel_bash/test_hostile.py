"""Code that attacks its own kernel: it may lose its state or run into its deadline; the sandbox stays usable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

if TYPE_CHECKING:
    from kernel_bash.probing import BashProbe
    from sandboxes.probe import Run

pytestmark = pytest.mark.anyio

REPORT = "fd=$(( $(ulimit -n) < 256 ? $(ulimit -n) - 7 : 249 )); "

ALIVE = """
import os
result = []
for name in os.listdir("/proc"):
    if name.isdigit() and name != "1":
        try: state = open(f"/proc/{name}/stat").read()
        except (FileNotFoundError, ProcessLookupError): continue
        if state.rpartition(")")[2].split()[0] != "Z":
            result.append(state[state.index("(") + 1 : state.rindex(")")])
"""


async def test_a_fork_bomb_stops_at_its_limit_and_leaves_a_usable_sandbox(bash: BashProbe) -> None:
    bash.start("f() { f | f & }; f; echo set off")
    await bash.finish()
    killed = await bash.python(
        "import os, signal, time\n"
        "def others(): return [int(n) for n in os.listdir('/proc') if n.isdigit() and n != '1']\n"
        "while others():\n"
        "    try: os.kill(-1, signal.SIGKILL)\n"
        "    except OSError: pass\n"
        "    try: os.waitpid(-1, os.WNOHANG)\n"
        "    except ChildProcessError: pass\n"
        "result = True"
    )
    assert killed.result is True
    await bash.run("true")  # perhaps hears of its death only now
    assert (await bash.run("echo usable")).stdout == "usable\n"


@pytest.mark.parametrize("forged", ["D%s 0 hB", "D%s 77 hB", "D99 0 hB", "D", "Dx y z", "\xff\xfe", "F", "X", "S", "O"])
async def test_a_forged_report_hurts_its_own_execution_only(bash: BashProbe, forged: str) -> None:
    await bash.run("true")
    text = forged.replace("%s", "2")
    run = await bash.run(f"{REPORT}printf '{text}\\0' >&$fd; sleep 0.1; echo forged")
    assert run.done is not None
    run = await bash.run("echo honest")
    assert run.stdout in {"honest\n", "forged\nhonest\n"}
    assert run.done is not None
    assert run.done.status == "ok"
    assert (await bash.run("echo $((6 * 7))")).stdout == "42\n"


async def test_a_flood_of_reports_ends_bash(bash: BashProbe) -> None:
    run = await bash.run(f"{REPORT}yes >&$fd")
    assert run.error[0] == "KernelKilled"
    assert (await bash.run("echo fresh")).stdout == "fresh\n"


async def test_closing_every_descriptor_ends_bash_and_nothing_else(bash: BashProbe) -> None:
    run = await bash.run('for n in {3..255}; do eval "exec $n>&-" 2>/dev/null; done; echo closed')
    assert run.done is not None
    assert run.stdout == "closed\n"
    assert (await bash.run("echo fresh")).stdout == "fresh\n"


async def test_closing_the_descriptor_of_the_code_is_noticed_at_the_next_execution(bash: BashProbe) -> None:
    await bash.run(f'{REPORT}eval "exec $((fd - 1))<&-"')
    assert (await bash.run("echo never")).error[0] == "KernelKilled"
    assert (await bash.run("echo fresh")).stdout == "fresh\n"


@pytest.mark.parametrize(
    "code",
    [
        "set -n",
        "builtin() { :; }; trap() { :; }; echo",
        f"{REPORT}cat /dev/fd/$fd > /dev/null & disown; sleep 0.1",
        "kill -STOP $$",
        f'{REPORT}eval "exec 9>/dev/fd/$((fd - 1))"; sleep 100',
    ],
)
async def test_code_that_keeps_bash_from_reporting_is_ended_by_the_deadline(bash: BashProbe, code: str) -> None:
    bash.start(code)
    await ended_by_the_host(bash)
    # What steals reports from their pipe may miss one, and take the next: it goes with the Bash that is ended for it.
    for _ in range(3):
        bash.start("echo fresh")
        run = await ended_by_the_host(bash)
        if run.stdout:
            break
    assert run.stdout == "fresh\n"


async def ended_by_the_host(bash: BashProbe) -> Run:
    """What the host does when the time is over: interrupt, more than once."""
    while True:
        with anyio.move_on_after(0.5):
            return await bash.finish()
        bash.sandbox.interrupt()


async def test_a_process_that_ignores_every_signal_holds_nothing_up(bash: BashProbe) -> None:
    stubborn = (
        '"$(readlink /proc/1/exe)" -I -S -c "\nimport signal, time\n'
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        'print(chr(105) + chr(110), flush=True)\ntime.sleep(100)"'
    )
    bash.start(stubborn)
    await bash.said("in\n")
    bash.sandbox.interrupt()
    run = await bash.finish()
    assert run.done is not None
    assert run.done.status == "interrupted"
    assert (await bash.run("echo fresh")).stdout == "fresh\n"
    with anyio.fail_after(30):
        while (await bash.python(ALIVE)).result != ["bash"]:
            pass  # it was killed, and is still dying


async def test_a_full_disk_does_not_keep_bash_from_working(bash: BashProbe) -> None:
    await bash.run(
        "head -c 400M /dev/zero > full 2>/dev/null; for i in {1..20000}; do : > n$i || break; done 2>/dev/null"
    )
    assert (await bash.run("echo still")).stdout == "still\n"
    assert (await bash.run("exit 1")).error[0] == "SystemExit"
    assert (await bash.run("rm -f full; echo gone")).stdout == "gone\n"


async def test_deaths_of_bash_leave_python_alone(bash: BashProbe) -> None:
    await bash.python("kept = 1")
    for signal in ("KILL", "SEGV", "ABRT"):
        run = await bash.run(f"kill -{signal} $$")
        assert run.error[0] == "KernelKilled"
        assert f"SIG{signal}" in run.error[1]
    assert (await bash.python("result = kept")).result == 1


async def test_nothing_is_left_open_in_the_keeper(bash: BashProbe) -> None:
    count = "import os\nresult = len(os.listdir('/proc/self/fd'))"
    await bash.run("true")
    before = (await bash.python(count)).result
    for code in ("exit 3", "kill -9 $$", "if", "exec true", "true"):
        await bash.run(code)
    await bash.run("true")
    assert (await bash.python(count)).result == before
