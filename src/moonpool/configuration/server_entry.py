"""One server entry of `mcpServers` as JSON, and the way from it to a `ServerConfig`: keys, transport, variables.

An unknown key is refused with the nearest known name, because a misspelt `headers` would otherwise silently mean
something else. Keys that other clients document and that change nothing about how a server is reached
(`IGNORED_KEYS`) are accepted and ignored.

SECURITY: `autoApprove` and `alwaysAllow` of other clients are ignored on purpose; only the `moonpool` block gives
leave.
Expansion: `expansion`; what counts as secret: `secrets`.
What each key may be is said by the models, here and in `ServerOptions`; `moonpool.core.conversion` says what is wrong.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from moonpool.configuration.condition_entry import ConditionEntry  # noqa: TC001  read by msgspec
from moonpool.configuration.oauth_settings import OAuthSettings
from moonpool.configuration.roots import root_path
from moonpool.configuration.secrets import secrets_in, secrets_in_arguments
from moonpool.configuration.server_config import ServerConfig, ServerOptions, ToolRule, TransportKind, VerdictName
from moonpool.core.conversion import convert, kind_of
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from moonpool.configuration.expansion import Expansion

_KINDS: Final[dict[str, TransportKind]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
# fmt: off
IGNORED_KEYS: Final = frozenset({
    "alwaysAllow", "autoApprove", "autostart", "category", "description", "dev", "disabledTools", "gallery", "homepage",
    "icon", "icons", "label", "name", "note", "notes", "tags", "timeout", "title", "tools", "version", "$comment",
})
# fmt: on
_RELATIVE_PATH: Final = re.compile(
    r"\.{1,2}(?:/.*)?|(?![-/~@])[^\s:]*\.(?:[cm]?[jt]s|py|sh|rb|jar|json|toml|ya?ml|db|sqlite3?|env)", re.DOTALL
)
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_REFUSED_KEYS: Final = {
    "envFile": 'put the values into "env", or set the variables and write ${NAME}',
    "serverUrl": 'write "url"',
    "httpUrl": 'write "url" and "type": "http"',
}


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    verdict: VerdictName
    when: tuple[ConditionEntry, ...] = ()


class Block(ServerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `moonpool` block as JSON: what is used as it is written, and rules, in the two forms in which they are."""

    rules: tuple[_Rule, ...] = ()
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.calls_burst and not self.calls_per_minute:
            raise ValueError('"calls_burst": needs "calls_per_minute"')
        if self.calls_per_minute and not 0.01 <= self.calls_per_minute <= 1_000_000:
            raise ValueError(
                f'"calls_per_minute": must be 0 (no limit) or from 0.01 to 1000000, but is {self.calls_per_minute:g}'
            )
        if self.ping_s and not 1 <= self.ping_s <= 86_400:
            raise ValueError(f'"ping_s": must be 0 (never) or from 1 to 86400 seconds, but is {self.ping_s:g}')
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f'"prefix": must be 1 to 32 of A-Z, a-z, 0-9, _ and -, but is {self.prefix[:80]!r}')
        if self.prefix and self.expose == "code":
            raise ValueError('"prefix": needs "expose": "direct" or "both"')
        if self.client_roots and self.roots:
            raise ValueError('"client_roots": goes not with "roots"; keep one of them')


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server entry as it is written, before variables are expanded."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, Any] = {}
    cwd: str | None = None
    type: str | None = None
    transport: str | None = None
    url: str | None = None
    headers: dict[str, Any] = {}
    oauth: OAuthSettings = OAuthSettings()
    disabled: bool = False
    moonpool: Block = Block()


KNOWN_KEYS: Final = Entry.__struct_fields__


def read_entry(raw: object, where: str) -> Entry:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: must be an object, not {kind_of(raw)}")
    given = cast("dict[str, object]", raw)
    for key in given:
        if key in _REFUSED_KEYS:
            raise ConfigError(f'{where}: "{key}" is not supported; {_REFUSED_KEYS[key]}')
    return convert({key: value for key, value in given.items() if key not in IGNORED_KEYS}, Entry, where)


def resolve(server_id: str, entry: Entry, expansion: Expansion, where: str, here: str = ".") -> ServerConfig:
    """What `entry` means, its command as one of the folder `here`. Raises ConfigError."""
    kind = _transport_kind(entry, where)
    block = entry.moonpool
    command = _clean(expansion.expand(entry.command or "", key="command"), where, "command")
    args = tuple(
        _clean(expansion.expand(arg, key=f"args[{i}]"), where, f"args[{i}]") for i, arg in enumerate(entry.args)
    )
    env = _expand_values(entry.env, expansion, where, "env")
    headers = _expand_values(entry.headers, expansion, where, "headers")
    url = _clean(expansion.expand(entry.url or "", key="url").strip(), where, "url", lines=False)
    _check_url(url, where)
    if entry.command is not None and not command.strip():
        raise ConfigError(f'{where}: "command" is empty; name the program that starts the server')
    oauth = _oauth(entry, expansion, where)
    named = [
        *expansion.used.items(),
        *env.items(),
        *headers.items(),
        ("client_secret", oauth.client_secret),
        ("private_key", oauth.private_key),
    ]
    cwd = expansion.expand(entry.cwd, key="cwd") if entry.cwd else None
    secrets = {secret for name, value in [*named, ("url", url)] for secret in secrets_in(name, value)}
    secrets |= {*secrets_in_arguments(args)}
    secrets |= {value.strip() for value in expansion.secrets if value.strip()}
    roots = [(root, f"roots[{i}]") for i, root in enumerate(block.roots)]
    options: dict[str, Any] = {name: getattr(block, name) for name in ServerOptions.__struct_fields__}
    options["calls_burst"] = block.calls_burst or max(1, int(block.calls_per_minute / 10))
    options["roots"] = tuple(root_path(expansion.expand(root, key=key), where, key) for root, key in roots)
    return ServerConfig(
        **options,
        server_id=server_id,
        transport=kind,
        command=command,
        args=args,
        env=env,
        cwd=cwd,
        folder=_folder(command, args, cwd, here),
        url=url,
        headers=headers,
        oauth=oauth,
        rules=_rules(block),
        secrets=frozenset(secrets),
    )


def _rules(block: Block) -> tuple[ToolRule, ...]:
    """`rules` first, then the short lists; the order has no meaning, because the strictest match wins."""
    listed = [
        ToolRule(tool=rule.tool, verdict=rule.verdict, when=tuple(one.condition() for one in rule.when))
        for rule in block.rules
    ]
    shorts: dict[VerdictName, tuple[str, ...]] = {"allow": block.allow, "ask": block.ask, "deny": block.deny}
    return (*listed, *(ToolRule(tool=glob, verdict=verdict) for verdict, globs in shorts.items() for glob in globs))


def _oauth(entry: Entry, expansion: Expansion, where: str) -> OAuthSettings:
    given = msgspec.structs.asdict(entry.oauth)
    if any(given.values()) and entry.url is None:
        raise ConfigError(f'{where}: "oauth" is for servers with a "url"')
    settings = OAuthSettings(**_expand_values(given, expansion, where, "oauth"))
    if problem := settings.problem():
        raise ConfigError(f'{where}, "oauth": {problem}')
    return settings


def _folder(command: str, args: tuple[str, ...], cwd: str | None, here: str) -> str:
    """The folder `here`, where the command means something else in another one; by what it looks like alone.

    SECURITY: not by what exists there, or a server could make itself another one by making a file.
    """
    words = [word for arg in args for word in (arg, arg.partition("=")[2])]
    counts_from_here = ("/" in command and not command.startswith("/")) or any(map(_RELATIVE_PATH.fullmatch, words))
    if not command or (cwd or "").startswith("/") or not (cwd or counts_from_here):
        return ""
    return os.path.abspath(os.path.join(here, cwd or "."))  # noqa: PTH100, PTH118  as the process will be started: without looking at links


def _transport_kind(entry: Entry, where: str) -> TransportKind:
    """Explicit `type` wins; without it the presence of `command` or `url` decides."""
    if entry.command is not None and entry.url is not None:
        raise ConfigError(f'{where}: has both "command" and "url"; keep the one that reaches it')
    if entry.command is None and entry.url is None:
        raise ConfigError(f'{where}: has neither "command" (a local server) nor "url" (a remote one)')
    given = entry.type if entry.type is not None else entry.transport
    if given is None:
        return "stdio" if entry.command is not None else "auto"
    kind = _KINDS.get(given)
    if kind is None:
        raise ConfigError(f'{where}: "type" {given!r} is unknown; use stdio, http or sse')
    if (kind == "stdio") != (entry.command is not None):
        needed = '"command"' if kind == "stdio" else '"url"'
        raise ConfigError(f'{where}: "type" {given!r} needs {needed}')
    return kind


def _expand_values(values: dict[str, Any], expansion: Expansion, where: str, key: str) -> dict[str, str]:
    expanded: dict[str, str] = {}
    for name, value in values.items():
        inner = f"{key}.{name}"
        if not isinstance(value, str):
            raise ConfigError(f'{where}: "{inner}" must be a string, not {kind_of(value)}; put it in quotes')
        if not name or "=" in name or "\0" in name or not name.isascii():
            raise ConfigError(f'{where}: {name!r} cannot be a name in "{key}"')
        expanded[name] = _clean(
            expansion.expand(value, key=inner), where, inner, lines=key == "env" or name == "private_key"
        )
    return expanded


def _clean(value: str, where: str, key: str, *, lines: bool = True) -> str:
    broken = "\0" in value or (not lines and ("\n" in value or "\r" in value))
    if broken or value.encode(errors="replace").decode() != value:
        raise ConfigError(f'{where}: "{key}" holds NUL, half a surrogate pair or a line break; remove it')
    return value


def _check_url(url: str, where: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f'{where}: "url" must be an http:// or https:// address with a host')
