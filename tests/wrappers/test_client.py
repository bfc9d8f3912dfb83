"""Calls from generated and hand-written code, against a recording bridge."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
from client import mcp_client
from client.packages import extension

from wrappers.regenerate import GOLDENS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wrappers.conftest import Bridge


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the trees of golden cases importable, one case at a time."""

    def use(case: str) -> None:
        monkeypatch.syspath_prepend(GOLDENS / case / "tree")

    yield use
    for name in [name for name in sys.modules if name.partition(".")[0] in {"servers", "mcptools", "mcpparse"}]:
        del sys.modules[name]


def structured(data: Any, text: str | None = None) -> dict[str, Any]:
    content = [] if text is None else [{"type": "text", "text": text}]
    return {"ok": True, "data_from": "structured", "raw": {"structuredContent": data, "content": content}}


FAILURE = {"ok": False, "error": {"type": "Timeout", "message": "too slow", "retryable": True}}


@pytest.mark.anyio
@pytest.mark.req("H-007")
async def test_the_guides_hand_written_wrapper_runs_unchanged(bridge: Bridge) -> None:
    scope: dict[str, Any] = {}
    exec(  # noqa: S102
        "from typing import Any, TypedDict\n"
        "from client.mcp_client import call_tool\n"
        "class GetWeatherInput(TypedDict):\n    location: str\n"
        "async def get_weather(arguments: GetWeatherInput) -> dict[str, Any]:\n"
        '    return await call_tool(server_id="weather", name="get_weather", arguments=arguments)\n',
        scope,
    )
    assert (await scope["get_weather"]({"location": "Bern"})).data == "done"
    assert bridge.calls == [("weather", "get_weather", {"location": "Bern"})]


@pytest.mark.req("H-012", "H-045")
def test_the_guides_data_filtering_sample_runs_unchanged(bridge: Bridge, trees: Any) -> None:
    trees("guide")
    bridge.reply = {
        **structured(None),
        "data_from": "json_text",
        "raw": {"content": [{"type": "text", "text": '[{"n":1}]'}]},
    }
    scope: dict[str, Any] = {"calculate_metrics": lambda rows: {"summary": rows[0]["n"]}, "detect_anomalies": list}
    code = (
        "import servers.sheets as sheets\n"
        "async def main():\n"
        '    rows = await sheets.get_all_rows({"sheetId": "quarterly"})\n'
        "    metrics = calculate_metrics(rows)\n"
        "    anomalies = detect_anomalies(rows)\n"
        "    global result\n"
        '    result = {"summary": metrics["summary"], "anomaly_count": len(anomalies), "count": len(rows)}\n'
    )
    exec(code, scope)  # noqa: S102
    asyncio.run(scope["main"]())
    assert scope["result"] == {"summary": 1, "anomaly_count": 1, "count": 1}


@pytest.mark.req("H-016")
def test_the_original_name_is_sent(bridge: Bridge, trees: Any) -> None:
    trees("guide")
    importlib.import_module("servers.sheets").admin_tools_list_sync()
    assert bridge.calls == [("sheets", "admin.tools.list", {})]


def test_packages_load_a_tool_when_it_is_used(bridge: Bridge, trees: Any) -> None:
    trees("guide")
    sheets = importlib.import_module("servers").sheets
    assert "servers.sheets.get_all_rows" not in sys.modules
    assert {"get_all_rows", "update_rows_sync"} <= set(dir(sheets))
    assert "get_all_rows" not in vars(sheets)
    assert sheets.get_all_rows.get_all_rows_sync is sheets.get_all_rows_sync
    assert "servers.sheets.update_rows" not in sys.modules
    assert "Arguments, in one dict or as keywords" in sheets.get_all_rows.__doc__
    assert "sheets" in dir(importlib.import_module("servers"))


def test_a_missing_tool_or_server_is_answered_with_what_there_is(trees: Any) -> None:
    trees("guide")
    with pytest.raises(AttributeError, match="has no tool 'nope'; it has get_all_rows, admin_tools_list"):
        _ = importlib.import_module("servers.sheets").nope
    with pytest.raises(AttributeError, match="no server 'nope'; there are google_drive, sheets"):
        _ = importlib.import_module("servers").nope
    with pytest.raises(ImportError, match="cannot import name 'nope'"):
        exec("from servers.sheets import nope")  # noqa: S102


@pytest.mark.req("P-024")
def test_tools_that_differ_in_case_only_are_both_called(bridge: Bridge, trees: Any) -> None:
    trees("names")
    from servers import my_server_ae348b as server  # pyright: ignore[reportMissingImports]

    for name in ("getUser", "GetUser", "getuser"):
        getattr(server, f"{name}_sync")(value=name)
        module = importlib.import_module(f"{server.__name__}.{name}")
        assert getattr(module, name) is getattr(server, name)
    assert [call[1] for call in bridge.calls] == ["getUser", "GetUser", "getuser"]


@pytest.mark.req("H-042", "I-014", "P-033")
def test_ipyboxs_image_search_sample_runs(bridge: Bridge, trees: Any) -> None:
    trees("ipybox")
    item = {"title": "t", "properties": {"url": "u", "extra": 1}}
    bridge.reply = structured({"items": [item], "new member": True})
    from mcptools.brave_search.brave_image_search import Params, Result, run  # pyright: ignore[reportMissingImports]

    result = run(Params(query="neural topic models", count=3))
    assert type(result) is Result
    assert [(image.title, image.properties.url) for image in result.items] == [("t", "u")]
    assert result.model_dump(by_alias=True, exclude_unset=True) == {"items": [item], "new member": True}
    assert bridge.calls == [("brave_search", "brave_image_search", {"query": "neural topic models", "count": 3})]


@pytest.mark.req("X-11", "I-015", "I-017")
def test_ipyboxs_github_sample_runs(bridge: Bridge, trees: Any) -> None:
    trees("ipybox")
    from mcptools.github import search_repositories  # pyright: ignore[reportMissingImports]

    params = search_repositories.Params(query="q", sort=search_repositories.Sort.stars, perPage=10)
    assert search_repositories.run(params) == "done"
    assert search_repositories.run(params=params) == "done"
    assert bridge.calls == [("github", "search_repositories", {"query": "q", "sort": "stars", "perPage": 10})] * 2


@pytest.mark.req("P-016")
@pytest.mark.anyio
async def test_an_empty_structured_result_is_a_result(bridge: Bridge, trees: Any) -> None:
    trees("ipybox")
    bridge.reply = structured({})
    tool = importlib.import_module("mcptools.brave_search.brave_image_search")
    assert await tool.run_async(query="q") == tool.Result.model_validate({})


def test_a_declared_result_that_came_as_text_stays_text(bridge: Bridge, trees: Any) -> None:
    trees("ipybox")
    assert importlib.import_module("mcptools.brave_search.brave_image_search").run(query="q") == "done"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(structured({"a": 1}, "as text"), "as text", id="the tool's own text"),
        pytest.param(structured({"a": "ü"}), '{"a": "ü"}', id="no text: the data as JSON"),
        pytest.param(structured("plain"), "plain", id="data that is text"),
        pytest.param(structured(None), "", id="nothing"),
    ],
)
def test_tools_without_a_result_type_give_text(bridge: Bridge, reply: dict[str, Any], text: str) -> None:
    bridge.reply = reply
    assert mcp_client.run_tool_sync(server_id="s", name="t", arguments={}, result=str) == text


def test_run_raises_the_runners_error(bridge: Bridge) -> None:
    bridge.reply = FAILURE
    with pytest.raises(mcp_client.ToolRunnerError, match=r"s\.t: too slow") as caught:
        mcp_client.run_tool_sync(server_id="s", name="t", arguments={})
    assert (caught.value.type, caught.value.retryable) == ("Timeout", True)
    assert isinstance(caught.value.__cause__, mcp_client.Timeout)


def test_call_tool_does_not_raise_for_a_failing_tool(bridge: Bridge) -> None:
    bridge.reply = FAILURE
    result = mcp_client.call_tool_sync(server_id="s", name="t")
    assert result.error == FAILURE["error"]


def test_a_failed_result_cannot_be_an_argument(bridge: Bridge) -> None:
    bridge.reply = FAILURE
    failed = mcp_client.call_tool_sync(server_id="s", name="t")
    with pytest.raises(mcp_client.Timeout):
        mcp_client.call_tool_sync(server_id="s", name="u", arguments={"rows": failed})
    assert len(bridge.calls) == 1


def test_arguments_that_are_no_mapping_or_doubled_are_refused() -> None:
    with pytest.raises(TypeError, match="not list"):
        mcp_client.pack([], {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'from' is given twice"):
        mcp_client.pack({"from": 1}, {"from_": 2}, {"from_": "from"})


def test_a_parameter_that_is_called_params_stays_one() -> None:
    class Params(mcp_client.Model):
        params: dict[str, Any]

    given = Params(params={"a": 1})
    assert mcp_client.pack(None, {"params": Params(params={})}, Params) == {"params": {"params": {}}}
    assert mcp_client.pack(given, {}, Params) == {"params": {"a": 1}}


@pytest.mark.req("X-28")
def test_a_hand_written_extension_is_found(trees: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees("ipybox")
    folder = tmp_path / "mcpparse" / "github"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    tool = importlib.import_module("mcptools.github.search_repositories")
    with pytest.raises(AttributeError, match="no attribute 'run_parsed'"):
        _ = tool.run_parsed
    (folder / "search_repositories.py").write_text(
        "from mcptools.github.search_repositories import Params\ndef run_parsed(params: Params): return 'parsed'\n",
        encoding="utf-8",
    )
    importlib.invalidate_caches()
    assert tool.run_parsed(None) == "parsed"
    with pytest.raises(AttributeError):
        _ = tool.other
    (folder / "broken.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        extension("mcptools.github.broken")("run_parsed")
