"""The parts of a policy file that are no rules: labels, budgets, costs, presets.

Neighbour: `policy_file` reads the rest. Every key: docs/reference/policy-file.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.configuration.toml_tables import Table
from moonpool.core.errors import ConfigError
from moonpool.policy import DOES, PRESETS, RETURNS, Budget, Cost, Label, Measure, Scope, Usage, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.policy import LayerName, Rule

LABEL_KEYS: Final = ("server", "tool", "returns", "does")
COST_KEYS: Final = ("server", "tool", "units")
SCOPES: Final = tuple(str(scope) for scope in Scope)
MEASURES: Final = tuple(str(measure) for measure in Measure)
BUDGET_KEYS: Final = ("then", *MEASURES)
_THEN: Final = (str(Verdict.ASK), str(Verdict.DENY))


def read_presets(top: Table) -> tuple[Rule, ...]:
    """The rules of `preset = [...]`."""
    names = dict.fromkeys(top.choices("preset", tuple(PRESETS)))
    return tuple(rule for name in names for rule in PRESETS[name])


def read_labels(top: Table) -> tuple[Label, ...]:
    """`[[label]]`."""
    return tuple(_label(raw, f"{top.where}: label number {place}") for place, raw in enumerate(top.items("label"), 1))


def _label(raw: object, where: str) -> Label:
    table = Table(raw, where, LABEL_KEYS)
    returns, does = table.choices("returns", RETURNS), table.choices("does", DOES)
    if not returns and not does:
        raise ConfigError(f'{where}: says nothing; give "returns" ({", ".join(RETURNS)}) or "does" ({", ".join(DOES)})')
    _name_somebody(table)
    try:
        return Label(server=glob_of(table, "server"), tool=glob_of(table, "tool"), returns=returns, does=does)
    except ValueError as exc:
        raise ConfigError(f"{where}: {exc}") from None


def read_costs(top: Table) -> tuple[Cost, ...]:
    """`[[cost]]`."""
    return tuple(_cost(raw, f"{top.where}: cost number {place}") for place, raw in enumerate(top.items("cost"), 1))


def _cost(raw: object, where: str) -> Cost:
    table = Table(raw, where, COST_KEYS)
    table.need("units", "say what one call costs, for example units = 5")
    _name_somebody(table)
    try:
        return Cost(server=glob_of(table, "server"), tool=glob_of(table, "tool"), units=table.number("units") or 0)
    except ValueError as exc:
        raise ConfigError(f"{where}: {exc}") from None


def read_budgets(top: Table, layer: LayerName) -> tuple[Budget, ...]:
    """`[budget.execution]`, `[budget.session]`, `[budget.key]`."""
    if "budget" not in top:
        return ()
    scopes = top.table("budget", SCOPES)
    return tuple(_budget(scopes, scope, layer) for scope in Scope if str(scope) in scopes)


def _budget(scopes: Table, scope: Scope, layer: LayerName) -> Budget:
    table = scopes.table(str(scope), BUDGET_KEYS)
    then = Verdict(table.choice("then", _THEN)) if "then" in table else Verdict.DENY
    try:
        return Budget(scope=scope, limits=_amounts(table), then=then, layer=layer)
    except ValueError as exc:
        raise ConfigError(f"{table.where}: {exc}") from None


def read_usage(table: Table) -> Mapping[Scope, Usage]:
    """What an example supposes to be used: `used = { session = { calls = 20 } }`. Scopes it leaves out used nothing."""
    if "used" not in table:
        return {}
    scopes = table.table("used", SCOPES)
    given = {scope: scopes.table(str(scope), MEASURES) for scope in Scope if str(scope) in scopes}
    return usage_from({scope: _amounts(amounts) for scope, amounts in given.items()})


def usage_from(amounts: Mapping[Scope, Mapping[Measure, float]]) -> Mapping[Scope, Usage]:
    """Usage as somebody imagines it."""
    return {scope: Usage(**{str(name): amount for name, amount in used.items()}) for scope, used in amounts.items()}  # pyright: ignore[reportArgumentType]


def _amounts(table: Table) -> dict[Measure, float]:
    found = {Measure(name): table.number(name) for name in MEASURES if name in table}
    if not found:
        raise ConfigError(f"{table.where}: has no number; give one of {', '.join(MEASURES)}")
    return {measure: amount for measure, amount in found.items() if amount is not None}


def _name_somebody(table: Table) -> None:
    table_has_name = "server" in table or "tool" in table
    if not table_has_name:
        raise ConfigError(f'{table.where}: names no "server" and no "tool"; write tool = "*" for all')


def glob_of(table: Table, key: str) -> str:
    """A glob; none is `*`."""
    glob = table.text(key, "*")
    if not glob:
        raise table.problem(key, 'is empty and would match nothing; write "*" for any')
    return glob
