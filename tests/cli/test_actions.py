"""`moonpool actions`: the walk-through of its page as a person does it, and what is refused with which words."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server, fresh_data
from cli.console import Ended, moonpool

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "keep-actions-and-skills.md"
CODE = 'def run(n: int) -> list[int]:\n    """The first squares."""\n    return [x * x for x in range(n)]\n'


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder with a library of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-actions-{uuid.uuid4().hex[:8]}")
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


def command(data: Path, *arguments: str, home: Path | None = None, stdin: str = "") -> Ended:
    return moonpool(home or data, *arguments, stdin=stdin.encode(), MOONPOOL_DATA_DIR=str(data))


@pytest.mark.slow
@pytest.mark.req("I-102", "I-105")
def test_the_walk_through_of_the_page(data: Path, tmp_path: Path) -> None:
    """Every file and every command of it, in their order; RUN_ID is that of the run before."""
    (tmp_path / "moonpool.json").write_text(
        json.dumps({"mcpServers": {"time": fixture_server("stand_in.py", "time")}}), encoding="utf-8"
    )
    told: dict[str, str] = {}
    run_id = ""
    text = PAGE.read_text(encoding="utf-8").partition("## Walk through")[2].partition("\n## ")[0]
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if kind == "python":
            (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
            continue
        for line in block.splitlines():
            _, *arguments = shlex.split(line.replace("RUN_ID", run_id))
            ended = command(data, *arguments, home=tmp_path)
            assert ended.exit_code == 0, (line, ended)
            told[line] = ended.stdout.decode()
            if arguments[0] == "run":
                run_id = ended.envelope["run_id"]
            if arguments[:2] == ["actions", "save"]:
                assert "left out, because only that run needed it: result = await run" in ended.stderr
    assert "from actions.time.meeting import run" in told["moonpool actions save time.meeting --from last"]
    assert told['moonpool tools search "local time of a place"'].startswith("actions.time.meeting — action: The local ")
    shown = told["moonpool tools show actions.time.meeting"]
    assert 'async def run(place: str, hour: str = \'09:00\') -> str:\n    """The local time' in shown
    assert "convert_time" not in shown
    assert "actions.time.meeting line 12: time.convert_time(" in told["moonpool preview week.py"]
    first, second = json.loads(told["moonpool run week.py"])["result"]["data"]
    assert "T00:00" in first
    assert "T20:30" in second
    records = [json.loads(one) for one in command(data, "audit", "show", "--json").stdout.decode().splitlines()]
    changes = [(one["action"], one["entry"], one["from_run"][:4]) for one in records if one["kind"] == "library"]
    assert changes == [("saved", "actions.time.meeting", "run_"), ("removed", "actions.time.meeting", "")]
    assert "actions.time.meeting" in told["moonpool audit show"]
    assert "convert_time" in told["moonpool actions show time.meeting --code"]


def test_an_action_is_saved_listed_shown_and_removed(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "squares.py"
    path.write_text(CODE, encoding="utf-8")
    saved = command(data, "actions", "save", "math.squares", "--file", str(path), "--description", "Squares of numbers")
    [line] = command(data, "actions", "list", "--json").stdout.decode().splitlines()
    whole = json.loads(command(data, "actions", "show", "math.squares", "--json", "--code").stdout)
    again = command(data, "actions", "save", "math.squares", "--file", "-", stdin=CODE)
    replaced = command(data, "actions", "save", "math.squares", "--file", "-", "--replace", stdin=CODE)
    removed = command(data, "actions", "remove", "math.squares")
    gone = command(data, "actions", "remove", "math.squares")
    records = [json.loads(one) for one in command(data, "audit", "show", "--json").stdout.decode().splitlines()]

    listed = json.loads(line)
    assert listed["description"] == "Squares of numbers"
    assert listed["digest"] in saved.stdout.decode()
    assert whole["code"] == CODE
    assert whole["parameters"]["required"] == ["n"]
    assert "--replace" in again.sentence
    assert (replaced.exit_code, removed.exit_code) == (0, 0)
    assert "there is no action 'math.squares'" in gone.sentence
    assert [(one["kind"], one["action"], one["entry"]) for one in records] == [
        (kind, what, "actions.math.squares")
        for what in ("saved", "replaced", "removed")
        for kind in ("library_intent", "library")
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("x",), "", "either as --file FILE or as --from RUN_ID"),
        (("x", "--file", "-", "--from", "run_1"), CODE, "either as --file FILE or as --from RUN_ID"),
        (("../x", "--file", "-"), CODE, "is no name for an action"),
        (("a.class", "--file", "-"), CODE, "is a keyword of Python"),
        (("x", "--file", "-"), "y = 1", "no function `run` at its top level; write"),
        (("x", "--file", "-"), "def run():\n    token = 'ghp_" + "a1B2" * 9 + "'", "no docstring"),
        (("x", "--file", "-"), "def run():\n    'x'\n    return 'ghp_" + "a1B2" * 9 + "'", "holds a secret"),
        (("x", "--from", "run_1"), "", "nothing is recorded here"),
    ],
)
def test_what_is_refused_is_refused_in_one_sentence(
    data: Path, arguments: tuple[str, ...], code: str, sentence: str
) -> None:
    ended = command(data, "actions", "save", *arguments, stdin=code)
    assert ended.exit_code == 2
    assert sentence in ended.stderr
    assert not list((data / "private").glob("library/actions/*.json"))
