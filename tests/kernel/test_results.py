"""What code hands over: the global `result`, wherever and whenever it was set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio


@pytest.mark.req("H-028", "H-094")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("result = {'a': [1, 2]}", {"a": [1, 2]}, id="plain assignment"),
        pytest.param("result = None", None, id="None is a result"),
        pytest.param(
            "def outer():\n    def inner():\n        global result\n        result = 3\n    inner()\nouter()",
            3,
            id="global in a nested function",
        ),
        pytest.param(
            "import asyncio\nasync def main():\n    global result\n    result = 4\nasyncio.run(main())",
            4,
            id="global in a coroutine",
        ),
        pytest.param("import asyncio\nawait asyncio.sleep(0)\nresult = 5", 5, id="after a top-level await"),
        pytest.param("for result in range(3): pass", 2, id="loop variable"),
        pytest.param("(result := 6)", 6, id="walrus"),
        pytest.param("result = 1\nresult += 1", 2, id="augmented"),
        pytest.param("import math as result\nresult = result.floor(7.5)", 7, id="the last one counts"),
        pytest.param("if __name__ == '__main__':\n    result = 8", 8, id="under the main guard"),
        pytest.param("globals()['result'] = 9", 9, id="through globals()"),
        pytest.param("import __main__\n__main__.result = 10", 10, id="through the module"),
        pytest.param("result = 11\nimport sys\nsys.exit(0)", 11, id="before a clean exit"),
    ],
)
async def test_result_is_handed_over(kernel: Probe, code: str, expected: object) -> None:
    assert (await kernel.run(code)).result == expected


async def handed_over(kernel: Probe, code: str) -> bool:
    run = await kernel.run(code)
    assert run.done is not None
    return run.done.has_result


@pytest.mark.req("H-029")
async def test_code_that_sets_nothing_hands_nothing_over(kernel: Probe) -> None:
    assert not await handed_over(kernel, "x = 1")
    assert not await handed_over(kernel, "def f():\n    result = 1\nf()")


async def test_an_earlier_result_is_not_handed_over_again(kernel: Probe) -> None:
    assert await handed_over(kernel, "result = 1")
    assert not await handed_over(kernel, "x = result")
    assert not await handed_over(kernel, "result")


async def test_the_same_object_assigned_again_is_handed_over_again(kernel: Probe) -> None:
    assert (await kernel.run("kept = [1]\nresult = kept")).result == [1]
    assert (await kernel.run("kept.append(2)\nresult = kept")).result == [1, 2]
    assert (await kernel.run("result = result")).result == [1, 2]
    assert (await kernel.run("def f():\n    global result\n    result = kept\nf()")).result == [1, 2]


async def test_a_failed_execution_hands_nothing_over(kernel: Probe) -> None:
    run = await kernel.run("result = 1\nraise ValueError('no')")
    assert run.error == ("ValueError", "no")
    assert not await handed_over(kernel, "result = 1\nimport sys\nsys.exit(3)")


async def test_state_lives_from_one_execution_to_the_next(kernel: Probe) -> None:
    await kernel.run("import json\nx = 1\ndef f(): return x\nclass C: value = 2")
    assert (await kernel.run("x = 5\nresult = [f(), C.value, json.dumps(3)]")).result == [5, 2, "3"]


async def test_state_survives_an_error(kernel: Probe) -> None:
    await kernel.run("x = 1\n1/0")
    assert (await kernel.run("result = x")).result == 1


async def test_results_up_to_the_limit_pass_and_larger_ones_are_an_error_with_sizes(kernel: Probe) -> None:
    assert (await kernel.run("result = 'x' * 98", result_bytes_max=100)).result == "x" * 98
    run = await kernel.run("result = 'x' * 99", result_bytes_max=100)
    assert run.error[0] == "OutputTooLarge"
    assert "101 bytes of JSON, but at most 100" in run.error[1]


@pytest.mark.req("H-021")
async def test_ten_megabytes_are_a_typed_error_or_arrive_whole(kernel: Probe) -> None:
    run = await kernel.run("result = 'x' * 10_000_000", result_bytes_max=60 * 1024)
    assert run.error[0] == "OutputTooLarge"
    run = await kernel.run("result = 'x' * 10_000_000", result_bytes_max=16 << 20)
    assert run.result == "x" * 10_000_000
