"""What a signed URL allows, and its token. Pure.

A token is `<grant>.<mac>`: the grant as JSON in base64url, and HMAC-SHA256 over that text with the installation's key.
It hides nothing: whoever has the URL can read for whom it was signed.

SECURITY: the text itself is authenticated, before anything decodes it, and only one spelling of it has this mac. Every
refusal reads the same, so nothing is learned from which check failed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from moonpool.core.errors import Fault, MoonpoolError

TOKEN_CHARS_MAX: Final = 12 * 1024
"""A path of 4,096 bytes fits, with everything else at its longest."""
_CONTEXT: Final = b"moonpool signed url 1\0"
"""So that a mac of this key counts for nothing else."""


class UrlRefusedError(MoonpoolError):
    """A signed URL is altered, expired, for another method, or its signer's credential counts no more. Nothing was
    done (HTTP 403).
    """

    code = "url_refused"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__(
            "this URL is not valid: it was altered, has expired, is for another method, or the key that asked for it "
            "counts no more; ask for a new one"
        )


class UrlGrant(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """One file, one method, until `expires_at`."""

    method: Literal["GET", "PUT"]
    organisation: str
    kind: Literal["thread", "volume"]
    owner: str
    name: str
    path: str
    size: Annotated[int, Meta(ge=0)] = 0  # of what is uploaded
    content_type: str = ""  # with which it is uploaded
    expires_at: int  # seconds since 1970
    principal: str  # who asked for it; what is done counts as theirs


def sign(grant: UrlGrant, key: bytes) -> str:
    """The token of `grant`."""
    text = _text(msgspec.json.encode(grant))
    return f"{text}.{_mac(text, key)}"


def granted(token: str, key: bytes, *, method: str, now: float) -> UrlGrant:
    """What `token` allows with `method`. Raises UrlRefusedError."""
    text, _, mac = token.partition(".")
    is_ours = len(token) <= TOKEN_CHARS_MAX and token.isascii()
    if not is_ours or not hmac.compare_digest(mac.encode("ascii", "replace"), _mac(text, key).encode()):
        raise UrlRefusedError
    try:
        grant = _decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, msgspec.MsgspecError):
        raise UrlRefusedError from None  # ours, of a version that signed something else
    if grant.method != method or grant.expires_at <= now:
        raise UrlRefusedError
    return grant


def _mac(text: str, key: bytes) -> str:
    return _text(hmac.new(key, _CONTEXT + text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_decode: Final = msgspec.json.Decoder(UrlGrant).decode
