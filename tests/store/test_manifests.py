"""Cached listings, where they lie, and what happens to damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from moonpool.core.manifest import ServerListing, ToolDefinition
from moonpool.store.paths import data_dir, journal_path, manifest_dir
from moonpool.store.private_files import StoreFolderError, private_folder
from moonpool.tools.listing_cache import FILE_BYTES_MAX, CachedListing, ManifestCache

KEY = "sha256:" + "ab" * 32


def cached(description: str = "Tells the time") -> CachedListing:
    tool = ToolDefinition(
        server_id="time", name="now", raw={"name": "now", "description": description, "x": [None, {}]}
    )
    listing = ServerListing(server_id="time", tools=(tool,), name="Time", version="1", warnings=("w",))
    return CachedListing(listing=listing, era="2025-11-25", listed_at=1.5)


@pytest.fixture
def cache(tmp_path: Path) -> ManifestCache:
    return ManifestCache(tmp_path / "private" / "manifests")


def the_file(cache: ManifestCache) -> Path:
    return cache._path(KEY)


def test_what_is_saved_is_loaded(cache: ManifestCache) -> None:
    assert cache.save(KEY, cached())
    assert cache.load(KEY) == cached()


def test_lone_surrogates_survive(cache: ManifestCache) -> None:
    assert cache.save(KEY, cached("\ud800"))
    assert cache.load(KEY) == cached("\ud800")


def test_another_key_is_a_miss(cache: ManifestCache) -> None:
    cache.save(KEY, cached())
    assert cache.load("cd" * 32) is None


def test_only_the_owner_can_read_it_and_nothing_else_is_left(cache: ManifestCache) -> None:
    cache.save(KEY, cached())
    cache.save(KEY, cached("again"))
    files = list(the_file(cache).parent.iterdir())
    assert [(file.name, file.stat().st_mode & 0o777) for file in files] == [("ab" * 32 + ".json", 0o600)]
    assert the_file(cache).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": 1}',
        b"\xff",
        b"[" * 100_000,
        b'{"format":1,"key":"x","era":"","listed_at":0,"listing":{}}',
    ],
)
def test_a_damaged_file_is_a_miss(cache: ManifestCache, content: bytes) -> None:
    cache.save(KEY, cached())
    the_file(cache).write_bytes(content)
    assert cache.load(KEY) is None


def test_a_file_of_another_format_or_under_another_name_is_a_miss(cache: ManifestCache) -> None:
    cache.save(KEY, cached())
    the_file(cache).rename(cache._path("cd" * 32))
    assert cache.load("cd" * 32) is None


def test_too_much_is_not_kept(cache: ManifestCache) -> None:
    assert not cache.save(KEY, cached("x" * FILE_BYTES_MAX))
    assert cache.load(KEY) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert not ManifestCache(tmp_path / "file" / "manifests").save(KEY, cached())


def test_forgotten_is_forgotten(cache: ManifestCache) -> None:
    cache.save(KEY, cached())
    cache.forget(KEY)
    assert cache.load(KEY) is None


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "sha256:xyz", "AB" * 32])
def test_a_key_that_is_no_digest_is_refused(cache: ManifestCache, key: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        cache.load(key)


@pytest.mark.parametrize(
    ("uid", "environ", "expected"),
    [
        pytest.param(0, {"HOME": "/root", "XDG_DATA_HOME": "/x"}, "/var/lib/moonpool", id="root"),
        pytest.param(1000, {"HOME": "/home/a"}, "/home/a/.local/share/moonpool", id="home"),
        pytest.param(1000, {"HOME": "/home/a", "XDG_DATA_HOME": "/x"}, "/x/moonpool", id="XDG"),
        pytest.param(
            1000, {"HOME": "/home/a", "XDG_DATA_HOME": "x"}, "/home/a/.local/share/moonpool", id="relative XDG"
        ),
        pytest.param(1000, {}, "/home/1000/.local/share/moonpool", id="nothing set"),
    ],
)
def test_the_data_folder_follows_uid_and_environment(uid: int, environ: dict[str, str], expected: str) -> None:
    assert data_dir(uid, environ) == Path(expected)


def test_private_things_share_a_folder() -> None:
    assert journal_path(Path("/d")).parent == manifest_dir(Path("/d")).parent == Path("/d/private")


def test_a_file_or_a_link_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StoreFolderError, match="is not a folder"):
        private_folder(tmp_path / "link")


def test_a_folder_of_another_user_is_never_to_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = private_folder(tmp_path / "private").stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: uid + 1)
    with pytest.raises(StoreFolderError, match=f"belongs to uid {uid}; run this as that user, or choose another"):
        private_folder(tmp_path / "private")
