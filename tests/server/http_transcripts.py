"""Whole conversations over HTTP, request by request, as files under `goldens/http`; what stdio's say is not repeated.

`python -m server.http_transcripts`, started in `tests`, writes them anew. What differs from run to run is replaced by a
word, as in `transcripts`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from server.services import (
    JSON_TYPE,
    MODERN,
    MODERN_META,
    STREAMS,
    caller,
    execute,
    handshake,
    modern_headers,
    notification,
    request,
    serving,
    streaming,
)
from server.transcripts import line_of

if TYPE_CHECKING:
    from server.services import OpenService

FOLDER = Path(__file__).with_name("goldens") / "http"
SESSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
NAMES = ("2024-11-05 SSE", *SESSIONS, MODERN, "without a session")
CODE = "result = 6 * 7"
CHATTY = "print('a line', flush=True)\n" + CODE
Step = tuple[str, dict[str, str], Any]


def steps(version: str) -> list[Step]:
    """Method, headers and body of each request after the handshake."""
    token = {"progressToken": "t"}
    batch = [request("ping", id=4), notification("notifications/cancelled", {"requestId": 99})]
    if version == MODERN:
        return [
            ("POST", modern_headers(one["method"], one["params"].get("name")), one)
            for one in (
                _modern(request("server/discover", {}, id=1)),
                _modern(execute(CODE, id=2)),
                _modern(execute(CHATTY, id=3), **token),
                _modern(request("tools/call", {"name": "nope"}, id=4)),
                _modern(request("no/such", {}, id=5)),
            )
        ] + [("POST", STREAMS, _modern(request("tools/list", {}, id=6))), ("GET", modern_headers("x"), None)]
    named = [] if version == "without a session" else [("POST", {"mcp-protocol-version": "1999-01-01"}, batch[0])]
    return [
        ("POST", {}, request("ping", id=1)),
        ("POST", {"accept": "application/json"}, execute(CODE, id=2)),
        ("POST", {**STREAMS, "accept": "text/event-stream"}, execute(CHATTY, id=3, meta=token)),
        ("POST", {}, batch),
        ("POST", {}, request("tools/call", {"name": "nope"}, id=5)),
        ("POST", {}, request("no/such", id="six")),
        ("POST", {}, notification("notifications/none")),
        *named,
        ("DELETE", {}, None),
        ("POST", {}, request("ping", id=7)),
    ]


def _modern(message: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {**message, "params": {**message["params"], "_meta": {**MODERN_META, **meta}}}


async def play(name: str, service: OpenService) -> list[str]:
    """Have the conversation; `> ` before what the client sends and `< ` before what it gets."""
    lines: list[str] = []
    own = {"authorization": f"Bearer {name.partition(' ')[0]}"}
    if name == NAMES[0]:
        return await _play_sse(service, own, lines)
    session: dict[str, str] = {}
    if name in SESSIONS:
        opened = await _exchange(service, own, ("POST", STREAMS, handshake(name)), lines)
        session = {"mcp-session-id": opened["mcp-session-id"]}
        await _exchange(service, own, ("POST", session, notification("notifications/initialized")), lines)
    for method, headers, body in steps(name):
        await _exchange(service, own, (method, {**headers, **session}, body), lines)
    return lines


async def _exchange(service: OpenService, own: dict[str, str], step: Step, lines: list[str]) -> dict[str, str]:
    method, headers, body = step
    lines.append(f"> {method} /mcp {_shown(headers)}")
    if body is not None:
        lines.append(f"> {line_of(body)}")
    sent = {**JSON_TYPE, **headers, **own}
    answer = await service.http.request(method, "/mcp", json=body, headers=sent)
    shown = {name: answer.headers[name] for name in ("content-type", "mcp-session-id") if name in answer.headers}
    lines.append(f"< {answer.status_code} {_shown(shown)}")
    lines += [f"< {_part(line)}" for line in answer.text.splitlines() if line]
    return dict(answer.headers)


async def _play_sse(service: OpenService, own: dict[str, str], lines: list[str]) -> list[str]:
    lines.append("> GET /sse")
    async with streaming(service, "GET", "/sse", headers={**own, "accept": "text/event-stream"}) as (_, events):
        address = (await anext(events))["text"]
        lines.append("< event: endpoint data: /message?sessionId=STREAM")
        messages = (
            handshake("2024-11-05"), notification("notifications/initialized"), request("ping", id=2),
            execute(CODE, id=3), execute(CHATTY, id=4, meta={"progressToken": "t"}),
            request("tools/call", {"name": "nope"}, id=5), [request("ping", id=6)],
        )  # fmt: skip
        for message in messages:
            lines.append(f"> POST /message?sessionId=STREAM {line_of(message)}")
            posted = await service.post(message, path=address, **own)
            lines.append(f"< {posted.status_code} {posted.text}".rstrip())
            while not isinstance(message, dict) or "id" in message:
                event = await anext(events)
                lines.append(f"< event: {event['event']} data: {line_of(event['data'])}")
                if "method" not in event["data"]:
                    break
    return lines


def _shown(headers: dict[str, str]) -> str:
    told = {**headers, **({"mcp-session-id": "SESSION"} if "mcp-session-id" in headers else {})}
    return " ".join(f"{name}={value}" for name, value in sorted(told.items()) if name != "authorization")


def _part(line: str) -> str:
    """A line of a body: JSON, or a field of an event."""
    name, colon, value = line.partition(": ")
    if line.startswith(("{", "[")):
        return line_of(json.loads(line))
    return f"{name}{colon}{line_of(json.loads(value))}" if value.startswith(("{", "[")) else line


def callers() -> dict[str, Any]:
    """One for each conversation, so that none counts another's streams."""
    return {name.partition(" ")[0]: caller(re.sub(r"\W", "", name)) for name in NAMES}


async def main() -> None:
    """Write every transcript anew."""
    FOLDER.mkdir(exist_ok=True)
    async with serving(callers()) as service:
        for name in NAMES:
            text = "\n".join(await play(name, service)) + "\n"
            await anyio.Path(FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    anyio.run(main)
