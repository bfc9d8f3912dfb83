"""Environment variables that a caller gives to the code: which names and values can be used. Pure.

The rules are Baponi's. SECURITY: a reserved name changes what an interpreter loads, or what the sandbox itself says;
the text of its refusal is the same for all of them and does not tell which they are.
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
TOTAL_CHARS_MAX: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_PREFIXES: Final = ("BAPONI_", "NSJAIL_", "MOONPOOL_", "LD_", "LC_", "XDG_", "_")
_RESERVED: Final = frozenset(
    """
    PATH HOME TMPDIR PWD OLDPWD SHELL LANG LANGUAGE
    PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED
    PYTHONWARNINGS PYTHONOPTIMIZE PYTHONINSPECT PYTHONDEBUG PYTHONIOENCODING PYTHONMALLOC PYTHONCOERCECLOCALE
    PYTHONFAULTHANDLER PYTHONPROFILEIMPORTTIME PYTHONPYCACHEPREFIX PIP_USER PIP_TARGET PIP_PREFIX
    BASH_ENV ENV CDPATH GLOBIGNORE BASH_XTRACEFD PS1 PS2 PS4 PROMPT_COMMAND IFS
    HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
    NODE_PATH NODE_OPTIONS NODE_EXTRA_CA_CERTS NPM_CONFIG_PREFIX NPM_CONFIG_CACHE NPM_CONFIG_GLOBALCONFIG
    CARGO_HOME RUSTUP_HOME GOPATH GOMODCACHE GOBIN R_LIBS_USER JULIA_DEPOT_PATH
    TERM USER LOGNAME MAIL EDITOR VISUAL
    """.split()  # noqa: SIM905  a list would be four times as long
)


def check_variables(variables: Mapping[str, str]) -> None:
    """Raises InputError for a name or value that cannot be used, and for too many of them."""
    if len(variables) > COUNT_MAX:
        raise InputError(f"Too many environment variables (maximum {COUNT_MAX})")
    for name, value in variables.items():
        _check_one(name, value)
    if sum(len(name) + len(value) for name, value in variables.items()) > TOTAL_CHARS_MAX:
        raise InputError("Total environment variable size exceeds limit (64KB)")


def _check_one(name: str, value: str) -> None:
    if not name.isascii():
        raise InputError("Environment variable keys must contain only ASCII characters")
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InputError(f"Environment variable keys must be 1-{NAME_CHARS_MAX} characters")
    if name in _RESERVED or name.startswith(_PREFIXES):
        raise InputError("This environment variable name is reserved by the system")
    if not _NAME.fullmatch(name):
        raise InputError(
            "Environment variable keys must start with an uppercase letter and contain only uppercase letters, digits, "
            "and underscores"
        )
    if len(value) > VALUE_CHARS_MAX:
        raise InputError(f"Environment variable values must be at most {VALUE_CHARS_MAX} characters")
    if _CONTROL.search(value):
        raise InputError("Environment variable values cannot contain null bytes or control characters")
