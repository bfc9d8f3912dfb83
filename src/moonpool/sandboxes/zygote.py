"""The `zygote` backend: forks sandboxes from a preloaded process inside an outer sandbox (default).

`zygotes` says how many there are for a scope and image, and for how long; here one is started. Each sandbox gets its
own channel and pipes. When a zygote dies, its sandboxes die with it (PID 1 of the outer sandbox ends) and the next
request starts another. `zygote_process` talks to one zygote.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import LimitGroups
from moonpool.sandboxes.host_requirements import missing_on_host, remedies_named
from moonpool.sandboxes.identity import SLICE, Identities, Identity, UidSlice
from moonpool.sandboxes.plan import UID_INSIDE, MapFds, OuterSandboxParts, guest_command, zygote_outer_sandbox
from moonpool.sandboxes.process import OuterSandboxStarter, has_merged_usr, launcher_or_refuse, write_etc
from moonpool.sandboxes.slots import SlotFolder
from moonpool.sandboxes.starting import new_hash_seed, open_channel, open_filters, open_pipe, read_child_pid, step
from moonpool.sandboxes.unread_budget import UnreadBudget
from moonpool.sandboxes.zygote_process import Zygote
from moonpool.sandboxes.zygotes import Zygotes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.sandboxes.base import ImageSpec, SandboxSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapSandbox
    from moonpool.sandboxes.pool_statistics import ZygoteTotals
    from moonpool.sandboxes.zygote_family import ZygotePolicy
    from moonpool.sandboxes.zygote_process import ZygoteSandbox


class ZygoteBackend:
    """Opens sandboxes by forking zygotes. Sandbox uids must be able to read `state_dir`; it dies with this process."""

    name = "zygote"

    def __init__(
        self,
        state_dir: Path,
        groups: LimitGroups | None = None,
        *,
        policy: ZygotePolicy | None = None,
        kept: Path | None = None,
    ) -> None:
        """`kept` is as of `BubblewrapBackend`."""
        self._state_dir = state_dir
        self._groups = groups or LimitGroups()
        self._identities = Identities()
        self._starter = OuterSandboxStarter(state_dir, self._groups.tops.values())
        self._unread = UnreadBudget()
        self._zygotes = Zygotes(self._start, policy)
        self._alone = BubblewrapBackend(
            state_dir, self._groups, identities=self._identities, starter=self._starter, unread=self._unread, kept=kept
        )

    @property
    def limits_mode(self) -> str:
        return self._groups.mode

    def missing_features(self) -> Sequence[str]:
        return [*missing_on_host(), *self._groups.missing]

    async def open_sandbox(self, spec: SandboxSpec) -> ZygoteSandbox | BubblewrapSandbox:
        """A fork of a zygote; with folders of the host, which no zygote may have, one of its own outer sandbox."""
        if spec.folders is not None:
            return await self._alone.open_sandbox(spec)
        with remedies_named():
            return await self._zygotes.open_sandbox(spec)

    async def zygote(self, scope: str, image: ImageSpec) -> Zygote:
        """A zygote of `scope` and `image`, started if need be. Raises SandboxStartError."""
        return await self._zygotes.serving(scope, image)

    def zygote_totals(self) -> ZygoteTotals:
        return self._zygotes.statistics()

    async def _start(self, scope: str, image: ImageSpec, hash_seed: int | None) -> Zygote:
        seed = new_hash_seed() if hash_seed is None else hash_seed
        launcher, uids = launcher_or_refuse(), self._identities.slice_for(scope)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs, contextlib.ExitStack() as mapping:
            if uids is not None:
                ours.callback(uids.close)
            folder = self._state_dir / secrets.token_hex(4)
            ours.callback(shutil.rmtree, folder, ignore_errors=True)
            with step("folder"):
                slots, etc = SlotFolder(folder / "slots"), write_etc(folder / "etc")
            with step("descriptors"):
                control, guest_end = open_channel(ours, theirs, socket.SOCK_SEQPACKET)
                errors_read, errors_write = open_pipe(ours, theirs)
                filters = open_filters(theirs, image)
                maps, info_read = (None, -1) if uids is None else _open_maps(theirs, mapping)
            parts = OuterSandboxParts(
                launcher=launcher,
                image=image,
                etc=etc,
                slots=slots.root,
                seccomp_fd=filters[0],
                hash_seed=seed,
                merged_usr=has_merged_usr(),
            )
            statement = _statement(guest_end.fileno(), filters[1], image)
            command = zygote_outer_sandbox(parts, guest_command(image, statement), maps=maps)
            try:
                process = await self._starter.start(
                    command,
                    Identity(None if uids is None else uids.first),
                    pass_fds=(guest_end.fileno(), *filters, *(maps or ())),
                    stdout=errors_write,
                    stderr=errors_write,
                )
            except OSError as error:
                raise SandboxStartError(step="outer sandbox", reason=f"{launcher}: {error.strerror}") from error
            ours.pop_all()
            theirs.close()
            zygote = Zygote(process, control, slots, self._groups, self._unread, hash_seed=seed, uids=uids)
            return await self._greet(zygote, errors_read, info_read, mapping)

    @staticmethod
    async def _greet(zygote: Zygote, errors_fd: int, info_fd: int, mapping: contextlib.ExitStack) -> Zygote:
        os.set_blocking(errors_fd, False)
        try:
            if zygote.uids is not None:
                await _map_uids(zygote.uids, info_fd)
            mapping.close()  # bubblewrap goes on
            await zygote.wait_hello()
        except BaseException as error:
            await zygote.close()
            complaint = _read_complaint(errors_fd)
            if isinstance(error, SandboxStartError | TimeoutError):
                why = error.reason if isinstance(error, SandboxStartError) else "it did not start in time"
                raise SandboxStartError(step="outer sandbox", reason=complaint or why) from error
            raise
        finally:
            os.close(errors_fd)
        return zygote

    async def close_scope(self, scope: str) -> None:
        await self._zygotes.close_scope(scope)
        self._identities.leave(scope)

    async def close(self) -> None:
        await self._zygotes.close()
        await self._alone.close()
        await self._starter.close()


def _open_maps(theirs: contextlib.ExitStack, mapping: contextlib.ExitStack) -> tuple[MapFds, int]:
    """The descriptors with which an outer sandbox names its process and waits; it waits until `mapping` is closed."""
    info_read, info_write = open_pipe(mapping, theirs)
    block_read, _ = open_pipe(theirs, mapping)
    return MapFds(info_write, block_read), info_read


async def _map_uids(uids: UidSlice, info_fd: int) -> None:
    """Map all uids of the slice into the outer sandbox's user namespace, which waits for it. Raises SandboxStartError.

    Only root may map more than its own, and nobody inside can ever change it.
    """
    try:
        _write_maps(Path(f"/proc/{await read_child_pid(info_fd)}"), f"{UID_INSIDE} {uids.first} {SLICE}")
    except (OSError, ValueError, KeyError, TimeoutError) as error:
        raise SandboxStartError(step="identity", reason=f"uids could not be mapped: {error!r}") from error


def _write_maps(process: Path, extent: str) -> None:
    (process / "setgroups").write_text("deny", encoding="ascii")
    for name in ("uid_map", "gid_map"):
        (process / name).write_text(extent, encoding="ascii")


def _statement(control_fd: int, program_fd: int, image: ImageSpec) -> str:
    arguments = f"{control_fd}, {program_fd}, {list(image.preload)!r}, {sorted(image.variables)!r}"
    return f"from moonpool_guest import zygote; zygote.main({arguments})"


def _read_complaint(fd: int) -> str:
    """The last stderr output of an outer sandbox that did not start."""
    try:
        text = os.read(fd, 16_384).decode(errors="replace")
    except BlockingIOError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-3:])[:600]
