"""What code writes decides nothing at a next start: not the variables of servers, and not its own network."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import moonpool
from apps import fixture_server
from moonpool.ipybox import CodeExecutor, generate_mcp_sources
from moonpool.ipybox.env_file import with_env_file
from moonpool.ipybox.kernel_mgr.client import KernelClient
from moonpool.ipybox.kernel_mgr.server import KernelGateway
from moonpool.ipybox.registered_servers import register, registered

pytestmark = pytest.mark.anyio

ECHO: dict[str, Any] = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}
SERVER: dict[str, Any] = {**ECHO, "env": {"API_URL": "${API_URL:-https://api.example}"}}
ATTEMPTS = """
import os
def attempt(action):
    try:
        action()
        return "done"
    except OSError as error:
        return error.strerror
def attempts(path, text):
    aside = path + ".aside"
    def write():
        with open(path, "w") as file:
            file.write(text)
    def put_in_its_place():
        with open(aside, "w") as file:
            file.write(text)
        os.replace(aside, path)
    changes = [write, put_in_its_place, lambda: os.rename(path, aside + "2"), lambda: os.unlink(path)]
    return [attempt(change) for change in changes]
"""
WHERE = """
import json
from mcptools.echo import environment
seen = environment.run(environment.Params())
print((json.loads(seen) if isinstance(seen, str) else dict(seen))["API_URL"])
"""


@pytest.mark.req("I-005")
async def test_code_makes_no_env_file_wherever_it_works(project: Path) -> None:
    above, work, images = project / "above", project / "above/work", project / "above/pictures"
    for folder in (work, images):
        folder.mkdir(parents=True)
    os.chdir(work)
    await generate_mcp_sources("echo", SERVER, above / "mcptools")
    async with CodeExecutor(working_dir=above, images_dir=project / "pictures") as executor:
        for path in (above / ".env", work / ".env", project / "pictures" / ".env"):
            said = await executor.execute(f"{ATTEMPTS}\nprint(attempts({str(path)!r}, 'API_URL=https://evil.example'))")
            assert "done" not in (said.text or "done")
            assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"", 0o600)
        await executor.reset()
        assert (await executor.execute(WHERE)).text == "https://api.example"


async def test_code_of_a_session_makes_no_env_file_for_a_later_executor(project: Path) -> None:
    await generate_mcp_sources("echo", SERVER, project / "mcptools")
    async with moonpool.session(workspace=project, environment="base") as session:
        await session.run("open('own.txt', 'w').write('x')")
        attack = await session.run(f"{ATTEMPTS}\nattempts({str(project / '.env')!r}, 'API_URL=https://evil.example')")
        assert "done" not in attack.data
        async with CodeExecutor() as executor:
            assert (await executor.execute(WHERE)).text == "https://api.example"


async def test_code_brings_back_no_server_whose_package_was_removed(project: Path) -> None:
    root = project / "mcptools"
    make = "import os\nos.makedirs('mcptools/gone')\nprint('made')"

    def add_and_remove() -> None:
        (root / "gone").mkdir(parents=True)
        register(root, "gone", {"command": "/bin/false"}, os.environ)
        shutil.rmtree(root)

    add_and_remove()
    async with moonpool.session(workspace=project, environment="base") as session:
        assert (await session.run(make)).stdout == "made\n"
    assert (root / "gone").is_dir()
    assert registered([root], os.environ) == {}
    shutil.rmtree(root)
    add_and_remove()
    async with CodeExecutor() as executor:
        assert (await executor.execute(make)).text == "made"
    assert (root / "gone").is_dir()
    assert registered([root], os.environ) == {}


async def test_code_of_any_session_changes_no_packages_of_servers(project: Path) -> None:
    root = project / "below" / "mcptools"
    for name in ("stays", "goes"):
        (root / name).mkdir(parents=True)
        register(root, name, {"command": "/bin/false"}, os.environ)
    async with moonpool.session(workspace=project, environment="base") as session:
        (root / "goes").rmdir()
        tries = "[lambda: os.mkdir('below/mcptools/goes'), lambda: os.rename('below', 'aside')]"
        tried = await session.run(f"{ATTEMPTS}\n[attempt(one) for one in {tries}]")
        assert "done" not in tried.data
        assert len(tried.data) == 2
    assert list(registered([root], os.environ)) == ["stays"]


async def test_an_env_file_counts_as_it_was_before_code_ran(project: Path) -> None:
    env = project / ".env"
    await generate_mcp_sources("echo", SERVER, project / "mcptools")
    env.write_text("API_URL=https://first.example\n", encoding="utf-8")
    async with CodeExecutor() as executor:
        assert (await executor.execute(WHERE)).text == "https://first.example"
        env.unlink()  # as an editor replaces it, which takes the guard away
        await executor.execute("open('.env', 'w').write('API_URL=https://evil.example')")
        await executor.reset()
        assert (await executor.execute(WHERE)).text == "https://first.example"
        assert with_env_file({})["API_URL"] == "https://first.example"


async def test_an_env_file_below_a_folder_of_this_process_is_not_read(project: Path) -> None:
    below = project / "below"
    below.mkdir()
    async with moonpool.session(workspace=project, environment="base") as session:
        await session.run("open('below/.env', 'w').write('API_URL=https://evil.example')")
    os.chdir(below)
    with pytest.raises(moonpool.ConfigError, match="code of this process could write it"):
        with_env_file({})


async def test_an_env_file_that_is_none_is_refused(project: Path) -> None:
    env, large = project / ".env", project / "large"
    large.write_bytes(b"A=1\n" * 100_000)
    for target, told in ((large, "it is a link"), (Path("/dev/zero"), "it is a link"), (None, "it is no file")):
        if target is None:
            env.mkdir()
        else:
            env.symlink_to(target)
        with pytest.raises(moonpool.ConfigError, match=told):
            with_env_file({})
        if target is not None:
            async with moonpool.session(workspace=project, environment="base") as session:
                error = (await session.run("1")).error
            assert error is not None
            assert "cannot be attached: .env in it is a link; put the file itself there" in error.message
            env.unlink()
    env.rmdir()
    large.rename(env)
    with pytest.raises(moonpool.ConfigError, match="larger than"):
        with_env_file({})


async def test_a_command_is_written_out(project: Path) -> None:
    with pytest.raises(moonpool.InputError, match="write the command of a server out"):
        await generate_mcp_sources("echo", {**ECHO, "command": f"${{PYTHON:-{sys.executable}}}"}, project / "mcptools")
    assert not (project / "mcptools").exists()


GRANTED = json.dumps({"network": {"allowedDomains": ["evil.example"]}})


@pytest.mark.req("I-074")
async def test_code_does_not_change_what_it_is_granted(project: Path) -> None:
    rules = project / "conf" / "rules.json"
    rules.parent.mkdir()
    rules.write_text("{}", encoding="utf-8")
    attack = f"{ATTEMPTS}\nprint(attempts({str(rules)!r}, {GRANTED!r}), attempt(lambda: os.rename('conf', 'away')))"
    async with CodeExecutor(sandbox_config="conf/rules.json") as executor:
        assert "done" not in ((await executor.execute(attack)).text or "done")
        rules.unlink()  # as an editor replaces it, which takes the guard away
        assert "done" in ((await executor.execute(attack)).text or "")
        await executor.reset()
        reached = await executor.execute("import os\nprint([name for name in os.environ if 'proxy' in name.lower()])")
        assert reached.text == "[]"
    rules.write_text("{}", encoding="utf-8")
    async with KernelGateway(port=3, sandbox_config=rules), KernelClient(port=3) as client:
        assert "done" not in ((await client.execute(attack)).text or "done")


async def test_the_default_name_is_guarded_for_sessions_that_do_not_read_it(project: Path) -> None:
    file = project / "sandbox-config.json"
    file.write_text("{}", encoding="utf-8")
    async with moonpool.session(workspace=project, environment="base") as session:
        attack = await session.run(f"{ATTEMPTS}\nattempts('sandbox-config.json', {GRANTED!r})")
    assert "done" not in attack.data
    assert file.read_text(encoding="utf-8") == "{}"


async def test_rules_behind_a_link_that_code_could_make_are_refused(project: Path) -> None:
    (project / "real.json").write_text("{}", encoding="utf-8")
    (project / "rules.json").symlink_to("real.json")
    with pytest.raises(moonpool.FolderError, match="is a link that code may have made"):
        await CodeExecutor(sandbox_config="rules.json").start()
