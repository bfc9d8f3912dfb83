"""Validation of arguments and structured results against the JSON Schemas that servers declare.

The broker checks against the real schema; the types in wrappers only help the writer. A refused call says what to write
instead: path, problem, near names and the valid parameters. Dialect is 2020-12 unless `$schema` names another one that
is known. Formats are annotations here: the server decides whether a date suits it.

SECURITY: schemas are untrusted. Nothing is ever fetched for a `$ref`, patterns run on a linear-time engine (or, for
look-around, under a backtracking limit), sizes and depths are capped before anything is compiled. A schema that cannot
be used accepts any object and leaves a warning: validation is a service to the caller, not a boundary, and the server
checks its own input. Policy and approval never depend on it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import jsonschema_rs
import msgspec

from moonpool.core.json import JsonObject, JsonValue, canonical_json, digest_bytes
from moonpool.core.phrases import clip, near_names, parameter_list, properties_of
from moonpool.pipeline.schema_cost import LOOKS_MAX, Uncountable, looks_by_level, too_costly
from moonpool.policy import look_alikes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from moonpool.core.manifest import ToolDefinition

ARGUMENT_BYTES_MAX: Final = 16 * 1024**2
LARGE_BYTES: Final = 256 * 1024
"""From this size on, work on arguments or a result is done in a worker thread, so that the loop goes on."""
DEPTH_MAX: Final = 64
SCHEMA_BYTES_MAX: Final = 1024**2
PROBLEM_COUNT_MAX: Final = 5
_MESSAGE_LENGTH_MAX: Final = 4000
_BACKTRACK_LIMIT: Final = 10_000
_OFTEN: Final = "which would look at them too often; send less at a time"

_DIALECTS: Final[dict[str, type[jsonschema_rs.Validator]]] = {
    "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCheck:
    """One compiled schema. Immutable; may be used on any thread."""

    validator: jsonschema_rs.Validator | None  # None: everything passes
    warning: str = ""  # why everything passes, where a schema was declared
    looks: tuple[int, ...] = ()  # see `schema_cost`

    def argument_problem(self, tool: ToolDefinition, arguments: JsonObject, *, near: bool = True) -> str:
        """What is wrong with `arguments` and, if `near`, what was meant; nothing when they fit."""
        if self.validator is None:
            return ""
        if self.looks and too_costly(arguments, self.looks):
            return f"arguments of {tool.server_id}.{tool.name} are too deep or too many for its schema, {_OFTEN}"
        if self.validator.is_valid(arguments):
            return ""
        return _refusal(tool, _problems(self.validator.iter_errors(arguments), tool.input_schema, arguments, near=near))

    def known_problem(self, tool: ToolDefinition, arguments: JsonObject, unread: Unread, *, near: bool = True) -> str:
        """`argument_problem` for arguments of which only a part is known: what is wrong whatever the rest is."""
        if self.validator is None or (self.looks and too_costly(arguments, self.looks)):
            return ""
        certain = (error for error in self.validator.iter_errors(arguments) if unread.does_not_excuse(error))
        return _refusal(tool, _problems(certain, tool.input_schema, arguments, near=near))

    def result_problem(self, structured: JsonValue) -> str:
        """How `structuredContent` deviates from the output schema; nothing when it fits or none is declared.

        A deviation is a warning, not a failure: the data came from the server that wrote the schema, and losing it
        helps nobody (H-076). The warning goes to the outcome and the audit trail, so it holds no value of the result.
        """
        if self.validator is None:
            return self.warning
        if self.looks and too_costly(structured, self.looks):
            return "structuredContent is not checked: its outputSchema would look at it too often"
        error = next(iter(self.validator.iter_errors(structured)), None)
        return "" if error is None else f"structuredContent does not fit outputSchema: {_sentence(error)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Places in arguments whose value is not known, and objects that may have more members than are known."""

    values: frozenset[tuple[str | int, ...]] = frozenset()
    open: frozenset[tuple[str | int, ...]] = frozenset()

    def does_not_excuse(self, error: jsonschema_rs.ValidationError) -> bool:
        """Whether `error` stays whatever stands in the places that are not known.

        What is wrong with the names of an object's members does not depend on the members' values.
        """
        path = tuple(error.instance_path)
        if any(path[: len(place)] == place for place in self.values):
            return False
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required():
                return path not in self.open
            case jsonschema_rs.ValidationErrorKind.AdditionalProperties():
                return True
            case _:
                return not any(place[: len(path)] == path for place in self.values | self.open)


class SchemaChecks:
    """Compiled schemas by tool digest, the least recently used ones forgotten. One per broker, used on the loop."""

    def __init__(self, *, entry_count_max: int = 2048) -> None:
        self._compiled: OrderedDict[tuple[str, str], SchemaCheck] = OrderedDict()
        self._entry_count_max = entry_count_max

    def arguments(self, tool: ToolDefinition) -> SchemaCheck:
        return self._get(tool, "inputSchema")

    def result(self, tool: ToolDefinition) -> SchemaCheck:
        return self._get(tool, "outputSchema")

    def _get(self, tool: ToolDefinition, member: str) -> SchemaCheck:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentCheck:
    """Arguments as they will leave, or the problem with them."""

    encoded: bytes = b""  # canonical JSON
    digest: str = ""
    problem: str = ""
    look_alikes: str | None = None  # members that a server may take for one another, for policy; None: not looked for


def encoded_size(value: JsonObject) -> int | None:
    """Bytes of `value` as JSON, quickly; None when it cannot be JSON or is bottomless."""
    try:
        return len(msgspec.json.encode(value))
    except (ValueError, TypeError, RecursionError):
        return None


def check_arguments(
    tool: ToolDefinition, arguments: JsonObject, check: SchemaCheck, *, near: bool = True
) -> ArgumentCheck:
    """Every check of arguments: depth, encoding, size, schema. Pure, so large ones are checked in a thread.

    A problem says what was meant if `near`, which takes some milliseconds to find out.
    """
    name = f"{tool.server_id}.{tool.name}"
    if depth_exceeds(arguments):
        return ArgumentCheck(problem=f"arguments of {name} are nested deeper than {DEPTH_MAX} levels; flatten them")
    try:
        encoded = canonical_json(arguments)
    except ValueError:
        what = "a value that JSON cannot carry (NaN, infinity or half a surrogate pair); replace it"
        return ArgumentCheck(problem=f"arguments of {name} hold {what}")
    if len(encoded) > ARGUMENT_BYTES_MAX:
        limit = f"at most {ARGUMENT_BYTES_MAX} are taken; send less at a time"
        return ArgumentCheck(problem=f"arguments of {name} are {len(encoded)} bytes; {limit}")
    problem = check.argument_problem(tool, arguments, near=near)
    return ArgumentCheck(
        encoded=encoded, digest=digest_bytes(encoded), problem=problem, look_alikes=look_alikes(arguments)
    )


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


def _compile(schema: JsonValue, member: str) -> SchemaCheck:
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        return SchemaCheck(validator=None)
    dialect = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    address = str(dialect).partition("://")[2].rstrip("#")
    validator_class = _DIALECTS.get(address)
    if validator_class is None:
        return SchemaCheck(
            validator=None, warning=f"{member} is not checked: unknown $schema {clip(str(dialect), 100)!r}"
        )
    if depth_exceeds(schema) or len(canonical_json(schema)) > SCHEMA_BYTES_MAX:
        return SchemaCheck(validator=None, warning=f"{member} is not checked: it is too large or too deep")
    try:
        looks = looks_by_level(schema)
    except Uncountable as uncountable:
        return SchemaCheck(validator=None, warning=f"{member} is not checked: {uncountable}")
    if looks and looks[0] > LOOKS_MAX:
        return SchemaCheck(validator=None, warning=f"{member} is not checked: it looks at everything too often")
    linear, bounded = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
    why = ""
    for patterns in (linear, bounded):
        try:
            validator = validator_class(
                cast("dict[str, object]", schema),
                validate_formats=False,
                mask="a value" if member == "outputSchema" else None,  # warnings about results reach the audit trail
                pattern_options=patterns,
                offline=True,  # SECURITY: without this jsonschema-rs fetches http:// and file:// references
            )
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as exc:
            why = str(exc).partition("\n")[0]
        else:
            return SchemaCheck(validator=validator, looks=looks)
    return SchemaCheck(validator=None, warning=f"{member} is not checked: {clip(why, 200)}")


def _refusal(tool: ToolDefinition, problems: Iterable[str]) -> str:
    """The whole sentence; empty when there is no problem."""
    found = "; ".join(problems)
    if not found:
        return ""
    name = f"{tool.server_id}.{tool.name}"
    return clip(f"arguments do not fit {name}: {found}. {parameter_list(name, tool.input_schema)}", _MESSAGE_LENGTH_MAX)


def _problems(
    errors: Iterator[jsonschema_rs.ValidationError], schema: JsonValue, arguments: JsonObject, *, near: bool
) -> Iterable[str]:
    for count, error in enumerate(errors):
        if count == PROBLEM_COUNT_MAX:
            yield "and more"
            return
        yield _sentence(error) + (_remedy(error, schema, arguments) if near else "")


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
            declared = frozenset(known)
            near = near_names([str(missing)], [name for name in given if name not in declared][:100])
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
