"""Replay: an execution again, from the record, in a real sandbox.

The code runs as it ran: in the same environment, with the same hash seed, clock and randomness (Python), after the
executions that came before it in its sandbox. Its tool calls are answered by `moonpool.replay.pipeline`. Edited
code runs against the recorded results; another policy's denials take the place of results.
`moonpool.bootstrap.replays` puts the parts together (`stage`); the report is `report`.

INVARIANT: a replay reaches no upstream, credential or approver: none is made for it. It is on record as a replay, and
makes no recording.
Threads of the code are scheduled anew, and in other languages than Python clock and randomness are not played: a replay
of these may differ, and the report says so.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.languages import PYTHON
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.runs import Run
from moonpool.pipeline.budgets import SessionMemory
from moonpool.replay.packages import ReplayedPackages
from moonpool.replay.pipeline import ReplayPipeline
from moonpool.replay.policy_replay import WhatIf, decide_again
from moonpool.replay.report import Comparison, ReplayEnd, ReplayReport, compare_envelopes
from moonpool.replay.source import read_object
from moonpool.replay.stage import ReplayParts, put_again, replay_grant
from moonpool.tools.snapshot import ToolSnapshot, show
from moonpool.tools.wrapper_tree import tree_digest, write_tree

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.engine.run_services import Pipeline
    from moonpool.features.plans.service import Plans
    from moonpool.features.recordings.model import Recording
    from moonpool.features.recordings.recorder import Recorder
    from moonpool.policy import Layer
    from moonpool.replay.source import Recorded, ReplaySource
    from moonpool.sandboxes.base import Sandbox
    from moonpool.tracing.spans import Tracing

STOP_AFTER_S: Final = 0.5
"""How long code may go on after it made a call that the record does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What is asked. `code` takes the place of the recorded code, `policy` that of the policy file in force then."""

    run_id: str
    code: bytes | None = None
    policy: Layer | None = None


@dataclass(frozen=True, kw_only=True)
class _ReplayServices(ReplayParts):
    """What one execution of a replay needs: the same, and a pipeline of its own."""

    pipeline: Pipeline
    recorder: Recorder | None = None  # INVARIANT: None; a replay is not recorded
    tracing: Tracing | None = None
    plans: Plans | None = None  # INVARIANT: None; a replay makes no plan and runs under none


class Replayer:
    """Replays one execution."""

    def __init__(self, parts: ReplayParts, source: ReplaySource, request: ReplayRequest) -> None:
        self._parts, self._source, self._request = parts, source, request
        self._session_id = uuid.uuid4().hex
        self._what_if = WhatIf() if request.policy is None else decide_again(source, request.policy)
        self._memory = SessionMemory()
        recorded = (*source.before, source.target)
        self._packages = ReplayedPackages(parts.wheels, (one.recording for one in recorded))
        self._notes: list[str] = []

    async def replay(self) -> ReplayReport:
        """Raises SandboxStartError, RecordingError, JournalError and what else stops any execution."""
        header = self._source.target.recording.header
        await asyncio.to_thread(self._packages.find)
        spec = replace(self._parts.sandbox_spec, hash_seed=header.hash_seed)
        sandbox = await self._parts.backend.open_sandbox(spec)
        try:
            for one in self._source.before:
                report = await self._one(sandbox, one, None)
                if report.end is ReplayEnd.DIVERGED:
                    why = f"execution {one.recording.header.run_id}, which came before in its session, diverged"
                    return replace(report, run_id=header.run_id, notes=(*report.notes, why))
            return await self._one(sandbox, self._source.target, self._request.code)
        finally:
            await sandbox.close()

    async def _one(self, sandbox: Sandbox, recorded: Recorded, edited: bytes | None) -> ReplayReport:
        recording, header = recorded.recording, recorded.recording.header
        self._note_limits(recording)
        snapshot = await self._snapshot(recorded)
        await show(sandbox, snapshot)
        await self._packages.show(sandbox, header.packages)
        for one in header.inputs:
            await put_again(self._parts, self._session_id, sandbox, one)
        runs: list[Run] = []
        pipeline = ReplayPipeline(
            recording,
            stop=lambda: _stop_soon(runs),
            shown=lambda arguments: self._parts.redactor.json(arguments, Counter()),
            denied=self._what_if.denied.get(header.run_id, {}),
        )
        places = itertools.count()
        ended = recording.end if header.language == PYTHON else None
        code = CodeRequest(
            code=header.code.encode() if edited is None else edited,
            timeout_s=min(header.timeout_s, self._parts.settings.timeout_s_max),
            name=header.name,
            language=header.language,
            ipython=header.ipython,
            replay_of=header.run_id,
            nondeterminism_log=None if ended is None else ended.nondeterminism_log or None,
        )
        run = Run(
            _ReplayServices(**vars(self._parts), pipeline=pipeline),
            replay_grant(self._parts.principal),
            self._session_id,
            code,
            self._memory,
            lambda text: self._packages.answer(text, recording, next(places), sandbox, self._note),
        )
        runs.append(run)
        envelope = await run.on(sandbox, lambda: snapshot, final=header.final)
        return self._report(recording, run, pipeline, envelope, edited=edited is not None)

    def _report(
        self, recording: Recording, run: Run, pipeline: ReplayPipeline, envelope: Envelope, *, edited: bool
    ) -> ReplayReport:
        header = recording.header
        if pipeline.divergence is not None:
            end = ReplayEnd.DIVERGED
        elif pipeline.record_ended or recording.end is None:
            end = ReplayEnd.RECORD_ENDED
        else:
            end = ReplayEnd.COMPLETE
        compared: tuple[Comparison, ...] = ()
        if end is ReplayEnd.COMPLETE and recording.end is not None:
            compared = compare_envelopes(read_object(recording.end.envelope, header.run_id), envelope.to_json())
        cut_off = end is not ReplayEnd.COMPLETE
        return ReplayReport(
            run_id=header.run_id,
            replay_run_id=run.run_id,
            replayed=header.run_id,
            end=end,
            edited=edited,
            calls_recorded=len(recording.calls),
            calls_served=pipeline.served,
            calls_denied=pipeline.refused,
            not_made=() if cut_off else tuple(pipeline.not_made),
            divergence=pipeline.divergence,
            nondeterminism_divergence="" if cut_off or run.outcome is None else run.outcome.nondeterminism_divergence,
            compared=compared,
            envelope=envelope.to_json(),
            decisions=None if self._request.policy is None else tuple(self._what_if.decisions),
            notes=tuple(self._notes),
        )

    def _note_limits(self, recording: Recording) -> None:
        header = recording.header
        if header.language != PYTHON:
            self._note(f"in {header.language} clock and randomness are not recorded: what depends on them may differ")
        elif recording.end is None:
            self._note("the execution was cut off before its clock and randomness were recorded: they are new")
        elif not recording.end.nondeterminism_log:
            self._note("its clock and randomness are not recorded: what depends on them may differ")
        if recording.end is None:
            self._note("the host ended before the execution did; the replay goes as far as the record")
        elif recording.end.forced:
            self._note(f"the execution was ended early ({recording.end.forced}); the replay goes as far as the record")
        if plan_id := _plan_made_by(recording):
            self._note(
                f"the execution was a dry run (its plan: {plan_id}): the recorded placeholders answer, no plan is made"
            )
        for one in header.inputs:
            if one.missing:
                self._note(f"{one.what} {one.path!r} was put before the code and is not kept: {one.missing}")

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    async def _snapshot(self, recorded: Recorded) -> ToolSnapshot:
        """The wrappers of then, made anew from the tools of then."""
        shared = recorded.recording.shared
        digest = tree_digest(recorded.manifest, shared.missing)
        if digest != shared.tree_digest:
            version = recorded.recording.header.version
            self._note(
                f"the wrappers are not the recorded ones: Moonpool {version} generated others from the same tools"
            )
        folder = self._parts.trees / digest.removeprefix("sha256:")[:32]
        if not await asyncio.to_thread(folder.exists):
            await asyncio.to_thread(write_tree, folder, recorded.manifest, shared.missing)
        return ToolSnapshot(manifest=recorded.manifest, tree=folder, digest=digest, missing=shared.missing)


def _plan_made_by(recording: Recording) -> str:
    """The plan of a dry run; empty for any other execution."""
    if recording.end is None:
        return ""
    result = read_object(recording.end.envelope, recording.header.run_id).get("result")
    metrics = result.get("metrics") if isinstance(result, dict) else None
    return str(metrics.get("plan_id", "")) if isinstance(metrics, dict) and metrics.get("dry_run") is True else ""


def _stop_soon(runs: list[Run]) -> None:
    """Let the code have its error first."""
    asyncio.get_running_loop().call_later(STOP_AFTER_S, _interrupt, runs)


def _interrupt(runs: list[Run]) -> None:
    for run in runs:
        run.interrupt(at_once=False)
