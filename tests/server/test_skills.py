"""A model is told of skills step by step: a line on those that fit, then the text of one, then its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from apps import DATA, fresh_data
from moonpool.features.library.model.skills import skill_source
from moonpool.features.library.skill_folder import read_skill_folder
from moonpool.features.library.table import LibraryStore
from moonpool.store.paths import library_dir
from server.raw_client import RawClient

PUBLISHED = Path(__file__).parent.parent / "data" / "skills" / "invoice-check"
HOSTILE = "---\nname: hostile\ndescription: Folds napkins.\n---\nFold.\x1b[2J\u202e\U000e0041\x00\n"


@pytest.fixture
def data() -> Path:
    folder = DATA / "face-with-skills"
    shutil.rmtree(folder, ignore_errors=True)
    store = LibraryStore(library_dir(fresh_data(folder)))
    store.save(skill_source(read_skill_folder(PUBLISHED).files, place="invoice-check"))
    store.save(skill_source({"SKILL.md": HOSTILE.encode()}, place="hostile"))
    return folder


def test_a_skill_is_disclosed_step_by_step(data: Path) -> None:
    with RawClient("-", MOONPOOL_DATA_DIR=str(data)) as client:
        told = client.handshake()["instructions"]

        def answer(tool: str, **arguments: object) -> str:
            return client.tool(tool, **arguments)["content"][0]["text"]

        found = answer("search_tools", queries=["VAT on a supplier's invoice"])
        reading = answer("search_tools", queries=["napkins"], read_only=True)
        text = answer("get_tool_definition", paths=["skills.invoice-check"])
        hostile = answer("get_tool_definition", paths=["skills.hostile"])
        missing = answer("get_tool_definition", paths=["skills.invoice-chek"])
        code = 'result = open("/wrappers/current/skills/invoice-check/references/tax-rates.md").read().count("|")'
        done = client.tool("execute_code", code=code)

    assert "invoice" not in told
    assert found.splitlines()[0] == (
        "skills.invoice-check — skill: Check supplier invoices: adds up positions, compares tax rates…"
    )
    assert "round before the last step" not in found
    assert reading == "skills.hostile — skill: Folds napkins"
    assert text.endswith("- round before the last step")
    assert hostile.splitlines()[-1] == "Fold.\\x1b[2J\\u202e\\U000e0041\\x00"
    assert "near names: invoice-check" in missing
    assert '"data":20' in done["content"][0]["text"].replace(" ", "")
