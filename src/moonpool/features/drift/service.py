"""Changed tools in a running Moonpool: noticing, holding, accepting. What is a change and how grave it is: core.drift.

A `DriftWatch` reviews every new set of listings before anybody sees it. It reads and writes what was accepted through
an `AcceptanceBook`, tells the operator's log, and puts each change on record once, whichever process saw it first.

INVARIANT: an acceptance is on record before it counts, and it counts for exactly the definitions that were shown.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import DriftRecord, ToolUpdateRecord, time_stamp
from moonpool.core.errors import InputError
from moonpool.core.phrases import clip, printable, storable
from moonpool.features.drift.model.acceptance import (
    Accepted,
    Review,
    accept,
    listed_names,
    refusal,
    review,
    shown_digest,
    shown_listing,
)
from moonpool.features.drift.model.changes import ToolDiff, ToolNames

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from moonpool.core.manifest import ServerListing, ToolDefinition
    from moonpool.tools.update_times import ToolUpdate

_log = logging.getLogger(__name__)
_NAME_LENGTH_MAX = 256


class AcceptanceStorage(Protocol):
    """What was accepted, durably (`moonpool.features.drift.table`). Blocking."""

    def load(self, key: str) -> Accepted | None: ...
    def update(self, key: str, change: Callable[[Accepted | None], Accepted]) -> bool: ...
    def stamp(self, key: str) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftState:
    """Listings as they may be shown, and what is open."""

    listings: Mapping[str, ServerListing]
    open: tuple[ToolDiff, ...] = ()  # dangerous and not accepted
    held: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])  # tool -> refusal


class DriftWatch:
    """Watches the tools of a set of servers. One per tool registry; its calls do not overlap."""

    def __init__(
        self,
        keys: Mapping[str, str],
        store: AcceptanceStorage,
        *,
        pauses: bool,
        principal: str,
        record: Callable[[Sequence[DriftRecord | ToolUpdateRecord]], Awaitable[None]],
        redact: Callable[[str], str],
    ) -> None:
        self._keys, self._store, self._pauses = dict(keys), store, pauses
        self._principal, self._write, self._redact = principal, record, redact
        self._kept: dict[str, Accepted] = {}  # where the book cannot be written
        self._stamps: dict[str, object] = {}

    def watch(self, server_id: str, key: str) -> None:
        """Watch one more server, or another in place of one."""
        self._keys[server_id] = key

    async def review(self, listings: Mapping[str, ServerListing]) -> DriftState:
        """Compare `listings` with what was accepted, and remember what is accepted now."""
        state, news = await asyncio.to_thread(self._review, listings)
        if news:
            await self._tell(news)
        return state

    async def tell_updates(self, updates: Sequence[ToolUpdate]) -> None:
        """Put on record how long changed lists took to be found."""
        if not updates:
            return
        try:
            await self._write([self._update_record(update) for update in updates])
        except JournalError as error:
            _log.error("how long changed tools took is not on record: %s", error)

    async def has_moved(self) -> bool:
        """Whether somebody else wrote into the book since the last review."""
        return await asyncio.to_thread(lambda: self._all_stamps() != self._stamps)

    async def accept(self, diffs: Sequence[ToolDiff], tools: Iterable[ToolDefinition], *, whole: bool) -> None:
        """Accept `engine.tool_registry` of one server, which `diffs` speak of, as they are now. Raises JournalError."""
        chosen = tuple(tools)
        await self._write([self._record(diff, "accepted") for diff in diffs])
        await asyncio.to_thread(self._accept, self._keys[diffs[0].server_id], chosen, whole)

    def _review(self, listings: Mapping[str, ServerListing]) -> tuple[DriftState, list[ToolDiff]]:
        self._stamps = self._all_stamps()
        known = {server_id: self._load(key) for server_id, key in self._keys.items()}
        names = ToolNames(
            [
                *(key for listing in listings.values() for key in listed_names(listing)),
                *((server_id, name) for server_id, one in known.items() if one is not None for name in one.tools),
            ]
        )
        shown: dict[str, ServerListing] = {}
        found: list[ToolDiff] = []
        news: list[ToolDiff] = []
        for server_id, listing in listings.items():
            reviewed = review(known[server_id], listing, names)
            if reviewed.accepted != known[server_id]:
                reviewed = self._update(self._keys[server_id], listing, names)
            news += reviewed.news
            found += reviewed.held
            held = reviewed.held if self._pauses else ()
            shown[server_id] = shown_listing(listing, reviewed.accepted, held)
        held_now = {(diff.server_id, diff.tool_name): refusal(diff) for diff in found} if self._pauses else {}
        return DriftState(listings=shown, open=tuple(found), held=held_now), news

    def _update(self, key: str, listing: ServerListing, names: ToolNames) -> Review:
        made: list[Review] = []

        def change(now: Accepted | None) -> Accepted:
            made.append(review(now or self._kept.get(key), listing, names))
            return made[-1].accepted

        if self._store.update(key, change):
            self._kept.pop(key, None)
        else:
            self._kept[key] = made[-1].accepted
            _log.warning(
                "what was accepted of server %s cannot be kept on disk; a restart forgets it", listing.server_id
            )
        return made[-1]

    def _accept(self, key: str, tools: tuple[ToolDefinition, ...], whole: bool) -> None:
        def change(now: Accepted | None) -> Accepted:
            return accept(now or self._kept.get(key) or Accepted(), tools, whole=whole)

        if not self._store.update(key, change):
            raise InputError(
                "what was accepted cannot be kept on disk; free disk space or give write access to the data folder"
            )

    def _load(self, key: str) -> Accepted | None:
        return self._kept.get(key) or self._store.load(key)

    def _all_stamps(self) -> dict[str, object]:
        return {key: self._store.stamp(key) for key in self._keys.values()}

    async def _tell(self, news: list[ToolDiff]) -> None:
        records: list[DriftRecord] = []
        for diff in news:
            name = printable(clip(f"{diff.server_id}.{diff.tool_name}", _NAME_LENGTH_MAX))
            if not diff.dangerous:
                records.append(self._record(diff, "passed"))
                _log.info("%s changed: %s", name, ", ".join(change.kind for change in diff.changes))
                continue
            records.append(self._record(diff, "held" if self._pauses else "reported"))
            state = "is paused" if self._pauses else "changed dangerously"
            why = printable(self._redact("; ".join(diff.reasons[:3])))
            _log.warning("%s %s: %s; see `moonpool tools drift`", name, state, why)
        try:
            await self._write(records)
        except JournalError as error:  # what is held stays held; the log has said it
            _log.error("changed tools are not on record: %s", error)

    def _update_record(self, update: ToolUpdate) -> ToolUpdateRecord:
        return ToolUpdateRecord(
            run_id=f"update_{uuid.uuid4().hex}",
            at=time_stamp(datetime.now(UTC)),
            principal=storable(self._principal),
            server_id=self._redact(storable(update.server_id))[:_NAME_LENGTH_MAX],
            cause=update.cause,
            update_ms=update.update_ms,
            unseen_ms=update.unseen_ms,
        )

    def _record(self, diff: ToolDiff, action: str) -> DriftRecord:
        return DriftRecord(
            run_id=f"drift_{uuid.uuid4().hex}",
            at=time_stamp(datetime.now(UTC)),
            principal=storable(self._principal),
            server_id=self._redact(storable(diff.server_id))[:_NAME_LENGTH_MAX],
            tool_name=self._redact(storable(diff.tool_name))[:_NAME_LENGTH_MAX],
            action=action,
            changes=tuple(dict.fromkeys(str(change.kind) for change in diff.changes)),
            before_digest=diff.before_digest,
            after_digest=diff.after_digest,
        )


def choose(found: Iterable[ToolDiff], name: str, servers: Iterable[str]) -> tuple[ToolDiff, ...]:
    """The open changes that SERVER or SERVER.TOOL means. Raises InputError when there are none."""
    diffs = tuple(found)
    chosen = tuple(diff for diff in diffs if name in (diff.server_id, f"{diff.server_id}.{diff.tool_name}"))
    if len({diff.server_id for diff in chosen}) > 1:
        raise InputError(f"{clip(name, 120)!r} means tools of several servers; rename a server")
    if chosen:
        return chosen
    if diffs:
        names = ", ".join(dict.fromkeys(f"{diff.server_id}.{diff.tool_name}" for diff in diffs[:5]))
        raise InputError(f"no open change of {clip(name, 120)!r}; there are some of {clip(names, 400)}")
    known = ", ".join(sorted(servers))
    raise InputError(f"no tool of {clip(known, 300) or 'any server'} has an open change, so there is nothing to accept")


def check_shown(diffs: Sequence[ToolDiff], shown: str) -> None:
    """Raise InputError unless `shown` is the digest of `diffs`, whole or its first 32 digits.

    SECURITY: the server may have changed its tools again since somebody looked.
    """
    wanted = shown_digest(diffs).removeprefix("sha256:")
    if shown.removeprefix("sha256:") not in (wanted, wanted[:32]):
        raise InputError(
            f"{clip(shown, 80)!r} is not the digest of what is open now, so it was not what you saw; look again with "
            "`moonpool tools drift`"
        )
