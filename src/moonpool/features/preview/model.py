"""What a preview found: calls and objections by line, as every face shows them. Found by
`moonpool.features.preview.service`.

Values of arguments are code's own literals, shown as JSON and cut short.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import clip

if TYPE_CHECKING:
    from moonpool.code_reading.reading import CallRead, ImportRead
    from moonpool.core.json import JsonObject

_VALUE_CHARS_MAX: Final = 60


class Certainty(StrEnum):
    ERROR = "error"  # the call or import would be refused
    UNCERTAIN = "uncertain"  # only the run shows
    REMARK = "remark"  # nothing is refused, but a failure would go unnoticed


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    line: int
    certainty: Certainty
    kind: str  # SyntaxError, UnknownServer, UnknownTool, UnknownAction, ToolPaused, ValidationError, Unreachable...
    message: str
    within: str = ""  # the saved action or module of a skill whose line it is; empty: the code itself

    def to_json(self) -> JsonObject:
        found: JsonObject = {"line": self.line, "certainty": self.certainty, "kind": self.kind, "message": self.message}
        return {**found, "within": self.within} if self.within else found


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedCall:
    line: int
    server_id: str
    tool: str
    arguments: tuple[tuple[str, str], ...]  # name and literal as JSON, or an ellipsis where it is computed
    complete: bool  # whether every argument's name is known
    within: str = ""  # the saved action or module of a skill that makes it; empty: the code itself

    def to_json(self) -> JsonObject:
        call: JsonObject = {
            "line": self.line,
            "server": self.server_id,
            "tool": self.tool,
            "arguments": dict(self.arguments),
            "complete": self.complete,
        }
        return {**call, "within": self.within} if self.within else call

    @classmethod
    def of(cls, call: CallRead, *, within: str) -> PreviewedCall:
        given = call.arguments
        hidden = {path[0] for path in (*given.unread, *given.open) if path}
        shown = tuple(
            (name, "…" if name in hidden else clip(json.dumps(value, ensure_ascii=False), _VALUE_CHARS_MAX))
            for name, value in given.values.items()
        )
        return cls(
            line=call.line,
            server_id=call.server_id,
            tool=call.tool,
            arguments=shown,
            complete=() not in given.open,
            within=within,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was read. `not_read` says why, when nothing was."""

    language: str
    not_read: str = ""
    imports: tuple[ImportRead, ...] = ()
    calls: tuple[PreviewedCall, ...] = ()
    findings: tuple[Finding, ...] = ()
    left_out: int = 0

    @property
    def has_errors(self) -> bool:
        return any(finding.certainty is Certainty.ERROR for finding in self.findings)

    def to_json(self) -> JsonObject:
        return {
            "language": self.language,
            "previewed": not self.not_read,
            "reason": self.not_read,
            "imports": [{"line": one.line, "path": one.path} for one in self.imports],
            "calls": [one.to_json() for one in self.calls],
            "findings": [one.to_json() for one in self.findings],
            "left_out": self.left_out,
        }
