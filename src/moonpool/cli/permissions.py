"""`moonpool allow` and `moonpool deny`: which tools code may call without a question, written into the server's entry.

SECURITY: tool names come from servers. They are written as escaped JSON, matched exactly (a `*` in a name is no glob)
and shown without control characters. `configuration.permissions` defines what is written,
`store.private_files.rewrite_own_file` where.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.commands import command
from moonpool.cli.config_choice import chosen_path
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import remark
from moonpool.cli.server_import import rewrite_configuration, say
from moonpool.configuration.permissions import condition_of, with_permission, with_trust
from moonpool.configuration.policies import policy_in_force
from moonpool.configuration.server_files import load_servers
from moonpool.core.errors import ConfigError, InputError
from moonpool.core.phrases import clip, on_one_line, properties_of, undeclared_parameters
from moonpool.policy import CallFacts, Verdict, decide, glob_matches, literal_glob, operators_remedy
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.catalog.catalog import Catalog
    from moonpool.configuration.permissions import Permission
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.policy import Decision

_GLOB: Final = re.compile(r"[*?\[]")

_WANTED: Final = {"allow": Verdict.ALLOW, "deny": Verdict.DENY}

_WORDS: Final = {"allow": "allowed", "deny": "denied"}

_REMARKS_MAX: Final = 20

_NAMED_MAX: Final = 10

_NAME_CHARS_MAX: Final = 200

_MAY_NAME_MORE: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


@dataclass(frozen=True, slots=True)
class _Named:
    """What one argument names: a server, globs, and the matching tools as far as they are known."""

    server_id: str
    globs: tuple[str, ...]
    tools: tuple[ToolDefinition, ...]


_tools = click.argument(
    "tools",
    metavar="TOOL...",
    nargs=-1,
    required=True,
    help="server.tool, or server.glob in quotes ('git.git_*'); several at once.",
)
_when = click.option(
    "--when",
    multiple=True,
    metavar="CONDITION",
    help="Only with such arguments: POINTER=GLOB, e.g. /repo=acme/*, or a policy condition as JSON; all must hold.",
)
_config = click.option(
    "--config",
    type=Path,
    metavar="FILE",
    help="Change this configuration. Default: ./moonpool.json, else what `init` wrote.",
)


@command
@_tools
@_when
@click.option("--reads", is_flag=True, help="Give servers instead of tools: believe their read-only annotations.")
@_config
def allow(tools: tuple[str, ...], *, when: tuple[str, ...], reads: bool, config: Path | None) -> int:
    """Let code call these tools without a question. Replaces what `deny` wrote about them."""
    return trust_reads(tools, config) if reads else change_permission("allow", tools, when, config)


@command
@_tools
@_when
@_config
def deny(tools: tuple[str, ...], *, when: tuple[str, ...], config: Path | None) -> int:
    """Never let code call these tools, whatever an approver would say. Replaces what `allow` wrote about them."""
    return change_permission("deny", tools, when, config)


def change_permission(permission: Permission, names: Sequence[str], when: Sequence[str], config: Path | None) -> int:
    """Write it and say so; returns 1 if another rule still decides about a named tool, or regardless of the conditions.

    Raises ConfigError or InputError before anything was written.
    """
    from moonpool.cli.tool_catalog import open_catalog

    path = _path(config)
    conditions = [condition_of(text) for text in when]
    with open_catalog(path, refresh=False) as found:
        server_ids = (*found.config.ids, *found.config.left_out, *found.config.disabled)
        named = [_named(permission, name, server_ids, found.catalog) for name in names]
    for one in named:
        _check_parameters(one.tools, conditions)

    def change(content: bytes) -> bytes:
        for one in named:
            content = with_permission(content, str(path), one.server_id, permission, one.globs, conditions)
        return content

    rewrite_configuration(path, change)
    for one in named:
        with_such = f" with arguments where {', '.join(when)}" if when else ""
        say(f"{_WORDS[permission]} {one.server_id}.{one.globs[0]}{with_such} in {path.absolute()}{_matched(one)}")
    say("processes that are already running keep the rules they were started with")
    otherwise = list(_anyhow(permission, named, path) if when else _otherwise(permission, named, path))
    for line in otherwise[:_REMARKS_MAX]:
        remark(f"{on_one_line(line)}")
    return EXIT_FAILED if otherwise else EXIT_OK


def trust_reads(names: Sequence[str], config: Path | None) -> int:
    """Trust these servers' annotations. Raises ConfigError before anything was written."""
    path = _path(config)

    def change(content: bytes) -> bytes:
        for server_id in names:
            content = with_trust(content, str(path), server_id)
        return content

    rewrite_configuration(path, change)
    for server_id in names:
        say(f"trusted {server_id} in {path.absolute()}: tools that it declares read-only need no question")
    return EXIT_OK


def decided(path: Path, tools: Iterable[ToolDefinition]) -> Iterable[tuple[ToolDefinition, Decision]]:
    """The decisions of the configuration at `path` and the policies in force about calls without arguments."""
    from moonpool.bootstrap import local_principal

    config = load_servers(path, os.environ)
    policy = policy_in_force(Settings.load(os.environ), config)
    for tool in tools:
        server = config.find(tool.server_id)
        trusted = server is not None and server.trusted
        yield tool, decide(policy, CallFacts(tool=tool, trusted=trusted, principal=local_principal()))


def _anyhow(permission: Permission, named: Sequence[_Named], path: Path) -> Iterable[str]:
    """Tools with the same decision for all arguments, so that conditions change nothing."""
    for tool, decision in decided(path, [tool for one in named for tool in one.tools]):
        if decision.verdict is _WANTED[permission]:
            yield f"but {tool.server_id}.{tool.name} is {_WORDS[permission]} with any arguments: {decision.reason}"


def _otherwise(permission: Permission, named: Sequence[_Named], path: Path) -> Iterable[str]:
    for tool, decision in decided(path, [tool for one in named for tool in one.tools]):
        if decision.verdict is not _WANTED[permission]:
            remedy = operators_remedy(decision.remedy, tool.server_id, tool.name, str(path.absolute()))
            why = f"{decision.verdict}, because {decision.reason}"
            yield f"but {tool.server_id}.{tool.name}: {why}; to allow it: {remedy}"


def _matched(named: _Named) -> str:
    """The tools that match a pattern now, destructive ones first; or a note that the server's tools are not known."""
    if not named.tools:
        return f"; the tools of {named.server_id} are not known now, so whether it has such a tool was not checked"
    if not _GLOB.search(named.globs[0]) or named.globs[0] == literal_glob(named.tools[0].name):
        return ""
    tools = sorted(named.tools, key=lambda tool: (not _destroys(tool), tool.name))
    told = [f"{tool.name}{' (declared destructive)' if _destroys(tool) else ''}" for tool in tools[:_NAMED_MAX]]
    more = f" and {len(tools) - _NAMED_MAX} more" if len(tools) > _NAMED_MAX else ""
    return f"; it matches {', '.join(clip(one, _NAME_CHARS_MAX) for one in told)}{more}"


def _destroys(tool: ToolDefinition) -> bool:
    return tool.annotations.get("destructiveHint") is True


def _check_parameters(tools: Sequence[ToolDefinition], conditions: Sequence[JsonObject]) -> None:
    """SECURITY: a condition on a parameter that no tool has would never hold, so a denial would deny nothing.

    Raises InputError.
    """
    for condition in conditions:
        name = str(condition["at"]).partition("/")[2].partition("/")[0].replace("~1", "/").replace("~0", "~")
        if name and tools and all(_lacks(tool, name) for tool in tools):
            tool = tools[0]
            raise InputError(undeclared_parameters(f"{tool.server_id}.{tool.name}", [name], tool.input_schema))


def _lacks(tool: ToolDefinition, name: str) -> bool:
    """Whether the tool's schema lists all of its parameters and has none of this name."""
    schema = tool.input_schema
    named = isinstance(schema, dict) and not schema.get("additionalProperties") and not (_MAY_NAME_MORE & schema.keys())
    return named and bool(known := properties_of(schema, ())) and name not in known


def _path(config: Path | None) -> Path:
    path = chosen_path(config, os.environ)
    if path is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    return path


def _named(permission: Permission, name: str, server_ids: Iterable[str], catalog: Catalog) -> _Named:
    """Raises InputError, and NotInCatalogError with similar names.

    SECURITY: a server may name a tool `*`. Typed so, it allows only that tool, but denies everything that it can mean.
    """
    server_id = max((one for one in server_ids if name.startswith(f"{one}.")), key=len, default="")
    wanted = name[len(server_id) + 1 :]
    is_glob = server_id and _GLOB.search(wanted)
    known = [tool for tool in catalog.manifest.tools() if tool.server_id == server_id]
    exact = tuple(tool for tool in known if tool.name == wanted)
    matching = tuple(tool for tool in known if glob_matches(wanted, tool.name))
    if exact and is_glob and permission == "deny":
        return _Named(server_id, (wanted, literal_glob(wanted)), (*matching, *exact))
    if exact or (server_id and wanted and not known):  # a server that cannot be listed now: keep what was typed
        return _Named(server_id, (wanted if is_glob and not exact else literal_glob(wanted),), exact)
    if is_glob:
        if matching:
            return _Named(server_id, (wanted,), matching)
        raise InputError(f"{server_id} has no tool that {wanted!r} matches; moonpool tools list {server_id}")
    tool = catalog.find_path(name)
    return _Named(tool.server_id, (literal_glob(tool.name),), (tool,))
