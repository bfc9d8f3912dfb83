"""What is recorded of an execution, so that it can be replayed (`moonpool.replay.service`).

The execution's side hands over what it has at hand and goes on; redacting and encoding is done by functions that the
store calls later, on its own thread.

SECURITY: nothing reaches the store but redacted. Replies, output and results are so when they come here; arguments are
redacted here, as they are for approvers. Code and files cannot be: a run whose code or files hold what would be
redacted is not recorded. Approvals and their notes are not recorded, beyond what the code was told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from moonpool.core.audit_records import time_stamp
from moonpool.core.json import canonical_json, digest_bytes, digest_json
from moonpool.features.recordings.model import (
    NotReplayable,
    RecordedCall,
    RecordedInstall,
    RecordedPackage,
    RecordedReply,
    RecordingRef,
    RunEnd,
    RunHeader,
    SharedPart,
)
from moonpool.pipeline.guest_json import reply_of
from moonpool.policy import LayerName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.features.recordings.model import RecordedInput, Recordings
    from moonpool.pipeline.call_state import CallContext
    from moonpool.redaction.redactor import Redactor
    from moonpool.settings import Settings
    from moonpool.tools.snapshot import ToolSnapshot

RECORDED_SETTINGS: Final = (
    "stdout_bytes_max",
    "stderr_bytes_max",
    "artifact_bytes_max",
    "result_bytes_max",
    "memory_bytes_max",
    "cpu_s_max",
    "disk_bytes_max",
    "process_count_max",
    "redact_patterns",
    "redact_personal",
    "packages",
)
"""Settings that have a say in what comes out of an execution."""
_encode = msgspec.json.Encoder().encode


class SomePackage(Protocol):
    """An installed package (`moonpool.engine.packages.model.InstalledPackage`)."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def sha256(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What a run knows of itself when its code starts."""

    sandbox_id: str
    position: int
    hash_seed: int | None
    name: str
    code: bytes
    environment_id: str
    final: bool
    ipython: bool
    timeout_s: float
    tools: ToolSnapshot
    context: CallContext  # whose `identity` the run has
    inputs: tuple[RecordedInput, ...]
    was_put_back: bool = False  # it does not follow from the executions before it
    has_network: bool = False
    has_folders: bool = False  # of the host
    packages: tuple[SomePackage, ...] = ()  # that were installed before it


class Recorder:
    """Records the executions of a process."""

    def __init__(self, recordings: Recordings, redactor: Redactor, settings: Settings, version: str) -> None:
        self._recordings, self._redactor, self._version = recordings, redactor, version
        self._settings = settings
        self._kept: dict[str, int | str] = {name: getattr(settings, name) for name in RECORDED_SETTINGS}

    def begin(self, start: RunStart) -> RunRecording:
        """The execution is about to start."""
        at, identity = time_stamp(datetime.now(UTC)), start.context.identity
        ref = RecordingRef(
            run_id=identity.run_id,
            at=at,
            principal=identity.principal,
            session_id=identity.session_id,
            sandbox_id=start.sandbox_id,
            position=start.position,
            bytes=0,
        )
        policy = start.context.grant.policy.digest
        shared = f"{start.tools.digest}/{policy}"
        self._recordings.begin(ref, (shared, lambda: self._shared(start)), lambda: self._header(start, at, shared))
        return RunRecording(self._recordings, self._redactor, identity.run_id)

    def _shared(self, start: RunStart) -> SharedPart:
        part = _shared_part(start)
        texts = [*part.servers, *(why.encode("utf-8", "replace") for _, _, why in part.held)]
        if any(self._redactor.data(text, Counter()) != text for text in texts):
            raise NotReplayable("a server's list of tools holds what is redacted, e.g. a secret")
        for entry in start.tools.manifest.library.entries:
            texts = [entry.description.encode(), entry.definition.encode(), *entry.files.values()]
            if any(self._redactor.data(text, Counter()) != text for text in texts):
                raise NotReplayable(f"{entry.path} holds what is redacted, e.g. a secret")
        return part

    def _header(self, start: RunStart, at: str, shared: str) -> RunHeader:
        if start.was_put_back:
            raise NotReplayable("its session was put back to an earlier checkpoint, or changed branches, before it")
        if start.has_network:
            raise NotReplayable("its code had a network, whose answers are not recorded")
        if start.has_folders:
            raise NotReplayable("its session had a folder of this machine, whose files are not recorded")
        code, identity = start.code.decode(), start.context.identity
        if self._redactor.text(code, Counter()) != code:
            raise NotReplayable(
                "its code holds what is redacted, e.g. a secret; name secrets in the configuration only"
            )
        for one in start.inputs:
            if one.content and self._redactor.data(one.content, Counter()) != one.content:
                raise NotReplayable(f"the file {one.path[:200]!r} that was put holds what is redacted, e.g. a secret")
        return RunHeader(
            run_id=identity.run_id,
            at=at,
            session_id=identity.session_id,
            sandbox_id=start.sandbox_id,
            position=start.position,
            language=identity.language,
            name=self._redactor.text(start.name, Counter()),
            code=code,
            principal=identity.principal,
            environment=self._settings.environment,
            environment_id=start.environment_id,
            backend=self._settings.backend,
            version=self._version,
            hash_seed=start.hash_seed,
            final=start.final,
            timeout_s=start.timeout_s,
            shared=shared,
            settings=self._kept,
            inputs=start.inputs,
            ipython=start.ipython,
            packages=_recorded(start.packages),
        )


def _shared_part(start: RunStart) -> SharedPart:
    """What other executions share with this one."""
    manifest, policy = start.tools.manifest, start.context.grant.policy
    layers = [layer for layer in policy.layers if layer.name is LayerName.CONFIGURATION]
    return SharedPart(
        tree_digest=start.tools.digest,
        manifest_digest=manifest.digest,
        servers=tuple(_encode(listing.to_json()) for listing in manifest.servers),
        held=tuple((server, tool, why) for (server, tool), why in manifest.held.items()),
        missing=start.tools.missing,
        trusted=tuple(sorted(one for one, trust in start.context.grant.trust.items() if trust.trusted)),
        rules=tuple(
            (rule.rule_id, str(rule.verdict), rule.server, rule.tool) for layer in layers for rule in layer.rules
        ),
        labels=tuple(
            (label.server, tuple(label.returns), tuple(label.does)) for layer in layers for label in layer.labels
        ),
        library=_encode(manifest.library.to_json()) if manifest.library else b"",
    )


class RunRecording:
    """The recording of one execution, while it runs."""

    def __init__(self, recordings: Recordings, redactor: Redactor, run_id: str) -> None:
        self._recordings, self._redactor, self._run_id = recordings, redactor, run_id
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._asked = self._answered = 0

    def asked(self, spec: ToolCallSpec) -> int:
        """The code made a call; returns its place among the calls."""
        self._asked += 1
        seq, at_s = self._asked, self._clock() - self._began
        self._recordings.add(self._run_id, lambda: self._call(spec, seq, at_s))
        return seq

    def answered(self, seq: int, outcome: ToolCallOutcome) -> None:
        """The code is about to get this."""
        self._answered += 1
        place, at_s = self._answered, self._clock() - self._began
        self._recordings.add(self._run_id, lambda: _reply(seq, place, at_s, outcome))

    def installed(self, text: str, reply: JsonObject, packages: Iterable[SomePackage]) -> None:
        """The code asked for packages, and is about to get this; the session has `packages` then."""
        self._recordings.add(
            self._run_id,
            lambda: RecordedInstall(
                asked_digest=digest_bytes(text.encode("utf-8", "replace")),
                reply=_encode(self._redactor.json(reply, Counter())),
                packages=_recorded(packages),
            ),
        )

    def ended(self, envelope: Envelope, *, forced: str, nondeterminism_log: bytes) -> None:
        """The envelope is about to be handed out."""
        self._recordings.add(
            self._run_id,
            lambda: RunEnd(envelope=_encode(envelope.to_json()), forced=forced, nondeterminism_log=nondeterminism_log),
        )

    def _call(self, spec: ToolCallSpec, seq: int, at_s: float) -> RecordedCall:
        encoded = canonical_arguments(spec)
        tally: Counter[str] = Counter()
        shown = self._redactor.json_object(spec.arguments, tally, encoded=encoded)
        return RecordedCall(
            seq=seq,
            call_id=spec.call_id,
            server_id=self._redactor.text(_readable(spec.server_id), Counter()),
            tool_name=self._redactor.text(_readable(spec.tool), Counter()),
            arguments_digest=digest_bytes(encoded),
            arguments=_encode(shown) if tally.total() else encoded,
            redacted=bool(tally.total()),
            at_s=at_s,
        )


def _recorded(packages: Iterable[SomePackage]) -> tuple[RecordedPackage, ...]:
    return tuple(RecordedPackage(name=one.name, version=one.version, sha256=one.sha256) for one in packages)


def canonical_arguments(spec: ToolCallSpec) -> bytes:
    """What the digest of a call's arguments is over; of arguments that are no JSON (lone surrogates) their repr."""
    try:
        return canonical_json(spec.arguments)
    except (ValueError, RecursionError):
        return canonical_json({"unreadable": repr(spec.arguments).encode("ascii", "backslashreplace").decode()})


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _reply(seq: int, place: int, at_s: float, outcome: ToolCallOutcome) -> RecordedReply:
    reply = _encode(reply_of(outcome))
    return RecordedReply(
        seq=seq,
        place=place,
        reply=reply,
        result_digest=digest_json(outcome.raw) if outcome.raw is not None else "",
        result_bytes=len(reply),
        at_s=at_s,
    )
