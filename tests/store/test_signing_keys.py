"""The key for receipts: made once, private, replaced without losing the old public one."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from commands.process import Command
from moonpool.features.receipts.signing_keys import PublicKey, SigningKeyError, SigningKeys


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "private" / "keys"


def test_a_key_is_made_at_first_use_and_stays(folder: Path) -> None:
    key_id, signature = SigningKeys(folder).sign(b"content")
    again = SigningKeys(folder)
    assert again.current().key_id == key_id
    assert again.known()[key_id].has_signed(b"content", signature)
    assert not again.known()[key_id].has_signed(b"other", signature)
    assert not again.known()[key_id].has_signed(b"content", b"")


def test_nobody_else_can_read_it(folder: Path) -> None:
    SigningKeys(folder).current()
    modes = {path.relative_to(folder.parent): path.stat().st_mode & 0o077 for path in folder.parent.rglob("*")}
    assert set(modes.values()) == {0}
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_looking_at_the_known_keys_makes_none(folder: Path) -> None:
    assert SigningKeys(folder).known() == {}
    assert not folder.exists()


def test_a_new_key_leaves_the_old_public_one(folder: Path) -> None:
    keys = SigningKeys(folder)
    old_id, signature = keys.sign(b"content")
    new = keys.rotate()
    assert set(keys.known()) == {old_id, new.key_id}
    assert keys.current().key_id == new.key_id
    assert keys.known()[old_id].has_signed(b"content", signature)


def test_of_many_that_make_a_key_at_once_one_wins(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: SigningKeys(folder).current().key_id, range(16)))
    assert len(set(made)) == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_of_many_processes_that_make_a_key_at_once_one_wins(folder: Path) -> None:
    program = "import sys, pathlib; from moonpool.features.receipts.signing_keys import SigningKeys as K\n"
    program += "print(K(pathlib.Path(sys.argv[1])).current().key_id)"
    started = [Command(["-c", program, folder], stdout=subprocess.PIPE, encoding="utf-8") for _ in range(4)]
    assert len({child.communicate(timeout=60)[0] for child in started}) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused_and_a_new_one_helps(folder: Path, mode: int) -> None:
    keys = SigningKeys(folder)
    keys.current()
    (folder / "receipts.pem").chmod(mode)
    with pytest.raises(SigningKeyError, match=r"another account may know the key. Make a new one: `moonpool"):
        keys.sign(b"x")
    keys.rotate()
    assert keys.sign(b"x")[0] in keys.known()


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_key_is_one_sentence(folder: Path, content: bytes) -> None:
    keys = SigningKeys(folder)
    keys.current()
    (folder / "receipts.pem").write_bytes(content)
    with pytest.raises(SigningKeyError, match="holds no key"):
        keys.sign(b"x")


def test_a_link_in_the_place_of_the_key_is_refused(folder: Path, tmp_path: Path) -> None:
    keys = SigningKeys(folder)
    keys.current()
    elsewhere = tmp_path / "elsewhere.pem"
    (folder / "receipts.pem").rename(elsewhere)
    (folder / "receipts.pem").symlink_to(elsewhere)
    with pytest.raises(SigningKeyError, match="is not a file that only its owner"):
        keys.sign(b"x")


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "AAAA", "ed25519:" + "ä" * 43, "rsa:" + "A" * 43])
def test_a_text_that_is_no_public_key_is_one_sentence(text: str) -> None:
    with pytest.raises(SigningKeyError, match="is not a public key"):
        PublicKey.parse(text)


def test_a_public_key_is_read_as_it_is_printed(folder: Path) -> None:
    key = SigningKeys(folder).current()
    assert PublicKey.parse(f" {key.text}\n").key_id == key.key_id
