"""The two benches that read anybody's folder: one clear error, or the right answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bench.groups import wrapper_trees
from bench.retrieval import __main__ as retrieval
from bench.retrieval import scale
from bench.retrieval.metrics import METRICS

from bench import wrappers

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = [
    {"server": "s", "server_title": None, "name": "get_x", "description": "Get an\u2028x", "inputSchema": {}},
    {"server": "s", "name": "put_y", "description": "Put the y"},
]
ASKED = {"id": 1, "query": "get x", "gold": ["s/get_x"]}


def folder(tmp_path: Path, **files: list[Any] | str | bytes) -> Path:
    """`a__tools=[...]` is `a/tools.jsonl`; a text or bytes are the file as it is."""
    for name, rows in files.items():
        path = tmp_path / f"{name.replace('__', '/')}.jsonl"
        path.parent.mkdir(exist_ok=True)
        text = rows if isinstance(rows, str | bytes) else "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


def measured(capsys: pytest.CaptureFixture[str], place: Path) -> dict[str, Any]:
    assert retrieval.main(["--data", str(place), "--json", "--no-peers", "--no-scale"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param({}, "holds no sub-folder with a tools.jsonl", id="empty folder"),
        pytest.param({"a__tasks": [ASKED]}, "holds no sub-folder with a tools.jsonl", id="no tools"),
        pytest.param({"tools": TOOLS}, "is one catalog itself", id="folder of one catalog"),
        pytest.param({"a__tools": TOOLS}, "no question below", id="no questions"),
        pytest.param({"a__tools": TOOLS, "a__tasks": [{"query": "x"}]}, "has gold", id="no gold at all"),
        pytest.param({"a__tools": TOOLS, "a__tasks": '{"query": "x"}\n{oops'}, "a/tasks.jsonl:2: no JSON", id="broken"),
        pytest.param({"a__tools": TOOLS, "a__tasks": [[1]]}, "a/tasks.jsonl:1: a row must be", id="row is a list"),
        pytest.param({"a__tools": b"\xff\xfe"}, "a/tools.jsonl: no UTF-8", id="not UTF-8"),
        pytest.param({"a__tools": [{"name": "x"}]}, "row 1: not a tool: 'server'", id="tool without server"),
        pytest.param({"a__tools": [{"server": "s", "name": 7}]}, "row 1: not a tool: 'name'", id="name is no text"),
        pytest.param({"a__tools": TOOLS, "a__tasks": [{"gold": []}]}, "row 1: not a question", id="no query"),
        pytest.param(
            {"a__tools": TOOLS, "a__tasks": [{**ASKED, "gold": "s/x"}]}, "must be a list", id="gold is a text"
        ),
        pytest.param(
            {"a__tools": TOOLS, "a__tasks": [{**ASKED, "gold_any": ["s/x"]}]}, "list of such lists", id="flat gold_any"
        ),
        pytest.param(
            {"a__tools": TOOLS, "a__tasks": [{**ASKED, "kind": {}}]}, "'kind' must be", id="kind is an object"
        ),
    ],
)
def test_a_folder_that_cannot_be_measured_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, Any], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        retrieval.main(["--data", str(folder(tmp_path, **files)), "--json", "--no-peers", "--no-scale"])
    printed = capsys.readouterr()
    assert said in printed.err.splitlines()[-1]
    assert printed.out == ""


def test_odd_rows_are_counted_for_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ASKED,
        {"id": 2, "query": "put y", "gold_any": [["s/put_y", "s/get_x"]], "kind": "never heard of"},
        {"id": 3, "query": "put y", "gold": ["s/put_y"], "kind": 7},
        {"id": 4, "query": "put y", "gold": [], "kind": 7},
        {"id": 5, "query": " ", "gold": ["s/get_x"]},
        {"id": 6, "query": "get x", "gold": ["s/gone"]},
    ]
    found = measured(capsys, folder(tmp_path, a__tools=TOOLS, a__tasks=rows, a__other=["?"], b__tools=TOOLS))

    assert list(found["sets"]) == ["a"]
    assert (found["sets"]["a"]["n"], found["sets"]["a"]["skipped"], found["sets"]["a"]["R@5"]) == (5, 1, 0.6)
    assert {name: one["n"] for name, one in found["kinds"].items()} == {"a:7": 1, "a:never heard of": 1, "a:none": 3}
    assert found["macro"]["R@5"] == 0.6


@pytest.mark.parametrize(
    ("tools", "asked"),
    [
        pytest.param(*(f"\ufeff{json.dumps(row)}\r\n\r\n" for row in (TOOLS[1], ASKED)), id="byte order mark and CRLF"),
        pytest.param(
            [{**TOOLS[1], "description": "h\ud800"}],
            r'{"query": "x\ud800", "id": "\ud800", "gold": ["s/y"]}',
            id="half a character",
        ),
        pytest.param(TOOLS, [{**ASKED, "query": " " * 5_000 + "get x"}], id="much space before the words"),
    ],
)
def test_odd_text_is_read_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tools: Any, asked: Any
) -> None:
    tools = tools if isinstance(tools, str) else "\n".join(map(json.dumps, tools))
    found = measured(capsys, folder(tmp_path, a__tools=tools, a__tasks=asked))
    assert found["sets"]["a"]["n"] == 1


def test_whatever_a_collection_calls_executed_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searches = [{"id": 1, "task_id": 1, "query": "x", "executed": odd} for odd in (5, "s/get_x", {"s/get_x": 1}, [7])]
    place = folder(tmp_path, a__tools=TOOLS, a__tasks=[ASKED, {"id": 2, "query": "?"}], a__agent_queries=searches)
    assert measured(capsys, place)["sessions"]["a"]["tasks"] == 1


def test_tasks_without_gold_lower_no_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searches = [{"id": place, "task_id": place, "query": "get x"} for place in (1, 2)]
    place = folder(tmp_path, a__tools=TOOLS, a__tasks=[ASKED, {"id": 2, "query": "?"}], a__agent_queries=searches)
    found = measured(capsys, place)["sessions"]["a"]
    assert (found["tasks"], found["coverage"]) == (1, 1.0)


def test_a_size_that_cannot_be_measured_is_named_beside_what_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "_ROOT", tmp_path / "gone")
    place = folder(tmp_path, a__tools=TOOLS, a__tasks=[ASKED])
    assert retrieval.main(["--data", str(place), "--json", "--no-peers"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sets"]["a"]["n"], found["scale"]) == (1, [])
    assert set(found["missing"]) == {f"{size} made-up tools" for size in scale.SIZES}


def test_every_metric_of_every_set_has_an_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**ASKED, "id": place, "query": "get x" if place % 2 else "?"} for place in range(20)]
    found = measured(capsys, folder(tmp_path, a__tools=TOOLS, a__tasks=rows))["sets"]["a"]

    assert set(found["interval_95"]) == set(METRICS)
    low, high = found["interval_95"]["R@1"]
    assert 0.2 < low < found["R@1"] == 0.5 < high < 0.8


def test_a_catalog_without_tools_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder(tmp_path, a__tools=TOOLS, a__tasks=[ASKED], b__tasks=[ASKED])
    assert retrieval.main(["--data", str(place), "--json", "--no-peers", "--no-scale"]) == 0
    printed = capsys.readouterr()
    assert list(json.loads(printed.out)["sets"]) == ["a"]
    assert printed.err == f"left out: {place / 'b'} has questions, but no tools.jsonl\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "no *.json below", id="empty folder"),
        pytest.param("[]", "no tools in", id="empty list"),
        pytest.param("{oops", "x.json: no JSON", id="broken"),
        pytest.param('{"tools": {}}', "neither an array of tools nor", id="no list"),
        pytest.param('[{"name": "a"}, 7]', "tool 1 of the list has no name", id="tool without name"),
        pytest.param('[{"name": "a"}, {"name": "a"}]', "two tools called 'a'", id="one name twice"),
    ],
)
def test_a_folder_of_lists_that_cannot_be_read_gets_one_sentence(
    tmp_path: Path, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content, encoding="utf-8")
    with pytest.raises(wrapper_trees.ListError) as caught:
        wrapper_trees.load_lists(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize("form", ["\ufeff[{0}]", "[{0}]", '{{"tools": [{0}]}}', '{{"result": {{"tools": [{0}]}}}}'])
def test_a_list_is_read_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    (tmp_path / "x.json").write_text(form.format('{"name": "a", "inputSchema": null}'), encoding="utf-8")
    lists = wrapper_trees.load_lists(tmp_path)
    assert [tool["name"] for tool in lists["x"]] == ["a"]
    assert wrapper_trees.render_all(lists) > 0


def test_of_many_tools_a_quarter_is_taken_and_rounds_end_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrappers, "_MANY_TOOLS", 7)
    monkeypatch.setattr(wrappers, "_SECONDS_MAX", 0.0)
    taken: list[int] = []
    render_all = wrapper_trees.render_all

    def counted(lists: dict[str, list[dict[str, Any]]], times: int = 1) -> float:
        taken.append(times * sum(map(len, lists.values())))
        return render_all(lists, times)

    monkeypatch.setattr(wrappers, "render_all", counted)
    (tmp_path / "x.json").write_text(json.dumps([{"name": f"t{place}"} for place in range(8)]), encoding="utf-8")
    assert wrappers.main(["--toollists", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tools"], found["rounds"], taken) == (8, 1, [2, 8, 2])


def test_no_round_at_all_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        wrappers.main(["--toollists", str(tmp_path), "--rounds", "0"])
    assert "--rounds must be at least 1" in capsys.readouterr().err
