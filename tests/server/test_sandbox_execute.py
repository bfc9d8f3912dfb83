"""`POST /v1/sandbox/execute`: what code came to, what is refused and how it is told. Real sandboxes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from moonpool.engine.sandbox_runs import runs
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from server.sandbox_services import (
    CALLERS,
    as_caller,
    begin,
    cancel,
    ended,
    execute,
    get,
    on_stores,
    sandbox_serving,
)
from server.services import caller
from service_stores import shared_stores
from waiting import until, until_true

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    import httpx2

    from postgres import PostgresServer
    from s3_server import S3Server
    from server.services import OpenService
    from service_stores import Stores

pytestmark = pytest.mark.anyio
FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> AsyncGenerator[OpenService]:
    folder, callers = tmp_path_factory.mktemp("service"), CALLERS | {"capped": caller("capped")}
    async with on_stores(stores, folder, callers, timeout_s_max=2000) as one:
        yield one


@pytest.mark.req("J-016", "J-017", "J-041", "J-047", "J-048", "J-029")
async def test_code_in_three_languages_comes_to_a_result(service: OpenService) -> None:
    answers = {
        language: await execute(service, code, language=language)
        for language, code in {
            "python": "print(6 * 7)",
            "node": "console.log(6 * 7)",
            "bash": "echo $((6 * 7))",
        }.items()
    }
    default = await execute(service, "import sys\nprint(sys.version_info[0], __name__)")
    alone = [await execute(service, f"import os\nopen('f', 'x')\nprint(os.listdir())  # {n}") for n in range(2)]

    for answer in answers.values():
        assert answer.json() == {"success": True, "stdout": "42\n", "stderr": "", "exit_code": 0, "error": None}
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
    assert default.json()["stdout"] == "3 __main__\n"
    assert len({answer.headers["x-trace-id"] for answer in answers.values()}) == 3
    assert [one.json()["exit_code"] for one in alone] == [0, 0]


ENDINGS: list[Any] = [
    pytest.param("raise ValueError('x')", {}, (1, None, "failed"), "ValueError: x\n", id="an exception"),
    pytest.param("print(undefined)", {}, (1, None, "failed"), 'File "<stdin>", line 1', id="its traceback"),
    pytest.param("raise SystemExit(3)", {}, (3, None, "failed"), "", id="a status"),
    pytest.param("import sys\nsys.exit('bye')", {}, (1, None, "failed"), "bye\n", id="a message"),
    pytest.param("import os\nos._exit(5)", {}, (5, None, "failed"), "", id="at once"),
    pytest.param("import os\nos._exit(0)", {}, (0, None, "success"), "", id="at once, well"),
    pytest.param("result = object()", {}, (0, None, "success"), "", id="a value that is no JSON"),
    pytest.param("import os\nos.kill(os.getpid(), 9)", {}, (137, None, "failed"), "", id="a signal"),
    pytest.param("kill -TERM $$", {"language": "bash"}, (143, None, "failed"), "", id="another signal"),
    pytest.param("exit 4", {"language": "bash"}, (4, None, "failed"), "", id="a status of bash"),
    pytest.param("process.exit(6)", {"language": "node"}, (6, None, "failed"), "", id="a status of node"),
    pytest.param(")(", {}, (1, None, "failed"), "SyntaxError", id="no code"),
    pytest.param("while True: pass", {"timeout": 1}, (124, "timeout", "timeout"), "", id="the clock"),
    pytest.param(
        "a = []\nwhile True: a.append(bytearray(10**7))", {}, (137, "memory_limit_exceeded", "oom"), "", id="memory"
    ),
]


@pytest.mark.req("J-021", "J-028", "J-029")
@pytest.mark.parametrize(("code", "more", "told", "stderr"), ENDINGS)
async def test_how_code_ends_is_told_in_the_words_of_baponi(
    service: OpenService, code: str, more: dict[str, Any], told: tuple[int, str | None, str], stderr: str
) -> None:
    answer = await execute(service, code, **more)
    record = (await get(service, f"/{answer.headers['x-trace-id']}")).json()

    result = answer.json()
    assert answer.status_code == 200
    assert (result["exit_code"], result["error"], record["status"]) == told
    assert result["success"] == (told == (0, None, "success"))
    assert stderr in result["stderr"]
    assert {name: record[name] for name in ("exit_code", "error", "stdout", "stderr")} == {
        name: result[name] for name in ("exit_code", "error", "stdout", "stderr")
    }


async def test_of_much_output_head_and_tail_are_kept(service: OpenService) -> None:
    answer = await execute(service, "import sys\nprint('a' * 2_000_000 + 'z')\nsys.stderr.write('\\0é')")
    record = (await get(service, f"/{answer.headers['x-trace-id']}")).json()

    stdout = answer.json()["stdout"]
    assert 900_000 < len(stdout.encode()) <= 1024**2
    assert (stdout[0], stdout[-2:]) == ("a", "z\n")
    assert (record["output_truncated"], record["stdout"], record["stderr"]) == (True, stdout, "\0é")


SENTENCES = {
    "no code": ({"code": ""}, "code must be between 1 byte and 1 MB"),
    "code of one byte too much": ({"code": "#" * (1024**2 + 1)}, "code must be between 1 byte and 1 MB"),
    "another language": ({"language": "ruby"}, "must be one of: python, node, bash"),
    "no time": ({"timeout": 0}, "timeout must be between 1 and 3600 seconds"),
    "too much time": ({"timeout": 3601}, "timeout must be between 1 and 3600 seconds"),
    "more than the cap": ({"timeout": 3000}, "timeout must be at most 2000 seconds"),
    "no thread": ({"thread_id": ""}, "thread_id must have 1 to 128 characters"),
    "a long thread": ({"thread_id": "x" * 129}, "thread_id must have 1 to 128 characters"),
    "a path for a thread": ({"thread_id": "../../x"}, "only letters, digits, - and _"),
    "much metadata": ({"metadata": {f"k{n}": "" for n in range(11)}}, "metadata exceeds maximum of 10 keys"),
    "a bad key": ({"metadata": {"-k": ""}}, "metadata key '-k' must be 1-40 characters"),
    "a long key": ({"metadata": {"k" * 41: ""}}, "must be 1-40 characters"),
    "a long value": ({"metadata": {"k": "v" * 257}}, "exceeds maximum of 256 characters"),
    "large metadata": ({"metadata": {"k": [["v" * 17_000]]}}, "metadata exceeds maximum of 16,384 bytes"),
    "a variable in lower case": ({"env_vars": {"a": ""}}, "must start with an uppercase letter"),
    "a variable with a digit first": ({"env_vars": {"1A": ""}}, "must start with an uppercase letter"),
    "a reserved variable": ({"env_vars": {"PATH": ""}}, "This environment variable name is reserved by the system"),
    "a reserved prefix": ({"env_vars": {"LD_X": ""}}, "This environment variable name is reserved by the system"),
    "many variables": ({"env_vars": {f"A{n}": "" for n in range(51)}}, "Too many environment variables (maximum 50)"),
    "a long value of a variable": ({"env_vars": {"A": "x" * 4097}}, "values must be at most 4096 characters"),
    "a control character": ({"env_vars": {"A": "\x1b"}}, "cannot contain null bytes or control characters"),
    "large variables": ({"env_vars": {f"A{n}": "x" * 4000 for n in range(17)}}, "exceeds limit (64KB)"),
    "a variable that is no text": ({"env_vars": {"A": 1}}, "env_vars"),
    "many sub paths": ({"sub_paths": ["/data/x"] * 11}, "sub_paths exceeds maximum of 10 entries"),
    "a sub path elsewhere": ({"sub_paths": ["/etc"]}, "sub_path must start with /data/"),
    "a sub path up": ({"sub_paths": ["/data/x/../y"]}, "sub_path contains dangerous characters"),
    "an escaped sub path": ({"sub_paths": ["/data/x%2fy"]}, "sub_path contains dangerous characters"),
    "a volume that is none": ({"sub_paths": ["/data/x"]}, "sub_path names no volume"),
    "a webhook that nobody waits for": ({"webhook_url": "https://x.example"}, "Prefer: respond-async"),
    "a member that nobody knows": ({"timeouts": 1}, "timeouts"),
    "a NUL": ({"code": "print(1)\0"}, "NUL"),
}
WEBHOOK_SENTENCES = {
    "plain HTTP": ("http://hooks.example", "webhook_url must use HTTPS"),
    "no host": ("https://", "webhook_url must include a hostname"),
    "a long URL": ("https://x.example/" + "x" * 2048, "webhook_url exceeds maximum length of 2048 characters"),
    "a password": ("https://me:secret@x.example", "no user name"),
    "a private address": ("https://10.0.0.1/hook", "webhook_private_hosts"),
    "another writing of one": ("https://127.1/hook", "webhook_private_hosts"),
    "a mapped one": ("https://[::ffff:169.254.169.254]/", "webhook_private_hosts"),
    "a name of nobody": ("https://metadata.internal/", "webhook_private_hosts"),
    "an escaped slash in a name": ("https://127.0.0.1%2f.x.example/", "webhook_url must include a hostname"),
    "a name with an empty part": ("https://x..example/", "webhook_url must include a hostname"),
    "an address of a future version": ("https://[v1.x]/", "webhook_url must include a hostname"),
    "one with a colon": ("https://[v1.x:y]/", "webhook_url must include a hostname"),
    "a name in brackets": ("https://[hooks.example.com]/", "webhook_url"),
    "a bracket": ("https://[x", "webhook_url is not an address"),
}


@pytest.mark.req("J-018", "J-020", "J-023", "J-025")
async def test_each_limit_is_refused_by_name(service: OpenService) -> None:
    wrong: dict[str, str] = {}
    for case, (body, sentence) in SENTENCES.items():
        refused = await execute(service, **{"code": "1", **body})
        if not _is_refused(refused, sentence):
            wrong[case] = refused.text
    headers = as_caller("a", prefer="respond-async")
    for case, (url, sentence) in WEBHOOK_SENTENCES.items():
        asked = {"code": "1", "webhook_url": url}
        refused = await service.http.post("/v1/sandbox/execute", json=asked, headers=headers)
        if not _is_refused(refused, sentence):
            wrong[case] = refused.text

    assert wrong == {}


def _is_refused(refused: httpx2.Response, sentence: str) -> bool:
    told = refused.json()
    words = (refused.status_code, set(told), told.get("error"))
    return words == (400, {"error", "message"}, "validation_error") and sentence in told["message"]


@pytest.mark.req("J-018", "J-019", "X-13")
async def test_a_mebibyte_of_code_runs_and_a_body_of_two_is_refused(service: OpenService) -> None:
    code = "print('whole')\n#" + '"' * (1024**2 - 16)

    ran = await execute(service, code)
    refused = await execute(service, "#" * 2 * 1024**2)

    assert len(code.encode()) == 1024**2
    assert ran.json()["stdout"] == "whole\n"
    assert (refused.status_code, refused.json()["error"]) == (413, "payload_too_large")


NO_ORDERS = [
    (b"{", "application/json"),
    (b"[]", "application/json"),
    (b"\xff", "application/json"),
    (b"{}", "application/json"),
    (b'{"code": 1}', "application/json"),
    (b'{"code": "\\ud800"}', "application/json"),
    (b'{"code": "1", "metadata": ' + b"[" * 5000, "application/json"),
    (b'{"code": "1"}', "text/plain"),
]


async def test_bodies_that_are_no_order(service: OpenService) -> None:
    told = [
        await service.http.post("/v1/sandbox/execute", content=body, headers={**as_caller("a"), "content-type": kind})
        for body, kind in NO_ORDERS
    ]

    assert [(one.status_code, one.json()["error"]) for one in told] == [(400, "validation_error")] * len(NO_ORDERS)


@pytest.mark.req("J-006", "J-007", "J-038")
async def test_who_may_not_hears_it_in_two_members(service: OpenService) -> None:
    nobody = await service.http.post("/v1/sandbox/execute", json={"code": "1"})
    unknown = await execute(service, "1", who="unknown")
    direct = await execute(service, "1", who="direct")
    baponi = await execute(service, "print(1)", who="baponi")
    sessions = await service.http.get("/v1/sessions", headers=as_caller("baponi"))
    missing = await service.http.get("/v1/sandbox/nothing", headers=as_caller("a"))
    method = await service.http.get("/v1/sandbox/execute", headers=as_caller("a"))
    secret = await service.http.get("/v1/webhooks/secret", headers=as_caller("a"))

    for refused in (nobody, unknown):
        assert refused.status_code == 401
        assert refused.json() == {"error": "unauthorized", "message": "Invalid or revoked API key."}
        assert "www-authenticate" in refused.headers
    assert (direct.status_code, direct.json()["error"]) == (403, "forbidden")
    assert baponi.json()["stdout"] == "1\n"
    assert (sessions.status_code, sessions.json()["error"]["code"]) == (403, "profile_forbids")
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")
    assert (method.status_code, method.json()["error"]) == (405, "method_not_allowed")
    assert (secret.status_code, secret.json()["error"]) == (403, "forbidden")


@pytest.mark.req("J-024")
async def test_metadata_is_redacted_and_stands_in_record_and_journal(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    metadata = {"job": "nightly", "attempt": 2, "tags": ["x", None], "token": token}
    async with sandbox_serving(tmp_path) as service:
        answer = await execute(service, "print(1)", metadata=metadata)
        record = (await get(service, f"/{answer.headers['x-trace-id']}")).json()
        found = (await get(service, "?metadata.attempt=2&metadata.job=nightly")).json()
    rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(tmp_path))))
    (start,) = [json.loads(row.body) for row in rows if row.kind == "execution_start"]

    assert token not in json.dumps([record, start])
    assert {**record["metadata"], "token": token} == metadata
    assert json.loads(start["metadata"]) == record["metadata"]
    assert start["execution_id"] == answer.headers["x-trace-id"]
    assert [one["trace_id"] for one in found["executions"]] == [answer.headers["x-trace-id"]]


@pytest.mark.req("J-022", "J-023")
async def test_a_thread_is_there_at_the_next_call_and_one_execution_has_it(service: OpenService) -> None:
    read = "print(open('/home/baponi/kept').read())"
    with anyio.fail_after(60):
        await execute(service, "open('kept', 'w').write('whole')", thread_id="t")
        running = await begin(service, FOREVER, thread_id="t")
        busy = [await execute(service, read, thread_id="t") for _ in range(2)]
        await cancel(service, running)
        await ended(service, running)
        told = [(await execute(service, read, thread_id="t")).json()["stdout"] for _ in range(2)]

    assert [(one.status_code, one.json()["error"]) for one in busy] == [(409, "conflict")] * 2
    assert told == ["whole\n"] * 2


@pytest.mark.slow
async def test_code_that_has_run_is_told_also_where_its_files_cannot_be_kept(
    tmp_path: Path, postgres: PostgresServer, s3_server: S3Server
) -> None:
    async with shared_stores(postgres, s3_server) as stores, sandbox_serving(tmp_path, stores=stores) as service:
        s3_server.remove_bucket(stores.files_url)
        told = await execute(service, "open('made', 'w').write('x')\nprint('ran')", thread_id="t")
        record = (await get(service, f"/{told.headers['x-trace-id']}")).json()
        kept = await service.http.get("/v1/threads/t", headers=as_caller("a"))

    assert (told.status_code, told.json()["stdout"]) == (200, "ran\n")
    assert (told.json()["success"], told.json()["error"]) == (False, "storage_commit_error")
    assert (record["status"], record["error"], record["stdout"]) == ("failed", "storage_commit_error", "ran\n")
    assert (kept.json()["entries"], kept.json()["is_running"]) == (0, False)


async def test_without_room_nothing_starts_and_it_can_be_tried_again(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with sandbox_serving(tmp_path, sandboxes_max=1, sandboxes_per_tenant_max=1, waiting_s_max=0.2) as service:
            running = await begin(service, FOREVER)
            refused = [await execute(service, "print(1)"), await service.http.post(
                "/v1/sandbox/execute", json={"code": "1"}, headers=as_caller("a", prefer="respond-async")
            )]  # fmt: skip
            listed = (await get(service, "")).json()["executions"]
            await cancel(service, running)
            await ended(service, running)

    for one in refused:
        assert (one.status_code, one.json()["error"]) == (503, "service_unavailable")
        assert int(one.headers["retry-after"]) >= 1
    assert [one["trace_id"] for one in listed] == [running]


async def test_limits_of_callers_are_429(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sandbox_serving(tmp_path, caller_concurrency_max=1) as service:
        running = await begin(service, FOREVER)
        refused = await execute(service, "print(1)")
        other = await execute(service, "print(1)", who="b")
        await cancel(service, running)
        await ended(service, running)
        after = await execute(service, "print(1)")
        monkeypatch.setattr(runs, "BACKGROUND_MAX", 0)
        headers = as_caller("a", prefer="respond-async")
        crowded = await service.http.post("/v1/sandbox/execute", json={"code": "1"}, headers=headers)

    for one in (refused, crowded):
        assert (one.status_code, one.json()["error"], set(one.json())) == (429, "rate_limited", {"error", "message"})
        assert int(one.headers["retry-after"]) >= 1
    assert (other.status_code, after.status_code) == (200, 200)


async def test_an_inline_execution_ends_with_its_request(service: OpenService, tmp_path: Path) -> None:
    runtime = (await service.service.organisations.tenant("default")).runtime
    with anyio.move_on_after(0.5):
        await execute(service, FOREVER, metadata={"left": "alone"})
    await until(lambda: not runtime.is_executing)
    await until_true(lambda: _left(service))
    found = await _left(service)

    assert [(one["status"], one["error"]) for one in found] == [("cancelled", "cancelled")]


async def _left(service: OpenService) -> Any:
    return (await get(service, "?metadata.left=alone")).json()["executions"]
