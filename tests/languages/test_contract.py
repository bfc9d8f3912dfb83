"""Every row of the runtime contract, in every language, in real sandboxes over a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from languages.rows import ANY, LANGUAGES, ROWS, Row
from moonpool.engine import execution
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.engine.sessions import Session

pytestmark = pytest.mark.anyio

_CASES = [
    pytest.param(row, language, id=f"{language}: {name}", marks=pytest.mark.req(*row.req))
    for name, row in ROWS.items()
    for language in LANGUAGES
    if getattr(row, language) is not None
]


async def execute(session: Session, language: str, code: str, **request: Any) -> Envelope:
    with anyio.fail_after(60):
        return await session.execute(CodeRequest(code=code.encode(), language=language, **request))


@pytest.mark.parametrize(("row", "language"), _CASES)
async def test_the_contract_holds(app: Tenant, row: Row, language: str) -> None:
    session = app.runtime.session(app.caller_grant, final=True)
    try:
        envelope = await execute(session, language, getattr(row, language), **row.request)
    finally:
        await session.close()

    _assert_ending(envelope, row)
    assert envelope.tool_name == f"moonpool.{language}"
    for stream, wanted in (("stdout", row.stdout), ("exit_code", row.exit_code)):
        if wanted is not ANY:
            assert envelope.extras[stream] == wanted
    assert row.stderr in str(envelope.extras["stderr"])


def _assert_ending(envelope: Envelope, row: Row) -> None:
    assert "session" not in (envelope.error.message if row.error == "KernelKilled" and envelope.error else "")
    said = (envelope.error, envelope.extras)
    if row.error is None:
        assert envelope.error is None, said
        if row.data is not ANY:
            assert envelope.data == row.data, said
    else:
        assert envelope.error is not None, said
        assert envelope.error.type in ((row.error,) if isinstance(row.error, str) else row.error), said
        assert row.message in envelope.error.message, said
        assert envelope.extras["exit_code"] != 0


def test_a_row_without_a_language_says_why() -> None:
    for name, row in ROWS.items():
        assert row.why or all(getattr(row, language) is not None for language in LANGUAGES), name


KEEPS = {
    "python": ("kept = 41\nimport json as j", "result = j.loads(str(kept + 1))"),
    "node": (
        "const kept = 41; function add(n) { return n + 1 }; import * as p from 'node:path'",
        "result = p.sep && add(kept)",
    ),
    "bash": ("kept=41; add() { echo $(($1 + 1)); }", "add $kept"),
}


@pytest.mark.req("H-010")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_session_keeps_its_state(app: Tenant, language: str) -> None:
    session = app.runtime.session(app.caller_grant)
    try:
        first = await execute(session, language, KEEPS[language][0])
        second = await execute(session, language, KEEPS[language][1])
    finally:
        await session.close()
    assert (first.error, second.error, second.data) == (None, None, 42)


LOOPS = {"python": "while True: pass", "node": "for (;;) {}", "bash": "while :; do :; done"}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_interrupt_keeps_the_state_of_a_session(
    app: Tenant, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "GRACE_S", 20)  # they obey, but a busy machine may take its time
    patient = "from moonpool_guest import companion\ncompanion.INTERRUPT_GRACE_S = 15"
    session = app.runtime.session(app.caller_grant)
    try:
        assert (await execute(session, "python", patient)).error is None
        await execute(session, language, KEEPS[language][0])
        looped = await execute(session, language, LOOPS[language], timeout_s=0.5)
        after = await execute(session, language, KEEPS[language][1])
    finally:
        await session.close()
    assert looped.error is not None
    assert looped.error.type == "Timeout"
    assert "lost" not in looped.error.message
    assert (after.error, after.data) == (None, 42)


async def test_three_languages_share_one_workspace(app: Tenant) -> None:
    session = app.runtime.session(app.caller_grant)
    try:
        await execute(session, "python", "open('data.txt', 'w').write('a\\n')")
        await execute(session, "node", "import {appendFileSync} from 'node:fs';\nappendFileSync('data.txt', 'b\\n')")
        await execute(session, "bash", "echo c >> data.txt")
        read = await execute(session, "python", "result = open('data.txt').read()")
    finally:
        await session.close()
    assert read.data == "a\nb\nc\n"


@pytest.mark.req("H-029")
async def test_a_last_expression_that_is_no_json_is_null_and_a_sentence(app: Tenant) -> None:
    session = app.runtime.session(app.caller_grant)
    codes = {"python": "print('word')\n{1, 2}", "node": "console.log('word');\nnew Set([1, 2])"}
    try:
        found = {language: await execute(session, language, code) for language, code in codes.items()}
        printed = await execute(session, "python", "print(3)\n{1, 2}")
    finally:
        await session.close()
    for envelope, remedy in ((found["python"], "use sorted(...) or list(...)"), (found["node"], "use [...set]")):
        assert (envelope.error, envelope.data, envelope.extras["exit_code"]) == (None, None, 0)
        assert envelope.result["note"] == envelope.note
        assert envelope.note.startswith("nothing is returned: the last expression is a ")
        assert remedy in envelope.note
    assert (printed.data, "note" in printed.result) == (3, False)


DEATHS = {
    "node": "process.kill(process.pid, 'SIGKILL'); for (;;) {}",
    "bash": "kill -9 $$",
}


@pytest.mark.parametrize("language", DEATHS)
async def test_the_death_of_one_kernel_leaves_the_others_their_state(app: Tenant, language: str) -> None:
    session = app.runtime.session(app.caller_grant)
    try:
        await execute(session, "python", "kept = 5")
        died = await execute(session, language, DEATHS[language])
        python = await execute(session, "python", "result = kept")
        again = await execute(session, language, KEEPS[language][0])
    finally:
        await session.close()
    assert died.error is not None
    assert died.error.type == "KernelKilled"
    assert "lost" in died.error.message
    assert (python.error, python.data, again.error) == (None, 5, None)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_language_is_on_record(app: Tenant, language: str) -> None:
    session = app.runtime.session(app.caller_grant, final=True)
    try:
        envelope = await execute(session, language, "true" if language == "bash" else "1")
    finally:
        await session.close()
    rows = [row.to_json() for row in read_rows(journal_path(app.data), run_id=envelope.run_id)]
    assert [row["language"] for row in rows if "language" in row] == [language]
