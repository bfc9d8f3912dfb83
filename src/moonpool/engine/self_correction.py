"""Code that is written, run, and written again from what went wrong: a loop with a hard cap.

The caller brings two functions: `generate` writes code, given what went wrong before, and `run` runs it. A cause that
passes (`Timeout`, `RateLimit`, `TransientNetwork`) runs the same code again, but only where the error says so and no
call of the run may have changed anything, because all of them would be repeated; every other error goes back to
`generate` word for word. After the last run, or where another try cannot help or must not be made, the outcome says
`handoff_required`: a person takes over.

INVARIANT: at most `MAX_RETRIES` runs, whoever asks for more (H-063).
SECURITY: a person's refusal ends the loop. Writing other code around a "no" is not correcting oneself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import CallErrorType
from moonpool.core.errors import InputError
from moonpool.core.phrases import clip
from moonpool.pipeline.failures import PASSING_CAUSES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.envelope import Envelope

MAX_RETRIES: Final = 3
"""Runs in all, the first one included."""

HANDED_OFF_AT_ONCE: Final = frozenset(
    {CallErrorType.APPROVAL_REJECTED, CallErrorType.APPROVAL_EXPIRED, "Cancelled", "LanguageUnavailable", "Internal"}
)
"""Errors that a person has to do something about; no other code does."""

_MESSAGE_CHARS_MAX: Final = 4000
_FIRST_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What `generate` learns of the run before: the code and how it failed."""

    attempt: int  # which run it was, from 1
    code: str
    type: str
    message: str
    retryable: bool

    @property
    def prompt(self) -> str:
        """The same in words, to be put before a model. The message names valid parameters, near names, an example."""
        return f"Attempt {self.attempt} of {MAX_RETRIES} failed with {self.type}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What the loop came to. `envelope` is the last run's."""

    envelope: Envelope
    mistakes: tuple[Mistake, ...]
    handoff_required: bool

    @property
    def runs(self) -> int:
        return len(self.mistakes) + int(self.envelope.ok)


async def self_correct(
    generate: Callable[[Mistake | None], Awaitable[str]],
    run: Callable[[str], Awaitable[Envelope]],
    *,
    runs_max: int = MAX_RETRIES,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Correction:
    """Run what `generate` writes until it succeeds or a person must take over.

    `runs_max` may lower the cap, never raise it. `pause` waits before the same code is run again, longer each time.
    What `generate` and `run` raise leaves as it is. Raises InputError for a cap out of range.
    """
    if not 1 <= runs_max <= MAX_RETRIES:
        raise InputError(f"runs_max must be from 1 to {MAX_RETRIES}, but is {runs_max}")
    mistakes: list[Mistake] = []
    code = await generate(None)
    while True:
        envelope = await run(code)
        if envelope.error is None:
            return Correction(envelope=envelope, mistakes=tuple(mistakes), handoff_required=False)
        error = envelope.error
        mistake = Mistake(
            attempt=len(mistakes) + 1,
            code=code,
            type=error.type,
            message=clip(error.message, _MESSAGE_CHARS_MAX),
            retryable=error.retryable,
        )
        mistakes.append(mistake)
        if len(mistakes) >= runs_max or error.type in HANDED_OFF_AT_ONCE:
            return Correction(envelope=envelope, mistakes=tuple(mistakes), handoff_required=True)
        if error.retryable and error.type in PASSING_CAUSES and not envelope.metrics.get("changing_calls"):
            await pause(_FIRST_PAUSE_S * 2 ** (len(mistakes) - 1))
        else:
            code = await generate(mistake)
