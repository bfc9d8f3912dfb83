"""The secret store: sealed, private, bound to names, and clear about a wrong key."""

from __future__ import annotations

import base64
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from moonpool.store.secret_key import SecretStoreError
from moonpool.store.secrets import SECRET_BYTES_MAX, SecretStore, WrongSecretsKeyError

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-4711-value"
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "private" / "secrets"


def test_what_is_put_comes_back_in_another_process_of_ours(folder: Path) -> None:
    SecretStore(folder, {}).put("secret", "db", CANARY)
    again = SecretStore(folder, {})
    assert again.get("secret", "db") == CANARY
    assert again.names("secret") == ("db",)
    assert again.get("login", "db") is None
    assert again.remove("secret", "db")
    assert not again.remove("secret", "db")
    assert again.get("secret", "db") is None


@pytest.mark.req("E-038")
def test_nothing_of_it_is_readable_on_disk_or_by_others(folder: Path) -> None:
    SecretStore(folder, {}).put("secret", "db", CANARY)
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    for form in (CANARY.encode(), base64.b64encode(CANARY.encode()), CANARY.encode().hex().encode()):
        assert form not in stored
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}


def test_looking_makes_nothing(folder: Path) -> None:
    assert SecretStore(folder, {}).get("secret", "db") is None
    assert SecretStore(folder, {}).names("secret") == ()
    assert not folder.exists()


@pytest.mark.parametrize(
    "key", [KEY, KEY.rstrip("="), bytes(range(32)).hex(), base64.urlsafe_b64encode(b"\xfb" * 32).decode()]
)
def test_a_key_from_the_environment_needs_no_file(folder: Path, key: str) -> None:
    environ = {"MOONPOOL_SECRETS_KEY": key}
    SecretStore(folder, environ).put("secret", "db", CANARY)
    assert SecretStore(folder, environ).get("secret", "db") == CANARY
    assert not (folder / "key").exists()


def test_a_wrong_key_is_said_once_and_changes_nothing(folder: Path) -> None:
    SecretStore(folder, {"MOONPOOL_SECRETS_KEY": KEY}).put("secret", "db", CANARY)
    other = SecretStore(folder, {"MOONPOOL_SECRETS_KEY": base64.b64encode(os.urandom(32)).decode()})
    with pytest.raises(WrongSecretsKeyError, match="sealed with another key"):
        other.get("secret", "db")
    with pytest.raises(WrongSecretsKeyError, match="sealed with another key"):
        other.put("secret", "db2", "value")
    with pytest.raises(WrongSecretsKeyError, match="is missing"):
        SecretStore(folder, {}).get("secret", "db")
    assert SecretStore(folder, {"MOONPOOL_SECRETS_KEY": KEY}).get("secret", "db") == CANARY


def test_a_key_that_is_none_is_not_quoted(folder: Path) -> None:
    with pytest.raises(SecretStoreError, match="openssl rand") as caught:
        SecretStore(folder, {"MOONPOOL_SECRETS_KEY": CANARY}).put("secret", "db", "value")
    assert CANARY not in str(caught.value)


def test_an_entry_does_not_open_under_another_name(folder: Path) -> None:
    store = SecretStore(folder, {})
    store.put("secret", "harmless", "value")
    store.put("secret", "db", CANARY)
    document = json.loads((folder / "store.json").read_bytes())
    document["entries"]["secret"]["harmless"] = document["entries"]["secret"]["db"]
    (folder / "store.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(SecretStoreError, match="tampered with"):
        store.get("secret", "harmless")


@pytest.mark.parametrize("name", ["store.json", "key"])
def test_a_file_that_others_may_read_is_refused(folder: Path, name: str) -> None:
    store = SecretStore(folder, {})
    store.put("secret", "db", CANARY)
    (folder / name).chmod(0o644)
    with pytest.raises(SecretStoreError, match="only its owner"):
        store.get("secret", "db")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 2, "entries": {}}', '{"format": 1, "entries": {"a": 1}}']
)
def test_a_damaged_store_says_so(folder: Path, content: str) -> None:
    store = SecretStore(folder, {})
    store.put("secret", "db", CANARY)
    (folder / "store.json").write_text(content, encoding="utf-8")
    with pytest.raises(SecretStoreError, match="damaged"):
        store.get("secret", "db")


def test_of_many_changes_at_once_none_is_lost(folder: Path) -> None:
    names = [f"n{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: SecretStore(folder, {}).put("secret", name, name), names))
    store = SecretStore(folder, {})
    assert {name: store.get("secret", name) for name in store.names("secret")} == {name: name for name in names}


def test_a_value_that_is_too_large_is_refused(folder: Path) -> None:
    with pytest.raises(SecretStoreError, match="at most"):
        SecretStore(folder, {}).put("secret", "db", "x" * (SECRET_BYTES_MAX + 1))
