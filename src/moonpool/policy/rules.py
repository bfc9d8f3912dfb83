"""One rule, the facts of one call, and whether the rule covers the call.

`mismatch` checks every requirement of a rule in turn and returns the first that fails. A new requirement is a field of
`Rule`, a fact in `CallFacts` and a line in `_CHECKS`; deciding, explaining and the digest follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.languages import LANGUAGES, PYTHON
from moonpool.core.lookalikes import shown_name
from moonpool.policy.conditions import Condition, check_pattern_size
from moonpool.policy.findings import Finding
from moonpool.policy.globs import glob_matches, literal_glob
from moonpool.policy.hints import HINT_NAMES, Hints, effective_hints
from moonpool.policy.labels import DOES, RETURNS, check_labels
from moonpool.policy.members import look_alikes
from moonpool.policy.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ToolDefinition
    from moonpool.policy.usage import Scope, Usage

CONDITIONS_PER_RULE_MAX: Final = 32
NOTE_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """All that a decision may depend on. SECURITY: `arguments` and the tool's own text are untrusted."""

    tool: ToolDefinition
    arguments: JsonValue = field(default_factory=dict[str, "JsonValue"])
    trusted: bool = False  # the host trusts the server
    principal: str = ""
    language: str = PYTHON
    taken_in: frozenset[str] = frozenset()  # labels that the session has received so far
    does: frozenset[str] = frozenset()  # labels of this call; `moonpool.policy.deciding` fills them in
    usage: Mapping[Scope, Usage] = field(default_factory=dict["Scope", "Usage"])  # of the scopes that are counted
    argument_bytes: int = 0
    look_alikes: str | None = None  # `members.look_alikes` of the arguments, if computed already

    @property
    def ambiguous(self) -> str:
        """Why a server may read the arguments differently than policy; empty if it cannot."""
        return look_alikes(self.arguments) if self.look_alikes is None else self.look_alikes

    @property
    def hints(self) -> Hints:
        return effective_hints(self.tool, trusted=self.trusted)

    @property
    def name(self) -> str:
        """The tool's name for messages."""
        return f"{self.tool.server_id}.{shown_name(self.tool.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the host. What it does not mention matches anything. Globs: `moonpool.policy.globs`."""

    rule_id: str
    verdict: Verdict
    server: str = "*"
    tool: str = "*"
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])  # hint name -> value it must have
    trusted: bool | None = None
    principal: str = "*"
    languages: tuple[str, ...] = ()  # one of these; none: any
    when: tuple[Condition, ...] = ()  # all of them
    after: tuple[str, ...] = ()  # labels, all of which the session has received
    does: tuple[str, ...] = ()  # labels, one of which the tool has
    note: str = ""  # shown to refused code and to the person who is asked

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.annotations) - HINT_NAMES):
            raise ValueError(f"unknown annotation {unknown[0]!r}")
        if unknown := sorted(set(self.languages) - set(LANGUAGES)):
            raise ValueError(f"unknown language {unknown[0]!r}")
        if len(self.when) > CONDITIONS_PER_RULE_MAX:
            raise ValueError(f"at most {CONDITIONS_PER_RULE_MAX} conditions in one rule")
        if len(self.note) > NOTE_CHARS_MAX:
            raise ValueError(f"a note has at most {NOTE_CHARS_MAX} characters")
        if self.is_flow and self.verdict is Verdict.ALLOW:
            raise ValueError("labels only tighten; a rule with after or does asks or denies")
        check_labels(self.after, RETURNS)
        check_labels(self.does, DOES)
        for glob in (self.server, self.tool, self.principal):
            check_pattern_size(glob)

    @property
    def is_flow(self) -> bool:
        """Whether this is a rule about labels, which is evaluated in addition to the others of its layer, never
        instead.
        """
        return bool(self.after or self.does)

    @property
    def names_tool(self) -> bool:
        """Whether the tool glob is more specific than "any tool"."""
        return bool(self.tool.strip("*?"))

    def matches(self, facts: CallFacts) -> bool:
        return mismatch(self, facts) is None

    def to_json(self) -> JsonObject:
        """The complete rule, for the policy's digest and for people."""
        return {
            "id": self.rule_id,
            "verdict": str(self.verdict),
            "server": self.server,
            "tool": self.tool,
            "annotations": dict(self.annotations),
            "trusted": self.trusted,
            "principal": self.principal,
            "language": list(self.languages),
            "when": [condition.to_json() for condition in self.when],
            "note": self.note,
            **({"after": list(self.after), "does": list(self.does)} if self.is_flow else {}),
        }


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first requirement of a rule that a call does not meet."""

    what: str  # the rule's key: `server`, `tool`, ..., `when`
    finding: Finding = Finding.FAILS
    condition: Condition | None = None
    reason: str = ""  # why it is UNREADABLE


def mismatch(rule: Rule, facts: CallFacts) -> Mismatch | None:
    """Why `rule` does not cover the call, or None when it does."""
    return next((found for check in _CHECKS if (found := check(rule, facts)) is not None), None)


def server_rules(server_id: str, rules: Iterable[tuple[str, str]]) -> tuple[Rule, ...]:
    """Rules of one server's `moonpool` block from (tool glob, verdict) pairs; ids read like `git:allow:git_log`."""
    return tuple(
        Rule(
            rule_id=f"{server_id}:{verdict}:{glob}", verdict=Verdict(verdict), server=literal_glob(server_id), tool=glob
        )
        for glob, verdict in rules
    )


def _names(rule: Rule, facts: CallFacts) -> Mismatch | None:
    if not glob_matches(rule.server, facts.tool.server_id):
        return Mismatch("server")
    return None if glob_matches(rule.tool, facts.tool.name) else Mismatch("tool")


def _caller(rule: Rule, facts: CallFacts) -> Mismatch | None:
    if not glob_matches(rule.principal, facts.principal):
        return Mismatch("principal")
    return Mismatch("language") if rule.languages and facts.language not in rule.languages else None


def _server(rule: Rule, facts: CallFacts) -> Mismatch | None:
    if rule.trusted is not None and rule.trusted is not facts.trusted:
        return Mismatch("trusted")
    if not rule.annotations:
        return None
    hints = facts.hints
    unlike = any(hints.value(name) is not wanted for name, wanted in rule.annotations.items())
    return Mismatch("annotations") if unlike else None


def _flow(rule: Rule, facts: CallFacts) -> Mismatch | None:
    if rule.does and facts.does.isdisjoint(rule.does):
        return Mismatch("does")
    return None if facts.taken_in.issuperset(rule.after) else Mismatch("after")


def _arguments(rule: Rule, facts: CallFacts) -> Mismatch | None:
    # SECURITY: an unreadable value counts against the call.
    allows = rule.verdict is Verdict.ALLOW
    for condition in rule.when:
        finding, reason = condition.evaluate(facts.arguments)
        if finding is not Finding.HOLDS and (allows or finding is not Finding.UNREADABLE):
            return Mismatch("when", finding, condition, reason)
    # SECURITY: for stricter rules only values at their own conditions count, so that data with unusual names does not
    # match an unrelated rule.
    if allows and rule.when and (reason := facts.ambiguous):
        return Mismatch("when", Finding.UNREADABLE, reason=reason)
    return None


_CHECKS: Final[tuple[Callable[[Rule, CallFacts], Mismatch | None], ...]] = (
    _names,
    _caller,
    _server,
    _flow,
    _arguments,
)
"""Cheap checks first."""

RULE_ID: Final = r"[A-Za-z0-9][A-Za-z0-9_./-]{0,63}"
"""Ids that people may give; those with a colon and `default` are ours."""
