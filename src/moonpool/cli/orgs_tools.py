"""`moonpool orgs tools off|on|list`: tools that nobody of an organisation sees or can call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.approval_texts import shown_time
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import administered, check_known, data_dir_option, database_url_option, with_service_data

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from moonpool.features.tool_switches.model import SwitchedOff

_COLUMNS: Final = ("tool", "switched off by", "at")

app = command_group("Tools that are switched off for an organisation: nobody of it sees or can call them.")
_org_argument = click.argument("org", metavar="ORG", help="The organisation's id.")
_tool_argument = click.argument("tool", metavar="TOOL", help="A tool of a profile (`sandbox_execute`), or SERVER.TOOL.")


@app.command("off")
@_org_argument
@_tool_argument
@data_dir_option
@database_url_option
def off(*, org: str, tool: str, data_dir: Path | None, database_url: str | None) -> int:
    """Switch a tool off, within one second everywhere. Exit code 1 when it was off."""
    return _switch(org, tool, data_dir, database_url, on=False)


@app.command("on")
@_org_argument
@_tool_argument
@data_dir_option
@database_url_option
def on(*, org: str, tool: str, data_dir: Path | None, database_url: str | None) -> int:
    """Switch a tool on again. Exit code 1 when it was not off."""
    return _switch(org, tool, data_dir, database_url, on=True)


@app.command("list")
@_org_argument
@json_lines
@data_dir_option
@database_url_option
def list_(*, org: str, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List the tools that are switched off."""

    async def switched(opened: ServiceData) -> Sequence[SwitchedOff]:
        await check_known(opened, org)
        return await opened.switches.all(org)

    found = with_service_data(data_dir, database_url, switched)
    if as_json:
        for one in found:
            print_json({"tool": one.tool, "by": one.by, "at": shown_time(one.at)})
    elif found:
        print_table(_COLUMNS, ((one.tool, one.by, shown_time(one.at)) for one in found))
    if not found:
        remark(f"no tool of {org} is switched off")


def _switch(org: str, tool: str, data_dir: Path | None, database_url: str | None, *, on: bool) -> int:
    word = "on" if on else "off"
    if administered(data_dir, database_url, lambda administration: administration.switch_tool(org, tool, on=on)):
        unseen = "; servers were not asked whether one has it" if "." in tool and not on else ""
        remark(f"switched {tool} of {org} {word}{unseen}")
        return EXIT_OK
    remark(f"{tool} of {org} is {word} already")
    return EXIT_FAILED
