"""`moonpool init`: import the servers in MCP clients' configurations.

Without a terminal or an option that chooses, no server is started and nothing is allowed.

SECURITY: entries come from files that may belong to somebody else's project, so a server is started to list its tools
only after the person has seen its command and agreed, or if an option names it. SECURITY: "all" is written as the names
of the tools that were shown, not as a glob: tools that appear later need approval. Names come from servers; they are
quoted on the screen, so that none can pass for a line of ours.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import click

from moonpool.cli.commands import command
from moonpool.cli.permissions import decided
from moonpool.cli.server_import import import_servers, rewrite_configuration, say
from moonpool.configuration.permissions import with_permission, with_trust
from moonpool.configuration.server_files import load_servers
from moonpool.core.errors import InputError
from moonpool.core.phrases import clip, counted, on_one_line
from moonpool.policy import Verdict, effective_hints, literal_glob
from moonpool.terminal.device import ask_at, open_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.configuration.server_config import ServerConfig
    from moonpool.core.manifest import ToolDefinition
    from moonpool.tools.snapshot import ToolSnapshot

Choice: TypeAlias = Literal["ask", "trust", "allow"]

ALL: Final = "*"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}", re.ASCII)

_SHOWN_MAX: Final = 12

_COMMAND_CHARS_MAX: Final = 1000

_ANSWERS: Final[Mapping[str, Choice]] = {"r": "trust", "e": "allow"}

_QUESTION: Final = "a = ask before each (safe), r = trust its read-only annotations, e = allow everything it has now: "

_LATER: Final = "moonpool allow SERVER --reads, moonpool allow SERVER.TOOL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The choices in the options: servers by name, or `*`."""

    trust: Sequence[str] = ()
    allow: Sequence[str] = ()

    def check(self, server_ids: Sequence[str]) -> None:
        """Raise InputError for a server that is not imported or was chosen twice."""
        for name in (*self.trust, *self.allow):
            if name != ALL and name not in server_ids:
                raise InputError(f"no server {name[:80]!r} is imported; there are {', '.join(server_ids) or 'none'}")
        if both := sorted(set(self.trust) & set(self.allow)):
            raise InputError(f"{both[0][:80]!r} is given to both --trust and --allow; choose one")

    def of(self, server_id: str) -> Choice | None:
        if server_id in self.allow or (ALL in self.allow and server_id not in self.trust):
            return "allow"
        return "trust" if server_id in self.trust or ALL in self.trust else None


@command
@click.option(
    "--from",
    "from_",
    type=Path,
    multiple=True,
    metavar="FILE",
    help="Read this file instead of looking for some; repeatable.",
)
@click.option("--to", type=Path, metavar="FILE", help="Write here. Default: $XDG_CONFIG_HOME/moonpool/servers.json.")
@click.option("--add", is_flag=True, help="Add missing servers to an existing file; change nothing in it.")
@click.option(
    "--trust",
    multiple=True,
    metavar="SERVER",
    help="Believe this server's read-only annotations; repeatable, '*': all.",
)
@click.option(
    "--allow", multiple=True, metavar="SERVER", help="Allow every tool that this server has now; repeatable, '*': all."
)
@click.option("--data/--no-data", default=None, help="Build the environment `data`, too. Default: ask at a terminal.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def init(
    *,
    from_: tuple[Path, ...],
    to: Path | None,
    add: bool,
    trust: tuple[str, ...],
    allow: tuple[str, ...],
    data: bool | None,
    dry_run: bool,
) -> int:
    """Import servers from the configurations of Claude Desktop, Claude Code, VS Code and Cursor.

    Entries are copied without permissions and trust that they give themselves; ${VAR} stays ${VAR}. An existing file is
    never overwritten. At a terminal you see each server's tools and are asked which of them code may call without a
    question.
    """
    wanted = Wanted(trust=trust, allow=allow)
    written = import_servers(from_ or None, to, add=add, dry_run=dry_run, check=wanted.check)
    if written.path is not None:
        write_permissions(written.path, written.server_ids, wanted)
        written.say_next()
    if written.exit_code == 0 and not dry_run and data is not False:
        from moonpool.cli.environments import offer_data

        offer_data(wanted=data)
    return written.exit_code


def write_permissions(path: Path, server_ids: Sequence[str], wanted: Wanted) -> None:
    """Show per server which tools need approval, read the choices and write them. Raises MoonpoolError."""
    terminal = open_terminal()
    try:
        if terminal is None and not (wanted.trust or wanted.allow):
            server_ids = ()
        elif terminal is None or wanted.trust or wanted.allow:
            server_ids = [one for one in server_ids if wanted.of(one) is not None]
        elif not _may_start(path, server_ids, terminal):
            server_ids = ()
        if not server_ids:
            click.echo(f"code asks before it calls any tool of these servers; to change that: {_LATER}")
            return
        snapshot = _listed(path, server_ids)
        chosen: dict[str, Choice] = {one: _choice(path, one, snapshot, wanted.of(one), terminal) for one in server_ids}
    finally:
        if terminal is not None:
            os.close(terminal)
    tools = {one: _tools(snapshot, one) for one in server_ids}
    if any(choice != "ask" for choice in chosen.values()):
        rewrite_configuration(path, lambda content: _written(content, str(path), chosen, tools))
    for server_id in server_ids:
        asked = _asked(path, tools[server_id])
        say(f"{server_id}: " + (f"code asks before {_names(asked)}" if asked else _nothing(tools[server_id])))
    click.echo(f"to change that: {_LATER}")


def _may_start(path: Path, server_ids: Sequence[str], terminal: int) -> bool:
    """Ask whether these servers may be started, showing the command or address of each."""
    config = load_servers(path, os.environ)
    found = [server for server in config.servers if server.server_id in server_ids]
    shown = [on_one_line(f"  {server.server_id}: {clip(_reached(server), _COMMAND_CHARS_MAX)}") for server in found]
    told = "\nTo show their tools, these servers have to be started or reached:\n" + "\n".join(shown)
    return bool(found) and ask_at(terminal, f"{told}\nStart them now? y = yes, n = no: ").lower() in {"y", "yes"}


def _reached(server: ServerConfig) -> str:
    """SECURITY: shown with variables and folder, because LD_PRELOAD or a folder changes what a
    harmless command does.
    """
    folder = f" in {server.cwd}" if server.cwd else ""
    return f"{server.reached_by}{folder}" + (f" with {', '.join(server.env)}" if server.env else "")


def _listed(path: Path, server_ids: Sequence[str]) -> ToolSnapshot:
    from moonpool.cli.tool_catalog import load_snapshot

    config = load_servers(path, os.environ)
    only = tuple(server for server in config.servers if server.server_id in server_ids)
    left_out = {name: error for name, error in config.left_out.items() if name in server_ids}
    return load_snapshot(replace(config, servers=only, left_out=left_out), refresh=False)


def _choice(path: Path, server_id: str, snapshot: ToolSnapshot, wanted: Choice | None, terminal: int | None) -> Choice:
    tools = _tools(snapshot, server_id)
    if wanted == "trust":  # regardless of its tools
        return wanted
    if not tools:
        why = snapshot.problems.get(server_id, "it has no tools")
        say(f"{server_id}: whatever tools it has are asked about, because they are not known now: {why}")
        return "ask"
    if wanted is not None or terminal is None:
        return wanted or "ask"
    reads = [tool for tool in tools if effective_hints(tool, trusted=True).read_only]
    asks = on_one_line(f"{server_id} ({counted(len(tools), 'tool')}): code asks before {_names(_asked(path, tools))}")
    answer = ask_at(terminal, f"\n{asks}\nit declares read-only: {on_one_line(_names(reads))}\n{_QUESTION}").lower()
    while answer not in {"", "a", *_ANSWERS}:
        answer = ask_at(terminal, f"{on_one_line(clip(answer, 20))!r} is not one of them. {_QUESTION}").lower()
    return _ANSWERS.get(answer, "ask")


def _written(
    content: bytes, source: str, chosen: Mapping[str, Choice], tools: Mapping[str, Sequence[ToolDefinition]]
) -> bytes:
    for server_id, choice in chosen.items():
        if choice == "trust":
            content = with_trust(content, source, server_id)
        elif choice == "allow":
            globs = [literal_glob(tool.name) for tool in tools[server_id]]
            content = with_permission(content, source, server_id, "allow", globs)
    return content


def _tools(snapshot: ToolSnapshot, server_id: str) -> list[ToolDefinition]:
    return [tool for tool in snapshot.manifest.tools() if tool.server_id == server_id]


def _asked(path: Path, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    return [tool for tool, decision in decided(path, tools) if decision.verdict is not Verdict.ALLOW]


def _nothing(tools: Sequence[ToolDefinition]) -> str:
    return "code calls all of its tools without a question" if tools else "its tools are not known yet"


def _names(tools: Sequence[ToolDefinition]) -> str:
    shown = [tool.name if _PLAIN.fullmatch(tool.name) else json.dumps(clip(tool.name, 64)) for tool in tools]
    more = f" and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
    return (", ".join(shown[:_SHOWN_MAX]) or "nothing") + more
