"""The `moonpool` block of a server entry: what its keys may be. What they mean stands in `ServerOptions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from moonpool.configuration.json_errors import convert
from moonpool.configuration.server_config import ServerOptions, ToolRule, VerdictName
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from moonpool.policy import Condition


class Block(ServerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `moonpool` block as JSON: what is used as it is written, and rules, in the two forms in which they are."""

    rules: tuple[_Rule, ...] = ()
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    verdict: VerdictName
    when: tuple[dict[str, Any], ...] = ()


def read_block(raw: dict[str, Any], where: str) -> Block:
    inside = f'{where}, "moonpool"'
    block = convert(raw, Block, inside)
    _check_times(block, inside)
    _check_counts(block, inside)
    return block


def rules_of(block: Block, where: str) -> tuple[ToolRule, ...]:
    """`rules` first, then the short lists; the order has no meaning, because the strictest match wins.

    Raises ConfigError for a condition that is none.
    """
    listed = [
        ToolRule(
            tool=rule.tool, verdict=rule.verdict, when=_conditions(rule.when, f'{where}, "moonpool", "rules[{i}]"')
        )
        for i, rule in enumerate(block.rules)
    ]
    shorts: dict[VerdictName, tuple[str, ...]] = {"allow": block.allow, "ask": block.ask, "deny": block.deny}
    return (*listed, *(ToolRule(tool=glob, verdict=verdict) for verdict, globs in shorts.items() for glob in globs))


def _conditions(raw: tuple[dict[str, Any], ...], where: str) -> tuple[Condition, ...]:
    if not raw:
        return ()
    from moonpool.configuration.policy_file import read_condition  # noqa: PLC0415  with a reader of TOML; most have none

    return tuple(read_condition(one, f"{where}, condition {number}") for number, one in enumerate(raw, start=1))


def _check_times(block: Block, inside: str) -> None:
    for key, value in (("timeout_s", block.timeout_s), ("connect_timeout_s", block.connect_timeout_s)):
        if not 0 < value <= 86_400:
            raise ConfigError(f'{inside}: "{key}" must be above 0 and at most 86400 seconds, got {value:g}')
    if block.ping_s != 0 and not 1 <= block.ping_s <= 86_400:
        raise ConfigError(f'{inside}: "ping_s" must be 0 (never) or from 1 to 86400 seconds, got {block.ping_s:g}')
    if not 0.1 <= block.rest_s <= 86_400:
        raise ConfigError(f'{inside}: "rest_s" must be from 0.1 to 86400 seconds, got {block.rest_s:g}')


def _check_counts(block: Block, inside: str) -> None:
    if not 1 <= block.concurrency_max <= 1024:
        raise ConfigError(f'{inside}: "concurrency_max" must be from 1 to 1024, got {block.concurrency_max}')
    if block.calls_per_minute != 0 and not 0.01 <= block.calls_per_minute <= 1_000_000:
        raise ConfigError(
            f'{inside}: "calls_per_minute" must be 0 (no limit) or from 0.01 to 1000000, got {block.calls_per_minute:g}'
        )
    if not 0 <= block.calls_burst <= 100_000:
        raise ConfigError(f'{inside}: "calls_burst" must be from 1 to 100000, got {block.calls_burst}')
    if block.calls_burst and not block.calls_per_minute:
        raise ConfigError(f'{inside}: "calls_burst" needs "calls_per_minute"')
    if not 1 <= block.failures_max <= 1000:
        raise ConfigError(f'{inside}: "failures_max" must be from 1 to 1000, got {block.failures_max}')
