"""Removes a server's own secrets from its listing before that is stored, compared or shown.

Names, descriptions and schemas end up in wrappers in every sandbox, in the cached list and in what a model reads, and
so would a token or a password of an address that a server puts there.

SECURITY: only known values are searched. A pattern that takes a description for a secret would change the tool's
meaning and its digest; a known value is never meant to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moonpool.core.manifest import ServerListing
from moonpool.redaction.redactor import Redactor, Tally

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue


def without_secrets(listing: ServerListing, known: Redactor) -> ServerListing:
    """The listing itself if nothing is found. A tool whose name contains a secret is left out."""
    told, tally = listing.to_json(), Tally()
    cleaned = known.json_object(told, tally)
    if not tally:
        return listing
    tools = cast("list[JsonObject]", cleaned["tools"])
    kept = [tool for tool, before in zip(tools, listing.tools, strict=True) if tool.get("name") == before.name]
    warnings = cast("list[JsonValue]", cleaned["warnings"])
    if len(kept) < len(tools):
        warnings = [*warnings, f"{len(tools) - len(kept)} tools were left out: their names contain one of your secrets"]
    fixed: JsonObject = {"serverId": listing.server_id, "protocolVersion": listing.protocol_version}
    return ServerListing.from_json({**cleaned, **fixed, "tools": [*kept], "warnings": warnings})
