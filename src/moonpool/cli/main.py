"""Entry point of `moonpool`: the commands by name, and what becomes of errors.

An error is one sentence on stderr that ends in its code (`docs/reference/errors.md`); `exit_codes` says what exit codes
mean. Tracebacks of ours are shown with `MOONPOOL_DEBUG=1` only.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from moonpool.cli import (
    actions,
    approvals,
    audit,
    catalog,
    doctor,
    environments,
    init,
    login,
    mcp,
    permissions,
    plans,
    policy,
    preview,
    receipt,
    recordings,
    registry,
    replay,
    run,
    secrets,
    session,
    skills,
    stats,
    tools,
    version,
)
from moonpool.cli.command_group import command_group
from moonpool.cli.exit_codes import EXIT_UNUSABLE
from moonpool.cli.private_memory import keep_memory_private
from moonpool.cli.standard_streams import fill_closed_streams, sentence_and_code

app = command_group(
    "Run model-written code (Python, Node, Bash) in a sealed sandbox whose only opening calls MCP tools."
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.version()
        raise typer.Exit


@app.callback()
def _moonpool(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command(name="run")(run.run)
app.command(name="preview")(preview.preview)
app.add_typer(tools.app, name="tools")
app.add_typer(catalog.app, name="catalog")
app.add_typer(actions.app, name="actions")
app.command(name="mcp")(mcp.mcp)
app.command(name="init")(init.init)
app.add_typer(registry.app, name="registry")
app.command(name="doctor")(doctor.doctor)
app.command(name="login")(login.login)
app.add_typer(secrets.app, name="secrets")
app.command(name="allow")(permissions.allow)
app.command(name="deny")(permissions.deny)
app.add_typer(policy.app, name="policy")
app.add_typer(approvals.app, name="approvals")
app.add_typer(plans.app, name="plans")
app.add_typer(audit.app, name="audit")
app.add_typer(receipt.app, name="receipt")
app.command(name="replay")(replay.replay)
app.add_typer(recordings.app, name="recordings")
app.add_typer(session.app, name="session")
app.add_typer(skills.app, name="skills")
app.command(name="stats")(stats.stats)
app.add_typer(environments.app, name="environments")
app.command(name="version")(version.version)


def main() -> None:
    """Run the command line and exit."""
    fill_closed_streams()
    try:
        keep_memory_private()
        app()
    except Exception as error:
        if os.environ.get("MOONPOOL_DEBUG") == "1":
            raise
        from moonpool.broker.phrases import printable

        sys.stderr.write(f"moonpool: {printable(sentence_and_code(error))}\n")
        sys.exit(EXIT_UNUSABLE)
