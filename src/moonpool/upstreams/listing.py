"""What the pages of `tools/list` come to, also when half of them is broken. Pure.

A tool needs a name and nothing else; its JSON is kept member by member as the server sent it. What cannot be used is
left out with a warning that names it, and never takes another tool with it. A server that never stops paging is an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.manifest import RESERVED_PREFIX, ToolDefinition
from moonpool.core.phrases import said
from moonpool.upstreams.base import UpstreamProtocolError, UpstreamResultTooLargeError
from moonpool.upstreams.cursors import Cursors

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

TOOL_COUNT_MAX: Final = 10_000
TOOL_NAME_LENGTH_MAX: Final = 1024
LISTING_BYTES_MAX: Final = 16 * 1024**2
"""Of all pages: definitions are searched, compared and written out whenever a server says that they changed."""
WARNING_COUNT_MAX: Final = 200


class ListingPages:
    """Collects pages until `next_cursor` is None."""

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._tools: dict[str, ToolDefinition] = {}
        self._warnings: list[str] = []
        self._cursors = Cursors(server_id, "tools/list", bytes_max=LISTING_BYTES_MAX)

    def add(self, page: JsonObject) -> str | None:
        """Take in one page and return the cursor of the next; an empty string is a cursor too (D-050)."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise UpstreamProtocolError(self._server_id, 'answered tools/list without a list of "tools"')
        for raw in tools:
            self._add_tool(raw)
        if not isinstance(page.get("nextCursor"), str | None):
            self.warn("the listing may be incomplete: nextCursor is not a string")
        return self._cursors.next(page)

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(self._tools.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def warn(self, text: str) -> None:
        if len(self._warnings) < WARNING_COUNT_MAX:
            self._warnings.append(text)

    def drop(self, name: str, reason: str) -> None:
        del self._tools[name]
        self.warn(f"tool {said(name, 80)!r} was left out: {reason}")

    def _add_tool(self, raw: JsonValue) -> None:
        if not isinstance(raw, dict):
            self.warn(f"a tool was left out: it is {type(raw).__name__}, not an object")
            return
        name = raw.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= TOOL_NAME_LENGTH_MAX:
            self.warn(f"a tool was left out: it has no usable name ({said(repr(name), 80)})")
            return
        if name.startswith(RESERVED_PREFIX):  # SECURITY: it would be taken for a method of the protocol
            self.warn(f"tool {said(name, 80)!r} was left out: names that begin with {RESERVED_PREFIX!r} are reserved")
            return
        if name in self._tools:
            self.warn(f"tool {said(name, 80)!r} stands twice; the first one is used")
            return
        if len(self._tools) >= TOOL_COUNT_MAX:
            raise UpstreamResultTooLargeError(self._server_id, f"lists more than {TOOL_COUNT_MAX} tools")
        if not isinstance(raw.get("inputSchema"), dict | bool):
            self.warn(f"tool {said(name, 80)!r} declares no inputSchema object; any arguments are let through")
        self._tools[name] = ToolDefinition(server_id=self._server_id, name=name, raw=raw)
