"""Installed packages where a session goes back, branches, loses its process, begins anew or is replayed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import anyio
import pytest

import moonpool
from apps import DATA, open_app
from moonpool.bootstrap.replays import replay_run
from moonpool.engine.code_request import CodeRequest
from moonpool.replay.service import ReplayRequest
from moonpool.replay.stage import ReplayImpossibleError
from moonpool.settings import Settings
from moonpool.store.paths import packages_dir
from packages.fake_index import Index

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.replay.report import ReplayReport

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # a test of the SDK has the quick row: a reset


@pytest.mark.timeout(120)
async def test_packages_stay_whatever_becomes_of_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(tmp_path)
    for name in ("first", "second", "third"):
        index.add(name)
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    with index.served() as (address, _):
        monkeypatch.setenv("MOONPOOL_PACKAGE_INDEX", address)
        async with moonpool.session(packages="any", checkpoints=True) as s:

            async def has(session: moonpool.Session, *names: str) -> bool:
                result = await session.run(f"import {', '.join(names)}; first.version")
                return result.data == "1.0"

            before = await s.checkpoint("before")
            assert (await s.run("try:\n  import first\nexcept ImportError:\n  x = 1")).ok
            await s.install("first")
            assert await has(s, "first")
            await s.undo(to=before)  # to before the installation
            assert (await s.run("x")).error is not None
            assert await has(s, "first")

            async with await s.fork() as branch:
                assert await has(branch, "first")
                await branch.install("second")  # in a branch: for all
                assert await has(s, "first", "second")

            crashed = await s.run("import os; os._exit(3)")
            assert crashed.recovered is not None
            assert await has(s, "first", "second")

            await s.reset()
            assert await has(s, "first", "second")
            assert [one.name for one in (await s.install("third")).packages] == ["first", "second", "third"]
            assert await has(s, "first", "second", "third")


async def _replay(run_id: str) -> ReplayReport:
    settings = Settings.load({}, data_dir=DATA)
    return await replay_run(settings, ReplayRequest(run_id=run_id), environ=os.environ)


@pytest.mark.timeout(120)
async def test_a_replay_has_the_packages_of_then_or_names_what_is_missing(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add("first")
    index.add("second", requires=["first"])
    installs = "from moonpool_guest.python import installed\n"
    failing = "try:\n  installed.pip('install nowhere')\nexcept RuntimeError as error: print(error)\n"
    with index.served() as (address, requests):
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            await session.execute(CodeRequest(code=b"try:\n  import first\nexcept ImportError: pass"))
            (first,) = (await session.install("first")).packages
            with_it = await session.execute(CodeRequest(code=b"import first; result = first.version"))
            code = f"{installs}{failing}installed.pip('install second'); import second; result = second.version"
            by_code = await session.execute(CodeRequest(code=code.encode()))
            await session.close()
        assert (with_it.data, by_code.data) == ("1.0", "1.0")
        assert "package_unknown" in str(by_code.extras["stdout"])
        asked = len(requests)
        for envelope in (with_it, by_code):
            report = await _replay(envelope.run_id)
            assert report.same, report.to_json()
        assert len(requests) == asked
        await anyio.to_thread.run_sync(shutil.rmtree, packages_dir(DATA) / "wheels" / first.sha256)
        with pytest.raises(ReplayImpossibleError, match=r"had installed first==1\.0 .* `%pip install first==1\.0`"):
            await _replay(with_it.run_id)
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            await session.install("first==1.0")
            await session.close()
        assert (await _replay(with_it.run_id)).same
