"""What servers ask, at the terminal: forms field by field, addresses to open. A `RequestResponder` of `broker.relay`.

Only where the person at the terminal approves calls too (`--approve ask`), and only for servers whose configuration
says `"elicitation": "relay"`. Sampling is not offered: there is no model here.

SECURITY: all that a server wrote stands inside a frame, made visible, bounded in lines and width (`terminal_approver`);
what stands outside is ours. Nothing is sent before the person has seen all of it and said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moonpool.broker.server_requests import AnswererGoneError
from moonpool.broker.upstreams.forms import with_defaults
from moonpool.cli.form_fields import UnfitError, description, value_of
from moonpool.cli.terminal_approver import hanging, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.cli.terminal import Terminal
    from moonpool.core.json import JsonObject, JsonValue

_ELICIT: Final = "elicitation/create"
_LINES_MAX: Final = 40
_LINE_CHARS_MAX: Final = 2_000  # an address has to be seen whole
_TRIES_MAX: Final = 3
_DECLINE: Final[JsonObject] = {"action": "decline"}
_CANCEL: Final[JsonObject] = {"action": "cancel"}
_BEGIN: Final = "Fill in this form? y = yes, n = no (decline), c = cancel: "
_FIELD: Final = "Field {} of {} (empty = leave out, :n = decline, :c = cancel): "
_SEND: Final = "Send this to the server? y = send, e = edit, n = no (decline), c = cancel: "
_OPEN: Final = "Do you agree, and open this address yourself? y = yes, n = no (decline), c = cancel: "


class _EndedError(Exception):
    """The person wants no more of it."""

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
        """The answer as the protocol wants it. Raises AnswererGoneError."""
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
            sent = with_defaults(form, content).items()  # what was left open goes out as its default
            self._show("your answer", [f"{name}: {value!s}" for name, value in sent] or ["(nothing)"])
            if await self._choose(_SEND, "ye") == "y":
                return {"action": "accept", "content": content}

    async def _field(self, name: str, field: JsonObject, prompt: str, *, needed: bool) -> JsonValue:
        """What was written; None when the field is left out."""
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
        """One of the letters `wanted`. Raises _EndedError for the others."""
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
    """A frame around texts below each other. Pure."""
    lines = [line for text in texts for line in hanging(visible(text, _LINE_CHARS_MAX), width)]
    return f"\n┌─ {title}\n" + "".join(f"│ {line}\n" for line in lines) + "└─\n"


def _lines(params: JsonObject) -> list[str]:
    """The message, whose first line is ours and says who asks."""
    lines = str(params.get("message", "")).split("\n")
    left_out = len(lines) - _LINES_MAX
    return [*lines[:_LINES_MAX], f"({left_out} more lines)"] if left_out > 0 else lines
