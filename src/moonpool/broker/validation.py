"""Validation of arguments and structured results against the JSON Schemas that servers declare.

The broker checks against the real schema; the types in wrappers only help the writer. A refused call says what to write
instead: path, problem, near names and the valid parameters. Dialect is 2020-12 unless `$schema` names another one that
is known. Formats are annotations here: the server decides whether a date suits it.

SECURITY: schemas are untrusted. Nothing is ever fetched for a `$ref`, patterns run on a linear-time engine (or, for
look-around, under a backtracking limit), sizes and depths are capped before anything is compiled.
A schema that cannot be used accepts any object and leaves a warning: validation is a service to the caller here, not a
wall, and the server checks its own input. Policy and approval never depend on it.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import jsonschema_rs

from moonpool.broker.phrases import clip, near_names, parameter_list, properties_of
from moonpool.core.json import JsonObject, JsonValue, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from moonpool.core.manifest import ToolDefinition

ARGUMENT_BYTES_MAX: Final = 16 * 1024**2
DEPTH_MAX: Final = 64
SCHEMA_BYTES_MAX: Final = 1024**2
PROBLEM_COUNT_MAX: Final = 5
_MESSAGE_LENGTH_MAX: Final = 4000
_BACKTRACK_LIMIT: Final = 10_000

_DIALECTS: Final[dict[str, type[jsonschema_rs.Validator]]] = {
    "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    validator: jsonschema_rs.Validator | None
    warning: str = ""


class SchemaChecks:
    """Compiled validators by tool digest, the least recently used ones forgotten. One per broker."""

    def __init__(self, *, entry_count_max: int = 2048) -> None:
        self._compiled: OrderedDict[tuple[str, str], _Compiled] = OrderedDict()
        self._entry_count_max = entry_count_max

    def warning(self, tool: ToolDefinition) -> str:
        """Why arguments of `tool` cannot be checked, or nothing."""
        return self._get(tool, "inputSchema").warning

    def argument_problem(self, tool: ToolDefinition, arguments: JsonObject) -> str:
        """What is wrong with `arguments` and what to write instead; nothing when they fit."""
        validator = self._get(tool, "inputSchema").validator
        if validator is None or validator.is_valid(arguments):
            return ""
        schema = tool.input_schema
        problems = list(_problems(validator.iter_errors(arguments), schema, arguments))
        name = f"{tool.server_id}.{tool.name}"
        text = f"arguments do not fit {name}: {'; '.join(problems)}. {parameter_list(name, schema)}"
        return clip(text, _MESSAGE_LENGTH_MAX)

    def result_problem(self, tool: ToolDefinition, structured: JsonValue) -> str:
        """How `structuredContent` deviates from the declared output schema; nothing when it fits or none is declared.

        A deviation is a warning, not a failure: the data came from the server that wrote the schema, and losing it
        helps nobody (H-076). The warning goes to the audit trail.
        """
        if tool.output_schema is None:
            return ""
        compiled = self._get(tool, "outputSchema")
        if compiled.validator is None:
            return compiled.warning
        error = next(iter(compiled.validator.iter_errors(structured)), None)
        return "" if error is None else f"structuredContent does not fit outputSchema: {_sentence(error)}"

    def _get(self, tool: ToolDefinition, member: str) -> _Compiled:
        key = (tool.digest, member)
        compiled = self._compiled.get(key)
        if compiled is None:
            schema = tool.input_schema if member == "inputSchema" else tool.output_schema
            compiled = self._compiled[key] = _compile(schema, member)
            if len(self._compiled) > self._entry_count_max:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return compiled


def depth_exceeds(value: JsonValue, depth_max: int = DEPTH_MAX) -> bool:
    """True when lists and objects are nested deeper than `depth_max`. Does not recurse."""
    level: list[JsonValue] = [value]
    for _ in range(depth_max):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(child for child in item.values() if isinstance(child, dict | list))
            elif isinstance(item, list):
                inner.extend(child for child in item if isinstance(child, dict | list))
        if not inner:
            return False
        level = inner
    return True


def _compile(schema: JsonValue, member: str) -> _Compiled:
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        return _Compiled(validator=None)
    dialect = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    address = str(dialect).partition("://")[2].rstrip("#")
    validator_class = _DIALECTS.get(address)
    if validator_class is None:
        return _Compiled(
            validator=None, warning=f"{member} is not checked: unknown $schema {clip(str(dialect), 100)!r}"
        )
    if depth_exceeds(schema) or len(canonical_json(schema)) > SCHEMA_BYTES_MAX:
        return _Compiled(validator=None, warning=f"{member} is not checked: it is too large or too deep")
    linear, bounded = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
    why = ""
    for patterns in (linear, bounded):
        try:
            validator = validator_class(
                cast("dict[str, object]", schema),
                validate_formats=False,
                pattern_options=patterns,
                offline=True,  # SECURITY: without this jsonschema-rs fetches http:// and file:// references
            )
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as exc:
            why = str(exc).partition("\n")[0]
        else:
            return _Compiled(validator=validator)
    return _Compiled(validator=None, warning=f"{member} is not checked: {clip(why, 200)}")


def _problems(
    errors: Iterator[jsonschema_rs.ValidationError], schema: JsonValue, arguments: JsonObject
) -> Iterable[str]:
    for count, error in enumerate(errors):
        if count == PROBLEM_COUNT_MAX:
            yield "and more"
            return
        yield _sentence(error) + _remedy(error, schema, arguments)


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    problem = clip(error.message, 300)
    return f"at {clip(path.lstrip('.'), 120)!r}: {problem}" if path else problem


def _remedy(error: jsonschema_rs.ValidationError, schema: JsonValue, arguments: JsonObject) -> str:
    """`, did you mean …?` for a misspelt or missing name."""
    known = properties_of(schema, error.schema_path[:-1])
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=unexpected):
            near = near_names(unexpected, known)
            return f", did you mean {near[0]!r}?" if near else ""
        case jsonschema_rs.ValidationErrorKind.Required(property=missing):
            given = _object_at(arguments, error.instance_path)
            extra = [name for name in given if name not in known]
            near = difflib.get_close_matches(str(missing), extra[:100], n=1, cutoff=0.6)
            return f" (you gave {near[0]!r})" if near else ""
        case _:
            return ""


def _object_at(value: JsonValue, path: list[str | int]) -> JsonObject:
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return value if isinstance(value, dict) else {}
