"""The four tools as a model sees them, and the prompt `code_mode`; both also where code finds tools by itself.

They are all that Moonpool costs in a model's context: together at most 600 o200k tokens, the same with one upstream
tool as with two hundred (H-052). A test counts them. `execute_code` names the packages of the environment. Bounds of
numbers are not in the schemas, which every conversation pays for; `arguments` says what is wrong with one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.languages import LANGUAGES, TYPESCRIPT
from moonpool.core.manifest import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject, JsonValue

SEARCH: Final = "search_tools"
DEFINE: Final = "get_tool_definition"
EXECUTE: Final = "execute_code"
WAIT: Final = "wait"
PATHS_MAX: Final = 20

_STRINGS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}


def _object(required: str, properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


_SEARCH: Final[JsonObject] = {
    "name": SEARCH,
    "description": (
        "Find tools that code can call. Each query: 3-6 words naming service and action, like "
        '"github list open issues"; ask for all at once.'
    ),
    "inputSchema": _object(
        "queries",
        {
            "queries": _STRINGS,
            "server": {"type": "string"},
            "read_only": {"type": "boolean"},
            "limit": {"type": "integer", "description": "Per query"},
        },
    ),
    "annotations": {"readOnlyHint": True},
}
_DEFINE: Final[JsonObject] = {
    "name": DEFINE,
    "description": "Signature, parameters and result of tools, to read before you call them.",
    "inputSchema": _object(
        "paths",
        {
            "paths": {**_STRINGS, "description": 'As search_tools shows them, or "server.tool"'},
            "form": {"type": "string", "enum": ["stub", "typescript", "json"]},
        },
    ),
    "annotations": {"readOnlyHint": True},
}
_FINDING: Final = (
    "Find tools in code first, print what you need:\n"
    "from client.catalog import search, definition\n"
    'for hit in search(["github list open issues"]): print(hit)\n'
    'print(definition("servers.<server>.<tool>"))\n'
)


def _run_description(packages: Sequence[str], finding: str = "") -> str:
    has = ", ".join(packages) or "standard library only"
    return (
        f"Run Python 3 ({has}), Node or Bash in a sandbox without network. {finding}Tools are async functions:\n"
        "import servers.<server> as s; r = await s.<tool>(<parameter>=...)\n"
        "Node: import * as s from './servers/<server>/index.js'; await s.<camelCaseTool>({...})\n"
        "Bash: moonpool call <server>.<tool> '{...}' (prints JSON)\n"
        "A call returns {ok, data, error}; other keys and len() reach into data. "
        "`result`, else the last expression, comes back as `data`, beside prints, figures and /workspace files. "
        "Loop, filter and combine here, return summaries. "
        "The same `session` (any name) keeps variables and files."
    )


_EXECUTE: Final[JsonObject] = {
    "name": EXECUTE,
    "inputSchema": _object(
        "code",
        {
            "code": {"type": "string"},
            "language": {"type": "string", "enum": [*LANGUAGES, TYPESCRIPT]},
            "session": {"type": "string"},
            "timeout_s": {"type": "number", "description": "Default 60"},
            "patience_s": {"type": "number", "description": "Then answer with an id"},
            "preview": {"type": "boolean", "description": "Only list calls and mistakes (Python)"},
            "dry_run": {"type": "boolean", "description": "Only plan changing calls"},
            "plan": {"type": "string", "description": "plan_id of a dry run, once the user approved it"},
        },
    ),
    "outputSchema": {"type": "object"},  # {ok, data}, {ok, error} or {state, id}; see `answers`
}
_WAIT: Final[JsonObject] = {
    "name": WAIT,
    "description": "Outcome of code that runs on past patience_s, or its new output.",
    "inputSchema": _object(
        "id",
        {
            "id": {"type": "string"},
            "patience_s": {"type": "number"},
            "offset": {"type": "integer"},
            "cancel": {"type": "boolean"},
        },
    ),
}


def tools(packages: Sequence[str]) -> tuple[JsonObject, ...]:
    """All four tools; code can import `packages` beside the standard library."""
    return (_SEARCH, _DEFINE, {**_EXECUTE, "description": _run_description(packages)}, _WAIT)


def code_alone(packages: Sequence[str]) -> tuple[JsonObject, ...]:
    """The tools where code finds the others."""
    return ({**_EXECUTE, "description": _run_description(packages, _FINDING)}, _WAIT)


TOOLS: Final = tools(())
DEFINITIONS: Final = {
    str(raw["name"]): ToolDefinition(server_id="moonpool", name=str(raw["name"]), raw=raw) for raw in TOOLS
}

PROMPT_NAME: Final = "code_mode"
PROMPT_DESCRIPTION: Final = "Work in code mode: find tools, write code that calls them, return summaries"


def _prompt(disclosing: str) -> str:
    return f"""\
You solve tasks by writing Python code that runs in a sandbox.

Rules:
- Do not call MCP tools directly; call them from code through the wrappers in `servers.<module>`.
- Disclose tools progressively: {disclosing}.
- Set `result` to exactly one JSON value. What you print is a log, not the result.
- Keep large intermediate data inside the sandbox; return only summaries and aggregates.
"""


PROMPT_TEXT: Final = _prompt(
    "1) `search_tools` with short queries; 2) `get_tool_definition` when you need parameters or results; "
    "3) `execute_code`"
)
CODE_ALONE_PROMPT_TEXT: Final = _prompt(
    "in code, `from client.catalog import search, definition`: 1) `search` with short queries; 2) `definition` when "
    "you need parameters or results; 3) call them"
)


def model_view(tool: JsonObject) -> dict[str, JsonValue]:
    """A definition in the form that a model's API takes."""
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]}
