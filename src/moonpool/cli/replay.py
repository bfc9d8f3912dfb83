"""`moonpool replay`: repeat an execution from its recording.

SECURITY: names, arguments and output come from servers and code: they are printed without control characters.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.cli.commands import command, json_object
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import print_json, printable
from moonpool.core.errors import InputError
from moonpool.replay.report import ReplayEnd
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.replay.report import CallShown, Comparison, DecisionChange, Divergence, ReplayReport
    from moonpool.replay.service import ReplayRequest

_DECISIONS_SHOWN_MAX = 200


@command
@click.argument("run_id", help="`run_id` of an envelope; `last`: the newest.")
@click.option(
    "--policy",
    type=Path,
    metavar="FILE",
    help="What if this policy file had been in force? Every call is decided again.",
)
@click.option("--code", type=Path, metavar="FILE", help="Run this code instead, against the recorded results.")
@json_object
def replay(run_id: str, *, policy: Path | None, code: Path | None, as_json: bool) -> int:
    """Run an execution again from its recording: same environment, clock and randomness, recorded tool results.

    No server is called and nobody is asked. Exit code 0 if the result is the same, 1 if it differs, 2 if it cannot be
    replayed.
    """
    from moonpool.configuration.policy_file import load_policy_file
    from moonpool.replay.service import ReplayRequest

    settings = Settings.load(os.environ)
    request = ReplayRequest(
        run_id=run_named(run_id, journal_of(settings)),
        code=None if code is None else _code(code, settings),
        policy=None if policy is None else load_policy_file(policy).layer,
    )
    report = asyncio.run(_replay(settings, request))
    if as_json:
        print_json(report.to_json())
    else:
        for line in _lines(report):
            click.echo(printable(line))
    return EXIT_OK if report.same else EXIT_FAILED


async def _replay(settings: Settings, request: ReplayRequest) -> ReplayReport:
    from moonpool.bootstrap.replays import replay_run
    from moonpool.environments.progress import stderr_progress

    with stderr_progress() as progress:
        return await replay_run(settings, request, environ=os.environ, progress=progress)


def _code(path: Path, settings: Settings) -> bytes:
    try:
        with path.open("rb") as file:
            code = file.read(settings.code_bytes_max + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(code) > settings.code_bytes_max:
        raise InputError(f"{path}: the code is larger than {settings.code_bytes_max:,} bytes, which is all that is run")
    try:
        text = code.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the code is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text.strip() or "\0" in text:
        raise InputError(f"{path}: there is no code in it that can be run")
    return code


def _lines(report: ReplayReport) -> Iterator[str]:
    what = "edited code against " if report.edited else ""
    verdict = "same" if report.same else "not the same"
    ends = {
        ReplayEnd.COMPLETE: "ran to its end",
        ReplayEnd.DIVERGED: "diverged",
        ReplayEnd.RECORD_ENDED: "went as far as the record",
    }
    yield f"{what}{report.run_id}: {verdict}, {ends[report.end]} (on record as {report.replay_run_id})"
    denied = f", {report.calls_denied} denied by the other policy" if report.calls_denied else ""
    yield f"calls: {report.calls_served} of {report.calls_recorded} served from the record{denied}"
    if report.divergence is not None:
        yield from _divergence(report.divergence)
    for call in report.not_made:
        yield f"not made: {_call(call)}"
    if report.nondeterminism_divergence:
        yield f"clock and randomness: {report.nondeterminism_divergence}"
    for one in report.compared:
        yield _comparison(one)
    if report.decisions is not None:
        yield from _decisions(report.decisions)
    for note in report.notes:
        yield f"note: {note}"


def _divergence(found: Divergence) -> Iterator[str]:
    yield f"first differing call: {_call(found.asked)}"
    if found.recorded is None:
        yield "  the record has no call left"
        return
    yield f"  the record has: {_call(found.recorded)}"
    for one in found.differences:
        before = "nothing" if one.recorded is None else one.recorded
        yield f"  {one.pointer or 'arguments'}: {before} -> {'nothing' if one.asked is None else one.asked}"


def _call(call: CallShown) -> str:
    return (
        f"call {call.number}, {call.server_id}.{call.tool_name} {json.dumps(call.arguments, ensure_ascii=False)[:300]}"
    )


def _comparison(one: Comparison) -> str:
    if one.same:
        return f"{one.what}: same"
    return f"{one.what}: differs from line {one.line}: {one.recorded!r} -> {one.replayed!r}"


def _decisions(decisions: tuple[DecisionChange, ...]) -> Iterator[str]:
    changed = [one for one in decisions if one.changed]
    yield f"decisions: {len(changed)} of {len(decisions)} would be others"
    for one in changed[:_DECISIONS_SHOWN_MAX]:
        before, after = (f"{verdict or 'not asked'} by {rule or '-'}" for verdict, rule in _sides(one))
        note = f" ({one.note})" if one.note else ""
        yield f"  call {one.number}, {one.server_id}.{one.tool_name}: {before} -> {after}{note}"
    if len(changed) > _DECISIONS_SHOWN_MAX:
        yield f"  and {len(changed) - _DECISIONS_SHOWN_MAX} more; --json has all"


def _sides(one: DecisionChange) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one.before, one.before_rule), (one.after, one.after_rule)
