"""What a replay works from: the recording of an execution, those before it in its sandbox, and the journal's word.

SECURITY: recordings come from a file. What the journal says of an execution is compared before anything is run: code,
tools, each call's tool, arguments and result, how it ended and its output. A recording that differs is refused, not
replayed. The rest is the recording's word: files that were put before, clock and randomness, what was printed, the
texts of errors, the digests of installed packages.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from moonpool.core.errors import InputError
from moonpool.core.json import JsonObject, JsonValue, digest_bytes, digest_json, finite_number
from moonpool.core.languages import PYTHON
from moonpool.core.manifest import Manifest, ServerListing
from moonpool.features.library.model.entries import Library
from moonpool.features.recordings.model import RecordingError
from moonpool.pipeline.call_records import NAME_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.audit import JournalReader
    from moonpool.features.recordings.model import (
        RecordedCall,
        RecordedReply,
        Recording,
        RecordingReader,
        RunHeader,
        SharedPart,
    )

RUN_ID: Final = re.compile(r"run_[0-9a-f]{32}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BEFORE_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recording that fits the journal."""

    recording: Recording
    manifest: Manifest
    outcomes: Mapping[int, JsonObject]  # call id -> the journal's record of how the call came out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySource:
    """The execution to replay, and what ran in its sandbox before it, in order."""

    target: Recorded
    before: tuple[Recorded, ...] = ()


def load_source(reader: RecordingReader, journal: JournalReader, run_id: str) -> ReplaySource:
    """Read and check all that a replay of `run_id` needs. Blocking. Raises RecordingError, JournalError."""
    target = _load(reader, journal, run_id)
    header = target.recording.header
    if header.position > _BEFORE_MAX:
        raise RecordingError(
            f"{run_id} is execution {header.position + 1} of its session, but {_BEFORE_MAX} at most are replayed; "
            "run what is of interest as one piece of code"
        )
    before: list[Recorded] = []
    earlier = {ref.position: ref for ref in reader.of_sandbox(header.sandbox_id)} if header.position else {}
    for position in range(header.position):
        ref = earlier.get(position)
        if ref is None or ref.problem:
            why = ref.problem if ref else "it is not recorded any more"
            raise RecordingError(
                f"{run_id} builds on execution {position + 1} of its session, which cannot be replayed: {why}; "
                "run what is of interest as one piece of code"
            )
        before.append(_load(reader, journal, ref.run_id))
    return ReplaySource(target=target, before=tuple(before))


def code_that_worked(reader: RecordingReader, journal: JournalReader, run_id: str) -> bytes:
    """The Python code of an execution that ended well. Blocking. Raises RecordingError, JournalError, InputError."""
    recording = _load(reader, journal, run_id).recording
    if recording.header.language != PYTHON:
        raise InputError(f"{run_id} ran {recording.header.language} code; only Python can be imported")
    result = read_object(recording.end.envelope, run_id).get("result") if recording.end is not None else None
    if not isinstance(result, dict) or result.get("ok") is not True:
        raise InputError(f"{run_id} did not end well, so its code is not known to work; correct it and run it again")
    return recording.header.code.encode()


def _load(reader: RecordingReader, journal: JournalReader, run_id: str) -> Recorded:
    if not RUN_ID.fullmatch(run_id):
        raise RecordingError(f"{run_id[:80]!r} is no execution; give the run_id of an envelope, e.g. run_0123…")
    records = [row.to_json() for row in journal.rows(run_id=run_id)]
    start = next((one for one in records if one["kind"] == "execution_start"), None)
    if start is None:
        raise RecordingError(f"there is no execution {run_id} on record; `moonpool audit show` lists the newest")
    if original := start.get("replay_of"):
        raise RecordingError(f"{run_id} is a replay itself; replay {original}")
    recording = reader.load(run_id)
    outcomes = {_id(one): one for one in records if one["kind"] == "call_outcome"}
    manifest = _manifest(recording.shared, run_id)
    end = next((one for one in records if one["kind"] == "execution_end"), None)
    _check(recording, manifest, start, outcomes, end)
    return Recorded(recording=recording, manifest=manifest, outcomes=outcomes)


def _check(
    recording: Recording,
    manifest: Manifest,
    start: JsonObject,
    outcomes: Mapping[int, JsonObject],
    end: JsonObject | None,
) -> None:
    run_id = recording.header.run_id
    _check_header(recording.header, start)
    _check_packages(recording)
    if manifest.digest != start.get("manifest_digest"):
        _changed(run_id, "its tools")
    replies = {reply.seq: reply for reply in recording.replies}
    for call in recording.calls:
        outcome, reply = outcomes.get(call.call_id), replies.get(call.seq)
        if outcome is None:
            if reply is not None and read_object(reply.reply, run_id).get("ok") is True:
                _changed(run_id, f"the result of call {call.seq}")  # none is given out before it is on record
            continue
        if (outcome.get("server_id"), outcome.get("tool_name")) != _names_on_record(call):
            _changed(run_id, f"the tool of call {call.seq}")
        if (expected := outcome.get("arguments_digest")) and expected != call.arguments_digest:
            _changed(run_id, f"the arguments of call {call.seq}")
        if reply is not None:
            _check_reply(run_id, call.seq, reply, outcome)
    if recording.end is not None and end is not None:
        result = read_object(recording.end.envelope, run_id).get("result")
        ok = isinstance(result, dict) and result.get("ok") is True
        output = _output_of(result) if isinstance(result, dict) else None
        if _digest(output, run_id) != end.get("output_digest") or ok != (end.get("error_type") == ""):
            _changed(run_id, "its result")


def _check_header(header: RunHeader, start: JsonObject) -> None:
    if digest_bytes(header.code.encode()) != start.get("code_digest"):
        _changed(header.run_id, "its code")
    for name in ("language", "environment_id", "backend", "session_id"):
        if start.get(name) and start[name] != getattr(header, name):
            _changed(header.run_id, f"its {name.removesuffix('_id')}")
    seed = header.hash_seed or 0
    if not 0 < header.timeout_s < math.inf or header.position < 0 or not 0 <= seed < 2**32:
        _changed(header.run_id, "its limits")


def _check_packages(recording: Recording) -> None:
    installed = (recording.header.packages, *(one.packages for one in recording.installs))
    if not all(_SHA256.fullmatch(one.sha256) for packages in installed for one in packages):
        _changed(recording.header.run_id, "its packages")


def _check_reply(run_id: str, seq: int, reply: RecordedReply, outcome: JsonObject) -> None:
    members = read_object(reply.reply, run_id)
    error = members.get("error")
    kind = error.get("type") if isinstance(error, dict) else ""
    raw = members.get("raw")
    digest = _digest(raw, run_id) if raw is not None else ""
    ok = members.get("ok") is True
    if kind != outcome.get("error_type") or ok != (kind == ""):
        _changed(run_id, f"the result of call {seq}")
    if (digest or ok) and digest != outcome.get("result_digest"):
        _changed(run_id, f"the result of call {seq}")


def _output_of(result: JsonObject) -> JsonValue:
    return result.get("data") if result.get("ok") else result.get("error")


def read_object(text: bytes, run_id: str) -> JsonObject:
    """A JSON object of a recording. Raises RecordingError."""
    try:
        members: JsonValue = json.loads(text, parse_float=finite_number)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        _changed(run_id, "a part of it")
    return members


def _digest(value: JsonValue, run_id: str) -> str:
    try:
        return digest_json(value)
    except (ValueError, RecursionError):  # half a surrogate pair, which no digest of ours is over
        _changed(run_id, "a part of it")


def _names_on_record(call: RecordedCall) -> tuple[str, str]:
    return call.server_id[:NAME_LENGTH_MAX], call.tool_name[:NAME_LENGTH_MAX]


def _manifest(shared: SharedPart, run_id: str) -> Manifest:
    try:
        servers = tuple(ServerListing.from_json(read_object(text, run_id)) for text in shared.servers)
        library = Library.from_json(json.loads(shared.library)) if shared.library else Library()
    except (ValueError, RecursionError, InputError):
        _changed(run_id, "its tools")
    held = {(server, tool): why for server, tool, why in shared.held}
    return Manifest(servers=servers, held=held, library=library)


def _changed(run_id: str, what: str) -> NoReturn:
    raise RecordingError(
        f"the recording of {run_id} was changed: {what} is not what the audit journal says; it is not replayed. "
        f"Keep it as evidence, or remove it: moonpool recordings remove {run_id}"
    )


def _id(record: JsonObject) -> int:
    call_id = record.get("call_id")
    return call_id if isinstance(call_id, int) else 0
