"""Public keys of an issuer (JWK Set, RFC 7517), and signatures by them. Pure.

SECURITY: only asymmetric algorithms of a fixed list, and of these only those that fit the kind of key: a token cannot
choose that a public key is used as a shared secret. Only public members of a key are read. Keys that are too small, or
so large that they cost time, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonObject

PublicKey: TypeAlias = "rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey"

KEYS_MAX: Final = 64
KEYS_TRIED_MAX: Final = 4
"""How many keys of the same id, or without one, are tried for one token."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = (*_RSA, *_CURVES.values(), "EdDSA")
_RSA_BITS: Final = range(2048, 8193)
_EXPONENT_MAX: Final = 2**32
_KID_CHARS_MAX: Final = 512
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_MEMBER_CHARS_MAX: Final = 2048
_signatures = jwt.PyJWS(algorithms=list(ALGORITHMS))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, and the algorithms it may be used with."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: PublicKey


def read_keys(raw: JsonObject) -> tuple[SigningKey, ...]:
    """The usable keys of a set; others are left out."""
    given = raw.get("keys")
    if not isinstance(given, list):
        return ()
    read = [_read_key(one) for one in given[:KEYS_MAX] if isinstance(one, dict)]
    return tuple(key for key in read if key is not None)


def fitting(keys: Iterable[SigningKey], kid: str | None, algorithm: str) -> tuple[SigningKey, ...]:
    """The keys that a token with this header may be signed by."""
    found = (key for key in keys if kid in (None, key.kid) and algorithm in key.algorithms)
    return tuple(found)[:KEYS_TRIED_MAX]


def is_signed(token: str, keys: Iterable[SigningKey], algorithm: str) -> bool:
    """Whether one of `keys` signed `token`."""
    for one in keys:
        try:
            _signatures.decode_complete(token, one.key, algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError):
            continue
        return True
    return False


def _read_key(raw: JsonObject) -> SigningKey | None:
    kind, kid, named, uses = (raw.get(name) for name in ("kty", "kid", "alg", "key_ops"))
    if not isinstance(kind, str) or kind not in _MEMBERS:
        return None
    if raw.get("use") not in (None, "sig") or (isinstance(uses, list) and "verify" not in uses):
        return None
    if kid is not None and not (isinstance(kid, str) and len(kid) <= _KID_CHARS_MAX):
        return None
    members: dict[str, Any] = {"kty": kind} | {name: raw.get(name) for name in _MEMBERS[kind]}
    if not all(isinstance(value, str) and len(value) <= _MEMBER_CHARS_MAX for value in members.values()):
        return None
    if kind == "RSA":
        algorithms = _RSA
    else:
        algorithms = tuple(filter(None, (_CURVES.get(members["crv"]) if kind == "EC" else "EdDSA",)))
    if named is not None:
        algorithms = tuple(name for name in algorithms if name == named)
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK(members, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if isinstance(key, rsa.RSAPublicKey):
        fits = key.key_size in _RSA_BITS and key.public_numbers().e < _EXPONENT_MAX
    else:
        fits = isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey)
    return SigningKey(kid, algorithms, cast("PublicKey", key)) if fits else None
