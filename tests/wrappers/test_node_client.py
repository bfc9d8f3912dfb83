"""The JavaScript client in every Node of this machine; the assertions stand in `node/client.test.mjs`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from wrappers.nodes import NODES, SCRIPTS, run_node
from wrappers.regenerate import put_golden_tree

if TYPE_CHECKING:
    from pathlib import Path

GUIDES_SAMPLE = """\
import * as gdrive from "./servers/google_drive/index.js";

async function main() {
  console.error("Fetching document…");
  const doc = await gdrive.getDocument({ documentId: "abc123" });

  const text = doc.structuredContent?.content ?? JSON.stringify(doc.content);
  const summary = summarize(text);

  globalThis.result = { summary };
}

main().catch((e) => {
  console.error(e?.stack ?? String(e));
  process.exitCode = 1;
});
"""
GUIDES_WRAPPER = """\
import { callTool } from "../../client/mcp_client.js";

export async function getWeather(args) {
  return await callTool({ serverId: "weather", name: "get_weather", arguments: args });
}
"""
AROUND_IT = """\
globalThis.summarize = (text) => text.toUpperCase();
globalThis[Symbol.for("moonpool.callTool")] = async (server, tool, args) => {
  console.log(JSON.stringify([server, tool, args]));
  const structuredContent = { title: "t", content: "text" };
  return { ok: true, data_from: "structured", raw: { structuredContent, content: [] } };
};
process.on("exit", () => console.log(JSON.stringify(globalThis.result)));
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's."""
    return put_golden_tree("guide", tmp_path_factory.mktemp("guide") / "tree")


@pytest.mark.req("H-042", "H-044", "X-03")
@pytest.mark.parametrize("node", NODES)
def test_the_client_keeps_its_promises(node: str, tree: Path) -> None:
    printed = run_node("--test-reporter=tap", "--test", SCRIPTS / "client.test.mjs", node=node, TREE=str(tree))
    assert re.search(r"^# pass [1-9]\d*$", printed, re.MULTILINE), printed


@pytest.mark.req("H-008", "H-012")
@pytest.mark.parametrize("node", NODES)
def test_the_guides_node_sample_runs_unchanged(node: str, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "servers").symlink_to(tree / "servers")
    (workspace / "around.mjs").write_text(AROUND_IT, encoding="utf-8")
    (workspace / "sample.mjs").write_text(GUIDES_SAMPLE, encoding="utf-8")
    printed = run_node("--import", workspace / "around.mjs", workspace / "sample.mjs", node=node)
    assert printed.splitlines() == ['["google-drive","get_document",{"documentId":"abc123"}]', '{"summary":"TEXT"}']


@pytest.mark.req("H-008", "H-009")
def test_the_guides_hand_written_wrapper_runs_but_for_its_parameters_name(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "client").symlink_to(tree / "client")
    (workspace / "mine" / "weather").mkdir(parents=True)
    (workspace / "mine" / "weather" / "index.mjs").write_text(GUIDES_WRAPPER, encoding="utf-8")
    (workspace / "around.mjs").write_text(AROUND_IT, encoding="utf-8")
    (workspace / "main.mjs").write_text(
        'import { getWeather } from "./mine/weather/index.mjs";\n'
        'globalThis.result = await getWeather({ location: "Bern" });\n',
        encoding="utf-8",
    )
    printed = run_node("--import", workspace / "around.mjs", workspace / "main.mjs")
    assert printed.splitlines() == [
        '["weather","get_weather",{"location":"Bern"}]',
        '{"title":"t","content":"text"}',
    ]
