"""The operator's program that is told of questions: bounded, without a shell, without arguments and credentials."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.errors import ConfigError
from moonpool.features.approvals import notification as announcing
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.features.approvals.notification import PER_MINUTE_MAX, RUNNING_MAX, Announcer
from moonpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = ApprovalRequest(
    request_id="ab12", run_id="run_1", principal="local:a", server_id="box", tool_name='x"; touch /tmp/no $(id)\n`id`',
    arguments='{"key": "s3cr3t"}', arguments_digest="sha256:0", reason="why",
)  # fmt: skip

HANGS = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(60)'"


async def ended(announcer: Announcer) -> None:
    with anyio.fail_after(20):
        await asyncio.gather(*announcer._running)


@pytest.mark.anyio
async def test_no_shell_reads_the_tools_name_and_no_argument_or_credential_is_passed(tmp_path: Path) -> None:
    program = "import json, os, sys, pathlib; p = pathlib.Path(sys.argv[1]); "
    program += "p.write_text(json.dumps([sys.argv[2:], sorted(os.environ)]))"
    told = tmp_path / "told"
    announcer = Announcer(
        shlex.join([sys.executable, "-c", program, str(told)]), {"PATH": "/usr/bin", "TOKEN": "t", "DISPLAY": ":0"}
    )
    announcer.tell(REQUEST)
    await ended(announcer)
    arguments, names = json.loads(told.read_text(encoding="utf-8"))
    assert arguments[0] == "ab12"
    assert arguments[1] == r'Moonpool: box."x\"; touch /tmp/no $(id)\n`id`" waits for approval'
    assert {"TOKEN"}.isdisjoint(names)
    assert {"PATH", "DISPLAY"} <= set(names)


@pytest.mark.anyio
async def test_how_many_run_and_how_many_a_minute_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    sleeper = Announcer(HANGS, {})
    caplog.set_level(logging.WARNING)
    for _ in range(RUNNING_MAX + 1):
        sleeper.tell(REQUEST)
    assert len(sleeper._running) == RUNNING_MAX
    assert "too many at once" in caplog.text
    await sleeper.close()
    assert not sleeper._running
    brief = Announcer("true", {"PATH": "/usr/bin:/bin"})
    caplog.clear()
    for _ in range(PER_MINUTE_MAX + 1):
        brief.tell(REQUEST)
        await ended(brief)
    assert "too many at once" in caplog.text


@pytest.mark.anyio
async def test_what_hangs_or_is_missing_is_told_and_holds_nobody_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ((HANGS, 0.05, "did not end within"), ("/no/such", 20, "cannot be started"), ("false", 20, "ended with"))
    for command, run_s_max, told in rows:
        announcer = Announcer(command, {"PATH": "/usr/bin:/bin"})
        monkeypatch.setattr(announcing, "RUN_S_MAX", run_s_max)
        announcer.tell(REQUEST)
        await ended(announcer)
        assert told in caplog.text
    Announcer("", {}).tell(REQUEST)
    with pytest.raises(ConfigError, match="approval_command has a quote without an end"):
        Settings.load({"MOONPOOL_APPROVAL_COMMAND": "notify 'x"})
