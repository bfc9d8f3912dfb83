"""Successful calls teach result types and examples, only to their own principal, and never delay the reply."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, fixture_server, open_app, run
from moonpool.catalog.catalog import Catalog
from moonpool.core.manifest import ToolDefinition
from moonpool.features.learned_types.model import LearnedType
from moonpool.features.learned_types.service import LOOKED_AT_MAX, RESULT_BYTES_MAX, WAITING_MAX, LearnedTypes
from moonpool.pipeline.call_observer import ObservedCall

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.core.json import JsonObject

pytestmark = pytest.mark.anyio

TOOL = ToolDefinition(server_id="s", name="t", raw={"name": "t"})
DECLARED = ToolDefinition(server_id="s", name="d", raw={"name": "d", "outputSchema": {"type": "object"}})


class Kept:
    """A keeper in memory."""

    def __init__(self) -> None:
        self.books: dict[str, dict[str, LearnedType]] = {}
        self.saves = 0

    def load(self, key: str) -> dict[str, LearnedType]:
        return dict(self.books.get(key, {}))

    def save(self, key: str, news: Mapping[str, LearnedType]) -> bool:
        self.books.setdefault(key, {}).update(news)
        self.saves += 1
        return True


def make(kept: Kept, key: str = "k", **options: Any) -> LearnedTypes:
    return LearnedTypes({"s": key}, kept, redact=lambda arguments: {**arguments, "token": "[redacted]"}, **options)


def show(learned_types: LearnedTypes, *, tool: ToolDefinition = TOOL, principal: str = "p", **told: Any) -> None:
    raw: JsonObject = {"structuredContent": told.pop("data", {"a": 1})}
    call = {"arguments": {"q": "x"}, "arguments_bytes": 9, "result_bytes": 9, "private": False, **told}
    learned_types.saw(ObservedCall(principal=principal, tool=tool, raw=raw, data_from="structured", **call))


async def test_a_learned_type_belongs_to_its_principal_and_configuration() -> None:
    kept = Kept()
    learned_types = make(kept)
    show(learned_types)
    await learned_types.settled()

    mine, others = await learned_types.of("p", TOOL), await learned_types.of("q", TOOL)
    elsewhere = await make(kept, "other key").of("p", TOOL)
    assert mine == LearnedType().with_result({"a": 1}).with_example({"q": "x", "token": "[redacted]"})
    assert (others, elsewhere) == (None, None)
    assert await make(kept).of("p", TOOL) == mine  # another process


@pytest.mark.parametrize(
    ("told", "shape", "examples"),
    [
        pytest.param({"private": True}, True, 0, id="private arguments are not kept"),
        pytest.param({"arguments_bytes": 1_000_000}, True, 0, id="nor large ones"),
        pytest.param({"tool": DECLARED}, False, 1, id="a declared type is not learned"),
    ],
)
async def test_what_is_not_kept(told: dict[str, Any], shape: bool, examples: int) -> None:
    learned_types = make(Kept())
    show(learned_types, **told)
    await learned_types.settled()
    learned_type = await learned_types.of("p", told.get("tool", TOOL))

    assert learned_type is not None
    assert (learned_type.shape is not None, len(learned_type.examples)) == (shape, examples)


@pytest.mark.parametrize("options", [{"enabled": False}, {"examples": False}])
async def test_learning_can_be_switched_off(options: dict[str, bool]) -> None:
    kept = Kept()
    learned_types = make(kept, **options)
    show(learned_types)
    await learned_types.settled()

    assert "'x'" not in str(kept.books)
    assert bool(kept.books) is options.get("enabled", True)
    taught = make(kept)
    show(taught)
    await taught.settled()
    learned_type = await make(kept, **options).of("p", TOOL)
    assert learned_type is None or not learned_type.examples  # what was kept before is not shown either


async def test_learning_is_sampled_and_bounded() -> None:
    kept = Kept()
    learned_types = make(kept)
    show(learned_types, result_bytes=RESULT_BYTES_MAX + 1)
    for _ in range(10 * LOOKED_AT_MAX):
        show(learned_types)
    await learned_types.settled()
    learned_type = await learned_types.of("p", TOOL)

    assert learned_type is not None
    assert learned_type.results <= min(WAITING_MAX, 8)  # 1 to 4, then 8, 16, 32, 64
    assert kept.saves == 1


SERVER_PY = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"query": {"type": "string"}, "class": {"type": "integer"}}}
        result = {"tools": [{"name": "find", "inputSchema": schema}, {"name": "secret", "inputSchema": schema}]}
    elif method == "tools/call":
        rows = [{"id": 1, "name": "n", 'x\"\"\" ignore': 2}] if message["params"]["name"] == "find" else "hidden"
        result = {"content": [{"type": "text", "text": json.dumps({"rows": rows, "total": 1})}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_code_teaches_what_a_definition_then_shows(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER_PY, encoding="utf-8")
    (tmp_path / "policy.toml").write_text(
        "\n".join(["version = 1", "[[label]]", 'tool = "secret"', 'returns = ["private"]', ""]), encoding="utf-8"
    )
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "moonpool": {"allow": ["*"]}}
    code = 'import servers.x as x\nawait x.find(query="tea", class_=3)\nawait x.secret(query="mine")'
    async with open_app({"x": entry}, policy=tmp_path / "policy.toml") as app:
        envelope = await run(app, code)
        await app.learned_types.settled()
        catalog = Catalog((await app.tool_registry.snapshot()).manifest)
        find, secret = catalog.find("x", "find"), catalog.find("x", "secret")
        learned_types = [await app.learned_types.of(app.caller_grant.principal, tool) for tool in (find, secret)]
        stranger = await app.learned_types.of("somebody else", find)
        stub = catalog.definition("x", "find", learned_type=learned_types[0])
        typed = catalog.definition("x", "find", "typescript", learned_type=learned_types[0])
        hidden = catalog.definition("x", "secret", learned_type=learned_types[1])

    assert envelope.ok, envelope.error
    assert stub.splitlines() == [
        "await servers.x.find(query: str = ..., class_: int = ...) -> {rows: list[dict[str, int | str]], total: int}:",
        "# Result type: seen in 1 result, not declared.",
        '# Example: find(query="tea", class_=3)',
    ]
    assert '// Example: find({query: "tea", class: 3})' in typed
    assert "Promise<ToolCallResult<{rows: Record<string, number | string>[], total: number}>>" in typed
    assert stranger is None
    assert "-> {rows: str, total: int}" in hidden
    assert "mine" not in hidden


async def test_what_a_session_read_is_in_no_example(tmp_path: Path) -> None:
    server = fixture_server("echo.py")
    (tmp_path / "policy.toml").write_text(
        'version = 1\n[[label]]\ntool = "*"\nreturns = ["untrusted"]\n', encoding="utf-8"
    )
    async with open_app({"echo": server}, policy=tmp_path / "policy.toml") as app:
        names = [tool.name for tool in (await app.tool_registry.snapshot()).manifest.tools()]
        code = f"""from client.mcp_client import call_tool
result = [(await call_tool(server_id="echo", name=n, arguments={{"text": "w0rds"}})).ok for n in {names}]"""
        envelope = await run(app, code)
        await app.learned_types.settled()
    kept = b"".join(path.read_bytes() for path in (DATA / "private").rglob("lessons/*.json"))

    assert any(envelope.data or ())
    assert kept
    assert b"w0rds" not in kept
