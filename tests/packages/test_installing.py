"""Installing packages for a session: the real build sandbox, the real network road, an index on this machine."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import open_app
from moonpool.core.errors import ConfigError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.packages.model import PackageError
from moonpool.network.rules import NetworkRules, parse_domain
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.sites import authority
from packages.fake_index import Index, link

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.engine.sessions import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
def started_by_the_host(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names in the command lines of the programs that this process starts meanwhile."""
    names: list[str] = []
    start = subprocess.Popen.__init__

    def noting(self: Any, args: Any, *more: Any, **options: Any) -> None:
        names.extend(Path(os.fsdecode(word)).name for word in ([args] if isinstance(args, str | bytes) else args))
        start(self, args, *more, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", noting)
    return names


@contextmanager
def _index(folder: Path) -> Generator[tuple[str, list[str]]]:
    index = Index(folder)
    index.add("good", "1.0", requires=["dep"])
    index.add("good", "2.0", requires=["dep>=1"])
    index.add("dep", files={"dep.py": MARKS.format(str(folder / "ran"))})
    index.add("old", requires=["good<1"])
    index.add("yanked", yanked=True)
    index.add_source("source")
    index.add("linked", extra=link("here", "/etc/passwd"))
    index.add("shadow", files={"json/__init__.py": ""})
    index.add("guest", files={"moonpool_guest/python/kernel.py": ""})
    index.add("wrapper", files={"servers/__init__.py": ""})
    index.add("thief", files={"good.py": "version = 'stolen'"})
    index.add("filed", files={"good.py/x.py": ""})
    index.add("folder", files={"good/__init__.py": "version = 'stolen'"})
    index.add("native", files={"good.so": ""})
    index.add("inner", files={"space/one.py": ""})
    index.add("cover", files={"space.py": ""}, requires=["inner"])
    index.add("starter", files={"sitecustomize.py": ""})
    index.add("starting", files={"usercustomize/__init__.py": ""})
    index.add("elsewhere", tag="cp311-cp311-macosx_11_0_arm64")
    index.add("older", tag="cp27-cp27mu-manylinux1_x86_64")
    index.add("later", python=">=4")
    index.add("forged", digest="0" * 64)
    index.add("marked", digest="", requires=["nowhere; python_version < '3'", "dep; extra == 'more'"])
    index.add("needer", requires=["denied"])
    index.add("denied")
    digest = hashlib.sha256(next((folder / "simple" / "good").glob("*1.0*.whl")).read_bytes()).hexdigest()
    index.add("liar", digest=digest)
    with index.served() as served:
        yield served


async def _run(session: Session, code: str) -> Any:
    envelope = await session.execute(CodeRequest(code=code.encode()))
    assert envelope.error is None, envelope.error
    return envelope.data


async def _refusal(session: Session, text: str) -> tuple[str, str]:
    """The code of the error, and what it says."""
    try:
        return "", str(await session.install(text))
    except PackageError as error:
        return error.code, str(error)


MARKS = "version = '1.0'\ntry:\n    open({!r}, 'w').close()\nexcept OSError:\n    pass\n"
REACH = """
import socket
with socket.create_connection(("127.0.0.1", 3128), 30) as proxy:
    proxy.sendall(b"GET ADDRESS HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    result = proxy.recv(4096).decode()
"""
REFUSED = {
    "nowhere": "package_unknown",
    "good>9": "package_unknown",
    "yanked": "package_yanked",
    "yanked==1.0": "package_yanked",
    "source": "package_without_wheel",
    "old": "package_conflict",
    "denied": "package_disallowed",
    "needer": "package_disallowed",
    "git+https://example.com/x": "package_specifier_invalid",
    "linked": "package_refused",
    "shadow": "package_refused",
    "guest": "package_refused",
    "wrapper": "package_refused",
    "thief": "package_refused",  # of what is there already
    "filed": "package_refused",  # where there is a file already
    "liar": "package_refused",  # its digest is that of what is there already
    "folder": "package_refused",
    "native": "package_refused",
    "cover": "package_refused",
    "starter": "package_refused",
    "starting": "package_refused",
    "forged": "package_refused",  # another digest than the index gives
    "elsewhere": "package_without_wheel",
    "older": "package_without_wheel",
    "later": "package_without_wheel",
    "good==2.0 dep<1": "package_conflict",
    "marked; python_version>'3'": "package_specifier_invalid",
}


@pytest.mark.timeout(120)
@pytest.mark.req("P-021", "X-09")
async def test_a_session_installs_packages_and_another_one_from_the_cache(
    tmp_path: Path, started_by_the_host: list[str]
) -> None:
    with _index(tmp_path) as (address, requests):
        async with open_app(packages="any,!denied", package_index=address) as app:
            session = app.runtime.session(app.caller_grant, "installing")
            with_network_only = "import socket\ntry:\n  socket.socket()\nexcept OSError as e: result = type(e).__name__"
            assert await _run(session, "try:\n  import good\nexcept ImportError as e: result = 'missing'") == "missing"
            installed = await session.install("good<2")
            assert [f"{one.name}=={one.version}" for one in installed.new] == ["dep==1.0", "good==1.0"]
            assert not installed.cached
            assert installed.size > 0
            seen = "import good, dep, importlib.metadata as m\nresult = [good.version, dep.version, m.version('good')]"
            assert await _run(session, seen) == ["1.0", "1.0", "1.0"]  # in the kernel that looked in vain before
            assert await _run(session, with_network_only) == "OSError"  # the session got no network
            write = "try:\n  open('/wrappers/packages/good.py', 'w')\nexcept OSError as e: result = e.strerror"
            assert await _run(session, write) == "Read-only file system"
            assert not {"good", "dep"} & sys.modules.keys()
            assert not {"uv", "pip"} & set(started_by_the_host)
            assert not (tmp_path / "ran").exists()  # which the code of `dep` tries to make

            there = len(requests)
            other = app.runtime.session(app.caller_grant, "from-cache")
            assert (await other.install("good < 2")).cached
            assert await _run(other, "import good; result = good.version") == "1.0"  # a sandbox that opened since
            assert len(requests) == there

            upgraded = await other.install("good==2.0")
            assert [str(one.version) for one in upgraded.new] == ["2.0"]  # `dep` stays
            assert await _run(other, "import good; result = good.version") == "1.0"  # was imported already
            await other.close()

            reaching = app.runtime.session(app.caller_grant, network=NetworkRules((parse_domain("example.com"),)))
            assert (await reaching.install("good<2")).cached
            there = len(requests)
            said = await _run(reaching, REACH.replace("ADDRESS", address))
            assert "127.0.0.1:" in said  # the index is the installer's alone
            assert "is not among the domains" in said
            assert len(requests) == there
            await reaching.close()

            with pytest.raises(PackageError, match="was yanked"):
                await session.install("yanked")
            assert await _run(session, seen) == ["1.0", "1.0", "1.0"]
            await session.close()

            rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=400)]
            records = [row for row in rows if row["kind"] == "packages" and row["session_id"] == "installing"]
            assert records[0]["installed"] == ["dep==1.0", "good==1.0"]
            assert [row["error_type"] for row in records[1:]] == ["package_yanked"]
            hosts = {row["host"] for row in rows if row["kind"] == "connection" and row["session_id"] == "installing"}
            assert hosts == {"127.0.0.1"}


@pytest.mark.slow  # a sandbox for each; the test above has one row
@pytest.mark.timeout(120)
async def test_nothing_is_published_of_what_is_refused(tmp_path: Path) -> None:
    with _index(tmp_path) as (address, _):
        async with open_app(packages="any,!denied", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            await session.install("good<2")
            came_to = {text: await _refusal(session, text) for text in REFUSED}
            assert {text: code for text, (code, _) in came_to.items()} == REFUSED, came_to
            listed = "import os\nresult = sorted(n for n in os.listdir('/wrappers/packages') if n.endswith('.py'))"
            assert await _run(session, listed) == ["dep.py", "good.py"]
            assert await _run(session, "import good; result = good.version") == "1.0"
            marked = await session.install("marked[more]")  # whose other requirement is for Python 2
            assert [one.name for one in marked.new] == ["marked"]
            await session.close()


@pytest.mark.slow  # bounds of a wheel have quick rows
async def test_what_is_too_large_is_refused_packed_and_unpacked(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add("packed", files={"packed.py": f"x = {os.urandom(3_000_000).hex()!r}"})
    index.add("unpacked", files={"unpacked.py": "#" * 9_000_000})
    for name in ("half", "other"):
        index.add(name, files={f"{name}.py": "#" * 5_000_000})
    with index.served() as (address, _):
        async with open_app(packages="any", package_index=address, packages_bytes_max=8_000_000) as app:
            session = app.runtime.session(app.caller_grant)
            await session.install("half")
            for name in ("packed", "unpacked", "other"):
                assert (await _refusal(session, name))[0] == "package_too_large"
            assert await _run(session, "import half; result = 1") == 1
            await session.close()


@pytest.mark.slow  # the road is the network's with credentials, which has quick tests
async def test_the_password_of_an_index_is_added_by_the_host(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add("small")
    roots, tls = authority(tmp_path, "localhost")
    (tmp_path / "roots.pem").write_bytes(roots)
    wanted = "Basic " + base64.b64encode(b"user:se:cret").decode()
    with index.served(tls, wanted) as (address, _):
        named = address.replace("//", "//user:se%3Acret@")
        async with open_app(packages="any", package_index=named, network_ca_file=tmp_path / "roots.pem") as app:
            session = app.runtime.session(app.caller_grant)
            await session.install("small")
            assert await _run(session, "import small; result = small.version") == "1.0"
            with pytest.raises(PackageError) as caught:
                await session.install("small>1")
            assert "cret" not in str(caught.value)
            await session.close()


async def test_an_index_whose_password_cannot_be_added_is_refused_with_the_reason(tmp_path: Path) -> None:
    for address, told in (
        ("https://user:se%3Acret@10.0.0.5/simple", "the package index at 10.0.0.5 needs a host name"),
        ("https://user:se%3Acret@[fd00::1]:8443/", "the package index at fd00::1 needs a host name"),
        ("https://u:1@index.example/", "user and password of the package index index.example cannot be used: .* short"),
        ("https://user:se%3Acret@/simple", "names no host"),
    ):
        async with open_app(packages="any", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            with pytest.raises(ConfigError, match=told) as caught:
                await session.install("small")
            await session.close()
        assert "cret" not in str(caught.value)


async def test_a_session_may_not_install_unless_somebody_allowed_it() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        with pytest.raises(PackageError, match="nobody allowed it") as caught:
            await session.install("good")
        assert caught.value.code == "packages_off"
        code = "from moonpool_guest import toolcalls\nresult = toolcalls.install_packages('good')['error']['type']"
        assert await _run(session, code) == "packages_off"
        await session.close()


async def test_code_installs_one_thing_at_a_time_and_not_for_ever(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add("small")
    with index.served() as (address, _):
        async with open_app(packages="small", package_index=address) as app:
            session = app.runtime.session(app.caller_grant)
            code = (
                "from moonpool_guest import toolcalls\n"
                "from moonpool_guest.python import installed\n"
                "installed.pip('install -q small')\n"
                "import small\n"
                "answers = [toolcalls.install_packages('small') for _ in range(20)]\n"
                "result = [small.version, answers[0]['text'], answers[-1]['error']['type']]\n"
            )
            data = await _run(session, code)
            assert data == [
                "1.0", "nothing to install: everything that was asked for is there already", "RateLimit"
            ]  # fmt: skip
            await session.close()
