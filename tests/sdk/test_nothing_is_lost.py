"""What ipybox loses in one execution of five: output, values and figures, a thousand times (peers' own fault list)."""

from __future__ import annotations

import pytest

import moonpool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
COUNT, FIGURES = 1000, 200  # a thousand figures take a minute and were none the worse


@pytest.mark.req("P-008")
@pytest.mark.timeout(240)
async def test_no_output_and_no_value_is_lost() -> None:
    async with moonpool.session() as s:
        for number in range(COUNT):
            result = await s.run(f"print({number})\n{number}")
            assert (result.stdout, result.data) == (f"{number}\n", number)


@pytest.mark.req("P-008")
@pytest.mark.timeout(300)
async def test_no_figure_is_lost() -> None:
    async with moonpool.session(environment="data") as s:
        await s.run("import matplotlib.pyplot as plt\nplt.rcParams['figure.figsize'] = (1, 1)")
        for number in range(FIGURES):
            result = await s.run(
                f"from pathlib import Path\nPath('picture-1.png').unlink(missing_ok=True)\nplt.plot([{number}])\nNone"
            )
            assert [(one.mime, one.name) for one in result.displays] == [("image/png", "picture-1.png")], number
