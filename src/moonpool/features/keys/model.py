"""A key: its text, its hash and what it may. Pure.

The secret part is 43 letters and digits, 256 bits of randomness. It is stored as its SHA-256 alone. A slow hash with a
salt, as for passwords, makes guessing expensive where there is little to guess; here nobody can guess at all, and every
request would pay. A key of the installation (HMAC) would have to be on every replica, and would protect only from
those who can write the database but not the replicas.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from moonpool.core.errors import InputError
from moonpool.core.scopes import DEFAULT_SCOPES, SCOPES
from moonpool.core.variables import check_variables
from moonpool.features.caller_limits.model import NO_LIMITS, CallerLimits
from moonpool.features.storage.model import TreeName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.scopes import Scope

KEYS_MAX: Final = 1_000
"""Of one organisation, revoked and expired ones included."""
SECRET_CHARS: Final = 43
_ALPHABET: Final = string.ascii_letters + string.digits  # 62^43 > 2^256
_SHOWN_CHARS: Final = 4
_ID_BYTES: Final = 8
_START: Final = "sk-"
_KEY: Final = re.compile(rf"sk-[a-z0-9]{{1,16}}-[A-Za-z0-9]{{{SECRET_CHARS}}}", re.ASCII)
_PROFILE: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)


class UnknownKeyError(InputError):
    """There is no key of this id in this organisation (HTTP 404)."""

    code = "key_unknown"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no key {key_id[:40]!r}; `moonpool keys list` shows all with their ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is stored of a key and may be shown."""

    key_id: str
    organisation_id: str
    prefix: str  # its first characters, for people who look for it
    name: str
    scopes: frozenset[Scope]
    profile: str | None
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    limits: CallerLimits = NO_LIMITS
    configuration_id: str | None = None  # of a sandbox configuration; None: the organisation's default
    workspace_thread: str | None = None  # that tools of a workspace work on
    variable_names: tuple[str, ...] = ()
    sealed_variables: str = field(default="", repr=False)  # empty: it has none
    digest: bytes = field(repr=False)

    @property
    def place(self) -> str:
        """What its variables are sealed for: nobody moves them to another key."""
        return f"{self.organisation_id}/{self.key_id}"

    def state(self, now: float) -> Literal["valid", "revoked", "expired"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key at the only moment when its text is known."""

    stored: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """What a key is asked to be."""

    organisation_id: str
    scopes: frozenset[Scope] = frozenset(DEFAULT_SCOPES)
    profile: str | None = None
    name: str = ""
    lifetime_s: float | None = None
    limits: CallerLimits = NO_LIMITS
    configuration_id: str | None = None
    workspace_thread: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        check_variables(self.variables)
        if self.workspace_thread is not None:
            TreeName(kind="thread", name=self.workspace_thread)
        if not self.scopes:
            raise InputError(f"a key needs a scope; choose from {', '.join(SCOPES)}")
        if self.profile is not None and not _PROFILE.fullmatch(self.profile):
            raise InputError(f"{self.profile[:80]!r} cannot be a profile's name; use a-z, 0-9, - and _")


def make_key(spec: KeySpec, region: str, now: float) -> NewKey:
    """A new key. SECURITY: its text is in the result and nowhere else."""
    text = f"{_START}{region}-" + "".join(secrets.choice(_ALPHABET) for _ in range(SECRET_CHARS))
    stored = ApiKey(
        key_id=secrets.token_hex(_ID_BYTES),
        organisation_id=spec.organisation_id,
        prefix=text[: len(text) - SECRET_CHARS + _SHOWN_CHARS],
        name=spec.name,
        scopes=spec.scopes,
        profile=spec.profile,
        created_at=now,
        limits=spec.limits,
        configuration_id=spec.configuration_id,
        workspace_thread=spec.workspace_thread,
        variable_names=tuple(sorted(spec.variables)),
        expires_at=None if spec.lifetime_s is None else now + spec.lifetime_s,
        digest=digest_of(text),
    )
    return NewKey(stored, text)


def digest_of(text: str) -> bytes:
    """What is stored of a key's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_key(credential: str) -> bool:
    """Whether it has the form of a key."""
    return _KEY.fullmatch(credential) is not None


def begins_like_key(credential: str) -> bool:
    """Whether it can only be meant as a key."""
    return credential.startswith(_START)


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes by name. Raises InputError."""
    wanted = set(names)
    found: set[Scope] = {scope for scope in SCOPES if scope in wanted}
    if unknown := sorted(wanted - found):
        raise InputError(f"{unknown[0][:40]!r} is no scope; choose from {', '.join(SCOPES)}")
    return frozenset(found)
