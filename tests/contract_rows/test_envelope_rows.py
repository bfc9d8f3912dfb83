"""Rows of the guide's runtime contract about the envelope, each shown in a real sandbox."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest
from jsonschema_rs import validator_for

from apps import fixture_server, open_app, run
from contract_rows.envelope_schema import ENVELOPE_SCHEMA
from moonpool.core.json import canonical_json
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.envelope import Envelope

pytestmark = pytest.mark.anyio

ENDINGS = [
    pytest.param("result = {'a': [1]}", {}, None, id="success"),
    pytest.param("1/0", {}, "ZeroDivisionError", id="exception"),
    pytest.param("while True: pass", {"timeout_s": 0.3}, "Timeout", id="timeout"),
    pytest.param("import os; os.kill(os.getpid(), 9); os.abort()", {}, "KernelKilled", id="kill"),
    pytest.param("import os; os._exit(7)", {}, "KernelExited", id="exit of the process"),
    pytest.param("result = {1, 2}", {}, "ResultNotSerializable", id="a result that is no JSON"),
    pytest.param("import servers.echo as e\n(await e.echo(a=1)).unwrap()", {}, "PolicyDenied", id="policy denial"),
]


@pytest.mark.req("H-023", "H-027", "H-071")
@pytest.mark.parametrize(("code", "request_members", "error_type"), ENDINGS)
async def test_every_ending_gives_an_envelope_of_the_schema(
    code: str, request_members: dict[str, Any], error_type: str | None
) -> None:
    servers = {"echo": fixture_server("echo.py", deny=["*"])} if "servers" in code else None
    async with open_app(servers) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code, **request_members)
    encoded = json.loads(json.dumps(envelope.to_json()))
    validator_for(ENVELOPE_SCHEMA).validate(encoded)
    assert (envelope.error.type if envelope.error else None) == error_type


@pytest.mark.req("H-069")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param({"tasks": True}, ["task-1", "task-1"], id="switched on"),
        pytest.param({}, None, id="off unless switched on"),
    ],
)
async def test_the_envelope_names_the_tasks_that_servers_made(
    block: dict[str, Any], expected: list[str] | None, tmp_path: Path
) -> None:
    server = fixture_server("tasks.py", str(tmp_path / "log"), allow=["*"], **block)
    code = "import servers.s as s\nresult = [(await s.research()).ok for _ in 'ab'] + [(await s.plain()).ok]"
    async with open_app({"s": server}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    encoded = json.loads(json.dumps(envelope.to_json()))
    validator_for(ENVELOPE_SCHEMA).validate(encoded)
    assert encoded["result"]["metrics"].get("task_ids") == expected
    assert envelope.data == [expected is not None, expected is not None, True]


@pytest.mark.req("H-025")
async def test_only_the_result_is_large() -> None:
    async with open_app() as app:
        with anyio.fail_after(30):
            envelope = await run(app, "print('y' * 60_000)\nresult = 'x' * 60_000")
    whole = envelope.to_json()
    del whole["result"]
    assert len(json.dumps(envelope.result)) > 100_000
    assert len(json.dumps(whole)) < 2048


@pytest.mark.req("H-032")
async def test_digests_can_be_recomputed_and_key_order_does_not_matter() -> None:
    code = "result = {'b': 1, 'a': [None, 'ü']}"
    async with open_app() as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
            other = await run(app, "result = {'a': [None, 'ü'], 'b': 1}")
    data = cast("dict[str, Any]", envelope.data)
    output = "sha256:" + hashlib.sha256(canonical_json({"a": data["a"], "b": data["b"]})).hexdigest()
    assert envelope.input_digest == "sha256:" + hashlib.sha256(code.encode()).hexdigest()
    assert envelope.to_json()["output_digest"] == output == other.to_json()["output_digest"]
    assert envelope.input_digest != other.input_digest


@pytest.mark.req("H-033", "H-058")
async def test_one_trace_id_links_an_execution_with_its_calls() -> None:
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(30):
            envelopes = [await run(app, "import servers.echo as e\nawait e.echo(a=1)") for _ in range(2)]
            rows = [row.to_json() for row in read_rows(journal_path(app.data), run_id=envelopes[0].run_id)]
    assert {row["trace_id"] for row in rows} == {envelopes[0].trace_id}
    assert {"execution_start", "call_outcome", "execution_end"} <= {row["kind"] for row in rows}
    assert len({member for one in envelopes for member in (one.run_id, one.trace_id)}) == 4


@pytest.mark.req("H-031")
async def test_code_is_compiled_as_it_is() -> None:
    code = '"""Doc."""\nfrom __future__ import annotations\ntext = """a\n    b\n"""\ndef f(x: Missing): return x\n1/0\n'
    async with open_app() as app:
        with anyio.fail_after(30):
            failed = await run(app, code)
            kept = await run(app, code.replace("1/0", "result = [text, f.__annotations__]"))
    assert ", line 7, in <module>\n    1/0" in str(failed.extras["stderr"])
    assert kept.data == ["a\n    b\n", {"x": "Missing"}]


@pytest.mark.req("H-011")
async def test_the_working_directory_is_workspace() -> None:
    assert (await _alone("import os\nresult = os.getcwd()")).data == "/workspace"


@pytest.mark.req("H-081")
async def test_the_interpreter_is_a_plain_one() -> None:
    code = (
        "import ctypes, os, subprocess, sys\n"
        "result = [ctypes.CDLL(None).getpid() == os.getpid(), len(object.__subclasses__()) > 100,\n"
        "          subprocess.run(['/bin/true']).returncode, sys.implementation.name]"
    )
    assert (await _alone(code)).data == [True, True, 0, "cpython"]


@pytest.mark.req("H-003", "P-023")
async def test_by_default_there_is_no_egress_and_tools_work() -> None:
    code = """
import errno, socket
import servers.echo as e
ends = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_VSOCK, socket.AF_NETLINK):
    try:
        socket.socket(family)
    except OSError as error:
        ends.append(errno.errorcode[error.errno])
result = [ends, (await e.echo(a=1)).ok]
"""
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.data == [["EAFNOSUPPORT"] * 4, True]


@pytest.mark.req("H-071", "H-018")
async def test_what_threads_children_and_raw_descriptors_print_is_captured() -> None:
    code = """
import os, subprocess, threading
os.write(1, b"raw\\n")
subprocess.run(["echo", "child"])
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
result = 1
"""
    envelope = await _alone(code)
    assert envelope.data == 1
    assert sorted(str(envelope.extras["stdout"]).split()) == ["child", "raw", "thread"]


@pytest.mark.req("H-029")
async def test_the_last_line_of_stdout_stands_in_for_a_result() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        with anyio.fail_after(30):
            found = [
                (await session.execute(CodeRequest(code=code))).data
                for code in (b"print('log')\nprint('{\"a\": 1}')", b"print('no json')", b"result = 2\nprint('[3]')")
            ]
            await session.close()
    assert found == [{"a": 1}, None, 2]


async def _alone(code: str) -> Envelope:
    async with open_app() as app:
        with anyio.fail_after(30):
            return await run(app, code)
