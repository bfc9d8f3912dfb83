"""Requests and answers of administration. See `moonpool.server.http.sessions.messages` for what they all keep to."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from moonpool.core.scopes import Scope  # noqa: TC001  msgspec reads it
from moonpool.features.sandbox_configurations.model import DOMAINS_MAX, TIMEOUT_S_MAX, VOLUMES_MAX, Language
from moonpool.server.http.sessions.operations import NoQuery

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63)]
_Text: TypeAlias = Annotated[str, Meta(max_length=200)]
_Seconds: TypeAlias = Annotated[int, Meta(ge=1, le=TIMEOUT_S_MAX)]
_Count: TypeAlias = Annotated[int, Meta(gt=0, le=2**53)]
_Cores: TypeAlias = Annotated[float, Meta(ge=0.01, le=4096)]
_Memory: TypeAlias = Annotated[int, Meta(ge=32 * 1024**2, le=2**53)]
_Domains: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...], Meta(max_length=DOMAINS_MAX)
]
_Value: TypeAlias = Annotated[str, Meta(max_length=4096)]
_VariableName: TypeAlias = Annotated[str, Meta(max_length=128)]
_Variables: TypeAlias = Annotated[dict[_VariableName, _Value], Meta(max_length=50)]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the service sends."""


# --- requests


class Limits(_Request, frozen=True):
    """`60/min`, `none`; left out: as the service's settings say."""

    rate_limit: Annotated[str, Meta(max_length=40)] | None = None
    concurrency: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    quota: Annotated[str, Meta(max_length=40)] | None = None


class CreateOrganisation(_Request, frozen=True):
    id: _Name
    name: _Text = ""
    limits: Limits = Limits()


class CreateKey(_Request, frozen=True):
    """A key of your organisation, with scopes that you have yourself."""

    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=10)] = ("execute", "files")
    name: _Text = ""
    profile: _Name | None = None
    lifetime_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    limits: Limits = Limits()
    sandbox: _Name | None = None
    """Its sandbox configuration; left out: your organisation's default."""
    variables: _Variables = {}
    thread: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """That tools of a workspace work on."""


class Volume(_Request, frozen=True):
    slug: _Name
    writable: bool = False


class CreateSandbox(_Request, frozen=True):
    """What code runs with; null: as the service's settings say."""

    name: _Name
    environment: _Name | None = None
    language: Language = "python"
    timeout_s: _Seconds = 60
    timeout_s_max: _Seconds = TIMEOUT_S_MAX
    memory_bytes: _Memory | None = None
    cpu_cores: _Cores | None = None
    cpu_s: _Count | None = None
    disk_bytes: _Count | None = None
    processes: _Count | None = None
    variables: _Variables = {}
    network: _Domains | None = None
    storage: bool = False
    volumes: Annotated[tuple[Volume, ...], Meta(max_length=VOLUMES_MAX)] = ()
    default: bool = False


class ChangeSandbox(_Request, frozen=True):
    """What is left out stays as it is. A variable that is null is removed; the others stay."""

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    environment: _Name | msgspec.UnsetType | None = msgspec.UNSET
    language: Language | msgspec.UnsetType = msgspec.UNSET
    timeout_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    timeout_s_max: _Seconds | msgspec.UnsetType = msgspec.UNSET
    memory_bytes: _Memory | msgspec.UnsetType | None = msgspec.UNSET
    cpu_cores: _Cores | msgspec.UnsetType | None = msgspec.UNSET
    cpu_s: _Count | msgspec.UnsetType | None = msgspec.UNSET
    disk_bytes: _Count | msgspec.UnsetType | None = msgspec.UNSET
    processes: _Count | msgspec.UnsetType | None = msgspec.UNSET
    variables: Annotated[dict[_VariableName, _Value | None], Meta(max_length=100)] = {}
    network: _Domains | msgspec.UnsetType | None = msgspec.UNSET
    storage: bool | msgspec.UnsetType = msgspec.UNSET
    volumes: Annotated[tuple[Volume, ...], Meta(max_length=VOLUMES_MAX)] | msgspec.UnsetType = msgspec.UNSET
    default: bool | msgspec.UnsetType = msgspec.UNSET


class SwitchTool(_Request, frozen=True):
    """A tool of a profile (`sandbox_execute`), or `server.tool`."""

    tool: Annotated[str, Meta(min_length=1, max_length=400)]
    enabled: bool


class SetPolicy(_Request, frozen=True):
    """A policy file's text. It may deny and ask, and never allow."""

    text: Annotated[str, Meta(min_length=1, max_length=262_144)]


class AnswerPlan(_Request, frozen=True):
    """An answer to a whole plan, by somebody else than its caller. A caller may refuse its own."""

    approve: bool
    by: _Text = ""
    """Who is said to have answered; recorded beside the credential that did."""


class AuditQuery(NoQuery, frozen=True):
    """Records before this number, the newest first."""

    before: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class CatalogQuery(NoQuery, frozen=True):
    """The tools that fit `query` best, or all of them."""

    query: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    server: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


# --- answers


class OrganisationBody(_Answer, frozen=True):
    id: str
    name: str
    created_at: str
    limits: dict[str, Any]
    disabled_at: str | None


class OrganisationList(_Answer, frozen=True):
    organisations: tuple[OrganisationBody, ...]


class KeyBody(_Answer, frozen=True):
    """A key, never whole. Of its variables only the names."""

    id: str
    prefix: str
    name: str
    scopes: tuple[str, ...]
    profile: str | None
    limits: dict[str, Any]
    sandbox_id: str | None
    thread: str | None
    variables: tuple[str, ...]
    state: Literal["valid", "revoked", "expired"]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class KeyList(_Answer, frozen=True):
    keys: tuple[KeyBody, ...]


class NewKeyBody(_Answer, frozen=True):
    """A key at the only moment when its text is known."""

    id: str
    key: str


class VolumeBody(_Answer, frozen=True):
    slug: str
    writable: bool


class SandboxBody(_Answer, frozen=True):
    """A sandbox configuration. Of its variables only the names."""

    id: str
    name: str
    default: bool
    environment: str | None
    language: str
    timeout_s: int
    timeout_s_max: int
    memory_bytes: int | None
    cpu_cores: float | None
    cpu_s: int | None
    disk_bytes: int | None
    processes: int | None
    variables: tuple[str, ...]
    network: tuple[str, ...] | None
    storage: bool
    volumes: tuple[VolumeBody, ...]


class SandboxList(_Answer, frozen=True):
    sandboxes: tuple[SandboxBody, ...]


class SwitchedOffBody(_Answer, frozen=True):
    tool: str
    by: str
    at: str


class SwitchedOffList(_Answer, frozen=True):
    switched_off: tuple[SwitchedOffBody, ...]


class OwnPolicyBody(_Answer, frozen=True):
    text: str
    set_by: str
    set_at: str


class PolicyBody(_Answer, frozen=True):
    """The rules in force: of all layers the strictest verdict wins. `own` is what your organisation wrote itself."""

    layers: tuple[dict[str, Any], ...]
    own: OwnPolicyBody | None


class AuditRecordBody(_Answer, frozen=True):
    seq: int
    hash: str
    record: dict[str, Any]


class AuditPage(_Answer, frozen=True):
    """`before` of the next page; null: there is none."""

    records: tuple[AuditRecordBody, ...]
    before: int | None


class PlannedCall(_Answer, frozen=True):
    """A call that the plan allows. Texts are redacted and bounded; code, servers and models had a hand in them."""

    server: str
    tool: str
    kind: str
    arguments: str
    verdict: str
    reason: str


class PlanBody(_Answer, frozen=True):
    id: str
    principal: str
    state: str
    language: str
    code_digest: str
    human_only: bool
    problem: str
    made_at: str
    expires_at: str
    calls: tuple[PlannedCall, ...]


class PlanList(_Answer, frozen=True):
    plans: tuple[PlanBody, ...]
