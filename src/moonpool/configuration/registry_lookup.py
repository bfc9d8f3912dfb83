"""Where a registry entry comes from: a file, or a registry that the operator configured. Off by default (H-050).

SECURITY: one GET, to the configured address only, without redirects and credentials; at most `BYTES_MAX` of the answer,
as it comes: a compressed one is not unpacked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonValue

BYTES_MAX: Final = 1024 * 1024
_REQUEST_S: Final = 20.0
_HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity"}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,199}/[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def is_registry_name(text: str) -> bool:
    """Whether `text` is written as a registry writes names: `io.github.someone/server`."""
    return bool(_NAME.fullmatch(text))


def read_entry_file(path: Path) -> JsonValue:
    """The JSON in `path`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    return _decoded(content, str(path))


def ask_registry(base: str, name: str) -> JsonValue:
    """The newest entry called `name` of the registry at `base`. Blocking. Raises ConfigError."""
    import httpx2  # noqa: PLC0415  it costs 0.2 s, and files need none

    try:
        parts = urlsplit(base)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        parts, safe = urlsplit(""), False
    if not safe or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"registry must be an https address without query, but is {base[:200]!r}")
    url = f"{base.rstrip('/')}/v0.1/servers/{quote(name, safe='')}/versions/latest"
    try:
        with (
            httpx2.Client(timeout=_REQUEST_S, trust_env=False, headers={"user-agent": "moonpool"}) as client,
            client.stream("GET", url, headers=_HEADERS) as response,
        ):
            content = b""
            for chunk in response.iter_raw():
                content += chunk
                if len(content) > BYTES_MAX:
                    break
            status = response.status_code
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise ConfigError(f"{parts.hostname}: the registry cannot be reached ({type(error).__name__})") from None
    if status == 404:
        raise ConfigError(f"{parts.hostname}: the registry has no server {name!r}; check the name")
    if status != 200:
        raise ConfigError(f"{parts.hostname}: the registry answers with status {status}; try again later")
    return _decoded(content, parts.hostname)


def _decoded(content: bytes, source: str) -> JsonValue:
    if len(content) > BYTES_MAX:
        raise ConfigError(f"{source}: is larger than {BYTES_MAX // 1024} KiB; this is no registry entry")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: is not JSON; a registry entry (server.json) is needed") from None
