"""A tenant's runtime with an environment, limits and packages of its own, within the operator's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.bootstrap.folders import sandbox_uid
from moonpool.bootstrap.programs import find_runtimes
from moonpool.bootstrap.sandboxes import image_spec, sandbox_limits
from moonpool.bootstrap.tenant import package_installer
from moonpool.core.errors import InputError
from moonpool.engine.packages.model import PackageDisallowedError
from moonpool.engine.packages.specifiers import AllowedPackages
from moonpool.environments.recipes import check_environment
from moonpool.environments.resolve import is_built, resolve_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.bootstrap.tenant import Tenant
    from moonpool.engine.runtime import Runtime
    from moonpool.sandboxes.base import ImageSpec
    from moonpool.settings import Settings

_SETTING_OF: Final = {
    "timeout_s": "timeout_s",
    "memory_bytes": "memory_bytes_max",
    "cpu_s": "cpu_s_max",
    "cpu_cores": "cpu_cores_max",
    "disk_bytes": "disk_bytes_max",
    "processes": "process_count_max",
    "tool_calls": "tool_calls_max",
    "result_bytes": "result_bytes_max",
    "stdout_bytes": "stdout_bytes_max",
    "stderr_bytes": "stderr_bytes_max",
}
_MOST_OF: Final = {"timeout_s": "timeout_s_max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRuntime:
    """What is to be other than the operator has it; None of a limit: nothing."""

    environment: str | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])  # by names above
    packages: tuple[str, ...] | None = None  # names that may be installed; None: as the service says


class NarrowedRuntimes:
    """Of one tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._images: dict[str, ImageSpec] = {tenant.engine.settings.environment: tenant.engine.sandbox_spec.image}

    async def runtime(self, wanted: WantedRuntime) -> Runtime:
        """Raises InputError for more than the operator allows, and for what is not there."""
        tenant = self._tenant
        settings = narrowed(tenant.settings, wanted)
        image = await self._image(settings.environment)
        spec = replace(tenant.runtime.sandbox_spec, image=image, limits=sandbox_limits(settings))
        packages = tenant.runtime.packages
        if wanted.packages is not None or settings.environment != tenant.settings.environment:
            engine = replace(tenant.engine, sandbox_spec=replace(tenant.engine.sandbox_spec, image=image))
            packages = package_installer(engine, settings, tenant.data, tenant.tenant_id)
        return tenant.runtime.narrowed(settings, spec, packages)

    async def _image(self, name: str) -> ImageSpec:
        """SECURITY: nobody has an environment built by asking for it: that fetches packages and takes minutes."""
        if (known := self._images.get(name)) is not None:
            return known
        engine = self._tenant.engine
        await check_built(name, engine.data)
        root, uid = engine.data / "environments", sandbox_uid()
        environment = await resolve_environment(name, root=root, uid=uid)
        found = await find_runtimes(engine.data, engine.environ)
        return self._images.setdefault(name, image_spec(environment, root, found))


async def check_built(name: str, data: Path) -> None:
    """Raise InputError unless sandboxes can have this environment here."""
    check_environment(name)
    if not await is_built(name, root=data / "environments", uid=sandbox_uid()):
        raise InputError(
            f"the environment {name!r} is not built at this service; its operator runs "
            f"`moonpool environments build {name}`"
        )


def narrowed(settings: Settings, wanted: WantedRuntime) -> Settings:
    """`settings` with what is wanted. Raises InputError for more than they allow."""
    changed: dict[str, object] = {}
    for name, setting in _SETTING_OF.items():
        value = wanted.limits.get(name)
        if value is None:
            continue
        most = getattr(settings, _MOST_OF.get(name, setting))
        if value > most:
            raise InputError(f"limits: {name} is {value:,}, but this service allows at most {most:,}")
        changed[setting] = value
    if wanted.environment is not None:
        changed["environment"] = wanted.environment
    if wanted.packages is not None:
        changed["packages"] = _narrowed_packages(settings.packages, wanted.packages)
    return msgspec.structs.replace(settings, **changed)


def _narrowed_packages(operators: str, wanted: tuple[str, ...]) -> str:
    """The setting `packages` of a session: what it wants, without what the operator denies.

    SECURITY: a pattern is within the operator's if that matches it as text; a `?` of the operator's matches one
    character and never a `*`, so such patterns must be the same.
    """
    bound = AllowedPackages.parse("" if operators.strip() == "none" else operators)
    asked = AllowedPackages.parse(",".join(wanted))
    for word in asked.allowed:
        within = any(word == one or ("?" not in one and fnmatchcase(word, one)) for one in bound.allowed)
        if not within:
            raise PackageDisallowedError(f"this service does not let sessions install {word!r}")
    words = [*("any" if word == "*" else word for word in asked.allowed), *(f"!{one}" for one in asked.denied)]
    return ",".join([*words, *(f"!{one}" for one in bound.denied)]) or "none"
