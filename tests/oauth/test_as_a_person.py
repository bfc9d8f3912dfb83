"""What a person does with a server behind OAuth: log in by browser or by pasting, run code, be asked for more."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest
from anyio import to_thread

from apps import fresh_data
from commands.process import SCRIPT, Command
from oauth.issuing import Issuer, browse, open_issuer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

pytestmark = pytest.mark.anyio
ADDRESS = re.compile(r"http://\S+/as/authorize\?\S+")
in_thread = partial(to_thread.run_sync, abandon_on_cancel=True)


@pytest.fixture
async def issuers() -> AsyncGenerator[list[Issuer]]:
    """Two servers, each with an authorization server of its own that asks for consent."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_issuer()) for _ in range(2)]
        for issuer in opened:
            issuer.asks_consent = True
        yield opened


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder that sandbox uids can reach."""
    with tempfile.TemporaryDirectory(prefix="moonpool-test-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield fresh_data(folder)


class Installation:
    """A person's terminal, with a configuration of these servers: `srv0`, `srv1`."""

    def __init__(self, folder: Path, data: Path, issuers: list[Issuer]) -> None:
        block = {"allow": ["*"]}
        entries = {f"srv{n}": {"url": each.url, "type": "http", "moonpool": block} for n, each in enumerate(issuers)}
        self.config = folder / "servers.json"
        self.config.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        self.data = data

    @contextmanager
    def started(self, *words: str) -> Generator[Command]:
        """For a minute. Unbuffered: whoever reads a line takes away nothing that `communicate` is to return."""
        environ = {**os.environ, "MOONPOOL_DATA_DIR": str(self.data), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
        command = [SCRIPT, *words, "--config", self.config]
        with Command(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, env=environ) as process:
            try:
                with anyio.fail_after(60):
                    yield process
            finally:
                process.kill()

    async def log_in(self, server: str, *words: str, change: dict[str, str] | None = None) -> tuple[int, str]:
        """Agree in the browser; `change` is what somebody puts into the address that it comes back with."""
        with self.started("login", server, *words) as process:
            assert process.stderr is not None
            shown = ""
            while not (found := ADDRESS.search(shown)):
                line = (await in_thread(process.stderr.readline)).decode()
                assert line, shown
                shown += line
            back = urlsplit(await browse(found.group()))
            answer = {name: values[0] for name, values in parse_qs(back.query).items()} | (change or {})
            address = back._replace(query=urlencode(answer)).geturl()
            if "--headless" in words:
                _, errors = await in_thread(process.communicate, address.encode() + b"\n")
            else:
                async with httpx2.AsyncClient() as client:
                    assert (await client.get(address)).status_code == 200
                _, errors = await in_thread(process.communicate)
        return process.returncode, shown + errors.decode()

    async def run(self, *tools: str) -> Any:
        """What code gets from these tools (`srv0.plain`): data, or an error's type and message."""
        names = sorted({tool.split(".")[0] for tool in tools})
        calls = ", ".join(f"await {tool}()" for tool in tools)
        code = f"from servers import {', '.join(names)}\nresult = [c.data if c.ok else c.error for c in ({calls},)]"
        with self.started("run", "-c", code) as process:
            output, errors = await in_thread(process.communicate)
        assert process.returncode == 0, errors.decode() + output.decode()
        return json.loads(output)["result"]["data"]


@pytest.mark.slow
@pytest.mark.req("E-020", "E-022", "E-043")
async def test_log_in_run_renew_and_be_asked_for_more(issuers: list[Issuer], tmp_path: Path, data: Path) -> None:
    issuer, installation = issuers[0], Installation(tmp_path, data, issuers[:1])
    status, said = await installation.log_in("srv0")
    assert status == 0, said
    assert await installation.run("srv0.plain") == ["done"]

    issuer.expire_all()  # as time does
    issuer.forms.clear()
    assert await installation.run("srv0.plain") == ["done"]
    assert [form["grant_type"] for form in issuer.forms] == ["refresh_token"]

    [refused] = await installation.run("srv0.admin")
    assert "moonpool login srv0 --scope 'admin'" in refused["message"]
    status, said = await installation.log_in("srv0", "--headless", "--scope", "admin")
    assert status == 0, said
    assert await installation.run("srv0.admin") == ["done"]
    assert [value for value in issuer.issued if value in said and not value.startswith("code-")] == []


async def test_a_headless_login_without_an_address_is_one_sentence(
    issuers: list[Issuer], tmp_path: Path, data: Path
) -> None:
    with Installation(tmp_path, data, issuers[:1]).started("login", "srv0", "--headless") as process:
        output, errors = await in_thread(process.communicate, b"")
    said = errors.decode().rpartition("address it ended at: ")[2]

    assert (process.returncode, output) == (2, b"")
    assert said == (
        "moonpool: no address was pasted; run this where you can type, or pipe the address in [input_invalid]\n"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"state": "forged"}, "state", id="another state"),
        pytest.param({"iss": "https://evil.example"}, "evil.example", id="another issuer"),
        pytest.param({"code": "stolen"}, "invalid_grant", id="a code of nobody"),
    ],
)
@pytest.mark.req("E-031", "E-042")
async def test_an_answer_that_is_not_ours_logs_nobody_in(
    issuers: list[Issuer], tmp_path: Path, data: Path, change: dict[str, str], sentence: str
) -> None:
    installation = Installation(tmp_path, data, issuers[:1])
    status, said = await installation.log_in("srv0", "--headless", change=change)
    assert status != 0
    assert sentence in said
    assert issuers[0].access == {}


@pytest.mark.req("E-037", "A-090")
async def test_two_servers_never_see_each_others_tokens(issuers: list[Issuer], tmp_path: Path, data: Path) -> None:
    installation = Installation(tmp_path, data, issuers)
    (first, _), (second, _) = await asyncio.gather(installation.log_in("srv0"), installation.log_in("srv1"))
    assert (first, second) == (0, 0)
    for issuer in issuers:
        issuer.seen.clear()
    assert await installation.run("srv0.plain", "srv1.plain") == ["done", "done"]
    for issuer, other in (issuers, issuers[::-1]):
        given = {header for _, _, header in issuer.seen}
        assert given == {f"Bearer {token}" for token in issuer.access}
        assert not any(token in header for token in other.issued for header in given)
