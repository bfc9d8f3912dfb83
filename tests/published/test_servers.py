"""Servers that others publish, over stdio: what code does with them is done, and what they refuse is a typed error."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from apps import open_app, run
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.events import RunEnded, run_events
from moonpool.features.approvals.events import ApprovalQuestion, EventApprover
from published import servers
from published.pages import open_pages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.slow]


@dataclass(frozen=True, kw_only=True)
class World:
    """What the servers work on."""

    app: Tenant
    folder: Path
    repository: Path

    async def outcome(self, code: str) -> Any:
        """The result of code in a sandbox, which has a function `tell`: a call's data, or its error."""
        envelope = await run(self.app, _TELL + code)
        assert envelope.ok, envelope.error
        return envelope.data


_TELL = """
def tell(call):
    return call.data if call.ok else [call.error["type"], call.error["message"]]
"""


@pytest.fixture(scope="module")
def pages() -> Generator[str]:
    with open_pages() as address:
        yield address


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for command in (["init", "-q"], ["config", "user.name", "T"], ["config", "user.email", "t@example.com"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def subjects(repository: Path) -> list[str]:
    """What was committed: subjects and names of files."""
    log = ["git", "log", "--format=%s", "--name-only"]
    return subprocess.check_output(log, cwd=repository, encoding="utf-8").split()


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> AsyncGenerator[World]:
    folder = tmp_path_factory.mktemp("world")
    (folder / "files").mkdir()
    entries = {
        "clock": servers.time_server(),
        "git": servers.git(repository),
        "db": servers.sqlite(folder / "data.db", allow=["*_table*", "*_query", "append_insight", "mcp:*"]),
        "web": servers.fetch(allow=["*"]),
        "local": servers.fetch("--allow-private-ips", allow=["*"]),
        "files": servers.filesystem(folder / "files", allow=["*", "write_file", "edit_file", "move_file"]),
        "graph": servers.memory(folder / "graph.jsonl", allow=["*", "delete_*"]),
        "every": servers.everything(trusted=True, allow=["*"], tasks=True),
    }
    async with open_app(entries) as app:
        yield World(app=app, folder=folder, repository=repository)


async def test_time_converts_and_refuses_what_is_no_time_zone(world: World) -> None:
    code = """
from servers.clock import convert_time
given = {"source_timezone": "UTC", "time": "12:30"}
result = [tell(await convert_time(**given, target_timezone=zone)) for zone in ("Asia/Tokyo", "Moon/Base")]
"""
    converted, refused = await world.outcome(code)
    assert converted["target"]["datetime"].endswith("T21:30:00+09:00")
    assert refused[0] == "ToolError"
    assert "Moon/Base" in refused[1]


async def test_git_commits(world: World) -> None:
    (world.repository / "a.txt").write_text("a\n", encoding="utf-8")
    code = f"""
from servers.git import git_add, git_commit, git_show
place = {str(world.repository)!r}
result = [tell(await git_add(repo_path=place, files=["a.txt"])), tell(await git_commit(repo_path=place, message="one"))]
result.append(tell(await git_show(repo_path=place, revision="nothing"))[0])
"""
    assert (await world.outcome(code))[-1] == "ToolError"
    assert subjects(world.repository) == ["one", "a.txt"]


async def test_sqlite_keeps_rows_and_offers_a_memo_and_a_prompt(world: World) -> None:
    code = """
from servers import db
result = [tell(call) for call in (
    await db.create_table(query="CREATE TABLE moons (name TEXT, planet TEXT)"),
    await db.write_query(query="INSERT INTO moons VALUES ('Io', 'Jupiter'), ('Rhea', 'Saturn')"),
    await db.read_query(query="SELECT name FROM moons ORDER BY name"),
    await db.read_query(query="DROP TABLE moons"),
    await db.append_insight(insight="moons are few"),
    await db.mcp_resources_read(uri="memo://insights"),
    await db.mcp_prompts_get(name="mcp-demo", arguments={"topic": "moons"}),
    await db.write_query(queri="typo"),
)]
"""
    created, written, read, dropped, _, memo, prompt, wrong = await world.outcome(code)
    assert (created, written) == ("Table created successfully", [{"affected_rows": 2}])  # printed Python, read as data
    assert read == [{"name": "Io"}, {"name": "Rhea"}]
    assert "Only SELECT" in str(dropped)
    assert "moons are few" in memo["contents"][0]["text"]
    assert "moons" in prompt["messages"][0]["content"]["text"]
    assert wrong[0] == "ValidationError"
    with sqlite3.connect(world.folder / "data.db") as database:
        rows = database.execute("SELECT name, planet FROM moons ORDER BY name").fetchall()
    assert rows == [("Io", "Jupiter"), ("Rhea", "Saturn")]


@pytest.mark.req("G-027")
async def test_fetch_reads_a_page_and_obeys_robots(world: World, pages: str) -> None:
    code = f"""
from servers import local, web
result = [tell(await local.fetch(url={pages!r} + path)) for path in ("/page", "/nothing", "/private")]
result.append(tell(await web.fetch(url={pages!r} + "/page")))
"""
    page, missing, private, refused = await world.outcome(code)
    assert "It has no air." in page
    assert "<p>" not in page
    assert missing[0] == private[0] == refused[0] == "ToolError"
    assert "404" in missing[1]
    assert "robots" in private[1]


@pytest.mark.req("G-027", "G-030")
async def test_filesystem_writes_in_its_folder_and_nowhere_else(world: World) -> None:
    code = f"""
from servers import files
inside, outside = {str(world.folder / "files" / "note.txt")!r}, {str(world.folder / "stolen.txt")!r}
result = [tell(call) for call in (
    await files.write_file(path=inside, content="one\\ntwo\\n"),
    await files.edit_file(path=inside, edits=[{{"oldText": "two", "newText": "three"}}]),
    await files.read_text_file(path=inside, head=1),
    await files.move_file(source=inside, destination=inside + ".old"),
    await files.read_media_file(path=inside + ".old"),
    await files.write_file(path=outside, content="x"),
    await files.read_text_file(path="/etc/hostname"),
)]
"""
    _, _, head, _, media, wrote, read = await world.outcome(code)
    assert head == {"content": "one"}
    assert media["content"][0]["resource"]["mimeType"] == "application/octet-stream"
    assert [wrote[0], read[0]] == ["ToolError", "ToolError"]
    assert (world.folder / "files/note.txt.old").read_text(encoding="utf-8") == "one\nthree\n"
    assert not (world.folder / "stolen.txt").exists()


@pytest.mark.req("G-027")
async def test_memory_keeps_a_graph(world: World) -> None:
    code = """
from servers import graph
things = [{"name": name, "entityType": "person", "observations": ["writes"]} for name in ("Ada", "Mary")]
result = [tell(call) for call in (
    await graph.create_entities(entities=things),
    await graph.create_relations(relations=[{"from": "Ada", "to": "Mary", "relationType": "knows"}]),
    await graph.search_nodes(query="Ada"),
    await graph.delete_entities(entityNames=["Mary"]),
    await graph.add_observations(observations=[{"entityName": "Nobody", "contents": ["x"]}]),
    await graph.mcp_resources_read(uri="memory://knowledge-graph"),
)]
"""
    *_, found, _, refused, resource = await world.outcome(code)
    assert [entity["name"] for entity in found["entities"]] == ["Ada"]
    assert refused[0] == "ToolError"
    assert "Mary" not in resource["contents"][0]["text"]
    kept = [json.loads(line) for line in (world.folder / "graph.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [entry.get("name") for entry in kept] == ["Ada"]


@pytest.mark.req("G-031")
async def test_everything_gives_every_kind_of_content(world: World) -> None:
    code = """
from servers import every
result = [call.data for call in (
    await every.echo(message="hi"),
    await every.get_structured_content(location="Chicago"),
    await every.get_tiny_image(),
    await every.get_annotated_message(messageType="error", includeImage=True),
    await every.get_resource_links(count=2),
    await every.get_resource_reference(resourceType="Blob", resourceId=1),
    await every.gzip_file_as_resource(name="a.gz", data="data:text/plain,hello", outputType="resourceLink"),
)]
"""
    echoed, structured, image, annotated, links, reference, zipped = await world.outcome(code)
    assert echoed == "Echo: hi"
    assert structured == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    assert "image" in [block["type"] for block in image]
    assert annotated[0]["annotations"]["audience"] == ["user", "assistant"]
    assert [block["type"] for block in links].count("resource_link") == 2
    assert "file" in next(block for block in reference if block["type"] == "resource")["resource"]  # the blob is there
    assert zipped[0]["type"] == "resource_link"


@pytest.mark.req("H-068", "H-069")
async def test_everything_carries_out_a_tool_that_requires_a_task(world: World) -> None:
    code = """
from servers.every import simulate_research_query
result = (await simulate_research_query(topic="moons")).data
"""
    assert "moons" in str(await world.outcome(code))


async def test_everything_offers_resources_prompts_and_completion(world: World) -> None:
    code = """
from servers import every
listed = (await every.mcp_resources_list()).data
result = [len(listed["resources"]), len(listed["resourceTemplates"])] + [tell(call) for call in (
    await every.mcp_resources_read(uri="demo://resource/dynamic/text/7"),
    await every.mcp_resources_read(uri="demo://nothing"),
    await every.mcp_prompts_get(name="args-prompt", arguments={"city": "Berlin"}),
    await every.mcp_completion_complete(prompt="completable-prompt", argument="department", value="S"),
    await every.mcp_completion_complete(
        prompt="completable-prompt", argument="name", value="", known={"department": "Sales"}
    ),
)]
"""
    resources, templates, text, missing, prompt, departments, names = await world.outcome(code)
    assert resources >= 1
    assert templates == 2
    assert "Resource 7" in text["contents"][0]["text"]
    assert missing[0] == "UpstreamError"
    assert "Berlin" in prompt["messages"][0]["content"]["text"]
    assert departments["values"] == ["Sales", "Support"]
    assert "David" in names["values"]


@pytest.mark.req("D-013", "D-014")
async def test_everything_tells_of_resources_that_code_subscribed_to(world: World) -> None:
    code = """
from servers import every
uri = "demo://resource/dynamic/text/1"
await every.mcp_resources_subscribe(uri=uri)
await every.toggle_subscriber_updates()
told = (await every.mcp_resources_wait(within_s=20))["changed"]
await every.toggle_subscriber_updates()
result = [uri, told]
"""
    uri, told = await world.outcome(code)
    assert told == [uri]


async def test_everything_is_slow_is_left_and_answers_the_next_call(world: World) -> None:
    code = """
import asyncio
from servers import every
quick = every.trigger_long_running_operation(duration=0.2, steps=4)
left = asyncio.ensure_future(every.trigger_long_running_operation(duration=60, steps=60))
result = [tell(await quick)]
left.cancel()
result.append(tell(await every.echo(message="still here")))
"""
    done, echoed = await world.outcome(code)
    assert done.startswith("Long running operation completed")
    assert echoed == "Echo: still here"


async def test_everything_gets_no_person_and_no_model_to_ask(world: World) -> None:
    offered = await world.outcome("import os\nresult = os.listdir('/workspace/servers/every')")
    assert "toggle_simulated_logging.py" in offered
    assert [name for name in offered if "sampling" in name or "elicitation" in name or "roots" in name] == []


async def test_a_server_is_given_none_of_our_variables(world: World) -> None:
    code = "from servers import every\nresult = sorted((await every.get_env()).data)"
    assert set(await world.outcome(code)) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


@pytest.mark.req("G-044", "D-004")
async def test_filesystem_writes_nothing_before_the_application_has_said_yes(tmp_path: Path) -> None:
    folder, approver = tmp_path / "files", EventApprover()
    folder.mkdir()
    code = f"""
from servers.files import write_file
print("about to write", flush=True)
result = [(await write_file(path={str(folder)!r} + "/" + name, content="x")).ok for name in ("a.txt", "b.txt")]
"""
    there = list[tuple[str, list[str]]]()
    async with open_app({"files": servers.filesystem(folder, ask=["*"])}, approver=approver) as app:
        request = CodeRequest(code=code.encode())
        async with run_events(lambda one: app.runtime.run(one, app.caller_grant), request, approver) as events:
            async for event in events:
                there.append((type(event).__name__, sorted(path.name for path in folder.iterdir())))
                match event:
                    case ApprovalQuestion(request=asked):
                        await (event.approve() if "a.txt" in asked.arguments else event.deny())
                    case RunEnded(envelope=envelope):
                        assert envelope.data == [True, False], envelope.error
                    case _:
                        pass
    assert there == [
        ("OutputChunk", []),
        ("CallStarted", []),
        ("ApprovalQuestion", []),
        ("CallEnded", ["a.txt"]),
        ("CallStarted", ["a.txt"]),
        ("ApprovalQuestion", ["a.txt"]),
        ("CallEnded", ["a.txt"]),
        ("RunEnded", ["a.txt"]),
    ]
