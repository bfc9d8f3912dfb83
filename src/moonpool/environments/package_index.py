"""Package index of this machine: translate pip's settings into uv's environment variables.

Users configure in pip where packages come from (a mirror, a certificate, a folder of wheels); uv reads none of that.
This module asks pip and sets the variables of uv. Variables that are already set win.

Standard library only and runnable as a script (`python package_index.py COMMAND...`), because the Makefile needs it
before anything is installed. SECURITY: index addresses may hold passwords, so nothing here prints a value.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

PIP_TIMEOUT_S = 30.0
PIP_PRECEDENCE = ("global", "install", ":env:")  # later wins, as in pip


def read_pip_settings(python: str = sys.executable) -> dict[str, str]:
    """Return pip's effective settings for `install`; without pip, those of its environment variables."""
    # SECURITY: -P, else a `pip` in the current directory is run, where code of a sandbox may have put it.
    # The same for PYTHONPATH, in which an empty place is that directory.
    command = [python, "-P", "-m", "pip", "--disable-pip-version-check", "config", "list"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        listed = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=PIP_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        listed = None
    if listed is not None and listed.returncode == 0:
        return parse_pip_config(listed.stdout)
    prefix = "PIP_"
    return {
        key.removeprefix(prefix).lower().replace("_", "-"): value
        for key, value in os.environ.items()
        if key.startswith(prefix) and value
    }


def public_index(python: str = sys.executable) -> tuple[str, str]:
    """The index that pip uses when nothing is configured, and the host that its files come from; empty without pip."""
    program = "from pip._internal.models.index import PyPI as index; print(index.simple_url, index.file_storage_domain)"
    try:
        told = subprocess.run(
            [python, "-I", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            timeout=PIP_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    address, _, host = told.stdout.strip().partition(" ")
    return (address, host) if told.returncode == 0 else ("", "")


def parse_pip_config(text: str) -> dict[str, str]:
    """Parse `pip config list`: lines such as `global.index-url='https://…'`, the value as a Python literal."""
    found: dict[str, dict[str, str]] = {section: {} for section in PIP_PRECEDENCE}
    for line in text.splitlines():
        name, equals, literal = line.partition("=")
        section, _, key = name.rpartition(".")
        if equals and section in found:
            found[section][key] = _literal(literal)
    return {key: value for section in PIP_PRECEDENCE for key, value in found[section].items()}


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def uv_variables(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add so that uv finds packages where pip would."""
    indexes = [url for url in settings.get("extra-index-url", "").split() if _is_usable(url)]
    folders = [place for place in settings.get("find-links", "").split() if _is_usable(place)]
    wanted = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        # pip takes the best version of all indexes; uv would stop at the first that knows the name. Hashes are pinned.
        "UV_INDEX_STRATEGY": "unsafe-best-match" if indexes else "",
        "UV_FIND_LINKS": ",".join(folders),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", "").split()),
        "UV_HTTP_TIMEOUT": settings.get("timeout", settings.get("default-timeout", "")),
        "SSL_CERT_FILE": settings.get("cert", ""),
        "ALL_PROXY": settings.get("proxy", ""),
        "UV_NO_INDEX": "1" if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"} else "",
    }
    return {key: value for key, value in wanted.items() if value and not environ.get(key)}


def _is_usable(place: str) -> bool:
    """A `file:` address or a bare path must exist: pip ignores a missing one, uv fails."""
    parts = urlsplit(place)
    if parts.scheme in {"http", "https"}:
        return True
    return Path(unquote(parts.path) if parts.scheme == "file" else place).exists()


def main(command: list[str]) -> NoReturn:
    """Replace this process by COMMAND, with uv's variables set."""
    if not command:
        sys.exit("usage: package_index.py COMMAND [ARGUMENT...]")
    os.environ.update(uv_variables(read_pip_settings(), os.environ))
    os.execvp(command[0], command)  # noqa: S606 - the caller's own command, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
