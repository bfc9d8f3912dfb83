"""Code that is written again from its error: what is tried, how often, and when a person takes over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server, open_app, run
from moonpool.core.calls import CallErrorType
from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.errors import InputError
from moonpool.engine.self_correction import MAX_RETRIES, Mistake, self_correct

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


def envelope(error: ExecutionError | None = None) -> Envelope:
    return Envelope(
        run_id="run_1",
        trace_id="t",
        tool_name="moonpool.python",
        tool_version="0",
        input_digest="",
        sandbox_image="",
        duration_ms=0,
        error=error,
    )


class Model:
    """Writes `code 1`, `code 2`...; remembers what it was told and what was run."""

    def __init__(self, errors: Sequence[ExecutionError | None]) -> None:
        self.told: list[Mistake | None] = []
        self.ran: list[str] = []
        self.paused: list[float] = []
        self._errors = list(errors)

    async def generate(self, mistake: Mistake | None) -> str:
        self.told.append(mistake)
        return f"code {len(self.told)}"

    async def run(self, code: str) -> Envelope:
        self.ran.append(code)
        return envelope(self._errors[min(len(self.ran), len(self._errors)) - 1])

    async def pause(self, seconds: float) -> None:
        self.paused.append(seconds)


def failure(kind: str, *, retryable: bool = False) -> ExecutionError:
    return ExecutionError(type=kind, message=f"{kind} it was", retryable=retryable)


@pytest.mark.req("H-063")
@pytest.mark.parametrize("kind", ["NameError", "ValidationError", "UnknownTool", "ToolPaused", "TransientNetwork"])
async def test_a_model_that_always_fails_gets_three_runs_and_then_a_person(kind: str) -> None:
    model = Model([failure(kind)])
    found = await self_correct(model.generate, model.run, pause=model.pause)
    assert (len(model.ran), found.runs, found.handoff_required) == (MAX_RETRIES, 3, True)
    assert [mistake.attempt for mistake in found.mistakes] == [1, 2, 3]


PASSING = ("Timeout", "RateLimit", "TransientNetwork")
AT_ONCE = ("ApprovalRejected", "ApprovalExpired", "Internal")


@pytest.mark.req("H-064")
@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("kind", [*CallErrorType, "NameError", "SyntaxError"])
async def test_only_passing_causes_are_run_as_they_are_and_others_are_told(kind: str, retryable: bool) -> None:
    model = Model([failure(kind, retryable=retryable), None])
    found = await self_correct(model.generate, model.run, pause=model.pause)
    if kind in AT_ONCE:
        assert (model.ran, found.handoff_required) == (["code 1"], True)
    elif kind in PASSING and retryable:
        assert (model.ran, model.told, len(model.paused)) == (["code 1", "code 1"], [None], 1)
    else:
        assert (model.ran, model.paused, found.handoff_required) == (["code 1", "code 2"], [], False)
        told = model.told[1]
        assert told is not None
        assert (told.code, f"{kind} it was" in told.prompt) == ("code 1", True)


async def test_pauses_grow_and_the_cap_counts_repeated_runs_too() -> None:
    model = Model([failure("RateLimit", retryable=True)])
    found = await self_correct(model.generate, model.run, pause=model.pause)
    assert (model.ran, model.paused, found.handoff_required) == (["code 1"] * 3, [0.5, 1.0], True)


async def test_code_that_changed_something_is_not_run_again_as_it_is() -> None:
    model = Model([None])

    async def run_once(code: str) -> Envelope:
        found = await model.run(code)
        if len(model.ran) > 1:
            return found
        return replace(found, error=failure("Timeout", retryable=True), metrics={"changing_calls": 1})

    await self_correct(model.generate, run_once, pause=model.pause)
    assert model.ran == ["code 1", "code 2"]


async def test_the_envelope_counts_calls_that_may_have_changed_something() -> None:
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        found = await run(app, "import servers.echo as e\nresult = (await e.list_change(name='more')).ok")
    assert (found.data, found.metrics.get("changing_calls")) == (True, 1)


@pytest.mark.parametrize("cap", [0, 4, 100])
async def test_the_cap_cannot_be_raised(cap: int) -> None:
    model = Model([failure("NameError")])
    with pytest.raises(InputError, match="from 1 to 3"):
        await self_correct(model.generate, model.run, runs_max=cap)
    assert model.ran == []


async def test_code_is_corrected_from_the_errors_of_a_real_run() -> None:
    written = [
        "import servers.echo as e\nresult = e.no_such_thing",
        "from client import mcp_client\n"
        "result = (await mcp_client.call_tool(server_id='echo', name='list_chnge', arguments={})).unwrap()",
        "result = 42",
    ]
    told: list[Mistake | None] = []

    async def generate(mistake: Mistake | None) -> str:
        told.append(mistake)
        return written[len(told) - 1]

    async with open_app({"echo": fixture_server("echo.py")}) as app:
        found = await self_correct(generate, lambda code: run(app, code))
    assert (found.envelope.data, found.runs, found.handoff_required) == (42, 3, False)
    assert told[2] is not None
    assert "did you mean echo.list_change?" in told[2].prompt
