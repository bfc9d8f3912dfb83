"""What code sees of tapes: nothing while there is none, the same again while one is played."""

from __future__ import annotations

import os
import pickle
from datetime import date, datetime
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.messages import Execute, NondeterminismLog
from sandboxes.images import image_of
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.zygote import ZygoteBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
async def again(kernel: Probe, backend: ZygoteBackend, image: ImageSpec) -> AsyncGenerator[Probe]:
    """A fresh kernel with the hash seed of `kernel`."""
    sandbox = await backend.open_sandbox(SandboxSpec(image=image, hash_seed=kernel.sandbox.hash_seed))
    yield Probe(sandbox)
    with anyio.fail_after(20):
        await sandbox.close()


INERT = """
import copy, datetime, inspect, os, pickle, random, sys, time
now, today = datetime.datetime.now, datetime.date.today
class Timer:
    clock = time.perf_counter
class Day(datetime.datetime):
    pass
functions = (time.time, time.monotonic_ns, time.localtime, os.urandom, os.getrandom, now, today, random.Random.seed)
result = [
    [type(datetime.datetime.now()) is datetime.datetime, type(datetime.date.today()) is datetime.date],
    [type(Day.now()) is Day, type(Day.utcnow()) is Day, type(Day.today()) is Day, isinstance(Day.now(), datetime.date)],
    [type(datetime.datetime).__name__, datetime.datetime.__module__, datetime.datetime.__mro__[1].__name__],
    [pickle.dumps(one, 4).hex() for one in (datetime.datetime(2020, 1, 2, 3), datetime.date(2020, 1, 2))],
    [pickle.loads(pickle.dumps(one)) == one for one in functions],
    [copy.deepcopy(time.time) is time.time, pickle.dumps(os.urandom, 4).hex(), pickle.dumps(now, 4).hex()],
    [one.__name__ for one in functions], [repr(time.time), os.urandom.__module__, time.time.__doc__[:6]],
    [type(Timer().clock()).__name__, str(inspect.signature(now)), type(time.time()).__name__],
    [len(os.urandom(3)), len(time.strftime("%Y")), time.localtime(0).tm_year, time.gmtime(None).tm_year > 2000],
    [time.strftime("%Y", (2001,) + (1,) * 8), time.asctime((2001, 1, 1, 0, 0, 0, 0, 1, 0)), time.ctime(0)[-4:]],
    datetime.datetime.now(datetime.timezone.utc).tzinfo is datetime.timezone.utc,
    abs(datetime.datetime.utcnow().timestamp() - time.time()) < 86401,
]
"""


async def test_without_a_log_functions_and_types_are_what_they_were(kernel: Probe) -> None:
    run = await kernel.run("import warnings; warnings.simplefilter('ignore')\n" + INERT)
    parts = run.result
    assert isinstance(parts, list)
    assert parts[0:3] == [[True] * 2, [True] * 4, ["type", "datetime", "date"]]
    pickled = [pickle.dumps(one, 4).hex() for one in (datetime(2020, 1, 2, 3), date(2020, 1, 2))]  # noqa: DTZ001
    assert parts[3] == pickled
    assert parts[4] == [True] * 8
    assert parts[5] == [True, pickle.dumps(os.urandom, 4).hex(), pickle.dumps(datetime.now, 4).hex()]
    assert parts[6] == ["time", "monotonic_ns", "localtime", "urandom", "getrandom", "now", "today", "seed"]
    assert parts[7:] == [
        ["<built-in function time>", "posix", "time()"],
        ["float", "(tz=None)", "float"],
        [3, 4, 1970, True],
        ["2001", "Mon Jan  1 00:00:00 2001", "1970"],
        True,
        True,
    ]


async def test_with_a_log_they_are_no_different(kernel: Probe) -> None:
    code = "import warnings; warnings.simplefilter('ignore')\n" + INERT
    assert (await kernel.record(code)).result == (await kernel.run(code)).result


@pytest.mark.parametrize("error", ["os.urandom(-1)", "os.urandom('a')", "time.time(1)", "time.strftime()"])
async def test_wrong_calls_fail_with_a_log_as_without(kernel: Probe, error: str) -> None:
    code = f"import os, time\ntry: {error}\nexcept Exception as e: result = type(e).__name__"
    assert (await kernel.record(code)).result == (await kernel.run(code)).result


async def same_again(kernel: Probe, again: Probe, code: str) -> object:
    """The result of `code`, recorded and then played."""
    recorded = await kernel.record(code)
    (tape,) = recorded.tapes
    played = await again.replay(code, tape)
    assert (played.body, played.stdout, played.divergence) == (recorded.body, recorded.stdout, ""), played.stderr
    return recorded.result


async def test_names_that_libraries_bound_before_are_recorded_too(kernel: Probe, again: Probe) -> None:
    code = """
import logging, random, tempfile, uuid
from time import time as clock
from datetime import datetime as when
from os import urandom
record = logging.LogRecord("n", 20, "p", 1, "m", (), None)
result = [record.created, clock(), str(when.now()), urandom(4).hex(), tempfile.mktemp(), str(uuid.uuid1())]
"""
    assert await same_again(kernel, again, code)


async def test_an_event_loop_and_locks_wait_in_real_time_while_the_code_reads_the_log(
    kernel: Probe, again: Probe
) -> None:
    code = """
import asyncio, queue, threading, time
before = time.monotonic()
await asyncio.gather(*(asyncio.sleep(0.002 * n) for n in range(10)))
try:
    async with asyncio.timeout(0.005): await asyncio.sleep(60)
except TimeoutError: pass
try: queue.Queue().get(timeout=0.01)
except queue.Empty: pass
threading.Event().wait(0.01)
threading.Lock().acquire(timeout=0.01)
result = [before, time.monotonic(), time.time()]
"""
    assert await same_again(kernel, again, code)


async def test_forked_children_are_not_on_the_log(kernel: Probe, again: Probe) -> None:
    code = """
import os, random, subprocess, sys, time
first = time.time()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, f"{abs(time.time() - first) < 5} {random.random()}".encode())
    os._exit(0)
os.wait()
said = os.read(read, 100).decode().split()
code = subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode
result = [first, time.time(), code, random.random()]
print(said[0] if first > 1e9 else "")
"""
    recorded = await kernel.record(code)
    assert recorded.stdout == "True\n"
    played = await again.replay(code, recorded.tapes[0])
    assert (played.body, played.divergence) == (recorded.body, "")


async def test_threads_do_not_break_a_log(kernel: Probe) -> None:
    code = """
import threading, time, os
def work():
    for _ in range(2000): time.time(); os.urandom(2); time.monotonic()
threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
"""
    recorded = await kernel.record(code)
    (tape,) = recorded.tapes
    played = await kernel.replay(code, tape)
    assert played.divergence == ""


async def test_the_first_difference_is_named_and_the_code_goes_on(kernel: Probe, again: Probe) -> None:
    (tape,) = (await kernel.record("import time; time.time()")).tapes
    run = await again.replay("import os, time; time.time(); result = time.time() > 1e9 and len(os.urandom(5))", tape)
    assert run.result == 5
    assert run.divergence == "reading 2 of time.time is one more than was recorded"


async def test_a_log_of_junk_is_named_and_the_code_goes_on(kernel: Probe) -> None:
    run = await kernel.replay("import time; result = time.time() > 1e9", b"junk" * 50_000)
    assert run.result is True
    assert run.divergence.startswith("the nondeterminism log cannot be read")


async def test_code_that_is_interrupted_hands_its_log_over(kernel: Probe) -> None:
    kernel.start("import time\nprint('busy')\nwhile True: time.time()", record=True)
    await kernel.said("busy")
    kernel.sandbox.interrupt()
    run = await kernel.finish()
    assert run.done is not None
    assert run.done.status == "interrupted"
    assert len(run.tapes) == 1


async def test_after_a_logged_execution_the_clock_is_real_again(kernel: Probe) -> None:
    (tape,) = (await kernel.record("import time; time.time()")).tapes
    first = (await kernel.replay("result = time.time()", tape)).result
    assert (await kernel.run("result = time.time()")).result != first


async def test_a_log_for_another_run_is_not_played(kernel: Probe) -> None:
    kernel.sandbox.send(NondeterminismLog(run="another"), b"junk")
    run = await kernel.run("result = 1")
    assert (run.result, run.tapes) == (1, [])


async def test_other_languages_have_no_log(kernel: Probe) -> None:
    order = Execute(run="b", name="c", manifest="", final=False, result_bytes_max=99, language="bash", record=True)
    kernel.sandbox.send(order, b"date; echo $RANDOM")
    assert (await kernel.finish()).tapes == []


async def test_a_rehearsal_leaves_the_start_of_random_to_the_first_execution(kernel: Probe, again: Probe) -> None:
    order = Execute(run="b", name="c", manifest="", final=False, result_bytes_max=99, rehearse=True)
    again.sandbox.send(order, b"result = 2")
    await again.finish()
    assert await same_again(kernel, again, "import random; result = random.random()")


async def test_random_numbers_of_a_session_go_on(kernel: Probe, again: Probe) -> None:
    code = "import random; result = [random.random(), random.gauss(0, 1)]"
    recorded = [await kernel.record(code) for _ in range(3)]
    played = [await again.replay(code, run.tapes[0]) for run in recorded]
    assert [run.body for run in played] == [run.body for run in recorded]
    assert len({run.body for run in recorded}) == 3


@pytest.mark.slow
async def test_numpy_and_pandas_read_from_the_log(backend: ZygoteBackend) -> None:
    image = await image_of("data")
    code = """
import datetime, numpy, pandas, random
assert random.random() != numpy.random.random()
result = [
    numpy.random.default_rng().integers(1 << 40), numpy.random.random(), str(pandas.Timestamp.now()),
    str(pandas.Timestamp.today()), str(pandas.Timestamp(datetime.datetime.now())),
    type(pandas.Timestamp.now()).__name__, isinstance(pandas.Timestamp.now(), datetime.datetime),
    str(pandas.Series([datetime.datetime(2020, 1, 1)]).dtype),
]
"""
    with anyio.fail_after(60):
        first = Probe(await backend.open_sandbox(SandboxSpec(image=image)))
        second = Probe(await backend.open_sandbox(SandboxSpec(image=image)))
    assert await same_again(first, second, code)
    for probe in (first, second):
        await probe.sandbox.close()
