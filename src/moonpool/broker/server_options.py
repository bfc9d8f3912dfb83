"""The `moonpool` block of a server entry: what its keys may be. What they mean stands in `ServerConfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from moonpool.broker.json_words import convert, did_you_mean
from moonpool.broker.server_config import (
    CALL_TIMEOUT_S_DEFAULT,
    CONCURRENCY_MAX_DEFAULT,
    CONNECT_TIMEOUT_S_DEFAULT,
    FAILURES_MAX_DEFAULT,
    REST_S_DEFAULT,
    ToolRule,
    VerdictName,
)
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from moonpool.core.policy import Condition

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Block(msgspec.Struct, forbid_unknown_fields=True, rename=None):
    """The `moonpool` block as JSON. What it means stands in `ServerConfig`."""

    trusted: bool = False
    timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    connect_timeout_s: float = CONNECT_TIMEOUT_S_DEFAULT
    concurrency_max: int = CONCURRENCY_MAX_DEFAULT
    calls_per_minute: float = 0.0
    calls_burst: int = 0
    failures_max: int = FAILURES_MAX_DEFAULT
    rest_s: float = REST_S_DEFAULT
    log_level: LogLevel | None = None
    idempotent: list[str] = []
    rules: list[_Rule] = []
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    instructions: bool = True
    roots: list[str] = []
    elicitation: Literal["decline", "relay"] = "decline"
    sampling: Literal["deny", "ask", "relay"] = "deny"
    ping_s: float = 0.0
    tasks: bool = False
    returns: list[Literal["private", "untrusted"]] = []
    does: list[Literal["sends_out", "spends", "destroys"]] = []


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    verdict: VerdictName
    when: list[dict[str, Any]] = []


def read_block(raw: dict[str, Any], where: str) -> Block:
    inside = f'{where}, "moonpool"'
    known = Block.__struct_fields__
    for key in raw:
        if key not in known:
            hint = did_you_mean([key], known, suggest_known=True)
            raise ConfigError(f'{inside}: unknown key "{key}"{hint or "; known are " + ", ".join(known)}')
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
    shorts: tuple[tuple[VerdictName, list[str]], ...] = (
        ("allow", block.allow),
        ("ask", block.ask),
        ("deny", block.deny),
    )
    return (*listed, *(ToolRule(tool=glob, verdict=verdict) for verdict, globs in shorts for glob in globs))


def _conditions(raw: list[dict[str, Any]], where: str) -> tuple[Condition, ...]:
    if not raw:
        return ()
    from moonpool.broker.policy_file import read_condition  # noqa: PLC0415  with a reader of TOML; most have none

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
