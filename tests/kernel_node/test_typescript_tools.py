"""What an older Node needs for TypeScript is installed when code says that it is TypeScript, and for nothing else.

A fake installation stands in for npm's; Node itself is whichever is here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import open_app, run
from moonpool.cli.code_source import read_code
from moonpool.core.languages import is_typescript
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.languages import Languages
from moonpool.environments.base import EnvironmentBuildError
from moonpool.server.mcp.arguments import ExecuteRequest, read_arguments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio


class Installation:
    """Counts its calls; each waits until `finish`, and fails as long as it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun, self.may_end = anyio.Event(), anyio.Event()
        self.problem = ""

    async def __call__(self) -> None:
        self.calls += 1
        self.begun.set()
        await self.may_end.wait()
        if self.problem:
            raise EnvironmentBuildError(self.problem)


@pytest.fixture
async def app() -> AsyncGenerator[Tenant]:
    async with open_app() as app:
        yield app


@pytest.fixture
def installation(app: Tenant) -> Installation:
    fake = Installation()
    app.runtime.languages.install_tools = fake
    return fake


async def node(app: Tenant, code: str = "globalThis.result = 1", **request: Any) -> Any:
    return await run(app, code, language="node", **request)


async def test_javascript_does_not_have_it_installed(app: Tenant, installation: Installation) -> None:
    with anyio.fail_after(30):
        assert (await node(app)).data == 1
        assert (await node(app, name="script.js")).data == 1
    assert installation.calls == 0


async def test_typescript_waits_for_it_and_two_wait_for_one(app: Tenant, installation: Installation) -> None:
    with anyio.fail_after(30):
        two = asyncio.gather(node(app, typescript=True), node(app, typescript=True))
        await installation.begun.wait()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert not two.done()
        installation.may_end.set()
        assert [envelope.data for envelope in await two] == [1, 1]
        assert (await node(app, typescript=True)).data == 1
    assert installation.calls == 1


async def test_a_failure_is_one_clear_error_and_the_next_request_tries_again(
    app: Tenant, installation: Installation
) -> None:
    installation.may_end.set()
    installation.problem = "npm was not found"
    with anyio.fail_after(30):
        failed = await node(app, typescript=True)
        assert (failed.error.type, failed.error.message) == ("LanguageUnavailable", "npm was not found")
        assert (await node(app)).data == 1
        installation.problem = ""
        assert (await node(app, typescript=True)).data == 1
    assert installation.calls == 2


async def test_who_stops_waiting_does_not_stop_it_for_others() -> None:
    installation = Installation()
    languages = Languages(install_tools=installation)
    request = CodeRequest(code=b"1", language="node", typescript=True)
    first, second = (asyncio.ensure_future(languages.prepare(request)) for _ in range(2))
    with anyio.fail_after(30):
        await installation.begun.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        installation.may_end.set()
        await second
    assert installation.calls == 1


async def test_it_ends_with_the_application() -> None:
    installation = Installation()
    languages = Languages(install_tools=installation)
    waiting = asyncio.ensure_future(languages.prepare(CodeRequest(code=b"1", language="node", typescript=True)))
    with anyio.fail_after(30):
        await installation.begun.wait()
        await languages.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize(
    ("language", "name", "typescript"),
    [
        ("typescript", "", True),
        (" TS ", "", True),
        (None, "a.ts", True),
        (None, "A.MTS", True),
        ("node", "a.cts", True),
        ("node", "a.js", False),
        ("node", "ts", False),
        (None, "a.py", False),
    ],
)
def test_code_is_typescript_by_its_language_or_its_file(language: str | None, name: str, typescript: bool) -> None:
    assert is_typescript(language, name) == typescript


def test_the_command_line_and_mcp_say_it(tmp_path: Path) -> None:
    file = tmp_path / "a.ts"
    file.write_text("1", encoding="utf-8")
    for source in (read_code(str(file), None, bytes_max=10), read_code(None, "1", "typescript", bytes_max=10)):
        assert (source.language, source.typescript) == ("node", True)
    assert not read_code(str(file), None, "bash", bytes_max=10).typescript
    for language, typescript in (("typescript", True), ("node", False)):
        request = read_arguments("execute_code", {"code": "1", "language": language})
        assert isinstance(request, ExecuteRequest)
        assert (request.code.language, request.code.typescript) == ("node", typescript)
