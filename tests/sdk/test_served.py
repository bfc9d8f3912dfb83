"""The contract of sessions once more, against `moonpool serve` as an operator starts it: a process, with keys.

The tests are those of `test_sessions`, but for mistakes in options that a service's operator makes elsewhere.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from anyio.to_thread import run_sync

import moonpool
from cli.console import moonpool as command
from sdk import test_sessions
from server.test_serve_command import Serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
CONTRACT = {
    name: test
    for name, test in vars(test_sessions).items()
    if name.startswith("test_") and "face" in test.__annotations__ and name != "test_bad_options_are_one_clear_error"
}
globals().update(CONTRACT)


class Served:
    """A service for each choice of servers and policy, with the key of a program and one that approves."""

    name = "served"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._services: dict[str, tuple[str, str, str]] = {}

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncGenerator[Any]:
        url, key, approver = await run_sync(self._service, options.pop("servers", {}), options.pop("policy", None))
        async with moonpool.connect(url, key, approver=approver) as service, service.session(**options) as opened:
            yield opened

    async def run(self, code: str, **options: Any) -> moonpool.Result:
        url, key, _ = await run_sync(self._service, {}, None)
        return await moonpool.connect(url, key).run(code, **options)

    def _service(self, servers: dict[str, Any], policy: Path | None) -> tuple[str, str, str]:
        """Its address and the keys."""
        chosen = json.dumps([servers, policy and policy.read_text("utf-8")])
        if chosen not in self._services:
            folder = self._folder / str(len(self._services))
            folder.mkdir(mode=0o755)
            config, data = folder / "servers.json", folder / "data"
            config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
            settings = folder / "settings.toml"
            settings.write_text("" if policy is None else f"policy = {json.dumps(str(policy))}\n", encoding="utf-8")
            keys = [_key(folder, data, *scopes) for scopes in (("execute", "files"), ("approve",))]
            more = ("--data-dir", str(data), "--config", str(config), "--settings", str(settings), "--env", "base")
            serving = self._stack.enter_context(Serving(folder, *more, keys=True))
            self._services[chosen] = serving.url.removesuffix("/mcp"), *keys
        return self._services[chosen]


def _key(folder: Path, data: Path, *scopes: str) -> str:
    wanted = [word for scope in scopes for word in ("--scope", scope)]
    made = command(folder, "keys", "create", "--data-dir", data, "--org", "acme", *wanted)
    assert made.exit_code == 0, made.stderr
    return made.stdout.decode().strip()


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("served"), stack)


@pytest.mark.req("J-038")
async def test_a_wrong_key_is_one_clear_error(face: Served) -> None:
    url, _, _ = await run_sync(face._service, {}, None)
    for wrong in ("sk-local-wrong", None):
        with pytest.raises(moonpool.ServiceError, match=r"refuses this key \(401\); use one that is valid there"):
            await moonpool.connect(url, wrong).run("1")


def test_the_suite_is_here() -> None:
    assert len(CONTRACT) > 10
