"""What an execution is asked to do, and how it ended: values that `execution` takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.languages import PYTHON
from moonpool.sandboxes.base import SandboxLimits
from moonpool_wire.limits import NONDETERMINISM_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.engine.branches import Undone
    from moonpool.engine.files.created_files import Claims
    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.packages.model import InstalledPackage
    from moonpool.features.recordings.model import RecordedInput
    from moonpool.sandboxes.base import ExitOutcome, LimitKind
    from moonpool.sandboxes.messages import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxHistory:
    """What was in the sandbox before an execution, for its recording and for errors that tell of it."""

    position: int = 0  # how many executions of its session began there
    inputs: tuple[RecordedInput, ...] = ()  # files put since the one before
    was_put_back: bool = False  # so its state is not that of the execution before
    has_checkpoints: bool = False
    has_folders: bool = False  # of the host, whose files are on no record
    network: GuestNetwork | None = None
    packages: tuple[InstalledPackage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSpec:
    """What to run and within which bounds."""

    run_id: str
    code: bytes  # UTF-8
    name: str = "<code>"  # what tracebacks call it
    language: str = PYTHON
    ipython: bool = False  # Python code is read as IPython reads it
    manifest_digest: str = ""
    final: bool = True
    has_checkpoints: bool = False
    has_folders: bool = False  # of the host
    timeout_s: float = 60.0
    result_bytes_max: int = 60 * 1024
    limits: SandboxLimits = field(default_factory=SandboxLimits)  # of the sandbox it runs in
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # of its environment, besides
    home: str = ""  # where its code lives instead
    record_nondeterminism: bool = False  # what Python code reads of clock and randomness
    nondeterminism_log: bytes | None = None  # to be played to it

    def __post_init__(self) -> None:
        size = len(self.nondeterminism_log or b"")
        if size > NONDETERMINISM_BYTES_MAX:
            raise ValueError(f"a nondeterminism log holds at most {NONDETERMINISM_BYTES_MAX:,} bytes, not {size:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOutcome:
    """How it ended. Exactly one of `done` and `exit` is set.

    `process_only`: its process ended, not its sandbox. `recovered`: then, to which state the session went back.
    """

    done: Done | None = None
    result: bytes = b""
    exit: ExitOutcome | None = None
    process_only: bool = False
    recovered: Undone | None = None
    forced: str | None = None  # why the host ended it: `timeout`, `cancelled`, `output`, `journal`, `plan`
    limits_hit: frozenset[LimitKind] | None = None  # None: nobody counts here
    parked_s: float = 0.0
    duplicate_calls: int = 0
    claims: Claims  # of files and pictures
    nondeterminism_log: bytes = b""  # what was recorded; empty when the execution ended before it could hand it over
    nondeterminism_divergence: str = ""  # where the code first left the log that was played
