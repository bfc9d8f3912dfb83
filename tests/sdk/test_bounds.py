"""Too much, twice, or too large: one clear error each, and the session goes on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import anyio
import pytest

import moonpool
from apps import fixture_server

pytestmark = pytest.mark.anyio

ASKED = {"echo": fixture_server("echo.py", ask=["*"])}
MANY = """
import asyncio
from servers.echo import text

async def outcome(n):
    r = await text(text="yes")
    return r.data if r.ok else r.error["type"] + ": " + r.error["message"]

await asyncio.gather(*(outcome(n) for n in range(16)))
"""


async def test_open_approvals_are_bounded_over_all_sessions_of_a_tenant() -> None:
    asked = refused = 0
    everybody = asyncio.Event()

    def look() -> None:
        if asked + refused == 80:
            everybody.set()

    async def answer(_: moonpool.ApprovalRequest) -> bool:
        nonlocal asked
        asked += 1
        look()
        await everybody.wait()
        return True

    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(moonpool.session(servers=ASKED, approve=answer)) for _ in range(5)]
        streams = [one.stream(MANY) for one in sessions]

        async def read(stream: moonpool.Stream) -> moonpool.Result | None:
            nonlocal refused
            async for event in stream:
                if isinstance(event, moonpool.ToolCallEnded):
                    refused += not event.ok
                    look()
                elif isinstance(event, moonpool.Result):
                    return event.check()
            return None

        with anyio.fail_after(60):
            results = await asyncio.gather(*map(read, streams))
        told = [text for result in results if result for text in result.data]
    assert (asked, len(told)) == (64, 80)
    turned_away = [text for text in told if text != "yes"]
    assert len(turned_away) == 16
    assert all(text.startswith("ApprovalRejected") and "approvals are open" in text for text in turned_away)


async def test_the_first_answer_counts_where_a_function_gives_two() -> None:
    async def answer(request: moonpool.ApprovalRequest) -> bool:
        await request.deny("not today")
        with pytest.raises(moonpool.ApprovalAnswerError):
            await request.approve()
        return True

    async with moonpool.session(servers=ASKED, approve=answer) as s:
        assert all("not today" in text for text in (await s.run(MANY)).check().data)


CALL = "from servers.echo import text\nr = await text(text='hi')\nr.ok or r.error['type']"
SOON = moonpool.Limits(approval_expiry_s=0.2)


async def test_a_function_that_never_answers_refuses_the_call_in_time() -> None:
    async def never(_: moonpool.ApprovalRequest) -> bool:
        return await asyncio.get_running_loop().create_future()

    async with moonpool.session(servers=ASKED, approve=never, limits=SOON) as s:
        with anyio.fail_after(60):
            assert [(await s.run(code)).data for code in (CALL, "6 * 7")] == ["ApprovalExpired", 42]


@pytest.mark.slow  # the test above is quick
def test_a_function_that_blocks_refuses_the_call_in_time_and_its_answer_comes_too_late() -> None:
    release, ended = threading.Event(), threading.Event()

    def blocks(_: object) -> bool:
        ended.set() if release.wait(60) else None
        return True

    with moonpool.sync.session(servers=ASKED, approve=blocks, limits=SOON) as s:
        assert s.run(CALL, timeout=50).data == "ApprovalExpired"
        release.set()
        assert ended.wait(60)
        assert s.run("6 * 7").data == 42


FIGURE = (
    "import matplotlib.pyplot as plt\nf = plt.figure(figsize=(200, 200), dpi=100)\nf.gca().plot([1, 2])\nplt.show()"
)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_figures_and_arrays_that_are_too_large_are_errors_and_limits_are_of_one_session() -> None:
    small = moonpool.Limits(memory_bytes=400 * 1024**2)
    async with (
        moonpool.session(environment="data") as large,
        moonpool.session(environment="data", limits=small) as limited,
    ):
        figure = await large.run(FIGURE)
        assert figure.displays == ()
        assert "MemoryError" in (figure.error.type if figure.error else figure.stderr)
        code = "import numpy; a = numpy.ones(20 * 2**20); int(a.nbytes) >> 20"
        assert (await large.run(code)).data == 160
        refused = await limited.run(f"a = None\n{code.replace('20 * 2', '60 * 2')}")
        assert refused.error is not None
        assert refused.error.type in {"MemoryError", "OutOfMemory"}
        assert (await large.run("int(a.sum())")).data == 20 * 2**20
