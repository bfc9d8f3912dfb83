"""Keys as credentials of HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.features.keys.model import begins_like_key
from moonpool.server.http.callers import AuthenticationError, HttpCaller

if TYPE_CHECKING:
    from moonpool.features.keys.service import Keys


class KeyAuthenticator:
    """An `Authenticator`. A key is a program's, never a person's: it answers no question that needs one."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def authenticate(self, credential: str, /) -> HttpCaller | None:
        """Raises AuthenticationError, which does not say what is wrong with it, DatabaseError, SecretStoreError."""
        if not begins_like_key(credential):
            return None
        key = await self._keys.verify(credential)
        if key is None:
            raise AuthenticationError
        return HttpCaller(
            organisation=key.organisation_id,
            principal=f"key:{key.key_id}",
            scopes=key.scopes,
            profile=key.profile,
            limits=key.limits,
            configuration_id=key.configuration_id,
            workspace_thread=key.workspace_thread,
            variables=await self._keys.variables_of(key),
        )
