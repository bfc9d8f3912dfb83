"""Whom this machine trusts for TLS, read once for all HTTP clients: that takes 20 ms, in which nothing else runs."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from pathlib import Path

import httpx2


def system_trust() -> ssl.SSLContext:
    """The roots that httpx2 takes by itself, shared; read again once files or variables that name them have changed.

    SECURITY: whoever gets it changes nothing in it.
    """
    found = ssl.get_default_verify_paths()
    paths = tuple(Path(path) for path in (found.cafile, found.capath) if path)
    if not paths:  # httpx2 knows further places
        return httpx2.create_ssl_context()
    named = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _read((*named, *((path, path.stat().st_mtime_ns) for path in paths)))


@lru_cache(maxsize=1)
def _read(state: tuple[object, ...]) -> ssl.SSLContext:
    """Of a `state` of the files."""
    del state
    return httpx2.create_ssl_context()
