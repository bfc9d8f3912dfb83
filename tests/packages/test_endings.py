"""Installations that are ended early, meet others, or find no room: nothing half is published and nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import moonpool
from apps import DATA, fresh_data, open_app
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.packages.model import PackageError
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path, packages_dir
from packages.fake_index import Index
from process_tree import descendants, descendants_of, wait_gone
from run_folder import run_folder
from waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.bootstrap import Tenant
    from moonpool.engine.sessions import Session

pytestmark = pytest.mark.anyio


def _index(folder: Path) -> Index:
    """`stuck`: no word about it ever comes; `tardy`: its file never does."""
    index = Index(folder)
    for name in ("stuck", "tardy", "small", "other"):
        index.add(name)
    index.add("needer", requires=["small"])
    return index


async def _imports(session: Session, name: str) -> bool:
    code = f"import importlib.util\nresult = importlib.util.find_spec({name!r}) is not None"
    envelope = await session.execute(CodeRequest(code=code.encode()))
    assert envelope.error is None, envelope.error
    return bool(envelope.data)


def _resolvers() -> set[int]:
    def words(pid: int) -> bytes:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""

    return {pid for pid in descendants() if words(pid).partition(b"\0")[0].endswith(b"/uv")}


def _left(data: Path) -> list[str]:
    return [path.name for path in (packages_dir(data) / "wheels").glob(".*")]


def _last_error(app: Tenant, session: Session) -> object:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row["kind"] == "packages" and row["session_id"] == session.session_id][-1][
        "error_type"
    ]


@pytest.mark.parametrize("what", ["stuck", pytest.param("tardy", marks=pytest.mark.slow)])
async def test_a_cancelled_installation_leaves_nothing_and_the_next_one_works(what: str, tmp_path: Path) -> None:
    with _index(tmp_path).served(silent=f"/{what}/{'' if what == 'stuck' else 'tardy-1.0'}") as (address, requests):
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            installing = asyncio.ensure_future(session.install(what))
            await until(lambda: any(what in one for one in requests))
            installing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await installing
            assert _last_error(app, session) == "cancelled"
            assert _left(app.data) == []
            assert not await _imports(session, what)
            await session.install("small")
            assert await _imports(session, "small")
            await session.close()
    # that no build sandbox is left is asserted when the application ends


@pytest.mark.slow  # a sandbox each; the test above has one row
@pytest.mark.timeout(120)
async def test_an_installation_may_end_anywhere(tmp_path: Path) -> None:
    """Its resolver is killed, the code that asked is interrupted: the answer is typed, and the session goes on."""
    with _index(tmp_path).served(silent="/stuck/") as (address, requests):
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)

            requests.clear()
            installing = asyncio.ensure_future(session.install("stuck"))
            await until(lambda: any("stuck" in one for one in requests))
            (resolver,) = _resolvers()
            os.kill(resolver, signal.SIGKILL)
            with pytest.raises(PackageError, match="the resolver was ended by signal 9"):
                await installing

            requests.clear()
            code = b"from moonpool_guest.python import installed\ninstalled.pip('install stuck')"
            running = asyncio.ensure_future(session.execute(CodeRequest(code=code)))
            await until(lambda: any("stuck" in one for one in requests))
            session.interrupt()
            envelope = await running
            assert envelope.error is not None
            assert envelope.error.type == "Cancelled"
            assert _last_error(app, session) == "cancelled"

            await session.install("small")
            assert await _imports(session, "small")
            assert not _resolvers()
            assert _left(app.data) == []
            await session.close()


@pytest.mark.slow  # the first test has the quick row
async def test_leaving_a_stream_or_the_session_ends_its_installation_and_a_reset_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    with _index(tmp_path).served(silent="/stuck/") as (address, requests):
        monkeypatch.setenv("MOONPOOL_PACKAGE_INDEX", address)
        async with moonpool.session(packages="any") as other:
            async with moonpool.session(packages="any") as s:
                await s.run("1")
                installing = asyncio.ensure_future(s.install("small"))
                await s.reset()
                await installing
                assert (await s.run("import small; small.version")).data == "1.0"
                async for event in s.stream(
                    "print('begun')\nfrom moonpool_guest.python import installed\ninstalled.pip('install stuck')"
                ):
                    assert isinstance(event, moonpool.Output)
                    await until(lambda: any("stuck" in one for one in requests))
                    break
                assert (await s.run("import small; 1")).data == 1
                assert not _resolvers()
                requests.clear()
                installing = asyncio.ensure_future(s.install("stuck"))
                await until(lambda: any("stuck" in one for one in requests))
            with pytest.raises(moonpool.PackageError, match="the session was closed meanwhile"):
                await installing
            assert not _resolvers()
            await other.install("small")


_HOST = """
import moonpool.sync, sys
with moonpool.sync.session(packages="any") as s:
    s.run("1")
    s.install("tardy")
"""


@pytest.mark.slow  # two processes with zygotes of their own
@pytest.mark.timeout(180)
async def test_a_host_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(tmp_path: Path) -> None:
    data = fresh_data(run_folder() / f"killed-{os.getpid()}")  # sandbox uids cannot reach a folder of pytest
    with _index(tmp_path).served(silent="/tardy/tardy-1.0") as (address, requests):
        environ = {**os.environ, "MOONPOOL_DATA_DIR": str(data), "MOONPOOL_PACKAGE_INDEX": address}
        host = subprocess.Popen([sys.executable, "-c", _HOST], env=environ)  # noqa: ASYNC220  nothing waits for it here
        await anyio.to_thread.run_sync(
            lambda: wait_until(lambda: any("tardy-1.0" in one for one in requests), within_s=60)
        )
        below = descendants_of(host.pid)
        host.kill()
        host.wait()
        assert not await anyio.to_thread.run_sync(wait_gone, below, 30)
        abandoned = packages_dir(data) / "wheels" / ".0123456789abcdef"  # killed a moment later
        abandoned.mkdir(parents=True)
        (abandoned / "0.whl").write_bytes(b"half of it")
        async with open_app(packages="any", package_index=address, data_dir=data) as app:
            session = app.runtime.session(app.caller_grant)
            await session.install("small")
            assert await _imports(session, "small")
            assert not await _imports(session, "tardy")
            assert _left(data) == []
            assert len(list((data / "run").iterdir())) == 1
            await session.close()


@pytest.mark.slow  # four build sandboxes
@pytest.mark.timeout(120)
async def test_sessions_install_the_same_and_other_packages_at_once(tmp_path: Path) -> None:
    """In two applications on one data folder, which know nothing of each other, as two processes do."""
    with _index(tmp_path).served() as (address, _):
        async with (
            open_app(packages="any", package_index=address) as one,
            open_app(packages="any", package_index=address) as two,
        ):
            asked = ((one, "needer"), (two, "needer"), (one, "other"), (two, "small other"))
            sessions = [app.runtime.session(app.caller_grant) for app, _ in asked]
            installed = await asyncio.gather(
                *(session.install(text) for session, (_, text) in zip(sessions, asked, strict=True))
            )
            names = [{package.name for package in done.packages} for done in installed]
            assert names == [{"needer", "small"}, {"needer", "small"}, {"other"}, {"small", "other"}]
            for session, expected in zip(sessions, names, strict=True):
                found = {name for name in ("needer", "small", "other") if await _imports(session, name)}
                assert found == expected
                await session.close()


@pytest.mark.slow  # as the test above
async def test_what_was_evicted_meanwhile_is_fetched_again(tmp_path: Path) -> None:
    with _index(tmp_path).served() as (address, _):
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            (small,) = (await session.install("small")).packages
            folder = packages_dir(app.data) / "wheels" / small.sha256
            await anyio.to_thread.run_sync(lambda: folder.rename(tmp_path / "evicted"))  # before any sandbox shows it
            envelope = await session.execute(CodeRequest(code=b"1"))
            assert envelope.error is not None
            assert "install them again" in envelope.error.message
            again = await session.install("small")
            assert (again.new, again.packages) == ((), (small,))
            assert await _imports(session, "small")
            assert (await session.execute(CodeRequest(code=b"import os; os._exit(3)"))).error is not None
            assert await _imports(session, "small")  # in another sandbox
            await session.close()


@contextmanager
def _small_disk(folder: Path) -> Generator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=4000", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _leave(folder: Path, size: int) -> Path:
    """A file that leaves so much room."""
    room = os.statvfs(folder)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - size))
    return ballast


def _leave_files(folder: Path, count: int) -> list[Path]:
    """Files that leave room for so many."""
    ballast = [folder / f"ballast-{n}" for n in range(os.statvfs(folder).f_ffree - count)]
    for file in ballast:
        file.touch()
    return ballast


@pytest.mark.slow  # a data folder of its own
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a small disk")
@pytest.mark.timeout(120)
async def test_a_full_disk_is_told_and_nothing_half_is_published(tmp_path: Path) -> None:
    index = Index(tmp_path)
    noise = os.urandom(1_500_000).hex()
    index.add("large", files={"large.py": f"x = {noise!r}"})
    index.add("zeros", files={"zeros.py": "#" * 6_000_000})
    index.add("many", files={f"many/m{n}.py": "" for n in range(300)})
    with index.served() as (address, _), _small_disk(run_folder() / f"disk-{os.getpid()}") as disk:
        data = fresh_data(disk / "data")
        async with open_app(packages="any", package_index=address, data_dir=data) as app:
            session, other = app.runtime.session(app.caller_grant), app.runtime.session(app.caller_grant)
            assert not await _imports(session, "large")
            assert not await _imports(other, "many")
            for name in ("large", "zeros"):  # while its file comes out of the build sandbox; while it is unpacked
                ballast = _leave(disk, 1_000_000)
                with pytest.raises(PackageError, match="no space left"):
                    await session.install(name)
                assert _left(data) == []
                ballast.unlink()
                assert not await _imports(session, name)
            await session.install("many")
            files = _leave_files(disk, 100)
            with pytest.raises(PackageError, match="cannot be shown: no space left"):
                await other.install("many")
            for file in files:
                file.unlink()
            assert not await _imports(other, "many")
            await other.install("many")
            assert await _imports(other, "many.m299")
            await session.close()
            await other.close()
