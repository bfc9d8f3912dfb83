"""The `bubblewrap` backend: one outer sandbox per sandbox, no zygote. Slower to start, simpler, same filter.

The kernel is PID 1 of the outer sandbox (`--as-pid-1`); its id in the host's namespace comes from `--info-fd`, and
signals go through a pidfd opened while bubblewrap, its parent, is certainly alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import ExitCause, ExitOutcome, LimitKind, SandboxStartError, Stream
from moonpool.sandboxes.cgroups import LimitGroups
from moonpool.sandboxes.folder_binding import ATTACHING, BoundFolders, bind_folders, refuse_overlap
from moonpool.sandboxes.folder_copies import FolderCopies, IdMapProbe
from moonpool.sandboxes.folder_space import SpaceWatch
from moonpool.sandboxes.host_folders import NO_NEWS
from moonpool.sandboxes.host_requirements import missing_on_host, remedies_named
from moonpool.sandboxes.identity import Identities, SingleUids
from moonpool.sandboxes.link import GuestLink, outcome_of
from moonpool.sandboxes.linked import LinkedSandbox
from moonpool.sandboxes.plan import OuterSandboxParts, execution_outer_sandbox, guest_command
from moonpool.sandboxes.process import (
    OuterSandboxStarter,
    end_outer_sandbox,
    has_merged_usr,
    launcher_or_refuse,
    write_etc,
)
from moonpool.sandboxes.ready import wait_ready
from moonpool.sandboxes.shielding import finish, in_thread
from moonpool.sandboxes.slots import SlotFolder
from moonpool.sandboxes.starting import (
    give_back,
    new_hash_seed,
    open_channel,
    open_filters,
    open_handover,
    open_pipe,
    read_child_pid,
    step,
)
from moonpool.sandboxes.unread_budget import UnreadBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.sandboxes.control_group import LimitGroup
    from moonpool.sandboxes.host_folders import FolderNews
    from moonpool.sandboxes.identity import Identity
    from moonpool.sandboxes.reaper_client import OuterSandbox


class BubblewrapSandbox(LinkedSandbox):
    """A sandbox that is its own outer sandbox."""

    def __init__(
        self,
        outer: OuterSandbox,
        pidfd: int,
        link: GuestLink,
        slots: SlotFolder,
        slot: str,
        group: LimitGroup,
        on_gone: Callable[[BubblewrapSandbox], None],
    ) -> None:
        super().__init__(link, pidfd, slots, slot, group, on_gone=lambda: self._gone(on_gone))
        self._space: SpaceWatch | None = None
        self._copies: FolderCopies | None = None
        self.last_copying: asyncio.Future[FolderNews] | None = None  # once it has ended
        outer.ended.add_done_callback(lambda ended: self._end(self._outcome(ended.result())))

    def watch_folders(self, space: SpaceWatch, copies: FolderCopies | None) -> None:
        """End it before its code fills their file systems, and look after the copies of those that are copied."""
        self._copies = copies or None
        self._space = space
        space.start(self.kill)

    def _gone(self, on_gone: Callable[[BubblewrapSandbox], None]) -> None:
        """INVARIANT: no process of it is left, so nothing changes in a copy any more."""
        if self._copies is not None:
            self.last_copying = asyncio.ensure_future(asyncio.to_thread(self._copies.end))
        on_gone(self)

    async def synchronise_folders(self) -> FolderNews:
        if self.last_copying is not None:
            return await asyncio.shield(self.last_copying)
        return NO_NEWS if self._copies is None else await in_thread(self._copies.synchronise)

    async def close(self) -> ExitOutcome:
        outcome = await super().close()
        await self.synchronise_folders()
        return outcome

    def _outcome(self, code: int) -> ExitOutcome:
        """Bubblewrap ends as the kernel did: with its exit code, or with 128 and the number of its signal."""
        violation = self._link.violation
        if self._space is not None:
            self._space.stop()
            if self._space.is_full:
                return ExitOutcome(cause=ExitCause.KILLED, limit=LimitKind.FOLDER_SPACE)
        if code < 0:  # bubblewrap itself was killed
            cause = ExitCause.KILLED if self._killed or violation else ExitCause.LOST
            return ExitOutcome(cause=cause, signal=-code, violation=violation)
        return outcome_of(code << 8, killed=self._killed, violation=violation)


class BubblewrapBackend:
    """Opens each sandbox as an outer sandbox of its own. Sandbox uids must be able to read `state_dir`; it dies with
    this process.
    """

    name = "bubblewrap"

    def __init__(
        self,
        state_dir: Path,
        groups: LimitGroups | None = None,
        *,
        identities: Identities | None = None,
        starter: OuterSandboxStarter | None = None,
        unread: UnreadBudget | None = None,
        kept: Path | None = None,
    ) -> None:
        """Identities, starter and budget may be those of another backend of this process. `kept` outlives it: copies of
        folders that could not be carried.
        """
        self._groups = groups or LimitGroups()
        self._folder = state_dir / secrets.token_hex(4)
        self._uids = SingleUids(identities or Identities())
        self._slots: SlotFolder | None = None
        self._starter = starter or OuterSandboxStarter(state_dir, self._groups.tops.values())
        self._unread = unread or UnreadBudget()
        self._open: set[BubblewrapSandbox] = set()
        self._probe = IdMapProbe()
        self._kept = kept or state_dir / "kept"
        self._copying: set[asyncio.Future[FolderNews]] = set()  # after the end of their sandboxes

    @property
    def limits_mode(self) -> str:
        return self._groups.mode

    def missing_features(self) -> Sequence[str]:
        return [*missing_on_host(), *self._groups.missing]

    async def open_sandbox(self, spec: SandboxSpec) -> BubblewrapSandbox:
        with remedies_named():
            return await self._open_sandbox(spec)

    async def _open_sandbox(self, spec: SandboxSpec) -> BubblewrapSandbox:
        launcher, identity = launcher_or_refuse(), self._uids.take(spec.scope)
        try:
            return await self._open_as(identity, launcher, spec)
        except BaseException:
            self._uids.give_back(identity)
            raise

    async def _open_as(self, identity: Identity, launcher: Path, spec: SandboxSpec) -> BubblewrapSandbox:
        slot = secrets.token_hex(8)
        with step("folder"):
            slots = self._slots = self._slots or SlotFolder(self._folder / "slots")
            showing = slots.open(slot, spec.tree)
        group: LimitGroup | None = None
        copies = None if identity.uid is None else self._copies_for(slot, identity.uid)
        try:
            with step("wrappers"):
                await asyncio.shield(showing)
            group = await self._groups.open(slot, spec.limits)
            sandbox = await self._start(launcher, identity, spec, slots, slot, group, copies)
        except BaseException:
            await finish(_undo(give_back(showing, slots, slot, group), copies))
            raise
        try:
            await wait_ready(sandbox)
            sandbox.take_listener()
        except BaseException:
            await finish(sandbox.close())
            raise
        return sandbox

    async def _start(
        self,
        launcher: Path,
        identity: Identity,
        spec: SandboxSpec,
        slots: SlotFolder,
        slot: str,
        group: LimitGroup,
        copies: FolderCopies | None,
    ) -> BubblewrapSandbox:
        seed = new_hash_seed() if spec.hash_seed is None else spec.hash_seed
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            with step("folder"):
                etc = write_etc(self._folder / "etc")
            with step("descriptors"):
                host, guest = open_channel(ours, theirs)
                (info_read, info_write), (out_read, out_write), (err_read, err_write) = (
                    open_pipe(ours, theirs) for _ in range(3)
                )
                handover, handed = open_handover(spec.image, ours, theirs)
                filters = open_filters(theirs, spec.image, shows_folders=spec.folders is not None)
            folders, space = await self._bound(spec, copies, ours, theirs)
            parts = OuterSandboxParts(
                launcher=launcher,
                image=spec.image,
                etc=etc,
                slots=slots.root / slot,
                seccomp_fd=filters[0],
                hash_seed=seed,
                merged_usr=has_merged_usr(),
                folders=tuple(folders.arguments),
            )
            statement = _statement((guest.fileno(), *handed), filters[1], spec, slot, group, folders)
            command = execution_outer_sandbox(
                parts,
                guest_command(spec.image, statement),
                info_fd=info_write,
            )
            try:
                outer = await self._starter.start(
                    command,
                    identity,
                    pass_fds=(guest.fileno(), *handed, *filters, info_write, *group.join_fds, *folders.fds),
                    stdout=out_write,
                    stderr=err_write,
                    folders=folders.for_reaper,
                )
            except OSError as error:
                raise SandboxStartError(step="outer sandbox", reason=f"{launcher}: {error.strerror}") from error
            theirs.close()
            group.joined()
            pidfd = await self._child_pidfd(outer, info_read, err_read)
            link = GuestLink(
                host,
                {Stream.STDOUT: out_read, Stream.STDERR: err_read},
                unread=self._unread,
                scope=spec.scope,
            )
            ours.pop_all()
            os.close(info_read)
        sandbox = BubblewrapSandbox(outer, pidfd, link, slots, slot, group, lambda one: self._on_gone(one, identity))
        sandbox.expect_listener(handover)
        if space is not None:
            sandbox.watch_folders(space, copies)
        sandbox.hash_seed = seed
        self._open.add(sandbox)
        return sandbox

    def _copies_for(self, slot: str, uid: int) -> FolderCopies:
        return FolderCopies(self._folder / "copies" / slot, uid, self._probe, self._kept)

    async def _bound(
        self,
        spec: SandboxSpec,
        copies: FolderCopies | None,
        ours: contextlib.ExitStack,
        theirs: contextlib.ExitStack,
    ) -> tuple[BoundFolders, SpaceWatch | None]:
        """The host folders of `spec`, and what watches them. Raises FolderError, SandboxStartError."""
        if (folders := spec.folders) is None:
            return BoundFolders(), None

        def bind() -> tuple[BoundFolders, SpaceWatch]:
            mounts = None if copies is None else self._folder / "shown"
            bound = bind_folders(folders, theirs, mounts, copies)
            space = SpaceWatch(folders, copies.place if copies else None)
            ours.callback(space.stop)
            return bound, space

        refuse_overlap(folders, spec.image)
        with step(ATTACHING):
            return await in_thread(bind)

    @staticmethod
    async def _child_pidfd(outer: OuterSandbox, info_fd: int, errors_fd: int) -> int:
        try:
            return os.pidfd_open(await read_child_pid(info_fd))
        except BaseException as error:
            await end_outer_sandbox(outer)
            if not isinstance(error, OSError | ValueError | KeyError | TimeoutError):
                raise
            os.set_blocking(errors_fd, False)
            words = ""
            with contextlib.suppress(BlockingIOError):  # somebody inside still holds the other end
                words = os.read(errors_fd, 4096).decode(errors="replace").strip()
            raise SandboxStartError(step="outer sandbox", reason=words[:600] or "bubblewrap did not start") from error

    def _on_gone(self, sandbox: BubblewrapSandbox, identity: Identity) -> None:
        self._open.discard(sandbox)
        if (copying := sandbox.last_copying) is not None:
            self._copying.add(copying)
            copying.add_done_callback(self._copying.discard)
        self._uids.give_back(identity)

    async def close_scope(self, scope: str) -> None:
        """Nothing but the uid is kept for a scope."""
        self._uids.leave(scope)

    async def close(self) -> None:
        for sandbox in tuple(self._open):
            await sandbox.close()
        if self._copying:
            await asyncio.wait(tuple(self._copying))
        if self._slots is not None:
            await self._slots.wait_all_removed()
        await self._starter.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def _undo(rest: Coroutine[object, object, None], copies: FolderCopies | None) -> None:
    if copies is not None:
        await asyncio.to_thread(copies.remove)
    await rest


def _statement(
    fds: Sequence[int], program_fd: int, spec: SandboxSpec, slot: str, group: LimitGroup, folders: BoundFolders
) -> str:
    confinement = {
        **spec.to_confinement(slot, grouped=group.counts),
        "groups": list(group.join_fds),
        "folders": folders.confinement,
    }
    return (
        "from moonpool_guest.python import kernel; "
        f"kernel.serve_alone({list(fds)!r}, {program_fd}, {confinement!r}, {sorted(spec.image.variables)!r})"
    )
