"""`moonpool registry add`: a publisher's file becomes configuration where that does no harm, after a yes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from cli.console import moonpool
from moonpool.configuration.registry_entry import read_registry_server
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

NPM: dict[str, Any] = {
    "registryType": "npm",
    "identifier": "@acme/weather-mcp",
    "version": "1.4.2",
    "transport": {"type": "stdio"},
    "packageArguments": [
        {"type": "named", "name": "--units", "value": "metric"},
        {"type": "positional", "valueHint": "data_dir", "isRequired": True},
    ],
    "environmentVariables": [
        {"name": "WEATHER_KEY", "description": "The \x1b[31mkey", "isRequired": True, "isSecret": True},
        {"name": "WEATHER_LANG"},
        {"name": "WEATHER_MODE", "value": "fast"},
    ],
}
REMOTE: dict[str, Any] = {
    "type": "streamable-http",
    "url": "https://mcp.acme.example/{tenant}/mcp",
    "variables": {"tenant": {"isRequired": True}},
    "headers": [{"name": "Authorization", "value": "Bearer {key}", "variables": {"key": {"isSecret": True}}}],
}


def document(*packages: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"name": "io.acme/weather", "version": "1.4.2", "description": "Weather", "packages": packages, **members}


def read(*packages: dict[str, Any], kind: str | None = None, **members: Any) -> dict[str, Any]:
    whole = json.loads(json.dumps(document(*packages, **members)))
    return read_registry_server(whole, source="server.json", kind=kind).entry


@pytest.mark.req("H-050")
@pytest.mark.parametrize(
    ("package", "command", "args"),
    [
        pytest.param(NPM, "npx", ["-y", "@acme/weather-mcp@1.4.2", "--units", "metric", "${DATA_DIR}"], id="npm"),
        pytest.param(
            {"registryType": "pypi", "identifier": "weather-mcp", "version": "2.0"},
            "uvx",
            ["weather-mcp==2.0"],
            id="pypi",
        ),
        pytest.param(
            {
                "registryType": "oci",
                "identifier": "ghcr.io/acme/weather:1.4",
                "environmentVariables": [{"name": "WEATHER_KEY", "isRequired": True}],
            },
            "docker",
            ["run", "-i", "--rm", "-e", "WEATHER_KEY", "ghcr.io/acme/weather:1.4"],
            id="oci",
        ),
    ],
)
def test_a_package_becomes_a_pinned_command(package: dict[str, Any], command: str, args: list[str]) -> None:
    entry = read(package)
    assert (entry["command"], entry["args"]) == (command, args)


def test_a_packages_home_is_told_and_an_images_is_part_of_its_name() -> None:
    npm = json.loads(json.dumps(document({**NPM, "registryBaseUrl": "https://packages.example"})))
    told = read_registry_server(npm, source="server.json").notes
    image = {"registryType": "oci", "identifier": "acme/weather", "version": "1.4"}
    assert "https://packages.example; npx takes it from its configured source" in told[0]
    assert read({**image, "registryBaseUrl": "https://images.example"})["args"][-1] == "images.example/acme/weather:1.4"
    with pytest.raises(ConfigError, match="is no name of an oci package"):
        read({**image, "registryBaseUrl": "--privileged"})


def test_a_remote_becomes_an_address_with_variables_to_be_set() -> None:
    assert read(remotes=[{"type": "sse", "url": "https://old.example/sse"}, REMOTE]) == {
        "type": "http",
        "url": "https://mcp.acme.example/${TENANT}/mcp",
        "headers": {"Authorization": "Bearer ${KEY}"},
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"identifier": "--registry=https://evil.example"}, "no name of an npm package", id="an option"),
        pytest.param({"identifier": "a; rm -rf /"}, "no name of an npm package", id="a shell's text"),
        pytest.param({"version": "latest"}, "no single version", id="a tag"),
        pytest.param({"version": "^1.0.0"}, "no single version", id="a range"),
        pytest.param({"version": ""}, "has no version", id="no version"),
        pytest.param(
            {"packageArguments": [{"type": "positional", "value": "${AWS_SECRET_ACCESS_KEY}"}]},
            "an argument of packageArguments is ${AWS_SECRET_ACCESS_KEY}, which a configuration must not contain",
            id="reads the environment",
        ),
        pytest.param(
            {"environmentVariables": [{"name": "X", "value": "${secret:TOKEN}"}]},
            "a configuration must not contain",
            id="reads a stored secret",
        ),
        pytest.param(
            {
                "packageArguments": [
                    {
                        "type": "positional",
                        "value": "{a}{b}",
                        "variables": {"a": {"value": "$"}, "b": {"value": "{AWS_SECRET_ACCESS_KEY}"}},
                    }
                ]
            },
            "has a variable with the value $",
            id="puts a reference together",
        ),
        pytest.param(
            {"environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require /tmp/x.js"}]},
            "NODE_OPTIONS, which an entry may not set",
            id="steers the loader",
        ),
        pytest.param(
            {"runtimeArguments": [{"type": "named", "name": "-v", "value": "/:/host"}]},
            "-v /:/host; look at them",
            id="arguments to the starter",
        ),
    ],
)
def test_what_a_publisher_could_do_harm_with_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.json: io\.acme/weather: ") as refused:
        read({**NPM, **change})
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://acme.example/mcp", "https://{tenant}.example/mcp", "https://a:b@acme.example/"]
)
def test_an_address_must_be_https_with_a_fixed_host(url: str) -> None:
    with pytest.raises(ConfigError, match="only https addresses with a fixed host"):
        read(remotes=[{**REMOTE, "url": url}])


@pytest.mark.parametrize("junk", [[], {"name": 1}, {"name": "x"}, {"name": "x", "packages": {}}, {"server": {}}])
def test_what_is_no_entry_is_refused_in_one_sentence(junk: Any) -> None:
    with pytest.raises(ConfigError):
        read_registry_server(junk, source="server.json")


@pytest.mark.req("H-050", "G-045", "G-054", "L-029")
def test_nothing_is_written_without_a_yes_and_all_is_shown(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(json.dumps(document(NPM, remotes=[REMOTE])), encoding="utf-8")
    target = tmp_path / "servers.json"
    looked = moonpool(tmp_path, "registry", "add", "server.json", "--to", target)
    assert (looked.exit_code, target.exists()) == (1, False)
    assert "needs WEATHER_KEY (a secret)" in looked.stderr
    assert "it offers npm, remote" in looked.stderr
    assert "\x1b" not in looked.stderr
    added = moonpool(tmp_path, "registry", "add", "server.json", "--to", target, "--yes")
    again = moonpool(tmp_path, "registry", "add", "server.json", "--to", target, "--yes")
    options = ("--to", target, "--use", "remote", "--name", "my own", "--yes")
    remote = moonpool(tmp_path, "registry", "add", "server.json", *options)
    servers = json.loads(target.read_text(encoding="utf-8"))["mcpServers"]
    assert (added.exit_code, remote.exit_code) == (0, 0)
    assert f"moonpool tools list weather --config {target}\n" in added.stderr
    assert "not set yet: WEATHER_KEY, DATA_DIR; until then this server is left out" in added.stderr
    assert (
        '`moonpool secrets set NAME` and write ${secret:NAME} instead of ${NAME}, or give weather "disabled": true'
        in added.stderr
    )
    assert json.loads(added.stdout)["mcpServers"]["weather"] == servers["weather"]
    assert servers["weather"]["env"] == {"WEATHER_KEY": "${WEATHER_KEY}", "WEATHER_MODE": "fast"}
    assert set(servers) == {"weather", "my own"}
    assert f"moonpool tools list 'my own' --config {target}\n" in remote.stderr
    assert "has a server 'weather' already" in again.sentence


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/v0.1/servers/io.acme%2Fweather/versions/latest"
        body = json.dumps({"server": document(NPM), "_meta": {}}).encode() if known else b"{}"
        self.send_response(200 if known else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.mark.req("H-050", "G-054")
def test_names_are_looked_up_only_where_a_registry_is_configured(tmp_path: Path) -> None:
    off = moonpool(tmp_path, "registry", "add", "io.acme/weather", "--yes")
    assert "no registry is configured" in off.sentence
    server = HTTPServer(("127.0.0.1", 0), _Registry)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        found = moonpool(tmp_path, "registry", "add", "io.acme/weather", MOONPOOL_REGISTRY=base)
        missing = moonpool(tmp_path, "registry", "add", "io.acme/nothing", MOONPOOL_REGISTRY=base)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    plain = moonpool(tmp_path, "registry", "add", "io.acme/weather", MOONPOOL_REGISTRY="http://registry.example")
    assert "npx" in json.loads(found.stdout)["mcpServers"]["weather"]["command"]
    assert "has no server 'io.acme/nothing'" in missing.sentence
    assert "must be an https address" in plain.sentence
