"""Says a script to a server and counts, in o200k tokens, what its model reads and writes.

Read are the handshake's instructions, the tools as a Messages API takes them, and the text of every answer; written
are the names and arguments of calls. Each is counted once, as if nothing were sent again. The place of the files is
counted as FOLDER on both sides, so that a longer temporary folder costs nobody anything.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moonpool.catalog.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from mcp import Client

FOLDER = "/home/ada"
"""What is counted where the real folder stands."""


class ScriptError(Exception):
    """A turn did not go as its script says: the script is not what a model would see. The text has the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call. `fails` where the script's author found that it does, and goes on to repair it."""

    tool: str
    arguments: Mapping[str, Any]
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a model says; `answer` makes its answer of the texts that it read."""

    turns: Sequence[Turn]
    answer: Callable[[Sequence[str]], Any]


@dataclass(slots=True, kw_only=True)
class Count:
    """Tokens of one conversation, and how it ended."""

    read: dict[str, int] = field(default_factory=dict[str, int])  # by instructions, definitions and tools
    wrote: int = 0
    turns: int = 0
    repairs: int = 0
    right: bool = False
    texts: list[str] = field(default_factory=list[str])

    @property
    def read_total(self) -> int:
        return sum(self.read.values())

    @property
    def total(self) -> int:
        return self.read_total + self.wrote


async def converse(client: Client, script: Script, *, folder: Path, expected: Any) -> Count:
    """Hold the conversation. Raises ScriptError."""
    count = Count()

    def read(kind: str, text: str) -> None:
        shown = text.replace(str(folder), FOLDER)
        count.texts.append(shown)
        count.read[kind] = count.read.get(kind, 0) + count_tokens(shown)

    read("instructions", client.instructions or "")
    read("definitions", "\n".join([_as_shown(tool) for tool in (await client.list_tools()).tools]))
    answers: list[str] = []
    for turn in script.turns:
        said = json.dumps({"name": turn.tool, "input": turn.arguments}, ensure_ascii=False, separators=(",", ":"))
        count.wrote += count_tokens(said)
        arguments = json.loads(json.dumps(turn.arguments).replace(FOLDER, str(folder)))
        answer = await client.call_tool(turn.tool, arguments)
        text = "\n".join(getattr(block, "text", "") for block in answer.content)
        read(turn.tool, text)
        answers.append(text)
        count.turns += 1
        count.repairs += turn.fails
        if bool(answer.is_error) != turn.fails:
            raise ScriptError(f"{turn.tool} {'failed' if answer.is_error else 'did not fail'}: {text[:2000]}")
    count.right = script.answer(answers) == expected
    return count


def _as_shown(tool: Any) -> str:
    shown = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


@asynccontextmanager
async def open_client(command: Sequence[str], env: Mapping[str, str], folder: Path) -> AsyncGenerator[Client]:
    """A client of the server that `command` starts; what the server logs goes into `folder`."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  costs a second
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    with (folder / "servers.log").open("a", encoding="utf-8") as log:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env), cwd=folder)
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            yield client
