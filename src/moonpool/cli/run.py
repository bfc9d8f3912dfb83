"""`moonpool run`: runs one piece of code and prints one JSON line, or a few lines for a person on a terminal.

INVARIANT: either exactly one line goes to stdout, or (exit code 2) nothing does. On a terminal, without `--json`, a few
lines for a person replace it (`run_view`). The code runs here (`run_here`) or in the process of a session
(`run_in_session`); both return a line and an outcome.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moonpool.cli.approvers import Approve
from moonpool.cli.code_source import read_code
from moonpool.cli.commands import allow_network_option, command, config_option
from moonpool.cli.config_choice import allowed_network, journal_of
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNUSABLE
from moonpool.cli.log_lines import log_among
from moonpool.cli.program_output import ProgramOutput
from moonpool.cli.run_order import RunFiles, RunOrder, RunParts
from moonpool.cli.standard_streams import claim_stdout, sentence_and_code, write_all
from moonpool.core.errors import InputError
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.core.json import JsonValue


class _Answer:
    """Writes the line, or its `view`, as soon as it is available, so that errors while closing cannot prevent it."""

    def __init__(self, fd: int, output: ProgramOutput, view: Callable[[bytes], bytes] | None) -> None:
        self._fd, self._output, self._view = fd, output, view
        self.exit_code: int | None = None

    def __call__(self, line: bytes, ok: bool) -> None:
        assert self.exit_code is None, "one execution, one line"
        self.exit_code = EXIT_OK if ok else EXIT_FAILED
        try:
            write_all(self._fd, line if self._view is None else self._view(line))
            os.close(self._fd)
        except OSError as error:
            self._output.say(f"standard output is gone ({error.strerror}); the envelope could not be handed over")
            self.exit_code = EXIT_UNUSABLE


@command
@click.argument("file", required=False, help="File with code; `-` reads standard input.")
@click.option("-c", "--code", "inline", help="Code to run instead of a file.")
@click.option(
    "-l",
    "--language",
    metavar="NAME",
    help="python, node, typescript or bash. Default: by the file's name, else python.",
)
@config_option
@click.option(
    "--policy", type=Path, metavar="FILE", help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY, else none."
)
@click.option("--session", metavar="NAME", help="Keep variables and files under this name between runs.")
@click.option(
    "--timeout", "timeout_s", type=float, metavar="SECONDS", help="Seconds of wall clock; waiting for approval is free."
)
@click.option("--env", "environment", metavar="NAME", help="Environment: base or data.")
@click.option(
    "--approve",
    type=click.Choice([str(one) for one in Approve]),
    default="ask",
    show_default=True,
    help="Who answers when policy says ask.",
)
@click.option("--backend", metavar="NAME", help="Sandbox: zygote or bubblewrap.")
@click.option(
    "--put", "puts", multiple=True, metavar="LOCAL[:PATH]", help="Put a file there before the code runs; repeatable."
)
@click.option(
    "--get", "gets", multiple=True, metavar="PATH[:LOCAL]", help="Take a file out when it has run; repeatable."
)
@allow_network_option
@click.option("--force", is_flag=True, help="Let --get replace files.")
@click.option(
    "--workspace",
    type=Path,
    metavar="FOLDER",
    help="Let code work in this folder, at its own path and as /workspace. A session keeps it.",
)
@click.option("--dry-run", is_flag=True, help="Make no call that may change something; list them as a plan.")
@click.option("--plan-first", is_flag=True, help="Rehearse, ask once about all calls, then run only those.")
@click.option("--plan", metavar="PLAN_ID", help="Run under this plan of a dry run; only its calls are made.")
@click.option(
    "--placeholders",
    type=Path,
    metavar="FILE",
    help="What a dry run answers calls with (TOML): `server.tool` = result.",
)
@click.option("--json", "as_json", is_flag=True, help="The JSON line on a terminal, too.")
def run(**given: Any) -> int:
    """Run Python, Node or Bash in a sealed sandbox. Prints exactly one JSON line; everything else goes to stderr.

    On a terminal, without --json, a few lines for a person replace it.

    Exit code 0 if the code succeeded, 1 if it failed, 2 if it could not be run, 130 if it was interrupted before it
    started.
    """
    given["approve"] = Approve(given["approve"])
    return answer_in_one_line(RunOrder(**given))


def answer_in_one_line(order: RunOrder) -> int:
    """Run the code, print the line, return the exit code. Raises MoonpoolError when nothing could be run."""
    settings = Settings.load(os.environ, environment=order.environment, backend=order.backend, policy=order.policy)
    source = read_code(order.file, order.inline, order.language, bytes_max=settings.code_bytes_max)
    transfers, placeholders = _transfers(order), _placeholders(order)
    stdout = claim_stdout()
    output = ProgramOutput()
    answer = _Answer(stdout, output, _view(stdout, settings) if not order.as_json and os.isatty(stdout) else None)
    parts = RunParts(
        order=order,
        settings=settings,
        source=source,
        output=output,
        files=transfers,
        placeholders=placeholders,
        network=allowed_network(order.allow_network),
        answer=answer,
    )
    try:
        with log_among(output.say):
            asyncio.run(_run(parts))
    except (asyncio.CancelledError, KeyboardInterrupt):
        if answer.exit_code is None:
            output.say("interrupted before the code started")
            return EXIT_INTERRUPTED
    except Exception as error:
        if answer.exit_code is None:
            raise
        output.say(f"after the run: {sentence_and_code(error)}")
    finally:
        output.close()
    assert answer.exit_code is not None, "no error and no envelope"
    return answer.exit_code


def _view(stdout: int, settings: Settings) -> Callable[[bytes], bytes]:
    from moonpool.cli.run_view import RunView

    return RunView(stdout, journal_of(settings))


def _transfers(order: RunOrder) -> RunFiles:
    if not order.puts and not order.gets:
        return RunFiles()
    from moonpool.cli.transfers import gets_of, puts_of

    return RunFiles(puts=puts_of(order.puts), gets=gets_of(order.gets, force=order.force), force=order.force)


def _placeholders(order: RunOrder) -> Mapping[str, JsonValue]:
    """The declared placeholders; also checks that the options about plans fit together. Raises
    InputError, ConfigError.
    """
    given = [name for name in ("dry_run", "plan_first", "plan") if getattr(order, name)]
    named = ["--" + name.replace("_", "-") for name in given]
    if len(named) > 1:
        raise InputError(f"{' and '.join(named)} exclude each other; give one")
    if named and order.session is not None:
        raise InputError(f"{named[0]} cannot be used with --session; rehearse and run without one")
    if named and order.allow_network:
        raise InputError(f"{named[0]} is about tool calls; code with a network can do more, so run it without")
    if named and order.workspace is not None:
        raise InputError(f"{named[0]} cannot be used with --workspace: a dry run would change the folder")
    if order.placeholders is None:
        return {}
    if "dry_run" not in given and "plan_first" not in given:
        raise InputError("--placeholders answers the calls of a dry run; give --dry-run or --plan-first with it")
    from moonpool.pipeline.placeholder_file import load_placeholders

    return load_placeholders(order.placeholders)


async def _run(parts: RunParts) -> None:
    if parts.order.session is not None:
        from moonpool.cli.run_in_session import run_in_session

        await run_in_session(parts, parts.order.session)
    else:
        from moonpool.cli.run_here import run_here

        await run_here(parts)
