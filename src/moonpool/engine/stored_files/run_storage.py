"""What one execution has of stored trees: brought in before its code, taken out and committed after it.

INVARIANT: nothing is committed of a sandbox that was killed, that died, or whose changes did not come whole; the trees
are then what they were before. All trees are taken out before the first is committed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.envelope import ExecutionError
from moonpool.core.errors import MoonpoolError, told
from moonpool.engine.stored_files.model import (
    HOME,
    VOLUMES,
    WORKSPACE,
    Room,
    StoredFilesError,
    chosen,
    with_folders_above,
)
from moonpool.engine.stored_files.transfers import fill, take_changes
from moonpool.features.storage.model import Entry, TreeFullError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.engine.stored_files.model import Choice, Mount
    from moonpool.engine.stored_files.remembered_packages import RememberedPackages
    from moonpool.engine.stored_files.volumes import ShownVolumes
    from moonpool.features.storage.base import HeldTree, TreeWriter
    from moonpool.sandboxes.base import Sandbox, SandboxLimits

_log = logging.getLogger(__name__)
_NOT_KEPT: Final = "the code's sandbox was ended; {names} {keeps} the state of before this execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNews:
    """What there is to say of an execution's files. `failure`: its changes were not kept."""

    remark: str = ""
    failure: ExecutionError | None = None


NO_STORAGE_NEWS: Final = StorageNews()


@dataclass(kw_only=True)
class RunStorage:
    """Trees of one execution; used once. `volumes` shows those that are only read; `packages` remembers a thread's."""

    mounts: tuple[Mount, ...]
    timeout_s: float  # of each transfer
    volumes: ShownVolumes | None = None
    packages: RememberedPackages | None = None
    _choices: dict[str, Choice] = field(default_factory=dict[str, "Choice"], init=False)  # by place
    _remarks: list[str] = field(default_factory=list[str], init=False)

    @property
    def home(self) -> str:
        """Where code lives: in the thread, if there is one."""
        return HOME if any(one.place == WORKSPACE for one in self.mounts) else ""

    def remark(self, text: str) -> None:
        """Something to be said with the outcome."""
        if text:
            self._remarks.append(text)

    async def bring_in(self, sandbox: Sandbox, limits: SandboxLimits, *, hides_host: bool = False) -> None:
        """Before code, and before the sandbox is used for anything else. Raises StoredFilesError."""
        try:
            await self._bring_in(sandbox, limits)
        except StoredFilesError:
            raise
        except MoonpoolError as error:
            _log.warning("stored files could not be brought into a sandbox: %s", error)
            why = told(error, hides_host=hides_host)
            raise StoredFilesError(f"the code was not run: {why}", retryable=error.retryable) from error

    async def _bring_in(self, sandbox: Sandbox, limits: SandboxLimits) -> None:
        room, links = Room.of(limits), list[Entry]()
        for mount in self.mounts:
            if not mount.is_writable:
                if self.volumes is None:
                    raise StoredFilesError("volumes that are only read cannot be shown here")
                slug = mount.place.rpartition("/")[2]
                choice = await self.volumes.show(sandbox, mount)
                links.append(Entry(path=slug, kind="link", target=f"/wrappers/volumes/{slug}"))
            else:
                choice = self._choices[mount.place] = await chosen(mount, room)
                entries = tuple(choice.entries.values())
                await fill(sandbox, mount.place, mount.snapshot, entries, timeout_s=self.timeout_s)
            if choice.left_out:
                self._remarks.append(_left_out(mount, choice))
        if links:
            await fill(sandbox, VOLUMES, None, links, timeout_s=self.timeout_s)

    async def keep(self, sandbox: Sandbox, limits: SandboxLimits, *, is_over: bool, hides_host: bool) -> StorageNews:
        """After code, before anybody hears how it ended. `is_over`: it came to rest, and its sandbox lives."""
        if not is_over:
            names = _names([one for one in self.mounts if one.is_writable])
            if names:
                self._remarks.append(_NOT_KEPT.format(names=names, keeps="keep" if " and " in names else "keeps"))
            return StorageNews(remark="; ".join(self._remarks))
        try:
            await self._keep(sandbox, limits)
        except MoonpoolError as error:
            _log.warning("changes of an execution were not kept: %s", error)
            message = f"its changes of stored files were not kept: {told(error, hides_host=hides_host)}"
            kind = "StorageFull" if isinstance(error, TreeFullError) else "StorageError"
            failure = ExecutionError(type=kind, message=message, retryable=error.retryable)
            return StorageNews(remark="; ".join(self._remarks), failure=failure)
        return StorageNews(remark="; ".join(self._remarks))

    async def _keep(self, sandbox: Sandbox, limits: SandboxLimits) -> None:
        commits: list[Callable[[], Awaitable[object]]] = []
        skipped = 0
        for mount in self.mounts:
            if (held := mount.held) is None:
                continue
            choice, writer = self._choices[mount.place], held.writer()
            taken = await take_changes(
                sandbox,
                mount,
                writer,
                brought=with_folders_above(choice.entries),
                hidden=[one.path for one in mount.snapshot.tree if one.path not in choice.entries],
                bytes_max=limits.disk_bytes_max,
                timeout_s=self.timeout_s,
            )
            skipped += taken.skipped
            is_told = mount.place == WORKSPACE and self.packages is not None and await self.packages.write(writer)
            if taken.count or is_told:
                commits.append(_commit(held, writer))
        for commit in commits:
            await commit()
        if skipped:
            self._remarks.append(
                "1 file or name could not be stored and was not kept"
                if skipped == 1
                else f"{skipped:,} files or names could not be stored and were not kept: pipes, sockets, no UTF-8"
            )


def _commit(held: HeldTree, writer: TreeWriter) -> Callable[[], Awaitable[object]]:
    return lambda: held.commit(writer)


def _left_out(mount: Mount, choice: Choice) -> str:
    files = "1 file" if len(choice.left_out) == 1 else f"{len(choice.left_out):,} files"
    return (
        f"{files} of {mount.name} ({choice.left_out_bytes:,} bytes) did not fit into the sandbox; "
        "they are kept, and the Files API reaches them"
    )


def _names(mounts: list[Mount]) -> str:
    return " and ".join(one.name for one in mounts)
