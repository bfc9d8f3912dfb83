"""The weather server of MCP's quickstart behind Moonpool, whichever language named its tools."""

from __future__ import annotations

import anyio
import pytest

from apps import fixture_server, open_app, run

pytestmark = pytest.mark.anyio
NAMES = {
    "python": ("get_alerts", "get_forecast"),
    "node": ("get-alerts", "get-forecast"),
    "java": ("getAlerts", "getWeatherForecastByLocation"),
}
CODE = """
from servers import java, node, python
calls = [python.get_alerts, python.get_forecast, node.get_alerts, node.get_forecast, java.getAlerts,
         java.getWeatherForecastByLocation]
alerts = [await call(state="CA") for call in calls[::2]]
forecasts = [await call(latitude=38.6, longitude=-121.5) for call in calls[1::2]]
wrong = [await python.get_alerts(state="TEX"), await python.get_forecast(latitude=91, longitude=0)]
plain = await python.get_alerts(state="ZZ")
result = [
    [call.text for call in alerts], [call.text for call in forecasts],
    [call["error"]["type"] for call in wrong], [plain.ok, plain.text],
]
"""


@pytest.mark.req("G-032", "G-033", "G-034", "G-035")
@pytest.mark.slow
async def test_the_weather_server_of_each_quickstart_is_called_and_its_constraints_hold() -> None:
    servers = {language: fixture_server("weather.py", *names) for language, names in NAMES.items()}
    with anyio.fail_after(60):
        async with open_app(servers) as app:
            envelope = await run(app, CODE)

    assert envelope.error is None
    alerts, forecasts, wrong, plain = envelope.data  # pyright: ignore[reportGeneralTypeIssues]
    assert alerts == ["Event: Flood Warning\nArea: CA"] * 3
    assert forecasts == ["Tonight at 38.6, -121.5: Clear"] * 3
    assert wrong == ["ValidationError"] * 2
    assert plain == [True, "Unable to fetch alerts or no alerts found."]
