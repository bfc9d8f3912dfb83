"""All settings, read once and frozen. Unknown names are refused; defaults are safe.

Values come from a TOML file (`MOONPOOL_SETTINGS_FILE`), from the environment (`MOONPOOL_...`), which wins over it, and
from the command line, which wins over both. `docs/reference/settings.md` lists them; a test compares.
"""

from __future__ import annotations

import difflib
import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta

from moonpool.core.conversion import problem_of
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.caller_limits.model import CallerLimits
from moonpool.features.webhooks.model import PrivateHosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.network.rules import NetworkRules

FILE_VARIABLE: Final = "MOONPOOL_SETTINGS_FILE"
_FILE_BYTES_MAX: Final = 256 * 1024
_PREFIX = "MOONPOOL_"
_Count: TypeAlias = Annotated[int, Meta(gt=0)]
_CountOr0: TypeAlias = Annotated[int, Meta(ge=0)]
_Amount: TypeAlias = Annotated[float, Meta(gt=0)]
_OnOff: TypeAlias = Literal["on", "off"]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one process. Units are in the names."""

    data_dir: Path | None = None
    """Folder for environments, caches, the audit journal and run folders. None: by uid, see `store.paths`."""

    backend: Literal["zygote", "bubblewrap"] = "zygote"
    """`zygote` or `bubblewrap`."""

    environment: str = "base"
    """The environment for code unless the caller names one."""

    timeout_s: _Amount = 60.0
    """Wall-clock limit of one execution unless the caller gives one. Waiting for an approval does not count."""

    timeout_s_max: _Amount = 3600.0
    """The most that a caller may ask for."""

    code_bytes_max: _Count = 1_000_000
    result_bytes_max: _Count = 60 * 1024
    """JSON of `result.data`. With the rest of the envelope the printed line stays within 64 KiB (H-020)."""

    stdout_bytes_max: _Count = 64 * 1024
    stderr_bytes_max: _Count = 256 * 1024
    artifact_bytes_max: _Count = 32 * 1024 * 1024
    """What one stream may write in all; more ends the execution."""

    artifact_session_bytes_max: _Count = 256 * 1024**2
    """Output of one session that is kept in files; more is not kept."""

    artifact_total_bytes_max: _Count = 2 * 1024**3
    """The same of all executions; the oldest make room."""

    artifact_free_bytes_min: _CountOr0 = 512 * 1024**2
    """The space they keep free on their disk, which the audit journal needs."""

    policy: Path | None = None
    """The organisation's rules for tool calls, in addition to those of the server configuration; the strictest wins."""

    key_policy: Path | None = None
    """The same for the user who runs code here. It only tightens: no layer loosens another."""

    session_policy: Path | None = None
    """The same for the sessions of this process."""

    tool_calls_max: _Count = 10_000
    """Tool calls of one execution."""

    approval_expiry_s: _Amount = 600.0
    """How long a question waits for its answer; then the call is refused."""

    approval_wait_s: _Amount = 20.0
    """How long `moonpool mcp` holds back a request whose code waits in the queue of approvals, before it says so."""

    patience_s: _Amount = 50.0
    """How long `moonpool mcp` holds back a request whose code runs on, before it answers with the execution's id."""

    approval_command: str = ""
    """A program to start for each question in the queue, with the id and a sentence as last arguments."""

    plan_expiry_s: _Amount = 86_400.0
    """How long a plan of a dry run can be approved and used."""

    parked_runs_max: _Count = 32
    """Executions of one process that may wait for approval at the same time."""

    detached_runs_max: _Count = 16
    """Executions of one principal that may go on without a request that waits; four times as many of a tenant."""

    sandboxes_max: _Count = 64
    """Sandboxes alive at the same time."""

    sandboxes_per_tenant_max: _CountOr0 = 0
    """Of these, for one tenant. 0: all for a tenant that is alone, three quarters for each when there are more."""

    pool_low: _CountOr0 = 2
    """Ready sandboxes kept at all times by processes that serve; `moonpool run` keeps none."""

    pool_high: _CountOr0 = 8
    """The most that are kept ready of one kind when many come at once. 0 switches the pool off."""

    waiting_max: _Count = 512
    """Callers that may wait for a sandbox at the same time."""

    waiting_s_max: _Amount = 30.0
    """How long a caller waits for a place before the answer is `busy`."""

    zygotes_max: _Count = 32
    """Zygotes that serve at the same time; each is one tenant's, for one environment."""

    zygotes_per_environment: _Count = 2
    """Zygotes of one tenant and environment; the second starts when forks wait for each other."""

    zygote_forks_max: _Count = 1000
    """A zygote is replaced after so many sandboxes, because they share its address layout and hash seed."""

    zygote_age_s_max: _Amount = 600.0
    """And after so long, when it is used again."""

    zygote_idle_s: _Amount = 300.0
    """A zygote without sandboxes ends after so long."""

    session_idle_s: _Amount = 1800.0
    """A session that is not used for so long is closed."""

    limits: Literal["auto", "cgroup2", "cgroup1", "rlimits"] = "auto"
    """What bounds a sandbox as a whole: `cgroup2`, `cgroup1`, `rlimits` (nothing), or `auto`, the best that works."""

    memory_bytes_max: _Count = 2 * 1024**3
    """Memory of a sandbox, besides its files; of each process in it where `limits` is `rlimits`."""

    cpu_s_max: _Count = 600
    """Processor time of a sandbox over its whole life; of each process in it where `limits` is `rlimits`."""

    cpu_cores_max: _Amount = 2.0
    """Cores that a sandbox may keep busy, where there are control groups."""

    disk_bytes_max: _Count = 256 * 1024**2
    """What a sandbox may write in all."""

    process_count_max: _Count = 64

    manifest_ttl_s: _Amount = 86_400.0
    """How long a cached tool list is used without asking the server again."""

    refresh_s: Annotated[float, Meta(ge=0)] = 3600.0
    """How often processes that serve ask every server for its tools again. 0: only when something calls for it."""

    drift: Literal["pause", "report"] = "pause"
    """`pause`: a tool that its server changed dangerously is held until accepted. `report`: it is only told."""

    learn: Literal["on", "types", "off"] = "on"
    """What calls that worked teach about tools: `on` (result types and examples), `types`, or `off`."""

    catalog: Literal["tools", "code"] = "tools"
    """Where clients of the MCP server find tools: by `tools` of ours, or in `code`, with `execute_code` alone."""

    dense: Literal["none", "minilm"] = "none"
    """Vectors in the search for tools: `none` or `minilm` (a network, 23 MB)."""

    registry: str = ""
    """Where `moonpool registry add` looks names up: the https address of an MCP Registry. Empty: nowhere."""

    database_url: str = ""
    """The service's database: `postgresql://...` or `sqlite:///FILE`. Empty: a file in the data folder."""

    database_connections_max: _Count = 10
    """Connections of one process to a PostgreSQL server."""

    files_url: str = ""
    """Where files of threads and volumes are: `s3://BUCKET/PREFIX?endpoint=...&region=...`. Empty: the data folder."""

    storage_threads_max: Annotated[int, Meta(gt=0, le=10_000)] = 10_000
    """Threads of one organisation."""

    storage_volumes_max: Annotated[int, Meta(gt=0, le=10_000)] = 100
    """Volumes of one organisation."""

    storage_bytes_max: _Count = 100 * 1024**3
    """Files of one organisation's threads and volumes; with what is still to be removed they may take twice as much."""

    replica_lease_s: _Amount = 15.0
    """How long a replica of the service on PostgreSQL may be silent before others take it for dead."""

    key_region: str = "local"
    """The second part of each new key: `sk-local-...`."""

    caller_rate_limit: str = "60000/min"
    """Requests to `moonpool serve` of each key, user or client that has no limit of its own: `60/min`, or `none`."""

    caller_concurrency_max: _CountOr0 = 0
    """Executions of it at the same time. 0: no limit."""

    caller_quota: str = "none"
    """Executions of it in a whole hour or day of UTC: `1000/day`, or `none`."""

    organisation_rate_limit: str = "none"
    """The same of all callers of an organisation together."""

    organisation_concurrency_max: _CountOr0 = 0
    organisation_quota: str = "none"

    trusted_proxies: str = ""
    """Addresses and networks of proxies whose `X-Forwarded-For` is believed, separated by commas. Empty: none."""

    webhook_private_hosts: str = ""
    """Hosts, addresses and networks that webhooks may be sent to although they are private, separated by commas."""

    tracing: Literal["auto", "otlp", "off"] = "auto"
    """Spans of OpenTelemetry: `otlp` sends them as the `OTEL_*` variables say; `auto`: only where the application that
    Moonpool is a part of has set it up; `off`: none.
    """

    metrics_listen: str = ""
    """Address at which `moonpool mcp` serves `/metrics`: a loopback address and port,
    `127.0.0.1:9464`. Empty: nowhere.
    """

    public_url: str = ""
    """The address under which others reach `moonpool serve`, as `https://moonpool.example.com`. Empty: its own."""

    oauth_issuers: Path | None = None
    """The file of OAuth issuers whose access tokens `moonpool serve` takes. None: it takes none."""

    service_url: str = ""
    """Where `moonpool mcp` forwards to: a service's address, or `local`, that of this data folder. Empty: nowhere."""

    service_key: str = ""
    """The key for a service at an address."""

    request_bytes_max: _Count = 4 * 1024**2
    """The body of one request to `moonpool serve`."""

    signed_url_s: Annotated[float, Meta(ge=1, le=86_400)] = 900.0
    """How long a signed URL for a file of a thread or volume is valid."""

    network: str = "any"
    """What a session with a network may be allowed to reach at most: domains, separated by commas; `any`; or `none`."""

    network_bytes_max: _Count = 1024**3
    """What the connections of one session may move in all, both ways."""

    network_connections_max: _Count = 32
    """Connections of one session at the same time; eight times as many of a process."""

    network_ca_file: Path | None = None
    """Certificate authorities (PEM) that a session with a network trusts besides the system's, as its host does."""

    packages: Annotated[str, Meta(pattern=r"^[!A-Za-z0-9*?._, -]*$")] = "none"
    """What sessions may install: `none`; `any`; or names with `*`, separated by commas, `!name` for those never."""

    package_index: str = ""
    """The address of the package index (https, or a local folder as `file:`). Empty: what pip is configured to use."""

    package_hosts: str = ""
    """Where the index's files are, if elsewhere: domains, or local folders as `file:`, separated by commas."""

    packages_bytes_max: _Count = 1024**3
    """What the packages of one session may take, unpacked; half of it packed."""

    package_timeout_s: _Amount = 300.0
    """How long resolving, and downloading, for one installation may take."""

    package_cache_bytes_max: _Count = 4 * 1024**3
    """What unpacked packages may take that are kept for other sessions; those not used for longest make room."""

    file_bytes_max: _Count = 256 * 1024**2
    """One file that is put into a sandbox or taken out of it."""

    transfer_timeout_s: _Amount = 300.0
    """How long one transfer may take in all."""

    record: _OnOff = "on"
    """`on`: what a replay needs of each execution is kept, redacted, beside the journal. `off`: nothing is."""

    recording_days: _Amount = 7.0
    """How long it is kept."""

    recording_bytes_max: _Count = 512 * 1024**2
    """What all recordings may take; the oldest make room."""

    kept_bytes_max: _Count = 10 * 1024**3
    """What artifacts, recordings, outcomes, plans and approvals of all tenants may take; those with most make room."""

    redact_patterns: _OnOff = "on"
    """`on`: secrets are also found by their shape. `off`: only values that the configuration names are."""

    redact_personal: str = ""
    """Kinds of personal data to redact, too, e.g. `email,card`: `email`, `phone`, `card`, `iban`."""

    @classmethod
    def load(cls, environ: Mapping[str, str], **overrides: Any) -> Self:
        """Read `MOONPOOL_*` from `environ`, and the file that it names; `overrides` that are not None win.

        Raises ConfigError.
        """
        defaults = dict(zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True))
        file = environ.get(FILE_VARIABLE)
        values = _from_file(Path(file), cls, defaults) if file else {}
        for variable, text in environ.items():
            if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
                continue
            name = variable.removeprefix(_PREFIX).lower()
            if name not in defaults:
                near = difflib.get_close_matches(name, defaults, n=1)
                hint = f"; did you mean {_PREFIX}{near[0].upper()}?" if near else "; unset it, or call it otherwise"
                raise ConfigError(f"{variable} is not a setting of Moonpool{hint}")
            values[name] = _from_text(variable, text, defaults[name])
        values.update({name: value for name, value in overrides.items() if value is not None})
        if (data := values.get("data_dir")) is not None and not data.is_absolute():
            values["data_dir"] = Path.cwd() / data  # sandboxes and processes of sessions start elsewhere
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            problem = problem_of(error, values, cls)
            hint = _REMOVED.get((problem.key, str(values.get(problem.key))), "")
            raise ConfigError(f"{problem.key} {problem.text}{hint}") from None

    def __post_init__(self) -> None:
        """Raise ConfigError for values that do not work together."""
        if unknown := [kind for kind in self.personal_kinds if kind not in _PERSONAL_KINDS]:
            near = difflib.get_close_matches(unknown[0], _PERSONAL_KINDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(_PERSONAL_KINDS)}"
            raise ConfigError(f"redact_personal names {unknown[0]!r}, which is no kind of personal data; {hint}")
        try:
            shlex.split(self.approval_command)
        except ValueError:
            raise ConfigError("approval_command has a quote without an end; close it") from None
        if self.metrics_listen:
            from moonpool.net.loopback_addresses import loopback_address  # noqa: PLC0415  most processes do not listen

            loopback_address(self.metrics_listen, what="metrics_listen")
        self.network_bound  # noqa: B018  raises for what is no list of domains
        self._check_service()
        if self.network_ca_file is not None:
            from moonpool.network.roots import operators_roots  # noqa: PLC0415  seldom used

            operators_roots(self.network_ca_file)
        if self.pool_low > self.pool_high > 0:
            raise ConfigError(f"pool_low is {self.pool_low}, but pool_high allows {self.pool_high}")
        if self.timeout_s > self.timeout_s_max:
            raise ConfigError(f"timeout_s is {self.timeout_s:g}, but timeout_s_max allows {self.timeout_s_max:g}")

    @property
    def caller_limits(self) -> CallerLimits:
        """Of a caller that has none of its own. Raises InputError."""
        return CallerLimits.parse(
            rate=self.caller_rate_limit, concurrency=self.caller_concurrency_max, quota=self.caller_quota
        )

    @property
    def organisation_limits(self) -> CallerLimits:
        """Of an organisation that has none of its own. Raises InputError."""
        return CallerLimits.parse(
            rate=self.organisation_rate_limit,
            concurrency=self.organisation_concurrency_max,
            quota=self.organisation_quota,
        )

    def _check_service(self) -> None:
        if self.service_url not in {"", "local"} and not self.service_url.startswith(("http://", "https://")):
            raise ConfigError("service_url must be `local`, or begin with https:// (http:// for this machine)")
        for limits in ("caller", "organisation"):
            try:
                getattr(self, f"{limits}_limits")
            except InputError as error:
                raise ConfigError(f"{limits} limits: {error}") from None
        if not (len(self.key_region) <= 16 and self.key_region.isascii() and self.key_region.isalnum()):
            raise ConfigError("key_region must be 1 to 16 of a-z and 0-9, because it is a part of each key")
        if self.key_region != self.key_region.lower():
            raise ConfigError("key_region must be in lower case, because it is a part of each key")
        if self.webhook_private_hosts:
            PrivateHosts.parse(self.webhook_private_hosts)
        if self.trusted_proxies:
            from moonpool.net.forwarded import trusted_networks  # noqa: PLC0415  for services behind a proxy

            trusted_networks(self.trusted_proxies)

    def __repr__(self) -> str:
        """SECURITY: without values: some hold passwords."""
        defaults = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        return f"Settings({', '.join(name for name, default in defaults if getattr(self, name) != default)})"

    @property
    def network_bound(self) -> NetworkRules | None:
        """The domains in `network`; None: any. Raises ConfigError."""
        if self.network == "any":
            return None
        from moonpool.network.rules import NetworkRuleError, NetworkRules, parse_domain  # noqa: PLC0415  seldom used

        domains = [] if self.network == "none" else self.network.split(",")
        try:
            return NetworkRules(tuple(map(parse_domain, domains)))
        except NetworkRuleError as error:
            raise ConfigError(f"MOONPOOL_NETWORK: {error}") from None

    @property
    def may_install(self) -> bool:
        """Whether `packages` allows any."""
        return self.packages.strip() not in {"", "none"}

    @property
    def personal_kinds(self) -> tuple[str, ...]:
        """The kinds in `redact_personal`."""
        return tuple(kind for part in self.redact_personal.split(",") if (kind := part.strip()))


_REMOVED = {
    ("dense", "static"): ", which was removed: set MOONPOOL_DENSE=minilm and run `moonpool catalog build-model` once"
}
_PERSONAL_KINDS = ("email", "phone", "card", "iban")
_NOT_SETTINGS = frozenset(
    {
        "MOONPOOL_DEBUG", "MOONPOOL_REQUIRE_BACKENDS", "MOONPOOL_REQUIRE_LIMITS", "MOONPOOL_REQUIRE_POSTGRES",
        "MOONPOOL_REQUIRE_SYSTEMD",
        "MOONPOOL_SECRETS_KEY", FILE_VARIABLE,
    }
)  # fmt: skip
"""`MOONPOOL_DEBUG=1` shows our tracebacks (it changes nothing else); `MOONPOOL_SECRETS_KEY` is read by
`store.secret_key` alone; the others are of the test suite.
"""


def _from_file(path: Path, model: type[Settings], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, of the right types. Paths in it are relative to its folder. Raises ConfigError.

    SECURITY: it names programs that are started, so nobody else may be able to write it.
    """
    import tomllib  # noqa: PLC0415  most processes have no file

    try:
        with open(path, "rb", opener=_open_now) as file:
            state, content = os.fstat(file.fileno()), file.read(_FILE_BYTES_MAX + 1)
        if not stat.S_ISREG(state.st_mode) or state.st_uid not in {0, os.geteuid()} or state.st_mode & 0o022:
            raise ConfigError(
                f"the settings {path} must be a file of this user or root that nobody else can write; chmod go-w"
            )
        if len(content) > _FILE_BYTES_MAX:
            raise ConfigError(f"the settings {path} have more than {_FILE_BYTES_MAX:,} bytes")
        values = tomllib.loads(content.decode())
    except OSError as error:
        raise ConfigError(f"the settings {path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the settings {path} are no TOML: {str(error)[:200]}") from None
    for name, value in values.items():
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; remove it"
            raise ConfigError(f"{path}: {name[:80]!r} is not a setting of Moonpool{hint}")
        if defaults[name] is None and isinstance(value, str):
            values[name] = path.absolute().parent / os.path.expanduser(value)  # noqa: PTH111
    try:
        msgspec.convert(values, model)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {problem_of(error, values, model)}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return values


def _open_now(path: str, flags: int) -> int:
    """A pipe that nobody writes to would keep us waiting."""
    return os.open(path, flags | os.O_NONBLOCK)


def _from_text(variable: str, text: str, default: Any) -> Any:
    if default is None:
        if not text:  # it would be the current folder
            raise ConfigError(f"{variable} is empty; name a folder, or unset it")
        return Path(os.path.expanduser(text))  # noqa: PTH111
    try:
        return type(default)(text)
    except ValueError:
        raise ConfigError(f"{variable} must be a number, but is {text!r}") from None
