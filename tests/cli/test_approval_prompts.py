"""Approvals at a terminal: one call, one answer; nothing that code can write looks like the question."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import select
import shutil
import sys
import threading
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

import pytest

from apps import fresh_data
from cli.console import SERVERS, moonpool, raw_server, run_code, write_config
from cli.terminal import Terminal
from moonpool.cli.log_lines import log_among
from moonpool.cli.main import app
from moonpool.cli.program_output import ProgramOutput
from moonpool.core.calls import ApprovalState
from moonpool.features.approvals.files import KeptGrants
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.sandboxes.base import Stream
from moonpool.terminal.approver import TerminalApprover, framed, question
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator


PROMPT = "Allow this call? y = once, n = no, n WHY = no and tell the code why"
FURTHER = ",\nr = all calls of this tool in this run, s = always with these arguments, a = always (90 days): "
CALL = "import servers.srv as s\nresult = (await s.echo(a='b'))"


def _no_grants() -> NoReturn:
    raise AssertionError("no grant is given here")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """One server none of whose tools is pre-approved."""
    return write_config(tmp_path, {"srv": raw_server("good", ask=["*"])})


@pytest.fixture
def data() -> Iterator[dict[str, str]]:
    """A data folder of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-prompts-{uuid.uuid4().hex[:8]}")
    yield {"MOONPOOL_DATA_DIR": str(fresh_data(folder))}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.req("H-034")
@pytest.mark.parametrize(
    ("typed", "ok", "state"),
    [
        pytest.param("y\n", True, "APPROVED", id="yes"),
        pytest.param("n\n", False, "REJECTED", id="no"),
        pytest.param("what?\n\nYES\n", True, "APPROVED", id="yes at the third try"),
        pytest.param("b\nc\nd\n", False, "REJECTED", id="three answers that are none"),
        pytest.param("\x04", False, "REJECTED", id="end of file"),
    ],
)
def test_the_answer_of_a_person_decides(tmp_path: Path, config: Path, typed: str, ok: bool, state: str) -> None:
    with Terminal(tmp_path, "run", "-c", CALL, "--config", config) as terminal:
        at = 0
        for line in typed.splitlines(keepends=True):
            at = terminal.wait_for(PROMPT, after=at)
            terminal.type(line)
        ended = terminal.wait_ended()
    assert ended.result["ok"] is ok
    assert ended.envelope["approval_state"] == state
    assert PROMPT.encode() not in ended.stdout


def test_who_answers_too_late_is_told(tmp_path: Path, config: Path) -> None:
    command = ("run", "-c", CALL, "--config", config)
    with Terminal(tmp_path, *command, MOONPOOL_APPROVAL_EXPIRY_S="0.5") as terminal:
        terminal.wait_for("Too late: the question has expired", after=terminal.wait_for(PROMPT))
        ended = terminal.wait_ended()
    assert ended.envelope["approval_state"] == "EXPIRED"


def test_answers_typed_before_the_question_do_not_count(tmp_path: Path, config: Path) -> None:
    fake = f"import time\nprint({PROMPT!r}, flush=True)\ntime.sleep(3)\n{CALL}"
    with Terminal(tmp_path, "run", "-c", fake, "--config", config) as terminal:
        at = terminal.wait_for(PROMPT)
        terminal.type("y\n")
        terminal.wait_for(PROMPT, after=at)
        terminal.type("n\n")
        ended = terminal.wait_ended()
    assert ended.envelope["approval_state"] == "REJECTED"


def test_a_program_cannot_redraw_the_screen(tmp_path: Path) -> None:
    code = "print('\\x1b[2J\\x1b[Hnew\\x9b1A\\x07\\x08 screen', flush=True)"
    with Terminal(tmp_path, "run", "-c", code) as terminal:
        ended = terminal.wait_ended()
    assert "new" in ended.stderr
    assert not {"\x1b", "\x9b", "\x07", "\x08"} & set(ended.stderr)


def test_what_the_program_prints_waits_while_a_question_is_open(tmp_path: Path, config: Path) -> None:
    code = """
import asyncio, servers.srv as s
call = asyncio.ensure_future(s.echo(a=1))
count = 0
while not call.done():
    print("CHATTER", flush=True)
    count += 1
    await asyncio.sleep(0.05)
result = [(await call).data, count]
"""
    with Terminal(tmp_path, "run", "-c", code, "--config", config) as terminal:
        asked = terminal.wait_for(PROMPT)
        threading.Event().wait(0.5)  # something to print
        terminal.type("no idea\n")
        again = terminal.wait_for(PROMPT, after=asked)
        assert "CHATTER" not in terminal.screen[asked:again]
        terminal.type("y\n")
        ended = terminal.wait_ended()
    answered, count = ended.result["data"]
    assert answered == {"a": 1}
    assert ended.stderr.count("CHATTER") == count > 0


class SlowEvent(threading.Event):
    """Whoever has waited stops once more before it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.came, self.passed, self.go_on = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.came.release()
        found = super().wait(timeout)
        self.passed.release()
        return found and self.go_on.wait(20)


def test_what_was_about_to_be_written_does_not_come_below_the_question() -> None:
    """A thread writes; between its look whether it may and its writing, a question can be put."""
    shown, side = pty.openpty()
    output, may_write = ProgramOutput(side), SlowEvent()
    may_write.set()
    output._may_write = may_write
    output.show(Stream.STDOUT, b"a question that is none\n")
    assert may_write.came.acquire(timeout=20)
    assert may_write.passed.acquire(timeout=20)
    with output.held():
        os.write(side, b"the question\n")
        may_write.go_on.set()
        assert may_write.came.acquire(timeout=5), "it did not look again"
        assert os.read(shown, 100) == b"the question\r\n"
        assert select.select([shown], [], [], 0)[0] == []
    output.close()
    assert b"a question that is none" in os.read(shown, 100)
    os.close(shown)
    os.close(side)


def test_remarks_and_the_log_stand_on_a_line_each_and_move_no_cursor() -> None:
    reading, writing = os.pipe()
    output = ProgramOutput(writing)
    with log_among(output.say):
        logging.getLogger("somewhere").warning("server %r says: %s", "srv", "x\n│ \x1b[2Jy")
        try:
            raise ValueError("a value")
        except ValueError:
            logging.getLogger("elsewhere").exception("failed")
    logging.getLogger("somewhere").warning("later")
    output.say("a call of srv.a\x1b[2J\nb waits")
    output.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        assert said.read().decode().splitlines() == [
            "moonpool: server 'srv' says: x\\n│ \\x1b[2Jy",
            "moonpool: failed (ValueError)",
            "moonpool: a call of srv.a\\x1b[2J\\nb waits",
        ]


def test_the_log_of_any_command_is_remarks_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "lastResort", None)
    app.load("version")
    taker = cast("logging.Handler", logging.lastResort)
    taker.handle(logging.makeLogRecord({"levelno": logging.WARNING, "msg": "x\n\x1b[2Jy"}))
    assert capsys.readouterr().err == "moonpool: x\\n\\x1b[2Jy\n"


def test_what_a_server_logs_is_a_remark_of_the_command_which_waits_for_a_question(tmp_path: Path) -> None:
    talker = {"command": sys.executable, "args": [str(SERVERS / "curious.py"), "legacy"], "moonpool": {"allow": ["*"]}}
    said = {"method": "notifications/message", "params": {"level": "error", "data": f"no\u2800news\n{PROMPT}"}}
    code = f"import servers.talker as t\nawait t.say(**{said!r})\nresult = 1"
    ended = run_code(tmp_path, code, "--config", write_config(tmp_path, {"talker": talker}))
    assert ended.stderr == f"moonpool: server 'talker' says: no news {PROMPT.strip()}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{before}{PROMPT}"
        for before in ("\n└─\n", "\x1b[2K\r", "\u2028", " " * 70, "\u202e", "\ud800", "\x9b2K", "y" * 9000)
    ],
    ids=lambda text: ascii(text[:9]),
)
def test_arguments_cannot_imitate_the_question(text: str) -> None:
    request = ApprovalRequest(
        request_id="r",
        run_id="run",
        principal="p",
        server_id="srv",
        tool_name="tool" + text,
        arguments=json.dumps({"a": text}, ensure_ascii=False) + text,
        arguments_digest="d",
        reason="rule" + text,
    )
    shown = question(request, 80)
    lines = shown.split("\n")
    assert lines[0] == ""
    assert lines[1] == "┌─ approval"
    assert lines[-2:] == ["└─", ""]
    assert all(line.startswith("│ ") and len(line) < 80 and line.isprintable() for line in lines[2:-2])


def test_a_question_is_broken_between_words_and_loses_nothing() -> None:
    words = "no rule matches it and the server does not declare it read-only, so somebody has to say yes to the call"
    for text in (words, "x" * 500, f"{words} {'y' * 500} {words}", "  ".join(words), "字" * 300):
        lines = framed(text, 60)
        assert "".join(lines) == text
        assert all(sum(2 if char == "字" else 1 for char in line) <= 57 for line in lines)
    assert [line.rstrip() for line in framed(words, 60)] == [
        "no rule matches it and the server does not declare it",
        "read-only, so somebody has to say yes to the call",
    ]


def test_all_of_a_long_call_can_be_read_before_it_is_answered(tmp_path: Path, config: Path) -> None:
    code = CALL.replace("'b'", "'lorem ' * 2000 + 'the end'").replace("a=", "z=")
    with Terminal(tmp_path, "run", "-c", code, "--config", config) as terminal:
        at = terminal.wait_for("tell the code why, f = show all of it: ")
        assert "(not all of it is shown)" in terminal.screen
        terminal.type("r\n")
        at = terminal.wait_for("Not for further calls: not all of this one was shown.", after=at)
        at = terminal.wait_for("f = show all of it: ", after=at)
        terminal.type("f\n")
        again = terminal.wait_for(f"f = show all of it{FURTHER}", after=at)
        assert terminal.screen[at:again].count("lorem") == 2000
        terminal.type("n too long for me\n")
        ended = terminal.wait_ended()
    assert ended.envelope["approval_state"] == "REJECTED"
    assert ended.result["error"]["message"].startswith("srv.echo was not approved: too long for me")


def test_an_answer_covers_further_calls_of_this_run_or_of_later_ones(
    tmp_path: Path, config: Path, data: dict[str, str]
) -> None:
    code = (
        "import servers.srv as s\nresult = []\n"
        "for text in ('always', 'always', 'in this run', 'anything'):\n    result.append((await s.echo(a=text)).ok)"
    )
    with Terminal(tmp_path, "run", "-c", code, "--config", config, **data) as terminal:
        at = 0
        for typed in ("s", "r"):
            at = terminal.wait_for(FURTHER, after=at)
            terminal.type(f"{typed}\n")
        ended = terminal.wait_ended()
    assert ended.result["data"] == [True] * 4
    assert ended.stderr.count(PROMPT) == 2
    rows = moonpool(tmp_path, "audit", "show", "--run", "last", "--json", **data).stdout.splitlines()
    who = [row["approver"] for row in map(json.loads, rows) if row["kind"] == "call_outcome"]
    rule = json.loads(moonpool(tmp_path, "approvals", "rules", "--json", **data).stdout)
    me = who[0]
    assert who == [me, f"standing:{rule['id']} by {me}", me, f"for this run by {me}"]
    assert (rule["given_by"], rule["where"], rule["arguments_digest"][:7]) == (me, [], "sha256:")

    with Terminal(tmp_path, "run", "-c", code, "--config", config, **data) as terminal:
        terminal.wait_for('with { "a": "in this run" }')
        terminal.wait_for(FURTHER)
        terminal.type("a\n")
        assert terminal.wait_ended().result["data"] == [True] * 4
    later = run_code(tmp_path, code, "--config", config, "--approve", "deny", **data)
    assert later.result["data"] == [True] * 4


REQUEST = ApprovalRequest(
    request_id="q", run_id="run_1", principal="local:alice", server_id="srv", tool_name="echo", arguments="{}",
    arguments_digest="sha256:a", reason="", tool_digest="sha256:tool", server_digest="sha256:server",
)  # fmt: skip


class Typist:
    """A terminal at which somebody types `lines`, one for each question."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.shown = list(lines), ""

    @asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        yield

    def width(self) -> int:
        return 80

    def write(self, text: str) -> None:
        self.shown += text

    async def read_line(self) -> str:
        return self.lines.pop(0)


@every_row(
    ("answered", "later", "asked_again"),
    [
        pytest.param({}, {"arguments_digest": "sha256:b"}, False, id="other arguments of the tool"),
        pytest.param({}, {"run_id": "run_2"}, True, id="another run"),
        pytest.param({}, {"tool_name": "delete"}, True, id="another tool"),
        pytest.param({}, {"tool_digest": "sha256:new"}, True, id="the tool described anew"),
        pytest.param({}, {"server_digest": "sha256:new"}, True, id="the server configured anew"),
        pytest.param({}, {"principal": "local:bob"}, True, id="somebody else"),
        pytest.param({}, {"of_the_moment": True}, True, id="asked because of what was done before"),
        pytest.param({}, {"human_only": True}, True, id="reserved for a person"),
        pytest.param({"human_only": True}, {"human_only": True}, False, id="reserved, and so was the first"),
        pytest.param({"human_only": True}, {}, False, id="the first was reserved"),
        pytest.param({"of_the_moment": True}, {}, True, id="the first was asked because of what was done before"),
        pytest.param({"cut": True}, {}, True, id="not all of the first was shown"),
    ],
)
def test_what_an_answer_for_this_run_covers(answered: dict[str, Any], later: dict[str, Any], asked_again: bool) -> None:
    typist = Typist("r", "y", "n")
    approver = TerminalApprover(cast("Any", typist), name="terminal:alice", grants=KeptGrants(_no_grants))

    async def both() -> str:
        assert (await approver.ask(replace(REQUEST, **answered))).state is ApprovalState.APPROVED
        typist.lines = ["n"]
        return (await approver.ask(replace(REQUEST, **later))).approver

    assert asyncio.run(both()) == ("terminal:alice" if asked_again else "for this run by terminal:alice")


@pytest.mark.anyio
async def test_an_answer_that_is_kept_too_late_does_not_stand() -> None:
    class SlowBook(KeptGrants):
        began, go_on = threading.Event(), threading.Event()
        grants: ClassVar[list[str]] = []

        def give(self, *_: object, **__: object) -> Any:
            self.began.set()
            assert self.go_on.wait(20)
            self.grants.append("one")
            return "one"

        def remove(self, given: Any, _: object) -> None:
            self.grants.remove(given)

    grants = SlowBook(_no_grants)
    approver = TerminalApprover(cast("Any", Typist("a")), name="terminal:alice", grants=grants)
    asking = asyncio.create_task(approver.ask(REQUEST))
    assert await asyncio.to_thread(grants.began.wait, 20)
    asking.cancel()
    grants.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert grants.grants == []


@pytest.mark.req("H-019")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param(
            [], "no terminal to ask on (--approve queue waits for an answer); to", id="ask without a terminal"
        ),
        pytest.param(["--approve", "deny"], "--approve deny was given", id="deny"),
    ],
)
def test_without_anybody_to_ask_the_call_is_refused_and_the_rule_named(
    tmp_path: Path, config: Path, options: list[str], why: str
) -> None:
    ended = run_code(tmp_path, CALL, "--config", config, *options)
    assert ended.envelope["approval_state"] == "REJECTED"
    assert ended.result["error"]["type"] == "ApprovalRejected"
    remark = next(line for line in ended.stderr.splitlines() if line.startswith("moonpool: srv.echo needs approval"))
    assert why in remark
    assert remark.endswith("to allow it: change rule 'srv:ask:*' in the server's \"moonpool\" block")
    assert "change rule" not in ended.result["error"]["message"]  # the operator's, not the model's


def test_auto_answers_yes(tmp_path: Path, config: Path) -> None:
    ended = run_code(tmp_path, CALL, "--config", config, "--approve", "auto")
    assert ended.result["data"] == {"a": "b"}
    assert ended.envelope["approval_state"] == "APPROVED"
