"""The pages themselves: links lead somewhere, commands exist, promises about size hold, snippets run."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import moonpool
from apps import DATA, fixture_server, open_app, run
from docs.pages import DOCS, PAGES, ROOT, anchors, links, read, section, snippets
from moonpool.configuration.policy_examples import run_examples
from moonpool.configuration.policy_file import parse_policy
from moonpool.configuration.servers import parse_config
from moonpool.pipeline.approval import DenyApprover
from tables import every_row

if TYPE_CHECKING:
    from docs.pages import Snippet


@every_row("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in links(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


def modules_that_name_pages() -> list[Path]:
    return [path for path in sorted(ROOT.glob("src/**/*.py")) if "docs/" in path.read_text(encoding="utf-8")]


@every_row("path", modules_that_name_pages, ids=str)
def test_pages_that_modules_point_at_exist(path: Path) -> None:
    named = re.findall(r"\bdocs/[\w/.-]+\.md", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_modules_that_pages_name_exist() -> None:
    source = ROOT / "src/moonpool"
    packages = "|".join(path.name for path in source.iterdir() if path.is_dir())
    named = re.compile(rf"`(?:moonpool\.)?((?:{packages})(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`")
    told = [page for page in PAGES if "decisions" not in page.parts]  # which say what was
    found = {(page.name, name) for page in told for name in named.findall(page.read_text(encoding="utf-8"))}
    known = {".".join(path.relative_to(source).with_suffix("").parts) for path in source.rglob("*")}
    known |= {"server.tool", "server.json", "network.transport"}  # what a tool, a file and an attribute are called
    assert [(page, name) for page, name in found if name not in known] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [
            (page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text(encoding="utf-8"))
        ]
    decisions = set((DOCS / "decisions").glob("*.md"))
    assert {page.relative_to(ROOT).as_posix() for page in {*PAGES} - seen - decisions} == set()


def test_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = {
        word
        for page in PAGES
        for word in re.findall(r"^(?:sudo )?make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test"} <= named <= targets


def test_the_architecture_fits_on_its_pages() -> None:
    assert len(read("ARCHITECTURE.md").splitlines()) <= 150


@every_row("page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda page: page.name)
def test_decisions_are_short_and_of_one_form(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(text.splitlines()) <= 60
    assert headings == ["Context", "Decision", "Rejected", "What would change our mind"]


def test_the_layout_of_the_architecture_is_that_of_the_source() -> None:
    block = section(read("ARCHITECTURE.md"), "Layout")
    rooms = {path.name for path in (ROOT / "src/moonpool").iterdir() if (path / "__init__.py").exists()}
    assert {room for room in rooms if not re.search(rf"^  {room}(/mcp)?/", block, re.MULTILINE)} == set()


@pytest.mark.req("F-003")
def test_the_threat_model_says_why_tokens_are_not_passed_on() -> None:
    told = section(read("THREAT_MODEL.md"), "Tokens are never passed on")
    assert all(reason in told for reason in ("Controls", "trail", "Boundaries", "later"))


@pytest.mark.req("H-066")
def test_warm_pool_and_replay_have_a_section() -> None:
    text = read("docs/how-to/debug-an-execution.md")
    assert "warm pool" in section(text, "When the first execution is slow")
    assert "replay" in text


@pytest.mark.req("B-087")
def test_it_is_recorded_why_asyncio_and_not_anyio() -> None:
    record = read("docs/decisions/0002-asyncio.md")
    assert "asyncio is the loop" in record
    assert "trio" in record


@pytest.mark.parametrize("snippet", snippets("config", "client-config"), ids=lambda snippet: snippet.page)
def test_configurations_are_accepted(snippet: Snippet) -> None:
    config = parse_config(snippet.text.encode(), source=snippet.page, environ={"ISSUES_TOKEN": "token-for-a-test"})
    assert config.ids


@pytest.mark.parametrize("snippet", snippets("policy"), ids=lambda snippet: snippet.page)
def test_policies_do_what_their_examples_say(snippet: Snippet) -> None:
    outcomes = list(run_examples(parse_policy(snippet.text.encode(), source=snippet.page)))
    assert outcomes
    assert [outcome.to_json() for outcome in outcomes if not outcome.ok] == []


PROGRAMS = snippets("sandbox", "sandbox-time-ask")


@pytest.mark.req("G-037")
@pytest.mark.anyio
@pytest.mark.parametrize("snippet", PROGRAMS, ids=lambda snippet: f"{snippet.page} {snippet.text[:30]}")
@pytest.mark.slow
async def test_programs_run_against_the_real_time_server(snippet: Snippet) -> None:
    block = {"ask" if snippet.kind.endswith("ask") else "allow": ["*"]}
    server = {"command": str(Path(sys.executable).with_name("mcp-server-time")), "moonpool": block}
    async with open_app({"time": server}, approver=DenyApprover()) as app:
        with anyio.fail_after(60):
            envelope = await run(app, snippet.text)
    assert envelope.error is None
    assert envelope.data


@pytest.mark.slow
@pytest.mark.req("H-001", "H-087")
def test_the_demo_is_as_it_should_be(tmp_path: Path) -> None:
    """From search to result over two real servers; the demo checks what it shows and exits with 1 otherwise."""
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env=environ, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout  # no terminal, no colour
    block = section(read("README.md"), "What the demo prints").partition("```text\n")[2].partition("```")[0]
    told = [line.removesuffix("…") for line in block.splitlines() if line]
    printed = [_without_sizes(line) for line in done.stdout.splitlines()]
    missing = [one for one in told if not any(line.startswith(_without_sizes(one)) for line in printed)]
    assert missing == [], f"the README shows what the demo no longer prints; it prints\n{done.stdout}"
    assert len(told) > 12


def _without_sizes(line: str) -> str:
    """Answers of the time server name the day of the week, so sizes differ from day to day."""
    return re.sub(r"[\d,]+(?= +(?:bytes|tokens))", "N", line)


@pytest.mark.slow
def test_the_example_of_an_application_shows_answers_and_end(tmp_path: Path) -> None:
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "approvals.py")],
        env=environ, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found = {
        "Asia/Tokyo": "18:00",
        "Europe/Paris": "time.convert_time was not approved: only Tokyo is of interest here",
    }
    call = "source_timezone='UTC', time='09:00', target_timezone='{}'"
    assert done.stdout.splitlines() == [
        "printed: asking twice",
        f"allowed: time.convert_time({call.format('Asia/Tokyo')})",
        f"refused: time.convert_time({call.format('Europe/Paris')})",
        f"ended: {found} after 2 calls",
    ]


def test_git_is_here_for_the_demo() -> None:
    assert shutil.which("git")


def test_the_programs_of_the_pages_on_embedding_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first as it is, the others in a session of their kind; a person says yes to the call."""
    pages = "\n".join(read(f"docs/how-to/{name}.md") for name in ("embed", "stream-events", "without-async"))
    blocks = [part.partition("```")[0] for part in pages.split("```python\n")[1:]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    exec(blocks[0], {})  # noqa: S102  our own page
    assert capsys.readouterr().out == "42\n"
    whole = "\n".join(textwrap.indent(block, "    ") for block in blocks[1:3])
    program = f"async def main(session, code, show, ask_somebody):\n{whole}\n    return result, event"
    names: dict[str, Any] = {"moonpool": moonpool}
    exec(program, names)  # noqa: S102  our own page
    shown: list[object] = []
    servers = {"echo": fixture_server("echo.py", ask=["*"])}
    code = "import servers.echo as e\nprint('x')\nresult = (await e.text(text='a')).data"

    async def main() -> tuple[moonpool.Result, moonpool.Result]:
        async with moonpool.session(servers=servers) as session:
            return await names["main"](session, code, lambda *given: shown.append(given), lambda asked: asked.place)

    result, event = anyio.run(main)
    assert (round(result.data, 3), shown, event.data) == (1.414, [("stdout", "x\n")], "a")
    exec(blocks[3], {"moonpool": moonpool})  # noqa: S102  our own page
    assert "text='hello\\n'" in capsys.readouterr().out
    exec(blocks[4], {"moonpool": moonpool, "servers": servers, "code": code})  # noqa: S102  our own page
    assert capsys.readouterr().out == "a\n"


@pytest.mark.slow  # in the environment data; the test above is quick
@pytest.mark.timeout(200)
@pytest.mark.anyio
async def test_the_quickstart_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All its blocks one after the other, as at the prompt of `python -m asyncio`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    page = read("docs/tutorial/sdk-quickstart.md")
    blocks = re.findall(
        r"<!-- runnable: quickstart -->\n```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?",
        page,
        re.MULTILINE | re.DOTALL,
    )
    assert len(blocks) == page.count("```python\n") == 8
    names: dict[str, Any] = {}
    for code, shown in blocks:
        running = eval(compile(code, "quickstart", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307  our own page
        if running is not None:
            await running
        assert capsys.readouterr().out == shown
    assert (tmp_path / "sales.png").read_bytes().startswith(b"\x89PNG")
    assert "convert_time(" in names["definition"]


def test_the_loop_of_the_page_on_correcting_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    names: dict[str, Any] = {}
    exec(read("docs/how-to/correct-code.md").split("```python\n")[1].partition("```")[0], names)  # noqa: S102  our own page
    problems: list[str | None] = []

    async def write(problem: str | None) -> str:
        problems.append(problem)
        return "1 / 0" if problem is None else "6 * 7"

    async def main() -> moonpool.Result:
        async with moonpool.session() as session:
            return await names["run_corrected"](session, write)

    assert anyio.run(main).data == 42
    assert problems == [None, "Attempt 1 failed with ZeroDivisionError: division by zero\n\n1 / 0"]
