"""Who makes spans and who does not: settings, variables, applications; a collector that is down or slow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import moonpool as moonpool_sdk
from apps import DATA, fixture_server, open_app, run
from cli.console import moonpool
from moonpool.bootstrap.tracing import open_tracing
from moonpool.core.errors import ConfigError
from moonpool.settings import Settings
from server.services import serving
from tracing.peers import collecting

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytestmark = pytest.mark.anyio
CODE = "from servers.here import context\nresult = (await context(text='x')).data['meta']"
FAILING = "from servers.here import fail\nawait fail(text='canary')"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be an address"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf only"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "an OTEL_ variable is wrong"),
    ],
)
async def test_wrong_variables_stop_the_start(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        async with open_tracing(Settings(tracing="otlp"), variables):
            pass


async def test_without_the_extra_there_is_one_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "moonpool.tracing.exporter", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'moonpool\[otel\]'"):
        async with open_tracing(Settings(tracing="otlp"), {}):
            pass


@pytest.mark.parametrize(("setting", "variables"), [("off", {}), ("auto", {}), ("otlp", {"OTEL_SDK_DISABLED": "True"})])
async def test_where_nobody_wants_spans_there_are_none(setting: Any, variables: dict[str, str]) -> None:
    async with open_tracing(Settings(tracing=setting), variables) as tracing:
        assert tracing is None or tracing.begin("x") is None


@pytest.mark.slow
def test_commands_send_theirs_before_they_end(tmp_path: Path) -> None:
    with collecting() as collector:
        more = {"MOONPOOL_TRACING": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        ended = moonpool(tmp_path, "run", "-c", "result = 1", **more)
        assert ended.exit_code == 0, ended.stderr
        assert [one.name for one in collector.spans] == ["execution python"]


@pytest.mark.parametrize("is_there", [pytest.param(False, id="down", marks=pytest.mark.slow), True])
async def test_a_collector_holds_nothing_up(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """INVARIANT: executions do not wait for it, what waits has a limit, and the end waits for a bounded time."""
    monkeypatch.setattr("moonpool.tracing.exporter.LAST_S", 0.05)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    with collecting() as collector:
        collector.go.clear()  # it takes spans and answers nothing
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url if is_there else "http://127.0.0.1:9")
        async with open_app(tracing="otlp") as app:
            for _ in range(3):
                assert (await run(app, "result = 1")).data == 1
            tracing = app.engine.tracing
            assert tracing is not None
            for _ in range(1000):
                span = tracing.begin("one of many")
                assert span is not None
                span.end()
        assert len(collector.bodies) <= 2  # the one that was held, and the rest of the queue once it may go


@pytest.fixture
def provider() -> Generator[InMemorySpanExporter]:
    """An application that has set OpenTelemetry up."""
    exporter, own = InMemorySpanExporter(), TracerProvider()
    own.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_TRACER_PROVIDER", own)
        yield exporter
        own.shutdown()


@pytest.mark.req("H-033")
async def test_an_applications_current_span_is_the_parent(
    provider: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    token = context.attach(baggage.set_baggage("user", "canary"))
    try:
        async with moonpool_sdk.session(servers={"here": fixture_server("traced.py")}) as session:
            with api.get_tracer("application").start_as_current_span("of the application") as span:
                ran = await session.run(CODE)
                await session.run(FAILING)
    finally:
        context.detach(token)
    own = span.get_span_context()
    ended = provider.get_finished_spans()
    assert {one.context.trace_id for one in ended} == {own.trace_id}
    assert sorted({one.name for one in ended}) == [
        "execute_tool context", "execute_tool fail", "execution python", "of the application", "tools/call context",
        "tools/call fail",
    ]  # fmt: skip
    roots = [one for one in ended if one.name == "execution python"]
    assert [one.parent and one.parent.span_id for one in roots] == [own.span_id] * 2
    call = next(one for one in ended if one.name == "tools/call context")
    assert ran.data["traceparent"] == f"00-{own.trace_id:032x}-{call.context.span_id:016x}-01"
    assert "baggage" not in ran.data
    assert "canary" not in "".join(one.to_json() for one in ended)


async def test_a_service_goes_on_with_the_applications_trace(provider: InMemorySpanExporter) -> None:
    async with serving() as service, moonpool_sdk.connect(service.base, "any-key-will-do") as connected:
        with api.get_tracer("application").start_as_current_span("of the application") as span:
            assert (await connected.run("1 + 1")).data == 2
    own = span.get_span_context()
    ran = next(one for one in provider.get_finished_spans() if one.name == "execution python")
    asked = next(one for one in provider.get_finished_spans() if one.name.endswith("/executions"))
    assert (ran.context.trace_id, asked.parent and asked.parent.span_id) == (own.trace_id, own.span_id)
