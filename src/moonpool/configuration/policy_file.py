"""A policy file: TOML that a person writes, read once into a layer of `moonpool.policy` and its examples.

SECURITY: a file that cannot be read, or that says something nobody knows, is an error before anything starts. No rule
is ever left out, shortened or guessed at. Every key: docs/reference/policy-file.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from moonpool.configuration.policy_limits import (
    glob_of,
    read_budgets,
    read_costs,
    read_labels,
    read_presets,
    read_usage,
)
from moonpool.configuration.toml_tables import Table, parse_toml, read_bytes
from moonpool.core.errors import ConfigError
from moonpool.core.languages import LANGUAGES, PYTHON
from moonpool.policy import (
    BUDGET_LAYER,
    DEFAULT_LAYER,
    DOES,
    HINT_NAMES,
    PRESET_PREFIX,
    RETURNS,
    RULE_ID,
    Absent,
    Below,
    Condition,
    Equals,
    Glob,
    HostIn,
    Layer,
    LayerName,
    OneOf,
    Range,
    Regex,
    Rule,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.policy import ArgumentTest, Scope, Usage

VERSION: Final = 1
FILE_KEYS: Final = (
    "version", "default", "allow_trusted_reads", "rule", "preset", "label", "budget", "cost", "example",
)  # fmt: skip
RULE_KEYS: Final = (
    "id", "verdict", "server", "tool", "annotations", "trusted", "principal", "language", "when", "after", "does",
    "note",
)  # fmt: skip
EXAMPLE_KEYS: Final = (
    "call", "verdict", "rule", "trusted", "annotations", "principal", "language", "after", "used", "note",
)  # fmt: skip
CALL_KEYS: Final = ("server", "tool", "arguments")
EXAMPLES_MAX: Final = 2000
_OUR_IDS: Final = (DEFAULT_LAYER, f"{BUDGET_LAYER}:", PRESET_PREFIX)
_VERDICTS: Final = tuple(str(verdict) for verdict in Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyExample:
    """A call written beside the rules, and what it must come to."""

    where: str  # for messages
    server: str
    tool: str
    verdict: Verdict
    arguments: JsonObject = field(default_factory=dict)
    rule: str | None = None
    trusted: bool = False
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])
    principal: str = "local:example"
    language: str = PYTHON
    after: frozenset[str] = frozenset()  # labels that the session has taken in
    used: Mapping[Scope, Usage] = field(default_factory=dict["Scope", "Usage"])
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """One file: a layer, and examples of what it should do."""

    source: str
    layer: Layer
    examples: tuple[PolicyExample, ...] = ()


def load_policy_file(path: Path, layer: LayerName = LayerName.ORGANISATION) -> PolicyFile:
    """Read and parse `path`. Raises ConfigError in one sentence that names file, rule, key and remedy."""
    named = {LayerName.KEY: "MOONPOOL_KEY_POLICY", LayerName.SESSION: "MOONPOOL_SESSION_POLICY"}
    remedy = f"name the policy with {named.get(layer, '--policy FILE or MOONPOOL_POLICY')}"
    return parse_policy(read_bytes(path, remedy), source=str(path), layer=layer)


def parse_policy(text: bytes, *, source: str, layer: LayerName = LayerName.ORGANISATION) -> PolicyFile:
    """Parse the bytes of a policy file; `source` names it in messages."""
    top = Table(parse_toml(text, source), source, FILE_KEYS)
    top.need("version", f"the first line of a policy is version = {VERSION}")
    if top.number("version") != VERSION:
        raise top.problem("version", f"this release reads version {VERSION} only")
    rules = [_rule(raw, source, place) for place, raw in enumerate(top.items("rule"), start=1)]
    seen: set[str] = set()
    for rule in rules:
        if rule.rule_id in seen:
            raise ConfigError(f"{source}: two rules have the id {rule.rule_id!r}; give each its own")
        seen.add(rule.rule_id)
    try:
        found = Layer(
            name=layer,
            rules=(*rules, *read_presets(top)),
            labels=read_labels(top),
            budgets=read_budgets(top, layer),
            costs=read_costs(top),
            default=Verdict(top.choice("default", _VERDICTS)) if "default" in top else None,
            allow_trusted_reads=top.flag("allow_trusted_reads"),
        )
    except ValueError as exc:
        raise ConfigError(f"{source}: {exc}") from None
    examples = top.items("example")
    if len(examples) > EXAMPLES_MAX:
        raise ConfigError(f"{source}: {len(examples)} examples: at most {EXAMPLES_MAX} are taken")
    return PolicyFile(
        source=source,
        layer=found,
        examples=tuple(_example(raw, source, place, seen) for place, raw in enumerate(examples, start=1)),
    )


def _rule(raw: object, source: str, place: int) -> Rule:
    name = cast("dict[str, object]", raw).get("id") if isinstance(raw, dict) else None
    named = f"rule {name!r}" if isinstance(name, str) and RULE_ID.fullmatch(name) else f"rule number {place}"
    table = Table(cast("object", raw), f"{source}: {named}", RULE_KEYS)
    table.need("id", "give it a short name that records and refusals can use")
    table.need("verdict", f"write verdict = {' or '.join(_VERDICTS)}")
    rule_id = table.text("id")
    if not RULE_ID.fullmatch(rule_id) or rule_id == "default":
        raise table.problem("id", 'use 1 to 64 letters, digits and . _ - / and not "default"')
    conditions = tuple(
        read_condition(one, f"{table.where}, condition {number}")
        for number, one in enumerate(table.items("when", below="rule."), start=1)
    )
    annotations = _annotations(table)
    try:
        return Rule(
            rule_id=rule_id,
            verdict=Verdict(table.choice("verdict", _VERDICTS)),
            server=glob_of(table, "server"),
            tool=glob_of(table, "tool"),
            annotations=annotations,
            trusted=table.flag("trusted"),
            principal=glob_of(table, "principal"),
            languages=table.choices("language", LANGUAGES),
            when=conditions,
            after=table.choices("after", RETURNS),
            does=table.choices("does", DOES),
            note=table.text("note"),
        )
    except ValueError as exc:
        raise ConfigError(f"{source}: {exc}") from None


def read_condition(raw: object, where: str) -> Condition:
    """One condition on an argument, as in `when`. Raises ConfigError."""
    table = Table(raw, where, CONDITION_KEYS)
    table.need("at", 'say where to look, for example at = "/repo"')
    given = [op for op in _TESTS if op in table]
    if not given and ("min" in table or "max" in table):
        given = ["min"]
    elif given and ("min" in table or "max" in table):
        given.append("min" if "min" in table else "max")
    if len(given) != 1:
        have = f"has {' and '.join(given)}" if given else "asks for nothing"
        ops = ", ".join([*_TESTS, "min", "max"])
        raise ConfigError(f"{where}: {have}; a condition has one of {ops} (min and max may be combined)")
    if "anywhere" in table and given != ["regex"]:
        raise table.problem("anywhere", 'belongs to "regex" only')
    try:
        test = _range(table) if given == ["min"] else _TESTS[given[0]](table)
    except ValueError as exc:
        raise table.problem(given[0], str(exc)) from None
    try:
        return Condition(at=table.text("at"), test=test)
    except ValueError as exc:
        raise table.problem("at", str(exc)) from None


def _absent(table: Table) -> Absent:
    if table.flag("absent") is not True:
        raise ValueError('may only be true; to ask for a value that is there, use glob = "*" or another operator')
    return Absent()


def _range(table: Table) -> Range:
    return Range(table.number("min"), table.number("max"))


def _regex(table: Table) -> Regex:
    return Regex(table.text("regex"), anywhere=bool(table.flag("anywhere")))


_TESTS: Final[Mapping[str, Callable[[Table], ArgumentTest]]] = {
    "equals": lambda table: Equals(table.value("equals")),
    "in": lambda table: OneOf(table.values("in")),
    "glob": lambda table: Glob(table.texts("glob")),
    "regex": _regex,
    "below": lambda table: Below(table.texts("below")),
    "host_in": lambda table: HostIn(table.texts("host_in")),
    "absent": _absent,
}
"""The operators by name; `min` and `max` make one together."""
CONDITION_KEYS: Final = ("at", *_TESTS, "anywhere", "min", "max")


def _example(raw: object, source: str, place: int, rule_ids: set[str]) -> PolicyExample:
    table = Table(raw, f"{source}: example number {place}", EXAMPLE_KEYS)
    table.need("call", 'write call = { server = "...", tool = "...", arguments = { } }')
    table.need("verdict", f"say what the call must come to: {' or '.join(_VERDICTS)}")
    call = table.table("call", CALL_KEYS)
    call.need("server", "name the server that is called")
    call.need("tool", "name the tool that is called")
    arguments = call.value("arguments") if "arguments" in call else {}
    if not isinstance(arguments, dict):
        raise call.problem("arguments", "must be a table")
    rule = table.text("rule") if "rule" in table else None
    if rule is not None and rule not in rule_ids and not rule.startswith(_OUR_IDS):
        raise table.problem("rule", f"there is no rule {rule[:64]!r} in this file")
    language = table.choice("language", LANGUAGES) if "language" in table else PYTHON
    return PolicyExample(
        where=f"example {place}",
        server=call.text("server"),
        tool=call.text("tool"),
        arguments=arguments,
        verdict=Verdict(table.choice("verdict", _VERDICTS)),
        rule=rule,
        trusted=bool(table.flag("trusted")),
        annotations=_annotations(table),
        principal=table.text("principal", "local:example"),
        language=language,
        after=frozenset(table.choices("after", RETURNS)),
        used=read_usage(table),
        note=table.text("note"),
    )


def _annotations(table: Table) -> dict[str, bool]:
    found = table.flags("annotations")
    if found:
        Table(found, f'{table.where}, "annotations"', sorted(HINT_NAMES))
    return found
