"""Rules of organisations themselves in the tenants that are open: their own policies, and servers' tools switched off.

One task asks the database for all open organisations. INVARIANT: a change counts within a second, for every execution
that begins then. If the database cannot be asked the rules stay as they are known; no new request is admitted then.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.features.organisation_policies.service import layer_of
from moonpool.features.tool_switches.model import server_tools
from moonpool.policy import Layer, LayerName, Rule, Verdict, configuration_layer, literal_glob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.bootstrap.tenant import Tenant
    from moonpool.features.organisation_policies.model import OwnPolicy
    from moonpool.features.organisation_policies.service import OrganisationPolicies
    from moonpool.features.tool_switches.service import OrganisationToolSwitches

EVERY_S: Final = 0.8
SWITCHED_OFF: Final = "organisation:switched-off"
_DENY_ALL: Final = Layer(name=LayerName.ORGANISATION, default=Verdict.DENY)
_log = logging.getLogger(__name__)
_Read = tuple[str | None, tuple[str, ...]]


class OrganisationRules:
    """Follows the rules of all open organisations until `close`."""

    def __init__(self, policies: OrganisationPolicies, switches: OrganisationToolSwitches) -> None:
        self.policies, self.switches = policies, switches
        self._followed: dict[str, tuple[Tenant, _Read]] = {}
        self._watching = asyncio.create_task(self._watch())

    async def follow(self, tenant: Tenant) -> None:
        """Put the rules of a tenant that was just opened in force, and every change from now on.

        Raises DatabaseError.
        """
        organisation = tenant.tenant_id
        policies = await self.policies.of([organisation])
        read = _read(policies, organisation, await self.switches.disabled_tools(organisation))
        tenant.caller_grants.own_layers = await asyncio.to_thread(_layers, organisation, read)
        self._followed[organisation] = tenant, read

    def unfollow(self, organisation: str) -> None:
        """Its tenant is closed soon."""
        self._followed.pop(organisation, None)

    async def close(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._look()
            except MoonpoolError as error:
                _log.warning("changes of organisations' rules cannot be seen now: %s", error)
            except Exception:  # noqa: BLE001  a bug must not end the looking
                _log.exception("a bug while looking for changes of organisations' rules")

    async def _look(self) -> None:
        if not self._followed:
            return
        policies = await self.policies.of(list(self._followed))
        for organisation, (tenant, was) in tuple(self._followed.items()):
            read = _read(policies, organisation, await self.switches.disabled_tools(organisation))
            if read == was:
                continue
            tenant.caller_grants.own_layers = await asyncio.to_thread(_layers, organisation, read)
            if organisation in self._followed:
                self._followed[organisation] = tenant, read


def _read(policies: Iterable[OwnPolicy], organisation: str, off: frozenset[str]) -> _Read:
    return next((one.text for one in policies if one.organisation_id == organisation), None), tuple(sorted(off))


def _layers(organisation: str, read: _Read) -> tuple[Layer, ...]:
    text, off = read
    rules = tuple(
        Rule(rule_id=SWITCHED_OFF, verdict=Verdict.DENY, server=literal_glob(server), tool=literal_glob(tool))
        for name in off
        for server, tool in server_tools(name)
    )
    switched = (configuration_layer(rules),) if rules else ()
    return switched if text is None else (*switched, _own(organisation, text))


def _own(organisation: str, text: str) -> Layer:
    try:
        layer = layer_of(text)
    except MoonpoolError as error:
        # SECURITY: what was good when it was set means nothing to this program; nobody may do more because of that.
        _log.error("the policy of %s cannot be used, so no tool is called for it: %s", organisation, error)
        return _DENY_ALL
    ids = tuple(replace(rule, rule_id=f"organisation:{rule.rule_id}") for rule in layer.rules)
    return replace(layer, rules=ids)
