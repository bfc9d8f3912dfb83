"""The service's tables, as the newest migration leaves them; a test compares.

Times are seconds since 1970, as everywhere in Moonpool. Text is bounded by the features that write it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table

METADATA: Final = MetaData()

ORGANISATION: Final = Table(
    "organisation",
    METADATA,
    Column("id", String(63), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("disabled_at", Double),
    Column("rate_limit", String(32)),
    Column("concurrency_max", Integer),
    Column("quota", String(32)),
)

API_KEY: Final = Table(
    "api_key",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("organisation_id", String(63), ForeignKey("organisation.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("prefix", String(64), nullable=False),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("scopes", String(200), nullable=False),
    Column("profile", String(63)),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("last_used_at", Double),
    Column("rate_limit", String(32)),
    Column("concurrency_max", Integer),
    Column("quota", String(32)),
    Index("api_key_by_organisation", "organisation_id"),
)

CONSENT: Final = Table(
    "consent",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("principal", String(200), primary_key=True),
    Column("client_id", String(255), primary_key=True),
    Column("server_id", String(255), primary_key=True),
    Column("server_digest", String(80), nullable=False),
    Column("given_by", String(255), nullable=False),
    Column("given_at", Double, nullable=False),
    Column("withdrawn_at", Double),
)

QUOTA_USE: Final = Table(
    "quota_use",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("principal", String(200), primary_key=True),  # empty: all of the organisation's
    Column("period_start", Double, nullable=False),
    Column("used", BigInteger, nullable=False),
)
