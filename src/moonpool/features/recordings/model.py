"""A recording: what replaying an execution needs, beside the digests in the audit journal. Pure.

A recording is made of parts, in the order in which they came about: a header, each call as it was asked, each reply as
the code got it, and an end. Whatever killed the host in between, the parts before it are there, and a replay goes as
far as they do. What many executions share (the tools, the rules of the configuration) is kept once, by digest.

SECURITY: everything in a recording is redacted before it is handed to a store; `arguments_digest` is over what was
sent. Recording never makes an execution fail and never waits for the disk: it is an aid to debugging, no audit.

The adapter is `moonpool.features.recordings.writer`, its twin in memory `moonpool.store.fake`; what is handed over is
made by `moonpool.features.recordings.recorder`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_BYTES_MAX: Final = 16 * 1024**2
"""One execution's recording; of a larger one nothing but the reason is kept."""
CONTENT_BYTES_MAX: Final = 4 * 1024**2
"""One file put into a sandbox before an execution; of a larger one only its digest is kept."""


class RecordingError(MoonpoolError):
    """A recording is not there, cannot be read, or cannot be replayed."""

    code = "recording_unusable"
    fault = Fault.CALLER


class NotReplayable(Exception):  # noqa: N818  says why, to the store; no error of anybody
    """Raised while a part is made: this execution cannot be recorded."""


@dataclass(frozen=True, kw_only=True)
class RecordedInput:
    """A file that was put into the sandbox before the execution, or another change of its files from outside."""

    what: str  # `file`, `archive`, `folder` (made), `removal`
    path: str
    content: bytes = b""
    mode: int = 0o644
    form: str = "tar"
    replace: bool = False
    recursive: bool = False
    missing: str = ""  # why `content` is not kept


@dataclass(frozen=True, kw_only=True)
class RecordedPackage:
    """A package that the session had installed. Its wheel is kept with those of all sessions, if at all."""

    name: str
    version: str
    sha256: str  # of its wheel, in hex


@dataclass(frozen=True, kw_only=True)
class RunHeader:
    """An execution as it began."""

    run_id: str
    at: str
    session_id: str
    sandbox_id: str
    position: int  # among the executions in this sandbox, from 0
    language: str
    name: str  # of the code, for tracebacks
    code: str
    principal: str
    environment: str
    environment_id: str
    backend: str
    version: str  # Moonpool's
    hash_seed: int | None
    final: bool
    timeout_s: float
    shared: str  # digest of the `SharedPart`
    settings: dict[str, int | str] = field(default_factory=dict[str, int | str])  # that have a say in what comes out
    inputs: tuple[RecordedInput, ...] = ()
    ipython: bool = False  # the code was read as IPython reads it
    packages: tuple[RecordedPackage, ...] = ()  # that were installed before it


@dataclass(frozen=True, kw_only=True)
class SharedPart:
    """What executions share, as JSON: the listings of servers, tools that were held, and the configuration's rules."""

    tree_digest: str
    manifest_digest: str
    servers: tuple[bytes, ...] = ()  # `ServerListing.to_json`
    held: tuple[tuple[str, str, str], ...] = ()  # server, tool, the sentence that says so
    missing: tuple[str, ...] = ()  # servers without a listing
    trusted: tuple[str, ...] = ()  # servers
    rules: tuple[tuple[str, str, str, str], ...] = ()  # of the `moonpool` blocks: id, verdict, server glob, tool glob
    labels: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()  # server glob, returns, does
    library: bytes = b""  # `Library.to_json`; empty without entries


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """A call as the code asked for it."""

    seq: int  # order of start, from 1
    call_id: int
    server_id: str
    tool_name: str
    arguments_digest: str
    arguments: bytes  # redacted, JSON
    redacted: bool
    at_s: float  # since the start


@dataclass(frozen=True, kw_only=True)
class RecordedReply:
    """What the code got for a call."""

    seq: int  # the call's
    place: int  # order of replies, from 1
    reply: bytes  # JSON, as it went over the channel
    result_digest: str  # of its raw result, as the journal has it; empty without one
    result_bytes: int
    at_s: float


@dataclass(frozen=True, kw_only=True)
class RecordedInstall:
    """What came of packages that the code asked for, in the order of the answers."""

    asked_digest: str  # of the text
    reply: bytes  # redacted, JSON
    packages: tuple[RecordedPackage, ...] = ()  # that the session had then; none if that did not change


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    envelope: bytes  # JSON, as it was given out
    forced: str = ""  # why the host ended it early
    nondeterminism_log: bytes = msgspec.field(name="tape", default=b"")  # in files of 0.1.0, too


Part: TypeAlias = RecordedCall | RecordedReply | RunEnd | RecordedInstall


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All that is kept of one execution."""

    header: RunHeader
    shared: SharedPart
    calls: tuple[RecordedCall, ...] = ()
    replies: tuple[RecordedReply, ...] = ()
    installs: tuple[RecordedInstall, ...] = ()
    end: RunEnd | None = None


@dataclass(frozen=True, kw_only=True)
class RecordingRef:
    """One line of a list of recordings."""

    run_id: str
    at: str
    principal: str  # whose room it takes
    session_id: str
    sandbox_id: str
    position: int
    bytes: int
    problem: str = ""  # why it cannot be replayed


class Recordings(Protocol):
    """Keeps recordings; must pass `tests/store/test_recordings_contract.py`.

    What is handed over is a function that makes the part: it runs on the store's own thread, so that neither redacting
    nor encoding is in an execution's way. None of these raises, and none waits.
    """

    def begin(
        self, ref: RecordingRef, shared: tuple[str, Callable[[], SharedPart]], make: Callable[[], RunHeader]
    ) -> None:
        """A recording begins. `shared` is kept under its digest unless it is there."""
        ...

    def add(self, run_id: str, make: Callable[[], Part]) -> None:
        """Its next part."""
        ...


class RecordingReader(Protocol):
    """Reads what `Recordings` kept. Blocking. All raise RecordingError."""

    def load(self, run_id: str) -> Recording:
        """The recording of one execution, typed and whole as far as it goes."""
        ...

    def of_sandbox(self, sandbox_id: str) -> list[RecordingRef]:
        """The recordings of one sandbox in their order."""
        ...

    def newest(self, count: int) -> list[RecordingRef]:
        """The newest recordings, newest first."""
        ...

    def remove(self, run_ids: list[str] | None) -> int:
        """Remove these, or all; how many there were."""
        ...
