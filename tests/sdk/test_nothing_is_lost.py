"""What ipybox loses in one execution of five: output, values and figures, a thousand times; and events of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import fixture_server

if TYPE_CHECKING:
    from sdk.faces import Face

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
COUNT = 1000
FIGURE = "plt.figtext(0.1, 0.5, "  # without axes, which take ten times as long to draw


@pytest.mark.req("P-008")
@pytest.mark.timeout(240)
async def test_no_output_and_no_value_is_lost() -> None:
    async with moonpool.session() as s:
        for number in range(COUNT):
            result = await s.run(f"print({number})\n{number}")
            assert (result.stdout, result.data) == (f"{number}\n", number)


@pytest.mark.req("P-008")
@pytest.mark.timeout(600)
async def test_no_figure_is_lost() -> None:
    async with moonpool.session(environment="data") as s:
        await s.run("import matplotlib.pyplot as plt\nplt.rcParams['figure.figsize'] = (1, 1)")
        for number in range(COUNT):
            result = await s.run(
                f"from pathlib import Path\nPath('picture-1.png').unlink(missing_ok=True)\n{FIGURE}{number})\nNone"
            )
            assert [(one.mime, one.name) for one in result.displays] == [("image/png", "picture-1.png")], number


@pytest.mark.timeout(240)
async def test_no_event_of_thousands_of_calls_is_lost(face: Face) -> None:
    count = 4_000 if face.name == "coroutines" else 1_000  # the others hand over what that one has
    code = f"""
from servers.echo import read_only
import asyncio
for start in range(0, {count}, 100):
    await asyncio.gather(*(read_only() for _ in range(100)))
"""
    servers = {"echo": fixture_server("echo.py", trusted=True, allow=["*"])}
    async with face.session(servers=servers, limits=moonpool.Limits(timeout_s=200)) as s:
        begun: set[int] = set()
        ended: set[int] = set()
        async for event in s.stream(code):
            match event:
                case moonpool.ToolCallStarted():
                    begun.add(event.call_id)
                case moonpool.ToolCallEnded():
                    assert event.ok, event.message
                    ended.add(event.call_id)
                case moonpool.Result():
                    assert event.check().tool_calls == count
                case _:
                    pytest.fail(str(event))
    assert len(begun) == count
    assert ended == begun
