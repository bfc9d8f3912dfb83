"""From an MCP Registry entry (`server.json`, its format since 2025-09) to an entry of `mcpServers`. Pure.

An entry says how a server is installed or reached, nothing about its tools: `tools/list` stays the truth (H-050).
SECURITY: whoever published the entry wrote all of it. Packages are pinned to one version, names are checked against
their ecosystem's grammar (none can be read as an option), nothing passes a shell, and the only references to the
person's environment are those made here, for variables that are named to the person. Values that our configuration
would expand are refused, and so are variables that steer a loader or a package manager, and arguments to npx, uvx or
docker themselves unless the person wants them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from moonpool.core.errors import ConfigError
from moonpool.core.phrases import clip, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject, JsonValue

_ITEMS_MAX: Final = 100
_TEXT_CHARS_MAX: Final = 2_000

_IDENTIFIERS: Final = {
    "npm": re.compile(r"(?:@[a-z0-9][a-z0-9._-]{0,99}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII),
    "pypi": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?", re.ASCII),
    "oci": re.compile(
        r"[a-z0-9][a-z0-9._-]{0,200}(?::[0-9]{1,5})?(?:/[a-z0-9][a-z0-9._-]{0,200}){0,8}"
        r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
        re.ASCII,
    ),
}
_VERSION: Final = re.compile(r"(?=[^.]*[0-9])[0-9A-Za-z][0-9A-Za-z.+_!-]{0,99}", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,100})\}", re.ASCII)
_STEERING: Final = re.compile(
    r"(?:LD|DYLD|PYTHON|NODE|NPM|UV|PIP|DOCKER|BASH|GIT|SSL|MOONPOOL)_.*|NPM_CONFIG.*|PYTHON[A-Z]*|"
    r"PATH|HOME|SHELL|ENV|IFS|TMPDIR|HTTPS?_PROXY|ALL_PROXY",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededVariable:
    """A variable that the person has to set, under this name."""

    name: str
    about: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryServer:
    """One way to run or reach a server, as configuration."""

    name: str  # in the registry
    version: str
    about: str
    server_id: str  # what it would be called here
    kind: str
    entry: JsonObject
    needs: tuple[NeededVariable, ...] = ()
    left_out: tuple[str, ...] = ()  # optional variables of the entry
    notes: tuple[str, ...] = ()  # what the person should know besides
    kinds: tuple[str, ...] = ()  # that the entry offers


@dataclass(slots=True)
class _Reading:
    """What gathers while one way is read."""

    where: str
    needs: dict[str, NeededVariable] = field(default_factory=dict[str, NeededVariable])
    left_out: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def refuse(self, why: str) -> ConfigError:
        return ConfigError(f"{self.where}: {why}")

    def need(self, name: str, spec: JsonObject, what: str) -> str:
        if not _VARIABLE.fullmatch(name) or _STEERING.fullmatch(name):
            raise self.refuse(f"{what} wants the variable {_shown(name)}, which an entry may not set")
        about = _text(spec.get("description"))
        known = self.needs.get(name)
        secret = spec.get("isSecret") is True or (known is not None and known.secret)
        self.needs[name] = NeededVariable(name=name, about=_shown(about, 200), secret=secret)
        return f"${{{name}}}"

    def fixed(self, text: str, what: str) -> str:
        """SECURITY: a publisher's text must not reach into the person's environment or secret store."""
        if "${" in text or "\0" in text or len(text) > _TEXT_CHARS_MAX or not text.isprintable():
            raise self.refuse(f"{what} is {_shown(text)}, which a configuration must not contain")
        return text

    def filled(self, template: str, spec: JsonObject, what: str) -> str:
        """`template` with `{name}` replaced by the fixed value of that variable, or by a reference to be set."""
        fixed = self.fixed(template, what)
        variables = _object(spec.get("variables"))

        def put(match: re.Match[str]) -> str:
            if match[1] not in variables:
                return match[0]
            variable = _object(variables[match[1]])
            value = variable.get("value", variable.get("default"))
            if isinstance(value, str):
                if "$" in value:  # SECURITY: together with what follows in the template it could be a reference
                    raise self.refuse(f"{what} has a variable with the value {_shown(value)}; write the entry yourself")
                return self.fixed(value, what)
            return self.need(re.sub(r"[^A-Za-z0-9_]", "_", match[1]).upper(), variable, what)

        return _PLACE.sub(put, fixed)


def read_registry_server(
    document: JsonValue, *, source: str, kind: str | None = None, runtime_arguments: bool = False
) -> RegistryServer:
    """Read a `server.json`, or a registry's answer that holds one. Raises ConfigError."""
    if isinstance(document, dict) and isinstance(document.get("server"), dict):
        document = document["server"]
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ConfigError(f'{source}: is no registry entry: it needs an object with a "name"')
    name = _shown(_text(document["name"]))
    reading = _Reading(f"{source}: {name}")
    ways = _ways(document, reading)
    wanted = [way for way in ways if kind is None or way[0] == kind]
    kinds = tuple(dict.fromkeys(way[0] for way in ways))
    if not wanted:
        offered = ", ".join(kinds) or "nothing that can be used here (npm, pypi, oci or a remote)"
        raise reading.refuse(f"{'has no way ' + kind + '; it ' if kind else ''}offers {offered}")
    chosen, raw = wanted[0]
    entry = _remote(raw, reading) if chosen == "remote" else _package(chosen, raw, reading, runtime_arguments)
    return RegistryServer(
        name=name,
        version=_shown(_text(document.get("version"))),
        about=_shown(_text(document.get("description")), 300),
        server_id=re.sub(r"[^A-Za-z0-9_.-]", "-", name.rpartition("/")[2])[:64].strip("-.") or "server",
        kind=chosen,
        entry=entry,
        needs=tuple(reading.needs.values()),
        left_out=tuple(reading.left_out),
        notes=tuple(reading.notes),
        kinds=kinds,
    )


def _ways(document: JsonObject, reading: _Reading) -> list[tuple[str, JsonObject]]:
    packages = [_object(one) for one in _items(document.get("packages"), "packages", reading)]
    if any("registry_type" in one or "registry_name" in one for one in packages):
        raise reading.refuse("is of a format older than 2025-09; take the entry as the registry gives it today")
    found = [(_text(one.get("registryType")), one) for one in packages]
    local = [way for way in found if way[0] in _IDENTIFIERS and _transport(way[1]) == "stdio"]
    remotes = [_object(one) for one in _items(document.get("remotes"), "remotes", reading)]
    usable = [one for one in remotes if one.get("type") in {"streamable-http", "sse"}]
    usable.sort(key=lambda one: one.get("type") == "sse")
    return [*local, *(("remote", one) for one in usable)]


def _transport(package: JsonObject) -> str:
    return _text(_object(package.get("transport")).get("type")) or "stdio"


def _package(kind: str, package: JsonObject, reading: _Reading, runtime_arguments: bool) -> JsonObject:
    identifier, version = _located(kind, package, reading), _text(package.get("version"))
    if not _IDENTIFIERS[kind].fullmatch(identifier):
        raise reading.refuse(f"{_shown(identifier)} is no name of an {kind} package")
    pinned = kind == "oci" and (":" in identifier.rpartition("/")[2] or "@" in identifier)
    if version and not _VERSION.fullmatch(version):
        raise reading.refuse(f"{_shown(version)} is no single version; an entry must pin one")
    if not version and not pinned:
        raise reading.refuse(f"the {kind} package {identifier} has no version; an entry must pin one")
    own = _arguments(package.get("runtimeArguments"), "runtimeArguments", reading)
    if own and not runtime_arguments:
        raise reading.refuse(
            f"gives arguments to the program that starts it: {_shown(' '.join(own), 500)}; look at them, then pass "
            "--runtime-arguments"
        )
    variables = _variables(package, reading)
    rest = _arguments(package.get("packageArguments"), "packageArguments", reading)
    if kind == "npm":
        command, args = "npx", ["-y", *own, f"{identifier}@{version}", *rest]
    elif kind == "pypi":
        command, args = "uvx", [*own, f"{identifier}=={version}", *rest]
    else:
        image = identifier if pinned else f"{identifier}:{version}"
        passed = [part for name in variables for part in ("-e", name)]
        command, args = "docker", ["run", "-i", "--rm", *passed, *own, image, *rest]
    entry: JsonObject = {"command": command, "args": list(args)}
    if variables:
        entry["env"] = dict(variables)
    return entry


def _located(kind: str, package: JsonObject, reading: _Reading) -> str:
    """The package's name; an image's with the host that the entry says. What npx and uvx ask is the person's matter."""
    identifier, base = _text(package.get("identifier")), _text(package.get("registryBaseUrl")).rstrip("/")
    if not base:
        return identifier
    if kind == "oci":
        host = base.removeprefix("https://")
        return identifier if identifier.startswith(f"{host}/") else f"{host}/{identifier}"
    starter = {"npm": "npx", "pypi": "uvx"}[kind]
    reading.notes.append(
        f"its publisher says that the package is at {_shown(base)}; {starter} takes it from its configured source"
    )
    return identifier


def _variables(package: JsonObject, reading: _Reading) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw in _items(package.get("environmentVariables"), "environmentVariables", reading):
        spec = _object(raw)
        name, value = _text(spec.get("name")), spec.get("value")
        if not _VARIABLE.fullmatch(name) or _STEERING.fullmatch(name):
            raise reading.refuse(f"sets the variable {_shown(name)}, which an entry may not set")
        if isinstance(value, str):
            found[name] = reading.filled(value, spec, f"the variable {name}")
        elif spec.get("isRequired") is True:
            found[name] = reading.need(name, spec, "the entry")
        else:
            reading.left_out.append(name)
    return found


def _arguments(raw: JsonValue, what: str, reading: _Reading) -> list[str]:
    found: list[str] = []
    for item in _items(raw, what, reading):
        spec = _object(item)
        name, value = _text(spec.get("name")), spec.get("value", spec.get("default"))
        named = spec.get("type") == "named"
        if named and not name:
            raise reading.refuse(f"{what} has a named argument without a name")
        shown = name or _text(spec.get("valueHint"))
        if isinstance(value, str):
            text = reading.filled(value, spec, f"{what} {_shown(shown)}" if shown else f"an argument of {what}")
        elif spec.get("isRequired") is True and not (named and "format" not in spec and "valueHint" not in spec):
            text = reading.need(re.sub(r"[^A-Za-z0-9_]", "_", shown.lstrip("-")).upper() or "ARGUMENT", spec, what)
        elif spec.get("isRequired") is True:
            text = ""  # a flag
        else:
            continue
        found += [reading.fixed(name, what)] if named else []
        found += [text] if text or not named else []
    return found


def _remote(remote: JsonObject, reading: _Reading) -> JsonObject:
    url = reading.filled(_text(remote.get("url")), remote, "the address")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise reading.refuse(f"{_shown(url)} is no address") from None
    if parts.scheme != "https" or not host or parts.username is not None or "${" in parts.netloc or "{" in parts.netloc:
        raise reading.refuse(f"its address is {_shown(url)}; only https addresses with a fixed host are taken over")
    headers: JsonObject = {}
    for raw in _items(remote.get("headers"), "headers", reading):
        spec = _object(raw)
        name, value = _text(spec.get("name")), spec.get("value")
        if not _HEADER.fullmatch(name):
            raise reading.refuse(f"{_shown(name)} is no name of a header")
        if isinstance(value, str):
            headers[name] = reading.filled(value, spec, f"the header {name}")
        elif spec.get("isRequired") is True:
            headers[name] = reading.need(re.sub(r"[^A-Za-z0-9_]", "_", name).upper(), spec, f"the header {name}")
        else:
            reading.left_out.append(name)
    kind = "sse" if remote.get("type") == "sse" else "http"
    return {"type": kind, "url": url, **({"headers": headers} if headers else {})}


def _items(value: JsonValue, what: str, reading: _Reading) -> Sequence[JsonValue]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _ITEMS_MAX:
        raise reading.refuse(f'"{what}" must be a list of at most {_ITEMS_MAX}')
    return value


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _shown(text: str, chars_max: int = 120) -> str:
    return printable(clip(" ".join(text.split()), chars_max))
