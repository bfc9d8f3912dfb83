"""Environment variables that callers give to code: which names and values there may be. Pure.

Limits, names and words are those of Baponi's service, which its clients know. SECURITY: a name that would change how
programs of the sandbox are found, started or configured is refused, in words that do not tell the list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNT_MAX: Final = 50
NAME_CHARS_MAX: Final = 128
VALUE_CHARS_MAX: Final = 4096
TOTAL_CHARS_MAX: Final = 65_536
RESERVED_TEXT: Final = "This environment variable name is reserved by the system"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
RESERVED: Final = frozenset({
    "PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHELL",
    "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONDEBUG", "PYTHONIOENCODING",
    "PYTHONMALLOC", "PYTHONCOERCECLOCALE", "PYTHONFAULTHANDLER", "PYTHONPROFILEIMPORTTIME", "PYTHONPYCACHEPREFIX",
    "PIP_USER", "PIP_TARGET", "PIP_PREFIX",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_BIND_NOW", "LD_TRACE_LOADED_OBJECTS", "LD_PROFILE",
    "LD_DYNAMIC_WEAK",
    "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "BASH_XTRACEFD", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "IFS",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
    "NODE_PATH", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_PREFIX", "NPM_CONFIG_CACHE", "NPM_CONFIG_GLOBALCONFIG",
    "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOMODCACHE", "GOBIN", "R_LIBS_USER", "JULIA_DEPOT_PATH",
    "TERM", "USER", "LOGNAME", "MAIL", "EDITOR", "VISUAL",
    # Of this service's own sandboxes besides: what code is confined by, and how it finds proxy and authorities.
    "BASHOPTS", "SHELLOPTS", "BASH_FUNC", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
    "GIT_SSL_CAINFO", "NPM_CONFIG_CAFILE", "NODE_USE_ENV_PROXY", "NPM_CONFIG_OFFLINE", "PIP_NO_INDEX", "UV_OFFLINE",
    "UID", "EUID", "PPID", "BASH_VERSINFO",
})  # fmt: skip
RESERVED_PREFIXES: Final = ("BAPONI_", "NSJAIL_", "MOONPOOL_", "LD_", "LC_", "XDG_", "_")


def check_variables(variables: Mapping[str, str]) -> None:
    """Raises InputError, in the words of Baponi's clients. SECURITY: no value is in its text."""
    if len(variables) > COUNT_MAX:
        raise InputError(f"Too many environment variables (maximum {COUNT_MAX})")
    for name, value in variables.items():
        _check_name(name)
        _check_value(name, value)
    if sum(len(name) + len(value) for name, value in variables.items()) > TOTAL_CHARS_MAX:
        raise InputError("Total environment variable size exceeds limit (64KB)")


def _check_name(name: str) -> None:
    if not name.isascii():
        raise InputError("Environment variable keys must contain only ASCII characters")
    if not name or len(name) > NAME_CHARS_MAX:
        raise InputError(f"Environment variable keys must be 1-{NAME_CHARS_MAX} characters")
    if not _NAME.fullmatch(name):
        raise InputError(
            "Environment variable keys must start with an uppercase letter and contain only uppercase letters, "
            "digits, and underscores"
        )
    if name in RESERVED or name.startswith(RESERVED_PREFIXES):
        raise InputError(RESERVED_TEXT)


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InputError(f"Environment variable value for key {name!r} must be a string, got {type(value).__name__}")
    if len(value) > VALUE_CHARS_MAX:
        raise InputError(f"Environment variable values must be at most {VALUE_CHARS_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError("Environment variable values must be text in UTF-8") from None
    if _CONTROL.search(value):
        raise InputError("Environment variable values cannot contain null bytes or control characters")
