"""What a caller asks to run, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, TypeAlias, cast

from moonpool.core.errors import InputError
from moonpool.core.json import JsonValue
from moonpool.core.languages import LANGUAGES, PYTHON, language_of
from moonpool.core.variables import check_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.core.calls import CallEnded, CallProgress, CallStarted
    from moonpool.features.usage.context_usage import ContextUsage
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.sandboxes.base import Stream
    from moonpool.settings import Settings

    Observer: TypeAlias = Callable[[Stream, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRequest:
    """What a caller asks to run. Raises InputError for code that is a text without a form in UTF-8, or no text."""

    code: bytes  # a text is taken, too, and kept as its UTF-8
    timeout_s: float | None = None
    name: str = "<code>"  # what tracebacks call it; made printable, and cut to its last `NAME_CHARS_MAX` characters
    language: str = PYTHON  # one of `core.languages.LANGUAGES`
    ipython: bool = False  # Python code is read as IPython reads it: magics, `!command`, rich displays
    typescript: bool = False  # it is said to be Node's TypeScript, which may need tools first
    observer: Observer | None = None  # hears redacted output as it comes
    progress: Callable[[CallProgress], None] | None = None  # hears how calls get on, where their servers say so
    calls: Callable[[CallStarted | CallEnded], None] | None = None  # hears of each call that enters the pipeline
    run_id: str = ""  # that it gets, used for no other execution; empty: a new one
    begun: Callable[[str], None] | None = None  # hears the run id, before anybody is asked and anything is called
    started: Callable[[], None] | None = None  # is called when its sandbox is there and the code is sent
    execution_id: str = ""  # `trc_…`: by which its caller knows it, put on record
    metadata: str = ""  # likewise: JSON of what its caller attached to it, checked and redacted
    responder: RequestResponder | None = None  # whom servers may ask meanwhile, instead of the caller grant's
    replay_of: str = ""  # an execution that this one replays
    nondeterminism_log: bytes | None = None  # to be played
    dry_run: bool = False  # calls that may change something are not made, but listed in a plan
    placeholders: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])  # `server.tool` glob -> answer
    plan: str | None = None  # the id of the approved plan to run under
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # of its environment, besides
    connection: ContextUsage | None = None  # of the model that asks; None: no model was shown anything of the tools

    def __post_init__(self) -> None:
        code = cast("object", self.code)
        try:
            given = code.encode() if isinstance(code, str) else code
        except UnicodeEncodeError:
            raise InputError("the code holds half a surrogate pair, which UTF-8 cannot carry; remove it") from None
        if not isinstance(given, bytes):
            raise InputError(f"the code is {type(code).__name__}; give it as text or bytes")
        object.__setattr__(self, "code", given)


def new_run_id() -> str:
    """The id of one execution, which cannot be guessed."""
    return f"run_{token_hex(16)}"


def check_request(request: CodeRequest, settings: Settings, *, has_network: bool, has_folders: bool) -> None:
    """Raises InputError for what cannot be run, in a sandbox with a network or folders of the host or without."""
    if len(request.code) > settings.code_bytes_max:
        raise InputError(
            f"the code is {len(request.code):,} bytes, but at most {settings.code_bytes_max:,} are accepted; "
            "move data into files or fetch it through a tool"
        )
    try:
        text = request.code.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the code is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text.strip():
        raise InputError("there is no code to run: `code` is empty")
    if "\0" in text:
        raise InputError("the code holds a NUL character, which no language here accepts; remove it")
    if request.language not in LANGUAGES:
        language_of(request.language)
        raise InputError(f"{request.language!r} must be given as one of {', '.join(LANGUAGES)}")
    if request.dry_run or request.plan is not None:
        _check_planned(request, has_network=has_network, has_folders=has_folders)
    if request.placeholders and not request.dry_run:
        raise InputError("placeholders answer the calls of a dry run; ask for one")
    check_variables(request.variables)
    if request.timeout_s is not None and not 0 < request.timeout_s <= settings.timeout_s_max:
        raise InputError(f"the timeout must be above 0 and at most {settings.timeout_s_max:g} s")


def _check_planned(request: CodeRequest, *, has_network: bool, has_folders: bool) -> None:
    if request.dry_run and request.plan is not None:
        raise InputError("a dry run makes a plan, and cannot run under one; give either `dry_run` or `plan`")
    if has_network:
        raise InputError("a plan is of tool calls, and does not bound a network; run it without one")
    if has_folders:
        raise InputError("a plan is of tool calls, and does not bound what changes in a folder; run it without one")
