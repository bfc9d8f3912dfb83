"""What a configured server is: frozen values, and nothing that reads a file.

SECURITY: expanded values live here and in the connection, nowhere else; `repr` shows none of them.
How they are read: `servers`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from moonpool.configuration.expansion import conceal
from moonpool.configuration.oauth_settings import NO_GRANT, OAuthSettings
from moonpool.core.errors import ConfigError
from moonpool.core.json import JsonValue, digest_json
from moonpool.policy import Does, Returns  # noqa: TC001  read by msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.policy import Condition

_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86_400)]
TransportKind: TypeAlias = Literal["stdio", "http", "sse", "auto"]
"""`auto` is a URL without a `type`: both HTTP transports are tried, the URL only orders the attempts (X-12)."""
LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
VerdictName: TypeAlias = Literal["allow", "ask", "deny"]
Exposure: TypeAlias = Literal["code", "direct", "both"]
"""Who may use a server: code in a sandbox, clients of the profile `direct`, or both."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says about the tools of one server whose name matches the glob `tool`."""

    tool: str
    verdict: VerdictName
    when: tuple[Condition, ...] = ()  # all of them have to hold


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the `moonpool` block of an entry says, and is used as it is written. Times are seconds."""

    trusted: bool = False  # the server's annotations may be believed (D-010)
    timeout_s: _Seconds = 60.0
    connect_timeout_s: _Seconds = 30.0
    concurrency_max: Annotated[int, Meta(ge=1, le=1024)] = 16
    calls_per_minute: float = 0.0  # 0: as many as one likes
    calls_burst: Annotated[int, Meta(ge=0, le=100_000)] = 0  # so many of them at once; 0: a tenth of a minute's
    failures_max: Annotated[int, Meta(ge=1, le=1000)] = 5  # in a row; then the circuit opens
    rest_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 30.0  # how long it stays open at first
    log_level: LogLevel | None = None  # what the server is asked to log; None: it is not asked
    idempotent: tuple[str, ...] = ()  # globs of tools that may be called again after a lost answer
    instructions: bool = True  # False: the server's own instructions are not shown to a model
    roots: tuple[str, ...] = ()  # absolute folders the server may ask for; none: roots are not declared
    elicitation: Literal["decline", "relay"] = "decline"  # forms and addresses for the person at the client
    sampling: Literal["deny", "ask", "relay"] = "deny"  # for the client's model; `ask`: a person reviews it first
    ping_s: float = 0.0  # how often an idle server is asked for a sign of life; 0: never
    tasks: bool = False  # tools that require it are called as tasks (2025-11-25, experimental)
    returns: tuple[Returns, ...] = ()  # labels of all its tools: what they return
    does: tuple[Does, ...] = ()  # and what calling them does
    expose: Exposure = "code"  # who may use it
    prefix: str = ""  # of its tools' and prompts' names in the profile `direct`; none: where two servers share a name
    client_roots: bool = False  # roots are asked of the client that calls
    requests_per_minute: Annotated[int, Meta(ge=1, le=600)] = 10  # server requests that one principal may be asked
    organisations: tuple[str, ...] = ()  # of a service, which may use it; none: all


class ServerConfig(ServerOptions, frozen=True, kw_only=True):
    """One configured server, variables expanded."""

    server_id: str
    transport: TransportKind
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    folder: str = ""  # where it is started, if a command, argument or `cwd` counts from there
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuthSettings = OAuthSettings()
    rules: tuple[ToolRule, ...] = ()
    secrets: frozenset[str] = frozenset()
    public_only: bool = False  # an organisation's own: it, and where it leads, is on the public internet

    @property
    def may_log_in(self) -> bool:
        """Whether a login is sent to it, as soon as there is one."""
        own = any(name.lower() == "authorization" for name in self.headers)
        return bool(self.url) and not own and self.oauth.grant != NO_GRANT

    @property
    def reached_by(self) -> str:
        """The whole command, or the URL without its query, for who approves calls; secrets are blanked."""
        return conceal(shlex.join((self.command, *self.args)) if self.command else self.address, self.secrets)

    @property
    def address(self) -> str:
        """The command or the URL, for messages; secrets are blanked and a URL loses its query."""
        return conceal(self.command or self.url.partition("?")[0], self.secrets)

    def __repr__(self) -> str:
        return f"ServerConfig({self.server_id!r}, {self.transport}, {self.address!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("server_id", self.server_id), ("transport", self.transport), ("address", self.address)]


class ServerLeftOutError(ConfigError):
    """One entry cannot be used as it is; the other servers of its file can.

    SECURITY: `for_guest` is which key, and a name that is not set; never what stands there, nor where on this host.
    """

    code = "server_left_out"

    def __init__(self, server_id: str, problem: str, source: str) -> None:
        super().__init__(f"{source}: server {server_id!r} is left out: {problem}")
        unset, key = _UNSET.match(problem), _KEY.match(problem)
        why = unset[0] if unset else f'{key[0]}" cannot be used' if key else "its entry cannot be used"
        self.for_guest = f"server {server_id!r} is left out: {why}"


_KEY: Final = re.compile(r'"[a-z_]{1,40}')
_UNSET: Final = re.compile(r'"[\w.\[\]-]{1,80}" uses \$\{[\w.:-]{1,140}\}, [^;]*')


@dataclass(frozen=True, slots=True, kw_only=True)
class McpConfig:
    """All servers of one file, in its order. Servers marked `disabled` are only named."""

    source: str
    servers: tuple[ServerConfig, ...] = ()
    disabled: tuple[str, ...] = ()
    left_out: Mapping[str, ServerLeftOutError] = field(default_factory=dict[str, ServerLeftOutError])
    """Servers whose entries cannot be used. Nothing of them is known: neither tools, nor rules, nor secrets."""
    other_secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Secrets of the application that no server has."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(server.server_id for server in self.servers)

    @property
    def taken_ids(self) -> tuple[str, ...]:
        """Every name in the file, also of servers that are not used."""
        return (*self.ids, *self.disabled, *self.left_out)

    def for_organisation(self, organisation: str) -> McpConfig:
        """What one organisation of a service may use.

        SECURITY: an entry that cannot be used does not say for whom it is, so it is named to nobody where any is
        limited.
        """
        own = tuple(one for one in self.servers if not one.organisations or organisation in one.organisations)
        is_limited = any(one.organisations for one in self.servers)
        return replace(self, servers=own, disabled=(), left_out={} if is_limited else self.left_out)

    @property
    def secrets(self) -> frozenset[str]:
        return self.other_secrets.union(*(server.secrets for server in self.servers))

    def find(self, server_id: str) -> ServerConfig | None:
        return next((server for server in self.servers if server.server_id == server_id), None)


def resolved_key(server: ServerConfig) -> str:
    """`sha256:…` over everything that decides what the server is.

    Cached manifests, accepted changes, approvals that stand, plans and what calls taught belong to it, not to a name.
    """
    resolved: dict[str, JsonValue] = {
        "server_id": server.server_id,
        "transport": server.transport,
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "cwd": server.cwd,
        "url": server.url,
        "headers": dict(server.headers),
    }
    if server.folder:  # `python server.py` is another program in another folder
        resolved["folder"] = server.folder
    if server.oauth != OAuthSettings():  # another client is somebody else there
        resolved["oauth"] = msgspec.structs.asdict(server.oauth)
    if server.roots:  # servers show other tools to a client that has roots
        resolved["roots"] = list(server.roots)
    if (server.elicitation, server.sampling) != ("decline", "deny"):  # and to one that can be asked
        resolved["relays"] = [server.elicitation, server.sampling]
    if server.client_roots:
        resolved["client_roots"] = True
    return digest_json(resolved)
