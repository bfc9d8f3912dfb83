"""The set-up scripts: idle when nothing is to do, one clear line when something is missing, nothing half done."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from house.tracked import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def run(command: list[str], cwd: Path, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": path, "HOME": str(cwd), "LANG": "C.UTF-8", **variables}
    return subprocess.run(command, cwd=cwd, env=environ, check=False, capture_output=True, encoding="utf-8")


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files the set-up reads, below a path with a space."""
    place = tmp_path / "a checkout"
    place.mkdir()
    for name in (".ci", "packaging", "requirements"):
        shutil.copytree(ROOT / name, place / name)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, place / name)
    return place


def tools(tmp_path: Path, *names: str) -> str:
    """A PATH that holds these programs and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


BASICS = ("sh", "cat", "sha256sum", "dirname", "make", "id", "cmp")


def test_a_second_setup_does_nothing(checkout: Path, tmp_path: Path) -> None:
    path = tools(tmp_path, *BASICS)
    program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.8.0")
    program(checkout / ".venv" / "bin", "python", "exit 99")
    files = "requirements/*.txt requirements/npm/*.json pyproject.toml .ci/setup.sh"
    digest = run(["sh", "-c", f"{{ pwd && cat {files}; }} | sha256sum"], checkout, path)
    (checkout / ".venv" / ".moonpool-dev").write_text(digest.stdout.rstrip("\n"), encoding="utf-8")

    again = run(["make", "setup"], checkout, path)

    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("level", "locks"),
    [("examples", ["requirements/examples.txt"]), ("dev", ["requirements/dev.txt", "requirements/dense.txt"])],
)
def test_vectors_are_installed_for_tests_only(checkout: Path, tmp_path: Path, level: str, locks: list[str]) -> None:
    path = tools(tmp_path, *BASICS, "sed", "mkdir", "cp")
    program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.8.0")
    program(checkout / ".venv" / "bin", "python", 'echo "$*" >>calls')

    done = run(["sh", ".ci/setup.sh", level], checkout, path)

    calls = (checkout / "calls").read_text(encoding="utf-8")
    hashed = [line.split() for line in calls.splitlines() if "uv pip install" in line and "--require-hashes" in line]
    assert (done.returncode, done.stderr) == (0, "")
    assert [[word for word in line if word.endswith(".txt")][1:] for line in hashed] == [locks]  # after build.txt
    assert "weights" not in calls


def test_a_python_without_venv_names_the_package(checkout: Path, tmp_path: Path) -> None:
    path = tools(tmp_path, *BASICS)
    program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.8.0")
    program(tmp_path / "bin", "python3", 'case "$*" in *ensurepip*) exit 1;; esac')

    failed = run(["sh", ".ci/setup.sh", "dev"], checkout, path)

    assert failed.returncode == 1
    assert "sudo apt-get install -y python3-venv" in failed.stderr
    assert not (checkout / ".venv").exists()


def test_no_new_enough_python_says_so(checkout: Path, tmp_path: Path) -> None:
    path = tools(tmp_path, *BASICS)
    program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.8.0")
    program(tmp_path / "bin", "python3", "exit 1")

    failed = run(["sh", ".ci/setup.sh", "dev"], checkout, path)

    assert failed.returncode == 1
    assert failed.stderr.startswith("setup: no Python 3.11 or newer found")


def test_a_missing_bubblewrap_names_one_command_to_an_ordinary_user(tmp_path: Path) -> None:
    path = tools(tmp_path, "sh")
    program(tmp_path / "bin", "apt-get", "exit 99")
    program(tmp_path / "bin", "id", "echo 1000")
    program(tmp_path / "bin", "sudo", "exit 1")

    failed = run(["sh", str(ROOT / "packaging/install-bubblewrap.sh")], tmp_path, path)

    assert (failed.returncode, failed.stderr) == (
        1,
        "setup: bubblewrap 0.8 or newer is missing; run: sudo apt-get install -y bubblewrap\n",
    )


def test_root_installs_a_missing_bubblewrap_after_refreshing_the_lists(tmp_path: Path) -> None:
    path = tools(tmp_path, "sh", "env", "cat", "chmod")
    program(tmp_path / "bin", "id", "echo 0")
    program(
        tmp_path / "bin",
        "apt-get",
        'echo "$*" >>calls\n[ "$1" = update ] && exit 0\n[ "$(cat calls)" = "$*" ] && exit 100\n'
        "printf '#!/bin/sh\\necho bubblewrap 0.9.0\\n' >bin/bwrap && chmod +x bin/bwrap",
    )

    done = run(["sh", str(ROOT / "packaging/install-bubblewrap.sh")], tmp_path, path)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == [
        "install -y -qq --no-install-recommends bubblewrap",
        "update -qq",
        "install -y -qq --no-install-recommends bubblewrap",
    ]


def test_an_old_bubblewrap_does_not_count(tmp_path: Path) -> None:
    path = tools(tmp_path, "sh", "env")
    program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.6.1")
    program(tmp_path / "bin", "apt-get", "exit 0")
    program(tmp_path / "bin", "id", "echo 0")

    failed = run(["sh", str(ROOT / "packaging/install-bubblewrap.sh")], tmp_path, path)

    assert failed.returncode == 1
    assert "older than 0.8" in failed.stderr


class TestLauncher:
    """Where AppArmor restricts user namespaces, and where it does not; on a false root, so nothing real is written."""

    SCRIPT = str(ROOT / "packaging/install-launcher.sh")
    TOOLS = (*BASICS, "mkdir", "install")

    def restricted(self, tmp_path: Path, value: str) -> Path:
        root = tmp_path / "root"
        switch = root / "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
        switch.parent.mkdir(parents=True)
        switch.write_text(value + "\n", encoding="utf-8")
        program(tmp_path / "bin", "bwrap", "echo bubblewrap 0.9.0")
        program(tmp_path / "bin", "apparmor_parser", 'echo "$*" >>"$HOME/loaded"')
        return root

    def test_without_the_restriction_nothing_is_written(self, tmp_path: Path) -> None:
        root = self.restricted(tmp_path, "0")

        done = run(["sh", self.SCRIPT, str(root)], tmp_path, tools(tmp_path, *self.TOOLS))

        assert (done.returncode, done.stdout) == (0, "")
        assert not (root / "usr").exists()

    def test_with_it_launcher_and_profile_are_written_and_named_once(self, tmp_path: Path) -> None:
        root = self.restricted(tmp_path, "1")
        path = tools(tmp_path, *self.TOOLS)

        first = run(["sh", self.SCRIPT, str(root)], tmp_path, path)
        second = run(["sh", self.SCRIPT, str(root)], tmp_path, path)

        launcher, profile = root / "usr/lib/moonpool/launcher", root / "etc/apparmor.d/moonpool-launcher"
        assert (first.returncode, first.stderr) == (0, "")
        assert f"wrote {launcher}" in first.stdout
        assert str(profile) in first.stdout
        assert (second.returncode, second.stdout) == (0, "")
        assert os.access(launcher, os.X_OK)
        assert "userns," in profile.read_text(encoding="utf-8")
        assert (tmp_path / "loaded").read_text(encoding="utf-8") == f"--replace {profile}\n"

    def test_a_profile_that_apparmor_refuses_fails(self, tmp_path: Path) -> None:
        root = self.restricted(tmp_path, "1")
        program(tmp_path / "bin", "apparmor_parser", "exit 1")

        failed = run(["sh", self.SCRIPT, str(root)], tmp_path, tools(tmp_path, *self.TOOLS))

        assert failed.returncode == 1
        assert "AppArmor refused" in failed.stderr
