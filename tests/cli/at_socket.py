"""Requests to the service of a data folder through its socket, as a program of its user would send them."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from moonpool.store.service_socket import ServiceFolder


def at_socket(
    data: Path, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Status and JSON of the answer; its text where it is none."""
    folder = ServiceFolder(data)
    connection = http.client.HTTPConnection("moonpool", timeout=30)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(folder.address)
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
        folder.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text
