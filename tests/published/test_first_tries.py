"""Eight published servers: what a model finds, reads and writes at the first try works, in each language.

Driven as the MCP face drives it: `search_tools`, `get_tool_definition`, `execute_code`; the answers are a model's.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from apps import open_app
from moonpool.server.mcp.answers import Answer
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.tools import Caller, CodeTools
from published import servers
from published.first_tries import FIRST_TRIES, LANGUAGES
from published.pages import open_pages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.core.json import JsonValue
    from published.first_tries import FirstTry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.slow]
_SALES = {"april.csv": (20, 30, 10), "may.csv": (15,), "june.csv": (3, 4)}


@dataclass(frozen=True, kw_only=True)
class World:
    """The face of an application over all eight, and what the programs name."""

    tools: CodeTools
    folder: Path
    named: dict[str, str]

    async def ask(self, tool: str, **arguments: JsonValue) -> Answer:
        answer = await self.tools.call(tool, arguments, Caller(answers={}))
        assert isinstance(answer, Answer)
        return answer

    def program(self, tried: FirstTry, language: str) -> str:
        code = tried.program(language)
        for word, value in {**self.named, "FOLDER": str(self.folder / language), "LANGUAGE": language}.items():
            code = code.replace(word, value)
        return code


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    folder, repository = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("repository")
    for language in LANGUAGES:
        _write_sales(folder / language)
    _commit_twelve_times(repository)
    entries = {
        "time": servers.time_server(),
        "git": servers.git(repository),
        "fetch": servers.fetch("--allow-private-ips", allow=["*"]),
        "sqlite": servers.sqlite(folder / "data.db", allow=["*"]),
        "everything": servers.everything(),
        "filesystem": servers.filesystem(folder, allow=["*"]),
        "memory": servers.memory(folder / "graph.jsonl", allow=["*"]),
        "sequential-thinking": servers.sequential_thinking(),
    }
    with open_pages() as pages:
        async with open_app(entries) as app:
            tools = CodeTools(app, Bindings())
            yield World(tools=tools, folder=folder, named={"REPOSITORY": str(repository), "PAGES": pages})
            await tools.close()


@pytest.mark.parametrize("server", FIRST_TRIES)
async def test_the_first_program_for_a_server_works_in_each_language(world: World, server: str) -> None:
    tried = FIRST_TRIES[server]
    found = await world.ask("search_tools", queries=list(tried.queries))
    paths = {line.partition(" ")[0] for line in found.text.splitlines()}
    assert paths.issuperset(tried.uses), found.text
    for form in ("stub", "typescript"):
        assert not (await world.ask("get_tool_definition", paths=list(tried.uses), form=form)).is_error

    answers = {
        language: await world.ask("execute_code", code=world.program(tried, language), language=language)
        for language in _languages()
    }
    read = {language: json.loads(answer.text) for language, answer in answers.items()}
    assert read == {key: {"ok": True, "data": tried.data} for key in answers}
    if server == "filesystem":
        for language in answers:
            written = world.folder / language / "totals.json"
            assert json.loads(written.read_text(encoding="utf-8")) == tried.data


def _languages() -> list[str]:
    """A model's Bash asks for `jq`; CI has it."""
    return [language for language in LANGUAGES if language != "bash" or shutil.which("jq")]


def _write_sales(folder: Path) -> None:
    folder.mkdir()
    for name, amounts in _SALES.items():
        rows = "".join(f"item {place},{amount}\n" for place, amount in enumerate(amounts))
        (folder / name).write_text(f"item,amount\n{rows}", encoding="utf-8")
    (folder / "notes.txt").write_text("no table\n", encoding="utf-8")


def _commit_twelve_times(repository: Path) -> None:
    """Each adds one line more than the one before: 78 in all."""
    for command in (["init", "-q"], ["config", "user.name", "T"], ["config", "user.email", "t@example.com"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    for number in range(1, 13):
        (repository / f"{number}.txt").write_text("line\n" * number, encoding="utf-8")
        for command in (["add", "."], ["commit", "-qm", f"file {number}"]):
            subprocess.run(["git", *command], cwd=repository, check=True)
