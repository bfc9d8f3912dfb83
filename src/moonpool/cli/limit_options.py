"""Options for what a key or an organisation may use, the same for making and for changing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moonpool.features.caller_limits.model import CallerLimits

if TYPE_CHECKING:
    from collections.abc import Callable


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--rate-limit`, `--concurrency`, `--quota`. Those left out are as the settings say."""
    options = (
        click.option("--rate-limit", metavar="N/min", help="Requests: N/s, N/min, N/h, N/day, or none."),
        click.option("--concurrency", type=int, metavar="N", help="Executions at the same time; 0: no limit."),
        click.option("--quota", metavar="N/day", help="Executions in a whole hour or day of UTC: N/h, N/day, or none."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def limits_given(rate_limit: str | None, concurrency: int | None, quota: str | None) -> CallerLimits:
    """What the options say. Raises InputError."""
    return CallerLimits.parse(rate=rate_limit, concurrency=concurrency, quota=quota)


def limits_told(limits: CallerLimits) -> str:
    """For people."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in limits.said().items()) or "as set"
