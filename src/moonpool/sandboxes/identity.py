"""Under which uid walls and sandboxes run.

Started by root, each scope (tenant) gets a uid of its own from a range that no account uses, because several budgets of
the Linux kernel (pipe pages, inotify instances) are shared by all processes of one uid. Started by an ordinary user
there is one uid, the user's own, and so one scope.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from moonpool.sandboxes.base import SandboxStartError

UID_FIRST = 1_900_000_000
UID_COUNT = 10_000
"""Above the ranges of useradd, systemd-nspawn and containers (systemd.io/UIDS-GIDS), below 2^31."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What to change to before starting a wall. None: stay who we are."""

    uid: int | None


class Identities:
    """Hands out one identity per scope."""

    def __init__(self, *, own_uid: int | None = None) -> None:
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._uids: dict[str, int] = {}

    def of(self, scope: str) -> Identity:
        """The identity of `scope`. Raises SandboxStartError when this process can serve no further scope."""
        if scope not in self._uids:
            if self._own_uid != 0 and self._uids:
                reason = "without root there is one uid, which serves one tenant; start as root for more"
                raise SandboxStartError(step="identity", reason=reason)
            if len(self._uids) >= UID_COUNT:
                raise SandboxStartError(step="identity", reason=f"all {UID_COUNT} sandbox uids are in use")
            self._uids[scope] = UID_FIRST + len(self._uids)
        return Identity(self._uids[scope] if self._own_uid == 0 else None)
