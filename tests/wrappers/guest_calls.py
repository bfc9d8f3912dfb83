"""Runs in the guest: calls one tool in every form that the wrapper trees offer.

Stdlib only, no import of the host. `call_every_way` works in a real sandbox, too. As a script it stands alone: it puts
a fake bridge where `moonpool_guest.toolcalls` would be, reads cases as JSON from stdin and prints what the bridge got.

    python -I -S guest_calls.py TREE CLIENT_PARENT < cases.json
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import types

FORMS = ("dict", "identifiers", "wire names", "sync", "model", "run dict", "run keywords", "run model", "run async")


async def call_every_way(case: dict) -> None:
    """Make one call per form of `FORMS`, all with `case["arguments"]`; results are not looked at."""
    arguments = case["arguments"]
    package = importlib.import_module(f"servers.{case['module']}")
    function, sync = getattr(package, case["function"]), getattr(package, case["sync"])
    tool = importlib.import_module(f"mcptools.{case['module']}.{case['mcptools']}")
    identifiers = {wire_name: name for name, wire_name in tool.Params.__wire_names__.items()}
    named = {identifiers.get(name, name): value for name, value in arguments.items()}
    await function(arguments)
    await function(**named)
    await function(**arguments)
    sync(arguments)
    await function(tool.Params(**named))
    for run in (lambda: tool.run(arguments), lambda: tool.run(**named), lambda: tool.run(tool.Params(arguments))):
        run()
    await tool.run_async(tool.Params(**arguments))


def check_import_forms(case: dict) -> None:
    """The forms of H-012 give one function, whichever comes first."""
    path, name = f"servers.{case['module']}", case["function"]
    scope: dict = {}
    exec(f"import {path}.{name}\nfirst = {path}.{name}", scope)  # noqa: S102
    exec(f"from {path} import {name} as second", scope)  # noqa: S102
    exec(f"import {path} as m\nthird = m.{name}", scope)  # noqa: S102
    exec(f"from {path}.{name} import {name} as fourth", scope)  # noqa: S102
    found = [scope[place] for place in ("first", "second", "third", "fourth")]
    if not all(each is found[0] and callable(each) for each in found):
        raise AssertionError(f"{path}.{name}: the import forms differ")


def main() -> None:
    tree, client_parent = sys.argv[1:3]
    sys.path[:0] = [tree, client_parent]
    received: list = []
    reply = {"ok": True, "data_from": "text", "raw": {"content": [{"type": "text", "text": "done"}]}}

    def invoke_sync(server_id: str, name: str, arguments: dict) -> dict:
        received.append([server_id, name, arguments])
        return reply

    async def invoke(server_id: str, name: str, arguments: dict) -> dict:
        return invoke_sync(server_id, name, arguments)

    guest, bridge = types.ModuleType("moonpool_guest"), types.ModuleType("moonpool_guest.toolcalls")
    bridge.invoke, bridge.invoke_sync, guest.toolcalls = invoke, invoke_sync, bridge
    sys.modules.update({"moonpool_guest": guest, "moonpool_guest.toolcalls": bridge})
    for case in json.load(sys.stdin):
        check_import_forms(case)
        asyncio.run(call_every_way(case))
    json.dump(received, sys.stdout)


if __name__ == "__main__":
    main()
