"""Telling a program of the operator's that a question waits in the queue of approvals (`approval_command`).

The program gets the words of the setting, then the request's id and one sentence with the tool's name. What is asked in
full it can read with `moonpool approvals show ID`. Nobody waits for it, and what it prints goes nowhere.

SECURITY: no shell reads any of it, the call's arguments are not in it, and of this process's environment the program
gets what a desktop needs and none of the servers' credentials. Code in a sandbox decides how often a question is asked,
so how many programs run, for how long and how many a minute are started is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import clip, on_one_line
from moonpool.sandboxes.code_writable import variables_without_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.features.approvals.model import ApprovalRequest

RUNNING_MAX: Final = 4
PER_MINUTE_MAX: Final = 30
RUN_S_MAX: Final = 10.0
_SENTENCE_CHARS_MAX: Final = 300
_PASSED: Final = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_TTY", "TMUX", "MOONPOOL_DATA_DIR",
)  # fmt: skip
_log = logging.getLogger(__name__)


class Announcer:
    """Starts the program for each question. Used on one event loop."""

    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        """`command` is split into words as a shell would; empty: nobody is told."""
        self._words = shlex.split(command)
        if self._words and "/" in self._words[0]:
            self._words[0] = os.path.abspath(self._words[0])  # noqa: PTH100 - no link is followed
        self._environ = {name: environ[name] for name in _PASSED if name in environ}
        self._running = set[asyncio.Task[None]]()
        self._started: deque[float] = deque(maxlen=PER_MINUTE_MAX)

    def tell(self, request: ApprovalRequest) -> None:
        """Start it and return. What goes wrong is logged."""
        if not self._words:
            return
        now = time.monotonic()
        often = len(self._started) == PER_MINUTE_MAX and now - self._started[0] < 60
        if often or len(self._running) >= RUNNING_MAX:
            _log.warning("approval_command was not started for one question: too many at once")
            return
        self._started.append(now)
        name = f"{request.server_id}.{shown_name(request.tool_name)}"
        sentence = on_one_line(clip(f"Moonpool: {name} waits for approval", _SENTENCE_CHARS_MAX))
        task = asyncio.create_task(self._run(request.request_id, sentence))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """End what still runs."""
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, *told: str) -> None:
        nothing = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                *told,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                env=await asyncio.to_thread(variables_without_code, self._environ),
                cwd="/",  # SECURITY: code may write in ours, and many programs read settings from theirs
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            _log.warning("approval_command cannot be started: %s", getattr(error, "strerror", None) or error)
            return
        try:
            async with asyncio.timeout(RUN_S_MAX):
                if code := await process.wait():
                    _log.warning("approval_command ended with %d", code)
        except TimeoutError:
            _log.warning("approval_command was ended: it did not end within %g s", RUN_S_MAX)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
