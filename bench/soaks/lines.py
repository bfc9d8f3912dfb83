"""The fuzz of the line that `moonpool run` prints: whatever the program, exactly one line that parses (H-088)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelope_line import LINE_BYTES_MAX, envelope_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.bootstrap import Tenant

TIMEOUT_S = 0.5
_HUNG_S = 120.0
_SHOWN_MAX = 20
_MEMBERS = {
    *("run_id", "trace_id", "tool_name", "tool_version", "input_digest", "output_digest", "sandbox_image"),
    *("duration_ms", "approval_state", "result"),
}
_WHERE_THERE_IS_SOMETHING = {"failed_calls", "files", "files_note", "more_files", "note"}


@dataclass(slots=True, kw_only=True)
class FuzzOutcome:
    """What the programs came to."""

    programs: int = 0
    ok: int = 0
    errors: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])  # program and what was wrong with its line
    fault_count: int = 0

    def to_json(self) -> dict[str, Any]:
        figures = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**figures, "errors": dict(self.errors)}

    def summary(self) -> str:
        most = ", ".join(f"{count:,} {kind}" for kind, count in self.errors.most_common(8))
        return f"{self.programs:,} programs, {self.fault_count} faults: {self.ok:,} ok, {most}"


async def fuzz_lines(app: Tenant, sources: Sequence[str], *, concurrency: int) -> FuzzOutcome:
    """Run every source in a sandbox of its own and look at its line."""
    outcome = FuzzOutcome()
    left = iter(sources)
    await asyncio.gather(*(_work(app, left, outcome) for _ in range(concurrency)))
    return outcome


async def _work(app: Tenant, left: Iterator[str], outcome: FuzzOutcome) -> None:
    for source in left:
        session = app.runtime.session(app.caller_grant, final=True)
        request = CodeRequest(code=source.encode(), timeout_s=TIMEOUT_S)
        try:
            async with asyncio.timeout(_HUNG_S):
                envelope = await session.execute(request)
            line = envelope_line(envelope)
            problem = line_problem(line.line, ok=line.ok)
            error = envelope.error
        except TimeoutError:
            problem, error = "it hung", None
        finally:
            await session.close()
        outcome.programs += 1
        if error is None:
            outcome.ok += 1
        else:
            outcome.errors[error.type[:60]] += 1
        if problem is not None:
            outcome.fault_count += 1
            if len(outcome.faults) < _SHOWN_MAX:
                outcome.faults.append(f"{problem}: {source!r}")


def line_problem(line: bytes, *, ok: bool) -> str | None:
    """What is wrong with the line, or None."""
    if len(line) > LINE_BYTES_MAX:
        return f"it has {len(line)} bytes"
    if not line.endswith(b"\n") or line.count(b"\n") != 1:
        return "it is not one line of bytes"
    try:
        text = line.decode()
        found: Any = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return f"it does not parse: {error}"
    if len(text.splitlines()) != 1:
        return "it is not one line of text"
    if found.keys() != _MEMBERS:
        return f"its members are {sorted(found)}"
    result = found["result"]
    expected = {"ok", "data", "metrics"} if ok else {"ok", "error", "metrics"}
    has = result.keys() - _WHERE_THERE_IS_SOMETHING
    return None if result["ok"] is ok and has == expected else f"its result has {sorted(result)}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
