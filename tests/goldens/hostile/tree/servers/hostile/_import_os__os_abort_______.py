"""Tool '\"\"\" import os; os.abort() \"\"\"\\\\' of the server "hostile". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


ImportOsOsAbortInput = TypedDict("ImportOsOsAbortInput", {
    '"""\nimport os; os.abort()\n"""\\': "str",
    '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "': "NotRequired[str]",
})


WIRE_NAMES = {
    "_import_os__os_abort_______": '"""\nimport os; os.abort()\n"""\\',
    "_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______": '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "',
}


async def _import_os__os_abort_______(
    arguments: ImportOsOsAbortInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """\\x00 \\x1b[31m\\u202eevil\\ud800
    '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "

    Arguments, in one dict or as keywords:
        _import_os__os_abort_______ (str, default '\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\', sent as '\"\"\" import os;
            os.abort() \"\"\"\\\\')
        _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______ (str, optional, sent as
            '\\\\x00 \\\\x1b[31m\\\\u202eevil\\\\ud800 \\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" + __import__("os").abort() +
            "')
    """
    return await call_tool(server_id="hostile", name='"""\nimport os; os.abort()\n"""\\', arguments=pack(arguments, kwargs, WIRE_NAMES))


def _import_os__os_abort________sync(
    arguments: ImportOsOsAbortInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """`_import_os__os_abort_______` without `await`."""
    return call_tool_sync(server_id="hostile", name='"""\nimport os; os.abort()\n"""\\', arguments=pack(arguments, kwargs, WIRE_NAMES))
