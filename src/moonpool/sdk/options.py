"""What an application asks for when it opens a session, checked and turned into settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast

from moonpool.bootstrap import host_folders
from moonpool.configuration.server_files import load_servers, secret_source
from moonpool.configuration.servers import parse_config
from moonpool.configuration.value_files import read_value_file
from moonpool.core.errors import InputError
from moonpool.network.rules import HeaderCredential, NetworkRules, parse_domain
from moonpool.sdk.argument_types import is_strings, must_be
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.json import JsonObject
    from moonpool.policy import Layer
    from moonpool.sandboxes.host_folders import HostFolders

Servers: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | None"
"""A configuration file, or its content: `{"mcpServers": {...}}` or the servers by name. None: no servers."""
Approve: TypeAlias = "Callable[[Any], Any] | Literal['ask', 'queue'] | None"
FileContent: TypeAlias = "bytes | str | os.PathLike[str]"
"""Bytes, a string that is written as UTF-8, or the path of a file of this machine."""

AllowedDomains: TypeAlias = "Network | Sequence[str] | None"
"""What code may reach: domains, or a `Network`. An empty list: nothing yet. None: there is no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a session, where they differ from the settings (`MOONPOOL_...`). None: as set there."""

    timeout_s: float | None = None
    """Seconds of one execution without a `timeout` of its own; waiting for approvals does not count."""
    memory_bytes: int | None = None
    """Memory of the sandbox, where there are control groups; else of each process."""
    cpu_s: int | None = None
    """Processor time of the session's sandbox over its whole life."""
    cpu_cores: float | None = None
    """Cores that the sandbox may keep busy, where there are control groups."""
    disk_bytes: int | None = None
    """What the code may write in all."""
    processes: int | None = None
    """Processes and threads of the sandbox at a time."""
    tool_calls: int | None = None
    """Tool calls of one execution."""
    result_bytes: int | None = None
    """JSON of `Result.data`."""
    stdout_bytes: int | None = None
    """Output that a `Result` holds; what is more is kept in a file."""
    stderr_bytes: int | None = None
    """The same of error output."""
    approval_expiry_s: float | None = None
    """How long a question waits for its answer; then the call is refused."""


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
    "approval_expiry_s": "approval_expiry_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the code of a session may reach. A domain is `example.com`, `*.example.com` (every name below it) or
    `example.com:8443`; without a port it is 80 and 443.
    """

    allow: Sequence[str] = ()
    """Domains that the code may reach."""
    credentials: Mapping[str, HeaderCredential] = field(default_factory=dict[str, HeaderCredential])
    """Domains that are allowed, too, whose requests get a header from the host. The code never sees its value."""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """What was asked for. Nothing is read before `settings` or `config` is."""

    source: ClassVar[str] = "the servers given to moonpool.session"  # for messages
    servers: Servers = None
    environment: str | None = None
    policy: str | os.PathLike[str] | None = None
    approve: Approve = None
    files: Mapping[str, FileContent] | None = None
    limits: Limits | None = None
    checkpoints: bool = False
    network: AllowedDomains = None
    packages: str | Sequence[str] | None = None
    workspace: str | os.PathLike[str] | None = None
    apart: Hashable = None
    """Servers' processes are shared only by sessions for which this is equal."""
    secrets: frozenset[str] = frozenset()
    """Values that are redacted, besides those of the servers."""
    final: bool = False
    """It runs one execution only, whose files are copied to this machine."""

    def check(self) -> None:
        """Raise InputError for what cannot be meant, before anything is opened."""
        given = cast("object", self.approve)
        if not (given is None or given in ("ask", "queue") or callable(given)):
            raise InputError(f'approve must be a function, "ask", "queue" or None, not {given!r}')
        if self.limits is not None and not isinstance(cast("object", self.limits), Limits):
            raise InputError(f"limits must be moonpool.Limits(...), not {type(self.limits).__name__}")
        must_be(self.policy, str | os.PathLike | None, "policy", "a path")
        must_be(self.workspace, str | os.PathLike | None, "workspace", "a path")
        must_be(self.checkpoints, bool, "checkpoints", "True or False")
        if self.files is not None and not isinstance(cast("object", self.files), Mapping):
            raise InputError(f"files must map names in /workspace to contents, not {type(self.files).__name__}")
        for name in self.files or ():
            must_be(name, str, "the name of a file in `files`", "a string")
        if self.workspace is not None and (self.files or self.checkpoints):
            raise InputError("workspace= is a folder of this machine: it takes no files= and no checkpoints=True")

        self.network_rules()
        self.check_packages()

    def check_packages(self) -> None:
        """Raise InputError for what is no list of packages."""
        given = cast("object", self.packages)
        if not (given is None or isinstance(given, str) or is_strings(given)):
            raise InputError('packages must be "any" or a list of names such as ["numpy", "pandas*"]')

    def network_rules(self) -> NetworkRules | None:
        """What the code may reach; None without a network. Raises NetworkRuleError, InputError."""
        if self.network is None:
            return None
        return _rules(self.network if isinstance(self.network, Network) else Network(allow=self.network))

    def settings(self, environ: Mapping[str, str]) -> Settings:
        """The settings of this session. Raises ConfigError, InputError."""
        limits = self.limits or Limits()
        given = {_SETTING_OF[field.name]: getattr(limits, field.name) for field in fields(limits)}
        policy = None if self.policy is None else Path(self.policy).expanduser()
        packages = self.packages if self.packages is None or isinstance(self.packages, str) else ",".join(self.packages)
        return Settings.load(environ, environment=self.environment, policy=policy, packages=packages, **given)

    def layers(self) -> tuple[Layer, ...]:
        """Rules for all servers, besides those of files and of servers. The strictest of all decides."""
        return ()

    def folders(self, environ: Mapping[str, str]) -> HostFolders | None:
        """The folders of this machine that code sees. Raises FolderError, ConfigError."""
        return None if self.workspace is None else host_folders(self.settings(environ), environ, [self.workspace])

    def config(self, environ: Mapping[str, str]) -> McpConfig | None:
        """The servers. Raises ConfigError, SecretStoreError, InputError."""
        servers = self.servers
        if servers is None:
            return None
        if isinstance(servers, str | os.PathLike):
            return load_servers(Path(servers).expanduser(), environ, remedy="`servers` is a file, or its content")
        try:
            document = _document(servers)
            text = json.dumps(document).encode()
        except (TypeError, ValueError) as error:
            raise InputError(f"servers cannot be written as JSON: {error}") from None
        return parse_config(
            text,
            source=self.source,
            environ=environ,
            stored=secret_source(environ),
            files=read_value_file,
            leave_out=True,
        )


def _rules(network: Network) -> NetworkRules:
    """What was asked for. Raises NetworkRuleError, InputError."""
    allow = network.allow
    if isinstance(allow, str):
        raise InputError(f"network must be a list of domains, not a string: write [{allow!r}]")
    if not is_strings(allow):
        raise InputError(f'network must be a list of domains such as ["example.com"], not {allow!r}')
    wanted = "a mapping of domains to moonpool.HeaderCredential"
    must_be(network.credentials, Mapping, "credentials of a network", wanted)
    for domain, credential in network.credentials.items():
        must_be(domain, str, "a domain with a credential", "a string")
        must_be(credential, HeaderCredential, f"the credential of {domain!r}", "a moonpool.HeaderCredential")
    plain = [parse_domain(text) for text in allow]
    return NetworkRules(tuple(plain)).allowing(
        parse_domain(text, credential) for text, credential in network.credentials.items()
    )


def _document(servers: Mapping[str, Any]) -> JsonObject:
    if not isinstance(cast("object", servers), Mapping):
        raise InputError(f"servers must be a path or a mapping, not {type(servers).__name__}")
    if "mcpServers" in servers or "servers" in servers:
        return dict(servers)
    return {"mcpServers": dict(servers)}
