"""`moonpool sandboxes`, `keys create --sandbox` and `orgs tools`: what they print and refuse, what goes on record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cli.console import moonpool
from moonpool.bootstrap.administration import Administration
from moonpool.bootstrap.database import open_service_data
from moonpool.core.errors import InputError
from moonpool.features.caller_limits.model import CallerLimits
from moonpool.features.keys.model import KeySpec
from moonpool.features.sandbox_configurations.model import BUILT_IN, VolumeMount
from moonpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from cli.console import Ended

SECRET = "s3cret-of-acme"


class Acme:
    """Commands about one organisation."""

    def __init__(self, home: Path) -> None:
        self.home, self.data = home, home / "data"
        assert self.run("orgs", "create", "acme").exit_code == 0

    def run(self, *arguments: Any, stdin: bytes = b"") -> Ended:
        return moonpool(self.home, *arguments, "--data-dir", self.data, stdin=stdin)

    def sandboxes(self, *arguments: Any, stdin: bytes = b"") -> Any:
        done = self.run("sandboxes", *arguments, "--org", "acme", stdin=stdin)
        assert done.exit_code == 0, done.stderr
        assert SECRET.encode() not in done.stdout + done.stderr.encode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    def records(self) -> list[dict[str, Any]]:
        shown = self.run("audit", "show", "--org", "acme", "--json").stdout
        return [json.loads(line) for line in shown.splitlines()]


@pytest.fixture
def acme(tmp_path: Path) -> Acme:
    return Acme(tmp_path)


@pytest.mark.slow
@pytest.mark.req("J-044")
def test_a_configuration_is_made_changed_used_and_deleted(acme: Acme) -> None:
    for slug in ("models", "out"):
        assert acme.run("volumes", "create", slug, "--org", "acme").exit_code == 0
    (made,) = acme.sandboxes(
        "create", "--name", "data", "--env", "data", "--language", "bash", "--timeout", "30", "--memory", "512m",
        "--cpu", "1.5", "--variable", "TOKEN", "--variable", "REGION=eu", "--allow-network", "example.com",
        "--storage", "--volume", "models", "--volume", "out:rw", "--default", "--json", stdin=SECRET.encode() + b"\n",
    )  # fmt: skip
    assert made.pop("id").startswith("sandbox_")
    assert made == {
        "name": "data", "default": True, "environment": "data", "language": "bash", "timeout_s": 30,
        "timeout_s_max": 3600, "memory_bytes": 512 * 1024**2, "cpu_cores": 1.5, "cpu_s": None, "disk_bytes": None,
        "processes": None, "variables": ["REGION", "TOKEN"], "network": ["example.com"], "storage": True,
        "volumes": [{"slug": "models", "writable": False}, {"slug": "out", "writable": True}],
    }  # fmt: skip

    key = acme.run(
        "keys", "create", "--org", "acme", "--json", "--sandbox", "data", "--thread", "work", "--variable", "A=1"
    )
    told = json.loads(key.stdout)
    assert set(told) == {"id", "key"}
    (listed,) = [json.loads(line) for line in acme.run("keys", "list", "--json").stdout.splitlines()]
    assert (listed["thread"], listed["variables"]) == ("work", ["A"])
    refused = acme.run("sandboxes", "delete", "data", "--org", "acme")
    assert refused.sentence == (
        f"keys use the configuration 'data': {told['id']}; revoke them first [configuration_conflict]"
    )

    (changed,) = acme.sandboxes(
        "change", "data", "--name", "small", "--no-variable", "REGION", "--no-network", "--no-volumes", "--no-storage",
        "--no-default", "--timeout", "5", "--json",
    )  # fmt: skip
    assert (changed["name"], changed["variables"], changed["network"], changed["volumes"]) == (
        "small",
        ["TOKEN"],
        None,
        [],
    )
    assert (changed["storage"], changed["default"], changed["timeout_s"], changed["language"]) == (
        False,
        False,
        5,
        "bash",
    )
    assert acme.sandboxes("list", "--json") == [changed] == acme.sandboxes("show", "small")

    acme.run("keys", "revoke", told["id"])
    acme.sandboxes("delete", "small")
    assert acme.sandboxes("list", "--json") == []
    records = [one for one in acme.records() if one["action"] != "created"]  # but for its volumes
    assert [one["action"] for one in records] == [
        "organisation_created", "sandbox_created", "key_created", "sandbox_changed", "key_revoked", "sandbox_deleted",
    ]  # fmt: skip
    assert {"variables REGION TOKEN", "storage True", "network example.com"} <= set(records[1]["details"])
    assert {"thread work", "variables A"} <= set(records[2]["details"])
    everything = b"".join(path.read_bytes() for path in acme.data.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything


@pytest.mark.slow
def test_what_cannot_be_done_is_one_sentence(acme: Acme) -> None:
    made = ("sandboxes", "create", "--org", "acme", "--name", "data")
    assert acme.run(*made).exit_code == 0
    for arguments, sentence in (
        (made, "there is a sandbox configuration 'data' already"),
        (("sandboxes", "create", "--org", "nobody", "--name", "a"), "there is no organisation nobody"),
        (("sandboxes", "create", "--org", "acme", "--name", "A B"), "cannot be a configuration's name"),
        (("sandboxes", "create", "--org", "acme", "--name", "b", "--memory", "9999g"), "this service allows at most"),
        (("sandboxes", "create", "--org", "acme", "--name", "b", "--memory", "lots"), "no number of bytes"),
        (("sandboxes", "create", "--org", "acme", "--name", "b", "--variable", "PATH=/x"), "reserved by the system"),
        (("sandboxes", "create", "--org", "acme", "--name", "b", "--allow-network", "localhost"), "full domain name"),
        (("sandboxes", "create", "--org", "acme", "--name", "b", "--volume", "a:rx"), "must be a volume's slug"),
        (("sandboxes", "show", "none", "--org", "acme"), "there is no sandbox configuration 'none'"),
        (("sandboxes", "list", "--org", "nobody"), "there is no organisation 'nobody'"),
        (("keys", "create", "--org", "acme", "--sandbox", "none"), "there is no sandbox configuration 'none'"),
        (("keys", "create", "--org", "acme", "--thread", "../x"), "thread_id must have"),
        (("keys", "create", "--org", "acme", "--variable", "A=1", "--variable", "A=2"), "named twice"),
        (("orgs", "tools", "off", "acme", "a b"), "cannot be a tool's name"),
        (("orgs", "tools", "off", "acme", "execute_code"), "there are Read, files_download, sandbox_execute, and"),
    ):
        assert sentence in acme.run(*arguments).sentence, arguments


def test_tools_are_switched_off_and_on(acme: Acme) -> None:
    assert acme.run("orgs", "tools", "off", "acme", "sandbox_execute").exit_code == 0
    assert acme.run("orgs", "tools", "off", "acme", "sandbox_execute").exit_code == 1
    (listed,) = [json.loads(line) for line in acme.run("orgs", "tools", "list", "acme", "--json").stdout.splitlines()]
    assert listed["tool"] == "sandbox_execute"
    assert listed["by"].startswith("command:")
    assert acme.run("orgs", "tools", "on", "acme", "sandbox_execute").exit_code == 0
    assert acme.run("orgs", "tools", "list", "acme", "--json").stdout == b""
    assert [one["action"] for one in acme.records()][1:] == ["tool_switched_off", "tool_switched_on"]


@pytest.mark.anyio
async def test_what_does_not_exist_is_no_part_of_a_configuration_and_no_tool_to_switch_off(tmp_path: Path) -> None:
    settings = Settings.load({})
    own = replace(BUILT_IN, name="own", volumes=(VolumeMount(slug="team"),))
    async with open_service_data(settings, tmp_path, {}) as opened:

        async def check_built(name: str) -> None:
            raise InputError(f"{name} is not built")

        there = Administration(opened=opened, settings=settings, data=tmp_path, by="test", check_built=check_built)
        elsewhere = replace(there, check_built=None)
        await there.create_organisation("acme", "", CallerLimits())
        with pytest.raises(InputError, match="there is no volume team; make it first: `moonpool volumes create team"):
            await there.create_sandbox("acme", own)
        await there.create_sandbox("acme", replace(own, volumes=()))
        for wanted, sentence in (
            ({"volumes": own.volumes}, "there is no volume team"),
            ({"environment": "nosuch"}, "there is no environment 'nosuch'; there is base, data"),
            ({"environment": "data"}, "data is not built"),
        ):
            with pytest.raises(InputError, match=sentence):
                await there.change_sandbox("acme", "own", lambda was, wanted=wanted: replace(was, **wanted))
        await elsewhere.change_sandbox("acme", "own", lambda was: replace(was, environment="data"))
        await there.change_sandbox("acme", "own", lambda was: replace(was, timeout_s=5))  # it was so already

        with pytest.raises(InputError, match="'execute_code' that can be switched off; there are Read, files_download"):
            await there.switch_tool("acme", "execute_code", on=False)
        assert await there.switch_tool("acme", "crm.later", on=False)


@pytest.mark.anyio
async def test_a_key_of_a_profile_with_files_finds_a_default_with_storage(tmp_path: Path) -> None:
    settings = Settings.load({})
    async with open_service_data(settings, tmp_path, {}) as opened:
        administration = Administration(opened=opened, settings=settings, data=tmp_path, by="test")
        for profile in ("baponi", "codegen", "code"):
            await administration.create_key(KeySpec(organisation_id="acme", profile=profile))
        (made,) = await opened.configurations.all("acme")
        assert (made.configuration.name, made.configuration.is_default) == ("default", True)
        assert made.configuration.has_storage
        await administration.change_sandbox("acme", "default", lambda one: one)
