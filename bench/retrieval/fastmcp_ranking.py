"""fastmcp's BM25 search transform on the same tools and questions, bare and with the server's name before each tool's.

It runs in the environment that `requirements/bench-codemode.txt` locks, once for everything that is asked.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench.peers.venvs import PeerMissingError, peer_python
from bench.retrieval.metrics import DEPTH

if TYPE_CHECKING:
    from bench.retrieval.metrics import Line
    from bench.retrieval.query_sets import Collection

_AGENT = Path(__file__).parents[1] / "peers" / "bm25_agent.py"
_ANSWER_S = 900.0


def fastmcp_rankings(collections: list[Collection], *, prefixed: bool) -> dict[str, dict[str, list[Line]]]:
    """Lines by collection and query. Raises PeerMissingError."""
    queries = {
        one.name: sorted({question.text for part in (*one.sets, *one.kinds) for question in part.questions})
        for one in collections
    }
    order = {
        "depth": DEPTH,
        "catalogs": [{"tools": _tools(one, prefixed=prefixed), "queries": queries[one.name]} for one in collections],
    }
    answers = _ask(order)
    found: dict[str, dict[str, list[Line]]] = {}
    for collection, rankings in zip(collections, answers, strict=True):
        keys = [tool.key for tool in collection.manifest.tools()]
        found[collection.name] = {
            query: [(keys[place],) for place in ranking]
            for query, ranking in zip(queries[collection.name], rankings, strict=True)
        }
    return found


def _tools(collection: Collection, *, prefixed: bool) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    for tool in collection.manifest.tools():
        namespace = re.sub(r"[^A-Za-z0-9_-]+", "_", tool.server_id)
        name = f"{namespace}_{tool.name}" if prefixed else tool.name
        tools.append({"name": name, "description": tool.description, "schema": _readable(tool.input_schema)})
    return tools


def _readable(schema: object) -> dict[str, Any]:
    """The schema, without properties that are none: fastmcp would fail on them, and all other tools with it."""
    if not isinstance(schema, dict):
        return {"type": "object"}
    found = cast("dict[str, Any]", schema)
    return found if isinstance(found.get("properties", {}), dict) else {**found, "properties": {}}


def _ask(order: dict[str, Any]) -> list[list[list[int]]]:
    command = [str(peer_python("codemode")), str(_AGENT)]
    try:
        done = subprocess.run(
            command, input=json.dumps(order), capture_output=True, encoding="utf-8", timeout=_ANSWER_S, check=True
        )
    except subprocess.CalledProcessError as error:
        raise PeerMissingError(f"fastmcp failed: {' '.join(error.stderr.split())[-300:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"fastmcp failed: {error}") from None
    return json.loads(done.stdout)
