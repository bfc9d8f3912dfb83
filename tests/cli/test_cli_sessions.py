"""Sessions across processes: state stays, runs queue, one service has them all, nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from apps import DATA, fresh_data
from cli.at_socket import at_socket
from cli.console import Ended, environment, moonpool, raw_server, run_code, write_config
from cli.terminal import Terminal
from commands.process import SCRIPT, Command
from moonpool.store.service_socket import ServiceFolder
from process_tree import descendants_of, wait_gone
from server.test_serve_command import Serving
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


FOLDER = DATA / "private" / "service"


@pytest.fixture(scope="module", autouse=True)
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A session for as long as these tests run, so that the service does not end with each of theirs."""
    home = tmp_path_factory.mktemp("keeper")
    run_code(home, "x = 1", "--session", "keeper")
    yield
    moonpool(home, "session", "close", "--all")
    assert not (FOLDER / "socket").exists()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[str]:
    """A name of our own; the session is closed afterwards."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    moonpool(tmp_path, "session", "close", name)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A data folder of our own, whose service is ended afterwards."""
    folder = fresh_data(Path(f"/var/tmp/moonpool-session-{uuid.uuid4().hex[:8]}"))
    home = {"MOONPOOL_DATA_DIR": str(folder)}
    yield home
    moonpool(tmp_path, "session", "close", "--all", **home)
    shutil.rmtree(folder, ignore_errors=True)


def listed(home: Path, name: str) -> dict[str, object]:
    lines = moonpool(home, "session", "list", "--json").stdout.splitlines()
    return next(state for line in lines if (state := json.loads(line))["name"] == name)


def test_variables_and_files_survive_between_processes(tmp_path: Path, session: str) -> None:
    run_code(tmp_path, "x = 40\nopen('note', 'w').write('kept')", "--session", session)
    run_code(tmp_path, "x += 2", "--session", session)
    ended = run_code(tmp_path, "print('shown')\nresult = [x, open('note').read()]", "--session", session)
    assert ended.result["data"] == [42, "kept"]
    assert ended.stderr == "shown\n"
    assert listed(tmp_path, session)["executions"] == 3


def test_the_last_session_takes_the_service_with_it(tmp_path: Path, data: dict[str, str]) -> None:
    config = write_config(tmp_path, {"srv": raw_server("good")})
    called = run_code(tmp_path, "import servers.srv as s; await s.echo()", "--session", "s", "--config", config, **data)
    assert called.exit_code == 0
    service = json.loads(moonpool(tmp_path, "session", "list", "--json", **data).stdout)["pid"]
    family = {service} | descendants_of(service)
    assert len(family) > 2, "the service, a wall with its sandbox, a server"
    ended = moonpool(tmp_path, "session", "close", "s", **data)
    assert (ended.exit_code, ended.stdout) == (0, b"session s closed\n")
    assert not wait_gone(family, 60)
    assert not (Path(data["MOONPOOL_DATA_DIR"]) / "private" / "service" / "socket").exists()
    assert "there is no session 's'; known: none" in moonpool(tmp_path, "session", "close", "s", **data).sentence


def test_concurrent_first_runs_start_one_service_and_queue(tmp_path: Path, data: dict[str, str]) -> None:
    code = "import time\nseen = globals().get('seen', []) + [N]\ntime.sleep(0.2)\nresult = seen"
    runs = [
        Command(
            [SCRIPT, "run", "-c", code.replace("N", str(number)), "--session", "s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment(tmp_path, **data),
            cwd=tmp_path,
            start_new_session=True,
        )
        for number in range(3)
    ]
    ended = [Ended(run.wait(60), *(run.communicate()[0], "")) for run in runs]
    found = sorted((one.result["data"] for one in ended), key=len)
    assert [len(seen) for seen in found] == [1, 2, 3]
    assert sorted(found[-1]) == [0, 1, 2]


def test_a_kernel_that_dies_is_reported_and_the_next_run_starts_afresh(tmp_path: Path, session: str) -> None:
    run_code(tmp_path, "x = 1", "--session", session)
    ended = run_code(tmp_path, "import os; os._exit(7)", "--session", session)
    assert ended.error_type == "KernelExited"
    assert "variables of this session are lost" in ended.result["error"]["message"]
    assert run_code(tmp_path, "result = 'x' in globals()", "--session", session).result["data"] is False


def test_a_service_that_was_killed_is_replaced_and_the_person_told(tmp_path: Path, data: dict[str, str]) -> None:
    run_code(tmp_path, "x = 1", "--session", "s", **data)
    service = json.loads(moonpool(tmp_path, "session", "list", "--json", **data).stdout)["pid"]
    family = {service} | descendants_of(service)
    code = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    with Terminal(tmp_path, "run", "-c", code, "--session", "s", **data) as terminal:
        terminal.wait_for("ready")
        os.kill(service, signal.SIGKILL)
        terminal.wait_for("[session_lost]")
    assert not wait_gone(family, 60)
    listed = moonpool(tmp_path, "session", "list", **data)
    assert (b"no sessions" in listed.stdout, "the service was killed" in listed.stderr) == (True, True)
    ended = run_code(tmp_path, "result = 'x' in globals()", "--session", "s", **data)
    assert ended.result["data"] is False
    assert "had been killed" in ended.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--env", "data"], "environment 'base', not 'data'", id="environment", marks=pytest.mark.slow),
        pytest.param(
            ["--backend", "bubblewrap"], "backend 'zygote', not 'bubblewrap'", id="backend", marks=pytest.mark.slow
        ),
        pytest.param(["--config", "other.json"], "other servers", id="configuration"),
        pytest.param(["--allow-network", "a.example"], "no network", id="network", marks=pytest.mark.slow),
    ],
)
def test_a_session_keeps_what_it_was_started_with(
    tmp_path: Path, session: str, options: list[str], expected: str
) -> None:
    write_config(tmp_path, {"srv": raw_server("good")}, "other.json")
    run_code(tmp_path, "x = 1", "--session", session)
    sentence = run_code(tmp_path, "x = 2", "--session", session, *options).sentence
    assert expected in sentence
    assert f"moonpool session close {session}" in sentence
    assert sentence.endswith(" [session_unusable]")


def test_a_session_that_cannot_start_says_why(tmp_path: Path, session: str) -> None:
    sentence = run_code(tmp_path, "x = 1", "--session", session, "--env", "moon").sentence
    assert "unknown environment 'moon'" in sentence
    assert sentence.endswith(" [config_invalid]")


def test_code_that_cannot_be_run_is_refused_by_a_session_as_well(tmp_path: Path, session: str) -> None:
    assert "NUL" in run_code(tmp_path, "x = 1\0", "--session", session).sentence


def test_questions_reach_the_terminal_of_the_run_that_caused_them(tmp_path: Path, session: str) -> None:
    config = write_config(tmp_path, {"srv": raw_server("good", ask=["*"])})
    call = "import servers.srv as s\nresult = (await s.echo(a=1))"
    with Terminal(tmp_path, "run", "-c", call, "--session", session, "--config", config) as terminal:
        terminal.wait_for("Allow this call?")
        terminal.type("y\n")
        assert terminal.wait_ended().result["data"] == {"a": 1}
    refused = run_code(tmp_path, call, "--session", session, "--approve", "deny")
    assert refused.error_type == "ApprovalRejected"
    assert "--approve deny was given" in refused.stderr


def test_ctrl_c_interrupts_the_code_and_keeps_the_session(tmp_path: Path, session: str) -> None:
    code = "import time\nx = 5\nprint('ready', flush=True)\ntime.sleep(60)"
    with Terminal(tmp_path, "run", "-c", code, "--session", session) as terminal:
        terminal.wait_for("ready")
        terminal.type("\x03")
        assert terminal.wait_ended().error_type == "Cancelled"
    assert run_code(tmp_path, "result = x", "--session", session).result["data"] == 5


def test_a_client_that_vanishes_takes_its_execution_with_it(tmp_path: Path, session: str) -> None:
    code = "import time\nx = 6\nprint('ready', flush=True)\ntime.sleep(60)"
    with Terminal(tmp_path, "run", "-c", code, "--session", session) as terminal:
        terminal.wait_for("ready")
        terminal.signal(signal.SIGKILL)
        terminal.process.wait(60)
    assert run_code(tmp_path, "result = x", "--session", session).result["data"] == 6


def test_an_idle_session_ends_by_itself(tmp_path: Path, session: str) -> None:
    run_code(tmp_path, "x = 1", "--session", session, MOONPOOL_SESSION_IDLE_S="0.2")
    wait_until(lambda: session.encode() not in moonpool(tmp_path, "session", "list").stdout, within_s=60)


def test_only_the_user_reaches_the_service() -> None:
    assert FOLDER.stat().st_mode & 0o777 == 0o700
    assert (FOLDER / "socket").stat().st_mode & 0o777 == 0o600


def test_junk_on_the_socket_costs_its_sender_the_connection_only(tmp_path: Path) -> None:
    folder = ServiceFolder(DATA)
    for junk in (b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b'{"type":"answer"}\n'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(folder.address)
            connection.settimeout(20)
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1000)
            assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))
    folder.close()
    assert run_code(tmp_path, "result = x", "--session", "keeper").result["data"] == 1


@pytest.mark.slow
def test_a_session_whose_journal_was_removed_says_what_to_do_and_that_works(
    tmp_path: Path, data: dict[str, str]
) -> None:
    assert run_code(tmp_path, "x = 1", "--session", "s", **data).exit_code == 0
    for file in (Path(data["MOONPOOL_DATA_DIR"]) / "private").glob("audit.sqlite3*"):
        file.unlink()
    refused = run_code(tmp_path, "x += 1", "--session", "s", **data)
    assert (refused.error_type, refused.result["error"]["retryable"]) == ("Internal", False)
    assert "`moonpool session close --all`" in refused.result["error"]["message"]
    assert moonpool(tmp_path, "session", "close", "s", **data).exit_code == 0
    again = [run_code(tmp_path, "x = 1", "--session", "s", **data) for _ in range(2)]
    assert [("a new one begins" in one.stderr, one.exit_code) for one in again] == [(True, 0), (False, 0)]


@pytest.mark.slow
def test_a_folder_is_named_relative_to_the_current_one_and_a_session_keeps_it(tmp_path: Path, session: str) -> None:
    (work := tmp_path / "work").mkdir()
    for options in ([], ["--session", session]):
        ended = run_code(tmp_path, "import os\nopen('n', 'a').write('1')\nos.getcwd()", "--workspace", "work", *options)
        assert ended.result["data"] == str(work)
    assert run_code(tmp_path, "open('n').read()", "--session", session).result["data"] == "11"
    assert (work / "n").read_text(encoding="utf-8") == "11"


@pytest.mark.claim("C-SOCK-1")
@pytest.mark.req("E-004")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another uid to be")
def test_another_user_gets_no_word_through_the_socket() -> None:
    code = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.settimeout(20)
try:
    client.sendall(b"GET /healthz HTTP/1.1\\r\\nhost: moonpool\\r\\n\\r\\n")
    print(client.recv(100))
except ConnectionError:
    print(b"")
"""
    (FOLDER / "open").mkdir(mode=0o755)
    modes = [(path, path.stat().st_mode) for path in (FOLDER / "socket", *FOLDER.parents[:2], FOLDER)]
    try:
        for path, _ in modes:
            path.chmod(0o777)
        command = [sys.executable, "-c", code, str(FOLDER / "socket")]
        done = subprocess.run(command, capture_output=True, check=False, cwd="/")
        assert (done.stdout, done.stderr) == (b"b''\n", b"")
    finally:
        for path, mode in modes:
            path.chmod(mode)
        (FOLDER / "open").rmdir()


@pytest.mark.claim("C-SOCK-1")
def test_the_socket_is_for_clients_that_mean_it(tmp_path: Path) -> None:
    assert at_socket(DATA, "GET", "/v1/sessions", headers={"host": "evil.example"})[0] == 421
    assert at_socket(DATA, "GET", "/v1/sessions", headers={"origin": "http://moonpool"})[0] == 403
    for scope_missing in ("/v1/approvals", "/metrics"):
        status, answer = at_socket(DATA, "GET", scope_missing)
        assert status in {200, 403}, answer
    assert at_socket(DATA, "GET", "/v1/approvals")[1]["error"]["code"] == "scope_missing"
    outside = {"name": "x", "terminal": {"environ": {}, "here": "/", "workspace": str(DATA / "private")}}
    status, answer = at_socket(DATA, "POST", "/v1/sessions", outside)
    assert (status, "holds Moonpool's data" in answer["error"]["message"]) == (400, True), answer


def test_a_service_of_another_version_is_named(tmp_path: Path, data: dict[str, str]) -> None:
    folder = ServiceFolder(Path(data["MOONPOOL_DATA_DIR"]))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(folder.address)
        listener.listen()
        listener.settimeout(30)

        def answer() -> None:
            while not over.is_set():
                with listener.accept()[0] as client, suppress(ConnectionError):
                    if client.recv(65536):
                        head = b"HTTP/1.1 200 OK\r\nserver: moonpool/9.9 (ends unused)\r\ncontent-length: 0\r\n\r\n"
                        client.sendall(head)

        over, thread = threading.Event(), threading.Thread(target=answer)
        thread.start()
        sentence = run_code(tmp_path, "1", "--session", "s", **data).sentence
        over.set()
        folder.is_served()  # wakes it
        thread.join()
    (folder.path / "socket").unlink()
    folder.close()
    assert "is Moonpool 9.9" in sentence
    assert "`moonpool session close --all`" in sentence
    assert sentence.endswith("[service_version]")


@pytest.mark.claim("C-SOCK-1")
@pytest.mark.slow
def test_a_service_with_keys_has_the_sessions_of_its_user_and_shows_them_to_no_key(
    tmp_path: Path, data: dict[str, str]
) -> None:
    folder = data["MOONPOOL_DATA_DIR"]
    options = ["--data-dir", folder, "--org", "default", "--scope", "approve", "--scope", "execute", "--json"]
    key = json.loads(moonpool(tmp_path, "keys", "create", *options, **data).stdout)["key"]
    config = write_config(tmp_path, {"srv": raw_server("good", ask=["*"])})
    with Serving(tmp_path, "--data-dir", folder, keys=True) as served:
        call = "import servers.srv as s\nresult = (await s.echo(a=1))"
        with Terminal(tmp_path, "run", "-c", call, "--session", "s", "--config", config, **data) as terminal:
            terminal.wait_for("Allow this call?")
            bearer = {"authorization": f"Bearer {key}"}
            for path in ("sessions", "approvals"):
                answer = httpx2.get(served.url.replace("/mcp", f"/v1/{path}"), headers=bearer)
                assert answer.json() == {path: []}
            terminal.type("y\n")
            assert terminal.wait_ended().result["data"] == {"a": 1}
        second = moonpool(tmp_path, "serve", "--port", "0", "--data-dir", folder, **data)
        assert second.sentence.endswith("[service_runs]")
        assert moonpool(tmp_path, "session", "close", "s", **data).exit_code == 0
        assert served.stop() == 0
