"""The tools offered to a client: `execute_code` with the catalog as tools, or `execute_code` alone.

The guide calls search and definitions host utilities, "not MCP tools" (H-051). They are tools here unless the setting
`catalog` is `code`: then code finds tools (`client.catalog`), and a model's context holds one definition of ours. See
docs/decisions/0024-the-catalog-as-tools.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.environments.recipes import RECIPES
from moonpool.server.mcp.definitions import CODE_ALONE_PROMPT_TEXT, EXECUTE, PROMPT_TEXT, WAIT, code_alone, tools
from moonpool.server.mcp.instructions import HOW, HOW_CODE_ALONE

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Tools, and the texts that say how to work with them."""

    tools: tuple[JsonObject, ...]
    how: str
    prompt: str
    runs: str  # the tool that runs code
    waits: str = ""  # the tool that waits for code that runs on; empty: there is none

    @property
    def names(self) -> list[str]:
        """The tool names that `tools/call` accepts."""
        return [str(tool["name"]) for tool in self.tools]


def offer_of(catalog: str, environment: str) -> Offer:
    """The tools offered with these two settings."""
    packages = RECIPES[environment].packages if environment in RECIPES else ()
    if catalog == "code":
        return Offer(
            tools=code_alone(packages), how=HOW_CODE_ALONE, prompt=CODE_ALONE_PROMPT_TEXT, runs=EXECUTE, waits=WAIT
        )
    return Offer(tools=tools(packages), how=HOW, prompt=PROMPT_TEXT, runs=EXECUTE, waits=WAIT)
