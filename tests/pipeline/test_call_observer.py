"""Observers of calls hear of those that worked, after their record, and cannot harm one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.pipeline.pipeline import CallPipeline
from moonpool.redaction.redactor import Redactor
from pipeline.test_pipeline import Bench

if TYPE_CHECKING:
    from moonpool.pipeline.call_observer import ObservedCall

pytestmark = pytest.mark.anyio


class Listener:
    """Remembers what it is told, and how many records there were."""

    def __init__(self, bench: Bench, error: Exception | None = None) -> None:
        self.bench, self.error = bench, error
        self.told: list[tuple[str, str, dict[str, Any]]] = []

    def saw(self, call: ObservedCall) -> None:
        told = {field.name: getattr(call, field.name) for field in fields(call)}
        self.told.append((call.principal, call.tool.name, {**told, "records": len(self.bench.outcomes)}))
        if self.error is not None:
            raise self.error


def listened(answer: Any = None, error: Exception | None = None) -> tuple[Bench, Listener]:
    bench = Bench(answer)
    listener = Listener(bench, error)
    redactor = Redactor.of_values({"TOKEN": "s3cr3t-value"})
    bench.pipeline = CallPipeline({"s": bench.upstream}, journal=bench.journal, redactor=redactor, observer=listener)
    return bench, listener


async def test_a_call_that_worked_is_told_with_its_redacted_result() -> None:
    bench, listener = listened({"structuredContent": {"key": "s3cr3t-value"}, "content": []})
    await bench.call(path="a")

    (principal, tool, call), *rest = listener.told
    assert (principal, tool, rest) == ("local", "read", [])
    assert call["arguments"] == {"path": "a"}
    assert call["records"] == 1
    assert (call["data_from"], call["private"]) == ("structured", False)
    assert "s3cr3t" not in str(call["raw"])


@pytest.mark.parametrize(
    ("answer", "arguments"),
    [
        pytest.param({"isError": True, "content": []}, {"path": "a"}, id="a failure of the tool"),
        pytest.param({"content": 3}, {"path": "a"}, id="a result that is none"),
        pytest.param(None, {"wrong": 1}, id="arguments that do not fit"),
    ],
)
async def test_a_call_that_failed_is_not_told(answer: Any, arguments: dict[str, Any]) -> None:
    bench, listener = listened(answer)
    outcome = await bench.call(**arguments)

    assert outcome.error is not None
    assert listener.told == []


async def test_data_that_the_session_has_read_makes_arguments_private() -> None:
    bench, listener = listened()
    bench.session.memory.taken_in |= {"untrusted"}
    await bench.call()

    assert listener.told[0][2]["private"] is True


async def test_an_observer_that_fails_costs_no_call() -> None:
    bench, listener = listened(error=RuntimeError("bug"))
    outcome = await bench.call()

    assert outcome.ok
    assert len(listener.told) == len(bench.outcomes) == 1
