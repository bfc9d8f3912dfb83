"""`moonpool policy explain|test`: what the rules decide about a call, and whether a policy file's examples hold.

SECURITY: names and arguments may come from a server or from code: they are printed without control characters.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.commands import command_group, config_option
from moonpool.cli.printer import print_json, print_table, printable
from moonpool.core.errors import ConfigError, InputError
from moonpool.core.languages import language_of
from moonpool.core.phrases import counted
from moonpool.policy import RETURNS, Measure, Scope, Verdict, operators_remedy
from moonpool.policy.budgets import LIMIT_MAX
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.configuration.policy_examples import ExampleOutcome
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.policy import Explanation

_ARGUMENTS_EXAMPLE: Final = """give one object, in quotes for the shell: --arguments '{"repo": "acme/site"}'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The assumed circumstances of a call, as typed: caller, language, earlier calls, budgets."""

    principal: str | None
    language: str | None
    after: Sequence[str]
    used: Sequence[str]


app = command_group("The rules that decide about tool calls.")


@app.command("explain")
@click.argument("call", help="server.tool, or a path as `tools search` prints it.")
@click.option(
    "--arguments", default="{}", show_default=True, metavar="JSON", help="The call's arguments, a JSON object."
)
@click.option("--policy", type=Path, metavar="FILE", help="Policy file. Default: MOONPOOL_POLICY, else none.")
@config_option
@click.option("--principal", metavar="NAME", help="The principal that calls. Default: you.")
@click.option("--language", metavar="NAME", help="Language of the code. Default: python.")
@click.option(
    "--after",
    multiple=True,
    metavar="LABEL",
    help="A label that the session has taken in: private, untrusted. Repeatable.",
)
@click.option(
    "--used", multiple=True, metavar="BUDGET=NUMBER", help="What a budget has used, e.g. session.calls=20. Repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def explain(  # noqa: PLR0913  one parameter per option
    call: str,
    *,
    arguments: str,
    policy: Path | None,
    config: Path | None,
    principal: str | None,
    language: str | None,
    after: tuple[str, ...],
    used: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print what policy decides about a call, by which rule, and why the others do not apply. Nothing is called."""
    explain_one(
        call,
        arguments,
        policy_path=policy,
        config_path=config,
        given=Circumstances(principal=principal, language=language, after=after, used=used),
        as_json=as_json,
    )


@app.command("test")
@click.argument("path", type=Path, metavar="[FILE]", required=False, help="Policy file. Default: MOONPOOL_POLICY.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def check_examples(path: Path | None, *, as_json: bool) -> int:
    """Run the examples of a policy file. Exit code 1 if the result of one differs from what it says."""
    from moonpool.configuration.policy_examples import run_examples
    from moonpool.configuration.policy_file import load_policy_file

    path = path or Settings.load(os.environ).policy
    if path is None:
        raise ConfigError("no policy is named; give a file or set MOONPOOL_POLICY")
    file = load_policy_file(path)
    outcomes = list(run_examples(file))
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if as_json:
        for outcome in outcomes:
            print_json(outcome.to_json())
        return int(bool(failed))
    rules = f"{counted(len(file.layer.rules), 'rule')}, digest {file.layer.digest}"
    if failed:
        print_table(("example", "call", "expected", "decided", "rule"), (_row(outcome) for outcome in failed))
    for outcome in failed:
        click.echo(printable(f"{outcome.where}, {outcome.example.call.server}.{outcome.example.call.tool}:"))
        for line in _lines(outcome.explanation):
            click.echo(printable(f"  {line}"))
    good = len(outcomes) - len(failed)
    click.echo(printable(f"{good} of {len(outcomes)} examples hold ({rules})"))
    return int(bool(failed))


def explain_one(
    call: str,
    arguments: str,
    *,
    policy_path: Path | None,
    config_path: Path | None,
    given: Circumstances,
    as_json: bool,
) -> None:
    """Print the decision about one call. Raises MoonpoolError."""
    from moonpool.bootstrap import local_principal
    from moonpool.cli.config_choice import read_config
    from moonpool.cli.tool_catalog import open_catalog
    from moonpool.configuration.policies import policy_in_force
    from moonpool.pipeline.policy_queries import CallQuestion, explain_call

    settings = Settings.load(os.environ, policy=policy_path)
    members = _arguments(arguments)
    taken_in, used = _labels(given.after), _used(given.used)
    config = read_config(config_path)
    policy = policy_in_force(settings, config)
    with open_catalog(config_path, refresh=False) as found:
        tool = found.catalog.find_path(call)
    server = config.find(tool.server_id) if config is not None else None
    question = CallQuestion(
        tool=tool,
        arguments=members,
        trusted=server is not None and server.trusted,
        principal=given.principal or local_principal(),
        language=language_of(given.language),
        taken_in=taken_in,
        used=used,
    )
    answer = explain_call(question, policy)
    if as_json:
        shown: JsonObject = {"server": tool.server_id, "tool": tool.name, **answer.explanation.to_json()}
        print_json({**shown, "problem": answer.problem or None})
        return
    for line in _lines(answer.explanation):
        click.echo(printable(line))
    decision = answer.explanation.decision
    if decision.verdict is not Verdict.ALLOW:
        source = config.source if config is not None else ""
        click.echo(printable(f"to allow it: {operators_remedy(decision.remedy, tool.server_id, tool.name, source)}"))
    if answer.problem:
        click.echo(printable(f"but: {answer.problem}"))


def _row(outcome: ExampleOutcome) -> tuple[str, ...]:
    example, decision = outcome.example, outcome.explanation.decision
    expected = f"{example.verdict} by {example.rule}" if example.rule else str(example.verdict)
    call = f"{example.call.server}.{example.call.tool} {json.dumps(example.call.arguments, ensure_ascii=False)}"
    return (outcome.where, call[:80], expected, str(decision.verdict), decision.rule_id)


def _lines(explanation: Explanation) -> Iterable[str]:
    decision = explanation.decision
    yield f"{decision.verdict}, by {decision.rule_id} ({decision.layer})"
    yield f"because {decision.reason}"
    for layer in explanation.layers:
        said = "says nothing" if layer.verdict is None else f"says {layer.verdict}"
        yield f"layer {layer.layer}: {said}{', by its default' if layer.by_default else ''}"
        for rule in layer.rules:
            yield f"  {rule.rule_id} ({rule.verdict}): {rule.state}{': ' if rule.why else ''}{rule.why}"
    if explanation.does or explanation.returns:
        yield f"labels of the tool: does {_listed(explanation.does)}, returns {_listed(explanation.returns)}"
    for report in explanation.budgets:
        takes = f" and this call takes {report.adds:.15g}" if report.adds else ""
        room = f"used up, so {report.budget.then}" if report.used_up else "low" if report.low else "enough left"
        yield f"budget {report.name}: {report.used:.15g} of {report.limit:.15g} used{takes}: {room}"


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(sorted(labels)) or "nothing"


def _labels(given: Sequence[str]) -> frozenset[str]:
    if unknown := sorted(set(given) - set(RETURNS)):
        raise InputError(f"--after {unknown[0]!r} is not a label of what tools return; known are {', '.join(RETURNS)}")
    return frozenset(given)


def _used(given: Sequence[str]) -> dict[Scope, dict[Measure, float]]:
    """Parse `session.calls=20` and similar. Scopes that are not named are not checked."""
    found: dict[Scope, dict[Measure, float]] = {}
    for text in given:
        name, _, number = text.partition("=")
        scope, _, measure = name.partition(".")
        try:
            amount = float(number)
            if not 0 <= amount <= LIMIT_MAX:
                raise ValueError
            found.setdefault(Scope(scope), {})[Measure(measure)] = amount
        except ValueError:
            raise InputError(
                f"--used {text!r} must read like session.calls=20; scopes are {', '.join(Scope)}, "
                f"measures are {', '.join(Measure)}"
            ) from None
    return found


def _arguments(text: str) -> JsonObject:
    try:
        given: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"--arguments is not JSON ({exc}); {_ARGUMENTS_EXAMPLE}") from None
    if not isinstance(given, dict):
        raise InputError(f"--arguments must be a JSON object; {_ARGUMENTS_EXAMPLE}")
    return given
