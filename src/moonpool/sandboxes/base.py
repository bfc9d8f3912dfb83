"""The seam: what a sandbox is to the rest of the host.

A sandbox is single-use: opened, used, discarded, never reset. Its owner attaches a `GuestSink`, which gets output,
messages and the end, in that order: all bytes that the guest wrote before a message are delivered before the message,
and everything readable is delivered before the end.

SECURITY: identity is the object (the file descriptor behind it), never a field of a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Protocol

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from moonpool.sandboxes.messages import GuestMessage, HostMessage


class Stream(IntEnum):
    """Standard streams by their descriptor."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """What a sandbox's file system and interpreter are made of. All paths are host paths, bound read-only."""

    name: str
    digest: str
    python: Path
    guest: Path  # the published guest code
    binds: tuple[Path, ...] = ()  # folders beside /usr that interpreter and packages need
    site_paths: tuple[Path, ...] = ()
    preload: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one sandbox. Every one has a value. Defaults: `docs/reference/limits.md`."""

    address_space_bytes_max: int = 2 * 1024**3
    process_count_max: int = 64
    open_files_max: int = 256
    file_bytes_max: int = 256 * 1024**2
    cpu_s_max: int = 600
    disk_bytes_max: int = 256 * 1024**2
    disk_inodes_max: int = 16_384

    def to_rlimits(self) -> dict[str, int]:
        """Names and values for setrlimit(2); soft equals hard."""
        return {
            "AS": self.address_space_bytes_max,
            "NPROC": self.process_count_max,
            "NOFILE": self.open_files_max,
            "FSIZE": self.file_bytes_max,
            "CPU": self.cpu_s_max,
            "CORE": 1,  # not 0: see seccomp._core_limit_checks
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
            "SIGPENDING": 256,
        }


@dataclass(frozen=True, slots=True)
class TreeRef:
    """A wrapper tree on the host: its folder and the digest it is known by."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Desired isolation of one sandbox."""

    image: ImageSpec
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    tree: TreeRef | None = None  # shown from the start; `Sandbox.publish` replaces it
    scope: str = "default"  # the tenant; sandboxes of different scopes share neither uid nor zygote nor slots

    def to_confinement(self, slot: str) -> dict[str, object]:
        """What `moonpool_guest.confine` is told: numbers and a random name, nothing else."""
        return {
            "slot": slot,
            "tmpfs_bytes": self.limits.disk_bytes_max,
            "tmpfs_inodes": self.limits.disk_inodes_max,
            "limits": self.limits.to_rlimits(),
        }

    @property
    def key(self) -> tuple[str, str, SandboxLimits]:
        """Equal for specs whose sandboxes are interchangeable."""
        return (self.scope, self.image.digest, self.limits)


class ExitCause(StrEnum):
    """Why a sandbox ended."""

    EXITED = "exited"  # the kernel process ended by itself, with `exit_code`
    SIGNALLED = "signalled"  # killed by `signal`, not by us
    KILLED = "killed"  # by the host: close, kill or a broken protocol
    LOST = "lost"  # the wall or zygote died with it


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitOutcome:
    """How a sandbox ended."""

    cause: ExitCause
    exit_code: int | None = None
    signal: int | None = None
    violation: str | None = None  # how the guest broke the protocol, if it did


class GuestSink(Protocol):
    """What the owner of a sandbox hears. Called on the event loop; must not block."""

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Bytes that the guest wrote, in order per stream."""
        ...

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        """A valid message. SECURITY: valid in form only; every value is the guest's."""
        ...

    def on_refused(self, message: HostMessage) -> None:
        """The guest did not take the body of this message: it is larger than its limit."""
        ...

    def on_exit(self, outcome: ExitOutcome) -> None:
        """The sandbox is gone. Called once, last."""
        ...


class Sandbox(Protocol):
    """One live sandbox. Obtained READY from `SandboxBackend.open_sandbox`."""

    @property
    def sandbox_id(self) -> str:
        """Random; names the sandbox in logs and slots."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is left."""
        ...

    def attach(self, sink: GuestSink) -> None:
        """Make `sink` the one that hears this sandbox from now on; what came since the last one is delivered first."""
        ...

    def detach(self) -> None:
        """Nobody hears this sandbox for now; a little of what comes is kept for the next one."""
        ...

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        """Queue a message to the guest without blocking. Raises SandboxClosedError when the sandbox is gone."""
        ...

    def shows(self, digest: str) -> bool:
        """Whether the tree with this digest is the published one."""
        ...

    def publish(self, tree: Path, digest: str) -> None:
        """Show the wrapper tree at `tree` (a host folder) in the sandbox, replacing the last one at once."""
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the kernel. Nothing happens if it has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the kernel; every process of the sandbox ends with it."""
        ...

    async def wait_exited(self) -> ExitOutcome:
        """Wait until no process of the sandbox is left."""
        ...

    async def close(self) -> ExitOutcome:
        """Kill if need be and wait. Afterwards no process, mount, slot or descriptor of it is left. Idempotent."""
        ...


class SandboxBackend(Protocol):
    """Opens sandboxes of one technology. Every implementation passes `tests/sandboxes/test_contract.py`."""

    @property
    def name(self) -> str:
        """`zygote`, `bubblewrap`, `fake`."""
        ...

    def missing_features(self) -> Sequence[str]:
        """Say, each with a remedy, what this host lacks. Empty means that `open_sandbox` enforces the whole spec."""
        ...

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Return a READY sandbox. Raises SandboxStartError; nothing is left running then."""
        ...

    async def close(self) -> None:
        """End everything this backend opened."""
        ...


class SandboxStartError(MoonpoolError):
    """A sandbox could not be brought to READY. Nothing was left running."""

    code = "sandbox_start_failed"
    fault = Fault.HOST
    retryable = True

    def __init__(self, *, step: str, reason: str) -> None:
        super().__init__(
            f"the sandbox could not be started at step {step!r}: {reason}; "
            "run `moonpool doctor` to see what this machine lacks"
        )
        self.step, self.reason = step, reason


class SandboxClosedError(MoonpoolError):
    """The sandbox has ended; nothing was sent."""

    code = "sandbox_closed"
    fault = Fault.GUEST

    def __init__(self, sandbox_id: str) -> None:
        super().__init__(f"sandbox {sandbox_id} has ended; open a new session")
