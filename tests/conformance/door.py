"""What the suite starts as "the client": hands the task to the test process and ends with its verdict.

An interpreter that imports the broker takes a second, and the suite starts one for each of its sixty scenarios; this
one imports nothing. Usage: door.py SOCKET URL
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(place: str, url: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(place)
        told = {name: os.environ.get(f"MCP_CONFORMANCE_{name.upper()}", "") for name in ("scenario", "context")}
        task = {"url": url, **told}
        connection.sendall(json.dumps(task).encode() + b"\n")
        with connection.makefile(encoding="utf-8") as answer:
            problems = json.loads(answer.readline())
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


sys.exit(main(sys.argv[1], sys.argv[2]))
