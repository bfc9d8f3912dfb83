"""Skills from a sandbox's side: their files are read, their scripts imported and run, and none of it can be changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from apps import DATA, fresh_data, open_app, run
from moonpool.bootstrap.replays import replay_run
from moonpool.engine.code_request import CodeRequest
from moonpool.features.library.model.skills import skill_source
from moonpool.features.library.skill_folder import read_skill_folder
from moonpool.features.library.table import LibraryStore
from moonpool.replay.report import ReplayEnd
from moonpool.replay.service import ReplayRequest
from moonpool.store.paths import library_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio
PUBLISHED = Path(__file__).parent.parent / "data" / "skills" / "invoice-check"
PAGE = (Path(__file__).parents[2] / "docs/how-to/keep-actions-and-skills.md").read_text(encoding="utf-8")
FILES = read_skill_folder(PUBLISHED).files
FOLDER = "/wrappers/current/skills/invoice-check"


@pytest.fixture(scope="module")
def store() -> LibraryStore:
    data = DATA / "with-skills"
    shutil.rmtree(data, ignore_errors=True)
    kept = LibraryStore(library_dir(fresh_data(data)))
    kept.save(skill_source(FILES, place="invoice-check"))
    return kept


@pytest.fixture(scope="module")
async def app(store: LibraryStore) -> AsyncGenerator[Tenant]:
    async with open_app(data_dir=DATA / "with-skills") as opened:
        yield opened


async def test_code_reads_every_file_of_a_skill_as_it_is(app: Tenant) -> None:
    code = f"""
import asyncio
import hashlib, os
root, found = "{FOLDER}", {{}}
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        found[os.path.relpath(path, root)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
result = [found, open("skills/invoice-check/assets/logo.png", "rb").read(4).hex()]
"""
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()}
    assert envelope.data == [digests, "89504e47"]


async def test_scripts_are_imported_and_find_the_files_beside_them(app: Tenant) -> None:
    code = """
from skills.invoice_check.scripts.check_totals import check
import skills
rows = [{"id": "1", "net": "100", "gross": "119"}, {"id": "2", "net": "100", "gross": "120.50"}]
about = skills.invoice_check.__doc__
off = {name: str(by) for name, by in check(rows, country="DE").items()}
result = {"off": off, "dir": skills.__all__, "about": about,
          "folder": skills.invoice_check.FOLDER}
"""
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    found = envelope.data
    assert isinstance(found, dict)
    assert found["off"] == {"2": "1.50"}
    assert found["dir"] == ["invoice_check"]
    assert "SKILL.md there says how to use it" in found["about"]
    assert found["folder"] == FOLDER


async def test_the_code_of_the_page_runs(app: Tenant) -> None:
    section = PAGE.partition("## Skills")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    envelope = await run(app, f"{code}\nresult = [rates.count('|'), callable(check)]")
    assert envelope.ok, envelope.error
    assert envelope.data == [20, True]


async def test_bash_reads_and_runs_what_is_there(app: Tenant) -> None:
    code = f"head -2 skills/INDEX.md; sh {FOLDER}/scripts/count-rows.sh {FOLDER}/assets/template.csv; ls skills"
    envelope = await run(app, code, language="bash")
    assert envelope.ok, envelope.error
    assert envelope.extras["stdout"].split()[-4:] == ["2", "INDEX.md", "__init__.py", "invoice-check"]


async def test_node_reads_what_is_there(app: Tenant) -> None:
    code = f"""
const fs = require("fs")
result = [fs.readFileSync("{FOLDER}/references/tax-rates.md", "utf8").includes("| DE | 19 |"),
          fs.readFileSync("{FOLDER}/assets/logo.png").length]
"""
    envelope = await run(app, code, language="node")
    assert envelope.ok, envelope.error
    assert envelope.data == [True, len(FILES["assets/logo.png"])]


async def test_no_code_can_change_a_skill(app: Tenant, store: LibraryStore) -> None:
    code = f"""
import os, shutil
root, done = "{FOLDER}", []
attempts = {{
    "write": lambda: open(root + "/SKILL.md", "a"),
    "create": lambda: open(root + "/new.md", "w"),
    "create beside": lambda: open("/wrappers/current/skills/new.py", "w"),
    "remove": lambda: os.remove(root + "/SKILL.md"),
    "rename": lambda: os.rename(root, root + "-2"),
    "mode": lambda: os.chmod(root + "/scripts/count-rows.sh", 0o755),
    "time": lambda: os.utime(root + "/SKILL.md"),
    "through the link": lambda: open("skills/invoice-check/SKILL.md", "a"),
    "link": lambda: os.link(root + "/SKILL.md", root + "/second"),
    "run": lambda: os.execv(root + "/scripts/count-rows.sh", ["x"]),
}}
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except OSError:
        pass
result = done
"""
    before = await asyncio.to_thread(store.load)
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    assert envelope.data == []
    assert await asyncio.to_thread(store.load) == before


async def test_no_file_of_a_skill_can_be_executed_by_its_name(app: Tenant) -> None:
    code = f"""
import os, stat
found = [os.stat(os.path.join(folder, name)) for folder, _, names in os.walk("{FOLDER}") for name in names]
result = sorted({{oct(stat.S_IMODE(state.st_mode)) for state in found}})
"""
    envelope = await run(app, code)
    assert envelope.data == ["0o644"]


async def test_a_live_session_sees_a_replaced_skill_and_misses_a_removed_one(app: Tenant, store: LibraryStore) -> None:
    use = b"from skills.numbers.scripts.number import value\nresult = value"
    head = b"---\nname: numbers\ndescription: Numbers.\n---\n"
    session = app.runtime.session(app.caller_grant)

    async def keep(value: int) -> None:
        files = {"SKILL.md": head, "scripts/number.py": f"value = {value}\n".encode()}
        await asyncio.to_thread(store.save, skill_source(files, place="numbers"), replace=True)

    async def answer() -> object:
        envelope = await session.execute(CodeRequest(code=use))
        return envelope.data if envelope.error is None else envelope.error.type

    try:
        assert await answer() == "ModuleNotFoundError"
        await keep(1)
        assert await answer() == 1
        await keep(2)
        assert await answer() == 2
        await asyncio.to_thread(store.remove, "skill", "numbers")
        assert await answer() == "ModuleNotFoundError"
    finally:
        await session.close()


async def test_code_finds_a_skill_by_its_description_and_reads_it_on_demand(app: Tenant) -> None:
    code = """
from client.catalog import definition, search
hit = search("compare tax rates of supplier invoices")[0]
result = [hit, hit.server, definition(hit.path) == definition("skills.invoice_check"), definition(hit.path)]
"""
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    line, server, same, text = cast("list[Any]", envelope.data)
    assert line.startswith("skills.invoice-check — skill: Check supplier invoices")
    assert "round before the last step" not in line
    assert (server, same) == ("skills", True)
    assert text.startswith(f"skill invoice-check: its files are in {FOLDER}")
    assert text.endswith("- round before the last step")


async def test_a_replay_reads_the_skill_of_then(store: LibraryStore) -> None:
    files = {"SKILL.md": b"---\nname: then\ndescription: d\n---\n", "a.bin": b"\0\xffthen"}
    await asyncio.to_thread(store.save, skill_source(files, place="then"))
    async with open_app(data_dir=DATA / "with-skills") as opened:
        envelope = await run(opened, "result = open('/wrappers/current/skills/then/a.bin', 'rb').read().hex()")
    await asyncio.to_thread(store.remove, "skill", "then")
    assert envelope.data == files["a.bin"].hex()
    with anyio.fail_after(60):
        report = await replay_run(opened.settings, ReplayRequest(run_id=envelope.run_id), environ=os.environ)
    assert (report.end, report.notes) == (ReplayEnd.COMPLETE, ())


async def test_a_skill_with_a_secret_of_the_configuration_in_any_file_is_left_out(store: LibraryStore) -> None:
    secret = "canary-4711-of-the-configuration"
    files = {"SKILL.md": b"---\nname: leaky\ndescription: d\n---\n", "assets/a.bin": b"\0\xff" + secret.encode()}
    await asyncio.to_thread(store.save, skill_source(files, place="leaky"))
    server = {"command": "/bin/false", "env": {"TOKEN": secret}}  # it is enough that it is configured
    try:
        async with open_app({"echo": server}, data_dir=DATA / "with-skills") as opened:
            envelope = await run(opened, "import os\nresult = sorted(os.listdir('skills'))")
            (problem,) = (await opened.tool_registry.snapshot()).library_problems
    finally:
        await asyncio.to_thread(store.remove, "skill", "leaky")
    assert envelope.data == [".modules", "INDEX.md", "__init__.py", "invoice-check"]
    assert problem.startswith("skill 'leaky' is left out: it holds a secret")
    assert secret not in problem


async def test_without_skills_there_is_nothing_of_them() -> None:
    async with open_app() as bare:
        code = "import os\nresult = [os.path.lexists(path) for path in ('skills', '/wrappers/current/skills')]"
        envelope = await run(bare, code)
    assert envelope.data == [False, False]
