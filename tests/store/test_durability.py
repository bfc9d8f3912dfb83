"""What a person decided, and keys, are on the disk before anybody is told so; caches are not waited for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from moonpool.cli.client_configs import FoundServer
from moonpool.cli.server_import import write_servers
from moonpool.engine.outcomes import OutcomeStore
from moonpool.features.approvals.sqlite_file import ApprovalsFile
from moonpool.features.drift.model.acceptance import Accepted
from moonpool.features.drift.table import AcceptanceStore
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.table import LibraryStore
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.store.private_files import replace_private_file
from moonpool.store.secrets import SecretStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "sha256:" + "a" * 64
ACTION = LibrarySource(kind="action", name="a", files={ACTION_FILE: b"def run(): ...\n"})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was synced, by the name it had then, and what was renamed to or linked as what, in order."""
    seen: list[tuple[str, str]] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def synced(handle: int) -> None:
        seen.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))  # noqa: PTH115
        fsync(handle)

    def named(real: Callable[..., None]) -> Callable[..., None]:
        def done(source: object, target: object, **how: object) -> None:
            real(source, target, **how)
            seen.append(("name", str(target)))

        return done

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named(replace))
    monkeypatch.setattr(os, "link", named(link))
    return seen


def test_the_content_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    target = tmp_path / "decision"
    replace_private_file(target, b"yes", durable=True)
    [(first, content), renamed, folder] = steps
    assert (first, renamed, folder) == ("sync", ("name", str(target)), ("sync", str(tmp_path)))
    assert content.startswith(f"{tmp_path}/.decision.")
    steps.clear()
    replace_private_file(target, b"again", durable=False)
    assert steps == [("name", str(target))]


def add_servers(path: Path) -> None:
    path.write_text("{}", encoding="utf-8")
    write_servers(path, ({}, {}), [FoundServer(server_id="new", entry={"command": "x"}, source="a client")])


@pytest.mark.parametrize(
    ("decide", "file"),
    [
        pytest.param(lambda at: LibraryStore(at).save(ACTION), "actions/a.json", id="a saved action"),
        pytest.param(
            lambda at: AcceptanceStore(at).update(KEY, lambda _: Accepted(gone=frozenset({"t"}))),
            f"{'a' * 64}.json",
            id="accepted tools",
        ),
        pytest.param(lambda at: SecretStore(at, {}).put("secret", "n", "v"), "store.json", id="a secret"),
        pytest.param(lambda at: SecretStore(at, {}).put("secret", "n", "v"), "key", id="the key of the secrets"),
        pytest.param(lambda at: SigningKeys(at).current(), "receipts.pem", id="the first signing key"),
        pytest.param(lambda at: SigningKeys(at).rotate(), "receipts.pem", id="the next signing key"),
        pytest.param(lambda at: add_servers(at / "m.json"), "m.json", id="servers added"),
    ],
)
def test_what_a_person_decided_is_on_the_disk(
    tmp_path: Path, steps: list[tuple[str, str]], decide: Callable[[Path], object], file: str
) -> None:
    decide(tmp_path)
    place = tmp_path / file
    named = steps.index(("name", str(place)))
    assert steps[named - 1][0] == "sync"
    assert steps[named - 1][1].startswith(f"{place.parent}/.")
    assert ("sync", str(place.parent)) in steps[named:]


def test_a_new_file_of_servers_is_on_the_disk(tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    write_servers(tmp_path / "m.json", None, [])
    assert steps == [("sync", str(tmp_path / "m.json")), ("sync", str(tmp_path))]


def test_a_copy_of_an_outcome_is_not_waited_for(tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    OutcomeStore(tmp_path).keep(f"run_{'0' * 32}", {})
    assert [step for step, _ in steps] == ["name"]


def test_an_answer_in_the_queue_waits_for_the_disk(tmp_path: Path) -> None:
    file = ApprovalsFile(tmp_path / "approvals.sqlite3")
    with file.reading() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    file.close()
