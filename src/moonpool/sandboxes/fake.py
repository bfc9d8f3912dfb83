"""The `fake` backend: sandboxes in memory, whose guest is a Python coroutine of the test.

It runs no code: there is nothing in it that could run any. A test hands in a `GuestScript`, which plays the kernel:
receives messages, writes output, sends messages (well-formed or not), exits. It passes the same contract suite as the
real backends, with scripts in the place of programs.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import ExitCause, ExitOutcome, SandboxClosedError, SandboxStartError, Stream
from moonpool.sandboxes.host_folders import NO_NEWS
from moonpool.sandboxes.messages import InvalidMessage, check_body, decode_guest, encode
from moonpool.sandboxes.starting import new_hash_seed

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import GuestSink, LimitKind, SandboxSpec
    from moonpool.sandboxes.host_folders import FolderNews
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

    GuestScript = Callable[["FakeGuest"], Awaitable[None]]


class GuestExit(Exception):  # noqa: N818  a script's way to end, not an error
    """Raised by a script: the kernel process ends with this exit code or signal."""

    def __init__(self, code: int = 0, *, signal: int | None = None) -> None:
        super().__init__(code, signal)
        self.code, self.signal = code, signal


class Interrupted(Exception):  # noqa: N818
    """What a script gets out of `receive` or `pause` when the host interrupts."""


class FakeGuest:
    """A script's end of a fake sandbox."""

    def __init__(self, sandbox: FakeSandbox) -> None:
        self._sandbox = sandbox
        self.inbox: asyncio.Queue[tuple[HostMessage, bytes] | None] = asyncio.Queue()
        self.files: dict[str, bytes] = {}
        self.published: list[tuple[Path, str]] = sandbox.published
        self.shown = sandbox.files
        self.packages = sandbox.packages
        self.hash_seed = sandbox.hash_seed

    async def receive(self) -> tuple[HostMessage, bytes]:
        """The next message from the host. Raises Interrupted."""
        item = await self.inbox.get()
        if item is None:
            raise Interrupted
        return item

    async def pause(self) -> None:
        """Stay busy until the host interrupts (raises Interrupted) or kills."""
        while await self.inbox.get() is not None:
            pass
        raise Interrupted

    def write(self, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        """Write to a standard stream."""
        self._sandbox.deliver_output(stream, data)

    def send(self, message: GuestMessage, body: bytes = b"") -> None:
        """Send a message."""
        self.send_raw(encode(message), body)

    def send_raw(self, head: bytes, body: bytes = b"") -> None:
        """Send any bytes as a head; an invalid one ends the sandbox, as it does everywhere."""
        self._sandbox.deliver(head, body)


class FakeSandbox:
    """A sandbox without a process."""

    def __init__(self, script: GuestScript, hash_seed: int | None = None) -> None:
        self.hash_seed = new_hash_seed() if hash_seed is None else hash_seed
        self.sandbox_id = secrets.token_hex(8)
        self.files: dict[str, bytes] = {}
        self.published: list[tuple[Path, str]] = []
        self.packages: list[tuple[tuple[Path, ...], str]] = []
        self.volumes: dict[str, Path] = {}
        self.listener: socket.socket | None = None  # a test's, in the host's own network
        self._guest = FakeGuest(self)
        self._sink: GuestSink = Backlog()
        self._killed = False
        self._violation: str | None = None
        self._exited: asyncio.Future[ExitOutcome] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._play(script))
        self._task.add_done_callback(self._on_played)

    @property
    def host_pid(self) -> int | None:
        return None

    async def _play(self, script: GuestScript) -> GuestExit:
        try:
            await script(self._guest)
        except GuestExit as end:
            return end
        except Interrupted:
            return GuestExit(signal=9)
        return GuestExit()

    def _on_played(self, task: asyncio.Task[GuestExit]) -> None:
        """The script has ended, or was cancelled, perhaps before its first step. What it said is delivered by now."""
        end = GuestExit(signal=9) if task.cancelled() else task.result()
        if self._killed or self._violation:
            cause, code, signal = ExitCause.KILLED, None, 9
        else:
            cause = ExitCause.EXITED if end.signal is None else ExitCause.SIGNALLED
            code, signal = (end.code, None) if end.signal is None else (None, end.signal)
        outcome = ExitOutcome(cause=cause, exit_code=code, signal=signal, violation=self._violation)
        self._exited.set_result(outcome)
        self._sink.on_exit(outcome)

    def deliver(self, head: bytes, body: bytes) -> None:
        """A message from the guest."""
        if self._exited.done() or self._violation:
            return
        try:
            message = decode_guest(head)
            check_body(message, body)
        except InvalidMessage as error:
            self._violation = f"the code in the sandbox broke the channel's protocol: {error}"
            self._task.cancel()
            return
        asyncio.get_running_loop().call_soon(self._hand_over, message, body)

    def _hand_over(self, message: GuestMessage, body: bytes) -> None:
        self._sink.on_message(message, body)

    def deliver_output(self, stream: Stream, data: bytes) -> None:
        """Output from the guest; in order with messages."""
        asyncio.get_running_loop().call_soon(self._hand_over_output, stream, data)

    def _hand_over_output(self, stream: Stream, data: bytes) -> None:
        self._sink.on_output(stream, data)

    @property
    def has_ended(self) -> bool:
        return self._exited.done()

    def limits_hit(self) -> frozenset[LimitKind] | None:
        return None

    def memory_share(self) -> float | None:
        return None

    def attach(self, sink: GuestSink) -> None:
        previous, self._sink = self._sink, sink
        if isinstance(previous, Backlog):
            previous.replay(sink)
        elif self._exited.done():
            sink.on_exit(self._exited.result())

    def detach(self) -> None:
        self.attach(Backlog())

    def count_refused_call(self, size: int) -> None:
        """Nothing is read here, so nothing is slowed down."""

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        if self._exited.done():
            raise SandboxClosedError(self.sandbox_id)
        self._guest.inbox.put_nowait((message, body))

    def shows(self, digest: str) -> bool:
        return bool(self.published) and self.published[-1][1] == digest

    def publish(self, tree: Path, digest: str) -> None:
        self.published.append((tree, digest))

    def shows_packages(self, digest: str) -> bool:
        return digest == (self.packages[-1][1] if self.packages else "")

    def publish_packages(self, folders: Sequence[Path], digest: str) -> None:
        for folder in folders:
            folder.stat()
        self.packages.append((tuple(folders), digest))

    def show_volume(self, name: str, folder: Path) -> None:
        folder.stat()
        self.volumes[name] = folder

    def show_file(self, name: str, content: bytes) -> None:
        self.files[name] = content

    async def synchronise_folders(self) -> FolderNews:
        return NO_NEWS

    def interrupt(self) -> None:
        self._guest.inbox.put_nowait(None)

    def kill(self) -> None:
        self._killed = True
        self._task.cancel()

    async def wait_exited(self) -> ExitOutcome:
        return await asyncio.shield(self._exited)

    async def close(self) -> ExitOutcome:
        if not self._exited.done():
            self.kill()
        return await self.wait_exited()


class FakeBackend:
    """Opens fake sandboxes that all play `script`."""

    name = "fake"
    limits_mode = "rlimits-only"

    def __init__(self, script: GuestScript, *, missing: Sequence[str] = (), start_error: str | None = None) -> None:
        self._script = script
        self._missing = missing
        self._start_error = start_error
        self.opened: list[FakeSandbox] = []

    def missing_features(self) -> Sequence[str]:
        return self._missing

    async def open_sandbox(self, spec: SandboxSpec) -> FakeSandbox:
        if self._start_error is not None:
            raise SandboxStartError(step="fake", reason=self._start_error)
        sandbox = FakeSandbox(self._script, spec.hash_seed)
        if spec.tree is not None:
            sandbox.publish(spec.tree.path, spec.tree.digest)
        self.opened.append(sandbox)
        return sandbox

    async def close_scope(self, scope: str) -> None:
        """Nothing is kept for a scope."""

    async def close(self) -> None:
        for sandbox in self.opened:
            await sandbox.close()
