"""What clients are offered now: tools of the current snapshot, and resources and prompts as their servers list them.

Only servers whose entry says so (`expose`) are seen, and of these nothing that policy denies whatever the arguments
are: that is hidden, and answers like what does not exist. Resources keep their addresses: one that two servers list
belongs to the first of them in the configuration, and the other's cannot be reached.

SECURITY: lists are the servers'. The upstream bounds them; items of another shape are left out, secrets are redacted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.errors import MoonpoolError
from moonpool.core.manifest import RESERVED_PREFIX, ToolDefinition
from moonpool.policy import CallFacts, Verdict, decide
from moonpool.redaction.redactor import Tally
from moonpool.server.mcp.direct.names import public_names
from moonpool.server.mcp.direct.shown import URI_CHARS_MAX
from moonpool.upstreams.resources_and_prompts import GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, READ_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.mcp.direct.names import Key

LIST_S: Final = 20.0
"""How long one server may take to list its resources or prompts. Clients time out after a minute."""
FRESH_S: Final = 1.0
"""Lists of a moment ago are not asked for again."""
LINKS_MAX: Final = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """Tools by the names that clients use. Those in `hidden` exist and may not be seen."""

    tools: Mapping[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    hidden: Mapping[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLists:
    """Resources, templates and prompts, each with the server that it belongs to."""

    resources: Mapping[str, tuple[str, JsonObject]] = field(default_factory=dict[str, "tuple[str, JsonObject]"])
    templates: Mapping[str, tuple[str, JsonObject]] = field(default_factory=dict[str, "tuple[str, JsonObject]"])
    prompts: Mapping[str, tuple[Key, JsonObject]] = field(default_factory=dict[str, "tuple[Key, JsonObject]"])

    def server_of(self, uri: str) -> str | None:
        """The server of a resource: the one that lists it, else the one whose template fits best."""
        if uri in self.resources:
            return self.resources[uri][0]
        fitting = [(fixed, server_id) for pattern, (server_id, _) in self.templates.items()
                   if (fixed := _fixed_chars(pattern, uri)) is not None]  # fmt: skip
        return max(fitting, key=lambda one: one[0])[1] if fitting else None

    def missing(self, prompt: str, given: Mapping[str, str]) -> list[str]:
        """Arguments that a prompt needs and that are not `given`."""
        needed = [
            one.get("name") for one in _objects(self.prompts[prompt][1].get("arguments")) if one.get("required") is True
        ]
        return [name for name in needed if isinstance(name, str) and name not in given]


class Offered:
    """What one principal is offered."""

    def __init__(self, registry: ToolRegistry, grant: CallerGrant, redactor: Redactor) -> None:
        self._registry, self._grant, self._redactor = registry, grant, redactor
        self._of: tuple[Manifest, OfferedTools] | None = None
        self._lists, self._listed_at = OfferedLists(), float("-inf")
        self._listing: asyncio.Task[OfferedLists] | None = None
        self._links: OrderedDict[str, str] = OrderedDict()

    @property
    def manifest(self) -> Manifest | None:
        """The tools of all servers that clients may use; None before anything was listed."""
        snapshot = self._registry.current
        return None if snapshot is None else snapshot.direct

    async def tools(self) -> OfferedTools:
        """The tools as they are now; the first time all servers are asked."""
        return self._tools_of((await self._registry.snapshot()).direct)

    def tools_now(self) -> OfferedTools:
        """Those that are known already."""
        manifest = self.manifest
        return OfferedTools() if manifest is None else self._tools_of(manifest)

    def offers(self, server_id: str, tool: str) -> bool:
        """Whether a server has this tool and policy does not always deny it."""
        found = None if self.manifest is None else self.manifest.find(server_id, tool)
        return found is not None and not self._is_hidden(found)

    async def lists(self, *, fresh: bool = False) -> OfferedLists:
        """Resources and prompts as their servers list them; `fresh`: not those of a moment ago."""
        loop = asyncio.get_running_loop()
        if self._listing is None and (fresh or loop.time() - self._listed_at >= FRESH_S):
            self._listing = asyncio.ensure_future(self._list())
            self._listing.add_done_callback(self._listed)
        if self._listing is not None:
            await asyncio.shield(self._listing)
        return self._lists

    @property
    def lists_now(self) -> OfferedLists:
        """Those that are known already."""
        return self._lists

    def outdated(self) -> None:
        """A server says that a list of it changed."""
        self._listed_at = float("-inf")

    def link(self, server_id: str, uris: list[str]) -> None:
        """A result of this server named these addresses, which it need not list."""
        for uri in uris:
            if len(uri) <= URI_CHARS_MAX:
                self._links.setdefault(uri, server_id)
                self._links.move_to_end(uri)
        while len(self._links) > LINKS_MAX:
            self._links.popitem(last=False)

    async def server_of(self, uri: str) -> str | None:
        """The server that a resource is read from: that lists it, or has a template for it, or named it in a result."""
        for fresh in (False, True):
            lists = await self.lists() if fresh else self._lists
            found = lists.server_of(uri) or self._links.get(uri)
            if found is not None:
                return found if self.offers(found, READ_RESOURCE) else None
        return None

    async def close(self) -> None:
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    def _tools_of(self, manifest: Manifest) -> OfferedTools:
        if self._of is None or self._of[0] is not manifest:
            own = [tool for tool in manifest.tools() if not tool.name.startswith(RESERVED_PREFIX)]
            hidden = {tool.key for tool in own if self._is_hidden(tool)}
            seen = {tool.key: tool for tool in own if tool.key not in hidden}
            unseen = {tool.key: tool for tool in own if tool.key in hidden}
            offered = OfferedTools(
                tools={name: seen[key] for name, key in public_names(seen, self._registry.prefixes).items()},
                hidden={name: unseen[key] for name, key in public_names(unseen, self._registry.prefixes).items()},
            )
            self._of = manifest, offered
        return self._of[1]

    def _is_hidden(self, tool: ToolDefinition) -> bool:
        trust = self._grant.servers.get(tool.server_id)
        facts = CallFacts(
            tool=tool, trusted=trust is not None and trust.trusted, principal=self._grant.principal, look_alikes=""
        )
        return decide(self._grant.policy.loosest, facts).verdict is Verdict.DENY

    def _listed(self, task: asyncio.Task[OfferedLists]) -> None:
        self._listing = None
        if not task.cancelled() and task.exception() is None:
            self._lists, self._listed_at = task.result(), asyncio.get_running_loop().time()

    async def _list(self) -> OfferedLists:
        await self._registry.snapshot()
        servers = [one for one in self._registry.direct_ids if self.offers(one, READ_RESOURCE)]
        prompting = [one for one in self._registry.direct_ids if self.offers(one, GET_PROMPT)]
        found, prompted = await asyncio.gather(
            asyncio.gather(*(self._ask(one, LIST_RESOURCES) for one in servers)),
            asyncio.gather(*(self._ask(one, LIST_PROMPTS) for one in prompting)),
        )
        resources, templates = dict[str, tuple[str, "JsonObject"]](), dict[str, tuple[str, "JsonObject"]]()
        for server_id, data in zip(servers, found, strict=True):
            for item in _objects(data.get("resources")):
                resources.setdefault(str(item.get("uri", "")), (server_id, item))
            for item in _objects(data.get("resourceTemplates")):
                templates.setdefault(str(item.get("uriTemplate", "")), (server_id, item))
        by_key: dict[Key, JsonObject] = {}
        for server_id, data in zip(prompting, prompted, strict=True):
            for item in _objects(data.get("prompts")):
                if isinstance(name := item.get("name"), str) and name:
                    by_key.setdefault((server_id, name), item)
        prompts = {name: (key, by_key[key]) for name, key in public_names(by_key, self._registry.prefixes).items()}
        return OfferedLists(resources=resources, templates=templates, prompts=prompts)

    async def _ask(self, server_id: str, tool: str) -> JsonObject:
        """What a server lists, redacted; nothing when it fails: the others' are there."""
        upstream = self._registry.get(server_id)
        if upstream is None:
            return {}
        try:
            result = await upstream.call_tool(tool, {}, timeout_s=LIST_S)
        except MoonpoolError as error:
            _log.warning("what server %r offers beside tools is left out: %s", server_id, error)
            return {}
        data = cast("JsonObject", result.get("structuredContent"))
        return await asyncio.to_thread(self._redactor.json_object, data, Tally())


def _objects(given: Any) -> list[JsonObject]:
    return [one for one in cast("list[Any]", given) if isinstance(one, dict)] if isinstance(given, list) else []


def _fixed_chars(pattern: str, uri: str) -> int | None:
    """How many fixed characters a URI template has around its variables, if `uri` begins and ends with them.

    SECURITY: a server wrote the pattern, so nothing of it is run as an expression.
    """
    head, opened, _ = pattern.partition("{")
    _, closed, tail = pattern.rpartition("}")
    if not opened or not closed or not head or len(uri) < len(head) + len(tail):
        return len(pattern) if pattern == uri else None
    return len(head) + len(tail) if uri.startswith(head) and uri.endswith(tail) else None
