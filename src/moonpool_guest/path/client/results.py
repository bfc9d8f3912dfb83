"""What a tool call returns: one object for every way of reading a result (decision 0039).

    rows = await sheets.get_all_rows({"sheetId": "q"})
    rows.ok, rows.data, rows.error, rows.raw      also as keys: rows["ok"]...
    len(rows), rows[0], for row in rows, "x" in rows, rows.get("x"), rows == [...]      read the data
    rows.structuredContent, rows.content, rows.isError, rows.text      read the raw MCP result
    rows.unwrap()      the data itself
    order.customer.name, order.lines[0].price, for row in rows: row.name      dots go on inside (`Members`)

Data wins: a member that an object in the data has is the data's, as `result.content` and as `result["content"]`, also
when it is called `ok`, `error` or `data`; other names are the call's. Always the call's are `unwrap()`, `raw`,
`structuredContent`, `isError`, and Python's `keys`, `items`, `values` and `get`; data of such a name is read by
subscript, so that `dict(result)` is the data.

Of a failed call only `ok`, `error`, `raw`, `isError` and `structuredContent` can be read, and once `ok`, `error` or
`isError` was asked, `content` and `text`: what the server said of the failure. Whatever would look at its data raises
the typed error instead, so that a failure never passes for data; that includes `bool()`.
A result is as true as its data, and data is what the call returned, also when it is `{}`, `[]`, `0` or `None`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .errors import ToolCallError, error_from

T = TypeVar("T")
_OF_THE_CALL = frozenset({"ok", "data", "error", "raw", "content", "structuredContent", "isError", "text"})
_ASKS = frozenset({"ok", "error", "isError"})  # whoever reads one of these knows about a failure
_SHAPE = frozenset({"ok", "data", "raw"})
_MISSING: Any = object()


class Members(dict[str, Any]):
    """An object inside a result: a dict whose members can be read with a dot, too.

    Names of dict's own methods and underscored ones are read by subscript.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in self and not name.startswith("_"):
            return _member(self, name)
        raise AttributeError(f"this object of a tool result has no {name!r}; {_what_it_has(self)}")


class Outcome:
    """What the broker's reply says, whatever the data's members are called."""

    __slots__ = ("_data", "asked", "reply", "tool")

    def __init__(self, reply: dict[str, Any], tool: str) -> None:
        self.reply = reply
        self.tool = tool
        self.asked = False  # whether the call failed
        self._data: Any = _MISSING

    def named(self, name: str) -> Any:
        """One of the call's names, as code reads it. Raises the typed error of a failed call for its data."""
        self.asked = self.asked or name in _ASKS
        if name in {"content", "text"} and not self.asked and (error := self.failure()) is not None:
            raise error
        return getattr(self, name)

    @property
    def ok(self) -> bool:
        return self.reply.get("ok") is True

    @property
    def error(self) -> dict[str, Any] | None:
        if self.ok:
            return None
        return self.reply.get("error") or {"type": "Internal", "message": "no reason given", "retryable": False}

    @property
    def raw(self) -> dict[str, Any] | None:
        return self.reply.get("raw")

    @property
    def content(self) -> list[dict[str, Any]]:
        return _with_members((self.raw or {}).get("content") or [])  # type: ignore[no-any-return]

    @property
    def structuredContent(self) -> Any:  # noqa: N802  MCP spells it so
        return (self.raw or {}).get("structuredContent")

    @property
    def isError(self) -> bool:  # noqa: N802
        return (self.raw or {}).get("isError", not self.ok) is True

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.content if isinstance(block.get("text"), str))

    @property
    def data(self) -> Any:
        """Raises the typed error of a failed call."""
        if self._data is _MISSING:
            if (error := self.failure()) is not None:
                raise error
            self._data = _with_members(self._read_data())
        return self._data

    @property
    def members(self) -> Mapping[str, Any]:
        """Of an object that a successful call returned; else none."""
        data = self.data if self.ok else None
        return data if isinstance(data, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]

    def failure(self) -> ToolCallError | None:
        return None if self.error is None else error_from(self.error, self.tool, self.reply.get("line", 0))

    def _read_data(self) -> Any:
        match self.reply.get("data_from"):
            case "structured":
                return self.structuredContent
            case "json_text":
                return json.loads(self.text)
            case "literal_text":
                return self.reply.get("data")
            case "text":
                return self.text
            case _:
                return self.content


class ToolCallResult(Generic[T]):
    """Outcome of one tool call; see the module's text."""

    __slots__ = ("_outcome",)

    if TYPE_CHECKING:  # the call's, unless the data has a member of that name
        ok: bool
        error: dict[str, Any] | None
        """`{"type", "message", "retryable"}` of a failed call, else None."""
        data: T
        content: list[dict[str, Any]]
        text: str
        """All text blocks, joined by newlines."""

    def __init__(self, reply: dict[str, Any], tool: str = "") -> None:
        self._outcome = Outcome(reply, tool)

    # -- always the call's

    @property
    def raw(self) -> dict[str, Any] | None:
        """The server's own CallToolResult, or None when the call never got so far."""
        return self._outcome.raw

    @property
    def structuredContent(self) -> Any:  # noqa: N802
        return self._outcome.structuredContent

    @property
    def isError(self) -> bool:  # noqa: N802
        return bool(self._outcome.named("isError"))

    def unwrap(self) -> T:
        """The data; raises the typed error of a failed call."""
        return self._outcome.data

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict's `get`, with the call's names behind the data's."""
        try:
            return self[key]
        except (KeyError, IndexError, TypeError):
            return default

    def keys(self) -> Any:
        return _mapping(self._outcome.data).keys()

    def values(self) -> Any:
        return _mapping(self._outcome.data).values()

    def items(self) -> Any:
        return _mapping(self._outcome.data).items()

    # -- the data's, then the call's

    def __getattr__(self, name: str) -> Any:
        """Members of the data, names of the call, methods of text, lists and dicts. Underscored names: none."""
        if name.startswith("_"):  # what protocols ask for
            raise AttributeError(name)
        outcome = self._outcome
        if name in outcome.members:
            return _member(outcome.members, name)
        if name in _OF_THE_CALL:
            return outcome.named(name)
        data = outcome.data
        if isinstance(data, str | list | dict) and hasattr(type(data), name):  # pyright: ignore[reportUnknownArgumentType]
            return getattr(data, name)  # pyright: ignore[reportUnknownArgumentType]
        raise AttributeError(f"neither a tool result nor the data of this one has {name!r}; {_what_it_has(data)}")

    def __getitem__(self, key: Any) -> Any:
        outcome = self._outcome
        is_name = isinstance(key, str) and key in _OF_THE_CALL and (key != "error" or not outcome.ok)
        if is_name and key not in outcome.members:
            return outcome.named(key)
        data = _subscriptable(outcome.data)
        if not isinstance(data, dict):
            if isinstance(key, str):
                raise TypeError(f"there is no {key!r}: {_what_it_has(data)}, which is `.data`")
            return data[key]
        if key not in data:
            raise KeyError(f"{key!r} is not in this result; {_what_it_has(data)}")
        return _member(data, key)

    def __contains__(self, key: object) -> bool:
        outcome = self._outcome
        if not outcome.ok and key in {"ok", "data", "raw", "error"}:
            outcome.asked = True
            return key != "data"
        data = outcome.data
        return (isinstance(data, Mapping) and key in _SHAPE) or key in _subscriptable(data)

    # -- the data's

    def __len__(self) -> int:
        return len(_subscriptable(self._outcome.data))

    def __iter__(self) -> Iterator[Any]:
        return iter(_subscriptable(self._outcome.data))

    def __reversed__(self) -> Iterator[Any]:
        return reversed(_subscriptable(self._outcome.data))

    def __bool__(self) -> bool:
        return bool(self._outcome.data)

    def __eq__(self, other: object) -> bool:
        outcome = self._outcome
        if isinstance(other, ToolCallResult):
            return bool(outcome.reply == other._outcome.reply)
        return False if other is None and not outcome.ok else outcome.data == other

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self._outcome.data) if self._outcome.ok else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self._outcome.data if spec and self._outcome.ok else str(self), spec)

    def __repr__(self) -> str:
        outcome = self._outcome
        shown = f"data={outcome.data!r}" if outcome.ok else f"error={outcome.error!r}"
        return f"ToolCallResult(ok={outcome.ok}, {shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ToolCallResult, (self._outcome.reply, self._outcome.tool)

    def __moonpool_json__(self) -> T:
        """Asked by the kernel when this object is part of a result: the data, or the typed error."""
        return self._outcome.data


def outcome_of(result: ToolCallResult[Any]) -> Outcome:
    """For code that must not take the data's members for the call's."""
    return result._outcome  # pyright: ignore[reportPrivateUsage]  the same module's


def _member(of: Any, key: Any) -> Any:
    """`of[key]`. An object in it is changed for its `Members` where it lies, so that what code writes there stays."""
    value = of[key]
    if _is_object(value):
        of[key] = value = Members(value)
    return _with_members(value)


def _with_members(value: Any) -> Any:
    """An object as `Members`, or the same list with its objects as such; no deeper, for data may be large."""
    if _is_object(value):
        return Members(value)
    if cast("type[Any]", type(value)) is list and value and _is_object(value[0]):
        value[:] = [Members(one) if _is_object(one) else one for one in value]
    return value


def _is_object(value: Any) -> bool:
    return type(value) is dict


def _what_it_has(data: Any) -> str:
    if isinstance(data, Mapping):
        names = ", ".join(str(name) for name in list(data)[:20])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return f"the data has {names or 'no members'}"
    return f"this tool returned {type(data).__name__}"


def _subscriptable(data: Any) -> Any:
    if isinstance(data, str | list | Mapping):
        return data  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"this tool returned {type(data).__name__}; read it with result.data")


def _mapping(data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"this tool returned {type(data).__name__}, not an object with keys; read it with result.data")
