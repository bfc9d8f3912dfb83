"""Tool '\"\"\" import os; os.abort() \"\"\"\\\\' of the server "hostile". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync


class Params(Model):
    _import_os__os_abort_______: str = alias('"""\nimport os; os.abort()\n"""\\')
    _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______: str | None = alias('\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "', default=None)


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """\\x00 \\x1b[31m\\u202eevil\\ud800
    '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="hostile",
        name='"""\nimport os; os.abort()\n"""\\',
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="hostile",
        name='"""\nimport os; os.abort()\n"""\\',
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
