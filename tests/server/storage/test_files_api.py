"""`/v1/files/…`, `/v1/threads`, `/v1/volumes`: shapes, statuses, who sees what, and what is on record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.sandboxes.identity import serves_several_tenants
from server.storage.storing import THREAD, bearer, storing, thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server.storage.storing import Storing
    from service_stores import Stores

pytestmark = pytest.mark.anyio
ALICE = "user:https://login.example#alice"
UNKNOWN = {
    "error": "not_found",
    "message": "there is no such thread or volume here; a thread is made by its first use",
}


@pytest.fixture(scope="module")
async def of_module(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> AsyncGenerator[Storing]:
    async with storing(tmp_path_factory.mktemp("files"), stores=stores, replicas=2) as opened:
        yield opened


@pytest.fixture
async def stored(of_module: Storing) -> Storing:
    await of_module.clear()
    return of_module


def names(listing: dict[str, Any]) -> list[str]:
    return [one["name"] + ("/" if one["is_directory"] else "") for one in listing["files"]]


@pytest.mark.req("J-048")
async def test_a_folder_is_listed_in_the_shape_of_the_files_api(stored: Storing) -> None:
    await stored.write(thread(), data__a_csv=b"1,2", data__deep__b=b"", readme=b"hello")
    assert names(await stored.listed()) == ["data/", "readme"]
    assert (await stored.listed("data/"))["files"] == [
        {"name": "a_csv", "path": "data/a_csv", "size": 3, "modified": "2001-09-09T01:46:40Z", "is_directory": False},
        {"name": "deep", "path": "data/deep", "size": 0, "modified": None, "is_directory": True},
    ]
    assert await stored.listed("data") == await stored.listed("data/")
    assert names(await stored.listed(recursive=True)) == ["data/", "data/a_csv", "data/deep/", "data/deep/b", "readme"]
    assert (await stored.listed("nothing/here")) == {"files": []}


async def test_pages_follow_each_other_without_a_gap(stored: Storing) -> None:
    await stored.write(thread(), **{f"f{number}": b"" for number in range(7)})
    seen: list[str] = []
    page = await stored.listed(limit=3)
    seen += names(page)
    while "next_cursor" in page:
        page = await stored.listed(limit=3, cursor=page["next_cursor"])
        seen += names(page)
    assert seen == [f"f{number}" for number in range(7)]


@pytest.mark.claim("C-STO-2")
@pytest.mark.req("F-022")
async def test_a_link_is_shown_and_removed_but_never_followed(stored: Storing) -> None:
    own = stored.trees.of("default")
    writer = own.writer(thread())
    writer.link("passwords", "/etc/passwd")
    writer.link("up", "../..")
    await own.commit(thread(), writer)
    shown = (await stored.listed())["files"][0]
    assert (shown["name"], shown["size"], shown["is_directory"], shown["is_link"]) == ("passwords", 0, False, True)
    followed = await stored.post("files/download_url", {**THREAD, "path": "passwords"})
    assert (followed.status_code, followed.json()["error"]) == (400, "validation_error")
    assert "links are not followed" in followed.json()["message"]
    assert (await stored.post("files/download_url", {**THREAD, "path": "up/etc/passwd"})).status_code == 404
    below = await stored.post("files/upload_url", {**THREAD, "path": "up/x", "content_length": 1})
    assert (below.status_code, below.json()["error"]) == (409, "conflict")
    assert (await stored.post("files/delete", {**THREAD, "path": "passwords"})).status_code == 204
    assert names(await stored.listed()) == ["up"]


ODD_PATHS = {
    "absolute": "/etc/passwd",
    "up": "../t2/secret",
    "up from within": "a/../../b",
    "NUL": "a\0b",
    "a long name": "x" * 300,
    "deep": "a/" * 1000 + "b",
    "no text": "\ud800",
    "nothing": "./.",
    "a long path": "x" * 5000,
    "empty": "",
}


@pytest.mark.req("F-022", "J-042")
async def test_paths_that_cannot_be_are_refused(stored: Storing) -> None:
    await stored.write(thread(), file=b"1")
    for route in ("upload_url", "download_url", "delete"):
        length = {"content_length": 1} if route == "upload_url" else {}
        for what, path in ODD_PATHS.items():
            body = json.dumps({**THREAD, "path": path, **length}).encode()
            answer = await stored.service.http.post(f"/v1/files/{route}", content=body, headers=bearer("key"))
            assert (answer.status_code, answer.json()["error"]) == (400, "validation_error"), (route, what)


async def test_a_path_is_not_decoded_again(stored: Storing) -> None:
    await stored.write(thread(), file=b"1")
    assert (await stored.put("%2e%2e%2ffile", b"22")).status_code == 200
    assert names(await stored.listed()) == ["%2e%2e%2ffile", "file"]
    assert (await stored.get("threads/..%2f..%2fetc")).status_code == 404
    assert (await stored.get("threads/%2e%2e")).status_code in {400, 404}


STATUSES: list[Any] = [
    ("files/list", {"source": "disk", "id": "t1"}, 400, "validation_error"),
    ("files/list", {"source": "thread"}, 400, "validation_error"),
    ("files/list", {**THREAD, "more": 1}, 400, "validation_error"),
    ("files/list", {"source": "thread", "id": "../t1"}, 400, "validation_error"),
    ("files/list", {"source": "thread", "id": "x" * 129}, 400, "validation_error"),
    ("files/list", {"source": "volume", "id": "UPPER"}, 400, "validation_error"),
    ("files/list", {"source": "volume", "id": "never"}, 404, "not_found"),
    ("files/list", {**THREAD, "cursor": "%%"}, 400, "validation_error"),
    ("files/list", {**THREAD, "limit": 0}, 400, "validation_error"),
    ("files/download_url", {**THREAD, "path": "missing"}, 404, "not_found"),
    ("files/download_url", {**THREAD, "path": "data"}, 400, "validation_error"),
    ("files/upload_url", {**THREAD, "path": "x"}, 400, "validation_error"),
    ("files/upload_url", {**THREAD, "path": "x", "content_length": -1}, 400, "validation_error"),
    ("files/upload_url", {**THREAD, "path": "x", "content_length": 10 * 1024**3 + 1}, 400, "validation_error"),
    ("files/upload_url", {**THREAD, "path": "x", "content_length": 1, "content_type": "a\nb"}, 400, "validation_error"),
    ("files/upload_url", {**THREAD, "path": "data", "content_length": 1}, 409, "conflict"),
    ("files/upload_url", {**THREAD, "path": "data/a/b", "content_length": 1}, 409, "conflict"),
    ("files/upload_url", {"source": "volume", "id": "library", "path": "x", "content_length": 1}, 403, "forbidden"),
    ("files/delete", {**THREAD, "path": "missing"}, 404, "not_found"),
    ("files/nothing", {}, 404, "not_found"),
]  # fmt: skip


@pytest.mark.req("J-048")
async def test_every_refusal_is_an_error_and_a_message(stored: Storing) -> None:
    await stored.write(thread(), data__a=b"1")
    await stored.trees.of("default").create_volume("library")
    for path, body, status, word in STATUSES:
        answer = await stored.post(path, body)
        told = (answer.status_code, answer.json().get("error"))
        assert told == (status, word), (path, body, answer.text)
        assert set(answer.json()) == {"error", "message"}


async def test_requests_that_do_not_get_as_far_are_told_the_same_way(stored: Storing) -> None:
    http = stored.service.http
    unknown = await http.post("/v1/files/list", json=THREAD, headers={"authorization": "Bearer nobody"})
    assert unknown.json() == {"error": "unauthorized", "message": "Invalid or revoked API key."}
    assert unknown.headers["www-authenticate"].startswith("Bearer")
    method = await stored.get("files/list")
    assert (method.status_code, method.json()["error"], method.headers["allow"]) == (405, "method_not_allowed", "POST")
    text = await http.post("/v1/files/list", content=b"{", headers={"authorization": "Bearer key"})
    assert (text.status_code, text.json()["error"]) == (400, "validation_error")
    long = await http.post("/v1/files/list", content=b" " * 9_000_000, headers={"authorization": "Bearer key"})
    assert (long.status_code, long.json()["error"]) == (413, "payload_too_large")
    name = await http.post("/v1/files/list", json=THREAD, headers={"authorization": "Bearer key", "host": "evil"})
    assert (name.status_code, name.json()["error"]) == (421, "misdirected_request")


async def test_a_credential_that_may_not_use_files_is_told_why(stored: Storing) -> None:
    await stored.write(thread(), file=b"1")
    bodies = {"list": {}, "upload_url": {"path": "x", "content_length": 1}, "download_url": {"path": "file"}}
    for by, why in (("runs", "lacks the scope files"), ("bare", "has no storage"), ("direct", "profile 'direct'")):
        for route, more in {**bodies, "delete": {"path": "file"}}.items():
            answer = await stored.post(f"files/{route}", {**THREAD, **more}, by=by)
            assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
            assert why in answer.json()["message"]
        for answer in (await stored.get("threads", by=by), await stored.delete("threads/t1", by=by)):
            assert answer.status_code == 403
    assert names(await stored.listed()) == ["file"]


@pytest.mark.claim("C-STO-1")
@pytest.mark.req("J-023")
@pytest.mark.parametrize(("owner", "by"), [("", "other"), ("", "alice"), (ALICE, "key"), (ALICE, "admin")])
async def test_what_is_somebody_elses_is_answered_like_what_is_not_there(stored: Storing, owner: str, by: str) -> None:
    await stored.write(thread(owner=owner), file=b"secret")
    for source in (THREAD, {"source": "thread", "id": "never"}):
        answers = [
            await stored.post("files/list", source, by=by),
            await stored.post("files/download_url", {**source, "path": "file"}, by=by),
        ]
        if by != "other" or serves_several_tenants():
            answers.append(await stored.post("files/delete", {**source, "path": "file"}, by=by))
            answers.append(await stored.delete(f"threads/{source['id']}", by=by))
        answers.append(await stored.get(f"threads/{source['id']}", by=by))
        assert {(one.status_code, *one.json().items()) for one in answers} == {(404, *UNKNOWN.items())}
    assert (await stored.get("threads", by=by)).json() == {"threads": []}


async def test_volumes_are_those_of_the_configuration_and_all_for_administrators(stored: Storing) -> None:
    own = stored.trees.of("default")
    for slug in ("hidden", "library", "shared"):
        await own.create_volume(slug)
    seen = (await stored.get("volumes")).json()["volumes"]
    assert [(one["slug"], one["is_writable"]) for one in seen] == [("library", False), ("shared", True)]
    every = (await stored.get("volumes", by="admin")).json()["volumes"]
    assert [one["slug"] for one in every] == ["hidden", "library", "shared"]
    hidden = await stored.post("files/list", {"source": "volume", "id": "hidden"})
    assert (hidden.status_code, hidden.json()) == (404, UNKNOWN)
    assert (await stored.get("volumes/never")).json() == UNKNOWN
    assert (await stored.put("x", b"1", source="volume", id="shared")).status_code == 200
    read_only = await stored.post("files/delete", {"source": "volume", "id": "library", "path": "x"})
    assert (read_only.status_code, read_only.json()["error"]) == (403, "forbidden")


@pytest.mark.req("J-036")
async def test_administrators_make_and_delete_volumes(stored: Storing) -> None:
    assert (await stored.post("volumes", {"slug": "shared"})).status_code == 403
    made = await stored.post("volumes", {"slug": "shared"}, by="admin")
    assert (made.status_code, made.json()["slug"], made.json()["size"]) == (201, "shared", 0)
    again = await stored.post("volumes", {"slug": "shared"}, by="admin")
    assert (again.status_code, again.json()["error"]) == (409, "conflict")
    assert (await stored.post("volumes", {"slug": "../x"}, by="admin")).status_code == 400
    assert (await stored.get("volumes/shared")).json()["is_writable"]
    assert (await stored.delete("volumes/shared")).status_code == 403
    assert (await stored.delete("volumes/shared", by="admin")).status_code == 204
    assert (await stored.delete("volumes/shared", by="admin")).json() == UNKNOWN
    assert [(one["action"], one["tree"], one["principal"]) for one in await stored.recorded()][:2] == [
        ("created", "volume:shared", "key:admin"),
        ("deleted", "volume:shared", "key:admin"),
    ]


async def test_threads_are_listed_in_pages_and_deleted_unless_they_run(stored: Storing) -> None:
    for name in ("a", "b", "c"):
        await stored.write(thread(name), file=b"12345")
    page = await stored.get("threads?limit=2")
    assert ([one["id"] for one in page.json()["threads"]], page.json()["next_cursor"]) == (["a", "b"], "b")
    assert [one["id"] for one in (await stored.get("threads?limit=2&cursor=b")).json()["threads"]] == ["c"]
    one = (await stored.get("threads/a")).json()
    assert (one["size"], one["entries"], one["is_running"]) == (5, 1, False)
    async with stored.trees.of("default").hold(thread("a"), "trc_1"):
        assert (await stored.get("threads/a")).json()["is_running"]
        busy = await stored.delete("threads/a")
        assert (busy.status_code, busy.json()["error"]) == (409, "conflict")
    assert (await stored.delete("threads/a")).status_code == 204
    assert (await stored.get("threads/a")).json() == UNKNOWN


async def test_deletions_and_uploads_are_on_record_before_the_answer(stored: Storing) -> None:
    await stored.put("data/in.csv", b"1,2,3")
    await stored.post("files/delete", {**THREAD, "path": "data"})
    await stored.post("files/delete", {**THREAD, "path": "data"})
    put, removed, failed = await stored.recorded()
    assert (put["action"], put["tree"], put["path"], put["bytes"], put["principal"]) == (
        "put", "thread:t1", "data/in.csv", 5, "key:key",
    )  # fmt: skip
    assert put["digest"].startswith("sha256:")
    assert (removed["action"], removed["path"], removed["error_type"]) == ("removed", "data", "")
    assert (failed["action"], failed["error_type"]) == ("removed", "file_unknown")
    assert await stored.listed() == {"files": []}


async def test_a_removal_and_an_upload_leave_what_an_execution_commits(stored: Storing) -> None:
    await stored.write(thread(), old=b"1", kept=b"2")
    async with stored.trees.of("default").hold(thread(), "trc_1") as held:
        writer = held.writer()
        await writer.begin_file("made", size=1)
        await writer.write(b"3")
        assert (await stored.put("sent", b"4")).status_code == 200
        assert (await stored.post("files/delete", {**THREAD, "path": "old"})).status_code == 204
        await held.commit(writer)
    assert names(await stored.listed()) == ["kept", "made", "sent"]
