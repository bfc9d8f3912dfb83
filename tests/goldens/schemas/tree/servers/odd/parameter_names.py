"""Tool "parameter_names" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


ParameterNamesInput = TypedDict("ParameterNamesInput", {
    "from": "str",
    "a-b": "str",
    "schema": "NotRequired[str]",
    "self": "str",
    "model_dump": "NotRequired[str]",
    "copy": "NotRequired[str]",
    "params": "NotRequired[str]",
    "arguments": "NotRequired[str]",
    "kwargs": "NotRequired[str]",
    "class": "NotRequired[str]",
    "None": "NotRequired[str]",
    "_wire": "NotRequired[str]",
    "__init__": "NotRequired[str]",
    "__x": "NotRequired[str]",
    "__x__": "NotRequired[str]",
    "alias": "NotRequired[str]",
    "str": "NotRequired[str]",
    "list": "NotRequired[str]",
    "dict": "NotRequired[str]",
    "a_b": "NotRequired[str]",
    "from_": "NotRequired[str]",
    "cls": "NotRequired[str]",
    "2nd": "NotRequired[str]",
    # one more has no name, which a TypedDict cannot say
    "$filter": "NotRequired[str]",
    "naïve": "NotRequired[str]",
    "x.y": "NotRequired[str]",
    "import": "NotRequired[str]",
    "run": "NotRequired[str]",
    "Params": "NotRequired[str]",
    "Any": "NotRequired[str]",
    "json": "NotRequired[str]",
    "_fill": "NotRequired[str]",
    "wire": "NotRequired[str]",
    "mro": "NotRequired[str]",
    "type": "NotRequired[str]",
    "model_fields_set": "NotRequired[str]",
    "items": "NotRequired[str]",
    "keys": "NotRequired[str]",
    "name": "NotRequired[str]",
    "value": "NotRequired[str]",
})


WIRE_NAMES = {
    "from__75857a": "from",
    "a_b_d44362": "a-b",
    "model_dump_": "model_dump",
    "class_": "class",
    "None_": "None",
    "_wire_": "_wire",
    "_init__": "__init__",
    "_x": "__x",
    "_x__": "__x__",
    "alias_": "alias",
    "_2nd": "2nd",
    "_e3b0c4": "",
    "_filter": "$filter",
    "na_ve": "naïve",
    "x_y": "x.y",
    "import_": "import",
    "_fill_": "_fill",
    "model_fields_set_": "model_fields_set",
}


async def parameter_names(
    arguments: ParameterNamesInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """The parameter_names case.

    Arguments, in one dict or as keywords:
        from__75857a (str, sent as "from")
        a_b_d44362 (str, sent as "a-b")
        schema (str, optional)
        self (str)
        model_dump_ (str, optional, sent as "model_dump")
        copy (str, optional)
        params (str, optional)
        arguments (str, optional)
        kwargs (str, optional)
        class_ (str, optional, sent as "class")
        None_ (str, optional, sent as "None")
        _wire_ (str, optional, sent as "_wire")
        _init__ (str, optional, sent as "__init__")
        _x (str, optional, sent as "__x")
        _x__ (str, optional, sent as "__x__")
        alias_ (str, optional, sent as "alias")
        str (str, optional)
        list (str, optional)
        dict (str, optional)
        a_b (str, optional)
        from_ (str, optional)
        cls (str, optional)
        _2nd (str, optional, sent as "2nd")
        _e3b0c4 (str, optional, sent as "")
        _filter (str, optional, sent as "$filter")
        na_ve (str, optional, sent as "naïve")
        x_y (str, optional, sent as "x.y")
        import_ (str, optional, sent as "import")
        run (str, optional)
        Params (str, optional)
        Any (str, optional)
        json (str, optional)
        _fill_ (str, optional, sent as "_fill")
        wire (str, optional)
        mro (str, optional)
        type (str, optional)
        model_fields_set_ (str, optional, sent as "model_fields_set")
        items (str, optional)
        keys (str, optional)
        name (str, optional)
        value (str, optional)
    """
    return await call_tool(server_id="odd", name="parameter_names", arguments=pack(arguments, kwargs, WIRE_NAMES))


def parameter_names_sync(arguments: ParameterNamesInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`parameter_names` without `await`."""
    return call_tool_sync(server_id="odd", name="parameter_names", arguments=pack(arguments, kwargs, WIRE_NAMES))
