"""One example call of a tool in the syntax of a language, for error messages. Pure.

Values come from the schema (a choice, a default) or are placeholders. Everything comes from a server: values are
written as literals of the language, and bounded.
"""

from __future__ import annotations

import json
import shlex
from itertools import islice
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.ir import Choice, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonValue
    from moonpool.core.manifest import ToolDefinition
    from moonpool.wrappers.ir import Member, ToolShape
    from moonpool.wrappers.names import ServerNames, ToolNames

_LOOKED_AT_MAX: Final = 50
_PARAMETERS_MAX: Final = 8
_VALUE_CHARS_MAX: Final = 60
_UNKNOWN: Final = "…"
_BY_SCALAR: Final[dict[Scalar, JsonValue]] = {Scalar.INTEGER: 1, Scalar.NUMBER: 1.5, Scalar.BOOLEAN: True}


def example_call(
    tool: ToolDefinition, shape: ToolShape, server: ServerNames, names: ToolNames, *, language: str
) -> str:
    """`Example: await servers.time.convert_time(source_timezone="…")`, with the required parameters."""
    needed = [member for member in shape.input.members if member.required][:_PARAMETERS_MAX]
    if language in {"node", "bash"}:
        given = ", ".join(f"{json.dumps(one.wire_name)}: {_json(_value(one))}" for one in needed)
        arguments = f"{{{given}}}"
        if language == "node":
            return f"Example: await {server.module}.{names.node}({arguments})"
        return f"Example: moonpool call {shlex.quote(f'{tool.server_id}.{tool.name}')} {shlex.quote(arguments)}"
    given = ", ".join(f"{one.identifier}={_python(_value(one))}" for one in needed)
    return f"Example: await servers.{server.module}.{names.function}({given})"


def simplest(tools: Iterable[ToolDefinition]) -> ToolDefinition | None:
    """Of the first `_LOOKED_AT_MAX` tools the best example: read-only and with few arguments."""
    return min(islice(tools, _LOOKED_AT_MAX), key=_effort, default=None)


def _effort(tool: ToolDefinition) -> tuple[bool, int]:
    schema, annotations = tool.input_schema, tool.raw.get("annotations")
    required = schema.get("required") if isinstance(schema, dict) else None
    reads = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    return (not reads, len(required) if isinstance(required, list) else 0)


def _value(member: Member) -> JsonValue:
    """A value of the declared type if that is simple; otherwise an ellipsis."""
    if isinstance(member.type, Choice) and member.type.values:
        return _decoded(member.type.values[0])
    if member.default is not None and member.default != "null":
        return _decoded(member.default)
    return _BY_SCALAR.get(member.type, _UNKNOWN) if isinstance(member.type, Scalar) else _UNKNOWN


def _decoded(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:  # too long, so it was cut
        return _UNKNOWN
    return value if len(text) <= _VALUE_CHARS_MAX else _UNKNOWN


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _python(value: JsonValue) -> str:
    return _json(value) if isinstance(value, str) else repr(value)
