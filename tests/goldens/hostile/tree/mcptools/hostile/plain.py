"""Tool "plain" of the server "hostile". Generated; do not edit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from client.mcp_client import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync


class A(StrEnum):
    v_____import_os__os_abort_______ = '"""\nimport os; os.abort()\n"""\\'
    b = "b"
    v_______31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______ = '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "'


class N(Model):
    """\"\"\"
    import os; os.abort()
    \"\"\"\\
    """

    _import_os__os_abort_______: str | None = alias('"""\nimport os; os.abort()\n"""\\', default=None)
    """\"\"\" import os; os.abort() \"\"\"\\"""
    _31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______: Literal['"""\nimport os; os.abort()\n"""\\'] | None = alias('\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "', default=None)


class Params(Model):
    a: A | str = '"""\nimport os; os.abort()\n"""\\'
    """\"\"\" import os; os.abort() \"\"\"\\"""
    b: str = '\u2028\u2029\x00\x85\x1b[31m\u202eevil\ud800\r\n\'\'\'"""\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "'
    """\\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + " (pattern \"\"\"
    import os; os.abort() \"\"\"\\, format \\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" +
    __import__("os").abort() + ")
    """
    n: N | None = None
    """\"\"\" import os; os.abort() \"\"\"\\"""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """\"\"\"
    import os; os.abort()
    \"\"\"\\

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="hostile",
        name="plain",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="hostile",
        name="plain",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
