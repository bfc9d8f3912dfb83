"""A model finds saved actions among the tools, reads how they are called, imports them, and keeps none itself."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, fresh_data
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.table import LibraryStore
from moonpool.store.paths import library_dir
from server.raw_client import RawClient

if TYPE_CHECKING:
    from pathlib import Path

CODE = '''
async def run(numbers: list[int]) -> int:
    """Add up numbers."""
    IMPLEMENTATION = sum(numbers)
    return IMPLEMENTATION
'''


def action(name: str, code: str) -> LibrarySource:
    return LibrarySource(kind="action", name=name, files={ACTION_FILE: code.encode()})


@pytest.fixture
def data() -> Path:
    folder = DATA / "face-with-actions"
    shutil.rmtree(folder, ignore_errors=True)
    LibraryStore(library_dir(fresh_data(folder))).save(action("math.total", CODE))
    return folder


@pytest.mark.req("I-103")
def test_a_model_finds_reads_previews_and_imports_what_a_person_kept(data: Path) -> None:
    store = LibraryStore(library_dir(data))
    with RawClient("-", MOONPOOL_DATA_DIR=str(data)) as client:
        told = client.handshake()["instructions"]

        def answer(tool: str, **arguments: Any) -> str:
            return client.tool(tool, **arguments)["content"][0]["text"]

        found = answer("search_tools", queries=["add up numbers"])
        reading = answer("search_tools", queries=["add up numbers"], read_only=True)
        stub = answer("get_tool_definition", paths=["actions.math.total"])
        whole = json.loads(answer("get_tool_definition", paths=["actions.math.total"], form="json"))
        missing = answer("get_tool_definition", paths=["actions.math.totl"])
        code = "from actions.math.total import run\nresult = await run([1, 2])"
        preview = client.tool("execute_code", code=code, preview=True)
        done = client.tool("execute_code", code=code)
        store.save(action("math.more", CODE.replace("Add up", "Also add up")))
        later = answer("search_tools", queries=["also add up numbers"])

    assert told.splitlines()[1] == "actions (1): saved code and guides; a search finds them too"
    assert found == "actions.math.total — action: Add up numbers"
    assert "actions" not in reading
    assert stub.startswith("from actions.math.total import run\n\nasync def run(numbers: list[int]) -> int:")
    assert whole["parameters"]["required"] == ["numbers"]
    assert "near names: math.total" in missing
    assert preview["structuredContent"]["data"]["imports"] == [{"line": 1, "path": "actions.math.total.run"}]
    assert done["structuredContent"]["data"] == 3
    assert later.splitlines()[0] == "actions.math.more — action: Also add up numbers"
    assert "IMPLEMENTATION" not in "".join([told, found, stub, str(whole), missing, str(preview), later])
