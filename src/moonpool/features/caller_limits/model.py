"""Rates, quotas and the number of executions at once: as people write them, and the error above one. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from moonpool.core.errors import Fault, InputError, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.json import JsonObject

COUNT_MAX: Final = 1_000_000_000
_FORM: Final = re.compile(r"([0-9]{1,10})/(s|min|h|day)", re.ASCII)
_PERIODS: Final = {"s": 1, "min": 60, "h": 3600, "day": 86400}
_NONE: Final = "none"

BoundName: TypeAlias = Literal["rate", "concurrency", "quota"]
OwnerName: TypeAlias = Literal["caller", "organisation"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many in a period, `60/min`; with a count of 0 it is `none`: as many as they like."""

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str, *, what: str) -> Allowance:
        """Raises InputError, which begins with `what`."""
        if text == _NONE:
            return UNLIMITED
        found = _FORM.fullmatch(text)
        if found is None or not 0 < int(found[1]) <= COUNT_MAX:
            raise InputError(f"{what} must be none, or a number and s, min, h or day, as 60/min; not {text[:40]!r}")
        return cls(int(found[1]), found[2])

    @property
    def period_s(self) -> int:
        return _PERIODS[self.unit]

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}" if self.count else _NONE


UNLIMITED: Final = Allowance(0, "s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What one key, user, client or organisation may use. None: as the settings say; 0 and `none`: no limit."""

    rate: Allowance | None = None  # requests
    concurrency: int | None = None  # executions at the same time
    quota: Allowance | None = None  # executions

    def __post_init__(self) -> None:
        if self.concurrency is not None and not 0 <= self.concurrency <= COUNT_MAX:
            raise InputError(f"the number of executions at once must be from 0 (no limit) to {COUNT_MAX:,}")

    @classmethod
    def parse(cls, *, rate: str | None, concurrency: int | None, quota: str | None) -> CallerLimits:
        """As people write them. Raises InputError."""
        return cls(
            rate=None if rate is None else Allowance.parse(rate, what="the rate limit"),
            concurrency=concurrency,
            quota=None if quota is None else Allowance.parse(quota, what="the quota"),
        )

    def over(self, default: CallerLimits) -> CallerLimits:
        """These, and `default` where nothing is said."""
        return CallerLimits(
            rate=default.rate if self.rate is None else self.rate,
            concurrency=default.concurrency if self.concurrency is None else self.concurrency,
            quota=default.quota if self.quota is None else self.quota,
        )

    def said(self) -> dict[str, str | int]:
        """Those that are not left to the settings, by name."""
        said: dict[str, str | int] = {}
        if self.rate is not None:
            said["rate_limit"] = str(self.rate)
        if self.concurrency is not None:
            said["concurrency"] = self.concurrency
        if self.quota is not None:
            said["quota"] = str(self.quota)
        return said


NO_LIMITS: Final = CallerLimits()


def limit_columns(limits: CallerLimits) -> dict[str, str | int | None]:
    """What tables keep of limits, by column."""
    return {
        "rate_limit": None if limits.rate is None else str(limits.rate),
        "concurrency_max": limits.concurrency,
        "quota": None if limits.quota is None else str(limits.quota),
    }


class LimitedCaller(Protocol):
    """Who calls (`moonpool.server.http.callers.HttpCaller`)."""

    @property
    def organisation(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def limits(self) -> CallerLimits: ...


class LimitExceededError(MoonpoolError):
    """A caller, or its organisation, has used what it may use for now (HTTP 429). Nothing was begun."""

    code = "limit_exceeded"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, bound: BoundName, of: OwnerName, limit: str, *, retry_s: float) -> None:
        self.bound: BoundName = bound
        self.of: OwnerName = of
        self.limit, self.retry_s = limit, max(1, math.ceil(retry_s))
        whose = "this credential" if of == "caller" else "your organisation"
        what = {"rate": "requests", "concurrency": "executions at the same time", "quota": "executions"}[bound]
        super().__init__(f"{whose} may have {limit} {what}; try again in {self.retry_s} s")

    @property
    def data(self) -> JsonObject:
        """What programs read of it."""
        return {"bound": self.bound, "of": self.of, "limit": self.limit, "retry_after_s": self.retry_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """So many executions of one owner, to be counted in the period that began at `period_start`."""

    organisation_id: str
    principal: str  # empty: the organisation's own count
    quota: Allowance
    count: int
    period_start: float

    @property
    def newest_start(self) -> float:
        """When the latest period may have begun that another replica is in."""
        return self.period_start + self.quota.period_s

    @property
    def owner(self) -> OwnerName:
        return "caller" if self.principal else "organisation"


def charges(
    caller: LimitedCaller, limits: CallerLimits, organisation_limits: CallerLimits, count: int, now: float
) -> Iterator[Charge]:
    """What `count` executions have to be counted on. Periods begin at whole hours and days of UTC."""
    for principal, owned in ((caller.principal, limits), ("", organisation_limits)):
        if owned.quota is not None and owned.quota.count:
            start = now - now % owned.quota.period_s
            yield Charge(
                organisation_id=caller.organisation,
                principal=principal,
                quota=owned.quota,
                count=count,
                period_start=start,
            )
