"""What a server says beside its answers: log messages and progress, for the operator's log, under the server's name.

Progress of a call also goes to the client that waits for its execution, if it asked for it (`CallContext.progress`).

SECURITY: the server wrote it. Its configured secrets and its tokens are blanked in every form, it is cut to one line,
and a bounded amount per minute is logged; the rest is counted. Nothing of it reaches code in a sandbox.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import anyio
import msgspec

from moonpool.configuration.expansion import conceal
from moonpool.configuration.server_config import LogLevel
from moonpool.core.calls import CallProgress
from moonpool.core.phrases import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.shared.dispatcher import ProgressFnT

    from moonpool.configuration.servers import ServerConfig
    from moonpool.upstreams.open_call import OpenCall

_log = logging.getLogger(__name__)
WINDOW_S: Final = 60.0
LINE_COUNT_MAX: Final = 60
_LENGTH_MAX: Final = 1000
_PROGRESS_LENGTH_MAX: Final = 300
_READ_MAX: Final = 64 * 1024
LEVELS: Final = get_args(LogLevel)
"""From the least to the most severe."""
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO}


class ServerLogging:
    """Writes one server's log messages into the operator's log. One per connection."""

    def __init__(self, config: ServerConfig, secrets: Callable[[], frozenset[str]]) -> None:
        """`secrets` gives what must not be logged now: configured secrets and tokens."""
        self._config, self._secrets = config, secrets
        self._window_ends = 0.0
        self._count = 0

    def message(self, level: str, data: Any) -> None:
        """A log message. A server's error is not one of ours, so nothing is logged above a warning."""
        self._write(_LEVELS.get(level, logging.WARNING), data)

    def progress_of(self, doing: str, call: OpenCall[Any] | None) -> ProgressFnT | None:
        """A receiver of progress, if there is a reader: asking for progress makes servers send it."""
        hear = None if call is None else call.context.progress
        if hear is None and not _log.isEnabledFor(logging.DEBUG):
            return None
        name = doing if call is None else call.tool

        async def report(progress: float, total: float | None, message: str | None) -> None:
            try:  # the SDK passes on an integer of any length, and an exception here would end the connection
                progress, total = float(progress), None if total is None else float(total)
            except OverflowError:
                return
            of = "" if total is None else f" of {total:g}"
            self._write(logging.DEBUG, f"{doing}: {progress:g}{of} {message or ''}")
            if hear is not None:
                told = said(self._line(message or ""), _PROGRESS_LENGTH_MAX)
                hear(CallProgress(tool=name, progress=progress, total=total, message=told))

        return report

    def _write(self, level: int, data: Any) -> None:
        if not _log.isEnabledFor(level):
            return
        now = anyio.current_time()
        if now >= self._window_ends:
            if self._count > LINE_COUNT_MAX:
                _log.log(level, "server %r said %d things more", self._config.server_id, self._count - LINE_COUNT_MAX)
            self._window_ends, self._count = now + WINDOW_S, 0
        self._count += 1
        if self._count <= LINE_COUNT_MAX:
            _log.log(level, "server %r says: %s", self._config.server_id, self._line(data))

    def _line(self, data: Any) -> str:
        secrets = self._secrets()
        if not isinstance(data, str):
            try:  # strings on their own first: in JSON inside of JSON a secret is escaped twice
                encoded = msgspec.json.encode(_Beginning(secrets).of(data)).decode()
            except (ValueError, TypeError, RecursionError):
                encoded = "something that is not JSON"
        else:
            encoded = data
        return said(conceal(encoded[:_READ_MAX], secrets)[:_LENGTH_MAX], _LENGTH_MAX)


class _Beginning:
    """The beginning of a value, without secrets: a message may hold a million strings, and one line is shown."""

    def __init__(self, secrets: frozenset[str]) -> None:
        self._secrets, self._left = secrets, _READ_MAX

    def of(self, data: Any) -> Any:
        """Raises RecursionError."""
        self._left = left = max(0, self._left - 1)
        if isinstance(data, str):
            text = conceal(data[:left], self._secrets)
            self._left = max(0, left - len(text))
            return text
        if isinstance(data, list):
            return [self.of(item) for item in cast("list[Any]", data)[:left] if self._left]
        if isinstance(data, dict):
            members = islice(cast("dict[str, Any]", data).items(), left)
            return {self.of(name): self.of(item) for name, item in members if self._left}
        return data
