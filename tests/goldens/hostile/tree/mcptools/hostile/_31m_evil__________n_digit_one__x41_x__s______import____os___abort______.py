"""Tool '\\\\x00 \\\\x1b[31m\\\\u202eevil\\\\ud800 \\'\\'\\'\"\"\"\\\\N{DIGIT ONE}\\\\x41{x}%s" + __import__("os").abort() + "' of the server "hostile". Generated; do not edit.
"""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync


class Result(Model):
    _import_os__os_abort_______: str | None = alias('"""\nimport os; os.abort()\n"""\\', default=None)
    """\\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "
    """
    _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______: str | None = alias('\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "', default=None)


class Params(Model):
    x: str | None = None
    """\"\"\""
    """
    y: Any = None
    """\\"""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """ends with a quote"

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="hostile",
        name='\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "',
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="hostile",
        name='\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "',
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
