"""One change of the library as data: what it is to be, so that whoever finds it unfinished can tell what came of it.

Pure. How it is carried out: `moonpool.features.library.transactions`; how it is put on record:
`moonpool.features.library.service`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, cast, get_args

from moonpool.features.library.model.bounds import KINDS, ROOTS, check_name

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.library.model.bounds import Kind

ChangeAction: TypeAlias = Literal["saved", "replaced", "removed"]

INTERRUPTED: Final = "interrupted"
"""The error type of a change whose process died before it was made."""

_TEXT_CHARS_MAX: Final = 1024
_DIGEST: Final = re.compile(r"(?:sha256:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChange:
    """What a person wants changed. Raises InputError for a name that cannot be one."""

    change_id: str  # the `run_id` of its records
    principal: str
    action: ChangeAction
    kind: Kind
    name: str
    before_digest: str = ""  # of what is there; empty when nothing is, or it is damaged
    after_digest: str = ""  # empty when it is to be removed
    from_run: str = ""

    def __post_init__(self) -> None:
        check_name(self.kind, self.name)

    @property
    def entry(self) -> str:
        """As code and catalog name it: actions.github.top_commits."""
        return f"{ROOTS[self.kind]}.{self.name}"

    def to_json(self) -> JsonObject:
        return cast("JsonObject", asdict(self))

    @classmethod
    def from_json(cls, data: JsonValue) -> LibraryChange:
        """Read what `to_json` wrote. Raises ValueError and InputError."""
        if not isinstance(data, dict) or set(data) != set(cls.__slots__):
            raise ValueError("not a change of the library")
        texts = {name: text for name, text in data.items() if isinstance(text, str) and len(text) <= _TEXT_CHARS_MAX}
        digests = (texts.get("before_digest", "-"), texts.get("after_digest", "-"))
        known = texts.get("action") in get_args(ChangeAction) and texts.get("kind") in KINDS
        if len(texts) != len(data) or not known or not all(map(_DIGEST.fullmatch, digests)):
            raise ValueError("not a change of the library")
        return cls(**cast("dict[str, Kind]", texts))  # pyright: ignore[reportArgumentType]  looked at above


class LibraryObserver(Protocol):
    """Puts changes on record. Blocking, called in a worker thread. Methods raise JournalError."""

    @property
    def principal(self) -> str:
        """Who changes something."""
        ...

    def begins(self, change: LibraryChange, /) -> None:
        """The change is about to be made. When this returns, a power loss does not take the record back."""
        ...

    def has_ended(self, change: LibraryChange, /) -> bool:
        """Whether what came of the change is on record."""
        ...

    def ended(self, change: LibraryChange, /, *, error_type: str = "", settled: bool = False) -> None:
        """The change was made, or (`error_type` says why) nothing is changed. `settled`: found out afterwards."""
        ...
