"""Entry point of `moonpool`: the commands by name, and error handling.

An error is one sentence on stderr that ends in its code (`docs/reference/errors.md`); exit codes are in `exit_codes`.
Our own tracebacks are shown only with `MOONPOOL_DEBUG=1`.
"""

from __future__ import annotations

import os
import sys

import click

from moonpool.cli.commands import CommandIndex
from moonpool.cli.exit_codes import EXIT_UNUSABLE
from moonpool.cli.private_memory import keep_memory_private
from moonpool.cli.standard_streams import fill_closed_streams, sentence_and_code
from moonpool.core.version import VERSION

app = CommandIndex(
    {
        "run": ("run", "Run Python, Node or Bash in a sealed sandbox."),
        "preview": (
            "preview",
            "List the wrappers that code imports, the tools it calls, and calls that are certain to be refused.",
        ),
        "mcp": (
            "mcp",
            "Serve MCP on standard input and output: four tools (or one) in front of all configured servers.",
        ),
        "serve": ("serve", "Serve MCP over HTTP to many clients at once, and sessions to this user's commands."),
        "keys": ("keys", "Keys of programs that use the service, sent as a bearer token."),
        "orgs": (
            "orgs",
            "Organisations that the service serves: each has servers, rules, files and records of its own.",
        ),
        "sandboxes": (
            "sandboxes",
            "Sandbox configurations: what code of an organisation's keys runs with.",
        ),
        "threads": ("threads", "Threads: files that executions of a thread find again."),
        "volumes": ("volumes", "Volumes: files that an organisation's sandboxes share, at /data/SLUG."),
        "settings": ("settings", "Show the settings in force, and where each comes from; without secrets."),
        "consents": ("consents", "Consents of users to OAuth clients that use Moonpool's logins to servers."),
        "db": ("db", "The service's database."),
        "init": ("init", "Import servers from the configurations of Claude Desktop, Claude Code, VS Code and Cursor."),
        "doctor": (
            "doctor",
            "Open real sandboxes on this machine and attack them: quickly, or with every attack with --full.",
        ),
        "login": (
            "login",
            "Log in to a server by OAuth: open an address in a browser and store the tokens, encrypted.",
        ),
        "allow": ("permissions", "Let code call these tools without a question."),
        "deny": ("permissions", "Never let code call these tools, whatever an approver would say."),
        "replay": (
            "replay",
            "Run an execution again from its recording: same environment, clock and randomness, recorded tool results.",
        ),
        "stats": (
            "stats",
            "Report tokens saved, the time to find changed tools, and the sandbox's overhead with its spans.",
        ),
        "version": ("version", "Print the version."),
        "tools": ("tools", "The tools of the configured servers."),
        "catalog": ("catalog", "Search for tools."),
        "actions": ("actions", "Saved actions: code saved under a name for later code to import."),
        "registry": ("registry", "Servers of MCP Registries."),
        "secrets": ("secrets", "Stored secrets, for ${secret:NAME} in server configurations."),
        "policy": ("policy", "The rules that decide about tool calls."),
        "approvals": (
            "approvals",
            "The queue of approvals: questions of runs with `--approve queue`, and approval grants.",
        ),
        "plans": ("plans", "Plans of dry runs: the calls that code wants to make, approved as a whole and used once."),
        "audit": ("audit", "The audit journal: every execution and tool call, hash-chained."),
        "receipt": ("receipt", "Receipts: the record of one execution, signed with this installation's key."),
        "recordings": ("recordings", "Recordings: code, arguments and results of executions, kept for replays."),
        "session": ("session", "Sessions that `moonpool run --session NAME` keeps alive."),
        "skills": ("skills", "Skills: folders of instructions, scripts and files beside the tools."),
        "environments": ("environments", "Environments: interpreter and packages that sandboxes start from."),
    },
    help="Run model-written code (Python, Node, Bash) in a sealed sandbox whose only opening calls MCP tools.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(VERSION, message="moonpool %(version)s", help="Print the version.")(app)


def main() -> None:
    """Run the command line and exit."""
    fill_closed_streams()
    try:
        keep_memory_private()
        app(prog_name="moonpool")
    except Exception as error:
        if os.environ.get("MOONPOOL_DEBUG") == "1":
            raise
        from moonpool.core.phrases import printable

        sys.stderr.write(f"moonpool: {printable(sentence_and_code(error))}\n")
        sys.exit(EXIT_UNUSABLE)
