"""Tool "plain" of the server "hostile". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


N = TypedDict("N", {
    # """ import os; os.abort() """\
    '"""\nimport os; os.abort()\n"""\\': "NotRequired[str]",
    '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "': 'NotRequired[Literal[\'"""\\nimport os; os.abort()\\n"""\\\\\']]',
})


class PlainInput(TypedDict):
    a: NotRequired[Literal['"""\nimport os; os.abort()\n"""\\', "b", '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "']]
    b: NotRequired[str]
    n: NotRequired[N]


async def plain(arguments: PlainInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """\"\"\"
    import os; os.abort()
    \"\"\"\\

    Arguments, in one dict or as keywords:
        a (Literal['\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\', "b",
            '\\u2028\\u2029\\x00\\x85\\x1b[31m\\u202eevil\\ud800\\r\\n\\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" +
            __import__("os").abort() + "'], optional, default '\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\'): \"\"\"
            import os; os.abort()
            \"\"\"\\
        b (str, optional, default '\\u2028\\u2029\\x00\\x85\\x1b[31m\\u202eevil\\ud800\\r\\n\\'\\'\\'\"\"\"\\\\N{DIGIT
            ONE}\\\\x41{x}%s" + __import__("os").abort() + "', pattern \"\"\" import os; os.abort() \"\"\"\\, format
            \\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "): \\x00
            \\x1b[31m\\u202eevil\\ud800
            '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "
        n (N, optional): \"\"\"
            import os; os.abort()
            \"\"\"\\

    Objects, as dicts (? marks members that may be left out):
        N: {'\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\'?: str,
            '\\u2028\\u2029\\x00\\x85\\x1b[31m\\u202eevil\\ud800\\r\\n\\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" +
            __import__("os").abort() + "'?: Literal['\"\"\"\\nimport os; os.abort()\\n\"\"\"\\\\']}
    """
    return await call_tool(server_id="hostile", name="plain", arguments=pack(arguments, kwargs))


def plain_sync(arguments: PlainInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`plain` without `await`."""
    return call_tool_sync(server_id="hostile", name="plain", arguments=pack(arguments, kwargs))
