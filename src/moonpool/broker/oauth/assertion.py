"""A client that shows who it is by a signature instead of a secret: `private_key_jwt` (RFC 7523).

The kind of key decides the algorithm: P-256 gives ES256, RSA (2048 bits or more) RS256, Ed25519 EdDSA.

SECURITY: an assertion is for one issuer, is used once and ends after a minute; the key never leaves this process.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from moonpool.broker.oauth.errors import OAuthError

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LIFETIME_S: Final = 60
_RSA_BITS_MIN: Final = 2048


def client_assertion(private_key: str, *, client_id: str, issuer: str) -> str:
    """A signed statement that we are `client_id`, for `issuer`. Raises OAuthError, which quotes no key."""
    try:
        key = serialization.load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OAuthError('"private_key" is no private key in PEM without a password') from None
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now + _LIFETIME_S,
        "jti": secrets.token_urlsafe(24),
    }
    signing = f"{_part({'alg': _algorithm(key), 'typ': 'JWT'})}.{_part(claims)}"
    return f"{signing}.{_base64url(_signature(key, signing.encode()))}"


def _algorithm(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256"
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _RSA_BITS_MIN:
        return "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "EdDSA"
    raise OAuthError('"private_key" must be a P-256, an Ed25519 or an RSA key of at least 2048 bits')


def _signature(key: object, text: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    return key.sign(text)


def _part(value: dict[str, Any]) -> str:
    return _base64url(json.dumps(value, separators=(",", ":")).encode())


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
