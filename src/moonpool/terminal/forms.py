"""Servers' questions at the terminal: forms field by field, addresses to open. A `RequestResponder` of
`pipeline.server_requests`.

Only where the person at the terminal approves calls too (`--approve ask`), and only for servers whose configuration
says `"elicitation": "relay"`. Sampling is not offered: there is no model here.

SECURITY: all text of a server is inside a frame, made visible, bounded in lines and width (`terminal_approver`); text
outside the frame is ours. Nothing is sent before the person has seen and confirmed all of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.terminal.approver import hanging, visible
from moonpool.upstreams.forms import content_problem, with_defaults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.terminal.device import Terminal

_ELICIT: Final = "elicitation/create"
_LINES_MAX: Final = 40
_LINE_CHARS_MAX: Final = 2_000  # an address must be shown completely
_TRIES_MAX: Final = 3
_DECLINE: Final[JsonObject] = {"action": "decline"}
_CANCEL: Final[JsonObject] = {"action": "cancel"}
_BEGIN: Final = "Fill in this form? y = yes, n = no (decline), c = cancel: "
_FIELD: Final = "Field {} of {} (empty = leave out, :n = decline, :c = cancel): "
_SEND: Final = "Send this to the server? y = send, e = edit, n = no (decline), c = cancel: "
_OPEN: Final = "Do you agree, and open this address yourself? y = yes, n = no (decline), c = cancel: "


class _EndedError(Exception):
    """The person ended the form."""

    def __init__(self, answer: JsonObject) -> None:
        super().__init__()
        self.answer = answer


class TerminalForms:
    """The person at a terminal."""

    def __init__(self, terminal: Terminal, *, name: str) -> None:
        self._terminal, self.name = terminal, name

    def can(self, method: str, mode: str = "") -> bool:
        return method == _ELICIT and mode in {"form", "url"}

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """The answer in the protocol's form. Raises AnswererGoneError."""
        assert method == _ELICIT
        async with self._terminal.question():
            try:
                if params.get("mode") == "url":
                    return await self._address(params)
                return await self._form(params)
            except _EndedError as ended:
                return ended.answer
            except OSError as error:
                raise AnswererGoneError(f"the terminal failed ({error.strerror})") from None

    async def _address(self, params: JsonObject) -> JsonObject:
        self._show("address", [*_lines(params), str(params.get("url"))])
        await self._choose(_OPEN, "y")
        return {"action": "accept"}

    async def _form(self, params: JsonObject) -> JsonObject:
        form: Any = params["requestedSchema"]
        fields: dict[str, JsonObject] = form["properties"]
        required = set(form.get("required", []))
        self._show("form", _lines(params))
        await self._choose(_BEGIN, "y")
        while True:
            content: JsonObject = {}
            for number, (name, field) in enumerate(fields.items(), 1):
                self._show("field", description(name, field, required=name in required))
                value = await self._field(name, field, _FIELD.format(number, len(fields)), needed=name in required)
                if value is not None:
                    content[name] = value
            sent = with_defaults(form, content).items()  # empty fields are sent with their defaults
            self._show("your answer", [f"{name}: {value!s}" for name, value in sent] or ["(nothing)"])
            if await self._choose(_SEND, "ye") == "y":
                return {"action": "accept", "content": content}

    async def _field(self, name: str, field: JsonObject, prompt: str, *, needed: bool) -> JsonValue:
        """The value entered; None if the field was left empty."""
        for _ in range(_TRIES_MAX):
            typed = await self._line(prompt)
            if typed in {":n", ":c"}:
                raise _EndedError(_DECLINE if typed == ":n" else _CANCEL)
            if not typed and (not needed or "default" in field):
                return None
            try:
                if typed:
                    return value_of(name, field, typed.removeprefix(":") if typed.startswith("::") else typed)
                self._terminal.write("This field is required.\n")
            except UnfitError as unfit:
                self._terminal.write(f"Not taken: {unfit}.\n")
        self._terminal.write("No answer that fits: the form is cancelled.\n")
        raise _EndedError(_CANCEL)

    async def _choose(self, prompt: str, wanted: str) -> str:
        """Ask for one of the letters `wanted`. Raises _EndedError for any other."""
        for _ in range(_TRIES_MAX):
            typed = (await self._line(prompt)).lower()[:3]
            letter = {"yes": "y", "no": "n"}.get(typed, typed)
            if len(letter) == 1 and letter in wanted:
                return letter
            if letter == "n":
                raise _EndedError(_DECLINE)
            if letter == "c":
                break
        raise _EndedError(_CANCEL)

    async def _line(self, prompt: str) -> str:
        self._terminal.write(prompt)
        typed = await self._terminal.read_line()
        if typed is None:
            raise _EndedError(_CANCEL)
        return typed

    def _show(self, title: str, texts: Iterable[str]) -> None:
        self._terminal.write(framed_texts(title, texts, self._terminal.width()))


def framed_texts(title: str, texts: Iterable[str], width: int) -> str:
    """A frame around several entries. Pure."""
    lines = [line for text in texts for line in hanging(visible(text, _LINE_CHARS_MAX), width)]
    return f"\n┌─ {title}\n" + "".join(f"│ {line}\n" for line in lines) + "└─\n"


def _lines(params: JsonObject) -> list[str]:
    """The message; its first line is ours and names the server."""
    lines = str(params.get("message", "")).split("\n")
    left_out = len(lines) - _LINES_MAX
    return [*lines[:_LINES_MAX], f"({left_out} more lines)"] if left_out > 0 else lines


# Fields: their description, and parsing of a typed line. Pure.

_DIGITS_MAX: Final = 18  # of a number: accepted by every JSON reader
_LISTED_MAX: Final = 60
_BOOLEANS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_KINDS: Final = {"string": "text", "number": "a number", "integer": "a whole number", "boolean": "y or n"}
_LIMITS: Final = {
    "minLength": "at least {} characters", "maxLength": "at most {} characters", "minimum": "at least {}",
    "maximum": "at most {}", "format": "{}", "pattern": "like {}", "minItems": "at least {}", "maxItems": "at most {}",
}  # fmt: skip


class UnfitError(Exception):
    """The input is no valid value for the field; the message says what is."""


def choices(field: JsonObject) -> list[tuple[JsonValue, str]]:
    """The choices: values with their titles."""
    items = field.get("items")
    source: JsonObject = items if isinstance(items, dict) else field
    listed, names = source.get("enum"), source.get("enumNames")
    if isinstance(listed, list):
        named = names if isinstance(names, list) and len(names) == len(listed) else listed
        return [(value, str(name)) for value, name in zip(listed, named, strict=True)]
    titled = source.get("oneOf", source.get("anyOf"))
    named_values = titled if isinstance(titled, list) else []
    return [
        (one["const"], str(one.get("title", one["const"])))
        for one in named_values
        if isinstance(one, dict) and "const" in one
    ]


def description(name: str, field: JsonObject, *, required: bool) -> list[str]:
    """Lines that describe a field; the caller makes them visible."""
    offered = choices(field)
    several = field.get("type") == "array"
    kind = ("some of these" if several else "one of these") if offered else _KINDS.get(str(field.get("type")), "text")
    limits = [said.format(field[key]) for key, said in _LIMITS.items() if key in field]
    parts = [kind, *limits, "required" if required else "may be left out"]
    if "default" in field:
        parts.append(f"default {field['default']!s}")
    titles = [str(field[key]) for key in ("title", "description") if isinstance(field.get(key), str)]
    listed = [f"{number}) {called}" for number, (_, called) in enumerate(offered[:_LISTED_MAX], 1)]
    if len(offered) > _LISTED_MAX:
        listed.append(f"(and {len(offered) - _LISTED_MAX} more)")
    return [f"{name}: {', '.join(parts)}", *titles, *listed]


def value_of(name: str, field: JsonObject, typed: str) -> JsonValue:
    """Parse the typed value. Raises UnfitError."""
    value = _read(field, typed)
    alone: JsonObject = {"type": "object", "properties": {name: field}}
    if content_problem(alone, {name: value}):
        raise UnfitError("that is not a valid value of the field")
    return value


def _read(field: JsonObject, typed: str) -> JsonValue:
    offered, kind = choices(field), field.get("type")
    if offered and kind == "array":
        return [_chosen(offered, part.strip()) for part in typed.split(",") if part.strip()]
    if offered:
        return _chosen(offered, typed)
    if kind == "boolean":
        if typed.lower() not in _BOOLEANS:
            raise UnfitError("write y or n")
        return _BOOLEANS[typed.lower()]
    if kind not in {"integer", "number"}:
        return typed
    try:
        if len(typed) > _DIGITS_MAX:
            raise ValueError
        number = int(typed) if kind == "integer" else float(typed)
        if not math.isfinite(number):
            raise ValueError
    except ValueError:
        raise UnfitError(f"write {_KINDS[kind]}") from None
    return number


def _chosen(offered: list[tuple[JsonValue, str]], typed: str) -> JsonValue:
    if typed.isascii() and typed.isdecimal() and len(typed) <= 4 and 1 <= int(typed) <= len(offered):
        return offered[int(typed) - 1][0]
    raise UnfitError(f"write a number from 1 to {len(offered)}")
