"""The library, logins and keys of receipts: in private files, and in PostgreSQL for replicas; both behave alike."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.audit import JournalError
from moonpool.core.errors import InputError
from moonpool.features.library import database_table
from moonpool.features.library.database_table import LibraryRows
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.table import LibraryStore, change_of, content_of
from moonpool.features.receipts.database_table import SigningKeyRows
from moonpool.features.receipts.signing_keys import InstallationKeys, SigningKeys
from moonpool.store.database.kept import KeptRows
from moonpool.store.database.sealed import SEALED_KIND, SealedRows
from moonpool.store.secret_key import VARIABLE
from moonpool.store.secrets import SealedTexts, SealedValues, SecretStore, WrongSecretsKeyError
from tenant_databases import organisation, tenant_database, tenant_rows

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.library.model.change import LibraryChange
    from moonpool.oauth.stored_logins import LoginStore
    from moonpool.store.database.blocking import TenantRows

__all__ = ["organisation", "tenant_database", "tenant_rows"]
KEY = {VARIABLE: base64.b64encode(b"k" * 32).decode()}
OTHER_KEY = {VARIABLE: base64.b64encode(b"o" * 32).decode()}


def action(name: str, code: bytes = b"def run(): ...\n") -> LibrarySource:
    return LibrarySource(kind="action", name=name, files={ACTION_FILE: code})


def sealed(rows: TenantRows, folder: Path, environ: dict[str, str]) -> SealedRows:
    """With the key of `environ`, else of the folder."""
    return SealedRows(rows, SealedValues(folder, environ, SEALED_KIND))


class Records:
    """What is told of changes."""

    principal = "somebody"

    def __init__(self, *, refuses: str = "") -> None:
        self.told: list[tuple[str, str, bool]] = []
        self._refuses = refuses

    def begins(self, change: LibraryChange, /) -> None:
        self.told.append((f"begins {change.action}", "", False))
        if self._refuses == "begins":
            raise JournalError("the disk is full")

    def has_ended(self, _change: LibraryChange, /) -> bool:
        return False

    def ended(self, change: LibraryChange, /, *, error_type: str = "", settled: bool = False) -> None:
        if self._refuses == "ended" and not error_type:
            raise JournalError("the disk is full")
        self.told.append((change.action, error_type, settled))


@pytest.fixture(params=["files", "postgresql"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> LibraryStore | LibraryRows:
    if request.param == "files":
        return LibraryStore(tmp_path / "library")
    return LibraryRows(request.getfixturevalue("tenant_rows"))


def names(library: Any) -> list[str]:
    return [source.name for source in library.load().sources]


def test_what_is_saved_is_found_replaced_on_demand_and_removed(library: LibraryStore | LibraryRows) -> None:
    stamps = [library.stamp()]
    records = Records()
    assert library.save(action("b"), records=records) is None
    stamps.append(library.stamp())
    assert library.save(action("a.x")) is None
    with pytest.raises(InputError, match="exists already; --replace"):
        library.save(action("b", b"other"))
    with pytest.raises(InputError, match="choose another name"):
        library.save(action("a"))
    assert library.save(action("b", b"other"), replace=True, records=records) == action("b")
    stamps.append(library.stamp())
    assert library.find("action", "b") == action("b", b"other")
    assert library.find("skill", "b") is None
    assert names(library) == ["a.x", "b"]
    assert library.remove("action", "b", records=records) == action("b", b"other")
    with pytest.raises(InputError, match="there is no action 'b'"):
        library.remove("action", "b")
    assert names(library) == ["a.x"]
    assert len(set(stamps)) == 3
    assert [told for told, *_ in records.told] == [
        "begins saved", "saved", "begins replaced", "replaced", "begins removed", "removed",
    ]  # fmt: skip


@pytest.mark.parametrize("step", ["begins", "ended"])
def test_what_cannot_be_put_on_record_is_taken_back(library: LibraryStore | LibraryRows, step: str) -> None:
    library.save(action("a"))
    records = Records(refuses=step)
    with pytest.raises(JournalError):
        library.save(action("a", b"other"), replace=True, records=records)
    with pytest.raises(JournalError):
        library.remove("action", "a", records=records)
    assert library.load().sources == (action("a"),)
    assert library.save(action("b")) is None  # nobody waits for what was given up
    if step == "ended":
        assert ("replaced", "journal_unavailable", False) in records.told


def test_writers_at_once_lose_nothing(library: LibraryStore | LibraryRows) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(library.save, [action(f"a{number}") for number in range(8)]))
    assert len(names(library)) == 8


@pytest.mark.parametrize(("is_made", "told"), [(True, ""), (False, "interrupted")])
def test_a_change_of_a_replica_that_died_is_settled_once_by_another(
    tenant_rows: TenantRows, is_made: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, kept, made = LibraryRows(tenant_rows), KeptRows(tenant_rows), action("a")
    change = change_of("action", "a", None, made, Records())
    note = json.dumps({"token": "dead", "change": change.to_json()}).encode()
    kept.change(lambda rows: rows.put(".change", note))
    if is_made:
        kept.change(lambda rows: rows.put("actions/a", content_of(made)))
    settling = Records()
    assert library.settle(settling) is None  # it may be alive
    monkeypatch.setattr(database_table, "CHANGED_WITHIN_S", 0.0)
    assert library.settle(settling) is not None
    assert library.settle(settling) is None
    assert settling.told == [("saved", told, True)]
    assert names(library) == (["a"] if is_made else [])


def test_one_that_slept_changes_nothing_once_it_was_settled(
    tenant_rows: TenantRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = LibraryRows(tenant_rows)
    monkeypatch.setattr(database_table, "CHANGED_WITHIN_S", 0.0)

    class Slow(Records):
        def begins(self, _change: LibraryChange, /) -> None:
            assert LibraryRows(tenant_rows).settle(Records()) is not None
            LibraryRows(tenant_rows).save(action("b"))

    with pytest.raises(Exception, match="took too long"):
        library.save(action("a"), records=Slow())
    assert names(library) == ["b"]


def test_a_damaged_entry_loses_only_itself(tenant_rows: TenantRows) -> None:
    library = LibraryRows(tenant_rows)
    for name in ("a", "b"):
        library.save(action(name))
    KeptRows(tenant_rows).change(lambda change: change.put("actions/b", b"nonsense"))
    assert names(library) == ["a"]
    with pytest.raises(InputError, match="damaged"):
        library.find("action", "b")
    assert library.remove("action", "b") is None


@pytest.fixture
def unsealed(tenant_rows: TenantRows) -> TenantRows:
    """Of a database in which nothing was sealed."""
    sealing = KeptRows(replace(tenant_rows, organisation_id="default", kind="sealing"))
    sealing.change(lambda change: change.remove("check"))
    return tenant_rows


@pytest.fixture(params=["files", "postgresql"])
def logins(request: pytest.FixtureRequest, tmp_path: Path) -> LoginStore:
    if request.param == "files":
        return SealedTexts(SecretStore(tmp_path / "private" / "secrets", KEY), "login")
    return sealed(request.getfixturevalue("unsealed"), tmp_path / "private" / "secrets", KEY)


def test_logins_are_kept_sealed_by_name(logins: LoginStore) -> None:
    long = "n" * 4000
    assert (logins.names(), logins.get("a"), logins.remove("a")) == ((), None, False)
    logins.put("a", "token-1")
    logins.put(long, "token-2")
    logins.put("a", "token-3")
    assert (logins.names(), logins.get("a"), logins.get(long)) == (("a", long), "token-3", "token-2")
    assert (logins.remove("a"), logins.get("a")) == (True, None)


def test_a_login_is_renewed_by_one_replica_at_a_time(unsealed: TenantRows, tmp_path: Path) -> None:
    one, other = (sealed(unsealed, tmp_path / "private" / "secrets", KEY) for _ in range(2))
    assert one.claim("a", 60)
    assert (other.claim("a", 60), other.claim("b", 60)) == (False, True)
    assert other.claim("a", 0)  # whoever had it has died
    other.release("a")
    assert one.claim("a", 60)
    assert one.names() == ()


def test_of_replicas_that_make_one_text_the_first_counts(unsealed: TenantRows, tmp_path: Path) -> None:
    one, other = (sealed(unsealed, tmp_path / "private" / "secrets", KEY) for _ in range(2))
    assert [one.first("key", "mine"), other.first("key", "theirs"), other.get("key")] == ["mine"] * 3


def test_another_replica_needs_the_same_key_and_makes_none(unsealed: TenantRows, tmp_path: Path) -> None:
    first = sealed(unsealed, tmp_path / "one" / "secrets", {})  # it makes a key in its folder
    first.put("a", "canary-token")
    assert b"canary" not in (KeptRows(unsealed).get("a") or b"")
    neighbour = sealed(replace(unsealed, organisation_id="other"), tmp_path / "one" / "secrets", {})
    moved = KeptRows(unsealed).get("a") or b""
    KeptRows(neighbour.rows).change(lambda change: change.put("a", moved))
    with pytest.raises(WrongSecretsKeyError):
        neighbour.get("a")
    for environ in ({}, OTHER_KEY):
        stranger = sealed(unsealed, tmp_path / "two" / "secrets", environ)
        with pytest.raises(WrongSecretsKeyError, match=f"with the same {VARIABLE}"):
            stranger.get("a")
        with pytest.raises(WrongSecretsKeyError, match=f"with the same {VARIABLE}"):
            stranger.put("b", "x")
    assert not (tmp_path / "two").exists()
    assert first.names() == ("a",)


@pytest.fixture(params=["files", "postgresql"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> InstallationKeys:
    if request.param == "files":
        return SigningKeys(tmp_path / "private" / "keys")
    folder = tmp_path / "private" / "secrets"
    return SigningKeyRows(sealed(request.getfixturevalue("unsealed"), folder, KEY))


def test_a_key_for_receipts_is_made_once_and_old_ones_are_known(keys: InstallationKeys) -> None:
    assert keys.known() == {}
    with ThreadPoolExecutor(4) as pool:
        (key_id,) = {key.key_id for key in [one.result() for one in [pool.submit(keys.current) for _ in range(8)]]}
    signed_by, signature = keys.sign(b"content")
    new = keys.rotate()
    assert signed_by == key_id
    assert keys.current().key_id == new.key_id
    assert {key_id, new.key_id} <= set(keys.known())
    assert keys.known()[key_id].has_signed(b"content", signature)
