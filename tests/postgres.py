"""A real PostgreSQL server for tests: Debian's programs, as an ordinary user, fsync on, a socket that only we reach.

Each worker that asks gets a server of its own, so that a test may kill it and start it again; it ends with its worker,
however that ends. Its folder is a copy of one that the run makes once. `initdb` wants an account with a name: where the
own uid has none, it runs in a user namespace as `nobody`.

A test asks for `database`, the URL of an empty database of its own, or for `postgres`, the server. Where there is no
PostgreSQL they are skipped, and fail if `MOONPOOL_REQUIRE_POSTGRES` is set.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import anyio
import asyncpg
import pytest

from process_tree import alive, children_of, wait_gone
from run_folder import run_folder
from waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

PASSWORD: Final = "moonpool-tests"
"""Of the user `moonpool`, asked for on TCP only."""
_PORT: Final = 5432  # of the socket's name, where there is no TCP
_OPTIONS: Final = {
    "fsync": "on",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "jit": "off",
    "log_min_messages": "warning",
}
_EMPTY: Final = """
DO $$ DECLARE found record; BEGIN
    FOR found IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', found.nspname);
    END LOOP;
    CREATE SCHEMA public;
END $$
"""


class PostgresServer:
    """One server on one folder. `start`, `kill` and `stop` may follow each other in any order."""

    def __init__(
        self, programs: Path, folder: Path, options: Mapping[str, str], *, tcp_port: int | None = None
    ) -> None:
        """`tcp_port`: listens there on loopback, too."""
        self._programs, self._folder, self._options, self._tcp_port = programs, folder, options, tcp_port
        self._process: subprocess.Popen[bytes] | None = None
        self._named = 0
        self._spare: list[str] = []

    def run(self, program: str, *arguments: str | Path) -> str:
        """One of its client programs, such as `pg_dump`, to its end; what it printed."""
        command = [self._programs / program, *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def new_database(self, name: str) -> Generator[str]:
        """The URL of a database as `createdb` makes it, which is gone afterwards."""
        server = f"--maintenance-db={self.url()}"
        self.run("createdb", server, "--template=template0", name)
        try:
            yield self.url(name)
        finally:
            self.run("dropdb", server, "--force", name)

    def pause(self) -> None:
        """It takes connections and what they send, and answers nothing until `resume`."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in (self.pid, *children_of(self.pid)):
            with _gone_already():
                os.kill(pid, number)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it takes connections; after a crash, until it has recovered."""
        self._launch()
        wait_until(self._is_ready, within_s=60)

    def _launch(self) -> None:
        """INVARIANT: in the main thread, for the server ends with the thread that began it."""
        assert threading.current_thread() is threading.main_thread()
        assert self._process is None, "the server runs already"
        options = {
            **_OPTIONS,
            "unix_socket_directories": str(self._folder),
            "listen_addresses": "127.0.0.1" if self._tcp_port else "",
            "port": str(self._tcp_port or _PORT),
            **self._options,
        }
        command = [self._programs / "postgres", "-D", self._folder / "data"]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                _unprivileged(self._folder, command, "--pdeathsig", "QUIT"), stdout=log, stderr=log, cwd=self._folder
            )

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text("utf-8", "replace")[-2000:]
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text("utf-8").split("\n")
        except FileNotFoundError:
            return False
        return lines[0] == str(self.pid) and lines[7:8] == ["ready   "]

    def kill(self) -> None:
        """As a machine that fails: no process of the server has a last word. What was synced is there at `start`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no child that is missed
        processes = set(children_of(self.pid))
        self._process.kill()
        self._process.wait(timeout=30)
        for pid in alive(processes):
            with _gone_already():
                os.kill(pid, signal.SIGKILL)
        assert wait_gone(processes, within_s=30) == set()
        self._process = None

    async def crash(self) -> None:
        """Kill it and start it again, whatever becomes of the caller meanwhile; others may run until it is ready."""
        with anyio.CancelScope(shield=True):
            self.kill()
            self._launch()
            await until(self._is_ready, within_s=60)

    def stop(self) -> None:
        """End it at once; open connections are cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=60)
            self._process = None

    def url(self, name: str = "postgres") -> str:
        """Of the database `name`, as asyncpg reads it, on the socket."""
        port = f"&port={self._tcp_port}" if self._tcp_port else ""
        return f"postgresql://moonpool@/{name}?host={quote(str(self._folder))}{port}"

    def tcp_url(self, name: str = "postgres") -> str:
        """The same on loopback, with its password."""
        assert self._tcp_port, "this server has no TCP"
        return f"postgresql://moonpool:{PASSWORD}@127.0.0.1:{self._tcp_port}/{name}"

    @asynccontextmanager
    async def empty_database(self) -> AsyncGenerator[str]:
        """The URL of a database with nothing in it."""
        name = await self.take_database()
        yield self.url(name)
        await self.return_database(name)

    async def take_database(self) -> str:
        """The name of a database with nothing in it."""
        if self._spare:
            return self._spare.pop()
        self._named += 1
        name = f"test_{self._named}"
        await self._execute("postgres", f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    async def return_database(self, name: str) -> None:
        """Cut off who is still connected, and empty it for the next: that takes 10 ms, whereas a new one takes 200."""
        cut_off = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1"
        await self._execute("postgres", cut_off, name)
        await self._execute(name, _EMPTY)
        self._spare.append(name)

    async def _execute(self, database: str, statement: str, *arguments: object) -> None:
        with anyio.fail_after(60):
            connection = await asyncpg.connect(self.url(database))
            try:
                await connection.execute(statement, *arguments)
            finally:
                await connection.close()


@contextmanager
def new_server(*, tcp_port: int | None = None, **options: str) -> Generator[PostgresServer]:
    """A running server with nothing in it, of these settings. Skips where there is no PostgreSQL; see the module."""
    programs = _programs()
    folder = Path(_made_for_server(programs))
    server = PostgresServer(programs, folder, options, tcp_port=tcp_port)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """The worker's server. A test that kills it starts it again."""
    with new_server() as server:
        yield server


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncGenerator[str]:
    """The URL of an empty database of the test's own."""
    async with postgres.empty_database() as url:
        yield url


def _programs() -> Path:
    """The newest PostgreSQL of this machine."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found:
        missing = "there is no PostgreSQL server here: apt-get install postgresql"
        if os.environ.get("MOONPOOL_REQUIRE_POSTGRES"):
            pytest.fail(missing)
        pytest.skip(missing)
    return max(found, key=lambda path: float(path.parent.name))


def _made_for_server(programs: Path) -> str:
    """A folder with new data, of which the run makes the first and the others are copies."""
    parent = run_folder() / "postgres"
    parent.mkdir(mode=0o755, exist_ok=True)
    template = parent / "template"
    with (parent / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (template / "done").exists():
            shutil.rmtree(template, ignore_errors=True)
            _initialise(programs, template)
            (template / "done").touch()
        folder = parent / f"{os.getpid()}-{len(list(parent.iterdir()))}"
        subprocess.run(["cp", "-a", "--reflink=auto", template, folder], check=True)
    return str(folder)


def _initialise(programs: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "password").write_text(PASSWORD, "utf-8")
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        os.chown(folder / "password", owner.pw_uid, owner.pw_gid)
    command = [
        programs / "initdb", "--pgdata", folder / "data", "--username", "moonpool", "--auth-local", "trust",
        "--auth-host", "scram-sha-256", "--pwfile", folder / "password", "--no-sync", "--encoding", "UTF8",
        "--locale", "C.UTF-8", "--wal-segsize", "4",
    ]  # fmt: skip
    made = subprocess.run(_named_account(_unprivileged(folder, command)), capture_output=True, cwd=folder, check=False)
    assert made.returncode == 0, made.stderr.decode("utf-8", "replace")


def _unprivileged(folder: Path, command: Sequence[str | Path], *options: str) -> list[str | Path]:
    """`command` as the folder's owner: PostgreSQL refuses root. `options` are setpriv's."""
    if os.geteuid() == 0:
        owner = folder.stat()
        options = (*options, "--reuid", str(owner.st_uid), "--regid", str(owner.st_gid), "--clear-groups")
    return ["setpriv", *options, "--", *command] if options else list(command)


def _named_account(command: list[str | Path]) -> list[str | Path]:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return ["bwrap", "--unshare-user", "--uid", "65534", "--gid", "65534", "--dev-bind", "/", "/", "--", *command]
    return command


@contextmanager
def _gone_already() -> Generator[None]:
    try:
        yield
    except ProcessLookupError:
        return
