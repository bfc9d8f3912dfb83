"""`--approve queue` and `moonpool approvals`: one process asks, another one answers."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from apps import fresh_data
from cli.console import Ended, environment, moonpool, raw_server, run_code, write_config
from cli.terminal import Terminal
from commands.process import SCRIPT, Command
from moonpool.features.approvals.model import ApprovalRequest, QueuedRequest
from moonpool.features.approvals.table import ApprovalStore
from moonpool.store.paths import approvals_path
from moonpool.store.process_marks import is_gone, own_mark
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

CALL = "import servers.srv as s\nresult = await s.echo(a='b')"
NASTY = "\x1b[2J\u202e\n└─\nAllow this one call? \x07[bold]"


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder with a queue of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-approvals-{uuid.uuid4().hex[:8]}")
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, {"srv": raw_server("good", ask=["*"])})


def approvals(home: Path, data: Path, *arguments: str) -> Ended:
    return moonpool(home, "approvals", *arguments, MOONPOOL_DATA_DIR=str(data))


def listed(home: Path, data: Path, *options: str) -> list[dict[str, Any]]:
    lines = approvals(home, data, "list", "--json", *options).stdout.splitlines()
    return [json.loads(line) for line in lines]


class Running:
    """A run that asks the queue, in a process of its own."""

    def __init__(
        self, home: Path, data: Path, config: Path, *options: str | Path, command: Sequence[str] = ("run", "-c", CALL)
    ) -> None:
        self.home, self.data = home, data
        self.process = Command(
            [SCRIPT, *command, "--config", config, "--approve", "queue", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environment(home, MOONPOOL_DATA_DIR=str(data)),
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def request(self) -> dict[str, Any]:
        store = ApprovalStore(approvals_path(self.data), is_gone=is_gone)
        wait_until(lambda: store.path.exists() and store.requests(waiting_only=True), within_s=40)
        store.close()
        (found,) = listed(self.home, self.data)
        return found

    def ended(self) -> Ended:
        out, err = self.process.communicate(timeout=40)
        return Ended(self.process.returncode, out, err.decode())


@pytest.mark.req("H-034")
@pytest.mark.parametrize(
    ("answer", "ok", "state"),
    [pytest.param("approve", True, "APPROVED"), pytest.param("deny", False, "REJECTED")],
)
def test_a_run_waits_and_goes_on_when_somebody_answers(
    tmp_path: Path, data: Path, config: Path, answer: str, ok: bool, state: str
) -> None:
    with Running(tmp_path, data, config) as running:
        request = running.request()
        assert (request["server"], request["tool"], request["state"]) == ("srv", "echo", "waiting")
        assert json.loads(request["arguments"]) == {"a": "b"}
        answered = approvals(tmp_path, data, answer, request["id"][:12], "--note", "as agreed")
        ended = running.ended()
    assert (answered.exit_code, answered.stderr) == (0, "")
    assert (ended.result["ok"], ended.envelope["approval_state"]) == (ok, state)
    assert f"moonpool approvals show {request['id']}" in ended.stderr
    again = approvals(tmp_path, data, "approve", request["id"])
    assert again.sentence.endswith("[approval_not_answerable]")
    assert listed(tmp_path, data) == []
    (kept,) = listed(tmp_path, data, "--all")
    assert (kept["note"], kept["approver"].partition(":")[0]) == ("as agreed", "command")


def test_the_request_of_a_run_that_was_killed_can_not_be_answered(tmp_path: Path, data: Path, config: Path) -> None:
    with Running(tmp_path, data, config) as running:
        request = running.request()
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        assert "it is abandoned" in approvals(tmp_path, data, "approve", request["id"]).sentence


@pytest.mark.slow
def test_a_session_asks_the_queue_too_and_an_interrupted_run_withdraws(
    tmp_path: Path, data: Path, config: Path
) -> None:
    name = f"q{uuid.uuid4().hex[:6]}"
    try:
        with Running(tmp_path, data, config, "--session", name) as running:
            request = running.request()
            approvals(tmp_path, data, "approve", request["id"])
            assert running.ended().result["ok"] is True
        with Running(tmp_path, data, config, "--session", name) as running:
            running.request()
            running.process.send_signal(signal.SIGINT)
            assert running.ended().result["ok"] is False
        assert [one["state"] for one in listed(tmp_path, data, "--all")] == ["approved", "withdrawn"]
    finally:
        moonpool(tmp_path, "session", "close", name, MOONPOOL_DATA_DIR=str(data))


@pytest.mark.slow
def test_an_answer_for_a_week_spares_the_next_question_and_can_be_ended(
    tmp_path: Path, data: Path, config: Path
) -> None:
    with Running(tmp_path, data, config) as running:
        request = running.request()
        given = approvals(tmp_path, data, "approve", request["id"], "--for", "7d", "--where", "/a=b*", "--json")
        assert running.ended().result["ok"] is True
    rule = json.loads(given.stdout)["standing"]["id"]
    assert json.loads(approvals(tmp_path, data, "rules", "--json").stdout)["where"] == [{"at": "/a", "glob": ["b*"]}]

    (tmp_path / "production").mkdir()
    server = {**raw_server("good", ask=["*"]), "env": {"WHERE": "production"}}
    production = write_config(tmp_path / "production", {"srv": server})

    def call(value: str, config: Path = config) -> Ended:
        code = CALL.replace("'b'", repr(value))
        options = ("--config", config, "--approve", "deny")
        return run_code(tmp_path, code, *options, MOONPOOL_DATA_DIR=str(data))

    assert call("bb").result["ok"] is True
    assert call("bb", production).result["ok"] is False  # another server of the same name
    audit = moonpool(tmp_path, "audit", "show", "--json", MOONPOOL_DATA_DIR=str(data)).stdout.decode()
    assert f"standing:{rule} by command:" in audit
    assert call("c").result["ok"] is False
    short = approvals(tmp_path, data, "rules", "--remove", rule[:8])
    assert short.stdout.decode() == f"removed {rule}\n"
    assert call("bb").result["ok"] is False
    audit = moonpool(tmp_path, "audit", "show", "--run", rule, "--json", MOONPOOL_DATA_DIR=str(data)).stdout
    assert [json.loads(line)["what"] for line in audit.splitlines()] == ["given", "removed"]
    assert moonpool(tmp_path, "audit", "verify", MOONPOOL_DATA_DIR=str(data)).exit_code == 0


def test_a_client_of_the_mcp_face_waits_too(tmp_path: Path, data: Path, config: Path) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    call = {"name": "execute_code", "arguments": {"code": CALL}}
    servers = json.loads(config.read_text(encoding="utf-8"))["mcpServers"]
    servers |= {"unset": {"command": "x", "env": {"K": "${SURELY_NOT_SET}"}}}
    config = write_config(tmp_path, servers, "more.json")
    with Running(tmp_path, data, config, command=["mcp"]) as running:
        assert running.process.stdin is not None
        assert running.process.stdout is not None
        for message in (
            {"id": 1, "method": "initialize", "params": client},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            running.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        running.process.stdin.flush()
        approvals(tmp_path, data, "approve", running.request()["id"])
        answers = [json.loads(running.process.stdout.readline()) for _ in range(2)]
        _, said = running.process.communicate(timeout=40)
    assert f"moonpool: {config}: server 'unset' is left out: " in said.decode()  # named at each start
    assert answers[1]["result"]["_meta"]["moonpool/envelope"]["approval_state"] == "APPROVED"


def queued(data: Path, **changes: Any) -> str:
    """A request of this process."""
    request = ApprovalRequest(
        request_id=uuid.uuid4().hex, run_id="run", session_id="s", principal="p", server_id="srv", tool_name="echo",
        arguments="{}", arguments_digest="d", reason="because", rule_id="r",
    )  # fmt: skip
    now = time.time()
    store = ApprovalStore(approvals_path(data), is_gone=is_gone)
    store.put(QueuedRequest(request=replace(request, **changes), asked_at=now, expires_at=now + 600, owner=own_mark()))
    store.close()
    return request.request_id


@contextmanager
def answered(data: Path, request_id: str, then: Callable[[ApprovalStore], object]) -> Iterator[None]:
    """Does something, as who asked, once the request has an answer."""

    def wait() -> None:
        store = ApprovalStore(approvals_path(data), is_gone=is_gone)
        wait_until(lambda: not store.requests(waiting_only=True), within_s=40)
        then(store)
        store.close()

    asking = threading.Thread(target=wait)
    asking.start()
    yield
    asking.join()


def taken(data: Path, request_id: str) -> AbstractContextManager[None]:
    return answered(data, request_id, lambda store: store.take(request_id, "d"))


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_an_answer_that_nobody_waits_for_any_more_is_refused_to_who_gave_it(tmp_path: Path, answer: str) -> None:
    request_id = queued(tmp_path)
    with answered(tmp_path, request_id, lambda store: store.withdraw(request_id)):
        late = approvals(tmp_path, tmp_path, answer, request_id)
    assert late.exit_code != 0
    assert b"approved" not in late.stdout  # it was shown, not answered
    assert b"denied" not in late.stdout
    assert f"the answer to request {request_id} came too late: it is withdrawn" in late.stderr


def test_an_answer_that_is_not_taken_yet_is_not_said_to_be(tmp_path: Path) -> None:
    given = approvals(tmp_path, tmp_path, "deny", queued(tmp_path))
    assert given.exit_code == 0
    assert "has not taken the answer yet" in given.stderr


def test_hostile_texts_reach_no_terminal(tmp_path: Path) -> None:
    hostile = dict.fromkeys(("server_id", "tool_name", "arguments", "reason", "principal", "run_id", "rule_id"), NASTY)
    request_id = queued(tmp_path, **hostile)
    for command in (["list"], ["list", "--json"], ["show", request_id], ["show", request_id, "--json"]):
        shown = approvals(tmp_path, tmp_path, *command).stdout.decode()
        assert not {"\x1b", "\x07", "\u202e"} & set(shown), command
        assert not re.search(r"^Allow", shown, re.MULTILINE), command
    framed = approvals(tmp_path, tmp_path, "show", request_id).stdout.decode().splitlines()
    assert [line[:2] for line in framed[2:-1]] == ["│ "] * (len(framed) - 3)
    with taken(tmp_path, request_id):
        given = approvals(tmp_path, tmp_path, "approve", request_id, "--for", "1h", "--where", f"/{NASTY}={NASTY}")
    rules = approvals(tmp_path, tmp_path, "rules")
    assert given.exit_code == rules.exit_code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set((given.stdout + rules.stdout).decode())


@pytest.mark.parametrize(
    ("where", "told"),
    [
        pytest.param("/tto=*@example.org", "the condition on /tto", id="an argument that it has not"),
        pytest.param("/to=*@example.com", "the condition on /to", id="another value"),
    ],
)
def test_terms_that_the_call_itself_does_not_meet_are_a_slip(tmp_path: Path, where: str, told: str) -> None:
    request_id = queued(tmp_path, arguments='{\n  "to": "ada@example.org",\n  "text": "hi"\n}')
    refused = approvals(tmp_path, tmp_path, "approve", request_id, "--for", "7d", "--where", where)
    assert told in refused.sentence
    assert "it has /to, /text" in refused.sentence
    assert [one["state"] for one in listed(tmp_path, tmp_path)] == ["waiting"]
    shown = approvals(tmp_path, tmp_path, "show", request_id).stdout.decode()
    assert '│ arguments: { "to": "ada@example.org", "text": "hi" }' in shown


def test_terms_about_what_is_redacted_are_taken_as_they_are(tmp_path: Path) -> None:
    request_id = queued(tmp_path, arguments='{"to": "[REDACTED:TOKEN]"}')
    with taken(tmp_path, request_id):
        given = approvals(tmp_path, tmp_path, "approve", request_id, "--for", "7d", "--where", "/to=x*")
    assert given.exit_code == 0


def test_what_is_reserved_for_a_person_is_answered_at_a_terminal(tmp_path: Path) -> None:
    request_id = queued(tmp_path, human_only=True)
    assert "at a terminal" in approvals(tmp_path, tmp_path, "approve", request_id).sentence
    command = ("approvals", "approve", request_id)
    with taken(tmp_path, request_id), Terminal(tmp_path, *command, MOONPOOL_DATA_DIR=str(tmp_path)) as terminal:
        terminal.wait_for("Allow this one call? y = yes, n = no: ")
        terminal.type("y\n")
        assert terminal.wait_ended().exit_code == 0
    (kept,) = listed(tmp_path, tmp_path, "--all")
    assert (kept["state"], kept["approver"].partition(":")[0]) == ("approved", "terminal")


def test_a_request_is_shown_again_and_a_person_says_yes_to_that(tmp_path: Path) -> None:
    request_id = queued(
        tmp_path, arguments='{\n  "to": "all"\n}', server_address="mcp-mail --production",
        config_file="/etc/servers.json", code_line=4,
    )  # fmt: skip
    for typed, state in (("n\n", "waiting"), ("y\n", "approved")):
        with Terminal(tmp_path, "approvals", "approve", request_id, MOONPOOL_DATA_DIR=str(tmp_path)) as terminal:
            at = terminal.wait_for("Allow this one call? y = yes, n = no: ")
            terminal.type(typed)
            terminal.wait_ended()
        shown = terminal.screen[:at]
        assert '│ server: srv is "mcp-mail --production", configured in /etc/servers.json' in shown
        assert '│ arguments: { "to": "all" }' in shown
        assert "│ line of the code: 4" in shown
        assert [one["state"] for one in listed(tmp_path, tmp_path, "--all")] == [state]


def test_what_is_long_is_read_whole_before_it_is_approved_for_a_while(tmp_path: Path) -> None:
    request_id = queued(
        tmp_path, arguments="(not all of it is shown)\n{}", cut=True, whole='{"a": "' + "x" * 9000 + '"}'
    )
    lost = queued(tmp_path, cut=True, rule_id="default")
    show, approve = ("show", request_id), ("approve", request_id, "--for", "1h")
    assert approvals(tmp_path, tmp_path, *show).stdout.decode().endswith("--full shows the rest\n")
    whole = approvals(tmp_path, tmp_path, *show, "--full").stdout.decode()
    assert whole.count("x") >= 9000
    assert json.loads(approvals(tmp_path, tmp_path, *show, "--full", "--json").stdout)["arguments"].count("x") == 9000
    kept = approvals(tmp_path, tmp_path, "show", lost, "--full")
    assert (kept.exit_code, "they are too long to be kept" in kept.stderr) == (0, True)
    assert "│ to allow it for good: moonpool allow srv.echo" in kept.stdout.decode()
    for refused in (approve, ("approve", lost, "--for", "1h")):
        assert "is not approved for a while" in approvals(tmp_path, tmp_path, *refused).sentence
    answered = approvals(tmp_path, tmp_path, *approve, "--full")
    assert answered.exit_code == 0
    assert answered.stdout.decode().count("x") >= 9000
    assert "and further ones with the same arguments until " in answered.stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("approve", "nothing"), "approval_not_answerable"),
        (("show", "\x1b[2J"), "approval_not_answerable"),
        (("approve", "x", "--where", "/a=b"), "input_invalid"),
        (("approve", "x", "--for", "soon"), "input_invalid"),
        (("approve", "x", "--any-arguments"), "input_invalid"),
        (("approve", "x", "--for", "1d", "--where", "/a=b", "--any-arguments"), "input_invalid"),
        (("outcome", "last"), "journal_unavailable"),
        (("rules", "--remove", "x"), "approval_not_answerable"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    sentence = approvals(tmp_path, tmp_path, *arguments).sentence
    assert sentence.endswith(f"[{code}]")
    assert "\x1b" not in sentence


def test_an_empty_queue_says_so_on_stderr(tmp_path: Path) -> None:
    ended = approvals(tmp_path, tmp_path, "list")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, b"", "moonpool: no request waits for approval\n")
