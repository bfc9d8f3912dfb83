"""`${VAR}`, `${file:PATH}` and `${secret:NAME}` in a configuration, and its secrets blanked in what we say of it.

References are expanded on the host only, from what the caller passes; nothing here reads the process environment, a
file or the secret store. Five spellings are known: `${VAR}`, `${VAR:-default}`, VS Code's `${env:VAR}`, `${file:PATH}`,
and `${secret:NAME}` for what `moonpool secrets set` stored. An unset variable without a default is an error, because a
server that starts with an empty credential fails later and says something else; so is a secret that is not stored.

Which of its values are secrets: `secrets`. `conceal` blanks them in what we say.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from moonpool.configuration.value_files import ValueFileError
from moonpool.core.errors import ConfigError
from moonpool.redaction.known_values import KnownValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    SecretSource: TypeAlias = Callable[[str], str | None]
    """Gives a stored secret by its name."""
    FileSource: TypeAlias = Callable[[str], str]
    """Gives the value in a file by its path, or raises ValueFileError."""

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_STORED = re.compile(r"secret:(.*)", re.DOTALL)
_FILE = re.compile(r"file:(.*)", re.DOTALL)
_STORED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


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
