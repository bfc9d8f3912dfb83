"""The unmodified `baponi` SDK against `moonpool serve`: every method of both clients, on real sandboxes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from baponi import ThreadBusyError
from baponi.exceptions import APIValidationError, AuthenticationError, BaponiError

from from_baponi.clients import sdk

if TYPE_CHECKING:
    from from_baponi.clients import Client
    from from_baponi.service import BaponiService

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Base URL")]  # the SDK warns of plain HTTP

SLEEPS = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


@pytest.fixture
def thread() -> str:
    return f"t-{uuid.uuid4().hex}"


@pytest.mark.req("J-016", "J-041", "J-048")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        pytest.param("python", "print(6 * 7)", id="python"),
        pytest.param("node", "console.log(6 * 7)", id="node"),
        pytest.param("bash", "echo $((6 * 7))", id="bash"),
    ],
)
def test_code_runs_in_each_language(client: Client, language: str, code: str) -> None:
    result = client.execute(code, language=language)
    assert (result.success, result.stdout, result.stderr, result.exit_code, result.error) == (True, "42\n", "", 0, None)


@pytest.mark.req("J-028")
@pytest.mark.parametrize(
    ("code", "exit_code", "told"),
    [
        pytest.param("undefined_var", 1, "NameError: name 'undefined_var' is not defined\n", id="an exception"),
        pytest.param("import sys\nprint('no', file=sys.stderr)\nsys.exit(3)", 3, "no\n", id="an exit code"),
    ],
)
def test_code_that_fails_is_a_result(client: Client, code: str, exit_code: int, told: str) -> None:
    result = client.execute(code)
    assert (result.success, result.exit_code) == (False, exit_code)
    assert result.stderr.endswith(told)


@pytest.mark.req("J-021")
def test_a_timeout_is_a_result(client: Client) -> None:
    result = client.execute(SLEEPS, timeout=1)
    assert (result.success, result.error, result.stdout) == (False, "timeout", "begun\n")
    assert result.exit_code != 0


@pytest.mark.req("J-022")
def test_files_of_a_thread_are_there_at_the_next_call(client: Client, thread: str) -> None:
    wrote = "import os\nopen('/home/baponi/data.txt', 'w').write('kept')\nopen('beside.txt', 'w').write(os.getcwd())"
    assert client.execute(wrote, thread_id=thread).success
    read = client.execute("print(open('data.txt').read(), open('/workspace/beside.txt').read())", thread_id=thread)
    assert read.stdout.startswith("kept /")
    alone = client.execute("import os\nprint(os.path.exists('/home/baponi/data.txt'))")
    assert alone.stdout == "False\n"


@pytest.mark.req("J-025")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        pytest.param("python", "import os\nprint(os.environ['GREETING'])", id="python"),
        pytest.param("node", "console.log(process.env.GREETING)", id="node"),
        pytest.param("bash", 'echo "$GREETING"', id="bash"),
    ],
)
def test_variables_are_in_the_environment(client: Client, language: str, code: str) -> None:
    assert client.execute(code, language=language, env_vars={"GREETING": "hello"}).stdout == "hello\n"


def test_a_stream_has_growing_numbers_and_ends_in_the_result(client: Client) -> None:
    stream = client.execute_stream("import sys\nprint('one')\nprint('two', file=sys.stderr)", metadata={"job": "7"})
    events = stream.events()
    stream.close()
    assert events[0].type == "status"
    assert events[-1].type == "result"
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    told = {"stdout": "", "stderr": ""}
    for event in (one for one in events if one.type == "output"):
        told[event.stream] += event.data
    assert told == {"stdout": "one\n", "stderr": "two\n"}
    assert stream.get_final_result().stdout == "one\n"
    record = client.get_execution(stream.trace_id)
    assert (record.status, record.stdout, record.delivery_mode) == ("success", "one\n", "streaming")


def test_a_stream_is_read_on_after_its_connection_is_gone(client: Client) -> None:
    code = "import time\nfor n in range(5):\n    print(n, flush=True)\n    time.sleep(0.2)"
    stream = client.execute_stream(code)
    first = stream.next()
    while first.type != "output":
        first = stream.next()
    trace_id, seen = stream.trace_id, first.seq
    stream.close()
    again = client.reconnect_stream(trace_id, after_seq=seen)
    rest = again.events()
    again.close()
    assert rest[0].seq > seen
    assert first.data + "".join(e.data for e in rest if e.type == "output") == "0\n1\n2\n3\n4\n"
    assert rest[-1].result.stdout == "0\n1\n2\n3\n4\n"
    over = client.reconnect_stream(trace_id)  # also when it has ended, from the beginning
    assert over.events()[-1].result.success
    over.close()


@pytest.mark.parametrize("how", ["stream", "trace"])
def test_a_stream_is_cancelled(client: Client, how: str) -> None:
    stream = client.execute_stream(SLEEPS)
    while stream.next().type != "output":
        pass
    answer = stream.cancel() if how == "stream" else client.cancel_execution(stream.trace_id)
    assert (answer.trace_id, answer.status) == (stream.trace_id, "cancelling")
    assert stream.events()[-1].status == "cancelled"
    stream.close()
    assert client.get_execution(stream.trace_id).status == "cancelled"
    with pytest.raises(ThreadBusyError):  # what the SDK calls every conflict: it is over already
        client.cancel_execution(stream.trace_id)


def test_an_execution_is_waited_for(client: Client, thread: str) -> None:
    handle = client.execute_webhook("print('later')\nopen('made', 'w').write('x')", thread_id=thread)
    done = handle.wait()
    assert (done.status, done.stdout, done.exit_code, done.delivery_mode) == ("success", "later\n", 0, "webhook")
    assert done.completed_at >= done.created_at
    assert [file.path for file in client.list_files(id=thread)] == ["made"]


def test_an_execution_that_runs_has_no_output_yet_and_is_cancelled(client: Client) -> None:
    handle = client.execute_webhook(SLEEPS)
    running = handle.poll()
    assert (running.status, running.stdout, running.exit_code) == ("running", None, None)
    assert handle.cancel().status == "cancelling"
    assert handle.wait().status == "cancelled"


@pytest.mark.req("J-023")
def test_one_execution_at_a_time_has_a_thread(client: Client, thread: str) -> None:
    stream = client.execute_stream(SLEEPS, thread_id=thread)
    while stream.next().type != "output":
        pass
    with pytest.raises(ThreadBusyError) as refused:
        client.execute("print(1)", thread_id=thread)
    assert (refused.value.status_code, refused.value.error_type) == (409, "conflict")
    assert client.execute("print(1)").success  # others run
    stream.cancel()
    stream.events()
    stream.close()
    assert client.execute("print(2)", thread_id=thread).stdout == "2\n"


@pytest.mark.req("J-030", "J-041", "J-042", "J-047")
def test_files_go_both_ways_by_signed_urls(client: Client, thread: str) -> None:
    content = bytes(range(256)) * 1000
    up = client.upload_url(id=thread, path="in/data.bin", content_length=len(content))
    headers = {header.name: header.value for header in up.headers}
    sent = httpx.request(up.method, up.url, content=content, headers=headers, timeout=60)
    assert sent.status_code in {200, 201}, sent.text
    code = "d = open('in/data.bin', 'rb').read()\nopen('out.bin', 'wb').write(d[::-1])\nprint(len(d))"
    assert client.execute(code, thread_id=thread).stdout == "256000\n"
    down = client.download_url(id=thread, path="out.bin")
    assert httpx.get(down.url, timeout=60).content == content[::-1]
    listed = {file.path: file.size for file in client.list_files(id=thread, path="in/")}
    assert listed == {"in/data.bin": 256000}
    with pytest.raises(BaponiError) as missing:
        client.download_url(id=thread, path="nothing")
    assert missing.value.status_code == 404


@pytest.mark.req("J-038")
def test_a_wrong_key_is_refused(service: BaponiService) -> None:
    with sdk("sync", service.url, "sk-local-" + "A" * 43) as wrong, pytest.raises(AuthenticationError) as refused:
        wrong.execute("print(1)")
    assert refused.value.message == "Invalid or revoked API key."
    assert refused.value.error_type == "unauthorized"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"env_vars": {"PATH": "/x"}}, "reserved by the system", id="a reserved name"),
        pytest.param({"thread_id": "-x"}, "thread_id", id="a thread's name"),
        pytest.param({"timeout": 3601}, "timeout", id="a timeout"),
        pytest.param({"language": "ruby"}, "language", id="a language"),
        pytest.param({"metadata": {f"k{n}": "v" for n in range(11)}}, "metadata", id="too much metadata"),
        pytest.param({"code": ""}, "code", id="no code"),
    ],
)
def test_what_the_sdk_checks_is_checked_here_too(
    service: BaponiService, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr("baponi._client.validate_execute_params", lambda *_: None)
    with sdk("sync", service.url, service.key) as client, pytest.raises(APIValidationError) as refused:
        client.execute(**{"code": "print(1)", **options})
    assert refused.value.error_type == "validation_error"
    assert said in refused.value.message


@pytest.mark.req("J-003", "J-046")
def test_what_another_organisation_has_is_unknown(service: BaponiService, thread: str) -> None:
    from from_baponi.service import make_key

    with sdk("sync", service.url, service.key) as own:
        stream = own.execute_stream("open('secret', 'w').write('x')", thread_id=thread)
        stream.events()
        trace_id = stream.trace_id
        stream.close()
    other_key = make_key(service.folder, "--profile", "baponi", org="other", stores=service.stores)
    with sdk("sync", service.url, other_key) as other:
        for ask in (
            lambda: other.get_execution(trace_id),
            lambda: other.cancel_execution(trace_id),
            lambda: other.reconnect_stream(trace_id),
            lambda: other.download_url(id=thread, path="secret"),
            lambda: other.list_files(id=thread),
        ):
            with pytest.raises(BaponiError) as refused:
                ask()
            assert (refused.value.status_code, refused.value.error_type) == (404, "not_found")
        assert other.execute("import os\nprint(os.listdir('.'))", thread_id=thread).stdout in {
            "[]\n", "['mcptools', 'servers']\n", "['servers', 'mcptools']\n",
        }  # fmt: skip
