"""Installation of packages by sessions: the index that the operator configured, and what a build sandbox is made of."""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from moonpool.core.errors import ConfigError
from moonpool.engine.packages.fetching import BuildSpec, PackageIndex
from moonpool.engine.packages.installer import InstallServices, PackageInstaller
from moonpool.engine.packages.overlaps import TakenModules
from moonpool.engine.packages.specifiers import AllowedPackages
from moonpool.engine.packages.store import Resolutions, WheelStore
from moonpool.environments.package_index import public_index, read_pip_settings, uv_variables
from moonpool.environments.package_tools import UV, package_tools
from moonpool.network.rules import (
    HeaderCredential,
    NetworkRuleError,
    NetworkRules,
    address_literal,
    index_rule,
    parse_domain,
)
from moonpool.sandboxes.base import SandboxLimits, SandboxSpec
from moonpool.sandboxes.plan import covers
from moonpool.store.paths import package_resolutions_dir, packages_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moonpool.bootstrap.engine import Engine
    from moonpool.network.rules import DomainRule
    from moonpool.settings import Settings

_PORTS: Final = {"http": 80, "https": 443}
_ADDRESSES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS")
_PASSED_ON: Final = ("UV_INDEX_STRATEGY", "UV_NO_INDEX", "UV_HTTP_TIMEOUT", "UV_INSECURE_HOST")
_OURS: Final = frozenset(
    {"moonpool", "moonpool_guest", "moonpool_wire", "moonpool_environment", "moonpool_command", "client"}
)
_WRAPPERS: Final = frozenset({"servers", "mcptools", "mcpparse", "gentools", "actions", "skills"})
_STARTED: Final = frozenset({"sitecustomize", "usercustomize", "__main__"})


def make_installer(engine: Engine, settings: Settings, data: Path, tenant_id: str) -> PackageInstaller:
    """What installs packages for a tenant with `settings` and the folder `data`. Blocks.

    Raises ConfigError, EnvironmentBuildError.
    """
    allowed = AllowedPackages.parse(settings.packages)
    place = _IndexPlace.of(settings, engine.environ)
    store = wheel_store(engine.data, settings)
    store.sweep()
    services = InstallServices(
        store=store,
        build=_build_spec(engine, settings, place),
        environment=engine.sandbox_spec.image.digest,
        bytes_max=settings.packages_bytes_max,
        taken=_taken(engine.sandbox_spec.image.site_paths),
        in_use=engine.packages_in_use,
    )
    resolutions = Resolutions(package_resolutions_dir(data))
    return PackageInstaller(services, resolutions, allowed, engine.pool, scope=tenant_id)


def wheel_store(data: Path, settings: Settings) -> WheelStore:
    """Where unpacked wheels are kept for all tenants of the data folder `data`."""
    return WheelStore(packages_dir(data) / "wheels", settings.package_cache_bytes_max)


def _build_spec(engine: Engine, settings: Settings, place: _IndexPlace) -> BuildSpec:
    image = engine.sandbox_spec.image
    tools = package_tools(engine.data / "environments")
    image = replace(
        image,
        name="packages",
        digest=f"{image.digest}+{tools.name}",
        binds=tuple(dict.fromkeys([*image.binds, tools, *place.folders])),
        preload=(),
    )
    packed_bytes_max = max(settings.packages_bytes_max // 2, 1)
    limits = SandboxLimits(
        memory_bytes_max=settings.memory_bytes_max,
        process_count_max=settings.process_count_max,
        cpu_s_max=settings.cpu_s_max,
        cpu_cores_max=settings.cpu_cores_max,
        disk_bytes_max=packed_bytes_max,
        fsize_bytes_max=packed_bytes_max,
    )
    return BuildSpec(
        sandbox=SandboxSpec(image=image, limits=limits),
        uv=image.inside(tools / UV),
        site_paths=tuple(map(image.inside, image.site_paths)),
        index=PackageIndex(variables=place.variables, rules=NetworkRules(tuple(place.domains))),
        timeout_s=settings.package_timeout_s,
        bytes_max=packed_bytes_max,
    )


@dataclass(kw_only=True)
class _IndexPlace:
    """Where packages come from: variables of the resolver without credentials, domains with them, local folders."""

    variables: dict[str, str] = field(default_factory=dict[str, str])
    domains: list[DomainRule] = field(default_factory=list["DomainRule"])
    folders: list[Path] = field(default_factory=list[Path])

    @classmethod
    def of(cls, settings: Settings, environ: Mapping[str, str]) -> _IndexPlace:
        """Raises ConfigError."""
        place = cls()
        if settings.package_index:
            found = {"UV_DEFAULT_INDEX": settings.package_index}
        else:
            own = {name: value for name, value in environ.items() if name.startswith("UV_")}
            found = {**own, **uv_variables(read_pip_settings(), own)}
        hosts = settings.package_hosts
        if not found.get("UV_DEFAULT_INDEX") and not found.get("UV_NO_INDEX"):
            found["UV_DEFAULT_INDEX"], host = public_index()
            hosts = f"{host},{hosts}"
            if not host:
                raise ConfigError("no package index is known here; set MOONPOOL_PACKAGE_INDEX to its address")
        place.variables |= {name: found[name] for name in _PASSED_ON if found.get(name)}
        for name in _ADDRESSES:
            separator = "," if name == "UV_FIND_LINKS" else " "
            addresses = found.get(name, "").replace(separator, " ").split()
            if kept := [place._add(address) for address in addresses]:
                place.variables[name] = separator.join(kept)
        try:
            for host in (word for part in hosts.split(",") if (word := part.strip())):
                if host.startswith("file:"):
                    place._add(host)
                else:
                    place.domains.append(replace(parse_domain(host), allow_private=True))
        except NetworkRuleError as error:
            raise ConfigError(f"package_hosts: {error}") from None
        place.variables |= {"NO_PROXY": "", "no_proxy": ""}  # an index on this machine is reached as every other
        return place

    def _add(self, address: str) -> str:
        """The address as the build sandbox is told it."""
        parts = urlsplit(address)
        if parts.scheme not in _PORTS:
            return self._add_folder(address, parts.path if parts.scheme == "file" else address)
        try:
            host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
            rule = index_rule(host, port)
        except (ValueError, NetworkRuleError):
            raise ConfigError("the address of the package index cannot be used: it names no host") from None
        if parts.username is not None:
            if address_literal(host):  # TLS has no server name for one, and the host stands in for names only
                raise ConfigError(f"the package index at {host} needs a host name, because it has a user and password")
            try:
                credential = _basic(unquote(parts.username), unquote(parts.password or ""))
            except NetworkRuleError as error:
                raise ConfigError(f"user and password of the package index {host} cannot be used: {error}") from None
            rule = replace(rule, credential=credential)
        self.domains.append(rule)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def _add_folder(self, address: str, path: str) -> str:
        folder = Path(unquote(path))
        if not folder.is_absolute() or not folder.is_dir():
            named = str(folder).rpartition("@")[2]  # SECURITY: it may be an address with a password
            raise ConfigError(f"the package index {named!r} is no folder here; name one, or an https address")
        if folder.resolve() != folder or covers(folder):
            raise ConfigError(
                f"the package index {str(folder)!r} cannot be shown in a sandbox; move it, and name no link"
            )
        self.folders.append(folder)
        return address


def _basic(user: str, password: str) -> HeaderCredential:
    return HeaderCredential("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def _taken(site_paths: tuple[Path, ...]) -> TakenModules:
    """What no installed package may bring."""
    environment = {_module(entry) for path in site_paths for entry in os.scandir(path) if _counts(entry)}

    def owner(name: str) -> str:
        if name in sys.stdlib_module_names or name in _STARTED:
            return "the standard library"
        if name in _OURS:
            return "Moonpool"
        if name in _WRAPPERS:
            return "the wrappers"
        return "the environment" if name in environment else ""

    return TakenModules(owner=owner, namespaces={name for path in site_paths for name in _namespaces(path)})


def _counts(entry: os.DirEntry[str]) -> bool:
    """Whether nothing can be added to it: a folder without an `__init__.py` belongs to several packages."""
    if entry.is_dir():
        return (Path(entry.path) / "__init__.py").exists()
    return entry.name.endswith((".py", ".so"))


def _module(entry: os.DirEntry[str]) -> str:
    return entry.name.partition(".")[0]


def _namespaces(folder: Path, above: str = "") -> Iterator[str]:
    """The folders to which several packages may add modules, with slashes."""
    for entry in os.scandir(folder):
        if entry.name.isidentifier() and entry.is_dir() and not _counts(entry):
            yield f"{above}{entry.name}"
            yield from _namespaces(Path(entry.path), f"{above}{entry.name}/")
