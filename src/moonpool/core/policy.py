"""Policy: pure rules that say whether a tool call is allowed, asked about or denied.

A rule matches a call by server glob, tool glob and annotations. All matching rules are looked at and the strictest
verdict wins (deny > human_only > ask > allow), so the order of rules does not matter and adding a stricter rule never
loosens anything. When no rule matches, the default decides: read-only tools of trusted servers are allowed, everything
else is asked about (X-06).

SECURITY: annotations come from the server. Of a server that the host does not trust they may raise a risk, never lower
it (X-22): `effective_hints` ignores what such a server says in its own favour, and a declared `destructiveHint` keeps a
call at "ask" unless a host rule names the tool.

The road that applies the decision is `moonpool.broker.road`; people's answers are `moonpool.broker.approval`.
"""

from __future__ import annotations

import fnmatch
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.manifest import ToolDefinition

HINT_NAMES: Final = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
DEFAULT_RULE_ID: Final = "default"
DEFAULT_READ_RULE_ID: Final = "default:read-only"
DESTRUCTIVE_RULE_ID: Final = "default:destructive"


class Verdict(StrEnum):
    """What policy says about one call."""

    ALLOW = "allow"
    ASK = "ask"
    HUMAN_ONLY = "human_only"  # asked, and an automatic approver must not answer
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self]


_STRICTNESS: Final = {verdict: place for place, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Behaviour of a tool as policy may rely on it. The defaults are MCP's own, which are the cautious ones."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    declared_destructive: bool = False  # said by the server itself; counts whatever its trust

    @property
    def repeatable(self) -> bool:
        """True when doing the call twice does no more than doing it once (X-21)."""
        return self.read_only or self.idempotent

    def value(self, hint_name: str) -> bool:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }[hint_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the host. Globs are case-sensitive and know `*`, `?` and `[...]`."""

    rule_id: str
    verdict: Verdict
    server: str = "*"
    tool: str = "*"
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])  # hint name -> value it must have

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.annotations) - HINT_NAMES):
            raise ValueError(f"policy rule {self.rule_id!r}: unknown annotation {unknown[0]!r}")

    @property
    def names_tool(self) -> bool:
        """True when the tool glob says more than "any tool"."""
        return bool(self.tool.strip("*?"))

    def matches(self, tool: ToolDefinition, hints: Hints) -> bool:
        return (
            glob_matches(self.server, tool.server_id)
            and glob_matches(self.tool, tool.name)
            and all(hints.value(name) is wanted for name, wanted in self.annotations.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one session. The defaults of this class are the safe default policy (X-06)."""

    rules: tuple[Rule, ...] = ()
    default: Verdict = Verdict.ASK
    allow_trusted_reads: bool = True  # read-only tools of trusted servers need no rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What policy decided, by which rule, and why in a sentence for people."""

    verdict: Verdict
    rule_id: str
    reason: str


def decide(policy: Policy, tool: ToolDefinition, *, trusted: bool) -> Decision:
    """Return the strictest verdict that applies to `tool`. Pure: same arguments, same decision."""
    hints = effective_hints(tool, trusted=trusted)
    matching = [rule for rule in policy.rules if rule.matches(tool, hints)]
    if not matching:
        return _by_default(policy, tool, hints, trusted=trusted)
    winner = max(matching, key=lambda rule: (rule.verdict.strictness, rule.names_tool, rule.rule_id))
    if winner.verdict is Verdict.ALLOW and hints.declared_destructive and not winner.names_tool:
        return Decision(verdict=Verdict.ASK, rule_id=DESTRUCTIVE_RULE_ID, reason=_destructive_reason(tool, winner))
    return Decision(verdict=winner.verdict, rule_id=winner.rule_id, reason=_rule_reason(tool, winner))


def effective_hints(tool: ToolDefinition, *, trusted: bool) -> Hints:
    """What may be believed about `tool`.

    SECURITY: of an untrusted server only a declared `destructiveHint: true` counts; everything else is at its
    cautious default, so that no annotation makes a call look safer than an unannotated one.
    """
    hints = tool.annotations
    destructive = hints.get("destructiveHint") is True
    if not trusted:
        return Hints(declared_destructive=destructive)
    read_only = hints.get("readOnlyHint") is True and not destructive
    return Hints(
        read_only=read_only,
        destructive=destructive or (not read_only and hints.get("destructiveHint") is not False),
        idempotent=hints.get("idempotentHint") is True,
        open_world=hints.get("openWorldHint") is not False,
        declared_destructive=destructive,
    )


def server_rules(server_id: str, rules: Iterable[tuple[str, str]]) -> tuple[Rule, ...]:
    """Rules of one server's `moonpool` block from (tool glob, verdict) pairs; ids read like `git:allow:git_log`."""
    return tuple(
        Rule(
            rule_id=f"{server_id}:{verdict}:{glob}", verdict=Verdict(verdict), server=literal_glob(server_id), tool=glob
        )
        for glob, verdict in rules
    )


def allow_hint(server_id: str, tool_name: str) -> str:
    """The exact JSON that pre-approves one tool, to paste into the server's entry of the configuration."""
    block = json.dumps({"moonpool": {"allow": [literal_glob(tool_name)]}}, ensure_ascii=False)
    return f"add {block[1:-1]} to the entry {json.dumps(server_id, ensure_ascii=False)} under mcpServers"


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The strictest of `verdicts`; ALLOW when there are none."""
    return max(verdicts, key=lambda verdict: verdict.strictness, default=Verdict.ALLOW)


def glob_matches(glob: str, name: str) -> bool:
    return glob == "*" or _compiled(glob).match(name) is not None


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


def literal_glob(name: str) -> str:
    """A glob that matches exactly `name`."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _by_default(policy: Policy, tool: ToolDefinition, hints: Hints, *, trusted: bool) -> Decision:
    if policy.allow_trusted_reads and hints.read_only:
        reason = f"{tool.server_id}.{tool.name} only reads and its server is trusted"
        return Decision(verdict=Verdict.ALLOW, rule_id=DEFAULT_READ_RULE_ID, reason=reason)
    if not trusted:
        why = "its server is not marked as trusted"
    elif hints.declared_destructive:
        why = "the server declares it destructive"
    else:
        why = "the server does not declare it read-only"
    reason = f"no rule matches {tool.server_id}.{tool.name} and {why}"
    if policy.default is Verdict.DENY:
        reason = f"{reason}; to allow it, {allow_hint(tool.server_id, tool.name)}"
    return Decision(verdict=policy.default, rule_id=DEFAULT_RULE_ID, reason=reason)


def _rule_reason(tool: ToolDefinition, rule: Rule) -> str:
    if rule.verdict is Verdict.DENY:
        return (
            f"rule {rule.rule_id!r} denies {tool.server_id}.{tool.name}; deny is the strictest verdict, "
            f"so remove that rule and {allow_hint(tool.server_id, tool.name)}"
        )
    verb = {Verdict.ALLOW: "allows", Verdict.ASK: "asks before", Verdict.HUMAN_ONLY: "wants a person to answer for"}
    return f"rule {rule.rule_id!r} {verb[rule.verdict]} {tool.server_id}.{tool.name}"


def _destructive_reason(tool: ToolDefinition, rule: Rule) -> str:
    return (
        f"the server declares {tool.server_id}.{tool.name} destructive and rule {rule.rule_id!r} allows it only among "
        f"all tools; to allow it by name, {allow_hint(tool.server_id, tool.name)}"
    )
