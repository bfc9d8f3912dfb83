"""Under which uids outer sandboxes and sandboxes run.

Several budgets of the Linux kernel (pipe pages, epoll watches, descriptors on their way through sockets) are counted
per uid of the host and bounded by nothing smaller. So, started by root, every zygote and every sandbox gets a uid of
its own from a range that no account uses. They come in slices; a lock on a file for each keeps two host processes from
using the same ones, and ends with the process that holds it. Started by an ordinary user there is one uid, the user's
own, and so one scope.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moonpool.sandboxes.base import SandboxStartError

UID_FIRST = 1_900_000_000
UID_COUNT = 262_144
"""Above the ranges of useradd, systemd-nspawn and containers (systemd.io/UIDS-GIDS), below 2^31."""
SLICE: Final = 256
_LOCKS: Final = Path("/run/moonpool/uids")


@dataclass(frozen=True, slots=True)
class Identity:
    """The uid to change to before an outer sandbox is started. None: keep ours."""

    uid: int | None


class UidSlice:
    """Uids that nothing else uses while this is open. The first is for a zygote's outer sandbox, if there is one."""

    def __init__(self, first: int, lock_fd: int) -> None:
        self.first = first
        self._lock_fd = lock_fd
        self._free = deque(range(1, SLICE))  # longest unused first

    @property
    def has_free(self) -> bool:
        return bool(self._free)

    def take(self) -> int:
        """The number of a free uid, above `first`. Raises SandboxStartError."""
        if not self._free:
            raise SandboxStartError(step="identity", reason=f"all {SLICE - 1} uids of this zygote are in use")
        return self._free.popleft()

    def give_back(self, number: int) -> None:
        """Nobody runs under it any more."""
        self._free.append(number)

    def close(self) -> None:
        """Let others have it. Nothing runs under any of its uids any more."""
        os.close(self._lock_fd)


def serves_several_tenants() -> bool:
    """Whether this process has uids to keep the sandboxes of more than one tenant apart."""
    return os.geteuid() == 0


class Identities:
    """Hands out uids. `locks` is a folder of this machine that only root can write."""

    def __init__(self, *, own_uid: int | None = None, locks: Path = _LOCKS) -> None:
        self._is_root = (os.geteuid() if own_uid is None else own_uid) == 0
        self._locks = locks
        self._scope: str | None = None

    def slice_for(self, scope: str) -> UidSlice | None:
        """A slice of uids for `scope`; None: there is one uid, ours.

        Raises SandboxStartError when this process can serve no further scope, or no slice is free.
        """
        if self._is_root:
            return self._lock_one()
        if self._scope not in (None, scope):
            reason = "without root there is one uid, which serves one tenant; start as root for more"
            raise SandboxStartError(step="identity", reason=reason)
        self._scope = scope
        return None

    def _lock_one(self) -> UidSlice:
        count = UID_COUNT // SLICE
        start = random.randrange(count)  # noqa: S311  so that hosts that cannot see each other's locks seldom meet
        try:
            self._locks.mkdir(parents=True, exist_ok=True, mode=0o700)
            for number in range(count):
                at = (start + number) % count
                if (lock_fd := _lock(self._locks / str(at))) is not None:
                    return UidSlice(UID_FIRST + at * SLICE, lock_fd)
        except OSError as error:
            reason = f"uids are reserved in {self._locks}, which root must be able to write: {error.strerror}"
            raise SandboxStartError(step="identity", reason=reason) from error
        raise SandboxStartError(step="identity", reason=f"all {UID_COUNT:,} sandbox uids are in use")

    def leave(self, scope: str) -> None:
        """Nothing of this scope runs any more, so our one uid may serve another."""
        if self._scope == scope:
            self._scope = None


class SingleUids:
    """A uid for each outer sandbox that is one sandbox, from as many slices as are needed."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._slices: list[UidSlice] = []
        self._taken: dict[Identity, tuple[UidSlice, int]] = {}

    def take(self, scope: str) -> Identity:
        """An identity of its own, where there are any. Raises SandboxStartError."""
        one = next((one for one in self._slices if one.has_free), None)
        if one is None:
            one = self._identities.slice_for(scope)
            if one is None:
                return Identity(None)
            self._slices.append(one)
        number = one.take()
        identity = Identity(one.first + number)
        self._taken[identity] = (one, number)
        return identity

    def give_back(self, identity: Identity) -> None:
        """Nobody runs under it any more."""
        if (taken := self._taken.pop(identity, None)) is not None:
            one, number = taken
            one.give_back(number)
            if all(other is not one for other, _ in self._taken.values()):
                self._slices.remove(one)
                one.close()

    def leave(self, scope: str) -> None:
        """See `Identities`."""
        self._identities.leave(scope)


def _lock(path: Path) -> int | None:
    """Hold the lock; None if somebody else does. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd
