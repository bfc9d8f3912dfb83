"""Where blobs are: empty, the folder `files` of the data folder, or `s3://BUCKET/PREFIX?endpoint=…&region=…`.

SECURITY: credentials come from the environment's `AWS_…` variables only; a URL that holds one is refused, not quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from obstore.store import S3Config

_URL_CHARS_MAX: Final = 2048
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?", re.ASCII)
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}", re.ASCII)
_ENDPOINT: Final = re.compile(r"https?://[A-Za-z0-9.-]+|https?://\[[0-9a-fA-F:]+\]", re.ASCII)
_KEY: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OF_ROLES: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FolderAddress:
    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A bucket, and what is before each name in it. `credentials`: those of `AWS_…` variables that are keys."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""  # empty: AWS's
    region: str = "us-east-1"
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def config(self) -> S3Config:
        config: S3Config = {"region": self.region}
        if self.endpoint:
            config["endpoint"] = self.endpoint
        if self.credentials:
            config["access_key_id"], config["secret_access_key"] = (self.credentials[name] for name in _KEY)
            if token := self.credentials.get("AWS_SESSION_TOKEN"):
                config["session_token"] = token
        return config


BlobAddress: TypeAlias = FolderAddress | S3Address


def blob_address(url: str, folder: Path, environ: Mapping[str, str]) -> BlobAddress:
    """Read a URL; empty: `folder`. Raises ConfigError, which does not quote it."""
    if not url:
        return FolderAddress(folder)
    if len(url) > _URL_CHARS_MAX or not url.isprintable() or " " in url:
        raise _unusable("is too long or has characters that no URL has")
    try:
        parts = urlsplit(url)
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=8)
    except ValueError:
        raise _unusable(f"cannot be read; {_FORM}") from None
    if parts.scheme != "s3" or parts.fragment:
        raise _unusable(f"must begin with s3://; {_FORM}")
    prefix = parts.path.strip("/")
    if not _BUCKET.fullmatch(parts.netloc) or not _PREFIX.fullmatch(prefix):
        raise _unusable(f"must name a bucket of 3 to 63 characters, perhaps a prefix, and no credentials; {_FORM}")
    return S3Address(bucket=parts.netloc, prefix=prefix, credentials=_credentials(environ), **_checked_options(options))


def _checked_options(options: Mapping[str, list[str]]) -> dict[str, str]:
    if unknown := options.keys() - {"endpoint", "region"}:
        raise _unusable(f"has {len(unknown)} options that are not supported; these are: endpoint, region")
    if any(len(values) > 1 for values in options.values()):
        raise _unusable("has an option twice")
    checked = {name: values[0].rstrip("/") for name, values in options.items()}
    if "region" in checked and not _REGION.fullmatch(checked["region"]):
        raise _unusable("has a region that cannot be one; write region=eu-central-1")
    if "endpoint" in checked and not _is_endpoint(checked["endpoint"]):
        raise _unusable("has an endpoint that cannot be one; write endpoint=https://s3.example.com")
    return checked


def _is_endpoint(endpoint: str) -> bool:
    try:
        port = urlsplit(endpoint).port
    except ValueError:
        return False
    return _ENDPOINT.fullmatch(endpoint if port is None else endpoint.removesuffix(f":{port}")) is not None


def _credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """None when a role's variables are there instead, which the library reads. Raises ConfigError."""
    if all(environ.get(name) for name in _KEY):
        names = (*_KEY, "AWS_SESSION_TOKEN")
        return {name: environ[name] for name in names if environ.get(name)}
    if any(environ.get(name) for name in _OF_ROLES):
        return {}
    raise ConfigError(f"files_url needs credentials: set {_KEY[0]} and {_KEY[1]} in the environment")


_FORM: Final = "write s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION"


def _unusable(problem: str) -> ConfigError:
    return ConfigError(f"the address of files (files_url) {problem}")
