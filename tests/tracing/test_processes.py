"""Traces of real processes: `moonpool mcp` on stdio, and a service that is told to end."""

from __future__ import annotations

import json
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server
from server.raw_client import RawClient
from server.services import execute
from server.test_serve_command import Serving
from tracing.peers import collecting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
CODE = "from servers.here import context\nresult = (await context(text='x')).data['meta']['traceparent']"


def config_in(folder: Path) -> Path:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"here": fixture_server("traced.py")}}), encoding="utf-8")
    return path


def variables(url: str) -> dict[str, Any]:
    """Nothing is sent before the end."""
    return {
        "MOONPOOL_TRACING": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "600000",
    }  # fmt: skip


def test_a_client_on_stdio_names_its_span_in_meta(tmp_path: Path) -> None:
    trace, span = token_hex(16), token_hex(8)
    with collecting() as collector:
        with RawClient(config_in(tmp_path), approve="auto", **variables(collector.url)) as client:
            client.handshake()
            meta = {"traceparent": f"00-{trace}-{span}-01", "baggage": "user=canary"}
            told = client.answer(client.start(CODE, meta=meta))
        spans = collector.of(trace)
        assert sorted(spans) == [
            "execute_tool context", "execution python", "tools/call context", "tools/call execute_code"
        ]  # fmt: skip
        assert spans["tools/call execute_code"].parent == span
        assert f"00-{trace}-{spans['tools/call context'].id}-01" in json.dumps(told)


def test_a_service_sends_what_waits_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = token_hex(16)
    with collecting() as collector:
        for name, value in variables(collector.url).items():
            monkeypatch.setenv(name, value)
        with Serving(tmp_path, "--config", str(config_in(tmp_path))) as service:
            answer = service.post(execute(CODE), traceparent=f"00-{trace}-{token_hex(8)}-01")
            assert f"00-{trace}-" in answer.text
            assert collector.spans == []
            assert service.stop() == 0
        assert len(collector.of(trace)) == 5
