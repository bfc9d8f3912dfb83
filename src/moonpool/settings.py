"""All settings, read once and frozen. Unknown names are refused; defaults are safe.

Values come from the environment (`MOONPOOL_...`) and from the command line, which wins. `docs/reference/settings.md`
lists them; a test compares.
"""

from __future__ import annotations

import difflib
import os
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "MOONPOOL_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one process. Units are in the names."""

    data_dir: Path | None = None
    """Folder for environments, caches, the audit journal and run folders. None: by uid, see `store.paths`."""

    backend: str = "zygote"
    """`zygote` or `bubblewrap`."""

    environment: str = "base"
    """The environment for code unless the caller names one."""

    timeout_s: float = 60.0
    """Wall-clock limit of one execution unless the caller gives one. Waiting for an approval does not count."""

    timeout_s_max: float = 3600.0
    """The highest time limit that a caller may set."""

    code_bytes_max: int = 1_000_000
    result_bytes_max: int = 60 * 1024
    """JSON of `result.data`. With the rest of the envelope the printed line stays within 64 KiB (H-020)."""

    stdout_bytes_max: int = 64 * 1024
    stderr_bytes_max: int = 256 * 1024
    artifact_bytes_max: int = 32 * 1024 * 1024
    """The output of one stream in total; more ends the execution."""

    artifact_session_bytes_max: int = 256 * 1024**2
    """Output of one session kept in files; more is dropped."""

    artifact_total_bytes_max: int = 2 * 1024**3
    """The same for all executions; the oldest are removed."""

    artifact_free_bytes_min: int = 512 * 1024**2
    """Free space to leave on their disk, which the audit journal needs."""

    policy: Path | None = None
    """The organisation's rules for tool calls, in addition to those of the server configuration; the strictest wins."""

    key_policy: Path | None = None
    """The same for the user who runs code here. It only tightens: no layer loosens another."""

    session_policy: Path | None = None
    """The same for the sessions of this process."""

    tool_calls_max: int = 10_000
    """Tool calls of one execution."""

    approval_expiry_s: float = 600.0
    """How long a question waits for an answer; then the call is refused."""

    approval_wait_s: float = 20.0
    """How long `moonpool mcp` delays the answer to a request whose code waits in the queue of approvals."""

    approval_command: str = ""
    """A program to start for each question in the queue, with the id and a sentence as last arguments."""

    plan_expiry_s: float = 86_400.0
    """How long a plan of a dry run can be approved and used."""

    parked_runs_max: int = 32
    """Executions of one process that may wait for approval at the same time."""

    sandboxes_max: int = 64
    """Sandboxes alive at the same time."""

    sandboxes_per_tenant_max: int = 0
    """Of these, for one tenant. 0: all for a tenant that is alone, three quarters for each when there are more."""

    pool_low: int = 2
    """Ready sandboxes kept at all times by processes that serve; `moonpool run` keeps none."""

    pool_high: int = 8
    """The maximum kept ready per sandbox key under load. 0 switches the pool off."""

    waiting_max: int = 512
    """Callers that may wait for a sandbox at the same time."""

    waiting_s_max: float = 30.0
    """How long a caller waits for a place before the answer is `busy`."""

    zygotes_max: int = 32
    """Zygotes that serve at the same time; each is one tenant's, for one environment."""

    zygotes_per_environment: int = 2
    """Zygotes of one tenant and environment; the second starts when forks have to wait."""

    zygote_forks_max: int = 1000
    """A zygote is replaced after this many sandboxes, because they share its address layout and hash seed."""

    zygote_age_s_max: float = 600.0
    """A zygote is also replaced after this time, at its next use."""

    zygote_idle_s: float = 300.0
    """A zygote without sandboxes ends after this time."""

    session_idle_s: float = 1800.0
    """A session that was not used for this time is closed."""

    limits: str = "auto"
    """What limits a sandbox as a whole: `cgroup2`, `cgroup1`, `rlimits` (nothing), or `auto`, the best available."""

    memory_bytes_max: int = 2 * 1024**3
    """Memory of a sandbox, besides its files; of each process in it where `limits` is `rlimits`."""

    cpu_s_max: int = 600
    """Processor time of a sandbox over its whole life; of each process in it where `limits` is `rlimits`."""

    cpu_cores_max: float = 2.0
    """Cores that a sandbox may keep busy, where there are control groups."""

    disk_bytes_max: int = 256 * 1024**2
    """How much a sandbox may write in total."""

    process_count_max: int = 64

    manifest_ttl_s: float = 86_400.0
    """How long a cached tool list is used without asking the server again."""

    refresh_s: float = 3600.0
    """How often serving processes list every server's tools again. 0: only when needed."""

    drift: str = "pause"
    """`pause`: a tool that its server changed dangerously is held back until accepted. `report`: it is
    only reported.
    """

    learn: str = "on"
    """What is learned from successful calls of tools: `on` (result types and examples), `types`, or `off`."""

    catalog: str = "tools"
    """How clients of the MCP server find tools: with our `tools`, or in `code`, with `execute_code` alone."""

    dense: str = "none"
    """Vector search for tools: `none` or `minilm` (a network, 23 MB)."""

    registry: str = ""
    """Where `moonpool registry add` looks names up: the https address of an MCP Registry. Empty: nowhere."""

    metrics_listen: str = ""
    """Address at which `moonpool mcp` serves `/metrics`: a loopback address and port,
    `127.0.0.1:9464`. Empty: nowhere.
    """

    file_bytes_max: int = 256 * 1024**2
    """Size of one file that is put into a sandbox or fetched from it."""

    transfer_timeout_s: float = 300.0
    """Time limit of one transfer."""

    record: str = "on"
    """`on`: the data that a replay needs of each execution is kept, redacted, beside the journal.
    `off`: none is kept.
    """

    recording_days: float = 7.0
    """How long recordings are kept."""

    recording_bytes_max: int = 512 * 1024**2
    """Size of all recordings; the oldest are removed."""

    redact_patterns: str = "on"
    """`on`: secrets are also found by their shape. `off`: only values named in the configuration are."""

    redact_personal: str = ""
    """Kinds of personal data to redact, too, e.g. `email,card`: `email`, `phone`, `card`, `iban`."""

    @classmethod
    def load(cls, environ: Mapping[str, str], **overrides: Any) -> Self:
        """Read `MOONPOOL_*` from `environ`; `overrides` that are not None win. Raises ConfigError."""
        known = {field.name for field in fields(cls)}
        hints = get_type_hints(cls)
        values: dict[str, Any] = {}
        for variable, text in environ.items():
            if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
                continue
            name = variable.removeprefix(_PREFIX).lower()
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {_PREFIX}{near[0].upper()}?" if near else ""
                raise ConfigError(f"{variable} is not a setting of Moonpool{hint}")
            values[name] = _convert(variable, text, hints[name])
        values.update({name: value for name, value in overrides.items() if value is not None})
        if (data := values.get("data_dir")) is not None and not data.is_absolute():
            values["data_dir"] = Path.cwd() / data  # sandboxes and session processes have another working directory
        settings = cls(**values)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise ConfigError for an invalid value."""
        for field in fields(self):
            value = getattr(self, field.name)
            if (isinstance(value, int | float) and value < 0) or (value == 0 and field.name not in _MAY_BE_0):
                raise ConfigError(f"{field.name} must be positive, but is {value}")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                hint = _REMOVED.get((name, value), "")
                raise ConfigError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}, but is {value!r}{hint}")
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
        if self.pool_low > self.pool_high > 0:
            raise ConfigError(f"pool_low is {self.pool_low}, but pool_high allows {self.pool_high}")
        if self.timeout_s > self.timeout_s_max:
            raise ConfigError(f"timeout_s is {self.timeout_s:g}, but timeout_s_max allows {self.timeout_s_max:g}")

    @property
    def personal_kinds(self) -> tuple[str, ...]:
        """The kinds in `redact_personal`."""
        return tuple(kind for part in self.redact_personal.split(",") if (kind := part.strip()))


_CHOICES = {
    "backend": ("zygote", "bubblewrap"),
    "limits": ("auto", "cgroup2", "cgroup1", "rlimits"),
    "drift": ("pause", "report"),
    "learn": ("on", "types", "off"),
    "catalog": ("tools", "code"),
    "dense": ("none", "minilm"),
    "record": ("on", "off"),
    "redact_patterns": ("on", "off"),
}
_REMOVED = {
    ("dense", "static"): ", which was removed: set MOONPOOL_DENSE=minilm and run `moonpool catalog build-model` once"
}
_PERSONAL_KINDS = ("email", "phone", "card", "iban")
_MAY_BE_0 = frozenset({"artifact_free_bytes_min", "pool_low", "pool_high", "sandboxes_per_tenant_max", "refresh_s"})
_NOT_SETTINGS = frozenset(
    {"MOONPOOL_DEBUG", "MOONPOOL_REQUIRE_BACKENDS", "MOONPOOL_REQUIRE_LIMITS", "MOONPOOL_SECRETS_KEY"}
)
"""`MOONPOOL_DEBUG=1` shows our tracebacks (it changes nothing else); `MOONPOOL_SECRETS_KEY` is read by
`store.secret_key` alone; the others are of the test suite.
"""


def _convert(variable: str, text: str, hint: Any) -> Any:
    try:
        if hint is int:
            return int(text.replace("_", ""))
        if hint is float:
            return float(text)
        return Path(os.path.expanduser(text)) if hint == (Path | None) else text  # noqa: PTH111
    except ValueError:
        raise ConfigError(f"{variable} must be a number, but is {text!r}") from None
