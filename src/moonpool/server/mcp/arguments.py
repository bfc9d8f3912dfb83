"""Arguments of our own tools: from JSON to frozen requests, or an error that says what to write (X-02).

The schemas of `definitions` are checked by the validator for upstream tools, so messages have the same form: the
problem, similar names, the valid parameters. A single string is accepted for a list of strings, also under the singular
name (`query`, `path`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from moonpool.core.errors import InputError
from moonpool.core.json import canonical_json
from moonpool.core.languages import is_typescript, language_of
from moonpool.engine.code_request import CodeRequest
from moonpool.pipeline.validation import SchemaChecks
from moonpool.server.mcp.connection_calls import WaitRequest
from moonpool.server.mcp.definitions import DEFINE, DEFINITIONS, EXECUTE, PATHS_MAX, SEARCH, WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.catalog.catalog import Form
    from moonpool.core.json import JsonObject, JsonValue

LIMIT_DEFAULT: Final = 5
LIMIT_MAX: Final = 50
SESSION_NAME_CHARS_MAX: Final = 100
_LISTS: Final = {SEARCH: ("queries", "query"), DEFINE: ("paths", "path")}
_CHECKS: Final = SchemaChecks()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """Arguments of `search_tools`."""

    queries: tuple[str, ...]
    server: str | None
    limit: int
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRequest:
    """Arguments of `get_tool_definition`."""

    paths: tuple[str, ...]
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteRequest:
    """Arguments of `execute_code`."""

    code: CodeRequest
    session: str | None
    preview: bool
    patience_s: float | None


ToolRequest = SearchRequest | DefinitionRequest | ExecuteRequest | WaitRequest


def read_arguments(tool: str, arguments: Mapping[str, JsonValue]) -> ToolRequest:
    """The request in `arguments`. Raises InputError, which lists all problems and the valid parameters."""
    given: JsonObject = dict(arguments)
    if tool in _LISTS:
        several, one = _LISTS[tool]
        if one in given and several not in given:
            given[several] = given.pop(one)
        if isinstance(single := given.get(several), str):
            given[several] = [single]
    if tool == WAIT and "execution" in given and "id" not in given:  # as answers call it
        given["id"] = given.pop("execution")
    definition = DEFINITIONS[tool]
    if problem := _CHECKS.arguments(definition).argument_problem(definition, given):
        raise InputError(problem.replace(f"{definition.server_id}.{tool}", tool))
    for name, value in given.items():
        _check_text(name, value)
    return _READERS[tool](given)


def _search(given: JsonObject) -> SearchRequest:
    limit = int(cast("int", given.get("limit", LIMIT_DEFAULT)))
    if not 1 <= limit <= LIMIT_MAX:
        raise InputError(f"limit is not what it may be: ask for 1 to {LIMIT_MAX} tools per query")
    return SearchRequest(
        queries=_strings(given["queries"]),
        server=cast("str | None", given.get("server")) or None,
        limit=limit,
        read_only=given.get("read_only") is True,
    )


def _define(given: JsonObject) -> DefinitionRequest:
    paths = _strings(given["paths"])
    if not 1 <= len(paths) <= PATHS_MAX:
        raise InputError(f"paths names {len(paths)} tools; ask for 1 to {PATHS_MAX} at a time")
    return DefinitionRequest(paths=paths, form=cast("Form", given.get("form", "stub")))


def _execute(given: JsonObject) -> ExecuteRequest:
    name = cast("str | None", given.get("session")) or None
    if name is not None and len(name) > SESSION_NAME_CHARS_MAX:
        raise InputError(f"the session's name has {len(name)} characters; at most {SESSION_NAME_CHARS_MAX}")
    timeout = cast("float | None", given.get("timeout_s"))
    language = cast("str | None", given.get("language"))
    preview, dry_run = given.get("preview") is True, given.get("dry_run") is True
    plan = cast("str | None", given.get("plan")) or None
    if preview and (dry_run or plan):
        raise InputError("preview runs nothing, so it goes with neither dry_run nor plan; omit one")
    code = CodeRequest(
        code=cast("str", given["code"]).encode(),
        language=language_of(language),
        typescript=is_typescript(language),
        timeout_s=None if timeout is None else float(timeout),
        dry_run=dry_run,
        plan=plan,
    )
    return ExecuteRequest(code=code, session=name, preview=preview, patience_s=_patience(given))


def _wait(given: JsonObject) -> WaitRequest:
    offset = cast("float | None", given.get("offset"))
    return WaitRequest(
        execution_id=cast("str", given["id"]),
        patience_s=_patience(given),
        offset=None if offset is None else int(offset),
        cancel=given.get("cancel") is True,
    )


def _patience(given: JsonObject) -> float | None:
    patience = cast("float | None", given.get("patience_s"))
    if patience is not None and patience < 0:
        raise InputError(f"patience_s is {patience:g}; give 0 or more seconds")
    return None if patience is None else float(patience)


def _check_text(name: str, value: JsonValue) -> None:
    """Raise InputError for a string that no record could hold."""
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        what = "half a surrogate pair, which UTF-8 cannot carry" if name != "timeout_s" else "a number out of range"
        raise InputError(f"{'the code' if name == 'code' else name} holds {what}; remove it") from None


def _strings(value: JsonValue) -> tuple[str, ...]:
    return tuple(cast("list[str]", value))


_READERS: Final = {SEARCH: _search, DEFINE: _define, EXECUTE: _execute, WAIT: _wait}
