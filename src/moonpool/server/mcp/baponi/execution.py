"""`sandbox_execute`: what a client sends becomes an order, and how it ended becomes text. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from moonpool.core.errors import InputError
from moonpool.engine.sandbox_runs.base import SandboxOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.sandbox_runs.base import RunResult

CODE_BYTES_MAX: Final = 1024**2
"""Of UTF-8, after JSON was decoded (X-13)."""
_BACKTICKS: Final = re.compile("`+")
_FENCE_CHARS: Final = 3


def order_of(arguments: Mapping[str, JsonValue]) -> SandboxOrder:
    """The order in arguments that fit the schema. Raises InputError; what else is wrong `SandboxRuns.begin` says."""
    code = cast("str", arguments["code"])
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise InputError("code must be text in UTF-8") from None
    if not 1 <= size <= CODE_BYTES_MAX:
        raise InputError("code must be between 1 byte and 1 MB")
    timeout = cast("float | None", arguments.get("timeout"))
    return SandboxOrder(
        code=code,
        language=cast("str | None", arguments.get("language")),
        timeout_s=None if timeout is None else int(timeout),
        thread_id=cast("str | None", arguments.get("thread_id")),
        metadata=cast("JsonObject", arguments.get("metadata", {})),
        variables=cast("dict[str, str]", arguments.get("env_vars", {})),
    )


def result_text(result: RunResult) -> str:
    """What a model reads. Empty parts are left out."""
    parts = ["## Execution Result"]
    parts += [f"**{name}:**\n{fenced(text)}" for name, text in _streams(result) if text]
    parts.append(f"**Exit code:** {result.exit_code}")
    if result.error:
        parts.append(f"**Error:** {result.error}")
    if result.output_truncated:
        parts.append("**Output truncated:** not all that the code printed is shown")
    if result.remark:
        parts.append(f"**Files:** {result.remark}")
    return "\n\n".join(parts)


def fenced(text: str) -> str:
    """`text` as a block of Markdown that nothing in it can end."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(_FENCE_CHARS, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"


def _streams(result: RunResult) -> tuple[tuple[str, str], ...]:
    return ("stdout", result.stdout), ("stderr", result.stderr)
