"""What code that asks for packages is told, and how often it may ask; what is shown while others install."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.errors import ConfigError, MoonpoolError
from moonpool.engine.packages.fetching import _decoded
from moonpool.engine.packages.installer import PackageInstaller
from moonpool.engine.packages.model import (
    InstalledPackages,
    PackageError,
    PackagesOffError,
    PackageTooLargeError,
    SessionPackages,
    StoredWheel,
)
from moonpool.engine.packages.requests import INSTALLS_MAX, InstallAnswer, InstallsOfExecution, answer_of
from moonpool.engine.packages.resolver_words import error_of
from moonpool.engine.packages.service import KernelPackages
from moonpool.engine.packages.specifiers import AllowedPackages, parse_requirements
from moonpool.sandboxes.messages import InstallPackages
from moonpool.sandboxes.pool_refusals import BusyError
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import ToolResult

pytestmark = pytest.mark.anyio


def _refused(allowed: str) -> PackageError:
    with pytest.raises(PackageError) as caught:
        AllowedPackages.parse(allowed).check(parse_requirements("evil"))
    return caught.value


NOW = "packages cannot be installed here now"
TOLD: list[tuple[MoonpoolError, str]] = [
    (PackagesOffError(), "packages cannot be installed here: nobody allowed it"),
    (_refused("good"), "evil is not among the packages that are allowed"),
    (_refused("any,!evil"), "evil is denied here"),
    (error_of("error: No space left on device"), "nothing was installed: No space left on device; install less"),
    (PackageTooLargeError("it is too large", remedy="raise packages_bytes_max"), "it is too large"),
    (
        error_of("error: Failed to fetch: `https://inner.example/simple/x/`"),
        "nothing was installed: Failed to fetch: `the package index`; check the package index and try again",
    ),
    (ConfigError("the package index '/home/someone/wheels' is no folder here"), NOW),
    (BusyError("all 4 stayed in use", setting="sandboxes_max", retry_after_s=1.0), NOW),
]


@pytest.mark.parametrize(("error", "told"), TOLD)
async def test_code_is_not_told_what_an_operator_may_change(
    error: MoonpoolError, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> InstalledPackages:
        raise error

    answer = await answer_of(fails())
    assert answer.reply == {"ok": False, "error": {"type": error.code, "message": told, "retryable": False}}
    assert (str(error) in caplog.text) == (told == NOW)


class _Sandbox:
    """Keeps what is sent to it."""

    has_ended = False

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}

    def send(self, message: ToolResult, body: bytes) -> None:
        self.answers[message.id] = json.loads(body)

    def count_refused_call(self, size: int) -> None:
        pass


async def test_only_what_is_taken_up_counts_towards_the_installations_of_an_execution() -> None:
    goes_on, sandbox = asyncio.Event(), _Sandbox()

    async def install(_: str) -> InstallAnswer:
        await goes_on.wait()
        return InstallAnswer(reply={"ok": True})

    installs = InstallsOfExecution(_as_sandbox(sandbox), install)
    for number in range(1 + 2 * INSTALLS_MAX):
        installs.start(InstallPackages(id=number), b"x", is_open=True)
    goes_on.set()
    await until(lambda: 0 in sandbox.answers, pause_s=0)
    for number in range(100, 100 + INSTALLS_MAX):
        await asyncio.sleep(0)  # the task of the one before ends
        installs.start(InstallPackages(id=number), b"x", is_open=True)
        await until(lambda number=number: number in sandbox.answers, pause_s=0)
    taken = [number for number, answer in sandbox.answers.items() if answer["ok"]]
    assert taken == [0, *range(100, 99 + INSTALLS_MAX)]
    assert "at most 20 times" in str(sandbox.answers[99 + INSTALLS_MAX])
    await installs.settle()


def _as_sandbox(fake: Any) -> Sandbox:
    return fake


def _wheel(folder: Path, name: str) -> StoredWheel:
    return StoredWheel(name=name, version="1", sha256=name * 64, folder=folder / name, metadata="", size=1, files={})


async def test_an_older_set_of_packages_never_takes_the_place_of_a_newer_one(tmp_path: Path) -> None:
    a, b = _wheel(tmp_path, "a"), _wheel(tmp_path, "b")
    older, newer = SessionPackages(wheels={"a": a}), SessionPackages(wheels={"a": a, "b": b})
    begun, goes_on, shown = threading.Event(), threading.Event(), [""]

    def publish(_: object, digest: str) -> None:
        if digest == older.digest:
            begun.set()
            assert goes_on.wait(30)
        shown.append(digest)

    def shows(digest: str) -> bool:
        return shown[-1] == digest

    sandbox = _as_sandbox(SimpleNamespace(has_ended=False, shows_packages=shows, publish_packages=publish))
    packages = KernelPackages(installed=older)
    async with asyncio.timeout(60):
        first = asyncio.create_task(packages.show(sandbox))
        await asyncio.to_thread(begun.wait)
        packages.installed = newer
        second = asyncio.create_task(packages.show(sandbox))
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(first, second)
    assert shown[-1] == newer.digest


async def test_a_session_that_has_the_only_sandbox_is_told_at_once(tmp_path: Path) -> None:
    services: Any = SimpleNamespace(sandboxes_max=1, key=lambda *_: "key")
    resolutions: Any = SimpleNamespace(find=lambda _: None)
    unused: Any = None
    installer = PackageInstaller(services, resolutions, AllowedPackages.parse("any"), unused, scope="a")
    with pytest.raises(PackageError, match="has the only one; raise sandboxes_max"):
        await installer.install("x", SessionPackages(), unused, principal="p", has_sandbox=True)


def test_the_resolvers_words_are_bounded() -> None:
    assert _decoded(json.dumps({"said": "x" * 20_000}).encode()).said
    with pytest.raises(PackageError, match="cannot be read"):
        _decoded(json.dumps({"said": "x" * 20_001}).encode())
