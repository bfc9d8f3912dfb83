"""An organisation, and what its id may be. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.features.caller_limits.model import NO_LIMITS, CallerLimits

ORGANISATIONS_MAX: Final = 10_000
NAME_CHARS_MAX: Final = 200
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


class OneOrganisationError(MoonpoolError):
    """This machine cannot keep a further organisation's sandboxes apart from the first one's. Nothing was made."""

    code = "one_organisation"
    fault = Fault.HOST


class UnknownOrganisationError(InputError):
    """There is no organisation of this id (HTTP 404)."""

    code = "organisation_unknown"

    def __init__(self, organisation_id: str) -> None:
        super().__init__(f"there is no organisation {organisation_id[:80]!r}; `moonpool orgs list` shows all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Organisation:
    """Its id is its tenant's id, and so a part of paths on the disk."""

    organisation_id: str
    name: str
    created_at: float
    disabled_at: float | None = None
    limits: CallerLimits = NO_LIMITS  # of all its callers together


def check_id(text: str, *, what: str = "an organisation") -> None:
    """Raise InputError unless `text` can be the id of an organisation, and so of a tenant."""
    if not _ID.fullmatch(text):
        wanted = "use up to 63 of a-z, 0-9, - and _, with a letter or digit first"
        raise InputError(f"{text[:80]!r} cannot be the id of {what}; {wanted}")


def check_name(text: str, *, what: str) -> None:
    """Raise InputError for a name that is too long or would confuse a terminal."""
    if len(text) > NAME_CHARS_MAX or not text.isprintable():
        raise InputError(f"the name of {what} must be one line of at most {NAME_CHARS_MAX} characters")
