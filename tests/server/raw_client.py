"""A client without the SDK: writes lines, reads lines, and insists that every line of stdout is one JSON value."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from apps import DATA
from commands.process import SCRIPT, Command

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVE = Path(__file__).with_name("serve.py")
PATIENCE_S = 40.0

Json = Any


class RawClient:
    """One server process. Use as a context manager; leaving it closes stdin and waits for the end."""

    def __init__(
        self,
        config: Path | str = "-",
        *,
        approve: str = "deny",
        command: Sequence[str] | None = None,
        cwd: str | None = None,
        **environ: str,
    ) -> None:
        """`command` instead of `serve.py` and its arguments."""
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__
        start = Command if command is None or command[0] == str(SCRIPT) else subprocess.Popen
        self.process: subprocess.Popen[bytes] = start(
            command or [SERVE, config, approve],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=environment(**environ),
            cwd=cwd,
            start_new_session=True,
        )
        self.heard: list[Json] = []  # messages that nobody asked for while waiting for an answer
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._ids = 1000
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # a test has closed it
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join()
            for file in (self.process.stdout, self.stderr):
                assert file is not None
                file.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages: Json) -> None:
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def receive(self, patience_s: float = PATIENCE_S) -> Json:
        """The next message. Raises EOFError at the end."""
        line = self._lines.get(timeout=patience_s)
        if line is None:
            raise EOFError(self.said())
        assert line.endswith(b"\n")
        return json.loads(line)

    def request(self, method: str, params: Json = None, *, id: Json = None) -> Json:  # noqa: A002
        """Send a request and return its id."""
        self._ids += 1
        request_id = self._ids if id is None else id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return request_id

    def answer(self, request_id: Json) -> Json:
        """The answer to `request_id`; what comes before it is kept in `heard`."""
        for message in self.heard:
            if is_answer(message, request_id):
                self.heard.remove(message)
                return message
        while not is_answer(message := self.receive(), request_id):
            self.heard.append(message)
        return message

    def call(self, method: str, params: Json = None) -> Json:
        return self.answer(self.request(method, params))

    def notify(self, method: str, params: Json = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    def handshake(self, version: str = "2025-11-25", **capabilities: Json) -> Json:
        client = {"name": "raw", "version": "1.0"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        result = self.call("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result

    def tool(self, name: str, **arguments: Json) -> Json:
        return self.call("tools/call", {"name": name, "arguments": arguments})["result"]

    def execute(self, code: str, **arguments: Json) -> Json:
        """`structuredContent` of an execution."""
        return self.tool("execute_code", code=code, **arguments)["structuredContent"]

    def start(self, code: str, *, meta: Json = None, **arguments: Json) -> Json:
        """Begin an execution; return the request's id."""
        params = {"name": "execute_code", "arguments": {"code": code, **arguments}}
        return self.request("tools/call", params if meta is None else {**params, "_meta": meta})

    def close(self) -> int:
        """Close stdin and return the exit code."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        return self.process.wait(PATIENCE_S)

    def rest(self) -> list[Json]:
        """Every message until the end of stdout."""
        messages: list[Json] = []
        while True:
            try:
                messages.append(self.receive())
            except EOFError:
                return messages

    def said(self) -> str:
        """What the process wrote to stderr so far."""
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")


def environment(**more: str) -> dict[str, str]:
    """Environment of a server process: data where sandbox uids can read it."""
    return {**os.environ, "MOONPOOL_DATA_DIR": str(DATA), "MOONPOOL_ENVIRONMENT": "base", **more}


def is_answer(message: Json, request_id: Json) -> bool:
    is_one = isinstance(message, dict) and "method" not in message and "id" in message
    return is_one and type(message["id"]) is type(request_id) and message["id"] == request_id
