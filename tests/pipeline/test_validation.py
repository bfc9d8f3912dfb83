"""Arguments are checked against the real schema, and a refusal says what to write instead."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.core.phrases import clip, near_names, unknown_tool
from moonpool.pipeline.validation import SchemaChecks, depth_exceeds

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = {
    "type": "object",
    "properties": {"timezone": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["timezone"],
    "additionalProperties": False,
}


def problem_of(definition: ToolDefinition, arguments: Any, checks: SchemaChecks | None = None) -> str:
    return (checks or SchemaChecks()).arguments(definition).argument_problem(definition, arguments)


def tool(schema: Any, name: str = "get_current_time", server: str = "time", output: Any = None) -> ToolDefinition:
    raw: dict[str, Any] = {"name": name, "inputSchema": schema}
    if output is not None:
        raw["outputSchema"] = output
    return ToolDefinition(server_id=server, name=name, raw=raw)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({}, '"timezone" is a required property', id="missing"),
        pytest.param(
            {"time_zone": "UTC"},
            "Additional properties are not allowed ('time_zone' was unexpected), did you mean 'timezone'?; "
            "\"timezone\" is a required property (you gave 'time_zone')",
            id="misspelt",
        ),
        pytest.param(
            {"timezone": "UTC", "days": 0},
            "at 'days': 0 is less than the minimum of 1",
            id="out of range names its path",
        ),
    ],
)
@pytest.mark.req("X-02")
def test_a_refusal_names_path_problem_near_names_and_valid_parameters(arguments: Any, problem: str) -> None:
    assert problem_of(tool(TIME), arguments) == (
        f"arguments do not fit time.get_current_time: {problem}. "
        "Valid parameters for time.get_current_time (* = required): timezone*: string, days: integer"
    )


def test_fitting_arguments_pass() -> None:
    assert not problem_of(tool(TIME), {"timezone": "UTC", "days": 2})


def test_near_names_are_found_behind_a_reference() -> None:
    schema = {
        "type": "object",
        "properties": {"where": {"$ref": "#/$defs/Place"}},
        "$defs": {"Place": {"type": "object", "properties": {"city": {}}, "additionalProperties": False}},
    }
    problem = problem_of(tool(schema), {"where": {"citty": 1}})
    assert "at 'where'" in problem
    assert "did you mean 'city'?" in problem
    assert "where: Place" in problem


def test_at_most_five_problems_are_listed_and_the_text_is_bounded() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(100)}}
    problem = problem_of(tool(schema), {f"p{i}": 1 for i in range(100)} | {"p0": ["x" * 100_000]})
    assert problem.count("is not of type") == 5
    assert "; and more." in problem
    assert "and 40 more" in problem
    assert len(problem) <= 4000


def test_type_names_are_readable() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"enum": ["x", 1]},
            "b": {"type": "array", "items": {"type": "string"}},
            "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "d": {"type": ["string", "null"]},
            "e": True,
        },
        "required": ["b", "zz"],
    }
    problem = problem_of(tool(schema), {})
    assert problem.endswith(
        '(* = required): b*: array of string, a: "x" | 1, c: integer | null, d: string | null, e: any'
    )


@pytest.mark.req("L-008")
@pytest.mark.parametrize(
    ("schema", "warning"),
    [
        pytest.param({"$schema": "https://example.com/odd"}, "unknown $schema 'https://example.com/odd'", id="dialect"),
        pytest.param({"type": "nope"}, '"nope" is not valid', id="broken"),
        pytest.param({"$ref": "#/$defs/gone"}, "Pointer '/$defs/gone' does not exist", id="dangling"),
        pytest.param({"properties": {"a": {"pattern": "("}}}, 'is not a "regex"', id="bad pattern"),
        pytest.param({"description": "x" * 1_100_000}, "too large or too deep", id="huge"),
    ],
)
def test_an_unusable_schema_accepts_any_object_with_a_warning(schema: Any, warning: str) -> None:
    checks = SchemaChecks()
    assert not problem_of(tool(schema), {"anything": 1}, checks)
    assert warning in checks.arguments(tool(schema)).warning


@pytest.mark.req("L-008")
def test_the_dialect_decides() -> None:
    tuple_items = {"properties": {"a": {"items": [{"type": "string"}]}}}
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_items}
    checks = SchemaChecks()
    assert "is not of type" in problem_of(tool(draft7), {"a": [1]}, checks)
    assert checks.arguments(tool(tuple_items)).warning  # a list of items is no 2020-12


@pytest.fixture
def web() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_reference_is_never_fetched(web: tuple[str, list[str]]) -> None:
    address, asked = web
    checks = SchemaChecks()
    for reference in (address, "file:///etc/hostname"):
        schema = {"properties": {"a": {"$ref": reference}}}
        assert not problem_of(tool(schema), {"a": 1}, checks)
        assert "is not checked" in checks.arguments(tool(schema)).warning
    assert asked == []


def test_a_backtracking_bomb_is_harmless() -> None:
    checks = SchemaChecks()
    for pattern in ("(a+)+$", "^(?=a)(a+)+$"):
        schema = {"properties": {"a": {"pattern": pattern}}}
        assert problem_of(tool(schema), {"a": "a" * 5000 + "!"}, checks)


def test_validators_are_cached_and_bounded() -> None:
    checks = SchemaChecks(entry_count_max=3)
    for index in range(10):
        problem_of(tool({"title": str(index)}), {}, checks)
    assert len(checks._compiled) == 3


@pytest.mark.parametrize(
    ("structured", "problem"),
    [
        pytest.param({"n": 1}, "", id="fits"),
        pytest.param(
            {"n": "x"}, "structuredContent does not fit outputSchema: at 'n': a value is not of type", id="no"
        ),
    ],
)
@pytest.mark.req("H-076", "D-006", "C-021")
def test_structured_content_is_validated(structured: Any, problem: str) -> None:
    definition = tool({}, output={"type": "object", "properties": {"n": {"type": "integer"}}})
    found = SchemaChecks().result(definition).result_problem(structured)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_depth_is_measured_without_recursion() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = [deep]
    assert depth_exceeds(deep)
    assert not depth_exceeds({"a": [{"b": [1]}]}, 4)
    assert depth_exceeds({"a": [{"b": [1]}]}, 3)
    while deep:
        deep = deep.pop()  # taken apart by hand: freeing it at once would recurse


def manifest(**servers: list[str]) -> Manifest:
    return Manifest(
        servers=tuple(
            ServerListing(server_id=server, tools=tuple(tool({}, name, server) for name in names))
            for server, names in servers.items()
        )
    )


@pytest.mark.parametrize(
    ("server", "name", "sentence"),
    [
        pytest.param("time", "get_curent_time", "did you mean time.get_current_time?", id="near name"),
        pytest.param("git", "getCurrentTime", "did you mean time.get_current_time?", id="near name elsewhere"),
        pytest.param("tiem", "zzz", "did you mean server time?", id="near server"),
        pytest.param("weather", "zzz", "servers are git, time", id="which servers there are"),
        pytest.param("git", "zzz", "server git has git_log", id="nothing near"),
    ],
)
def test_an_unknown_tool_is_answered_with_what_there_is(server: str, name: str, sentence: str) -> None:
    tools = manifest(git=["git_log"], time=["get_current_time"])
    assert unknown_tool(server, name, tools) == f"there is no tool {server}.{name}; {sentence}"


def test_without_servers_it_says_so() -> None:
    assert unknown_tool("a", "b", Manifest()) == "there is no tool a.b; no server is configured"


def test_hostile_names_are_bounded() -> None:
    many = manifest(s=[f"tool_{i}" for i in range(3000)])
    assert len(unknown_tool("x" * 10_000, "tool_" * 10_000, many)) < 1000


def test_no_more_of_long_names_is_compared_than_costs_milliseconds() -> None:
    known = [f"{'ab' * 60}{number:04d}" for number in range(400)]
    assert near_names([f"{'ab' * 60}0001"], known)
    assert not near_names([f"{'ab' * 60}0399"] * 3, [f"{'zz' * 60}{number:04d}" for number in range(399)] + known[399:])
    assert near_names(["get_curent_time"] * 3, [*(f"tool_{number}" for number in range(499)), "get_current_time"])


def test_clip_keeps_both_ends() -> None:
    clipped = clip("a" * 1000 + "z", 200)
    assert clipped.startswith("aaa")
    assert clipped.endswith("z")
    assert len(clipped) <= 200
    assert "characters left out" in clipped
