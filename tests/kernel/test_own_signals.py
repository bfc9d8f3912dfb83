"""Code that sends itself a signal ends as a program would, although it is PID 1 of its sandbox."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import ExitCause, SandboxSpec
from sandboxes.conftest import REAL
from sandboxes.images import working
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

pytestmark = pytest.mark.anyio

IMPORTS = "import asyncio, os, posix, signal, threading, time\nme = os.getpid()\nprint('before')\n"
WAIT = "\ntime.sleep(600)"
ENDING = {
    "os.kill(me, signal.SIGKILL)": signal.SIGKILL,
    "os.kill(me, signal.SIGTERM)": signal.SIGTERM,
    "posix.kill(me, 15)": signal.SIGTERM,
    "os.kill(0, signal.SIGHUP)": signal.SIGHUP,
    "os.killpg(os.getpgrp(), signal.SIGKILL)": signal.SIGKILL,
    "os.killpg(0, signal.SIGQUIT)": signal.SIGQUIT,
    "signal.raise_signal(signal.SIGALRM)": signal.SIGALRM,
    "signal.raise_signal(signal.SIGRTMIN + 1)": signal.SIGRTMIN + 1,
    "signal.pthread_kill(threading.get_ident(), signal.SIGTERM)": signal.SIGTERM,
    "signal.pidfd_send_signal(os.pidfd_open(me), signal.SIGKILL)": signal.SIGKILL,
    "os.abort()": signal.SIGABRT,
    "os.kill(me, signal.SIGSEGV)": signal.SIGSEGV,
    f"signal.alarm(1){WAIT}": signal.SIGALRM,
    f"signal.setitimer(signal.ITIMER_REAL, 0.01){WAIT}": signal.SIGALRM,
    f"signal.setitimer(signal.ITIMER_REAL, 0.000001){WAIT}": signal.SIGALRM,
    "signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)\nwhile True: pass": signal.SIGVTALRM,
    "signal.setitimer(signal.ITIMER_PROF, 0.01)\nwhile True: pass": signal.SIGPROF,
    f"threading.Thread(target=signal.alarm, args=(1,)).start(){WAIT}": signal.SIGALRM,
    f"threading.Thread(target=os.kill, args=(me, signal.SIGKILL)).start(){WAIT}": signal.SIGKILL,
    "signal.setitimer(signal.ITIMER_REAL, 0.01)\nawait asyncio.sleep(600)": signal.SIGALRM,
    "try: os.kill(me, signal.SIGKILL)\nfinally: print('after')": signal.SIGKILL,
    "signal.signal(signal.SIGTERM, print); signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
    "os.kill(me, signal.SIGTERM)": signal.SIGTERM,
    "signal.signal(signal.SIGALRM, print); signal.signal(signal.SIGALRM, signal.SIG_DFL)\n"
    f"signal.setitimer(signal.ITIMER_REAL, 0.01){WAIT}": signal.SIGALRM,
    "signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(me, signal.SIGINT)": signal.SIGINT,
}
"""What ends a program, and by which signal."""
QUICK = (*tuple(ENDING)[:2], f"signal.setitimer(signal.ITIMER_REAL, 0.000001){WAIT}")


async def probe_on(backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec) -> Probe:
    with anyio.fail_after(30):
        return Probe(await backend.open_sandbox(SandboxSpec(image=image)))


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        pytest.param("zygote", QUICK, id="zygote"),
        pytest.param("bubblewrap", QUICK, id="bubblewrap"),
        pytest.param("zygote", tuple(ENDING), id="zygote, every way", marks=pytest.mark.slow),
        pytest.param("bubblewrap", tuple(ENDING), id="bubblewrap, every way", marks=pytest.mark.slow),
    ],
)
async def test_a_signal_that_code_sends_itself_ends_it(
    name: str, statements: tuple[str, ...], image: ImageSpec
) -> None:
    async with working(REAL[name]) as backend:
        for statement in statements:
            probe = await probe_on(backend, image)
            probe.start(f"{IMPORTS}{statement}\nprint('after')")
            run = await probe.until(lambda run: run.exit or run.done)
            assert run.exit is not None, f"it lived on: {statement}"
            assert (run.exit.cause, run.exit.signal, run.stdout) == (
                ExitCause.SIGNALLED, ENDING[statement], "before\n"
            ), statement  # fmt: skip


HARMLESS = {
    "os.kill(me, 0)": None,
    "os.kill(me, signal.SIGCHLD); os.kill(me, signal.SIGCONT); signal.raise_signal(signal.SIGWINCH)": None,
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(me, signal.SIGTERM)": None,
    "signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number)); os.kill(me, signal.SIGUSR1)": [10],
    "signal.signal(signal.SIGALRM, lambda number, _: heard.append(number)); signal.setitimer(0, 0.01)\n"
    "while not heard: time.sleep(0.001)": [14],
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(me, signal.SIGUSR2)\n"
    "heard.append(int(signal.sigwait([signal.SIGUSR2])))": [12],
    "child = os.fork()\nif child == 0: time.sleep(600)\nos.kill(child, signal.SIGHUP)\n"
    "heard.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))": [-1],
    "child = os.fork()\nif child == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
    "heard.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))": [-9],
    "child = os.fork()\nif child == 0: signal.setitimer(2, 0.01)\nwhile child == 0: pass\n"
    "heard.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))": [-27],
    "heard.append([int(signal.getsignal(n)) for n in (signal.SIGPROF, signal.SIGVTALRM)])": [[0, 0]],
    "heard.append(int(signal.signal(signal.SIGPROF, signal.SIG_IGN)))": [0],
    "signal.alarm(60); heard.append(signal.alarm(0) > 0)": [True],
    "import subprocess; heard.append(subprocess.run(['/bin/sh', '-c', 'kill -9 1; kill -TERM 1']).returncode)": [0],
    "import pickle; heard.append(pickle.loads(pickle.dumps(os.kill)) is os.kill)": [True],
    "try: os.kill(999, 15)\nexcept ProcessLookupError: heard.append('ESRCH')": ["ESRCH"],
    "try: signal.raise_signal(999)\nexcept (OSError, ValueError): heard.append('invalid')": ["invalid"],
}
"""What ends no program, and what it hears."""


async def test_signals_that_end_no_program_do_what_they_always_do(kernel: Probe) -> None:
    for statement, heard in HARMLESS.items():
        code = f"{IMPORTS}heard = []\n{statement}\nresult = heard"
        assert (await kernel.run(code)).result == (heard or []), statement
