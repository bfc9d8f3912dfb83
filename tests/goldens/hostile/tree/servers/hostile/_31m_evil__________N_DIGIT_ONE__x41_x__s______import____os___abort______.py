"""Tool '\\\\x00 \\\\x1b[31m\\\\u202eevil\\\\ud800 \\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" + __import__("os").abort() + "' of the server "hostile". Generated; do not edit.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


_31mEvilNDIGITONEX41XSImportOsAbortResult = TypedDict("_31mEvilNDIGITONEX41XSImportOsAbortResult", {
    # \x00 \x1b[31m\u202eevil\ud800 '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + "
    '"""\nimport os; os.abort()\n"""\\': "NotRequired[str]",
    '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "': "NotRequired[str]",
})


class _31mEvilNDIGITONEX41XSImportOsAbortInput(TypedDict):
    x: NotRequired[str]
    y: NotRequired[Any]


async def _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______(
    arguments: _31mEvilNDIGITONEX41XSImportOsAbortInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[_31mEvilNDIGITONEX41XSImportOsAbortResult]:
    """ends with a quote"

    Arguments, in one dict or as keywords:
        x (str, optional): \"\"\""
        y (Any, optional): \\

    Returns _31mEvilNDIGITONEX41XSImportOsAbortResult

    Objects, as dicts (? marks members that may be left out):
        _31mEvilNDIGITONEX41XSImportOsAbortResult: {'\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\'?: str,
            '\\u2028\\u2029\\x00\\x85\\x1b[31m\\u202eevil\\ud800\\r\\n\\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" +
            __import__("os").abort() + "'?: str}
    """
    return await call_tool(server_id="hostile", name='\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "', arguments=pack(arguments, kwargs))


def _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort_______sync(
    arguments: _31mEvilNDIGITONEX41XSImportOsAbortInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[_31mEvilNDIGITONEX41XSImportOsAbortResult]:
    """`_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______` without `await`."""
    return call_tool_sync(server_id="hostile", name='\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "', arguments=pack(arguments, kwargs))
