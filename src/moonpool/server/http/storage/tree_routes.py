"""Threads and volumes themselves: which there are, how large they are; deleting them, and making volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from starlette.responses import Response

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.storage.model import TreeName, UnknownTreeError, owner_of_threads
from moonpool.server.http.baponi_errors import BAPONI_FORM
from moonpool.server.http.sessions.bodies import body_of, json_answer, query_of
from moonpool.server.http.sessions.operations import FILE_PROFILES, Operation
from moonpool.server.http.storage import messages
from moonpool.server.http.storage.file_routes import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from moonpool.features.storage.base import TreeState
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.storage.access import StoredFiles


class VolumeExistsError(MoonpoolError):
    """There is a volume of this slug. Nothing was made (HTTP 409)."""

    code = "volume_exists"
    fault = Fault.CALLER


class TreeRoutes:
    """The endpoints."""

    def __init__(self, stored: StoredFiles) -> None:
        self._stored = stored

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return (
            Operation(
                method="GET", path="/threads", name="listThreads", endpoint=self.threads, scope="files",
                summary="Threads by id", query=messages.TreesQuery, answer=messages.ThreadList,
                profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="GET", path="/threads/{id}", name="getThread", endpoint=self.thread, scope="files",
                summary="One thread", answer=messages.ThreadBody, profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="DELETE", path="/threads/{id}", name="deleteThread", endpoint=self.delete_thread, scope="files",
                summary="Delete a thread with all its files", status=204, profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="GET", path="/volumes", name="listVolumes", endpoint=self.volumes, scope="files",
                summary="Volumes that this credential can use", query=messages.TreesQuery, answer=messages.VolumeList,
                profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="POST", path="/volumes", name="createVolume", endpoint=self.create_volume, scope="admin",
                summary="Make an empty volume for your organisation", body=messages.CreateVolume,
                answer=messages.VolumeBody, status=201, profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="GET", path="/volumes/{slug}", name="getVolume", endpoint=self.volume, scope="files",
                summary="One volume", answer=messages.VolumeBody, profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="DELETE", path="/volumes/{slug}", name="deleteVolume", endpoint=self.delete_volume,
                scope="admin", summary="Delete a volume with all its files", status=204, profiles=FILE_PROFILES,
                form=BAPONI_FORM,
            ),
        )  # fmt: skip

    async def threads(self, request: Request, caller: HttpCaller) -> Response:
        query = query_of(request, messages.TreesQuery)
        found = await (await self._stored.of(caller)).all("thread", owner_of_threads(caller.principal))
        shown, cursor = _page(found, query)
        return json_answer(messages.ThreadList(threads=tuple(map(_thread, shown)), next_cursor=cursor or UNSET))

    async def thread(self, request: Request, caller: HttpCaller) -> Response:
        trees = await self._stored.of(caller)
        return json_answer(_thread(await trees.state(await self._thread_name(request, caller))))

    async def delete_thread(self, request: Request, caller: HttpCaller) -> Response:
        await self._stored.of(caller)
        return await self._delete(await self._thread_name(request, caller), caller)

    async def volumes(self, request: Request, caller: HttpCaller) -> Response:
        query = query_of(request, messages.TreesQuery)
        found = await (await self._stored.of(caller)).all("volume")
        if "admin" not in caller.scopes:
            mounted = await self._stored.volumes(caller)
            found = [one for one in found if one.name.name in mounted]
        shown, cursor = _page(found, query)
        bodies = tuple([await self._volume(one, caller) for one in shown])
        return json_answer(messages.VolumeList(volumes=bodies, next_cursor=cursor or UNSET))

    async def volume(self, request: Request, caller: HttpCaller) -> Response:
        trees = await self._stored.of(caller)
        name = await self._stored.name(caller, "volume", request.path_params["slug"])
        return json_answer(await self._volume(await trees.state(name), caller))

    async def create_volume(self, request: Request, caller: HttpCaller) -> Response:
        slug = (await body_of(request, messages.CreateVolume)).slug
        try:
            await self._stored.trees.of(caller.organisation).state(TreeName(kind="volume", name=slug))
        except UnknownTreeError:
            files = await self._stored.recorded(caller.organisation, caller.principal)
            return json_answer(await self._volume(await files.create_volume(slug), caller), 201)
        raise VolumeExistsError(f"there is a volume {slug} already; choose another slug")

    async def delete_volume(self, request: Request, caller: HttpCaller) -> Response:
        return await self._delete(TreeName(kind="volume", name=request.path_params["slug"]), caller)

    async def _delete(self, name: TreeName, caller: HttpCaller) -> Response:
        files = await self._stored.recorded(caller.organisation, caller.principal)
        await files.delete(name)
        return Response(status_code=204)

    async def _thread_name(self, request: Request, caller: HttpCaller) -> TreeName:
        return await self._stored.name(caller, "thread", request.path_params["id"])

    async def _volume(self, state: TreeState, caller: HttpCaller) -> messages.VolumeBody:
        slug = state.name.name
        return messages.VolumeBody(
            slug=slug,
            size=state.bytes_count,
            entries=state.entry_count,
            created_at=rfc3339(state.created_at),
            last_used_at=rfc3339(state.used_at),
            is_writable="admin" in caller.scopes or (await self._stored.volumes(caller)).get(slug, False),
        )


def _thread(state: TreeState) -> messages.ThreadBody:
    return messages.ThreadBody(
        id=state.name.name,
        size=state.bytes_count,
        entries=state.entry_count,
        created_at=rfc3339(state.created_at),
        last_used_at=rfc3339(state.used_at),
        is_running=bool(state.held_by),
    )


def _page(found: Sequence[TreeState], query: messages.TreesQuery) -> tuple[list[TreeState], str | None]:
    """By name, behind the cursor, which is the last name of the page before."""
    left = [one for one in found if query.cursor is None or one.name.name > query.cursor]
    left.sort(key=lambda one: one.name.name)
    return left[: query.limit], left[query.limit - 1].name.name if len(left) > query.limit else None
