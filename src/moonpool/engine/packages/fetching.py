"""The build sandbox: resolves requirements and downloads wheels for one installation, and is gone afterwards.

It has the network road to the configured index and nothing else, the resolver's program, and no code or data of any
session. What it says is checked here: forms, sizes, digests. Its half is `moonpool_guest.package_fetching`.

SECURITY: credentials of the index stay in the host, which adds them to requests.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.files.exchange import exchanging
from moonpool.engine.files.local_files import LocalFileError, landing
from moonpool.engine.files.records import TransferTally
from moonpool.engine.files.streams import receive_all
from moonpool.engine.packages.model import PackageError, PackageRefusedError, PackageTooLargeError
from moonpool.engine.packages.resolver_words import error_of
from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import LimitKind, SandboxClosedError
from moonpool.sandboxes.messages import Done, Execute, FileGet
from moonpool.sandboxes.shielding import finish
from moonpool_wire.jsonbounds import exceeded_bound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.packages.model import StoredWheel
    from moonpool.network.rules import NetworkRules
    from moonpool.sandboxes.base import ExitOutcome, Sandbox, SandboxSpec
    from moonpool.sandboxes.messages import GuestMessage
    from moonpool.sandboxes.pool import SandboxPool

WHEELS_MAX: Final = 300
_ANSWER_BYTES_MAX: Final = 2 * 1024**2
_SAID_CHARS_MAX: Final = 20_000  # `moonpool_guest.package_fetching` sends so many
_NAME: Final = "<packages>"
_URL_CHARS_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageIndex:
    """Where packages come from. Made of the operator's settings; without credentials, see `rules`."""

    options: tuple[str, ...] = ()  # of uv
    variables: Mapping[str, str]  # of uv's environment
    rules: NetworkRules  # what the build sandbox may reach, with credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """What a build sandbox is made of."""

    sandbox: SandboxSpec
    uv: Path  # in the sandbox
    site_paths: tuple[Path, ...]  # of the environment, in the sandbox
    index: PackageIndex
    timeout_s: float
    bytes_max: int  # of one wheel, packed


class FoundWheel(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that the resolver chose. SECURITY: the build sandbox says so."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]*$")]
    url: Annotated[str, Meta(min_length=1, max_length=_URL_CHARS_MAX)]
    sha256: Annotated[str, Meta(max_length=64, pattern=r"^([0-9a-f]{64})?$")]  # empty: the index has none


class _Found(msgspec.Struct, frozen=True):
    wheels: Annotated[list[FoundWheel], Meta(max_length=WHEELS_MAX)] | None = None
    files: Annotated[list[str], Meta(max_length=WHEELS_MAX)] | None = None
    said: Annotated[str, Meta(max_length=_SAID_CHARS_MAX)] = ""


class BuildSandbox:
    """One open build sandbox."""

    def __init__(self, sandbox: Sandbox, spec: BuildSpec) -> None:
        self._sandbox, self._spec = sandbox, spec

    async def resolve(self, requirements: Sequence[str], installed: Sequence[StoredWheel]) -> list[FoundWheel]:
        """The wheels that are needed besides what is there. Raises PackageError."""
        spec = self._spec
        order = {
            "uv": str(spec.uv),
            "index": list(spec.index.options),
            "variables": dict(spec.index.variables),
            "requirements": list(requirements),
            "installed": [[wheel.name, wheel.version, wheel.metadata] for wheel in installed],
            "paths": list(map(str, spec.site_paths)),
        }
        return (await self._do("resolve", order)).wheels or []

    async def download(self, wheels: Sequence[FoundWheel]) -> None:
        """Download them into the sandbox. Raises PackageError."""
        urls, variables = [wheel.url for wheel in wheels], dict(self._spec.index.variables)
        await self._do("download", {"urls": urls, "bytes_max": self._spec.bytes_max, "variables": variables})

    async def take(self, number: int, wheel: FoundWheel, target: Path) -> str:
        """Write the file of the wheel that was downloaded as `number` to `target`; return its digest.

        Raises PackageError.
        """
        digest = await self._fetch(f"packages/wheels/{number}.whl", target, self._spec.bytes_max)
        if wheel.sha256 and digest != wheel.sha256:
            raise PackageRefusedError(
                f"the wheel of {wheel.name} was refused: it is not the file whose digest the index gives; "
                "nothing was installed"
            )
        return digest

    async def _fetch(self, source: str, target: Path, bytes_max: int) -> str:
        opening = FileGet(order=int(token_hex(6), 16) + 1, path=source, bytes_max=bytes_max)
        tally = TransferTally()
        try:
            async with (
                landing(target, force=False) as file,
                exchanging(self._sandbox, opening, timeout_s=self._spec.timeout_s) as exchange,
            ):
                await receive_all(exchange, file.write, tally, bytes_max=bytes_max)
        except FileTransferError as error:
            raise PackageError(
                f"nothing was installed: a wheel did not come out of the build sandbox: {error}"
            ) from None
        except LocalFileError as error:
            why = str(error).rpartition(": ")[2]  # without the path: code reads this
            raise PackageError(f"nothing was installed: a wheel could not be written here: {why}") from None
        return tally.sha256

    async def _do(self, what: str, order: Mapping[str, object]) -> _Found:
        code = f"from moonpool_guest import package_fetching as f; result = f.{what}(f.read({json.dumps(order)!r}))"
        program = _Program(self._sandbox, code.encode())
        try:
            async with asyncio.timeout(self._spec.timeout_s):
                body = await program.run()
        except TimeoutError:
            self._sandbox.kill()
            await self._sandbox.wait_exited()
            raise PackageError(
                f"nothing was installed: fetching packages took longer than {self._spec.timeout_s:g} s; "
                "check the package index and try again"
            ) from None
        found = _decoded(body)
        if found.said:
            raise error_of(found.said)
        return found


@asynccontextmanager
async def open_build_sandbox(
    pool: SandboxPool,
    spec: BuildSpec,
    open_network: Callable[[NetworkRules], GuestNetwork],
    *,
    scope: str,
    principal: str,
) -> AsyncGenerator[BuildSandbox]:
    """A build sandbox of the tenant `scope`, on the network road.

    Raises SandboxStartError, BusyError, NetworkRuleError.
    """
    network = open_network(spec.index.rules) if spec.index.rules.domains else None
    wanted = replace(spec.sandbox if network is None else spec.sandbox.with_network(), scope=scope)
    sandbox = await pool.acquire(wanted, principal=principal)
    try:
        if network is not None:
            await network.attach(sandbox)
        yield BuildSandbox(sandbox, spec)
    finally:
        await finish(_close(sandbox, network))


async def _close(sandbox: Sandbox, network: GuestNetwork | None) -> None:
    await sandbox.close()
    if network is not None:
        await network.close()


class _Program(Backlog):
    """Runs one piece of our own code to its end."""

    def __init__(self, sandbox: Sandbox, code: bytes) -> None:
        super().__init__()
        self._sandbox, self._code, self._run = sandbox, code, f"packages_{token_hex(8)}"
        self._done: asyncio.Future[tuple[Done | None, bytes]] = asyncio.get_running_loop().create_future()

    async def run(self) -> bytes:
        """Its result as JSON. Raises PackageError."""
        order = Execute(
            run=self._run, name=_NAME, manifest="", final=False, result_bytes_max=_ANSWER_BYTES_MAX, record=False
        )
        try:
            self._sandbox.attach(self)
            self._sandbox.send(order, self._code)
        except SandboxClosedError:
            await self._sandbox.wait_exited()
        done, body = await self._done
        if done is None:
            raise self._ended()
        if done.error is not None or not done.has_result:
            why = "no result" if done.error is None else f"{done.error.type}: {done.error.message}"
            raise error_of(why)
        return body

    def _ended(self) -> PackageError:
        if self.ended is not None and self.ended.limit is LimitKind.MEMORY:
            return PackageTooLargeError(
                "nothing was installed: fetching packages took more memory than there is for it"
            )
        return PackageError("nothing was installed: the build sandbox ended")

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        if isinstance(message, Done) and message.run == self._run:
            self._settle(message, body)
        else:
            super().on_message(message, body)

    def on_exit(self, outcome: ExitOutcome) -> None:
        super().on_exit(outcome)
        self._settle(None, b"")

    def _settle(self, done: Done | None, body: bytes) -> None:
        if not self._done.done():
            self._done.set_result((done, body))


def _decoded(body: bytes) -> _Found:
    if exceeded_bound(body, depth_max=4, containers_max=WHEELS_MAX + 8) is None and len(body) <= _ANSWER_BYTES_MAX:
        try:
            return msgspec.json.decode(body, type=_Found)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
    raise PackageError(
        f"nothing was installed: more than {WHEELS_MAX} packages are needed, or the resolver's answer cannot be read"
    )
