"""`moonpool policy explain|test`: what the rules say about a call, and whether they say what they should."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("The rules that decide about tool calls.")

Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


@app.command()
def explain(  # noqa: PLR0913  one parameter per option
    call: Annotated[str, typer.Argument(help="server.tool, or a path as `tools search` prints it.", metavar="CALL")],
    *,
    arguments: Annotated[str, typer.Option(help="The call's arguments, a JSON object.", metavar="JSON")] = "{}",
    policy: Annotated[
        Path | None, typer.Option(help="Policy file. Default: MOONPOOL_POLICY, else none.", metavar="FILE")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `init` wrote.", metavar="FILE"
        ),
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Who calls. Default: you.", metavar="NAME")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the code. Default: python.", metavar="NAME")] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="A label that the session has taken in: private, untrusted. Repeatable.", metavar="LABEL"),
    ] = None,
    used: Annotated[
        list[str] | None,
        typer.Option(help="What a budget has used, e.g. session.calls=20. Repeatable.", metavar="BUDGET=NUMBER"),
    ] = None,
    json: Json = False,
) -> None:
    """Say what policy decides about a call, by which rule, and why the others do not apply. Nothing is called."""
    from moonpool.cli.policy_reports import Circumstances, explain_one

    explain_one(
        call,
        arguments,
        policy_path=policy,
        config_path=config,
        given=Circumstances(principal=principal, language=language, after=after or (), used=used or ()),
        as_json=json,
    )


@app.command(name="test")
def run_examples(
    file: Annotated[
        Path | None, typer.Argument(help="Policy file. Default: MOONPOOL_POLICY.", show_default=False, metavar="FILE")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Run the examples of a policy file. Exit code 1 when one comes to something else than it says."""
    from moonpool.cli.policy_reports import run_file

    sys.exit(run_file(file, as_json=json))
