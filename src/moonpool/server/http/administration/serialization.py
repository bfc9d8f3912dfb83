"""What the features say, in the types that go over the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moonpool.core.audit_records import time_stamp
from moonpool.core.scopes import SCOPES
from moonpool.server.http.administration import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.audit import AuditRow
    from moonpool.features.keys.model import ApiKey
    from moonpool.features.organisation_policies.model import OwnPolicy
    from moonpool.features.organisations.model import Organisation
    from moonpool.features.plans.model import StoredPlan
    from moonpool.features.sandbox_configurations.model import StoredConfiguration
    from moonpool.features.tool_switches.model import SwitchedOff
    from moonpool.policy import Layer


def organisation(one: Organisation) -> messages.OrganisationBody:
    return messages.OrganisationBody(
        id=one.organisation_id,
        name=one.name,
        created_at=_time(one.created_at),
        limits=dict(one.limits.said()),
        disabled_at=_time_or_none(one.disabled_at),
    )


def key(one: ApiKey, now: float) -> messages.KeyBody:
    return messages.KeyBody(
        id=one.key_id,
        prefix=one.prefix,
        name=one.name,
        scopes=tuple(scope for scope in SCOPES if scope in one.scopes),
        profile=one.profile,
        limits=dict(one.limits.said()),
        sandbox_id=one.configuration_id,
        thread=one.workspace_thread,
        variables=one.variable_names,
        state=one.state(now),
        created_at=_time(one.created_at),
        expires_at=_time_or_none(one.expires_at),
        revoked_at=_time_or_none(one.revoked_at),
        last_used_at=_time_or_none(one.last_used_at),
    )


def sandbox(one: StoredConfiguration) -> messages.SandboxBody:
    """SECURITY: names of variables, never their values."""
    has = one.configuration
    return messages.SandboxBody(
        id=has.configuration_id,
        name=has.name,
        default=has.is_default,
        environment=has.environment,
        language=has.language,
        timeout_s=has.timeout_s,
        timeout_s_max=has.timeout_s_max,
        memory_bytes=has.memory_bytes,
        cpu_cores=has.cpu_cores,
        cpu_s=has.cpu_s,
        disk_bytes=has.disk_bytes,
        processes=has.processes,
        variables=one.variable_names,
        network=has.network,
        storage=has.has_storage,
        volumes=tuple(messages.VolumeBody(slug=each.slug, writable=each.writable) for each in has.volumes),
    )


def switched_off(one: SwitchedOff) -> messages.SwitchedOffBody:
    return messages.SwitchedOffBody(tool=one.tool, by=one.by, at=_time(one.at))


def policy(layers: Sequence[Layer], own: OwnPolicy | None) -> messages.PolicyBody:
    told = None if own is None else messages.OwnPolicyBody(text=own.text, set_by=own.set_by, set_at=_time(own.set_at))
    return messages.PolicyBody(layers=tuple(dict(one.to_json()) for one in layers), own=told)


def audit_page(rows: Sequence[AuditRow]) -> messages.AuditPage:
    """Of rows, the newest first."""
    records = tuple(messages.AuditRecordBody(seq=one.seq, hash=one.hash, record=dict(one.to_json())) for one in rows)
    return messages.AuditPage(records=records, before=records[-1].seq if records and records[-1].seq > 1 else None)


def plan(one: StoredPlan) -> messages.PlanBody:
    """SECURITY: neither addresses and files of servers nor digests of their configurations, which are the operator's,
    nor what is hidden in arguments.
    """
    planned = one.plan
    return messages.PlanBody(
        id=planned.plan_id,
        principal=planned.principal,
        state=str(one.state),
        language=planned.language,
        code_digest=planned.code_digest,
        human_only=planned.human_only,
        problem=planned.problem,
        made_at=_time(planned.made_at),
        expires_at=_time(planned.expires_at),
        calls=tuple(
            messages.PlannedCall(
                server=call.server_id,
                tool=call.tool_name,
                kind=str(call.kind),
                arguments=call.arguments,
                verdict=call.verdict,
                reason=call.reason,
            )
            for call in planned.effects
        ),
    )


def _time(seconds: float) -> str:
    return time_stamp(datetime.fromtimestamp(seconds, UTC))


def _time_or_none(seconds: float | None) -> str | None:
    return None if seconds is None else _time(seconds)
