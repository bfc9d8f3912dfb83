"""Many executions side by side, each with its own nonce, and many programs of all sorts: short forms of `bench.soak`
and `bench.fuzz`. Nothing here judges time; a hung execution fails by its own deadline.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from apps import open_app

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.groups.languages import LANGUAGES, missing_languages  # noqa: E402
from bench.groups.toolcalls import SERVER  # noqa: E402  the benchmarks are no part of the distribution
from bench.soaks.lines import fuzz_lines, line_problem  # noqa: E402
from bench.soaks.marathon import Marathon, processes_of_ours  # noqa: E402
from bench.soaks.programs import programs  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.slow]
ECHO = {
    "bench": {
        "command": sys.executable,
        "args": [str(SERVER)],
        "moonpool": {"trusted": True, "allow": ["*"]},
    }
}


async def test_no_output_is_lost_or_swapped_in_five_hundred_mixed_executions() -> None:
    before = processes_of_ours()
    with anyio.fail_after(280):
        async with open_app(ECHO, serving=True, shared=False) as app:
            languages = set(LANGUAGES) - (await missing_languages(app)).keys()
            outcome = await Marathon(base=app, languages=languages, executions=500, concurrency=8).run()
    assert (outcome.lost, outcome.swapped, outcome.hung, outcome.faults) == (0, 0, 0, [])
    assert outcome.executions == 500
    assert {"output", "image", "error", "calls", "exit", "death", "killed", *languages} <= outcome.kinds.keys()
    assert processes_of_ours() <= before


@pytest.mark.req("H-088", "X-07")
async def test_three_hundred_programs_of_all_sorts_give_one_line_each_that_parses() -> None:
    with anyio.fail_after(280):
        async with open_app() as app:
            outcome = await fuzz_lines(app, programs(seed=88, count=300), concurrency=4)
    assert outcome.faults == []
    assert outcome.programs == 300
    assert outcome.ok
    assert len(outcome.errors) > 10, outcome.errors  # else the programs are all of one sort


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(b"{}", "it is not one line of bytes", id="no end"),
        pytest.param(b"{}\n{}\n", "it is not one line of bytes", id="two"),
        pytest.param(b"{\n", "it does not parse", id="cut"),
        pytest.param(b'{"a": NaN}\n', "it does not parse", id="NaN"),
        pytest.param('{"a": "\u2028"}\n'.encode(), "it is not one line of text", id="line separator"),
        pytest.param(b"{}\n", "its members are []", id="empty"),
        pytest.param(json.dumps("x" * 70_000).encode() + b"\n", "it has 70003 bytes", id="too long"),
    ],
)
def test_the_fuzz_sees_a_line_that_is_wrong(line: bytes, problem: str) -> None:
    found = line_problem(line, ok=True)

    assert found is not None
    assert found.startswith(problem)
