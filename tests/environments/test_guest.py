"""The guest bundle is complete, content-addressed, readable by sandboxes, and never imported by the host."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from moonpool.environments import guest
from moonpool.environments.base import EnvironmentBuildError
from moonpool.environments.guest import GUEST_PACKAGES, publish_guest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small packages in the place of the real ones."""
    source = tmp_path / "source"
    for name in ("pool_guest", "pool_wire"):
        (source / name / "inner").mkdir(parents=True)
        (source / name / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
        (source / name / "inner" / "code.py").write_text("ANSWER = 42\n", encoding="utf-8")
    (source / "pool_guest" / "py.typed").write_bytes(b"")
    monkeypatch.syspath_prepend(str(source))
    monkeypatch.setattr(guest, "GUEST_PACKAGES", ("pool_guest", "pool_wire"))
    return source


def test_the_bundle_holds_sources_and_bytecode(packages: Path, tmp_path: Path) -> None:
    bundle = publish_guest(tmp_path)

    tag = sys.implementation.cache_tag
    assert {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()} == {
        "pool_guest/__init__.py",
        f"pool_guest/__pycache__/__init__.{tag}.pyc",
        "pool_guest/inner/code.py",
        f"pool_guest/inner/__pycache__/code.{tag}.pyc",
        "pool_guest/py.typed",
        "pool_wire/__init__.py",
        f"pool_wire/__pycache__/__init__.{tag}.pyc",
        "pool_wire/inner/code.py",
        f"pool_wire/inner/__pycache__/code.{tag}.pyc",
    }


def test_nobody_may_write_the_bundle_and_everybody_may_read_it(packages: Path, tmp_path: Path) -> None:
    bundle = publish_guest(tmp_path)

    modes = {path.stat().st_mode & 0o777 for path in bundle.rglob("*") if path.is_file()}
    assert modes == {0o444}


def test_the_same_sources_give_the_same_bundle_without_writing(packages: Path, tmp_path: Path) -> None:
    first = publish_guest(tmp_path)
    made = first.stat().st_mtime_ns

    assert publish_guest(tmp_path) == first
    assert first.stat().st_mtime_ns == made


def test_a_changed_source_gives_another_bundle_beside_the_old_one(packages: Path, tmp_path: Path) -> None:
    first = publish_guest(tmp_path)
    (packages / "pool_wire" / "inner" / "code.py").write_text("ANSWER = 43\n", encoding="utf-8")

    second = publish_guest(tmp_path)

    assert second != first
    assert first.is_dir()


def test_a_source_that_does_not_compile_is_named_and_nothing_is_kept(packages: Path, tmp_path: Path) -> None:
    (packages / "pool_wire" / "inner" / "code.py").write_text("def", encoding="utf-8")

    with pytest.raises(EnvironmentBuildError, match=r"guest file code\.py does not compile"):
        publish_guest(tmp_path)

    assert list((tmp_path / "guest").iterdir()) == []


def test_a_missing_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guest, "GUEST_PACKAGES", ("no_such_guest_package",))

    with pytest.raises(EnvironmentBuildError, match=r"no_such_guest_package is not installed; install moonpool again"):
        publish_guest(tmp_path)


def test_the_real_guest_is_published_without_being_imported(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from moonpool.environments.guest import publish_guest; "
        "publish_guest(pathlib.Path(sys.argv[1])); "
        "print([name for name in sys.modules if name.startswith('moonpool_guest')])"
    )

    finished = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=dict(os.environ),
    )

    assert finished.stdout == "[]\n"
    (bundle,) = (tmp_path / "guest").iterdir()
    assert sorted(path.name for path in bundle.iterdir()) == sorted(GUEST_PACKAGES)
