"""The plugins for Claude Code: their manifests, the commands in them, the container, and what the skill promises."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from apps import DATA, SERVERS
from commands.process import SCRIPT
from moonpool.cli.mcp import mcp
from moonpool.core.version import VERSION

ROOT = Path(__file__).parents[2]
MARKETPLACE = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
PLUGINS: dict[str, dict[str, Any]] = {one["name"]: one for one in MARKETPLACE["plugins"]}
SKILL = ROOT / "plugin" / "codeact" / "skills" / "codeact" / "SKILL.md"
DOCKER = ROOT / "plugin" / "docker"
BLOCKS = re.compile(r"^```python(?: file=(\S+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
OF_ENTRIES = {"name", "source", "description", "version", "keywords", "license", "strict", "skills", "mcpServers"}
"""As https://code.claude.com/docs/en/plugin-marketplaces has them, of which these are used."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.req("I-096", "I-097")
def test_the_marketplace_lists_three_plugins_with_all_that_they_name() -> None:
    assert set(MARKETPLACE) <= {"name", "owner", "metadata", "plugins"}
    assert MARKETPLACE["owner"]["name"]
    assert list(PLUGINS) == ["codeact-default", "codeact-sandbox", "codeact-docker"]
    for name, plugin in PLUGINS.items():
        assert set(plugin) == OF_ENTRIES
        assert KEBAB.fullmatch(name)
        assert plugin["version"] == MARKETPLACE["metadata"]["version"] == VERSION
        folder = ROOT / plugin["source"]
        assert plugin["source"].startswith("./")
        assert folder.is_dir()
        assert plugin["strict"] is False
        assert not (folder / ".claude-plugin").exists()  # the entry is the whole manifest
        assert [(folder / skill / "SKILL.md").resolve() for skill in plugin["skills"]] == [SKILL]
        assert list(plugin["mcpServers"]) == ["moonpool"]


@pytest.mark.req("I-096")
def test_every_command_in_a_manifest_exists() -> None:
    for name in ("codeact-default", "codeact-sandbox"):
        server = PLUGINS[name]["mcpServers"]["moonpool"]
        assert (server["command"], server["args"][0]) == (SCRIPT.name, "mcp")
        context = mcp.make_context("mcp", list(server["args"][1:]))
        assert context.params["profile"] == "ipybox"
    assert context.params["sandbox"] is True
    assert context.params["sandbox_config"] == Path("sandbox-config.json")


@pytest.mark.req("I-093", "I-094", "I-095")
def test_the_container_is_as_the_documentation_says() -> None:
    found = instructions()
    words = [word for word, _ in found]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "RUN", "ARG", "COPY", "USER", "ENV", "WORKDIR", "VOLUME", "ENTRYPOINT"}
    for word, rest in found:
        if word == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
    user = words.index("USER")
    assert found[user][1] == "${UID}:${GID}"
    assert words.count("USER") == 1
    assert 'test "$UID" -ne 0' in " ".join(rest for _, rest in found)
    assert [found[at] for at, word in enumerate(words) if word == "ARG"] == [("ARG", "UID=1000"), ("ARG", "GID=1000")]
    entry = json.loads(dict(found)["ENTRYPOINT"])
    assert entry[:2] == ["moonpool", "mcp"]
    assert mcp.make_context("mcp", entry[2:]).params["workspace"] == Path(dict(found)["WORKDIR"])

    build = (DOCKER / "docker-build.sh").read_text(encoding="utf-8")
    subprocess.run(["sh", "-n", DOCKER / "docker-build.sh"], check=True)
    given = shlex.split(build[build.index("exec ") :].replace("$(id -u)", "U").replace("$(id -g)", "G"), comments=True)
    assert given[:3] == ["exec", "docker", "build"]
    assert {"UID=U", "GID=G", "plugin/docker/Dockerfile", "moonpool"} <= set(given)

    args = PLUGINS["codeact-docker"]["mcpServers"]["moonpool"]["args"]
    assert args[:3] == ["run", "-i", "--rm"]
    data = dict(found)["ENV"].partition("MOONPOOL_DATA_DIR=")[2]
    # All projects share the data, and registrations in it are kept by the path of their project
    assert args[-7:] == [
        "-v", "${PWD}:${PWD}", "-v", f"moonpool-data:{data}", "moonpool", "--workspace", "${PWD}"
    ]  # fmt: skip
    last = mcp.make_context("mcp", [*entry[2:], *args[-2:]]).params["workspace"]
    assert last == Path("${PWD}")  # not the image's own
    assert [found[at][1] for at, word in enumerate(words) if word == "VOLUME"] == [dict(found)["WORKDIR"], data]
    assert "--cap-drop=ALL" in args
    assert not any("privileged" in one or "docker.sock" in one or "cap-add" in one for one in args)


@pytest.mark.req("I-098", "I-099", "I-102", "I-103")
def test_the_skill_says_when_it_is_used_and_in_which_order_tools_are_chosen() -> None:
    _, head, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == SKILL.parent.name == "codeact"
    assert "use the codeact skill" in fields["description"]
    assert len(fields["description"]) <= 1024
    assert len(body.splitlines()) <= 500
    order = [body.index(text) for text in ("1. List `gentools/*/*/api.py`", "2. Else list `mcptools/", "3. Else write")]
    assert order == sorted(order)
    assert "never `impl.py`" in body
    assert "`run_parsed` instead of `run`" in body


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.req("I-097", "I-100", "I-102", "I-104", "I-105")
async def test_what_the_skill_teaches_works(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters

    async def allow(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": True})

    asked: list[str] = []
    command = StdioServerParameters(
        command=str(SCRIPT),
        args=PLUGINS["codeact-default"]["mcpServers"]["moonpool"]["args"],
        cwd=tmp_path,
        env={"MOONPOOL_DATA_DIR": str(DATA), "MOONPOOL_ENVIRONMENT": "base"},
    )
    server = {"command": sys.executable, "args": [str(SERVERS / "github_replica.py")]}
    blocks = re.findall(
        r"^```python(?: file=(\S+))?\n(.*?)^```", SKILL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    printed: list[str] = []
    with anyio.fail_after(120):
        async with Client(command, elicitation_callback=allow) as client:
            arguments = {"server_name": "github", "server_params": server}
            registered = await client.call_tool("register_mcp_server", arguments)
            assert not registered.is_error, registered.content
            for file, code in blocks:
                if file:
                    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                    (tmp_path / file).write_text(code, encoding="utf-8")
                    continue
                result = await client.call_tool("execute_ipython_cell", {"code": code})
                assert not result.is_error, result.content
                printed.append(result.content[0].text)
    assert "linux 200000 ['linux: change 0\\n\\nbody', 'linux: change 1\\n\\nbody']" in printed[0]
    assert printed[1] == "Repository(name='linux', stars=200000)"
    assert printed[2].splitlines() == ["linux 200000 ['linux: change 0']", "subsurface 2000 ['subsurface: change 0']"]
    assert len([one for one in asked if "wants to call github." in one]) == 8  # each call of each action
