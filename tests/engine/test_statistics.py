"""What an application says about its sandboxes."""

from __future__ import annotations

import anyio
import pytest

from apps import DATA, open_app, run

pytestmark = pytest.mark.anyio


async def test_an_application_tells_what_its_pool_and_zygotes_did() -> None:
    async with open_app(serving=True, pool_low=1, pool_high=2, shared=False) as app:
        app.runtime.pool.fill(app.runtime.sandbox_spec)
        with anyio.fail_after(20):
            while app.runtime.statistics().ready < 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            assert (await run(app, "result = 1")).data == 1
        seen = app.runtime.statistics()
        assert [(kind.language, kind.hits, kind.misses) for kind in seen.kinds] == [("python", 1, 0)]
        assert seen.zygotes is not None
        assert seen.zygotes.started == 1
        assert seen.zygotes.forks == seen.zygotes.live[0].forks >= 1


async def test_ready_sandboxes_show_the_tools_through_folders_of_ended_ones() -> None:
    others = set(DATA.rglob("spare/*"))  # of applications that other tests of this worker share
    async with open_app(serving=True, pool_low=1, pool_high=1, shared=False) as app:
        app.runtime.pool.fill(app.runtime.sandbox_spec)
        with anyio.fail_after(20):
            for _ in range(6):
                while app.runtime.statistics().ready < 1:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                assert (await run(app, "import servers\nresult = 1")).data == 1
        assert len(set(DATA.rglob("spare/*")) - others) <= 3


async def test_a_single_command_keeps_none_ready() -> None:
    async with open_app() as app:
        assert (await run(app, "result = 1")).data == 1
        seen = app.runtime.statistics()
        assert (seen.ready, seen.kinds[0].opened, seen.kinds[0].misses) == (0, 1, 1)
