"""A policy file: TOML that a person writes, read once into a layer of `moonpool.policy` and its examples.

SECURITY: a file that cannot be read, or that says something nobody knows, is an error before anything starts. No rule
is ever left out, shortened or guessed at. Every key: docs/reference/policy-file.md.

The models below are what may be written; each makes what it means while it is read, so that `moonpool.core.conversion`
names the place of whatever cannot be meant.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moonpool.configuration.condition_entry import ConditionEntry, Words, json_value, listed
from moonpool.configuration.toml_files import parse_toml, read_bytes
from moonpool.core.conversion import convert
from moonpool.core.errors import ConfigError
from moonpool.core.languages import PYTHON, Language
from moonpool.policy import (
    BUDGET_LAYER,
    DEFAULT_LAYER,
    PRESET_PREFIX,
    PRESETS,
    RULE_ID,
    Budget,
    Cost,
    Does,
    Label,
    Layer,
    LayerName,
    Measure,
    PresetName,
    Returns,
    Rule,
    Scope,
    Usage,
    Verdict,
    usage_from,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_T = TypeVar("_T")
EXAMPLES_MAX: Final = 2000
_OUR_IDS: Final = (DEFAULT_LAYER, f"{BUDGET_LAYER}:", PRESET_PREFIX)
_TABLES: Final = {"when": "condition"}

_Glob = Annotated[str, Meta(min_length=1, extra={"must": 'is empty and would match nothing; write "*" for any'})]
_Id = Annotated[
    str,
    Meta(
        pattern=rf"^(?!{DEFAULT_LAYER}\Z){RULE_ID}\Z",
        extra={
            "need": "give it a short name that records and refusals can use",
            "must": 'use 1 to 64 letters, digits and . _ - / and not "default"',
        },
    ),
]
_NEED_VERDICT: Final = Meta(extra={"need": f"write verdict = {' or '.join(Verdict)}"})


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class AnnotationsEntry(_Entry, frozen=True, rename="camel"):
    """The hints by which a rule chooses tools, and what they must be."""

    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET

    def given(self) -> Mapping[str, bool]:
        return msgspec.to_builtins(self)


class RuleEntry(_Entry, frozen=True):
    """`[[rule]]`."""

    id: _Id
    verdict: Annotated[Verdict, _NEED_VERDICT]
    server: _Glob = "*"
    tool: _Glob = "*"
    annotations: AnnotationsEntry = AnnotationsEntry()
    trusted: bool | None = None
    principal: _Glob = "*"
    language: Words[Language] = ()
    when: tuple[ConditionEntry, ...] = ()
    after: Words[Returns] = ()
    does: Words[Does] = ()
    note: str = ""

    def __post_init__(self) -> None:
        self.rule()

    def rule(self) -> Rule:
        return Rule(
            rule_id=self.id,
            verdict=self.verdict,
            server=self.server,
            tool=self.tool,
            annotations=self.annotations.given(),
            trusted=self.trusted,
            principal=self.principal,
            languages=listed(self.language),
            when=tuple(entry.condition() for entry in self.when),
            after=listed(self.after),
            does=listed(self.does),
            note=self.note,
        )


class _NamedTools(_Entry, frozen=True):
    """Something about the tools that two globs name."""

    server: _Glob | None = None
    tool: _Glob | None = None

    def globs(self) -> dict[str, str]:
        if self.server is None and self.tool is None:
            raise ValueError('names no "server" and no "tool"; write tool = "*" for all')
        return {"server": self.server or "*", "tool": self.tool or "*"}


class LabelEntry(_NamedTools, frozen=True):
    """`[[label]]`."""

    returns: Words[Returns] = ()
    does: Words[Does] = ()

    def __post_init__(self) -> None:
        if not self.returns and not self.does:
            raise ValueError('says nothing; give "returns" or "does"')
        self.label()

    def label(self) -> Label:
        return Label(**self.globs(), returns=listed(self.returns), does=listed(self.does))


class CostEntry(_NamedTools, frozen=True, kw_only=True):
    """`[[cost]]`."""

    units: Annotated[int | float, Meta(extra={"need": "say what one call costs, for example units = 5"})]

    def __post_init__(self) -> None:
        self.cost()

    def cost(self) -> Cost:
        return Cost(**self.globs(), units=self.units)


class UsedEntry(_Entry, frozen=True):
    """Amounts of one scope, by what is measured: of a budget, or used in an example."""

    calls: int | float | UnsetType = UNSET
    tools: int | float | UnsetType = UNSET
    argument_bytes: int | float | UnsetType = UNSET
    result_bytes: int | float | UnsetType = UNSET
    cost: int | float | UnsetType = UNSET
    wall_s: int | float | UnsetType = UNSET
    calls_per_minute: int | float | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not self.amounts():
            raise ValueError(f"has no number; give one of {', '.join(Measure)}")

    def amounts(self) -> dict[Measure, float]:
        return {measure: amount for measure in Measure if (amount := getattr(self, measure)) is not UNSET}


class BudgetEntry(UsedEntry, frozen=True):
    """`[budget.session]` and its like."""

    then: Literal["ask", "deny"] = "deny"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.budget(Scope.SESSION, "")

    def budget(self, scope: Scope, layer: str) -> Budget:
        return Budget(scope=scope, limits=self.amounts(), then=Verdict(self.then), layer=layer)


class ScopesEntry(_Entry, Generic[_T], frozen=True):
    """Something for each scope; none where it is left out."""

    execution: _T | None = None
    session: _T | None = None
    key: _T | None = None

    def given(self) -> dict[Scope, _T]:
        return {scope: entry for scope in Scope if (entry := getattr(self, scope)) is not None}


class CallEntry(_Entry, frozen=True):
    server: Annotated[str, Meta(extra={"need": "name the server that is called"})]
    tool: Annotated[str, Meta(extra={"need": "name the tool that is called"})]
    arguments: dict[str, Any] = {}

    def __post_init__(self) -> None:
        try:
            json_value(self.arguments)
        except ValueError as exc:
            raise ValueError(f'"arguments": {exc}') from None


class ExampleEntry(_Entry, frozen=True):
    """`[[example]]`: a call written beside the rules, and what it must come to."""

    call: Annotated[CallEntry, Meta(extra={"need": 'write call = { server = "...", tool = "...", arguments = { } }'})]
    verdict: Annotated[Verdict, _NEED_VERDICT]
    rule: str | None = None
    trusted: bool = False
    annotations: AnnotationsEntry = AnnotationsEntry()
    principal: str = "local:example"
    language: Language = PYTHON
    after: Words[Returns] = ()  # labels that the session has taken in
    used: ScopesEntry[UsedEntry] = ScopesEntry()
    note: str = ""

    def usage(self) -> Mapping[Scope, Usage]:
        """Scopes that it leaves out used nothing."""
        return usage_from({scope: used.amounts() for scope, used in self.used.given().items()})


class PolicyDocument(_Entry, frozen=True):
    """The whole file."""

    version: Annotated[
        Literal[1],
        Meta(extra={"need": "the first line of a policy is version = 1", "must": "this release reads version 1 only"}),
    ]
    default: Verdict | None = None
    allow_trusted_reads: bool | None = None
    rule: tuple[RuleEntry, ...] = ()
    preset: Words[PresetName] = ()
    label: tuple[LabelEntry, ...] = ()
    budget: ScopesEntry[BudgetEntry] = ScopesEntry()
    cost: tuple[CostEntry, ...] = ()
    example: tuple[ExampleEntry, ...] = ()

    def __post_init__(self) -> None:
        ids = Counter(rule.id for rule in self.rule)
        if twice := [rule_id for rule_id, count in ids.items() if count > 1]:
            raise ValueError(f"two rules have the id {twice[0]!r}; give each its own")
        if len(self.example) > EXAMPLES_MAX:
            raise ValueError(f"{len(self.example)} examples: at most {EXAMPLES_MAX} are taken")
        for place, example in enumerate(self.example, start=1):
            if example.rule is not None and example.rule not in ids and not example.rule.startswith(_OUR_IDS):
                raise ValueError(f'example number {place}: "rule": there is no rule {example.rule[:64]!r} in this file')

    def layer(self, name: LayerName) -> Layer:
        """Raises ValueError for more of something than is taken."""
        presets = tuple(rule for preset in dict.fromkeys(listed(self.preset)) for rule in PRESETS[preset])
        return Layer(
            name=name,
            rules=(*(entry.rule() for entry in self.rule), *presets),
            labels=tuple(entry.label() for entry in self.label),
            budgets=tuple(entry.budget(scope, name) for scope, entry in self.budget.given().items()),
            costs=tuple(entry.cost() for entry in self.cost),
            default=self.default,
            allow_trusted_reads=self.allow_trusted_reads,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """One file: a layer, and examples of what it should do."""

    source: str
    layer: Layer
    examples: tuple[ExampleEntry, ...] = ()


def load_policy_file(path: Path, layer: LayerName = LayerName.ORGANISATION) -> PolicyFile:
    """Read and parse `path`. Raises ConfigError in one sentence that names file, rule, key and remedy."""
    named = {LayerName.KEY: "MOONPOOL_KEY_POLICY", LayerName.SESSION: "MOONPOOL_SESSION_POLICY"}
    remedy = f"name the policy with {named.get(layer, '--policy FILE, policy= in Python or MOONPOOL_POLICY')}"
    return parse_policy(read_bytes(path, remedy), source=str(path), layer=layer)


def parse_policy(text: bytes, *, source: str, layer: LayerName = LayerName.ORGANISATION) -> PolicyFile:
    """Parse the bytes of a policy file; `source` names it in messages. Raises ConfigError."""
    document = convert(parse_toml(text, source), PolicyDocument, source, _TABLES)
    try:
        return PolicyFile(source=source, layer=document.layer(layer), examples=document.example)
    except ValueError as exc:
        raise ConfigError(f"{source}: {exc}") from None
