"""Client authentication by a signature instead of a secret: `private_key_jwt` (RFC 7523).

The kind of key decides the algorithm: P-256 gives ES256, RSA (2048 bits or more) RS256, Ed25519 EdDSA.

SECURITY: an assertion is for one issuer, is used once and ends after a minute; the key never leaves this process.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, TypeAlias

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from moonpool.oauth.errors import OAuthError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_Key: TypeAlias = "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey"

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LIFETIME_S: Final = 60
_RSA_BITS_MIN: Final = 2048


def client_assertion(private_key: str, *, client_id: str, issuer: str) -> str:
    """A signed statement that we are `client_id`, for `issuer`. Raises OAuthError, which quotes no key."""
    try:
        key = serialization.load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OAuthError('"private_key" is not a private key in PEM without a password') from None
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now + _LIFETIME_S,
        "jti": secrets.token_urlsafe(24),
    }
    usable, algorithm = _usable(key)
    return jwt.encode(claims, usable, algorithm)


def _usable(key: PrivateKeyTypes) -> tuple[_Key, str]:
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key, "ES256"
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _RSA_BITS_MIN:
        return key, "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key, "EdDSA"
    raise OAuthError('"private_key" must be a P-256, an Ed25519 or an RSA key of at least 2048 bits')
