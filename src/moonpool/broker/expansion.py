"""`${VAR}`, `${file:PATH}` and `${secret:NAME}` in a configuration, and which of its values are secrets.

References are expanded on the host only, from what the caller passes; nothing here reads the process environment, a
file or the secret store. Five spellings are known: `${VAR}`, `${VAR:-default}`, VS Code's `${env:VAR}`, `${file:PATH}`,
and `${secret:NAME}` for what `moonpool secrets set` stored. An unset variable without a default is an error, because a
server that starts with an empty credential fails later and says something else; so is a secret that is not stored.

SECURITY: `looks_secret` decides what the redactor blanks out everywhere. When in doubt a value is a secret; the
exceptions are values that are no secret for anybody (see the function) and would make outputs unreadable if blanked.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from moonpool.broker.known_values import KnownValues
from moonpool.broker.value_files import ValueFileError
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    SecretSource: TypeAlias = Callable[[str], str | None]
    """Gives a stored secret by its name."""
    FileSource: TypeAlias = Callable[[str], str]
    """Gives the value in a file by its path, or raises ValueFileError."""

SECRET_LENGTH_MIN = 6
"""Shorter values are left alone: blanking every `abc` would destroy outputs and hide nothing."""

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_STORED = re.compile(r"secret:(.*)", re.DOTALL)
_FILE = re.compile(r"file:(.*)", re.DOTALL)
_STORED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|dsn|signature", re.IGNORECASE
)
_PLAIN_VALUES = (
    re.compile(r"(?:~|\.{1,2})?/[^\s]*"),  # a path
    re.compile(r"[A-Za-z]:\\.*"),  # a Windows path
    re.compile(r"[+-]?\d{1,11}(?:\.\d+)*"),  # a number, a port, a version
    re.compile(r"[A-Za-z]{1,12}"),  # one word: production, warning, disabled
    re.compile(r"[a-z]{1,12}(?:[_-][a-z]{1,12}){1,2}"),  # a choice: read_only, dark-mode; passphrases have more words
    re.compile(r"[A-Za-z]+(?:/[A-Za-z_+.-]+)+"),  # Europe/Berlin, application/json
    re.compile(r"[a-z]{2}_[A-Z]{2}(?:\.[A-Za-z0-9-]+)?"),  # en_GB.UTF-8
)


class Expansion:
    """Expands the strings of one server entry and remembers which values it put in."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        where: str,
        stored: SecretSource | None = None,
        files: FileSource | None = None,
    ) -> None:
        self._environ = environ
        self._where = where
        self._stored, self._files = stored, files
        self.used: dict[str, str] = {}
        self.secrets: set[str] = set()  # of `${secret:...}` and `${file:...}`: secret whatever they look like

    def expand(self, text: str, *, key: str) -> str:
        """Replace every reference in `text`. Raises ConfigError naming the variable, the server and the key."""

        def replace(match: re.Match[str]) -> str:
            if (stored := _STORED.fullmatch(match[1])) is not None:
                return self._secret(stored[1], key)
            if (named := _FILE.fullmatch(match[1])) is not None:
                return self._file(named[1], key)
            variable = _VARIABLE.fullmatch(match[1])
            if variable is None:
                raise ConfigError(
                    f'{self._where}: "{key}" holds {match[0]!r}, which is not understood; '
                    "write ${NAME}, ${NAME:-default}, ${file:PATH} or ${secret:NAME}"
                )
            return self._value(variable[1], variable[2], key)

        return _REFERENCE.sub(replace, text)

    def _secret(self, name: str, key: str) -> str:
        if not is_secret_name(name):
            raise ConfigError(
                f'{self._where}: "{key}" names the secret {name[:40]!r}; use up to 128 letters, digits, "_", "-", "."'
            )
        value = None if self._stored is None else self._stored(name)
        if value is None:
            raise ConfigError(
                f'{self._where}: "{key}" uses ${{secret:{name}}}, which is not stored; '
                f"store it: moonpool secrets set {name}"
            )
        self.secrets.add(value)
        return value

    def _file(self, path: str, key: str) -> str:
        problem = "cannot be read here"
        try:
            if self._files is not None:
                value = self._files(path)
                self.secrets.add(value)
                return value
        except ValueFileError as error:
            problem = str(error)
        raise ConfigError(f'{self._where}: "{key}" uses ${{file:{path[:200]}}}; the file {problem}')

    def _value(self, name: str, default: str | None, key: str) -> str:
        value = self._environ.get(name)
        if default is not None and not value:  # `:-` means unset or empty, as in a shell
            return default
        if value is None:
            raise ConfigError(
                f'{self._where}: "{key}" uses ${{{name}}}, but the environment variable {name} is not set; '
                f"set it, or write ${{{name}:-default}}"
            )
        self.used[name] = value
        return value


def is_secret_name(name: str) -> bool:
    """Whether a stored secret may have this name."""
    return _STORED_NAME.fullmatch(name) is not None


def looks_secret(name: str, value: str) -> bool:
    """Whether `value`, given under `name`, must never be shown.

    No: under 6 characters; a URL (its credentials are found separately); a path, number, version, locale, time zone or
    media type; one plain word, or up to three in small letters joined by `_` or `-`, unless the name itself says secret
    (`key`, `token`, `password`, `auth`...).
    Everything else: yes.
    """
    value = value.strip()
    if len(value) < SECRET_LENGTH_MIN or value.lower() in {"enabled", "disabled"}:
        return False
    if value.startswith(("http://", "https://")):
        return False  # what is secret inside a URL is found by `secrets_in_url`
    if _SECRET_NAME.search(name):
        return True
    return not any(pattern.fullmatch(value) for pattern in _PLAIN_VALUES)


def secrets_in(name: str, value: str) -> Iterator[str]:
    """Every text inside one configured value that the redactor must know."""
    if looks_secret(name, value):
        yield value.strip()
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() in {"bearer", "basic", "token", "apikey"} and len(token) >= SECRET_LENGTH_MIN:
            yield token.strip()
    yield from secrets_in_url(value)


def secrets_in_url(text: str) -> Iterator[str]:
    """Passwords and secret-looking query values of a URL, as written and decoded."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    found = [parts.password] if parts.password else []
    found += [value for name, value in parse_qsl(parts.query) if looks_secret(name, value)]
    for value in found:
        if len(value) >= SECRET_LENGTH_MIN:
            yield from {value, unquote(value)}


def conceal(text: str, secrets: frozenset[str]) -> str:
    """Blank every known secret in `text`, in all the forms in which it may stand there."""
    if not secrets or not text:
        return text
    found = _known(secrets).scan(data := text.encode("utf-8", "surrogatepass"), 0, final=True).spans
    at, pieces = 0, list[bytes]()
    for start, end, _ in found:
        pieces += [data[at:start], b"[redacted]"]
        at = end
    return b"".join((*pieces, data[at:])).decode("utf-8", "replace")


@lru_cache(maxsize=64)
def _known(secrets: frozenset[str]) -> KnownValues:
    return KnownValues({str(number): secret for number, secret in enumerate(sorted(secrets))})
