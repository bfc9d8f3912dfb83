"""Entry point of `moonpool`: the commands by name, and what becomes of errors.

Exit codes: 0 done; 1 the answer is no (the code failed, the chain is broken, a probe got through); 2 the request, the
configuration or this machine cannot be used: one sentence on stderr, and nothing was run. Tracebacks of ours are shown
with `MOONPOOL_DEBUG=1` only.
"""

from __future__ import annotations

import os
import sys

from moonpool.cli import audit, doctor, environments, init, mcp, run, session, tools, version
from moonpool.cli.command_group import command_group
from moonpool.cli.standard_streams import fill_closed_streams, sentence_and_code

EXIT_UNUSABLE = 2

app = command_group("Run model-written Python in a sealed sandbox whose only opening calls MCP tools.")
app.command(name="run")(run.run)
app.add_typer(tools.app, name="tools")
app.command(name="mcp")(mcp.mcp)
app.command(name="init")(init.init)
app.command(name="doctor")(doctor.doctor)
app.add_typer(audit.app, name="audit")
app.add_typer(session.app, name="session")
app.add_typer(environments.app, name="environments")
app.command(name="version")(version.version)


def main() -> None:
    """Run the command line and exit."""
    fill_closed_streams()
    try:
        app()
    except Exception as error:
        if os.environ.get("MOONPOOL_DEBUG") == "1":
            raise
        sys.stderr.write(f"moonpool: {sentence_and_code(error)}\n")
        sys.exit(EXIT_UNUSABLE)
