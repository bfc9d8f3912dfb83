"""Secrets of servers that tell them wherever they can: none arrives anywhere, in no form, and none in a crash."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import uuid
import zlib
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from apps import SERVERS, fresh_data
from commands.process import SCRIPT, Command, run_command
from moonpool.features.recordings.table import RecordingsFile
from moonpool.store.paths import recordings_path, secrets_dir
from moonpool.store.sealing import Sealer
from oauth.issuing import browse, open_issuer
from security.canaries import files_below, forms, leaks, new_canary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(240)
REDIRECT = "http://127.0.0.1:8765/callback"
CORES = ["sh", "-c", 'ulimit -c "$(ulimit -Hc)"; exec "$@"', "sh"]
"""Crashes of what is really started behind this leave core files, where the machine does that."""
FORMS = ("plain", "json", "url", "hex", "base64-0", "base64-1", "base64-2")
CODE = f"""
import os, pathlib, re, sys, zlib
from servers import leaky

kept = []
for form in {FORMS}:
    for tool in (leaky.succeed, leaky.fail, leaky.refuse):
        call = await tool(form=form)
        kept.append([call.data if call.ok else None, call.error, repr(call), call.raw])
        print(*kept[-1])
for tool in (leaky.hang, leaky.crash):
    call = await tool()
    print(call.error, file=sys.stderr)
    kept.append(call.error)
files = [path.read_bytes() for path in pathlib.Path("/workspace").rglob("*") if path.is_file()]
seen = zlib.compressobj(1)
with open("/workspace/seen", "wb") as out:
    for piece in (*files, repr(dict(os.environ)).encode(), pathlib.Path("/proc/self/environ").read_bytes()):
        out.write(seen.compress(piece))
    with open("/proc/self/mem", "rb", 0) as memory:
        for line in open("/proc/self/maps"):
            start, end, rights, inode = re.match("([0-9a-f]+)-([0-9a-f]+) (....) \\\\S+ \\\\S+ (\\\\d+)", line).groups()
            if rights[:2] == "rw":
                memory.seek(int(start, 16))
                try:
                    out.write(seen.compress(memory.read(int(end, 16) - int(start, 16))))
                except OSError:
                    pass
    out.write(seen.flush())
result = kept
"""


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-canaries-{uuid.uuid4().hex[:8]}")
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Host:
    """The commands, with a server that has secrets from a variable, from the sealed store, and written down on its
    command line: behind an option and in an address.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self.variable, self.stored, self.header = new_canary("var"), new_canary("sealed"), new_canary("head")
        option, part = new_canary("opt"), uuid.uuid4().hex
        self.canaries = (self.variable, self.stored, self.header, option, part)
        self.folder, self.data = folder, data
        self.environ = {**os.environ, "MOONPOOL_DATA_DIR": str(data), "SECRET_TOKEN": self.variable}
        self.environ |= {"HEADER_TOKEN": self.header}
        leaky = {
            "command": sys.executable,
            "args": [
                str(SERVERS / "leaky.py"),
                "${secret:canary}",
                "--header=${HEADER_TOKEN}",
                "--token",
                option,
                f"https://127.0.0.1/s/{part}/mcp",
            ],
            "env": {"CANARY": "${SECRET_TOKEN}"},
            "cwd": str(folder),
            "moonpool": {"allow": ["*"], "timeout_s": 3},
        }
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"leaky": leaky}}), encoding="utf-8")
        self.command("secrets", "set", "canary", given=self.stored)

    def command(self, *words: str, given: str = "") -> subprocess.CompletedProcess[bytes]:
        return run_command([SCRIPT, *words], input=given.encode(), timeout=120, env=self.environ, cwd=self.folder)

    def where_crashes_tell(self, start: Callable[..., Any], *words: str, **options: Any) -> Any:
        """`start` a command really: who leaves which core file depends on limits and on `exec`."""
        environ = {**self.environ, "PYTHONFAULTHANDLER": "1"}
        return start([*CORES, str(SCRIPT), *words], env=environ, cwd=self.folder, **options)


def recordings_of(data: Path) -> bytes:
    """All that is recorded, opened."""
    sealer = Sealer(secrets_dir(data), {}, "recordings")
    with closing(RecordingsFile(recordings_path(data), sealer, make=False)) as file:
        kept = [file.load(ref.run_id) for ref in file.newest(10) if not ref.problem]
    return b"".join(
        b"".join((*one.shared.servers, one.header.code.encode(), *(call.arguments for call in one.calls)))
        + b"".join(reply.reply for reply in one.replies)
        + (one.end.envelope if one.end is not None else b"")
        + repr(one).encode()
        for one in kept
    )


@pytest.fixture
def host(tmp_path: Path, data: Path) -> Host:
    return Host(tmp_path, data)


@pytest.mark.req("G-022")
def test_what_a_server_tells_of_its_secrets_arrives_nowhere(host: Host) -> None:
    (host.folder / "code.py").write_text(CODE, encoding="utf-8")
    command = ("run", "--config", "servers.json", "--get", "seen:seen", "code.py")
    done = host.where_crashes_tell(subprocess.run, *command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    kept = json.loads(done.stdout)["result"]["data"]
    assert len(kept) == 3 * len(FORMS) + 2
    assert [error["type"] for error in kept[-2:]] == ["Timeout", "TransientNetwork"]
    seen = zlib.decompress((host.folder / "seen").read_bytes())
    assert seen.count(b"REDACTED") > len(FORMS)  # it is the memory, and there was something to find
    assert len(seen) > 4_000_000
    places = {"answer": done.stdout, "log": done.stderr, "guest": seen, **files_below(host.data)}
    recorded = recordings_of(host.data)
    assert b"REDACTED" in recorded  # the seal of the file hides nothing here
    places["recordings"] = recorded
    for command in (["audit", "list"], ["tools", "list", "--config", "servers.json"], ["secrets", "list"]):
        other = host.command(*command)
        places[" ".join(command)] = other.stdout + other.stderr
    assert leaks(places, host.canaries) == []
    assert [path.name for path in host.folder.glob("core*")] == []


PLANNED = """
from servers import leaky
secrets = {secrets!r}
made = await leaky.succeed(form=secrets[0], more=dict.fromkeys(secrets, "plain"))
seen = {{secret: made.text for secret in secrets}}
await leaky.fail(form=made.text + secrets[1], more=seen, **{{secrets[0]: made.text}})
await leaky.refuse(form="plain", more=[made.text[:5], {{secrets[0]: {{secrets[1]: [made.text]}}}}])
"""


def test_secrets_that_code_brings_along_are_in_no_plan(host: Host) -> None:
    code = PLANNED.format(secrets=host.canaries)
    done = host.command("run", "--config", "servers.json", "--dry-run", "-c", code)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    plan = json.loads(done.stdout)["result"]["metrics"]["plan_id"]
    places = {"answer": done.stdout, "log": done.stderr, **files_below(host.data)}
    for command in (["plans", "show", plan], ["plans", "show", plan, "--json"], ["plans", "list", "--json"]):
        other = host.command(*command)
        assert b"leaky" in other.stdout, other.stderr
        places[" ".join(command)] = other.stdout + other.stderr
    in_pointers = [canary.replace("/", "~1") for canary in host.canaries]
    assert leaks(places, [*host.canaries, *in_pointers]) == []
    shown = places[f"plans show {plan}"]
    assert (b"REDACTED" in shown, shown.count(b"what call 1 returns") > 0) == (True, True)


def test_what_is_looked_for_would_be_found(host: Host) -> None:
    places = {str(number): form for number, form in enumerate(forms(host.variable))}
    assert len(leaks(places, host.canaries)) >= len(places)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
@pytest.mark.slow
def test_a_host_that_crashes_writes_no_memory_to_disk(host: Host, number: signal.Signals) -> None:
    code = "from servers import leaky\nprint('calling', flush=True)\nawait leaky.hang()"
    command = ("run", "--config", "servers.json", "-c", code)
    with host.where_crashes_tell(subprocess.Popen, *command, stderr=PIPE) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        while b"says" not in told.splitlines()[-1]:  # the server has the call
            told += process.stderr.readline()
        process.send_signal(number)
        told += process.stderr.read()
    # Python writes the frames of threads that run meanwhile, and may crash a second time over that.
    assert process.returncode in {-number, -signal.SIGSEGV}
    assert b"Fatal Python error" in told
    (host.folder / "servers.json").unlink()  # there they are written down
    assert leaks({"log": told, **files_below(host.data), **files_below(host.folder)}, host.canaries) == []


def test_a_crash_here_would_leave_a_core_file(tmp_path: Path) -> None:
    """What the tests above compare with."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    if pattern != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip(f"this machine writes no core file into the working directory: {pattern}")
    crash = [*CORES, sys.executable, "-c", "import os; os.abort()"]
    subprocess.run(crash, cwd=tmp_path, check=False, stderr=subprocess.DEVNULL, timeout=30)
    assert [path.name for path in tmp_path.glob("core*")] != []


def test_no_neighbour_may_read_the_memory_of_a_command() -> None:
    code = """
import ctypes, resource
from moonpool.cli.private_memory import keep_memory_private
keep_memory_private()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""
    shown = subprocess.check_output([*CORES, sys.executable, "-c", code], encoding="utf-8", timeout=30)
    assert shown.split() in (["0", "1"], ["0", "0"])  # not dumpable; no core file, and no helper where one may be asked


@pytest.mark.anyio
@pytest.mark.slow
async def test_tokens_that_a_server_and_its_issuer_repeat_arrive_nowhere(host: Host, data: Path) -> None:
    async with open_issuer() as issuer:
        issuer.echoes_token = True
        client_secret = new_canary("client")
        issuer.clients["us"] = {"client_id": "us", "client_secret": client_secret, "redirect_uris": [REDIRECT]}
        oauth = {"client_id": "us", "client_secret": "${secret:canary}", "redirect_uri": REDIRECT}
        entry = {"type": "http", "url": issuer.url, "oauth": oauth, "moonpool": {"allow": ["*"]}}
        config = host.folder / "oauth.json"
        config.write_text(json.dumps({"mcpServers": {"srv": entry}}), encoding="utf-8")
        await asyncio.to_thread(host.command, "secrets", "set", "canary", given=client_secret)
        environ = {**host.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
        places = dict[str, bytes]()

        async def command(name: str, *words: str, paste: bool = False) -> int | None:
            options = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "bufsize": 0, "env": environ}
            with Command([SCRIPT, *words, "--config", config], **options) as process:
                assert process.stderr is not None
                shown, given = b"", b""
                while paste and b"/as/authorize" not in shown:
                    line = await to_thread.run_sync(process.stderr.readline)
                    assert line, shown
                    shown += line
                if paste:
                    given = (await browse(shown.split()[-1].decode())).encode() + b"\n"
                output, errors = await to_thread.run_sync(process.communicate, given)
            places[name] = shown + output + errors
            return process.returncode

        code = "from servers import srv\nc = await srv.plain()\nprint(c)\nresult = c.data if c.ok else c.error"
        assert await command("login", "login", "srv", "--headless", paste=True) == 0, places
        assert await command("run", "run", "-c", code) == 0, places
        assert b"REDACTED" in places["run"]
        issuer.expire_all()
        assert await command("renewed", "run", "-c", code) == 0, places
        issuer.expire_all()
        issuer.refuses_with = ("we", "repeat", "you")
        assert await command("refused", "run", "-c", code) == 0, places
        assert b"could not be logged in to" in places["refused"]
        canaries = [client_secret, *(value for value in issuer.issued if value.startswith(("access-", "refresh-")))]
        assert len(canaries) == 5
    assert leaks({**places, **files_below(data)}, canaries) == []
