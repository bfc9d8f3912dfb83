"""What a tool call returns: one object for every way of reading a result (X-03).

    rows = await sheets.get_all_rows({"sheetId": "q"})
    rows.ok, rows.data, rows.error, rows.raw      also as keys: rows["ok"]...
    len(rows), rows[0], for row in rows, "x" in rows, rows.get("x"), rows == [...]      read the data
    rows.structuredContent, rows.content, rows.isError, rows.text      read the raw MCP result
    rows.unwrap()      the data itself

Of a failed call only `ok`, `error`, `raw`, `isError`, `content`, `structuredContent` and `text` can be read. Whatever
would look at its data raises the typed error instead, so that a failure never passes for data; that includes `bool()`.
A result is as true as its data, and data is what the call returned, also when it is `{}`, `[]`, `0` or `None`.

For data that has a key `ok`, `data` or `raw` of its own, `result["ok"]` is still the call's; use `result.data["ok"]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from .errors import error_from

T = TypeVar("T")
_OWN_KEYS = ("ok", "data", "raw", "error")
_MISSING: Any = object()


class ToolCallResult(Generic[T]):
    """Outcome of one tool call; see the module's text."""

    __slots__ = ("_data", "_reply", "_tool")

    def __init__(self, reply: dict[str, Any], tool: str = "") -> None:
        self._reply = reply
        self._tool = tool
        self._data: Any = _MISSING

    # -- what can always be read

    @property
    def ok(self) -> bool:
        return self._reply.get("ok") is True

    @property
    def error(self) -> dict[str, Any] | None:
        """`{"type", "message", "retryable"}` of a failed call, else None."""
        if self.ok:
            return None
        return self._reply.get("error") or {"type": "Internal", "message": "no reason given", "retryable": False}

    @property
    def raw(self) -> dict[str, Any] | None:
        """The server's own CallToolResult, or None when the call never got so far."""
        return self._reply.get("raw")

    @property
    def content(self) -> list[dict[str, Any]]:
        return (self.raw or {}).get("content") or []

    @property
    def structuredContent(self) -> Any:  # noqa: N802  MCP spells it so
        return (self.raw or {}).get("structuredContent")

    @property
    def isError(self) -> bool:  # noqa: N802
        return (self.raw or {}).get("isError", not self.ok) is True

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block["text"] for block in self.content if isinstance(block.get("text"), str))

    # -- the data

    @property
    def data(self) -> T:
        if self._data is _MISSING:
            self._data = self._read_data()
        return self._data

    def unwrap(self) -> T:
        """The data; raises the typed error of a failed call."""
        return self.data

    def _read_data(self) -> Any:
        if (error := self.error) is not None:
            raise error_from(error, self._tool)
        match self._reply.get("data_from"):
            case "structured":
                return self.structuredContent
            case "json_text":
                return json.loads(self.text)
            case "text":
                return self.text
            case _:
                return self.content

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in _OWN_KEYS and (key != "error" or not self.ok):
            return getattr(self, key)
        return _subscriptable(self.data)[key]

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict's `get`: the call's own keys first, then the data's."""
        try:
            return self[key]
        except (KeyError, IndexError, TypeError):
            return default

    def keys(self) -> Any:
        return _mapping(self.data).keys()

    def values(self) -> Any:
        return _mapping(self.data).values()

    def items(self) -> Any:
        return _mapping(self.data).items()

    def __len__(self) -> int:
        return len(_subscriptable(self.data))

    def __iter__(self) -> Iterator[Any]:
        return iter(_subscriptable(self.data))

    def __reversed__(self) -> Iterator[Any]:
        return reversed(_subscriptable(self.data))

    def __contains__(self, key: object) -> bool:
        if not self.ok and key in _OWN_KEYS:
            return key != "data"
        data: Any = self.data
        if isinstance(data, Mapping) and key in {"ok", "data", "raw"}:
            return True
        return key in _subscriptable(data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ToolCallResult):
            return bool(self._reply == other._reply)
        return False if other is None and not self.ok else self.data == other

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.data) if self.ok else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.data if spec and self.ok else str(self), spec)

    def __repr__(self) -> str:
        shown = f"data={self.data!r}" if self.ok else f"error={self.error!r}"
        return f"ToolCallResult(ok={self.ok}, {shown})"

    def __getattr__(self, name: str) -> Any:
        """Methods of text, lists and dicts: `result.splitlines()`. Protocols ask for underscored names: none."""
        if name.startswith("_"):
            raise AttributeError(name)
        data: Any = self.data
        if isinstance(data, str | list | dict) and hasattr(type(data), name):  # pyright: ignore[reportUnknownArgumentType]
            return getattr(data, name)  # pyright: ignore[reportUnknownArgumentType]
        hint = f"; use result[{name!r}]" if isinstance(data, Mapping) and name in data else ""
        raise AttributeError(f"a tool result has no attribute {name!r}{hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return ToolCallResult, (self._reply, self._tool)

    def __moonpool_json__(self) -> T:
        """Asked by the kernel when this object is part of a result: the data, or the typed error."""
        return self.data


def _subscriptable(data: Any) -> Any:
    if isinstance(data, str | list | Mapping):
        return data  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"this tool returned {type(data).__name__}; read it with result.data")


def _mapping(data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"this tool returned {type(data).__name__}, not an object with keys; read it with result.data")
