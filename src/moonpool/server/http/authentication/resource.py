"""What this service is called in tokens: its resource identifiers (RFC 8707). Pure.

The service is `<origin>/mcp`; `/sse` is another door to the same. `<origin>/mcp/<profile>` is one profile of it, and a
token for that is good for that profile only.

SECURITY: the origins are the operator's (`public_url`, or the addresses that are listened on), never a request's: or
whoever sends a request could choose whose tokens are accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from moonpool.core.errors import ConfigError
from moonpool.oauth.addresses import canonical, check_address
from moonpool.oauth.errors import OAuthError
from moonpool.server.http.authentication.access_tokens import TokenRefusedError, told

MCP: Final = "/mcp"
SSE: Final = "/sse"
PROFILE: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_PROFILE_PATH: Final = re.compile(rf"{MCP}/({PROFILE.pattern})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Resource:
    """The service under its origins; the first is the one to name where none was asked for."""

    origins: tuple[str, ...]

    def identifier(self, path: str = MCP, *, origin: str = "") -> str:
        """The identifier of the resource at `path`, under `origin` if that is one of ours."""
        return f"{origin if origin in self.origins else self.origins[0]}{path}"

    def is_path(self, path: str) -> bool:
        """Whether a resource is there."""
        return path in {MCP, SSE} or _PROFILE_PATH.fullmatch(path) is not None

    def profile_for(self, audiences: tuple[str, ...], also: tuple[str, ...] = ()) -> str | None:
        """The profile that a token for these audiences is limited to; None: it is for the whole service.

        `also` are further names of the service, compared as they are. Raises TokenRefusedError if it is for others.
        """
        paths = {path for one in audiences if (path := self._path(one))}
        if paths & {MCP, SSE} or not set(also).isdisjoint(audiences):
            return None
        profiles = {match[1] for path in paths if (match := _PROFILE_PATH.fullmatch(path))}
        if len(profiles) == 1:
            return profiles.pop()
        shown = told(audiences)
        raise TokenRefusedError(f"it is for {shown}, not for {self.identifier()} (aud)")

    def _path(self, audience: str) -> str:
        """The path of an identifier of ours, without a slash at its end; empty for those of others."""
        if not audience.isascii() or not audience.isprintable() or " " in audience:
            return ""  # a parser of addresses would leave out some of it
        try:
            parts = urlsplit(audience)
            if parts.scheme.lower() not in {"http", "https"} or parts.query or parts.fragment or parts.username:
                return ""
            shown = canonical(audience)
        except ValueError:
            return ""
        origin = next((one for one in self.origins if shown.startswith(f"{one}/")), "")
        return shown.removeprefix(origin).removesuffix("/") if origin else ""


def checked_public_url(url: str) -> str:
    """`url` as an origin, in one spelling. Raises ConfigError."""
    try:
        check_address(url, "address", server_url=url)
    except OAuthError as error:
        raise ConfigError(f"public_url: {error}; write https://moonpool.example.com") from None
    if urlsplit(url).path not in {"", "/"} or urlsplit(url).query:
        raise ConfigError(f"public_url is {url[:100]!r}, but must be scheme, host and port only")
    return canonical(url)
