"""Round trip: definitions -> wrappers -> calls in a guest -> what the bridge received.

`sample_instance` makes arguments from a schema; `make_cases` plans one call per tool; `run_in_guest` performs them in a
bare interpreter. Tests of the real sandbox reuse the first two and `guest_calls.call_every_way`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.wrappers.tree import WrapperTree

TESTS = Path(__file__).resolve().parents[1]
TOOLLISTS = TESTS / "data" / "toollists"
CLIENT_PARENT = TESTS.parent / "src" / "moonpool_guest" / "path"
GUEST_CALLS = Path(__file__).with_name("guest_calls.py")


def make_listing(server_id: str, tools: Iterable[Any], **about: str) -> ServerListing:
    """A listing of raw definitions."""
    return ServerListing(
        server_id=server_id,
        tools=tuple(ToolDefinition(server_id=server_id, name=raw["name"], raw=raw) for raw in tools),
        **about,
    )


def load_toollist(path: Path) -> ServerListing:
    """One recorded `tools/list` of a real server."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    about = recorded["serverInfo"]
    return make_listing(
        recorded["server"], recorded["result"]["tools"], name=about.get("name", ""), title=about.get("title") or ""
    )


def load_real_manifest() -> Manifest:
    """All recorded servers."""
    return Manifest(servers=tuple(load_toollist(path) for path in sorted(TOOLLISTS.glob("*.json"))))


def write_tree(tree: WrapperTree, folder: Path) -> Path:
    for path, content in tree.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        assert not target.exists(), f"{path} is written twice on this file system"
        target.write_bytes(content)
    return folder


def make_cases(tree: WrapperTree, manifest: Manifest) -> list[dict[str, Any]]:
    """One call per tool, with an instance of its schema and a member that the schema does not name."""
    cases: list[dict[str, Any]] = []
    for tool in manifest.tools():
        server, names = tree.names.find(tool.server_id, tool.name)
        arguments = sample_instance(tool.input_schema, tool.input_schema)
        arguments = arguments if isinstance(arguments, dict) else {}
        cases.append({
            "server_id": tool.server_id,
            "tool": tool.name,
            "module": server.module,
            "function": names.function,
            "sync": names.sync_function,
            "mcptools": names.module,
            "node": names.node,
            "arguments": {**arguments, "not in the schema": None},
        })  # fmt: skip
    return cases


def run_in_guest(tree_folder: Path, cases: list[dict[str, Any]]) -> list[list[Any]]:
    """What the bridge received, call by call, in the order of the cases and of `guest_calls.FORMS`."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", str(GUEST_CALLS), str(tree_folder), str(CLIENT_PARENT)],
        input=json.dumps(cases),
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def sample_instance(schema: Any, root: Any, depth: int = 0) -> Any:
    """Some value that fits `schema` where that is easy to see; every named member is present."""
    for _ in range(20):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = _resolve(schema["$ref"], root)
    if not isinstance(schema, dict) or depth > 12:
        return {"any": [1, None]} if schema is True else None
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][-1]
    if "properties" in schema or "allOf" in schema:
        return _sample_object(schema, root, depth)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list) and schema[word]:
            return sample_instance(schema[word][0], root, depth + 1)
    return _sample_kind(schema, root, depth)


def _sample_kind(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "array":
        prefix = schema.get("prefixItems") or (schema["items"] if isinstance(schema.get("items"), list) else None)
        return [sample_instance(each, root, depth + 1) for each in prefix or [schema.get("items", True)] * 2]
    if kind == "object":
        extra = schema.get("additionalProperties")
        return {"some key": sample_instance(extra, root, depth + 1)} if isinstance(extra, dict) else {"free": {"x": 1}}
    if kind in ("integer", "number"):
        return _within(schema, 7 if kind == "integer" else 0.5)
    return {"string": "tëxt \u2028\"'\\", "boolean": False, "null": None}.get(str(kind), "any")


def _within(schema: dict[str, Any], number: float) -> float:
    """`number`, moved into the range that the schema allows."""
    if isinstance(lowest := schema.get("exclusiveMinimum"), int | float):
        number = max(number, lowest + 1)
    number = max(number, schema.get("minimum", number))
    return min(number, schema.get("maximum", number))


def _sample_object(schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for part in schema.get("allOf") or ():
        sampled = sample_instance(part, root, depth + 1)
        whole.update(sampled if isinstance(sampled, dict) else {})
    properties = schema.get("properties")
    for name, value in (properties if isinstance(properties, dict) else {}).items():
        whole[name] = sample_instance(value, root, depth + 1)
    return whole


def _resolve(reference: str, root: Any) -> Any:
    node = root
    for part in reference.split("/")[1:] if reference.startswith("#") else ["", ""]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node
