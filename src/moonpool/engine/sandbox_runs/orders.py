"""What can be wrong with an order for an execution by one call; the figures and texts are Baponi's.

What a caller must not read of the service is not in them; each says what is accepted instead.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, get_args
from urllib.parse import urlsplit

from moonpool.core.errors import InputError
from moonpool.core.variables import check_variables
from moonpool.features.sandbox_configurations.model import TIMEOUT_S_MAX, Language, merged_variables
from moonpool.features.storage.model import TreeName
from moonpool.features.webhooks.model import URL_CHARS_MAX, is_host
from moonpool.network.public_http import may_be_public

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.json import JsonValue
    from moonpool.engine.sandbox_runs.base import RunOwner, SandboxOrder
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.features.webhooks.model import PrivateHosts

CODE_BYTES_MAX: Final = 1024**2
METADATA_KEYS_MAX: Final = 10
METADATA_KEY_CHARS_MAX: Final = 40
METADATA_VALUE_CHARS_MAX: Final = 256
METADATA_BYTES_MAX: Final = 16 * 1024
SUB_PATHS_MAX: Final = 10
SUB_PATH_CHARS_MAX: Final = 512
_METADATA_KEY: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*", re.ASCII)
_DANGEROUS: Final = re.compile(r"\.\.|%2[eEfF]|%5[cC]|%00|%25|%[cC][01]|\x00|\\")
_LANGUAGES: Final[tuple[str, ...]] = get_args(Language)


def check(order: SandboxOrder, owner: RunOwner, *, timeout_s_max: float, private_hosts: PrivateHosts) -> None:
    """Raises InputError, which names the limit. `timeout_s_max` is what the service allows anybody, `private_hosts`
    where webhooks may go beside the public internet.
    """
    _check_code(order.code)
    if order.language is not None and order.language not in _LANGUAGES:
        raise InputError(f"unsupported language {order.language[:40]!r}, must be one of: {', '.join(_LANGUAGES)}")
    _check_timeout(order.timeout_s, owner.configuration, timeout_s_max)
    if order.thread_id is not None:
        TreeName(kind="thread", name=order.thread_id)
        if not owner.configuration.has_storage:
            raise InputError(
                "thread_id: this sandbox has no storage, so nothing persists in it; leave thread_id out, or have an "
                "administrator switch storage on"
            )
    check_metadata(order.metadata)
    check_variables(order.variables)
    variables_of(order, owner)
    check_sub_paths(order.sub_paths, owner.configuration)
    if order.webhook_url is not None:
        if order.delivery_mode != "webhook":
            raise InputError(
                "webhook_url is for asynchronous executions; send the header Prefer: respond-async with it"
            )
        check_webhook_url(order.webhook_url, private_hosts)


def variables_of(order: SandboxOrder, owner: RunOwner) -> dict[str, str]:
    """The order's over the key's over the configuration's. Raises InputError for too many together."""
    return merged_variables(owner.configuration.variables, owner.variables, order.variables)


def _check_code(code: str) -> None:
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise InputError("code must be text that UTF-8 can carry; it holds half a surrogate pair") from None
    if not 1 <= size <= CODE_BYTES_MAX:
        raise InputError(f"code must be between 1 byte and 1 MB ({CODE_BYTES_MAX:,} bytes of UTF-8), not {size:,}")


def _check_timeout(timeout_s: int | None, configuration: SandboxConfiguration, service_max: float) -> None:
    if timeout_s is None:
        return
    if not 1 <= timeout_s <= TIMEOUT_S_MAX:
        raise InputError(f"timeout must be between 1 and {TIMEOUT_S_MAX} seconds")
    most = min(configuration.timeout_s_max, service_max)
    if timeout_s > most:
        raise InputError(f"timeout must be at most {most:g} seconds in this sandbox")


def check_metadata(metadata: Mapping[str, JsonValue]) -> None:
    """Raises InputError. Values may be any JSON, where Baponi's client sends texts only."""
    if len(metadata) > METADATA_KEYS_MAX:
        raise InputError(f"metadata exceeds maximum of {METADATA_KEYS_MAX} keys")
    for key, value in metadata.items():
        if not 1 <= len(key) <= METADATA_KEY_CHARS_MAX or not _METADATA_KEY.fullmatch(key):
            raise InputError(
                f"metadata key {key[:80]!r} must be 1-{METADATA_KEY_CHARS_MAX} characters, start with alphanumeric and "
                "contain only alphanumeric, underscores, hyphens, or dots"
            )
        if isinstance(value, str) and len(value) > METADATA_VALUE_CHARS_MAX:
            raise InputError(f"metadata value for key {key!r} exceeds maximum of {METADATA_VALUE_CHARS_MAX} characters")
    if len(json.dumps(dict(metadata), ensure_ascii=False).encode(errors="surrogatepass")) > METADATA_BYTES_MAX:
        raise InputError(f"metadata exceeds maximum of {METADATA_BYTES_MAX:,} bytes of JSON")


def check_sub_paths(sub_paths: Sequence[str], configuration: SandboxConfiguration) -> None:
    """Raises InputError. Each names a folder of a volume of the configuration: `/data/<slug>/…`."""
    if len(sub_paths) > SUB_PATHS_MAX:
        raise InputError(f"sub_paths exceeds maximum of {SUB_PATHS_MAX} entries")
    slugs = {one.slug for one in configuration.volumes}
    for path in sub_paths:
        if len(path) > SUB_PATH_CHARS_MAX:
            raise InputError(f"sub_path exceeds maximum length of {SUB_PATH_CHARS_MAX} characters")
        if not path.startswith("/data/"):
            raise InputError(f"sub_path must start with /data/, got {path[:80]!r}")
        if _DANGEROUS.search(path) or not path.isprintable():
            raise InputError(f"sub_path contains dangerous characters: {path[:80]!r}")
        if slug_of(path) not in slugs:
            raise InputError(f"sub_path names no volume of this sandbox: {path[:80]!r}")


def slug_of(sub_path: str) -> str:
    """The volume that a sub path is of."""
    return sub_path.removeprefix("/data/").partition("/")[0]


def check_webhook_url(url: str, private_hosts: PrivateHosts) -> None:
    """Raises InputError for what is no https address. SECURITY: where a name leads is asked when it is dialled."""
    if len(url) > URL_CHARS_MAX:
        raise InputError(f"webhook_url exceeds maximum length of {URL_CHARS_MAX} characters")
    if not url.startswith("https://"):
        raise InputError("webhook_url must use HTTPS")
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        raise InputError("webhook_url is not an address") from None
    if not parts.hostname:
        raise InputError("webhook_url must include a hostname")
    if not url.isascii() or not url.isprintable() or " " in url or not has_port:
        raise InputError("webhook_url must be visible ASCII characters without spaces")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InputError("webhook_url must have no user name and no fragment")
    host = parts.hostname.rstrip(".").lower()
    if not is_host(host, in_brackets="[" in parts.netloc):
        raise InputError(f"webhook_url must include a hostname, and {host[:80]!r} is none")
    if not may_be_public(host) and not private_hosts.allows_name(host) and not private_hosts.allows_address(host):
        raise InputError(
            f"webhook_url must lead to the public internet, and {host[:80]} does not; its operator may list it in "
            "webhook_private_hosts"
        )
