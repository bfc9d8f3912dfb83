"""A session as an executor wants it: ipybox's defaults where the settings name none."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moonpool.bootstrap import host_folders
from moonpool.core.errors import ConfigError, InputError
from moonpool.ipybox import shell_server
from moonpool.ipybox.env_file import with_env_file
from moonpool.ipybox.registered_servers import registered
from moonpool.ipybox.sandbox_config import SandboxRules, read_rules
from moonpool.policy import Rule, Verdict, configuration_layer
from moonpool.sandboxes.code_writable import code_may_write
from moonpool.sandboxes.folder_binding import hold_env_file
from moonpool.sandboxes.host_folders import FolderError
from moonpool.sdk.options import SessionOptions
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.configuration.servers import McpConfig
    from moonpool.policy import Layer
    from moonpool.sandboxes.host_folders import HostFolders

_log = logging.getLogger("moonpool.ipybox")
_told: set[str] = set()
_ENDLESS_S: Final = 30 * 86_400.0
_DEFAULTS: Final[dict[str, Any]] = {
    "timeout_s": _ENDLESS_S,
    "timeout_s_max": _ENDLESS_S,
    "approval_expiry_s": _ENDLESS_S,
    "session_idle_s": _ENDLESS_S,
    "cpu_s_max": 7 * 86_400,
    "stdout_bytes_max": 8 * 1024**2,
    "stderr_bytes_max": 8 * 1024**2,
    "packages": "any",
}
"""ipybox has no such limits, and installs any package. Those that the operator sets (`MOONPOOL_...`) count."""


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions(SessionOptions):
    """What an executor asks for. The servers are those whose packages its code can import."""

    source = "a registered server"
    roots: tuple[Path, ...] = ()  # folders of packages
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, "Mapping[str, Any]"])  # more servers
    approval_timeout: float | None = None
    connect_timeout: float = 30.0
    asks: bool = True  # about every call, also those that policy allows
    asks_shell: bool = False  # about shell commands
    work: tuple[Path, ...] = ()  # folders of this machine that code may write; it starts in the first
    imports: tuple[Path, ...] = ()  # and those that it may only read
    rules: SandboxRules = field(default_factory=SandboxRules)  # for these folders, and the network

    def settings(self, environ: Mapping[str, str]) -> Settings:
        """The settings of this session. Raises ConfigError, InputError."""
        given = {name: value for name, value in _DEFAULTS.items() if f"MOONPOOL_{name.upper()}" not in environ}
        if "timeout_s_max" not in given:
            given.pop("timeout_s", None)  # the operator's default is below it
        if self.approval_timeout is not None:
            given["approval_expiry_s"] = self.approval_timeout
        return Settings.load(environ, environment=self.environment, **given)

    def folders(self, environ: Mapping[str, str]) -> HostFolders | None:
        """The folders of this machine that code sees. Blocking. Raises FolderError, ConfigError."""
        if not self.work:
            return None
        settings = self.settings(environ)
        with_env_file({})  # before code may write there; what is read now counts from then on
        fixed = (*self.roots, *self.rules.fixed)
        try:
            found = host_folders(settings, environ, self.work, self.imports, is_workspace=False, fixed=fixed)
            if code_may_write(here := Path.cwd()):  # perhaps below a folder, where it would not be held otherwise
                hold_env_file(here)
            return found
        except FolderError as error:
            given = "working_dir=Path(...), by default the current directory; images_dir; PYTHONPATH of kernel_env"
            raise FolderError(f"{error} ({given})") from None

    def layers(self) -> tuple[Layer, ...]:
        """Asks about all tools, those of servers too that are registered later."""
        return (_ASKS,) if self.asks else ()

    def config(self, environ: Mapping[str, str]) -> McpConfig | None:
        """The servers, with `${VAR}` from the environment or the file `.env`. Raises ConfigError."""
        found = {**registered(self.roots, environ), **self.given}
        servers = {name: self._entry(params) for name, params in found.items()}
        if self.asks_shell:
            if shell_server.NAME in servers:
                raise ConfigError(f"a server called {shell_server.NAME!r} cannot be used with approve_shell_cmds=True")
            servers[shell_server.NAME] = _SHELL
        return self._parsed(servers, environ)

    def config_of_new(self, found: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> McpConfig | None:
        """Servers that were registered after the session began; None: none.

        SECURITY: rules of servers are read when a session opens, so one that brings rules of its own waits for that.
        """
        plain = {name: params for name, params in found.items() if "moonpool" not in params}
        return self._parsed({name: self._entry(params) for name, params in plain.items()}, environ)

    def _entry(self, params: Mapping[str, Any]) -> dict[str, Any]:
        block = dict(params.get("moonpool") or {})
        block.setdefault("connect_timeout_s", self.connect_timeout)
        if not self.asks and not {"allow", "ask", "deny", "rules"} & block.keys():
            block["allow"] = ["*"]
        return {**params, "moonpool": block}

    def _parsed(self, servers: Mapping[str, Any], environ: Mapping[str, str]) -> McpConfig | None:
        return SessionOptions.config(replace(self, servers=servers), with_env_file(environ)) if servers else None


_ASKS: Final = configuration_layer((Rule(rule_id="approve_tool_calls", verdict=Verdict.ASK),))
_SHELL: Final[dict[str, Any]] = {
    "command": sys.executable,
    "args": ["-I", "-S", shell_server.__file__],
    "moonpool": {"ask": ["*"]},
}


def given_path(value: str | os.PathLike[str] | None, parameter: str) -> Path | None:
    """As `as_path`, but for None."""
    return None if value is None else as_path(value, parameter)


def as_path(value: str | os.PathLike[str], parameter: str) -> Path:
    """A parameter as a path. ipybox takes a Path; text is one here, too. Raises InputError."""
    try:
        return Path(value)
    except TypeError:
        raise InputError(f"{parameter} must be a path (str or Path), not {type(value).__name__}") from None


def environment() -> str:
    """Where code runs: `data`, which has IPython, unless MOONPOOL_ENVIRONMENT names another."""
    return os.environ.get("MOONPOOL_ENVIRONMENT") or "data"


def check_shell_approval(*, approve: bool, require: bool) -> None:
    """Raise ValueError: other ways can be closed only where commands are asked about."""
    if require and not approve:
        raise ValueError("require_shell_escape=True requires approve_shell_cmds=True")


def sandbox_rules(*, sandbox: bool, config: Path | None) -> SandboxRules:
    """What the settings file `config` says; logs once that code is in a sandbox anyway. Raises ConfigError."""
    if not sandbox:
        _tell("sandbox=False: code runs in a sandbox all the same")
    return SandboxRules() if config is None else read_rules(config)


def _tell(text: str) -> None:
    """At INFO: `sandbox=False` is ipybox's default, so most programs have never written it."""
    if text not in _told:
        _told.add(text)
        _log.info(text)


def work_folders(working_dir: Path | None, images_dir: Path | None) -> tuple[Path, ...]:
    """The folders that code may write: its own first, then one that was named for pictures, which is made."""
    if images_dir is None:
        return (working_dir or Path.cwd(),)
    images_dir.mkdir(parents=True, exist_ok=True)
    return (working_dir or Path.cwd(), images_dir)


def import_folders(kernel_env: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of PYTHONPATH that are there, without what every sandbox sees."""
    entries = [Path(entry) for entry in kernel_env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return tuple(one for one in entries if one.is_dir() and not _is_in_every_sandbox(one.resolve()))


def _is_in_every_sandbox(folder: Path) -> bool:
    return folder.is_relative_to("/usr") and not folder.is_relative_to("/usr/local")


def package_roots(working_dir: Path | None, kernel_env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where code finds `mcptools`: in the working directory, then in the folders of PYTHONPATH."""
    entries = [Path(entry) for entry in kernel_env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return tuple((base / "mcptools").absolute() for base in (working_dir or Path.cwd(), *entries))
