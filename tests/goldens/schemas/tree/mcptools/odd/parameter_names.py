"""Tool "parameter_names" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync


class Params(Model):
    from__75857a: str = alias("from")
    a_b_d44362: str = alias("a-b")
    schema: str | None = None
    self: str
    model_dump_: str | None = alias("model_dump", default=None)
    copy: str | None = None
    params: str | None = None
    arguments: str | None = None
    kwargs: str | None = None
    class_: str | None = alias("class", default=None)
    None_: str | None = alias("None", default=None)
    _wire_: str | None = alias("_wire", default=None)
    _init__: str | None = alias("__init__", default=None)
    _x: str | None = alias("__x", default=None)
    _x__: str | None = alias("__x__", default=None)
    alias_: str | None = alias("alias", default=None)
    str: str | None = None
    list: str | None = None
    dict: str | None = None
    a_b: str | None = None
    from_: str | None = None
    cls: str | None = None
    _2nd: str | None = alias("2nd", default=None)
    _e3b0c4: str | None = alias("", default=None)
    _filter: str | None = alias("$filter", default=None)
    na_ve: str | None = alias("naïve", default=None)
    x_y: str | None = alias("x.y", default=None)
    import_: str | None = alias("import", default=None)
    run: str | None = None
    Params: str | None = None
    Any: str | None = None
    json: str | None = None
    _fill_: str | None = alias("_fill", default=None)
    wire: str | None = None
    mro: str | None = None
    type: str | None = None
    model_fields_set_: str | None = alias("model_fields_set", default=None)
    items: str | None = None
    keys: str | None = None
    name: str | None = None
    value: str | None = None


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The parameter_names case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="parameter_names",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="parameter_names",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
