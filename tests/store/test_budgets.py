"""What principals have used, in the service's database, on both of its engines: counted once, by all replicas."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from databases import database_address, opened
from moonpool.features.budgets.service import SharedBudgets
from moonpool.features.budgets.table import PrincipalUse
from moonpool.pipeline.budgets import Taken
from moonpool.policy import Usage
from moonpool.store.database.opening import open_database

if TYPE_CHECKING:
    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio
NOW = 1_000_000.5
CALL = Taken(tool="git.push", argument_bytes=7, cost=0.1, wall_s=0.25, at=NOW)


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def always(_: Usage) -> bool:
    return True


async def test_replicas_together_never_overspend(opened: Database, database_address: DatabaseAddress) -> None:
    async with open_database(database_address) as other:
        uses = [PrincipalUse(database, "acme", "key:1") for database in (opened, other)]
        tried = (uses[n % 2].reserve(CALL, lambda usage: usage.calls < 7) for n in range(20))
        refused = [usage for usage in await asyncio.gather(*tried) if usage is not None]
        assert (len(refused), {usage.calls for usage in refused}) == (13, {7})
        assert (await uses[1].usage("git.push")).calls == 7


async def test_what_was_used_stays_used_and_what_was_not_sent_is_free_again(
    opened: Database, database_address: DatabaseAddress
) -> None:
    use = PrincipalUse(opened, "acme", "key:1", clock=Clock())
    assert await use.usage("git.push") == Usage()
    for taken in (CALL, CALL, replace(CALL, tool="git.log")):
        assert await use.reserve(taken, always) is None
    assert await use.let_in(100, None) is None
    spent = Usage(
        calls=3, tools=2, new_tool=False, argument_bytes=21, result_bytes=100, cost=0.3, wall_s=0.75,
        calls_per_minute=3, room_in_s=60.5,
    )  # fmt: skip
    assert await use.usage("git.push") == spent
    await use.give_back(replace(CALL, tool="git.log"))
    left = replace(spent, calls=2, tools=1, argument_bytes=14, cost=0.2, calls_per_minute=2)
    async with open_database(database_address) as other:
        assert await PrincipalUse(other, "acme", "key:1", clock=Clock()).usage("git.push") == left
        assert await PrincipalUse(other, "acme", "key:1", clock=Clock()).usage("git.log") == replace(
            left, new_tool=True
        )
        assert await PrincipalUse(other, "acme", "key:2").usage("git.push") == Usage()
        assert await PrincipalUse(other, "umbrella", "key:1").usage("git.push") == Usage()


async def test_calls_of_the_last_minute_are_forgotten_after_it(opened: Database) -> None:
    clock = Clock()
    use = PrincipalUse(opened, "acme", "key:1", clock=clock)
    await use.reserve(CALL, always)
    clock.now += 60
    assert (await use.usage("x")).calls_per_minute == 1  # the second in which it was made is not over for all in it
    clock.now += 0.5
    assert (await use.usage("x")).calls_per_minute == 0
    await use.reserve(replace(CALL, at=clock.now), always)
    assert (await use.usage("x")).calls_per_minute == 1


async def test_results_are_let_in_while_there_is_room(opened: Database) -> None:
    use = PrincipalUse(opened, "acme", "key:1")
    answers = await asyncio.gather(*(use.let_in(40, 100) for _ in range(3)))
    assert sorted(answers, key=str) == [20, None, None]
    assert await use.let_in(20, 100) is None
    assert await use.let_in(1, 100) == 0


async def test_running_time_is_counted_beside_who_ran(opened: Database) -> None:
    budgets = SharedBudgets(opened, "acme")
    for _ in range(4):
        budgets.of("key:1").ran(0.5)
    budgets.of("key:1").ran(0.0)
    await budgets.close()
    assert (await budgets.of("key:1").usage("x")).wall_s == 2.0
