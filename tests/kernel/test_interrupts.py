"""An interrupt ends the code, wherever it is, and nothing else: the session goes on with its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from sandboxes.probe import Probe

if TYPE_CHECKING:
    from sandboxes.probe import Run

pytestmark = pytest.mark.anyio

AGAIN_S = 20.0
TOOLS = "from moonpool_guest.toolcalls import invoke, invoke_sync\n"
THREADS = """
import threading
def loops():
    while not stop.is_set(): invoke_sync("s", "t", {})
stop = threading.Event()
threads = [threading.Thread(target=loops, daemon=True) for _ in range(4)]
for t in threads: t.start()
"""
STATES = {
    "busy loop": "print('in')\nwhile True: pass",
    "time.sleep": "import time\nprint('in')\ntime.sleep(100)",
    "lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nprint('in')\nlock.acquire()",
    "thread join": "import threading, time\nt = threading.Thread(target=time.sleep, args=(100,), daemon=True)\n"
    "t.start()\nprint('in')\nt.join()",
    "top-level await": "import asyncio\nprint('in')\nawait asyncio.sleep(100)",
    "asyncio.run": "import asyncio\nasync def f():\n    print('in')\n    await asyncio.sleep(100)\nasyncio.run(f())",
    "nested asyncio.run": "import asyncio\nawait asyncio.sleep(0)\nasync def main():\n    print('in')\n"
    "    await asyncio.sleep(100)\nasyncio.run(main())",
    "busy coroutine": "import asyncio\nawait asyncio.sleep(0)\nprint('in')\nwhile True: await asyncio.sleep(0)",
    "selector inside of a loop": "import asyncio, os, selectors\nawait asyncio.sleep(0)\nr, w = os.pipe()\n"
    "s = selectors.DefaultSelector()\ns.register(r, selectors.EVENT_READ)\nprint('in')\ns.select(100)",
    "sync tool call": f"{TOOLS}print('in')\ninvoke_sync('s', 'hang', {{}})",
    "async tool call": f"{TOOLS}print('in')\nawait invoke('s', 'hang', {{}})",
    "tool call under asyncio.run": f"{TOOLS}import asyncio\nasync def main():\n    print('in')\n"
    "    await invoke('s', 'hang', {})\nasyncio.run(main())",
    "calling all the time": f"{TOOLS}print('in')\nwhile True: invoke_sync('s', 't', {{}})",
    "awaiting calls all the time": f"{TOOLS}import asyncio\nprint('in')\n"
    "while True: await asyncio.gather(*(invoke('s', 't', {}) for _ in range(5)))",
    "among threads": f"{TOOLS}{THREADS}print('in')\ninvoke_sync('s', 'hang', {{}})",
    "subprocess": "import subprocess\nprint('in')\nsubprocess.run(['/bin/sleep', '100'])",
    "result conversion": "class Slow:\n    def __moonpool_json__(self):\n        print('in')\n"
    "        while True: pass\nresult = Slow()",
    "text of an error": "class Slow(Exception):\n    def __str__(self):\n        print('in', flush=True)\n"
    "        while True: pass\nraise Slow",
    "printing": "print('in')\nwhile True: print('x' * 1000)",
}


def answer_all_but_hang(probe: Probe) -> None:
    def broker(call: object, _arguments: object) -> object:
        return {"ok": True, "data_from": "structured", "raw": {}}

    def on_message(message: object, body: bytes) -> None:
        if getattr(message, "tool", None) == "hang":
            probe._hear((message, body))  # pyright: ignore[reportArgumentType]
        else:
            Probe.on_message(probe, message, body)  # pyright: ignore[reportArgumentType]

    probe.broker = broker
    probe.on_message = on_message  # pyright: ignore[reportAttributeAccessIssue]


async def interrupted(probe: Probe, code: str) -> Run:
    probe.start(code)
    await probe.said("in\n")
    probe.sandbox.interrupt()
    # CPython misses a signal that comes just before it begins to wait: the engine sends it twice, too.
    with anyio.move_on_after(AGAIN_S):
        return await probe.finish()
    probe.sandbox.interrupt()
    return await probe.finish()


@pytest.mark.parametrize("state", list(STATES))
async def test_an_interrupt_ends_the_code_and_keeps_the_state_every_time(kernel: Probe, state: str) -> None:
    answer_all_but_hang(kernel)
    await kernel.run("kept = 0")
    for turn in range(1, 6 if state == "among threads" else 21):
        run = await interrupted(kernel, STATES[state])
        assert run.done is not None
        assert run.done.status == "interrupted", run
        assert run.error == ("KeyboardInterrupt", "the execution was interrupted")
        assert "moonpool_guest" not in run.stderr.rpartition("Traceback")[2]  # asyncio may have said something before
        await kernel.run("if 'stop' in globals():\n    stop.set()\n    for t in threads: t.join()")
        assert (await kernel.run("kept += 1\nresult = kept")).result == turn
    after = f"{TOOLS}import asyncio\nresult = [(await invoke('s', 't', {{}}))['ok'], invoke_sync('s', 't', {{}})['ok']]"
    assert (await kernel.run(after)).result == [True, True]


INTERRUPTED_IN_CALL_SOON = """
import asyncio, itertools, os, signal
loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
async def wait():
    await future
def interrupted_within_call_soon():
    signals = map(os.kill, [os.getpid()], [signal.SIGINT])
    loop._check_closed = itertools.chain(signals, itertools.repeat(None)).__next__
    future.set_result(None)
task = loop.create_task(wait())
await asyncio.sleep(0)
loop.call_soon(interrupted_within_call_soon)
await asyncio.sleep(100)
"""


async def test_an_interrupt_while_a_callback_sets_a_result_loses_nobody_s_wake_up(kernel: Probe) -> None:
    """It arrives in `call_soon`, with which `set_result` queues the waiting task: there nothing may be raised."""
    run = await kernel.run(INTERRUPTED_IN_CALL_SOON)
    assert run.error == ("KeyboardInterrupt", "the execution was interrupted")
    assert (await kernel.run("result = [task.done(), task.cancelled()]")).result[0] is True


async def test_an_interrupt_in_asyncio_s_code_comes_where_no_thread_can_be_started(kernel: Probe) -> None:
    """What raises it later is a thread. The callback that is lost then holds nothing up, whatever else is going on."""
    spin = "async def spin():\n    while True: await asyncio.sleep(0)"
    await kernel.run(f"import asyncio\n{spin}\nspinner = asyncio.create_task(spin())\nawait asyncio.sleep(0)")
    no_more_threads = """
import threading
held = threading.Event()
try:
    while True:
        threading.Thread(target=held.wait, daemon=True).start()
except RuntimeError:
    pass
"""
    run = await kernel.run(no_more_threads + INTERRUPTED_IN_CALL_SOON)
    assert run.error == ("KeyboardInterrupt", "the execution was interrupted")
    assert (await kernel.run("held.set()\nresult = 1")).result == 1


async def test_an_interrupt_that_fell_where_nothing_can_be_raised_is_not_the_next_execution_s(kernel: Probe) -> None:
    await kernel.run("class Dying:\n    def __del__(self): raise KeyboardInterrupt\nimport time")
    for _ in range(5):
        assert (await kernel.run("one = Dying()\ndel one")).error[0] == "KeyboardInterrupt"
        assert (await kernel.run("time.sleep(0.01)\nresult = 1")).result == 1


async def test_an_interrupt_while_idle_does_nothing(kernel: Probe) -> None:
    for _ in range(20):
        kernel.sandbox.interrupt()
    assert (await kernel.run("result = 1")).result == 1
    kernel.sandbox.interrupt()
    assert (await kernel.run("import time\ntime.sleep(0.01)\nresult = 2")).result == 2


async def test_interrupts_at_any_moment_never_end_the_kernel(kernel: Probe) -> None:
    """Interrupts rain down while short executions start and end; each ends as ok or interrupted."""
    answer_all_but_hang(kernel)
    await kernel.run(f"{TOOLS}kept = 'kept'")
    codes = (
        "result = 1",
        "import asyncio\nawait asyncio.sleep(0)\nresult = 1",
        "result = invoke_sync('s', 't', {})['ok']",
        "result = (await invoke('s', 't', {}))['ok']",
    )
    statuses: set[str] = set()
    for turn in range(160):
        kernel.start(codes[turn % len(codes)])
        for _ in range(turn % 7):
            await anyio.lowlevel.checkpoint()
        kernel.sandbox.interrupt()
        if turn % 3 == 0:
            kernel.sandbox.interrupt()
        run = await kernel.finish()
        assert run.done is not None
        statuses.add(run.done.status)
    assert statuses <= {"ok", "interrupted"}
    assert (await kernel.run("result = [kept, (await invoke('s', 't', {}))['ok']]")).result == ["kept", True]


async def test_code_may_handle_an_interrupt_and_go_on(kernel: Probe) -> None:
    run = await interrupted(
        kernel, "try:\n    print('in')\n    while True: pass\nexcept KeyboardInterrupt:\n    result = 'handled'"
    )
    assert run.result == "handled"


@pytest.mark.req("P-003")
async def test_code_that_swallows_one_interrupt_ends_at_the_next(kernel: Probe) -> None:
    code = """
try:
    print("in")
    while True: pass
except KeyboardInterrupt:
    print("swallowed")
while True: pass
"""
    kernel.start(code)
    await kernel.said("in\n")
    kernel.sandbox.interrupt()
    await kernel.said("swallowed\n")
    kernel.sandbox.interrupt()
    run = await kernel.finish()
    assert run.done is not None
    assert run.done.status == "interrupted"


async def test_a_coroutine_cleans_up_when_it_is_interrupted(kernel: Probe) -> None:
    run = await interrupted(
        kernel, "import asyncio\ntry:\n    print('in')\n    await asyncio.sleep(100)\nfinally:\n    print('cleaned up')"
    )
    assert run.stdout == "in\ncleaned up\n"


async def test_an_interrupt_while_a_final_execution_joins_its_threads_ends_it(kernel: Probe) -> None:
    kernel.start(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(100,)).start()\nprint('in')", final=True
    )
    await kernel.said("in\n")
    for _ in range(50):
        kernel.sandbox.interrupt()
        await anyio.sleep(0.01)
        if any(getattr(item, "status", None) for item, _ in kernel.heard):
            break
    run = await kernel.finish()
    assert run.done is not None
    assert run.done.status == "interrupted"


async def test_threads_and_loops_keep_their_answers_while_interrupts_rain_on_the_main_thread(kernel: Probe) -> None:
    """Whoever leads the reading may be interrupted at any moment; nobody else may lose an answer or sleep for ever."""
    await kernel.run(
        f"""{TOOLS}
import asyncio, threading, time
def number(answer): return answer["raw"]["structuredContent"]["arguments"]["n"]
def refused(answer): return "raw" not in answer  # between two executions nobody may call
def sync_calls(base):
    for n in range(base, base + 60):
        while refused(answer := invoke_sync("s", "t", {{"n": n}})): time.sleep(0.001)
        answers.append(number(answer))
    ended.append(base)
async def async_call(n):
    while refused(answer := await invoke("s", "t", {{"n": n}})): await asyncio.sleep(0.001)
    answers.append(number(answer))
async def async_calls(base):
    for n in range(base, base + 60, 5): await asyncio.gather(*map(async_call, range(n, n + 5)))
    ended.append(base)
answers, ended = [], []
threads = [threading.Thread(target=sync_calls, args=(base,)) for base in (0, 1000, 2000)]
threads += [threading.Thread(target=lambda base=base: asyncio.run(async_calls(base))) for base in (3000, 4000)]
"""
    )
    mains = (
        "while any(t.is_alive() for t in threads): invoke_sync('s', 't', {})",
        "while any(t.is_alive() for t in threads): await asyncio.gather(*(invoke('s', 't', {}) for _ in range(3)))",
        "for t in threads: t.join()",
    )
    kernel.start("for t in threads: t.start()\nprint('started', flush=True)\n" + mains[0])
    await kernel.said("started")  # an interrupt in the middle of Thread.start leaves it unclear whether it was started
    for turn in range(60):
        if turn:
            kernel.start(mains[turn % 3])
        for _ in range(1 + turn % 11):
            await anyio.lowlevel.checkpoint()
        kernel.sandbox.interrupt()
        await kernel.finish()
    # not `join`: after an interrupted one Python 3.11 takes a thread that runs for ended
    run = await kernel.run("while len(ended) < len(threads): time.sleep(0.001)\nresult = sorted(answers)")
    assert run.result == sorted(base + n for base in range(0, 5000, 1000) for n in range(60))
