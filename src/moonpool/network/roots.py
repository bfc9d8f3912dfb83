"""Which certificate authorities are trusted: this machine's, and those in the operator's file."""

from __future__ import annotations

import encodings.idna  # noqa: F401  # pyright: ignore[reportUnusedImport]  names of hosts are encoded with it; the event loop must not wait for its file
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from moonpool.core.errors import ConfigError

_SYSTEM_ROOTS: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def trusted_roots(extra: Path | None = None) -> bytes:
    """PEM of this system's certificate authorities, and of those in the operator's file. Raises ConfigError."""
    places = [ssl.get_default_verify_paths().cafile, *_SYSTEM_ROOTS]
    found = next((path for place in places if place and (path := Path(place)).is_file()), None)
    if found is None and extra is None:
        raise ConfigError("this machine has no certificate authorities to verify servers with: install ca-certificates")
    systems = b"" if found is None else _authorities(found, "this machine's certificate authorities")
    return b"\n".join([systems, b"" if extra is None else operators_roots(extra)])


def operators_roots(path: Path) -> bytes:
    """What is in the operator's file of certificate authorities. Raises ConfigError."""
    return _authorities(path, "MOONPOOL_NETWORK_CA_FILE")


def _authorities(path: Path, named: str) -> bytes:
    try:
        content = path.read_bytes()
        upstream_context(content)
    except (OSError, ConfigError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{named}: {path}: {why}; it must be a file of certificates in PEM form") from None
    return content


@lru_cache(maxsize=4)
def upstream_context(roots: bytes) -> ssl.SSLContext:
    """For connections to servers: certificates are verified against `roots`, HTTP/1.1 only. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it requires a certificate for the name of the host
    restrict(context)
    try:
        context.load_verify_locations(cadata=roots.decode("ascii", "ignore"))  # there may be comments between them
    except (ssl.SSLError, ValueError) as error:  # ValueError: nothing is in it
        why = error.reason if isinstance(error, ssl.SSLError) else "it is empty"
        raise ConfigError(f"no certificate authorities can be read: {why}") from None
    return context


def restrict(context: ssl.SSLContext) -> None:
    """TLS 1.2 and 1.3, and HTTP/1.1 in it."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
