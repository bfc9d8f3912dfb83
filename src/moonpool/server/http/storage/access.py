"""Which stored trees a caller can name, and what it may do with them.

SECURITY: a tree that a caller cannot use does not exist for it. Threads of keys are its organisation's, those of users
and OAuth clients their own; volumes are those that its sandbox configuration mounts, all of them for administrators.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.storage.model import TreeName, UnknownTreeError, owner_of_threads
from moonpool.features.storage.recorded_files import RecordedFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.audit import Journal
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.features.storage.base import OrganisationTrees, Trees
    from moonpool.features.storage.model import TreeKind
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.http.callers import HttpCaller


class StorageOffError(MoonpoolError):
    """The caller's sandbox configuration has no storage. Nothing was done (HTTP 403)."""

    code = "storage_off"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__(
            "the sandbox configuration of this credential has no storage; use a key whose configuration has it "
            "(`moonpool keys create --profile baponi` makes one), or ask an administrator to switch it on"
        )


class VolumeReadOnlyError(MoonpoolError):
    """The caller's sandbox configuration mounts the volume read-only. Nothing was done (HTTP 403)."""

    code = "volume_read_only"
    fault = Fault.CALLER

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"the sandbox configuration of this credential mounts the volume {slug} read-only; use a key that may "
            "write it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """What the routes work on, for all organisations."""

    trees: Trees
    records_of: Callable[[str], Awaitable[tuple[Journal, Redactor]]]  # of an organisation
    configuration_of: Callable[[HttpCaller], Awaitable[SandboxConfiguration]]

    async def of(self, caller: HttpCaller) -> OrganisationTrees:
        """Trees of its organisation. Raises StorageOffError, DatabaseError."""
        if not (await self.configuration_of(caller)).has_storage:
            raise StorageOffError
        return self.trees.of(caller.organisation)

    async def name(self, caller: HttpCaller, kind: TreeKind, name: str, *, writes: bool = False) -> TreeName:
        """The tree that a caller means. Raises InputError, UnknownTreeError, VolumeReadOnlyError."""
        if kind == "thread":
            return TreeName(kind=kind, name=name, owner=owner_of_threads(caller.principal))
        volume = TreeName(kind=kind, name=name)
        may_write = (await self.volumes(caller)).get(name) if "admin" not in caller.scopes else True
        if may_write is None:
            raise UnknownTreeError(f"there is no volume {name}")
        if writes and not may_write:
            raise VolumeReadOnlyError(name)
        return volume

    async def volumes(self, caller: HttpCaller) -> dict[str, bool]:
        """Slugs of the volumes that the caller's sandboxes have, and whether they may write them."""
        return {one.slug: one.writable for one in (await self.configuration_of(caller)).volumes}

    async def recorded(self, organisation: str, principal: str) -> RecordedFiles:
        """Changes by `principal`."""
        journal, redactor = await self.records_of(organisation)
        return RecordedFiles(
            trees=self.trees.of(organisation),
            journal=journal,
            principal=principal,
            redacted=lambda path: redactor.text(path, Counter()),
        )
