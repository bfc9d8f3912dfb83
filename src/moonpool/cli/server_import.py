"""Writes the servers of clients' configurations into our configuration.

INVARIANT: an existing file loses nothing: without `--add` it is not changed, with it only new names are added. A new
file is created with O_EXCL and mode 0600, because entries may hold credentials.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.cli.client_configs import FoundServer, client_paths, read_servers
from moonpool.cli.config_choice import user_config_path
from moonpool.cli.printer import print_json, remark
from moonpool.configuration.jsonc import without_comments
from moonpool.configuration.permissions import with_servers
from moonpool.configuration.server_files import load_servers
from moonpool.configuration.servers import CONFIG_BYTES_MAX, parse_config
from moonpool.core.errors import ConfigError, MoonpoolError
from moonpool.core.lookalikes import looks_like
from moonpool.core.phrases import counted, on_one_line
from moonpool.store.private_files import rewrite_own_file, sync_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.core.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import; `path` is None if nothing was written."""

    exit_code: int
    path: Path | None = None
    server_ids: tuple[str, ...] = ()

    def say_next(self) -> None:
        """Print what is still wrong with the file, and the entry for the client."""
        if self.path is not None:
            _say_next(self.path)


def import_servers(
    sources: Sequence[Path] | None,
    to: Path | None,
    *,
    add: bool,
    dry_run: bool,
    check: Callable[[Sequence[str]], None],
) -> Imported:
    """Import and report. `check` gets the new servers' names before anything is written, and may raise."""
    target = to or user_config_path(os.environ)
    chosen = _choose(_found(sources))
    existing = existing_servers(target)
    if existing is not None and not add:
        click.echo(f"{target} exists and is not overwritten; --add adds only what it does not have yet:")
        for server in chosen:
            say(f"  {'has' if server.server_id in existing[1] else 'would add'} {server.server_id}")
        return Imported(exit_code=1)
    there = {looks_like(name) for name in existing[1]} if existing else set[str]()
    new = [server for server in chosen if looks_like(server.server_id) not in there]
    if not new:
        if not existing:
            click.echo(
                f"no server to import was found; name a client's file with --from FILE, or write {target} yourself"
            )
        elif chosen:
            click.echo(f"{target} has all of them already and is unchanged")
        else:
            click.echo(f"no server to import was found; {target} is unchanged")
        return Imported(exit_code=0 if existing else 1)
    names = tuple(server.server_id for server in new)
    check(names)
    if dry_run:
        click.echo(f"would write {counted(len(new), 'server')} to {target}: {', '.join(names)}")
        return Imported(exit_code=0)
    write_servers(target, existing, new)
    click.echo(f"wrote {counted(len(new), 'server')} to {target}")
    return Imported(exit_code=0, path=target, server_ids=names)


def _found(sources: Sequence[Path] | None) -> list[FoundServer]:
    """Servers of all sources. A named file must exist; of the default places the existing ones are read."""
    found: list[FoundServer] = []
    for path in sources or client_paths(os.environ, Path()):
        if sources is None and not path.is_file():
            continue
        try:
            found += read_servers(path, os.environ)
        except ConfigError as error:
            if sources is not None:
                raise
            remark(f"{on_one_line(str(error))}; skipped")
    return found


def _choose(found: Sequence[FoundServer]) -> list[FoundServer]:
    """The usable servers, the first of each name; reports why others are skipped.

    SECURITY: of names that look alike only the first: a file with both is refused, which would stop all servers.
    """
    chosen: dict[str, FoundServer] = {}
    for server in found:
        name = looks_like(server.server_id)
        first = chosen.get(name)
        if server.problem:
            say(f"skipped {server.server_id} ({server.source}): {server.problem}")
        elif first is None:
            chosen[name] = server
            without = f", without {', '.join(server.not_taken)} of its moonpool block" if server.not_taken else ""
            say(f"found {server.server_id} ({server.source}){without}")
        elif first.entry != server.entry:
            say(f"skipped {server.server_id} ({server.source}): the name is taken by another server")
    return list(chosen.values())


def say(text: str) -> None:
    """Print one line. SECURITY: names and problems come from the files, so they are made printable."""
    click.echo(on_one_line(text))


def existing_servers(target: Path) -> tuple[JsonObject, JsonObject] | None:
    """The document in `target` and its map of servers; None if there is no such file."""
    if not os.path.lexists(target):
        return None
    try:
        document: JsonValue = json.loads(without_comments(target.read_bytes().decode("utf-8-sig")))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{target}: exists and cannot be read ({error}); move it away or choose another --to"
        ) from None
    servers = document.get("mcpServers", document.get("servers", {})) if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(servers, dict):
        raise ConfigError(f"{target}: exists and is no server configuration; move it away or choose another --to")
    return document, servers


def write_servers(target: Path, existing: tuple[JsonObject, JsonObject] | None, new: Sequence[FoundServer]) -> None:
    added: JsonObject = {server.server_id: dict(server.entry) for server in new}
    if existing is None:
        content = _encode({"mcpServers": added})
        parse_config(content, source=str(target), environ={}, leave_out=True)
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:  # noqa: PTH123
                file.write(content)
                sync_file(file)
            sync_folder(target.parent)
        except OSError as error:
            raise ConfigError(f"{target}: cannot be written: {(error.strerror or str(error)).lower()}") from None
        return
    rewrite_configuration(target, lambda content: with_servers(content, str(target), added))


def rewrite_configuration(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a configuration in place. Raises ConfigError; then it is unchanged."""
    try:
        rewrite_own_file(path, change, bytes_max=CONFIG_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _encode(document: JsonObject) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _say_next(target: Path) -> None:
    try:
        for left_out in load_servers(target, os.environ).left_out.values():
            remark(f"{on_one_line(str(left_out))}")
    except MoonpoolError as error:
        remark(f"before it can be used: {error}")
    command = shutil.which("moonpool") or str(Path(sys.executable).with_name("moonpool"))
    entry = {"mcpServers": {"moonpool": {"command": command, "args": ["mcp", "--config", str(target.absolute())]}}}
    click.echo("in the client, replace these servers by this one:")
    print_json(entry, indent=2)
