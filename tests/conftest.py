"""Fixtures shared by every test, and what a run is: its folder, its seed, what it says of failures.

Rooms keep their own fixtures in their folder's conftest.
"""

from __future__ import annotations

import gc
import os
import random
import signal
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import settings

import profiles
from bytecode import compile_ahead
from failures import Failures
from run_folder import fresh_data, run_folder
from worker import one_loop, tasks_left

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

# A shell that runs tests in the background has them ignore SIGINT, and `nohup` SIGHUP; what they start would, too.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

pytest_plugins = ["postgres", "s3_server", "service_stores"]  # their fixtures

_FAILURES = pytest.StashKey[Failures]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where the run begins: a folder of its own, one seed for all workers. The workers inherit both."""
    profiles.register()
    settings.load_profile("fast" if config.option.markexpr == "not slow" else "full")
    if hasattr(config, "workerinput"):
        return
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = random.SystemRandom().randrange(1 << 32)
    unnamed = run_folder() / "unnamed"  # what a test leaves out is not this account's own
    if not unnamed.exists():  # of a run that a test started it does
        fresh_data(unnamed)
    os.environ["MOONPOOL_DATA_DIR"] = str(unnamed)
    config.stash[_FAILURES] = Failures(int(config.option.hypothesis_seed), _tests_folders(config))


def _tests_folders(config: pytest.Config) -> str:
    return str(config.option.basetemp or f"{os.environ.get('TMPDIR', '/tmp')}/pytest-of-*/")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the workers are started."""
    if session.config.option.numprocesses:
        compile_ahead(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are many objects and hardly any garbage: not looking for it saves each worker a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The last lines, behind pytest's own, say what to do about failures."""
    if (failures := config.stash.get(_FAILURES, None)) is not None:
        for line in failures.last_lines():
            print(line)  # noqa: T201


def pytest_report_header(config: pytest.Config) -> str:
    """The seed: what a run chose at random is chosen again with it."""
    return f"seed: {config.option.hypothesis_seed} (again with --hypothesis-seed)"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The host runs on asyncio only: it registers raw file descriptors with the loop (decision 0002)."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
async def _one_loop(anyio_backend: str) -> AsyncGenerator[None]:
    async with one_loop():
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """What a module's tests started has ended before another's begin, though all run in one loop."""
    yield
    if nextitem is None or nextitem.path != item.path:
        assert tasks_left() == []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the sandbox backends that really ran: a skip among hundreds of dots is easy to miss."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    ran = {value for report in reports for name, value in report.user_properties if name == "sandbox backend"}
    if ran:
        terminalreporter.write_line(f"sandbox backends that really ran: {', '.join(sorted(ran))}")
    failures = terminalreporter.config.stash[_FAILURES]
    for name in ("failed", "error"):
        for report in terminalreporter.stats.get(name, []):
            failures.add(cast("pytest.TestReport", report))
