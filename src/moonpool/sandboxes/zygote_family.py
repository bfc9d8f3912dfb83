"""The zygotes of one scope and image: those that serve, those that retire, and how starts went.

Pure bookkeeping; `zygotes` starts and ends them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import SandboxStartError

if TYPE_CHECKING:
    import asyncio

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.zygote_process import Zygote

_PAUSE_S = 0.25
_PAUSE_S_MAX = 30.0
_REMEMBERED_S = 60.0
"""A failure is forgotten so long after its pause, and the pauses start small again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygotePolicy:
    """How many zygotes there may be, and for how long.

    `moonpool.bootstrap.sandboxes` says which setting each of them comes from.
    """

    forks_max: int = 1000
    age_s_max: float = 600.0
    idle_s_max: float = 300.0
    count_max: int = 32
    per_image_max: int = 2


@dataclass(slots=True, eq=False)
class Member:
    """One zygote of a family."""

    zygote: Zygote
    born_at: float
    used_at: float
    forks: int = 0
    forked: int = 0  # of these, the ones that succeeded
    forking: int = 0

    @property
    def idle(self) -> bool:
        return not self.forking and not self.zygote.sandbox_count


@dataclass(slots=True, eq=False)
class Family:
    """The zygotes of one scope and image, and of one hash seed where one was asked for."""

    scope: str
    image: ImageSpec
    hash_seed: int | None = None  # the one that all its sandboxes were asked to have
    serving: list[Member] = field(default_factory=list[Member])
    retired: list[Member] = field(default_factory=list[Member])
    starting: asyncio.Task[Member] | None = None
    overlaps: int = 0  # forks that waited for forks, since the last start
    failures: int = 0  # in a row
    resume_at: float = 0.0
    failure: SandboxStartError | None = None

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Of all families only this one has it."""
        return (self.scope, self.image.digest, self.hash_seed)

    @property
    def members(self) -> list[Member]:
        return [*self.serving, *self.retired]

    def failed(self, error: SandboxStartError, now: float) -> None:
        """One more did not come up, or died before it forked anything."""
        self.failures += 1
        self.failure = error
        pause = 0.0 if self.failures == 1 else min(_PAUSE_S_MAX, _PAUSE_S * 2 ** (min(self.failures, 20) - 2))
        self.resume_at = now + pause

    def worn(self, policy: ZygotePolicy, now: float) -> Member | None:
        """One that should be replaced."""
        worn = (m for m in self.serving if m.forks >= policy.forks_max or now - m.born_at >= policy.age_s_max)
        return next(worn, None)

    def retire(self, member: Member) -> None:
        """It forks no more."""
        self.serving.remove(member)
        self.retired.append(member)

    def came_up_well(self) -> None:
        """One forked a sandbox; what failed before is over."""
        self.failures, self.failure = 0, None

    def is_forgotten(self, now: float) -> bool:
        """Whether nothing is left to remember."""
        remembers = self.failure is not None and now < self.resume_at + _REMEMBERED_S
        return not self.members and self.starting is None and not remembers

    def refusal(self, now: float) -> SandboxStartError | None:
        """Why nothing is tried now, if the pause is not over."""
        if self.failure is None or now >= self.resume_at:
            return None
        pause = f"this failed {self.failures} times in a row and is tried again in {self.resume_at - now:.1f} s"
        return SandboxStartError(step=self.failure.step, reason=f"{self.failure.reason}; {pause}")
