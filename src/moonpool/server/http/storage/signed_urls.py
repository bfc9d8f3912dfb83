"""Making and checking signed URLs with the installation's key, which is read, or made, when the first one is needed."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.features.signed_urls.model import TOKEN_CHARS_MAX, UrlGrant, UrlRefusedError, granted, sign
from moonpool.server.http.request_log import BLOBS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from moonpool.features.storage.model import TreeName
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.lapsed_callers import FindLapsed

URL_CHARS_MAX: Final = TOKEN_CHARS_MAX + 1024


@dataclass(slots=True, kw_only=True)
class SignedUrls:
    """Of one installation."""

    load_key: Callable[[], bytes]  # blocking
    lifetime_s: float
    public_url: str = ""
    find_lapsed: FindLapsed | None = None
    clock: Callable[[], float] = time.time
    _key: bytes | None = field(default=None, repr=False)

    def grant(
        self, method: str, caller: HttpCaller, tree: TreeName, path: str, *, size: int = 0, content_type: str = ""
    ) -> UrlGrant:
        """What a URL for `caller` is to allow from now on."""
        return UrlGrant(
            method="PUT" if method == "PUT" else "GET",
            organisation=caller.organisation,
            kind=tree.kind,
            owner=tree.owner,
            name=tree.name,
            path=path,
            size=size,
            content_type=content_type,
            expires_at=math.floor(self.clock() + self.lifetime_s),
            principal=caller.principal,
        )

    async def url(self, request: Request, grant: UrlGrant) -> str:
        """The address. Raises InputError, SecretStoreError, DatabaseError."""
        url = f"{self._origin(request)}{BLOBS_PATH}{sign(grant, await self._loaded())}"
        if len(url) > URL_CHARS_MAX:
            raise InputError("the path is too long for a URL; use a shorter one")
        return url

    async def granted(self, token: str, method: str) -> UrlGrant:
        """What `token` allows. Raises UrlRefusedError, DatabaseError, SecretStoreError."""
        grant = granted(token, await self._loaded(), method="GET" if method == "HEAD" else method, now=self.clock())
        await self.check_signer(grant)
        return grant

    async def check_signer(self, grant: UrlGrant) -> None:
        """Whether the credential of who asked for it still counts. Raises UrlRefusedError, DatabaseError."""
        owner = (grant.organisation, grant.principal)
        if self.find_lapsed is not None and owner in await self.find_lapsed([owner]):
            raise UrlRefusedError

    def _origin(self, request: Request) -> str:
        """SECURITY: `Host` was compared with the names of this service before anything saw the request
        (`request_limits.Names`).
        """
        if self.public_url:
            return self.public_url
        if request.headers["host"] == "moonpool":  # of the service's socket, which no URL can name
            raise InputError("a signed URL needs an address of the service; set MOONPOOL_PUBLIC_URL")
        return f"{request.url.scheme}://{request.headers['host']}"

    async def _loaded(self) -> bytes:
        if self._key is None:
            self._key = await asyncio.to_thread(self.load_key)
        return self._key
