"""What an operator installs, checked by what reads it; and a backup under load that is restored elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
import yaml

from apps import fixture_server
from cli.console import moonpool
from moonpool.bootstrap.administration import Administration
from moonpool.bootstrap.database import open_service_data
from moonpool.features.keys.model import KeySpec
from moonpool.settings import Settings
from moonpool.store.backup import BackupError, back_up
from server.services import execute
from server.test_serve_command import Serving
from waiting import wait_until

if TYPE_CHECKING:
    from postgres import PostgresServer

PACKAGING = Path(__file__).parents[2] / "packaging"


@pytest.mark.req("H-054", "H-057")
def test_in_the_compose_example_only_the_broker_has_a_way_out() -> None:
    text = (PACKAGING / "compose.yaml").read_text(encoding="utf-8")
    compose: Any = yaml.safe_load(text)
    services, networks = compose["services"], compose["networks"]
    ways_out = {name for name, network in networks.items() if not (network or {}).get("internal")}

    assert ways_out == {"egress"}
    assert [name for name, one in services.items() if ways_out & set(one["networks"])] == ["moonpool"]
    assert [name for name, one in services.items() if "ports" in one] == ["moonpool"]
    assert all(port.startswith("127.0.0.1:") for port in services["moonpool"]["ports"])
    assert services["moonpool"]["cap_drop"] == ["ALL"]
    assert "no-new-privileges" in services["moonpool"]["security_opt"]
    assert "COPY . " not in text, "secrets beside the file would be in the image"
    assert not any(one.get("privileged") or "network_mode" in one or "pid" in one for one in services.values())
    assert "docker.sock" not in text
    given = {key: str(value) for key, value in services["moonpool"]["environment"].items()}
    chosen = Settings.load(given)
    assert chosen.database_url.startswith("postgresql://moonpool@database/")


def _systemd_version() -> int:
    """Of this machine; skips where there is none, unless `MOONPOOL_REQUIRE_SYSTEMD` says that there must be one."""
    if shutil.which("systemd-analyze") is None:
        missing = "there is no systemd-analyze here: apt-get install systemd"
        if os.environ.get("MOONPOOL_REQUIRE_SYSTEMD"):
            pytest.fail(missing)
        pytest.skip(missing)
    said = subprocess.run(["systemd-analyze", "--version"], capture_output=True, encoding="utf-8", check=True).stdout
    return int(re.findall(r"^systemd ([0-9]+)", said)[0])


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    name = "moonpool-serve.service"
    text = (PACKAGING / "systemd" / name).read_text(encoding="utf-8")
    command = "/opt/moonpool/bin/moonpool"
    assert f"ExecStart={command} serve " in text
    unit = tmp_path / name
    text = text.replace(command, str(Path(sys.executable).parent / "moonpool"))
    if _systemd_version() < 254:  # it does not know this
        text = text.replace("DelegateSubgroup=supervisor\n", "")
    unit.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, []), done.stderr


def test_the_units_options_are_those_of_the_command(tmp_path: Path) -> None:
    text = (PACKAGING / "systemd" / "moonpool-serve.service").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    shown = moonpool(tmp_path, "serve", "--help").stdout.decode()
    assert [word for word in line.split() if word.startswith("--") and word not in shown] == []


@pytest.mark.anyio
async def test_a_backup_under_load_is_restored_with_whole_chains_and_keys_that_work(tmp_path: Path) -> None:
    data, copy, restored = tmp_path / "data", tmp_path / "copy", tmp_path / "restored"
    data.mkdir(mode=0o700)
    settings = Settings.load({}, data_dir=data)
    made: dict[str, str] = {}
    with anyio.fail_after(120):
        async with open_service_data(settings, data, {}) as opened, anyio.create_task_group() as tasks:
            administration = Administration(opened=opened, settings=settings, data=data, by="test")
            first = await administration.create_key(KeySpec(organisation_id="acme"))

            async def load() -> None:
                for _ in range(500):
                    new = await administration.create_key(KeySpec(organisation_id="acme"))
                    made[new.stored.key_id] = new.text
                    under_way.set()

            under_way = anyio.Event()
            tasks.start_soon(load)
            await under_way.wait()
            done = await anyio.to_thread.run_sync(lambda: moonpool(tmp_path, "db", "backup", copy, "--data-dir", data))
            assert done.exit_code == 0, done.stderr
            assert f"are not in it: copy {data / 'files'}, within an hour" in done.stderr
            tasks.cancel_scope.cancel()
    again = moonpool(tmp_path, "db", "backup", copy, "--data-dir", data)
    assert (again.exit_code, "name a new folder" in again.stderr) == (2, True)
    assert {path.stat().st_mode & 0o077 for path in (copy, *copy.rglob("private"), *copy.rglob("private/**/*"))} == {0}

    restored.mkdir(mode=0o755)
    await anyio.run_process(["cp", "-a", *copy.iterdir(), restored])  # as docs/how-to/database.md says it
    folders = [path.relative_to(restored) for path in (restored, *restored.rglob("*")) if path.is_dir()]
    modes = [[stat.S_IMODE((place / one).stat().st_mode) for one in folders] for place in (data, restored)]
    modes[0][0] = 0o755
    assert modes[0] == modes[1], "sandboxes pass through what they passed through before"
    verified = moonpool(tmp_path, "audit", "verify", "--org", "acme", "--data-dir", restored)
    assert (verified.exit_code, b"chain whole" in verified.stdout) == (0, True)
    shown = moonpool(tmp_path, "audit", "show", "--org", "acme", "--data-dir", restored, "--json", "--tail", "10000")
    recorded = {json.loads(line)["subject"] for line in shown.stdout.splitlines()}
    async with open_service_data(Settings.load({}, data_dir=restored), restored, {}) as opened:
        assert await opened.keys.verify(first.text) is not None
        kept = [key.key_id for key in await opened.keys.all("acme") if key.key_id in made]
        assert len(set(kept) - recorded) <= 1  # the one that was just being made
        assert all([await opened.keys.verify(made[key_id]) is not None for key_id in kept])


@pytest.mark.slow
@pytest.mark.req("H-059")
def test_a_postgresql_and_its_folder_are_backed_up_under_load_and_restored_elsewhere(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """As docs/how-to/database.md says it."""
    data, copy, restored, dump = (tmp_path / name for name in ("data", "copy", "restored", "moonpool.dump"))
    with postgres.new_database("backed_up") as source, postgres.new_database("restored") as target:

        def at(url: str, folder: Path) -> tuple[str, ...]:
            return "--data-dir", str(folder), "--database-url", url

        def key_of(url: str, folder: Path) -> dict[str, str]:
            done = moonpool(tmp_path, "keys", "create", "--org", "acme", "--json", *at(url, folder))
            assert done.exit_code == 0, done.stderr
            return {"authorization": f"Bearer {json.loads(done.stdout)['key']}"}

        def answers(serving: Serving, key: dict[str, str]) -> Any:
            """Whether a tool is called; what was said instead."""
            said = serving.post(execute("import servers.echo as e\nresult = (await e.echo(word='hi')).ok"), **key)
            assert said.status_code == 200, said.text
            told = json.loads(said.json()["result"]["content"][0]["text"])
            return True if told.get("data") is True else told

        config = tmp_path / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py", allow=["*"])}}), "utf-8")
        key, other = key_of(source, data), key_of(source, data)
        with Serving(tmp_path, *at(source, data), "--config", str(config), keys=True) as serving:
            answered: list[Any] = []
            is_over = threading.Event()

            def ask() -> None:
                while not is_over.is_set():
                    answered.append(answers(serving, key))

            with ThreadPoolExecutor() as threads:
                asking = [threads.submit(ask) for _ in range(3)]
                try:
                    wait_until(lambda: len(answered) >= 5, within_s=60)
                    known = answered.count(True)
                    postgres.run("pg_dump", "--format=custom", f"--file={dump}", source)
                    done = moonpool(tmp_path, "db", "backup", copy, *at(source, data))
                    assert (done.exit_code, "copy it with pg_dump" in done.stderr) == (0, True), done.stderr
                    anchor = _verified(tmp_path, *at(source, data))
                finally:
                    is_over.set()
                for one in asking:
                    one.result()
            assert answered == [True] * len(answered)
        before = _kinds(tmp_path, *at(source, data))

        postgres.run("pg_restore", "--exit-on-error", f"--dbname={target}", dump)
        restored.mkdir(mode=0o755)
        subprocess.run(["cp", "-a", *copy.iterdir(), restored], check=True)
        _verified(tmp_path, *at(target, restored))
        kept = _kinds(tmp_path, *at(target, restored))
        assert known <= kept["execution_end"] <= before["execution_end"]
        late = moonpool(tmp_path, "audit", "verify", "--org", "acme", "--anchor", anchor, *at(target, restored))
        assert late.exit_code != 0, "the anchor is of a record after the dump"
        with Serving(tmp_path, *at(target, restored), "--config", str(config), keys=True) as serving:
            assert [answers(serving, one) for one in (key, other, key_of(target, restored))] == [True] * 3
        after = _kinds(tmp_path, *at(target, restored))
        assert after["execution_end"] == kept["execution_end"] + 3
        _verified(tmp_path, *at(target, restored))
        assert _kinds(tmp_path, *at(source, data)) == before


def _verified(folder: Path, *where: str) -> str:
    """The head of the organisation's chain, which is whole, as `--anchor` takes it."""
    done = moonpool(folder, "audit", "verify", "--org", "acme", *where)
    assert (done.exit_code, b"chain whole" in done.stdout) == (0, True), (done.stdout, done.stderr)
    (head,) = re.findall(rb"\b[0-9]+:[0-9a-f]{64}\b", done.stdout)
    return head.decode()


def _kinds(folder: Path, *where: str) -> Counter[str]:
    shown = moonpool(folder, "audit", "show", "--org", "acme", "--json", "--tail", "100000", *where)
    return Counter(json.loads(line)["kind"] for line in shown.stdout.splitlines())


def test_a_backup_has_files_with_a_databases_names_and_never_itself(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    skill = data / "private" / "library" / "skills" / "trip"
    skill.mkdir(parents=True)
    (skill / "notes-journal").write_text("a skill's own", encoding="utf-8")
    with closing(sqlite3.connect(data / "private" / "plans.sqlite3")) as plans:
        plans.execute("PRAGMA journal_mode=WAL")
        plans.execute("CREATE TABLE plan (id)")
        plans.commit()
        assert back_up(data, copy) == 2
    copied = {str(path.relative_to(copy / "private")) for path in copy.rglob("*") if path.is_file()}
    assert copied == {"library/skills/trip/notes-journal", "plans.sqlite3"}
    with pytest.raises(BackupError, match="name a folder elsewhere"):
        back_up(data, data / "private" / "backups" / "1")
