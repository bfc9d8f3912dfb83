"""Whoever calls over HTTP hears of no file and no address of the machine, whatever fails; the log has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.audit import JournalError
from moonpool.sandboxes.base import SandboxStartError
from moonpool.store.journal_file import JournalFile
from server.services import caller, execute, request, serving
from shared_backend import SharedBackend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
CANARY = "canary-7d31e0"


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[OpenService]:
    state = tmp_path_factory.mktemp("hidden") / CANARY
    async with serving({"a": caller("a")}, state=state, stdout_bytes_max=2000, redact_patterns="off") as one:
        yield one


async def answer(service: OpenService, message: Any, path: str = "/mcp") -> str:
    given = await service.post(message, path=path, authorization="Bearer a")
    assert CANARY not in given.text
    return given.text


def failing(*_: Any, **__: Any) -> Any:
    raise SandboxStartError(step="zygote", reason=f"/srv/{CANARY}/run cannot be made")


def unwritable(*_: Any, **__: Any) -> Any:
    raise JournalError(f"the journal at {CANARY}.example.com cannot be written")


CALLS = {
    "/mcp": execute("result = 1"),
    "/mcp/ipybox": request("tools/call", {"name": "execute_ipython_cell", "arguments": {"code": "1"}}),
}


@pytest.mark.parametrize("path", CALLS)
async def test_a_failure_of_the_host_names_nothing_of_it(
    service: OpenService, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(SharedBackend, "open_sandbox", failing)
        assert "log says why" in await answer(service, CALLS[path], path)
        assert f"/srv/{CANARY}/run" in caplog.text
    with monkeypatch.context() as broken:
        broken.setattr(JournalFile, "append", unwritable)
        assert "log says why" in await answer(service, CALLS[path], path)
        assert f"{CANARY}.example.com" in caplog.text


async def test_files_and_long_output_have_no_path_of_the_host(service: OpenService) -> None:
    told = await answer(service, execute("open('a.txt', 'w').write('kept')\nprint('x' * 9999)"))
    result = json.loads(json.loads(told)["result"]["content"][0]["text"])
    assert "write it to a file instead" in result["stdout"]
    (file,) = result["files"]
    assert file.keys() == {"name", "mime", "bytes", "uri"}
    assert "kept" in await answer(service, request("resources/read", {"uri": file["uri"]}))
