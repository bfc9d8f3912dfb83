"""What a client carries between two requests for one call, sealed so that only this process can have made it.

SECURITY: a keyed digest (HMAC-SHA256, a key per process and owner) over everything in it; compared in constant time
before anything of it is read. There is one error, so that it tells nothing about what was wrong.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_CHARS_MAX: Final = 4096


class RequestStateError(MoonpoolError):
    """A request came back with a state, or with answers, that fit no call which waits here. Nothing was done."""

    code = "request_state_refused"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__(
            "this requestState fits no call that waits here: it is unknown, changed, expired, of another client or of "
            "other arguments, or its questions were answered otherwise; call the tool again without it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """Which call, of which request, and the questions that were given out with it."""

    call_id: str
    key: str
    questions: tuple[str, ...]


class StateSeal:
    """Seals and opens the states of one owner."""

    def __init__(self, owner: str, *, valid_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._owner, self._valid_s, self._clock = owner, valid_s, clock

    def sealed(self, state: RequestState) -> str:
        body = json.dumps(
            [state.call_id, state.key, list(state.questions), self._clock() + self._valid_s], separators=(",", ":")
        ).encode()
        return f"{_text(body)}.{_text(self._mac(body))}"

    def opened(self, sealed: str) -> RequestState:
        """Raises RequestStateError."""
        head, _, tail = sealed.partition(".")
        if len(sealed) > STATE_CHARS_MAX or not sealed.isascii():
            raise RequestStateError
        try:
            body, mac = base64.urlsafe_b64decode(head), base64.urlsafe_b64decode(tail)
        except ValueError:
            raise RequestStateError from None
        # Base64 has many spellings of the same bytes; only what was given out comes back (SEP-2322).
        if (_text(body), _text(mac)) != (head, tail) or not hmac.compare_digest(mac, self._mac(body)):
            raise RequestStateError
        call_id, key, questions, valid_until = json.loads(body)  # ours: the seal says so
        if self._clock() > valid_until:
            raise RequestStateError
        return RequestState(call_id=call_id, key=key, questions=tuple(questions))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, self._owner.encode() + b"\0" + body, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
