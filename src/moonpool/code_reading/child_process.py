"""The process that parses Python code for the host: one request after another, each a line of JSON, until end of file.

Started by `moonpool.code_reading.reader`, with only the standard library and pure packages, no environment variables
and no descriptor but the socket.

SECURITY: it sets its own limits before it reads the first byte and cannot raise them again. Exceeding them ends this
process or is reported as a refusal.
"""

from __future__ import annotations

import json
import resource
import socket
from typing import IO, TYPE_CHECKING, Any, Final

from moonpool.code_reading.json_form import code_json, read_index
from moonpool.code_reading.names import NameIndex
from moonpool.code_reading.reading import UnreadableCodeError, read_code
from moonpool.code_reading.scopes import TooManyNodesError
from moonpool.core.errors import InputError
from moonpool.wrappers.names import TreeNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject

MEMORY_BYTES_MAX: Final = 512 * 1024**2
CPU_S_MAX: Final = 5
_TOO_LARGE: Final = json.dumps({"failed": "too large"})


def main(fd: int) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CPU, CPU_S_MAX),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    with socket.socket(fileno=fd) as connection, connection.makefile("rb") as orders:
        reader = _Reader(connection, orders)
        while order := reader.receive():
            reader.answer(order)


class _Reader:
    def __init__(self, connection: socket.socket, orders: IO[bytes]) -> None:
        self._connection, self._orders = connection, orders
        self._index = NameIndex(TreeNames(servers={}))
        self._names: dict[tuple[str, str], Mapping[str, str]] = {}

    def receive(self) -> Any:
        line = self._orders.readline()
        return json.loads(line) if line else None

    def answer(self, order: Mapping[str, Any]) -> None:
        try:
            answer = json.dumps(self._carry_out(order))
        except UnreadableCodeError as error:
            answer = _unreadable(error)
        except InputError as error:
            answer = json.dumps({"failed": "input", "message": str(error)})
        except (TooManyNodesError, MemoryError, RecursionError):
            answer = _TOO_LARGE
        self._send(answer)

    def _send(self, text: str) -> None:
        self._connection.sendall(text.encode() + b"\n")

    def _carry_out(self, order: Mapping[str, Any]) -> JsonObject:
        match order["do"]:
            case "know":  # the names for later code
                self._index = read_index(order["index"])
                return {}
            case "read":
                code, module = order["code"].encode(), order["module"]
                return code_json(read_code(code, self._index, self._wire_names, module=module))
            case "interface":
                from moonpool.features.library.model.actions import read_interface  # noqa: PLC0415  a third of the start; previews need none

                shown = read_interface(order["code"].encode(), order["name"], order["description"])
                return {
                    "description": shown.description,
                    "parameters": shown.parameters,
                    "definition": shown.definition,
                }
            case _:  # "trim"
                from moonpool.features.library.model.actions import trim  # noqa: PLC0415

                trimmed, left_out = trim(order["code"].encode())
                return {"code": trimmed.decode(), "left_out": [*left_out]}

    def _wire_names(self, server_id: str, tool: str) -> Mapping[str, str]:
        """Ask the host, which has the schemas, once for each tool."""
        if (server_id, tool) not in self._names:
            self._send(json.dumps({"wire_names": [server_id, tool]}))
            self._names[server_id, tool] = self.receive()
        return self._names[server_id, tool]


def _unreadable(error: UnreadableCodeError) -> str:
    return json.dumps({"failed": "unreadable", "type": error.type, "line": error.line, "message": str(error)})
