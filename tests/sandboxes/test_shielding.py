"""Ends are reached under both kinds of cancellation."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from moonpool.sandboxes.shielding import finish

pytestmark = pytest.mark.anyio


async def end(record: list[str]) -> str:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    record.append("ended")
    return "value"


async def test_it_gives_the_value_of_the_work() -> None:
    assert await finish(end([])) == "value"


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finish(fail())


async def test_a_scope_that_cancels_at_every_await_does_not_stop_it() -> None:
    record: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish(end(record))
    assert record == ["ended"]


async def test_a_cancelled_task_ends_its_work_and_then_is_cancelled() -> None:
    record: list[str] = []
    task = asyncio.ensure_future(finish(end(record)))
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert record == ["ended"]


async def test_a_task_that_is_cancelled_again_and_again_ends_its_work_too() -> None:
    record: list[str] = []
    task = asyncio.ensure_future(finish(end(record)))
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert record == ["ended"]
