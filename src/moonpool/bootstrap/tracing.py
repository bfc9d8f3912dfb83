"""Settings and `OTEL_*` variables -> what makes spans, or nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from moonpool.core.errors import ConfigError
from moonpool.tracing.application import ApplicationTracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.settings import Settings
    from moonpool.tracing.spans import Tracing

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"


@asynccontextmanager
async def open_tracing(settings: Settings, environ: Mapping[str, str]) -> AsyncGenerator[Tracing | None]:
    """What the spans of a process are made with. On exit those that wait are sent. Raises ConfigError."""
    if settings.tracing != "otlp" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield ApplicationTracing() if settings.tracing == "auto" else None
        return
    _check(environ)
    try:
        from moonpool.tracing.exporter import ExporterTracing  # noqa: PLC0415  an extra; most send none
    except ImportError:
        raise ConfigError(
            "tracing is `otlp`, which needs the extra: pip install 'moonpool[otel]', or set MOONPOOL_TRACING=off"
        ) from None
    try:
        tracing = ExporterTracing(environ.get("OTEL_SERVICE_NAME") or "moonpool")
    except (ValueError, OSError) as error:
        raise ConfigError(f"tracing cannot begin, because an OTEL_ variable is wrong: {str(error)[:200]}") from None
    try:
        yield tracing
    finally:
        await asyncio.to_thread(tracing.close)


def _check(environ: Mapping[str, str]) -> None:
    """Raise ConfigError for what would only be heard of with the first spans. Addresses may hold passwords."""
    for name in _ENDPOINTS:
        if (value := environ.get(name)) and not _is_address(value):
            raise ConfigError(f"{name} must be an address such as http://127.0.0.1:4318")
    for name in _PROTOCOLS:
        if (value := environ.get(name)) and value != _PROTOCOL:
            raise ConfigError(f"{name} is {value[:40]!r}, but spans are sent by {_PROTOCOL} only; unset it")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
