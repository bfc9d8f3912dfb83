"""The contract of sessions, for every face: coroutines, plain calls, later a service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import moonpool
from apps import fixture_server

if TYPE_CHECKING:
    from sdk.faces import Face

pytestmark = pytest.mark.anyio

ECHO = {"echo": fixture_server("echo.py", ask=["*"])}
CALL = """
from servers.echo import text
r = await text(text='hi')
r.data if r.ok else r.error['type'] + ': ' + r.error['message']
"""


async def events_of(stream: Any) -> list[Any]:
    return [event async for event in stream]


@pytest.mark.req("G-046")
async def test_state_output_and_results(face: Face) -> None:
    async with face.session() as s:
        assert (await s.run("x = 20\nx + 1")).data == 21
        failed = await s.run("print('before'); import sys; print('err', file=sys.stderr); x / 0")
        assert (failed.ok, failed.error.type, failed.stdout, failed.exit_code) == (
            False,
            "ZeroDivisionError",
            "before\n",
            1,
        )
        assert "err\n" in failed.stderr
        with pytest.raises(moonpool.ExecutionFailedError, match="ZeroDivisionError") as raised:
            failed.check()
        assert raised.value.result is failed
        assert (await s.run("x")).check().data == 20
        assert (await s.run("echo $((6*7))", language="bash")).stdout == "42\n"
        late = await s.run("while True: pass", timeout=0.3)
        assert late.error.type == "Timeout"
        assert (await s.run("x")).data == 20
        usage = s.usage
        assert (usage.executions, usage.stdout_bytes) == (6, 10)
        await s.reset()
        assert (await s.run("x")).error.type == "NameError"


@pytest.mark.req("A-088", "G-046")
async def test_a_stream_yields_output_and_ends_with_the_result(face: Face) -> None:
    async with face.session() as s:
        events = await events_of(s.stream("print('ä', flush=True)\nimport sys\nprint('e', file=sys.stderr)\n7"))
        assert isinstance(events[-1], moonpool.Result)
        assert events[-1].data == 7
        said = {"stdout": "", "stderr": ""}
        for event in events[:-1]:
            said[event.stream] += event.text
        assert said == {"stdout": "ä\n", "stderr": "e\n"}


async def test_leaving_a_stream_interrupts_the_code_and_keeps_its_state(face: Face) -> None:
    async with face.session() as s:
        await s.run("x = 1")
        async for event in (stream := s.stream("x = 2\nprint('on', flush=True)\nimport time; time.sleep(600)")):
            assert event.text == "on\n"
            break
        await stream.aclose()
        with anyio.fail_after(60):
            assert (await s.run("x")).data == 2


async def test_interrupting_ends_the_code_as_cancelled(face: Face) -> None:
    async with face.session() as s:
        s.interrupt()  # nothing runs
        stream = s.stream("x = 3\nprint('on', flush=True)\nimport time; time.sleep(600)")
        events: list[Any] = []
        async for event in stream:
            if not events:
                s.interrupt()
            events.append(event)
        assert events[-1].error.type == "Cancelled"
        assert (await s.run("x")).data == 3


@pytest.mark.req("X-04")
async def test_files_go_in_and_come_out(face: Face, tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("of this machine", encoding="utf-8")
    given = {"a/b.txt": "text", "c.bin": b"\x00\xff", "here.txt": tmp_path / "here.txt"}
    async with face.session(files=given) as s:
        code = "[open('a/b.txt').read(), list(open('c.bin', 'rb').read()), open('here.txt').read()]"
        assert (await s.run(code)).data == ["text", [0, 255], "of this machine"]
        assert (await s.run("import os; os.getcwd()")).data == "/workspace"
        await s.files.write("a/b.txt", b"changed")
        assert await s.files.read("a/b.txt") == b"changed"
        made = await s.run("open('made.csv', 'w').write('1,2'); None")
        assert [(one.name, one.size, one.mime) for one in made.files] == [("made.csv", 3, "text/csv")]
        local = await s.files.get("made.csv", tmp_path / "out.csv")
        assert local.read_text(encoding="utf-8") == "1,2"
        with pytest.raises(moonpool.LocalFileError, match=r"there already.*replace=True"):
            await s.files.get("made.csv", tmp_path / "out.csv")
        await s.files.put(tmp_path / "here.txt", "again.txt")
        await s.files.delete("a", recursive=True)
        names = {entry.path for entry in await s.files.list()}
        assert {"again.txt", "made.csv"} <= names
        assert "a" not in names
        with pytest.raises(moonpool.FileTransferError, match=r"missing|no such"):
            await s.files.read("nowhere")
        await s.reset()
        assert await s.files.read("a/b.txt") == b"text"  # what was given is there again


def _cancelled(_: object) -> bool:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(lambda _: True, "hi", id="yes"),
        pytest.param(lambda _: "not today", "not today", id="no, and why"),
        pytest.param(lambda _: None, "ApprovalRejected", id="no"),
        pytest.param(lambda _: 1 / 0, "failed (ZeroDivisionError)", id="raises"),
        pytest.param(_cancelled, "failed (CancelledError)", id="is cancelled"),
        pytest.param(lambda _: 7, "gave no answer", id="no answer"),
        pytest.param(None, "nobody answers", id="nobody"),
    ],
)
async def test_a_function_answers_for_run(face: Face, answer: Any, outcome: str) -> None:
    async with face.session(servers=ECHO, approve=answer) as s:
        assert outcome in (await s.run(CALL)).check().data


async def test_requests_come_as_events_and_are_answered_once(face: Face) -> None:
    async with face.session(servers=ECHO) as s:
        for approved in (True, False):
            kinds: list[str] = []
            async for event in s.stream(CALL):
                kinds.append(type(event).__name__)
                if isinstance(event, moonpool.ApprovalRequest):
                    assert (event.server, event.tool, event.arguments) == ("echo", "text", {"text": "hi"})
                    await (event.approve() if approved else event.deny("why not", by="alice"))
                    with pytest.raises(moonpool.ApprovalAnswerError):
                        await event.approve()
            assert kinds[-1] == "Result"
            assert event.data == "hi" if approved else "why not" in event.data
            assert [kind for kind in kinds if kind.startswith("ToolCall")] == ["ToolCallStarted", "ToolCallEnded"]


async def test_one_match_statement_reads_the_events_of_every_face(face: Face) -> None:
    curious = fixture_server("curious.py", "legacy", allow=["*"], elicitation="relay")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    form = {"message": "who?", "requestedSchema": schema}
    code = f"""{CALL}
from servers.curious import ask
asked = await ask(method="elicitation/create", params={form})
print("told")
result = r.data, asked.data["result"]["content"]["name"]
"""
    seen: list[str] = []
    async with face.session(servers={**ECHO, "curious": curious}) as s:
        async for event in s.stream(code, questions=["form"], timeout=20):
            match event:
                case moonpool.ApprovalRequest():
                    seen.append("request")
                    await event.approve()
                case moonpool.ServerQuestion():
                    seen.append("question")
                    await event.accept({"name": "Ada"})
                case moonpool.Output():
                    seen.append(event.text)
                case moonpool.Result():
                    assert event.check().data == ["hi", "Ada"]
                case _:
                    pass
    assert seen == ["request", "question", "told\n"]


async def test_a_yes_without_a_person_refuses_what_policy_keeps_for_one(face: Face, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('version = 1\n[[rule]]\nid = "r"\nverdict = "human_only"\n', encoding="utf-8")
    async with face.session(servers=ECHO, policy=policy, approve=lambda _: True) as s:
        assert "named none" in (await s.run(CALL)).check().data


async def test_tools_can_be_searched_and_read(face: Face) -> None:
    async with face.session(servers=ECHO) as s:
        hits = await s.tools.search("text", limit=3)
        assert (hits[0].server, hits[0].name) == ("echo", "text")
        assert "servers.echo.text(" in await s.tools.definition(hits[0].path)
        assert (await s.tools.definition("echo.text", form="json"))["name"] == "text"
        assert "text" in {tool.name for tool in await s.tools.list()}
        with pytest.raises(moonpool.MoonpoolError, match="nothing"):
            await s.tools.definition("echo.nothing")


async def test_a_run_without_a_session(face: Face) -> None:
    assert (await face.run("x = 6\nx * 7", files={"f": "1"}, limits=moonpool.Limits(timeout_s=30))).data == 42
    made = (await face.run("open('made.csv', 'w').write('1,2')")).files
    assert [Path(one.path).read_text(encoding="utf-8") for one in made] == ["1,2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"approve": "maybe"}, "approve must be a function"),
        ({"approve": []}, "approve must be a function"),
        ({"workspace": 5}, "workspace must be a path, not int"),
        ({"policy": 5}, "policy must be a path, not int"),
        ({"checkpoints": "yes"}, "checkpoints must be True or False, not str"),
        ({"packages": {"a": 1}}, "packages must be"),
        ({"files": {5: b""}}, "name of a file in `files` must be a string, not int"),
        ({"network": moonpool.Network(credentials=5)}, "credentials of a network must be"),  # pyright: ignore[reportArgumentType]
        ({"network": moonpool.Network(credentials={"a.com": "x"})}, "credential of 'a.com' must be"),  # pyright: ignore[reportArgumentType]
        ({"limits": {"memory": 1}}, "limits must be moonpool.Limits"),
        ({"files": ["a"]}, "files must map names"),
        ({"files": {"a": 7}}, "the content of 'a' must be"),
        ({"servers": 7}, "servers must be a path or a mapping"),
        ({"servers": "/nowhere.json"}, "no such file; `servers` is a file, or its content"),
        ({"environment": "nowhere"}, "nowhere"),
        ({"limits": moonpool.Limits(disk_bytes=-1)}, "must be above 0"),
        ({"policy": "/nowhere.toml"}, "nowhere.toml.*policy= in Python"),
    ],
)
async def test_bad_options_are_one_clear_error(face: Face, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(moonpool.MoonpoolError, match=problem):
        async with face.session(**options):
            pass


async def test_why_a_server_is_left_out_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    servers = {
        "key": {"comand": "x"},
        "kind": "mcp-server-time",
        "rule": {"command": "x", "moonpool": {"alow": ["*"]}},
        "start": {"command": "no-such-thing"},
    }

    def told() -> list[str]:
        return [one.getMessage() for one in caplog.records if (one.name, one.levelname) == ("moonpool.sdk", "WARNING")]

    async with moonpool.session(servers=servers) as s:
        await s.start()
        for line, part in zip(
            told(),
            ('"comand"; did you mean "command"?', "must be an object", '"alow"; did you mean "allow"?'),
            strict=True,
        ):
            assert part in line
        for _ in range(2):
            assert await s.tools.list() == ()
        assert ["command 'no-such-thing' was not found" in line for line in told()] == [False] * 3 + [True]


async def test_bad_code_is_one_clear_error(face: Face) -> None:
    async with face.session() as s:
        for code, problem in (
            (" ", "there is no code"),
            ("a\0b", "NUL"),
            (b"1", "give it as a string"),
            ("\ud800", "surrogate"),
        ):
            with pytest.raises(moonpool.InputError, match=problem):
                await s.run(code)
        with pytest.raises(moonpool.InputError, match="language must be a string, not int"):
            await s.run("1", language=5)
        for seconds in (-1, "3", True):
            with pytest.raises(moonpool.InputError, match="timeout"):
                await s.run("1", timeout=seconds)
        with pytest.raises(moonpool.InputError, match="cobol"):
            await s.run("1", language="cobol")
        with pytest.raises(moonpool.InputError, match="questions must be"):
            await events_of(s.stream("1", questions=["gossip"]))
        assert (await s.run("1")).data == 1


async def test_arguments_of_a_wrong_type_are_one_clear_error(face: Face) -> None:
    async with face.session() as s:
        for use, problem in (
            (lambda: s.files.read(5), "path in the sandbox must be a string, not int"),
            (lambda: s.files.write(None, b""), "path in the sandbox must be a string, not NoneType"),
            (lambda: s.files.list(None), "path in the sandbox must be a string"),
            (lambda: s.files.delete(5), "path in the sandbox must be a string"),
            (lambda: s.files.get(5), "path in the sandbox must be a string"),
            (lambda: s.files.get("a", 5), "where to put the file must be a path"),
            (lambda: s.files.put(5), "the file to put must be a path"),
            (lambda: s.tools.search(5), "queries must be a question or a list"),
            (lambda: s.tools.search("a", limit="many"), "limit must be a number, not str"),
            (lambda: s.tools.definition(5), "the path of a tool must be a string"),
            (lambda: s.tools.list(5), "server must be the name of a server, not int"),
            (lambda: s.network.allow(5), "a domain must be a string"),
            (lambda: s.network.allow("a.com", credential="x"), "credential must be a moonpool.HeaderCredential"),
            (lambda: s.network.deny(5), "a domain must be a string"),
        ):
            with pytest.raises(moonpool.InputError, match=problem):
                await use()
        assert (await s.run("1")).data == 1


async def test_executions_of_one_session_run_one_after_the_other(face: Face) -> None:
    async with face.session() as s:
        await s.run("seen = []")
        await asyncio.gather(*(s.run(f"seen.append({n}); seen.append({n})") for n in range(5)))
        seen = (await s.run("seen")).data
        assert sorted(seen) == sorted(2 * list(range(5)))
        assert all(seen[n] == seen[n + 1] for n in range(0, 10, 2))
