"""Sessions with a network, in real sandboxes: what programs reach, what they do not, and what is on record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from apps import DATA
from cli.console import moonpool, run_code
from moonpool.bootstrap.replays import replay_run
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.features.recordings.model import RecordingError
from moonpool.network.rules import NetworkRuleError, NetworkRules, parse_domain
from moonpool.replay.service import ReplayRequest
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.network_sessions import connections_of, open_session, ran
from network.sites import Site
from network.stand_ins import PUBLIC, Internet
from waiting import until

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.anyio

FETCH = """
import urllib.error, urllib.request
def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.URLError as error:
        return str(getattr(error, "reason", error))
"""


@pytest.fixture(params=["zygote", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param == "zygote" else {"backend": "bubblewrap"}


async def test_code_reaches_what_is_allowed_and_nothing_else_and_it_is_on_record(backend: dict[str, Any]) -> None:
    site = Site({"/hello": b"hello"})
    async with open_session(Internet(site.serve), "www.example.com", settings=backend) as (session, app):
        code = FETCH + (
            'result = [fetch("http://www.example.com/hello"), fetch("http://evil.example/"), fetch("http://10.0.0.1/")]'
        )
        envelope = await session.execute(CodeRequest(code=code.encode()))
        hello, evil, inside = cast("list[str]", envelope.data)
        assert hello == "hello"
        assert "evil.example:80 is not among the domains" in evil
        assert "10.0.0.1:80 is not among" in inside
        await until(lambda: len(connections_of(app, session)) == 4)
        began, *others = connections_of(app, session)
        (ended,) = (one for one in others if one["host"] == began["host"])  # perhaps after the next one began
        refused = [one for one in others if one is not ended]
        assert (began["outcome"], ended["outcome"]) == ("open", "done")
        assert (ended["host"], ended["port"], ended["address"]) == ("www.example.com", 80, PUBLIC)
        assert ended["bytes_up"] > 50 < ended["bytes_down"]
        assert {one["execution"] for one in (began, ended, *refused)} == {envelope.run_id}
        assert [one["reason"] in text for one, text in zip(refused, (evil, inside), strict=True)] == [True, True]
        assert [one["reason"] for one in (began, ended)] == ["", ""]
        assert [(one["host"], one["outcome"], one["bytes_up"]) for one in refused] == [
            ("evil.example", "not_allowed", 0),
            ("10.0.0.1", "not_allowed", 0),
        ]


PROBE = """
import errno, socket
def code_of(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "nothing stopped it"
result = [
    code_of(lambda: socket.socket(*kind)) for kind in
    ((2, 2), (2, 3), (10, 2), (10, 3), (16, 3), (17, 3), (40, 1), (2, 1, 132), (2, 1, 262), (2, 1, 256), (2, 5), (2, 4))
] + [
    code_of(lambda: socket.create_connection(where, 5))
    for where in (("93.184.215.14", 443), ("169.254.169.254", 80), ("10.0.0.1", 80), ("127.0.0.1", PORT))
] + [
    code_of(lambda: socket.socket(2, 1).setsockopt(level, option, 1 << 20))
    for level, option in ((1, 7), (1, 8), (0, 35), (6, 13), (6, 31), (41, 20))
] + [code_of(lambda: socket.create_server(("127.0.0.1", 3128)))]
"""


async def test_a_sandbox_with_a_network_has_tcp_to_its_proxy_and_nothing_more(backend: dict[str, Any]) -> None:
    internet = Internet(Site({}).serve)
    async with open_session(internet, settings=backend) as (session, _):
        code = PROBE.replace("PORT", str(internet.port))
        found = await ran(session, code)
        assert found == (
            ["EAFNOSUPPORT"] * 12
            + ["ENETUNREACH"] * 3
            + ["ECONNREFUSED"]
            + ["EPERM"] * 2
            + ["ENOPROTOOPT"] * 4
            + ["EADDRINUSE"]
        )


async def test_the_list_changes_while_the_session_lives_and_outlives_its_sandbox() -> None:
    site = Site({"/": b"home"})
    async with open_session(Internet(site.serve)) as (session, _):
        ask = FETCH + 'result = fetch("http://example.com/")'
        assert "not among the domains" in await ran(session, ask)
        session.network.allow((parse_domain("example.com"),))
        assert await ran(session, ask) == "home"
        await session.execute(CodeRequest(code=b"import os; os._exit(1)"))
        assert await ran(session, ask) == "home"  # in another sandbox
        session.network.deny(("example.com",))
        assert "not among the domains" in await ran(session, ask)


SEALED = """
import os, socket
try:
    socket.socket()
except OSError as error:
    result = [error.errno, os.environ.get("HTTPS_PROXY")]
"""


async def test_sealed_sandboxes_stay_sealed_beside_those_with_a_network() -> None:
    async with open_session(Internet(Site({}).serve), "example.com") as (session, app):
        await ran(session, "result = 1")
        sealed = app.runtime.session(app.caller_grant)
        try:
            assert await ran(sealed, SEALED) == [97, None]
            with pytest.raises(InputError, match="no network"):
                _ = sealed.network
        finally:
            await sealed.close()


async def test_the_operator_bounds_what_may_be_allowed() -> None:
    settings = {"network": "*.example.com"}
    async with open_session(Internet(Site({}).serve), "a.example.com", settings=settings) as (session, app):
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            session.network.allow((parse_domain("example.org"),))
        assert list(map(str, session.network.rules.domains)) == ["a.example.com"]
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            app.runtime.session(app.caller_grant, network=NetworkRules((parse_domain("example.org"),)))


async def test_many_refused_connections_are_counted() -> None:
    async with open_session(Internet(Site({}).serve)) as (session, app):
        await ran(session, FETCH + 'result = [fetch(f"http://evil.example/") for _ in range(60)][0]')
        await session.close()
        assert len(connections_of(app, session)) == 50
        rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=20)]
        counted = [row for row in rows if row["kind"] == "connections_refused"]
        assert counted[-1]["refused"] == {"not_allowed evil.example": 10}


async def test_no_plan_runs_with_a_network_and_no_such_execution_can_be_replayed() -> None:
    async with open_session(Internet(Site({}).serve)) as (session, _):
        with pytest.raises(InputError, match="does not bound a network"):
            await session.execute(CodeRequest(code=b"1", dry_run=True))
        envelope = await session.execute(CodeRequest(code=b"1"))
    with pytest.raises(RecordingError, match="its code had a network"):
        await replay_run(Settings.load({}, data_dir=DATA), ReplayRequest(run_id=envelope.run_id), environ=os.environ)


@pytest.mark.slow
def test_what_the_operator_allows_on_the_command_line_is_for_every_session(tmp_path: Path) -> None:
    code = FETCH + 'result = [fetch("http://evil.example/"), __import__("os").environ["HTTPS_PROXY"]]'
    refused, proxy = run_code(tmp_path, code, "--allow-network", "a.example").result["data"]
    assert "not among the domains" in refused
    assert proxy == "http://127.0.0.1:3128"
    shown = moonpool(tmp_path, "audit", "show", "--json", "--tail", "40").stdout.decode()
    assert '"reason":"evil.example:80 is not among' in shown.replace('": "', '":"')
