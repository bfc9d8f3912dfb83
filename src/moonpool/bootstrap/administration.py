"""Changes of keys, organisations, consents, sandbox configurations and tool switches, each on the audit record of its
organisation: who did it, on this machine or over HTTP, to what, with which rights. Never a key's text or a variable.

INVARIANT: what gives a right stays only if it is on record; else it is taken back. What takes one away stays done, and
the error says that it is not on record.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import AdministrationRecord, time_stamp
from moonpool.core.errors import InputError
from moonpool.core.json import digest_bytes
from moonpool.engine.network import check_bound
from moonpool.environments.recipes import check_environment
from moonpool.features.keys.model import UnknownKeyError
from moonpool.features.sandbox_configurations.model import BUILT_IN
from moonpool.features.storage.heads import TreeKey
from moonpool.features.storage.model import TreeName, UnknownTreeError
from moonpool.features.storage.table import TreeTable
from moonpool.features.tool_switches.model import check_tool_name
from moonpool.network.rules import parse_domains
from moonpool.server.mcp.baponi import definitions as baponi
from moonpool.server.mcp.codegen import tool_table as codegen
from moonpool.store.journals import open_journal_place
from moonpool.store.paths import tenant_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from moonpool.features.caller_limits.model import CallerLimits
    from moonpool.features.keys.model import ApiKey, KeySpec, NewKey
    from moonpool.features.organisation_policies.model import OwnPolicy
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration, StoredConfiguration
    from moonpool.settings import Settings


STORAGE_PROFILES: Final = frozenset({"baponi", "codegen"})
"""Profiles whose tools are about files of threads: a key of one finds a default configuration with storage."""
TOOLS: Final = sorted({*baponi.TOOLS, *codegen.TOOLS})
"""Of profiles, that can be switched off. Those of servers are as `SERVER.TOOL`."""
_BOUNDED: Final = {
    "memory_bytes": "memory_bytes_max",
    "cpu_cores": "cpu_cores_max",
    "cpu_s": "cpu_s_max",
    "disk_bytes": "disk_bytes_max",
    "processes": "process_count_max",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """Changes by one person or program, `by`. Every method raises DatabaseError, InputError, JournalError."""

    opened: ServiceData
    settings: Settings
    data: Path
    by: str
    check_built: Callable[[str], Awaitable[None]] | None = None
    """Whether an environment can be had; None: it is not known here, where the service need not run."""

    async def create_key(self, spec: KeySpec, *, sandbox: str | None = None) -> NewKey:
        """Make a key, and its organisation if there is none; `sandbox` names its configuration.

        Raises UnknownConfigurationError. For a profile with storage a default with storage is made, too, if there is
        no default.
        """
        organisation = spec.organisation_id
        if not await self.opened.organisations.is_open(organisation):
            await self.opened.organisations.ensure(organisation)
            await self._record(organisation, "organisation_created", organisation, {})
        if sandbox is not None:
            found = await self.opened.configurations.find(organisation, sandbox)
            spec = replace(spec, configuration_id=found.configuration.configuration_id)
        elif spec.profile in STORAGE_PROFILES and spec.configuration_id is None:
            await self._ensure_storage(organisation)
        new = await self.opened.keys.create(spec)
        key_id = new.stored.key_id
        await self._given(
            organisation, "key_created", key_id, _rights(new.stored), lambda: self.opened.keys.revoke(key_id)
        )
        return new

    async def limit_key(self, key_id: str, limits: CallerLimits, *, of: str | None = None) -> None:
        """`of`: only a key of this organisation. Raises UnknownKeyError."""
        key = await self._key(key_id, of)
        await self.opened.keys.limit(key_id, limits)
        await self._given(
            key.organisation_id, "key_limited", key_id, limits.said(),
            lambda: self.opened.keys.limit(key_id, key.limits),
        )  # fmt: skip

    async def revoke_key(self, key_id: str, *, of: str | None = None) -> bool:
        """False: it was revoked before. `of`: as of `limit_key`."""
        key = await self._key(key_id, of)
        changed = await self.opened.keys.revoke(key_id)
        if changed:
            await self._taken(key.organisation_id, "key_revoked", key_id)
        return changed

    async def _key(self, key_id: str, of: str | None) -> ApiKey:
        key = await self.opened.keys.find(key_id)
        if of is not None and key.organisation_id != of:
            raise UnknownKeyError(key_id)
        return key

    async def create_sandbox(self, organisation: str, wanted: SandboxConfiguration) -> StoredConfiguration:
        """Raises ConfigurationUsedError, NetworkRuleError, SecretStoreError."""
        await self._check_possible(organisation, BUILT_IN, wanted)
        stored = await self.opened.configurations.create(organisation, wanted)
        await self._sandbox_made(stored)
        return stored

    async def change_sandbox(
        self, organisation: str, name: str, alter: Callable[[SandboxConfiguration], SandboxConfiguration]
    ) -> StoredConfiguration:
        """Raises UnknownConfigurationError, ConfigurationUsedError, NetworkRuleError, SecretStoreError."""
        before: list[SandboxConfiguration] = []

        def altered(was: SandboxConfiguration) -> SandboxConfiguration:
            before.append(was)
            return alter(was)

        configurations = self.opened.configurations
        stored = await configurations.change(
            organisation, name, altered, check=lambda wanted: self._check_possible(organisation, before[-1], wanted)
        )
        await self._given(
            organisation, "sandbox_changed", name, sandbox_told(stored),
            lambda: configurations.change(organisation, stored.configuration.name, lambda _: before[-1]),
        )  # fmt: skip
        return stored

    async def delete_sandbox(self, organisation: str, name: str) -> None:
        """Raises UnknownConfigurationError, ConfigurationUsedError."""
        await self.opened.configurations.delete(organisation, name)
        await self._taken(organisation, "sandbox_deleted", name)

    async def switch_tool(self, organisation: str, tool: str, *, on: bool) -> bool:
        """False: it is so already. A server that has the tool may come later, so its tools are not looked for."""
        switches = self.opened.switches
        if not on:
            check_tool_name(tool)
            if "." not in tool and tool not in TOOLS:
                raise InputError(
                    f"there is no tool {tool[:80]!r} that can be switched off; there are {', '.join(TOOLS)}, and those "
                    "of servers as SERVER.TOOL"
                )
            if changed := await switches.switch_off(organisation, tool, by=self.by):
                await self._taken(organisation, "tool_switched_off", tool)
            return changed
        if changed := await switches.switch_on(organisation, tool):
            undo = switches.switch_off
            await self._given(organisation, "tool_switched_on", tool, {}, lambda: undo(organisation, tool, by=self.by))
        return changed

    async def set_policy(self, organisation: str, text: str) -> OwnPolicy:
        """Raises PolicyRefusedError."""
        policies = self.opened.policies
        before = await policies.find(organisation)
        made = await policies.set(organisation, text, by=self.by)
        await self._given(
            organisation, "policy_set", organisation, {"digest": digest_bytes(text.encode())},
            lambda: policies.remove(organisation)
            if before is None
            else policies.set(organisation, before.text, by=before.set_by),
        )  # fmt: skip
        return made

    async def remove_policy(self, organisation: str) -> bool:
        """False: there was none."""
        policies = self.opened.policies
        before = await policies.find(organisation)
        if before is None or not await policies.remove(organisation):
            return False
        undo = policies.set
        await self._given(
            organisation, "policy_removed", organisation, {},
            lambda: undo(organisation, before.text, by=before.set_by),
        )  # fmt: skip
        return True

    async def _ensure_storage(self, organisation: str) -> None:
        if (made := await self.opened.configurations.ensure_default(organisation)) is not None:
            await self._sandbox_made(made)

    async def _sandbox_made(self, stored: StoredConfiguration) -> None:
        organisation, name = stored.organisation_id, stored.configuration.name
        await self._given(
            organisation, "sandbox_created", name, sandbox_told(stored),
            lambda: self.opened.configurations.delete(organisation, name),
        )  # fmt: skip

    async def _check_possible(self, organisation: str, was: SandboxConfiguration, wanted: SandboxConfiguration) -> None:
        """Raise InputError, NetworkRuleError for more than the service's settings allow, and for what is new in it and
        does not exist.
        """
        for name, setting in _BOUNDED.items():
            value, most = getattr(wanted, name), getattr(self.settings, setting)
            if value is not None and value > most:
                raise InputError(f"{name} is {value:,}, but this service allows at most {most:,}")
        if (rules := parse_domains(wanted.network or ())) is not None:
            check_bound(rules, self.settings)
        if wanted.environment is not None and wanted.environment != was.environment:
            check_environment(wanted.environment)
            if self.check_built is not None:
                await self.check_built(wanted.environment)
        trees = TreeTable(self.opened.database)
        for slug in {one.slug for one in wanted.volumes} - {one.slug for one in was.volumes}:
            try:
                await trees.find(TreeKey(organisation, TreeName(kind="volume", name=slug)))
            except UnknownTreeError:
                raise InputError(
                    f"there is no volume {slug}; make it first: `moonpool volumes create {slug} --org {organisation}` "
                    "or POST /v1/volumes"
                ) from None

    async def create_organisation(self, organisation: str, name: str, limits: CallerLimits) -> None:
        await self.opened.organisations.create(organisation, name, limits)
        undo = self.opened.organisations.disable
        await self._given(organisation, "organisation_created", organisation, limits.said(), lambda: undo(organisation))

    async def limit_organisation(self, organisation: str, limits: CallerLimits) -> None:
        before = await self.opened.organisations.limits_of(organisation)
        await self.opened.organisations.limit(organisation, limits)
        undo = self.opened.organisations.limit
        await self._given(
            organisation, "organisation_limited", organisation, limits.said(), lambda: undo(organisation, before)
        )

    async def disable_organisation(self, organisation: str) -> None:
        await self.opened.organisations.disable(organisation)
        await self._taken(organisation, "organisation_disabled", organisation)

    async def enable_organisation(self, organisation: str) -> None:
        await self.opened.organisations.enable(organisation)
        undo = self.opened.organisations.disable
        await self._given(organisation, "organisation_enabled", organisation, {}, lambda: undo(organisation))

    async def give_consent(
        self, organisation: str, principal: str, client_id: str, server_id: str, server_digest: str
    ) -> None:
        """See `UserConsents.give`."""
        consents = self.opened.consents
        await consents.give(organisation, principal, client_id, server_id, server_digest, given_by=self.by)
        told = {"client": client_id, "server": server_id}
        await self._given(
            organisation, "consent_given", principal, told,
            lambda: consents.withdraw(organisation, principal, client_id, server_id),
        )  # fmt: skip

    async def withdraw_consent(self, organisation: str, principal: str, client_id: str, server_id: str) -> bool:
        """False: there was none."""
        withdrawn = await self.opened.consents.withdraw(organisation, principal, client_id, server_id)
        if withdrawn:
            told = {"client": client_id, "server": server_id}
            await self._taken(organisation, "consent_withdrawn", principal, told)
        return withdrawn

    async def _given(
        self,
        organisation: str,
        action: str,
        subject: str,
        details: Mapping[str, object],
        undo: Callable[[], Awaitable[object]],
    ) -> None:
        try:
            await self._record(organisation, action, subject, details)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await undo()
            raise

    async def _taken(
        self, organisation: str, action: str, subject: str, details: Mapping[str, object] | None = None
    ) -> None:
        try:
            await self._record(organisation, action, subject, details or {})
        except JournalError as error:
            raise JournalError(f"{action.replace('_', ' ')}: done, but it is not on record: {error}") from error

    async def _record(self, organisation: str, action: str, subject: str, details: Mapping[str, object]) -> None:
        record = AdministrationRecord(
            run_id=f"adm_{secrets.token_hex(16)}",
            at=time_stamp(datetime.now(UTC)),
            principal=self.by,
            action=action,
            subject=subject,
            details=tuple(f"{name} {value}" for name, value in details.items()),
        )
        folder = tenant_dir(self.data, organisation)
        async with (
            open_journal_place(self.settings, folder, organisation) as place,
            place.open(lazily=False) as journal,
        ):
            await journal.record(record)


def _rights(key: ApiKey) -> Mapping[str, object]:
    rights: dict[str, object] = {"scopes": " ".join(sorted(key.scopes)), "name": key.name}
    if key.profile is not None:
        rights["profile"] = key.profile
    if key.expires_at is not None:
        rights["expires"] = time_stamp(datetime.fromtimestamp(key.expires_at, UTC))
    if key.configuration_id is not None:
        rights["sandbox"] = key.configuration_id
    if key.workspace_thread is not None:
        rights["thread"] = key.workspace_thread
    if key.variable_names:
        rights["variables"] = " ".join(key.variable_names)
    return {**rights, **key.limits.said()}


def sandbox_told(stored: StoredConfiguration) -> Mapping[str, object]:
    """What a configuration says, but for the values of its variables, and what is left to the service's settings."""
    one = stored.configuration
    said: dict[str, object] = {
        "environment": one.environment,
        "language": one.language,
        "timeout_s": one.timeout_s,
        "timeout_s_max": one.timeout_s_max,
        **{name: getattr(one, name) for name in _BOUNDED},
        "variables": " ".join(stored.variable_names) or None,
        "network": None if one.network is None else " ".join(one.network) or "none",
        "storage": one.has_storage,
        "volumes": " ".join(f"{each.slug}:{'rw' if each.writable else 'ro'}" for each in one.volumes) or None,
        "default": one.is_default,
    }
    return {name: value for name, value in said.items() if value is not None}
