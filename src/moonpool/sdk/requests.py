"""What a session was asked to run, as the engine takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON, is_typescript, language_of
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.server_request_events import QuestionKind
from moonpool.sdk.argument_types import must_be

if TYPE_CHECKING:
    from collections.abc import Collection


def code_request(code: str, *, timeout: float | None, language: str = PYTHON) -> CodeRequest:
    """Raises InputError for what cannot be run."""
    given = cast("object", code)
    if not isinstance(given, str):
        raise InputError(f"the code is {type(given).__name__}; give it as a string")
    if not isinstance(cast("object", timeout), int | float | None) or isinstance(timeout, bool):
        raise InputError(f"the timeout must be seconds, a number or None, not {timeout!r}")
    must_be(language, str, "the language", "a string")
    return CodeRequest(
        code=given,  # pyright: ignore[reportArgumentType]  it takes a string
        timeout_s=timeout,
        language=language_of(language),
        typescript=is_typescript(language),
    )


def checked_kinds(kinds: Collection[QuestionKind]) -> Collection[QuestionKind]:
    """The kinds of server questions that a stream takes. Raises InputError."""
    given = cast("object", kinds)
    unknown = [given] if isinstance(given, str) else [kind for kind in kinds if kind not in get_args(QuestionKind)]
    if unknown:
        raise InputError(f"questions must be a collection of {', '.join(get_args(QuestionKind))}, not {unknown[0]!r}")
    return kinds
