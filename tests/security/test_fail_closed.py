"""A machine that cannot isolate code gets a refusal with the remedy, and nothing is run: never a warning, never less.

Real lacks where a test can make them (`unfit_machine`: namespaces of the command's own), bubblewrap's words where not.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import DATA
from commands.process import SCRIPT, run_command
from moonpool.core.errors import HostUnfitError
from moonpool.doctor.remedies import APPARMOR, SYSTEMD, remedies_of
from moonpool.sandboxes import host_requirements as fitness
from moonpool.sandboxes import process
from moonpool.sandboxes.base import ImageSpec, SandboxSpec, SandboxStartError
from moonpool.sandboxes.container_sockets import engine_sockets, refuse_shown, usable
from moonpool.sandboxes.identity import UID_COUNT, UID_FIRST
from process_tree import descendants
from sandboxes.images import readable_folder
from security.backends import BACKENDS, opened

if TYPE_CHECKING:
    from collections.abc import Generator

HERE = Path(__file__).parent
PACKAGING = HERE.parents[1] / "packaging"


@pytest.fixture
def folder() -> Generator[Path]:
    with readable_folder() as folder:
        yield folder


def on_unfit_machine(lack: str, *command: str, argument: str = "") -> subprocess.CompletedProcess[str]:
    """Run `moonpool COMMAND` where something is missing: really started, in namespaces of its own."""
    given = [argument] if argument else []
    return subprocess.run(
        [sys.executable, str(HERE / "unfit_machine.py"), lack, *given, "--", str(SCRIPT), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=90,
        check=False,
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
    )


def fake_bubblewrap(folder: Path, says: str) -> Path:
    """A program that complains and ends, as bubblewrap does."""
    path = folder / "launcher"
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(says)} >&2\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# --- real lacks, whole commands

LACKS = [
    pytest.param("no-namespaces", "sysctl -w user.max_user_namespaces=65536", id="no user namespaces"),
    pytest.param("masked-proc", "--security-opt systempaths=unconfined", id="masked proc"),
    pytest.param("no-bubblewrap", "apt-get install bubblewrap", id="no bubblewrap"),
    pytest.param("one-uid", "run Moonpool as an ordinary user", id="no uids to sandbox under"),
]
COMMANDS = [
    pytest.param(("run", "-c", "print(1)"), id="run"),
    pytest.param(("run", "--session", "unfit", "-c", "print(1)"), id="session", marks=pytest.mark.slow),
    pytest.param(("mcp",), id="mcp", marks=pytest.mark.slow),
]


@pytest.mark.req("I-006", "P-035")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("lack", "remedy"), LACKS)
def test_no_command_runs_or_serves_where_code_cannot_be_isolated(
    lack: str, remedy: str, command: tuple[str, ...]
) -> None:
    before = descendants()
    ended = on_unfit_machine(lack, *command)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "this machine cannot isolate code: " in ended.stderr
    assert remedy in ended.stderr
    assert descendants() <= before


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_both_backends_refuse(backend: str) -> None:
    ended = on_unfit_machine("masked-proc", "run", "--backend", backend, "-c", "print(1)")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--security-opt systempaths=unconfined" in ended.stderr


def test_the_doctor_finds_by_an_opening_what_no_flag_tells() -> None:
    ended = on_unfit_machine("masked-proc", "doctor")
    assert ended.returncode == 1
    assert ended.stdout.startswith("missing: /proc is masked")


def test_the_doctor_prints_the_profile_where_apparmor_is_in_the_way(folder: Path) -> None:
    fake = fake_bubblewrap(folder, "bwrap: setting up uid map: Permission denied")
    ended = on_unfit_machine("bubblewrap", "doctor", argument=str(fake))
    assert ended.returncode == 1
    assert APPARMOR.text in ended.stdout
    assert APPARMOR.path in ended.stdout
    assert APPARMOR.to_do in ended.stdout


@pytest.mark.req("H-005")
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        pytest.param(("--unsafe-no-isolation",), {}, id="a flag that does not exist yet"),
        pytest.param(("--backend", "unsafe"), {}, id="a backend"),
        pytest.param(("--backend", "fake"), {}, id="the tests' own backend"),
        pytest.param((), {"MOONPOOL_BACKEND": "none"}, id="a setting"),
        pytest.param((), {"MOONPOOL_UNSAFE_NO_ISOLATION": "1"}, id="a variable"),
    ],
)
def test_nothing_makes_code_run_without_a_sandbox(arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA), **variables}
    ended = run_command([SCRIPT, "run", *arguments, "-c", "print(1)"], env=environ)
    assert (ended.returncode, ended.stdout) == (2, b"")


# --- what bubblewrap says

COMPLAINTS = [
    pytest.param("bwrap: setting up uid map: Permission denied", "sudo make launcher", id="AppArmor, uid map"),
    pytest.param("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "sudo make launcher", id="loopback"),
    pytest.param("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths", id="masked proc"),
    pytest.param(
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
        "namespaces.",
        "kernel.unprivileged_userns_clone=1",
        id="forbidden",
    ),
    pytest.param(
        "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user "
        "namespaces.",
        "seccomp=unconfined",
        id="forbidden, as bubblewrap 0.9 says it",
    ),
    pytest.param(
        "uids could not be mapped: PermissionError(13, 'Permission denied')",
        "--cap-add SYS_ADMIN",
        id="root of a container",
    ),
    pytest.param(
        "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "sysctl -w user.max_user_namespaces",
        id="used up",
    ),
    pytest.param("bwrap: Creating new namespace failed: Operation not permitted", "seccomp=unconfined", id="seccomp"),
    pytest.param("bwrap: Failed to make / slave: Permission denied", "apparmor=unconfined", id="no mounts"),
    pytest.param("bwrap: Unknown option --size", "bubblewrap 0.8 or newer", id="too old"),
    pytest.param(
        "bwrap: Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL.",
        "CONFIG_SECCOMP_FILTER",
        id="no filters",
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(BACKENDS))
@pytest.mark.parametrize(("says", "remedy"), COMPLAINTS)
async def test_a_complaint_of_bubblewrap_becomes_a_remedy(
    name: str, says: str, remedy: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(name) as (backend, spec):
        monkeypatch.setattr(process, "OWN_LAUNCHER", fake_bubblewrap(folder, says))
        with anyio.fail_after(30), pytest.raises(HostUnfitError) as raised:
            await backend.open_sandbox(spec)
    assert remedy in str(raised.value)
    assert says in str(raised.value)


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(BACKENDS))
async def test_a_failure_that_is_not_the_machines_stays_a_failed_start(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(name) as (backend, spec):
        monkeypatch.setattr(process, "OWN_LAUNCHER", fake_bubblewrap(folder, "bwrap: the moon is full"))
        with anyio.fail_after(30), pytest.raises(SandboxStartError, match="the moon is full"):
            await backend.open_sandbox(spec)


# --- what is certain before anything is started


def with_files(count: int) -> subprocess.CompletedProcess[str]:
    script = f'ulimit -n {count}; exec "$0" run -c "result = 1"'
    return subprocess.run(
        ["/bin/sh", "-c", script, str(SCRIPT)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
    )


def test_too_few_open_files_are_one_sentence_with_the_number_needed() -> None:
    ended = with_files(100)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert "this process may open 100 files, and a sandbox needs 256: start it after `ulimit -n 1024`" in line


@pytest.mark.slow
def test_the_number_of_open_files_that_is_named_is_enough() -> None:
    assert '"ok":true' in with_files(256).stdout


def test_a_kernel_without_filters_is_noticed() -> None:
    assert fitness._filters_calls("Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t0\n")
    assert not fitness._filters_calls("Name:\tx\nNoNewPrivs:\t0\n")


@pytest.mark.parametrize(
    ("uid_map", "enough"),
    [
        ("         0          0 4294967295\n", True),
        ("         0       1000          1\n", False),
        ("         0       1000          1\n         1     100000      65536\n", False),
        (f"         0       1000          1\n{UID_FIRST} 100000 {UID_COUNT}\n", True),
        ("", True),
    ],
)
def test_a_user_namespace_without_the_sandbox_uids_is_noticed(uid_map: str, *, enough: bool) -> None:
    assert fitness._maps_sandbox_uids(uid_map) is enough


# --- texts to install


def test_the_texts_are_those_of_packaging() -> None:
    assert (PACKAGING / "apparmor" / "moonpool-launcher").read_text(encoding="utf-8") == APPARMOR.text
    assert (PACKAGING / "systemd" / "moonpool.service").read_text(encoding="utf-8") == SYSTEMD.text


def test_each_text_is_offered_where_it_helps() -> None:
    assert remedies_of(["AppArmor restricts user namespaces"], "cgroup1-root") == (APPARMOR,)
    assert remedies_of([], "rlimits-only") == (SYSTEMD,)
    assert remedies_of([], "cgroup2-delegated") == ()


# --- sockets of container engines


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Path]:
    """The socket of an engine that listens."""
    path = tmp_path / "engine" / "docker.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        yield path


def image_showing(*folders: Path) -> ImageSpec:
    return ImageSpec(name="i", digest="d", python=Path("/usr/bin/python3"), guest=Path("/g"), binds=folders)


@pytest.mark.req("H-080")
def test_a_socket_of_a_container_engine_among_the_shown_folders_is_refused(engine: Path) -> None:
    environ = {"DOCKER_HOST": f"unix://{engine}"}
    assert engine in engine_sockets(environ)
    for shown in (engine, engine.parent, engine.parent.parent):
        with pytest.raises(HostUnfitError, match=r"docker\.sock"):
            refuse_shown(image_showing(Path("/opt"), shown), environ)
    refuse_shown(image_showing(engine.parent / "beside"), environ)


@pytest.mark.req("H-080")
def test_a_shown_folder_cannot_hide_the_socket_behind_a_link(engine: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(engine.parent)
    with pytest.raises(HostUnfitError):
        refuse_shown(image_showing(link), {"DOCKER_HOST": f"unix://{engine}"})


def test_a_socket_that_the_account_may_use_is_worth_a_warning_unless_it_is_root(engine: Path) -> None:
    assert usable([engine]) == (() if os.geteuid() == 0 else (engine,))


@pytest.mark.anyio
@pytest.mark.req("H-080")
async def test_an_application_does_not_start_on_an_environment_that_shows_the_socket(
    engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps import open_app
    from moonpool.bootstrap import engine as bootstrap

    whole = bootstrap.sandbox_spec

    def showing(*arguments: object, **options: object) -> SandboxSpec:
        spec = whole(*arguments, **options)  # type: ignore[arg-type]
        image = dataclasses.replace(spec.image, binds=(*spec.image.binds, engine.parent))
        return dataclasses.replace(spec, image=image)

    monkeypatch.setattr(bootstrap, "sandbox_spec", showing)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine}")
    with pytest.raises(HostUnfitError, match=r"docker\.sock"):
        async with open_app():
            pass
