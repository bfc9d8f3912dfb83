"""Environment variables that callers give code: which names and values they may have. Pure.

The rules are Baponi's (its SDK checks the same before it sends). Names that shells, loaders and interpreters act on are
reserved: with them a caller could change what runs instead of what it sees.

SECURITY: no message shows a value, and the one about reserved names does not say which those are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES_MAX: Final = 50
NAME_CHARS_MAX: Final = 128
VALUE_CHARS_MAX: Final = 4096
TOTAL_CHARS_MAX: Final = 64 * 1024
"""Of names and values together."""
RESERVED_TEXT: Final = "This environment variable name is reserved by the system"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
RESERVED: Final = frozenset({
    "PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE",
    "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
    "PYTHONUSERBASE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONWARNINGS",
    "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONDEBUG", "PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONCOERCECLOCALE",
    "PYTHONFAULTHANDLER", "PYTHONPROFILEIMPORTTIME", "PYTHONPYCACHEPREFIX", "PIP_USER", "PIP_TARGET", "PIP_PREFIX",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_BIND_NOW", "LD_TRACE_LOADED_OBJECTS", "LD_PROFILE",
    "LD_DYNAMIC_WEAK", "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "BASH_XTRACEFD", "PS1", "PS2", "PS4",
    "PROMPT_COMMAND", "IFS", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "NODE_PATH",
    "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_PREFIX", "NPM_CONFIG_CACHE", "NPM_CONFIG_GLOBALCONFIG",
    "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOMODCACHE", "GOBIN", "R_LIBS_USER", "JULIA_DEPOT_PATH", "TERM", "USER",
    "LOGNAME", "MAIL", "EDITOR", "VISUAL", "BASHOPTS", "SHELLOPTS", "BASH_FUNC", "BASH_VERSINFO", "UID", "EUID",
    "PPID", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO",
    "NPM_CONFIG_CAFILE", "NODE_USE_ENV_PROXY", "NPM_CONFIG_OFFLINE", "PIP_NO_INDEX", "UV_OFFLINE",
})  # fmt: skip
"""Baponi's, then ours: what code is confined by, and how it finds its proxy and certificate authorities."""
_RESERVED_PREFIXES: Final = ("BAPONI_", "NSJAIL_", "MOONPOOL_", "LD_", "LC_", "XDG_")


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise InputError unless code may be given all of these."""
    if len(variables) > VARIABLES_MAX:
        raise InputError(f"Too many environment variables (maximum {VARIABLES_MAX})")
    for name, value in variables.items():
        _check_name(name)
        _check_value(name, value)
    if sum(len(name) + len(value) for name, value in variables.items()) > TOTAL_CHARS_MAX:
        raise InputError(f"Total environment variable size exceeds limit ({TOTAL_CHARS_MAX // 1024}KB)")


def _check_name(name: str) -> None:
    if not name.isascii():
        raise InputError("Environment variable keys must contain only ASCII characters")
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InputError(f"Environment variable keys must be 1-{NAME_CHARS_MAX} characters")
    if not _NAME.fullmatch(name):
        raise InputError(
            "Environment variable keys must start with an uppercase letter and contain only uppercase letters, digits, "
            "and underscores"
        )
    if name in RESERVED or name.startswith(_RESERVED_PREFIXES):
        raise InputError(RESERVED_TEXT)


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InputError(f"Environment variable value for key {name!r} must be a string, got {type(value).__name__}")
    if len(value) > VALUE_CHARS_MAX:
        raise InputError(f"Environment variable values must be at most {VALUE_CHARS_MAX} characters ({name})")
    if _CONTROL.search(value):
        raise InputError(f"Environment variable values cannot contain null bytes or control characters ({name})")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"Environment variable values must be text in UTF-8 ({name})") from None
