"""What a server offers beside tools, made into tools: reading resources, filling in prompts, completing arguments.

The protocol's own methods get reserved tool names (`mcp:resources/read`), so that they pass the call pipeline like
every call: resolved in the manifest, validated, decided, recorded, and reachable from every language through the
wrappers that are generated anyway. A server has them if it declares the capability; its own tools cannot be called so.
See docs/decisions/0014-resources-and-prompts-are-tools.md.

SECURITY: results are the server's text. These tools are read-only by the protocol; as with annotations, that is
believed of trusted servers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.manifest import RESERVED_PREFIX, ToolDefinition
from moonpool.upstreams.base import UpstreamProtocolError, UpstreamResultError, UpstreamResultTooLargeError
from moonpool.upstreams.completions import RecentCompletions
from moonpool.upstreams.cursors import Cursors
from moonpool.upstreams.results import check_complete

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.core.json import JsonObject, JsonValue

ITEM_COUNT_MAX: Final = 10_000
METHOD_NOT_FOUND: Final = -32601
LIST_RESOURCES: Final = f"{RESERVED_PREFIX}resources/list"
READ_RESOURCE: Final = f"{RESERVED_PREFIX}resources/read"
LIST_PROMPTS: Final = f"{RESERVED_PREFIX}prompts/list"
GET_PROMPT: Final = f"{RESERVED_PREFIX}prompts/get"
COMPLETE: Final = f"{RESERVED_PREFIX}completion/complete"
SUBSCRIBE: Final = f"{RESERVED_PREFIX}resources/subscribe"
UNSUBSCRIBE: Final = f"{RESERVED_PREFIX}resources/unsubscribe"
WAIT: Final = f"{RESERVED_PREFIX}resources/wait"

_TEXT: Final[JsonObject] = {"type": "string"}
_TEXTS: Final[JsonObject] = {"type": "object", "additionalProperties": {"type": "string"}}
_STRINGS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}


def _tool(
    name: str, title: str, description: str, inputs: JsonObject, required: list[JsonValue], gives: str
) -> JsonObject:
    kinds = {"": _STRINGS, "changed": _STRINGS, "uri": _TEXT}
    outputs: JsonObject = {gives or "values": kinds.get(gives, _OBJECTS)}
    schema: JsonObject = {"type": "object", "properties": inputs, "additionalProperties": False, "required": required}
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "outputSchema": {"type": "object", "properties": outputs, "required": [gives or "values"]},
        "annotations": {"readOnlyHint": True},
    }


_TOOLS: Final[Mapping[str, tuple[JsonObject, ...]]] = {
    "resources": (
        _tool(
            LIST_RESOURCES,
            "List resources",
            "List what this server lets be read by address (`resources`), and address patterns (`resourceTemplates`).",
            {}, [], "resources",
        ),
        _tool(
            READ_RESOURCE,
            "Read a resource",
            "Read a resource by its address. Each of `contents` has `uri`, `mimeType`, and `text` or base64 `blob`.",
            {"uri": {**_TEXT, "description": "From the list, or a template with its variables filled in."}},
            ["uri"], "contents",
        ),
    ),
    "subscriptions": (
        _tool(
            SUBSCRIBE,
            "Subscribe to a resource",
            "Have this server tell this session when a resource changes; `mcp:resources/wait` gives the news.",
            {"uri": {**_TEXT, "description": "As it is read."}}, ["uri"], "uri",
        ),
        _tool(
            UNSUBSCRIBE,
            "Unsubscribe from a resource",
            "End a subscription of this session.",
            {"uri": _TEXT}, ["uri"], "uri",
        ),
        _tool(
            WAIT,
            "Wait for a resource to change",
            "Wait until a resource that this session subscribed to may have changed: the addresses in `changed`, each "
            "once; none when nothing changed in time. Read them again then.",
            {"within_s": {"type": "number", "minimum": 0, "maximum": 3600,
                          "description": "Seconds; 30 unless given, and never longer than the call's own limit."}},
            [], "changed",
        ),
    ),
    "prompts": (
        _tool(
            LIST_PROMPTS,
            "List prompts",
            "List the prompt templates of this server, with their arguments.",
            {}, [], "prompts",
        ),
        _tool(
            GET_PROMPT,
            "Get a prompt",
            "Fill in a prompt template and get its messages.",
            {"name": _TEXT, "arguments": {**_TEXTS, "description": "Values by argument name."}},
            ["name"], "messages",
        ),
    ),
    "completions": (
        _tool(
            COMPLETE,
            "Complete an argument",
            "Ask for values that complete an argument of a prompt or a resource template.",
            {
                "prompt": {**_TEXT, "description": "The prompt's name; or give `template`."},
                "template": {**_TEXT, "description": "The resource template's address pattern."},
                "argument": _TEXT,
                "value": {**_TEXT, "description": "What is written so far."},
                "known": {**_TEXTS, "description": "Values of the arguments before it."},
            },
            ["argument"], "",
        ),
    ),
}  # fmt: skip


def offered_tools(server_id: str, capabilities: JsonValue) -> tuple[ToolDefinition, ...]:
    """The reserved tools of a server that declares these capabilities."""
    declared = dict(capabilities) if isinstance(capabilities, dict) else {}
    resources = declared.get("resources")
    declared["subscriptions"] = {} if isinstance(resources, dict) and resources.get("subscribe") is True else None
    return tuple(
        ToolDefinition(server_id=server_id, name=str(raw["name"]), raw=raw)
        for capability, tools in _TOOLS.items()
        if isinstance(declared.get(capability), dict)
        for raw in tools
    )


_LOOKS: Final = {
    "resources": (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")),
    "prompts": (("prompts/list", "prompts"),),
}
LOOK_S: Final = 5.0
"""Time limit for checking that a declared capability has content; a slower server's declaration is believed."""


class ResourcesAndPrompts:
    """Carries out calls of reserved tools. `send` sends a request and gives its raw result, or raises UpstreamError."""

    def __init__(self, server_id: str, send: Callable[[str, JsonObject], Awaitable[JsonObject]]) -> None:
        self._server_id = server_id
        self._send = send
        self._completions = RecentCompletions()

    async def present(self, capabilities: JsonValue) -> tuple[ToolDefinition, ...]:
        """The reserved tools that have content (frameworks declare empty capabilities). Raises UpstreamError."""
        declared = capabilities if isinstance(capabilities, dict) else {}
        found: JsonObject = {}
        for capability, looks in _LOOKS.items():
            for method, member in looks:
                if isinstance(declared.get(capability), dict) and await self._has(method, member):
                    found[capability] = declared[capability]
                    break
        if found and "completions" in declared:
            found["completions"] = declared["completions"]
        return offered_tools(self._server_id, found)

    async def _has(self, method: str, member: str) -> bool:
        with anyio.move_on_after(LOOK_S):
            try:
                page = await self._ask(method, {})
            except UpstreamProtocolError as exc:
                return exc.rpc_code != METHOD_NOT_FOUND
            except UpstreamResultError:
                return True
            return bool(page.get(member)) or isinstance(page.get("nextCursor"), str)
        return True

    async def call(self, name: str, arguments: JsonObject, capabilities: JsonValue) -> JsonObject:
        """A CallToolResult whose data is what the method gave. Raises UpstreamError."""
        if name not in {tool.name for tool in offered_tools(self._server_id, capabilities)}:
            problem = f"does not offer {name!r} (any more); list its tools again"
            raise UpstreamProtocolError(self._server_id, problem, for_guest=problem)
        if name == LIST_RESOURCES:
            data: JsonObject = {
                "resources": await self._pages("resources/list", "resources"),
                "resourceTemplates": await self._templates(),
            }
        elif name == LIST_PROMPTS:
            data = {"prompts": await self._pages("prompts/list", "prompts")}
        elif name == READ_RESOURCE:
            data = await self._one("resources/read", {"uri": arguments["uri"]}, "contents")
        elif name == GET_PROMPT:
            params: JsonObject = {"name": arguments["name"], "arguments": arguments.get("arguments", {})}
            data = await self._one("prompts/get", params, "messages")
        else:
            data = await self._complete(arguments)
        return {"content": [], "structuredContent": data}

    async def _ask(self, method: str, params: JsonObject) -> JsonObject:
        result = await self._send(method, params)
        check_complete(self._server_id, method, result)
        return result

    async def _templates(self) -> list[JsonValue]:
        try:
            return await self._pages("resources/templates/list", "resourceTemplates")
        except UpstreamProtocolError as exc:
            if exc.rpc_code != METHOD_NOT_FOUND:
                raise
            return []  # servers with resources need not have templates

    async def _pages(self, method: str, member: str) -> list[JsonValue]:
        """The items of all pages. Items that are not objects are left out."""
        cursors = Cursors(self._server_id, method)
        found: list[JsonValue] = []
        params: JsonObject = {}
        while True:
            page = await self._ask(method, params)
            items = page.get(member)
            if not isinstance(items, list):
                raise self._unusable(method, member)
            found += [item for item in items if isinstance(item, dict)]
            if len(found) > ITEM_COUNT_MAX:
                problem = f"lists more than {ITEM_COUNT_MAX} items in {method}"
                raise UpstreamResultTooLargeError(self._server_id, problem, for_guest=problem)
            cursor = cursors.next(page)
            if cursor is None:
                return found
            params = {"cursor": cursor}

    async def _one(self, method: str, params: JsonObject, member: str) -> JsonObject:
        result = await self._ask(method, params)
        items = result.get(member)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._unusable(method, member)
        described = {"description": result["description"]} if isinstance(result.get("description"), str) else {}
        return {**described, member: items}

    async def _complete(self, arguments: JsonObject) -> JsonObject:
        prompt, template = arguments.get("prompt"), arguments.get("template")
        if (prompt is None) == (template is None):
            problem = 'completes an argument of either a "prompt" or a "template"; give one of them'
            raise UpstreamProtocolError(self._server_id, problem, for_guest=problem)
        ref: JsonObject = {"type": "ref/prompt", "name": prompt}
        if prompt is None:
            ref = {"type": "ref/resource", "uri": template}
        argument: JsonObject = {"name": arguments["argument"], "value": arguments.get("value", "")}
        params: JsonObject = {"ref": ref, "argument": argument}
        if known := arguments.get("known"):
            params["context"] = {"arguments": known}
        return await self._completions.get(params, lambda: self._completed(params))

    async def _completed(self, params: JsonObject) -> JsonObject:
        completion = (await self._ask("completion/complete", params)).get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        if not isinstance(completion, dict) or not isinstance(values, list):
            raise self._unusable("completion/complete", "values")
        more = {key: completion[key] for key in ("total", "hasMore") if key in completion}
        return {"values": [value for value in values if isinstance(value, str)], **more}

    def _unusable(self, method: str, member: str) -> UpstreamResultError:
        problem = f'answered {method} without a list of "{member}"'
        return UpstreamResultError(self._server_id, problem, for_guest=problem)
