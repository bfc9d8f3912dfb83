"""Which of a server's tools may be called as they are now, given what was accepted earlier. Pure.

The first listing ever is accepted as it is: trust on first use. From then on every tool is compared with what was
accepted. Harmless changes are accepted by themselves; a dangerous one holds the tool until a person accepts it: calls
are refused, and what models see is the old definition, because the new text may be the attack. Tools that went away
stay remembered, so that going and coming back is no way around.

Names that we made ourselves (`moonpool.core.manifest.RESERVED_PREFIX`) are not the server's and are not compared.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.core.manifest import RESERVED_PREFIX, ServerListing, ToolDefinition
from moonpool.features.drift.model.changes import (
    Change,
    ChangeKind,
    Severity,
    ToolDiff,
    ToolNames,
    diff_added,
    diff_removed,
    diff_tool,
    diff_unrecorded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACCEPTED_COUNT_MAX: Final = 20_000
"""Tools remembered of one server. Above it new ones are held, or a server could make us forget by listing many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What was accepted of one server. `damaged`: some of it was known once, but could not be read."""

    tools: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    gone: frozenset[str] = frozenset()  # of these, those whose removal was noticed
    noticed: Mapping[str, str] = field(default_factory=dict[str, str])  # held tools -> digest that was put on record
    damaged: bool = False

    def to_json(self) -> JsonObject:
        gone: list[JsonValue] = [*sorted(self.gone)]
        return {
            "tools": dict(self.tools),
            "gone": gone,
            "noticed": dict(self.noticed),
            "damaged": self.damaged,
        }

    @classmethod
    def from_json(cls, data: JsonValue) -> Accepted:
        """Read what `to_json` wrote. Raises ValueError when `data` has another shape."""
        if not isinstance(data, dict):
            raise ValueError("not what was accepted")  # noqa: TRY004  one error for every wrong shape
        tools, gone, noticed = data.get("tools"), data.get("gone"), data.get("noticed")
        if not isinstance(tools, dict) or not isinstance(gone, list) or not isinstance(noticed, dict):
            raise ValueError("not what was accepted")  # noqa: TRY004
        definitions = {name: raw for name, raw in tools.items() if isinstance(raw, dict)}
        if len(definitions) != len(tools):
            raise ValueError("not a tool definition")
        return cls(
            tools=definitions,
            gone=frozenset(str(name) for name in gone),
            noticed={name: str(digest) for name, digest in noticed.items()},
            damaged=data.get("damaged") is not False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What comparing a listing with what was accepted came to."""

    accepted: Accepted  # as it is from now on
    passed: tuple[ToolDiff, ...] = ()  # harmless, accepted now
    held: tuple[ToolDiff, ...] = ()  # dangerous, until somebody accepts them
    news: tuple[ToolDiff, ...] = ()  # of both, those that are seen for the first time


def listed_names(listing: ServerListing) -> Iterable[tuple[str, str]]:
    """The server's own tools."""
    return (tool.key for tool in listing.tools if not tool.name.startswith(RESERVED_PREFIX))


def review(accepted: Accepted | None, listing: ServerListing, names: ToolNames) -> Review:
    """Compare `listing` with what was accepted; None is trust on first use."""
    own = {tool.name: tool for tool in listing.tools if not tool.name.startswith(RESERVED_PREFIX)}
    if accepted is None:
        return Review(accepted=Accepted(tools={name: tool.raw for name, tool in own.items()}))
    tools, gone, noticed = dict(accepted.tools), set(accepted.gone), dict(accepted.noticed)
    passed: list[ToolDiff] = []
    held: list[ToolDiff] = []
    for name, tool in own.items():
        came_back = name in gone
        gone.discard(name)
        diff = _compare(accepted, tool, names, came_back=came_back, full=len(tools) >= ACCEPTED_COUNT_MAX)
        if diff.dangerous:
            held.append(diff)
        else:
            noticed.pop(name, None)
            if diff:
                passed.append(diff)
                tools[name] = tool.raw
    for name in sorted(set(tools) - set(own) - gone):
        gone.add(name)
        passed.append(diff_removed(ToolDefinition(server_id=listing.server_id, name=name, raw=tools[name])))
    noticed = {name: digest for name, digest in noticed.items() if name in own}
    fresh = [diff for diff in held if noticed.get(diff.tool_name) != diff.after_digest]
    noticed.update({diff.tool_name: diff.after_digest for diff in fresh})
    return Review(
        accepted=replace(accepted, tools=tools, gone=frozenset(gone), noticed=noticed),
        passed=tuple(passed),
        held=tuple(held),
        news=(*passed, *fresh),
    )


def accept(accepted: Accepted, tools: Iterable[ToolDefinition], *, whole: bool) -> Accepted:
    """`accepted` with `tools` as they are now. `whole`: they are all that was held."""
    named = {tool.name: tool.raw for tool in tools}
    noticed = {name: digest for name, digest in accepted.noticed.items() if name not in named}
    return Accepted(
        tools={**accepted.tools, **named},
        gone=accepted.gone - set(named),
        noticed=noticed,
        damaged=accepted.damaged and not whole,
    )


def shown_listing(listing: ServerListing, accepted: Accepted, held: Iterable[ToolDiff]) -> ServerListing:
    """`listing` as code and models see it: held tools as they were accepted; new ones that are held are left out."""
    names = {diff.tool_name for diff in held}
    if not names:
        return listing
    shown: list[ToolDefinition] = []
    for tool in listing.tools:
        if tool.name not in names:
            shown.append(tool)
        elif tool.name in accepted.tools:
            shown.append(replace(tool, raw=accepted.tools[tool.name]))
    return replace(listing, tools=tuple(shown))


def shown_digest(diffs: Iterable[ToolDiff]) -> str:
    """What somebody who accepts `diffs` refers to: the tools, as they were and as they are."""
    return digest_json([[diff.server_id, diff.tool_name, diff.before_digest, diff.after_digest] for diff in diffs])


def refusal(diff: ToolDiff) -> str:
    """What code is told that calls a held tool.

    SECURITY: the server chose the name, and somebody will put the command into a shell.
    """
    name = f"{diff.server_id}.{diff.tool_name}"
    reasons = "; ".join(diff.reasons[:3])
    return (
        f"{name} is paused, because its server changed it: {reasons}. The operator looks at it with `moonpool tools "
        f"drift` and lets it go on with `moonpool tools accept {shlex.quote(name)}`; use another tool until then"
    )


def _compare(accepted: Accepted, tool: ToolDefinition, names: ToolNames, *, came_back: bool, full: bool) -> ToolDiff:
    raw = accepted.tools.get(tool.name)
    if raw is None and accepted.damaged:
        return diff_unrecorded(tool)
    if raw is not None:
        diff = diff_tool(replace(tool, raw=raw), tool, names)
        if came_back and not diff:
            back = Change(kind=ChangeKind.TOOL_ADDED, severity=Severity.HARMLESS, place="", reason="the tool is back")
            return replace(diff, changes=(back,))
        return diff
    diff = diff_added(tool, names)
    if full:
        reason = "the server has listed too many tools to remember them all"
        many = Change(kind=ChangeKind.INCOMPARABLE, severity=Severity.DANGEROUS, place="", reason=reason)
        return replace(diff, changes=(*diff.changes, many))
    return diff
