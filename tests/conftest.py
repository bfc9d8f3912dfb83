"""Fixtures shared by every test. Rooms keep their own fixtures in their folder's conftest."""

from __future__ import annotations

import signal

import pytest

# A shell that runs tests in the background has them ignore SIGINT, and `nohup` SIGHUP; what they start would, too.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.fixture
def anyio_backend() -> str:
    """The host runs on asyncio only: it registers raw file descriptors with the loop (decision 0002)."""
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the sandbox backends that really ran: a skip among hundreds of dots is easy to miss."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    ran = {value for report in reports for name, value in report.user_properties if name == "sandbox backend"}
    if ran:
        terminalreporter.write_line(f"sandbox backends that really ran: {', '.join(sorted(ran))}")
