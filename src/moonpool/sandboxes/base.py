"""The seam: what a sandbox is to the rest of the host.

A sandbox is single-use: opened, used, discarded, never reset. Its owner attaches a `GuestSink`, which gets output,
messages and the end, in that order: all bytes that the guest wrote before a message are delivered before the message,
and everything readable is delivered before the end.

SECURITY: identity is the object (the file descriptor behind it), never a field of a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from moonpool.sandboxes.host_folders import FolderNews, HostFolders
    from moonpool.sandboxes.messages import GuestMessage, HostMessage


class Stream(IntEnum):
    """Standard streams by their descriptor."""

    STDOUT = 1
    STDERR = 2


MOVED_TO: Final = Path("/environments")
"""Where a sandbox sees the folder of environments, if its own place is covered there."""


_PROXY: Final = "http://127.0.0.1:3128"  # where `moonpool_guest.proxy_listener` listens
PROXY_VARIABLES: Final = {
    **{name: _PROXY for word in ("HTTP", "HTTPS", "ALL") for name in (f"{word}_PROXY", f"{word}_PROXY".lower())},
    "NO_PROXY": "localhost,127.0.0.1,::1",
    "no_proxy": "localhost,127.0.0.1,::1",
    "NODE_USE_ENV_PROXY": "1",
}
"""How programs in a sandbox with a network find the host's proxy."""
CA_BUNDLE_NAME: Final = "ca-bundle.pem"
"""The file, shown by `Sandbox.show_file`, with the certificate authorities that programs in it trust."""
TRUST_VARIABLES: Final = dict.fromkeys(
    (
        "SSL_CERT_FILE",  # Python's ssl, httpx, OpenSSL, uv, Go
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "PIP_CERT",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "NPM_CONFIG_CAFILE",  # a `cafile` in the system's npmrc would hide the one above
    ),
    f"/wrappers/{CA_BUNDLE_NAME}",
)
"""How they find that file."""


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
    moved: Path | None = None  # what lies below this folder is shown in `MOVED_TO`: sandboxes cover its own place
    network: bool = False  # sandboxes have a loopback interface and a `Sandbox.listener` for the host's proxy

    def inside(self, path: Path) -> Path:
        """Where a sandbox sees a host path of this image."""
        if self.moved is None or not path.is_relative_to(self.moved):
            return path
        return MOVED_TO / path.relative_to(self.moved)

    def with_network(self) -> ImageSpec:
        """The same for sandboxes with a network. SECURITY: by another digest, so that none of them comes from the
        zygote or the ready sandboxes of the sealed ones, or the other way round.
        """
        if self.network:
            return self
        return replace(
            self,
            network=True,
            digest=f"{self.digest}+network",
            variables={**self.variables, **PROXY_VARIABLES, **TRUST_VARIABLES},
        )


class LimitKind(StrEnum):
    """A limit that a sandbox can run into as a whole."""

    MEMORY = "memory"
    CPU = "cpu"
    PROCESSES = "processes"
    FOLDER_SPACE = "folder_space"  # on the file system of an attached folder


_ADDRESSES_BEYOND_MEMORY = 64 * 1024**3  # reserved and never touched: WebAssembly takes 10 GiB for each memory
_SECOND_LAYER_PROCESSES = 16
_SECOND_LAYER_CPU_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one sandbox. Every one has a value. Defaults: `docs/reference/limits.md`.

    With control groups (`moonpool.sandboxes.cgroups`) memory, processor time and processes are counted for the sandbox
    as a whole; without them each process has its own `memory_bytes_max`, and about its own `cpu_s_max`.
    """

    memory_bytes_max: int = 2 * 1024**3
    process_count_max: int = 64
    open_files_max: int = 256
    fsize_bytes_max: int = 256 * 1024**2  # RLIMIT_FSIZE: what one file in the sandbox may grow to
    cpu_s_max: int = 600
    cpu_cores_max: float = 2.0
    disk_bytes_max: int = 256 * 1024**2
    disk_inodes_max: int = 16_384

    @property
    def memory_and_disk_bytes_max(self) -> int:
        """What a group may hold: files lie in memory too, and a full disk must not end the code that filled it."""
        return self.memory_bytes_max + self.disk_bytes_max

    def to_rlimits(self, *, grouped: bool) -> dict[str, int]:
        """Names and values for setrlimit(2); soft equals hard. `grouped`: control groups bound the whole."""
        if grouped:  # what a process may write to, and room for what it only reserves
            memory = {
                "AS": self.memory_bytes_max + _ADDRESSES_BEYOND_MEMORY,
                "DATA": self.memory_bytes_max,
                "NPROC": self.process_count_max + _SECOND_LAYER_PROCESSES,  # the group counts, and tells
            }
        else:
            memory = {"AS": self.memory_bytes_max, "NPROC": self.process_count_max}
        return {
            **memory,
            "NOFILE": self.open_files_max,
            "FSIZE": self.fsize_bytes_max,
            "CPU": self.cpu_s_max + _SECOND_LAYER_CPU_S,  # the host watches (`limit_watch`), and tells
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
    hash_seed: int | None = None  # of `str` in Python, to run something again; None: any, the sandbox says which
    folders: HostFolders | None = None  # of the host; such a sandbox has an outer sandbox of its own

    def to_confinement(self, slot: str, *, grouped: bool = False) -> dict[str, object]:
        """What `moonpool_guest.confine` is told: numbers and a random name, nothing else."""
        return {
            "slot": slot,
            "tmpfs_bytes": self.limits.disk_bytes_max,
            "tmpfs_inodes": self.limits.disk_inodes_max,
            "limits": self.limits.to_rlimits(grouped=grouped),
            **({"network": True} if self.image.network else {}),
        }

    def with_network(self) -> SandboxSpec:
        """The same with a network, see `ImageSpec.with_network`."""
        return replace(self, image=self.image.with_network())

    @property
    def key(self) -> tuple[str, str, SandboxLimits, int | None, HostFolders | None]:
        """Equal for specs whose sandboxes are interchangeable."""
        return (self.scope, self.image.digest, self.limits, self.hash_seed, self.folders)


class ExitCause(StrEnum):
    """Why a sandbox ended."""

    EXITED = "exited"  # the kernel process ended by itself, with `exit_code`
    SIGNALLED = "signalled"  # killed by `signal`, not by us
    KILLED = "killed"  # by the host: close, kill or a broken protocol
    LOST = "lost"  # its outer sandbox or zygote ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitOutcome:
    """How a sandbox ended."""

    cause: ExitCause
    exit_code: int | None = None
    signal: int | None = None
    violation: str | None = None  # how the guest broke the protocol, if it did
    limit: LimitKind | None = None  # the limit that ended it, if one did and it is known


class GuestSink(Protocol):
    """What the owner of a sandbox hears. Called on the event loop; must neither block nor raise."""

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
    def hash_seed(self) -> int:
        """What its Python's hashes of strings start from. The host chose it."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is left."""
        ...

    @property
    def listener(self) -> socket.socket | None:
        """The listening socket inside a sandbox with a network, for the host's proxy; closed when the sandbox ends.
        None for every other sandbox.
        """
        ...

    def limits_hit(self) -> frozenset[LimitKind] | None:
        """The limits met since this was last asked, or by the end; None where nobody counts (`rlimits-only`)."""
        ...

    def memory_share(self) -> float | None:
        """How much of its memory is used, files included, from 0 to 1; None where nobody counts."""
        ...

    def attach(self, sink: GuestSink) -> None:
        """Make `sink` the one that hears this sandbox from now on; what was kept meanwhile is delivered first."""
        ...

    def detach(self) -> None:
        """Nobody hears this sandbox for now; a little of what comes is kept for the next one, the rest is not read.

        Idempotent, and allowed inside a call of the sink.
        """
        ...

    def count_refused_call(self, size: int) -> None:
        """A tool call of its code, with arguments of `size` bytes, was refused. Above some of these a second what it
        sends is read later.
        """
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

    def shows_packages(self, digest: str) -> bool:
        """Whether the packages with this digest are the published ones; "" is none."""
        ...

    def publish_packages(self, folders: Sequence[Path], digest: str) -> None:
        """Show what is in `folders` (host folders of packages) as one folder that code imports from, at once.

        Blocks. Raises OSError.
        """
        ...

    def show_volume(self, name: str, folder: Path) -> None:
        """Show what is in `folder`, a host folder, read-only as `/wrappers/volumes/NAME`. Blocks. Raises OSError."""
        ...

    def show_file(self, name: str, content: bytes) -> None:
        """Show a file, read-only, as `/wrappers/NAME`; replaces an earlier one at once. Raises OSError."""
        ...

    async def synchronise_folders(self) -> FolderNews:
        """Make host folders and their copies equal, also once it has ended. Nothing to do where there are no copies."""
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

    @property
    def limits_mode(self) -> str:
        """What bounds a sandbox as a whole: `cgroup2-delegated`, `cgroup1-root` or `rlimits-only`."""
        ...

    def missing_features(self) -> Sequence[str]:
        """Say, each with a remedy, what this host lacks. Empty means that `open_sandbox` enforces the whole spec."""
        ...

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Return a READY sandbox. Raises SandboxStartError, HostUnfitError, BusyError; nothing is left running then."""
        ...

    async def close_scope(self, scope: str) -> None:
        """End what is kept for a scope that nobody uses any more, such as its zygotes. Its sandboxes are closed."""
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
