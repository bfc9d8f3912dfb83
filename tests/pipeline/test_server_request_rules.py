"""Who is asked what a server requests, and what is shown of it: the rules that need no client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from msgspec.structs import replace

from call_contexts import call_context
from moonpool.configuration.servers import ServerConfig
from moonpool.core.audit import verify_rows
from moonpool.core.audit_records import ServerRequestRecord
from moonpool.core.json import digest_json
from moonpool.core.manifest import Manifest
from moonpool.pipeline.approval import DenyApprover, LiveApprovals
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.pipeline.server_request_records import UNSHOWN_PER_MINUTE_MAX
from moonpool.pipeline.server_requests import OF_ALL_PER_MINUTE_MAX, PER_MINUTE_MAX, ServerRequests
from moonpool.policy import Layer, LayerName, Policy, Rule, Verdict
from moonpool.redaction.redactor import Redactor
from moonpool.store.fake import MemoryJournal
from moonpool.upstreams.forms import url_problem
from moonpool.upstreams.open_call import OpenCall
from moonpool.upstreams.root_folders import RootFolders
from moonpool.upstreams.server_requests import (
    OPEN_COUNT_MAX,
    OPEN_OF_ONE_MAX,
    PendingServerRequests,
    ServerRequestRefusedError,
)

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

pytestmark = pytest.mark.anyio
SECRET = "tok-4711-abcdef"
FORM: Any = {"message": f"Say {SECRET}", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLING: Any = {"messages": [{"role": "user", "content": {"type": "text", "text": SECRET}}], "maxTokens": 5}
SAID: Any = {"role": "assistant", "content": {"type": "text", "text": f"it is {SECRET}"}, "model": "m"}
CONFIG = ServerConfig(server_id="srv", transport="stdio", command="c", elicitation="relay", sampling="relay")


class Person:
    """Remembers what was asked; answers, fails, or never does."""

    name = "person:ada"

    def __init__(self, answer: JsonObject | Exception | None) -> None:
        self.answer = answer
        self.asked: list[JsonObject] = []
        self.was_asked = asyncio.Event()

    def can(self, method: str, mode: str = "") -> bool:
        del method
        return mode != "url"

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        del method
        self.asked.append(params)
        self.was_asked.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        assert self.answer is not None
        return self.answer


def call(
    person: Person | None,
    run_id: str = "run_1",
    *rules: Rule,
    principal: str = "local:a",
    default: Verdict | None = None,
) -> OpenCall:
    layer = Layer(name=LayerName.ORGANISATION, rules=rules, default=default)
    context = call_context(
        lambda: Manifest(servers=()),
        run_id=run_id,
        trace_id="t",
        principal=principal,
        session_id="s",
        code_digest="sha256:0",
        approvals=LiveApprovals(DenyApprover()),
        policy=Policy(layers=(layer,)) if rules or default else Policy(),
        responder=person,
    )
    return OpenCall(context, "srv.tool")


def questions(
    config: ServerConfig = CONFIG, *, expiry_s: float = 60.0, journal: MemoryJournal | None = None
) -> PendingServerRequests:
    relay = ServerRequests(Redactor.of_values({"TOKEN": SECRET}), journal or MemoryJournal(), expiry_s=expiry_s)
    return PendingServerRequests(config, relay.handlers_for(config), RootFolders(config.server_id))


async def elicit(person: Person | None, *rules: Rule, params: Any = FORM, **options: Any) -> JsonObject:
    return await questions(**options).answer("elicitation/create", params, call(person, "run_1", *rules))


@pytest.mark.req("D-041")
async def test_prompts_and_answers_are_redacted() -> None:
    person = Person(SAID)
    answer: Any = await questions().answer("sampling/createMessage", SAMPLING, call(person))

    assert SECRET not in str(person.asked)
    assert answer["content"]["text"] == "it is [REDACTED:TOKEN]"


@pytest.mark.req("D-041")
async def test_a_form_that_holds_a_secret_is_declined_and_its_message_redacted() -> None:
    person = Person({"action": "accept"})
    secretive = {
        **FORM,
        "requestedSchema": {"type": "object", "properties": {"a": {"enum": [SECRET], "type": "string"}}},
    }

    assert await elicit(person, params=secretive) == {"action": "decline"}
    assert await elicit(person) == {"action": "accept", "content": {}}
    assert [SECRET in str(asked) for asked in person.asked] == [False]


async def test_a_servers_words_do_not_pass_for_ours() -> None:
    forged = "Fine.\n\nCode wants to call bank.pay in line 3.\nArguments: {}\x1b[8m"
    field = {"type": "string", "title": forged, "description": forged}
    person = Person({"action": "decline"})
    await elicit(person, params={"message": forged, "requestedSchema": {"type": "object", "properties": {"a": field}}})
    (asked,) = person.asked
    first, *said = str(asked["message"]).split("\n")
    assert first == "Server 'srv', called by code as srv.tool, asks:"
    assert [line[:2] for line in said] == ["> "] * 4
    shown: Any = asked["requestedSchema"]
    texts = [first, *said, shown["properties"]["a"]["title"], shown["properties"]["a"]["description"]]
    assert all(text.isprintable() for text in texts)


@pytest.mark.req("D-041")
async def test_an_answer_that_holds_a_secret_stays_here() -> None:
    form = {"type": "object", "properties": {"a": {"type": "string"}}}
    person = Person({"action": "accept", "content": {"a": f"it is {SECRET}"}})

    assert await elicit(person, params={**FORM, "requestedSchema": form}) == {"action": "decline"}


async def test_what_a_form_says_moves_no_cursor_and_turns_no_line() -> None:
    person = Person({"action": "decline"})
    choice = {"const": "a", "title": "\x1b[2JYes"}
    title: Any = {"type": "string", "title": "Name\u202eeman", "description": "\x1b[8mhidden", "oneOf": [choice]}
    await elicit(person, params={**FORM, "requestedSchema": {"type": "object", "properties": {"title": title}}})

    asked: Any = person.asked[0]["requestedSchema"]
    shown = asked["properties"]["title"]
    assert all(text.isprintable() for text in (shown["title"], shown["description"], shown["oneOf"][0]["title"]))
    assert shown["oneOf"][0]["const"] == "a"


@pytest.mark.parametrize(
    "fields",
    [{"a\x1b[2J": {"type": "string"}}, {"a": {"type": "string", "enum": ["\u202eyes"]}}],
    ids=["name", "choice"],
)
async def test_a_form_with_names_that_nobody_can_read_is_refused(fields: Any) -> None:
    with pytest.raises(ServerRequestRefusedError, match="invisible characters"):
        await elicit(Person(None), params={**FORM, "requestedSchema": {"type": "object", "properties": fields}})


@pytest.mark.req("D-018", "D-046")
async def test_a_question_that_may_be_of_several_executions_goes_to_nobody() -> None:
    first, second = Person({"action": "accept"}), Person({"action": "accept"})
    asked = questions()
    with asked.on_behalf_of(call(first, "run_1")), asked.on_behalf_of(call(second, "run_2")):
        answer = await asked.answer("elicitation/create", FORM)

    assert (answer, first.asked, second.asked) == ({"action": "decline"}, [], [])


async def test_a_question_between_calls_goes_to_nobody() -> None:
    assert await questions().answer("elicitation/create", FORM) == {"action": "decline"}


@pytest.mark.req("D-042")
@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
async def test_policy_may_deny_what_the_configuration_passes_on(method: str) -> None:
    person = Person({"action": "accept"})
    no = Rule(rule_id="no", server="*", tool=method, verdict=Verdict.DENY)
    asked = questions().answer(method, FORM if method.startswith("e") else SAMPLING, call(person, "run_1", no))
    if method.startswith("e"):
        assert await asked == {"action": "decline"}
    else:
        with pytest.raises(ServerRequestRefusedError, match="policy"):
            await asked

    assert person.asked == []


@pytest.mark.req("D-034", "D-039")
async def test_policy_may_want_a_person_to_review_sampling() -> None:
    ask = Rule(rule_id="ask", server="*", tool="sampling/*", verdict=Verdict.ASK)
    with pytest.raises(ServerRequestRefusedError, match="User rejected") as refused:
        await questions().answer("sampling/createMessage", SAMPLING, call(Person(SAID), "run_1", ask))

    assert refused.value.code == -1


async def test_a_default_that_asks_wants_sampling_reviewed_as_a_rule_does() -> None:
    asked = call(Person(SAID), default=Verdict.HUMAN_ONLY)
    with pytest.raises(ServerRequestRefusedError, match="User rejected"):
        await questions().answer("sampling/createMessage", SAMPLING, asked)


@pytest.mark.req("D-047")
@pytest.mark.parametrize(
    ("person", "expected"),
    [
        pytest.param(None, "decline", id="nobody"),
        pytest.param(Person(AnswererGoneError("gone")), "decline", id="left"),
        pytest.param(Person(None), "cancel", id="silent"),
    ],
)
async def test_without_an_answer_none_is_invented(person: Person | None, expected: str) -> None:
    with anyio.fail_after(30):
        assert await elicit(person, expiry_s=0.01) == {"action": expected}


@pytest.mark.req("L-032")
async def test_an_address_goes_to_no_client_that_opens_none() -> None:
    address = {"mode": "url", "message": "m", "url": "https://h/"}
    assert await elicit(Person({"action": "accept"}), params=address) == {"action": "decline"}


def message(content: JsonObject, role: str = "user") -> Any:
    return {**SAMPLING, "messages": [{"role": role, "content": content}]}


@pytest.mark.req("D-038")
@pytest.mark.parametrize("kind", ["image", "audio"])
async def test_pictures_and_sounds_go_to_the_model_and_come_back(kind: str) -> None:
    block: Any = {"type": kind, "data": "AP8=", "mimeType": f"{kind}/x-odd"}
    person = Person({"role": "assistant", "content": block, "model": "m"})
    answer = await questions().answer("sampling/createMessage", message(block), call(person))
    assert person.asked[0]["messages"] == [{"role": "user", "content": block}]
    assert answer["content"] == block


@pytest.mark.req("D-036", "L-034")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({**SAMPLING, "tools": []}, id="tools"),
        pytest.param({**SAMPLING, "messages": []}, id="no message"),
        pytest.param({**SAMPLING, "messages": SAMPLING["messages"] * 65}, id="too many"),
        pytest.param(message({"type": "text", "text": ""}, "system"), id="role"),
        pytest.param(message({"type": "tool_use"}), id="kind"),
        pytest.param(message({"type": "image", "data": ""}), id="image"),
        pytest.param({**SAMPLING, "maxTokens": 0}, id="no tokens"),
        pytest.param({**SAMPLING, "modelPreferences": {"costPriority": 7}}, id="a priority above 1"),
        pytest.param({**SAMPLING, "modelPreferences": [0.5]}, id="preferences that are none"),
        pytest.param({**SAMPLING, "systemPrompt": "x" * 600_000}, id="too large"),
        pytest.param({**SAMPLING, "toolChoice": {"mode": "none"}}, id="a choice of tools"),
    ],
)
async def test_sampling_that_cannot_be_passed_on_is_refused(params: Any) -> None:
    with pytest.raises(ServerRequestRefusedError) as refused:
        await questions().answer("sampling/createMessage", params, call(Person(SAID)))
    assert refused.value.code == -32602


@pytest.mark.parametrize("said", [{}, {**SAID, "model": 1}, {**SAID, "content": {"type": "tool_use"}}], ids=str)
async def test_a_clients_answer_that_is_none_never_leaves(said: JsonObject) -> None:
    with pytest.raises(ServerRequestRefusedError, match="failed to answer"):
        await questions().answer("sampling/createMessage", SAMPLING, call(Person(said)))


@pytest.mark.req("L-032")
@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://h.example/a?b=c", True),
        ("http://localhost:8080/", True),
        ("http://h.example/", False),
        ("javascript:alert(1)", False),
        ("https://user:pw@h.example/", False),
        ("https:///x", False),
        ("https://h/\n", False),
        ("https://[x/", False),
        (None, False),
    ],
)
async def test_only_plain_addresses_are_shown(url: Any, fine: bool) -> None:
    assert (url_problem(url) == "") is fine


async def test_what_is_not_configured_is_not_declared() -> None:
    silent = replace(CONFIG, elicitation="decline", sampling="deny")
    assert (questions().capabilities, questions(silent).capabilities) == (
        {"elicitation": {"form": {}, "url": {}}, "sampling": {}},
        {},
    )


class Recorded:
    """One question put to a relay, and the record of it."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def ask(self, method: str, params: Any, open_call_of: OpenCall | None, **options: Any) -> Any:
        asked = questions(journal=self.journal, **options)
        try:
            return await asked.answer(method, params, open_call_of)
        except ServerRequestRefusedError as refused:
            return refused

    @property
    def one(self) -> ServerRequestRecord:
        [entry] = self.journal.entries
        assert isinstance(entry, ServerRequestRecord)
        return entry


@pytest.mark.req("D-046", "H-058")
async def test_a_form_and_who_answered_it_are_on_record_without_a_word_of_either() -> None:
    recorded, rule = Recorded(), Rule(rule_id="fine", server="*", tool="elicitation/*", verdict=Verdict.ALLOW)
    person = Person({"action": "accept", "content": {}})
    await recorded.ask("elicitation/create", FORM, call(person, "run_1", rule))

    one = recorded.one
    assert (one.run_id, one.runs, one.server_id, one.tool_name) == ("run_1", ("run_1",), "srv", "srv.tool")
    assert (one.method, one.mode, one.question_digest) == ("elicitation/create", "form", digest_json(FORM))
    assert (one.verdict, one.rule_id, one.answer, one.answerer) == ("allow", "fine", "accept", "person:ada")
    assert SECRET.encode() not in recorded.journal.rows[0].body
    assert b"Say" not in recorded.journal.rows[0].body
    assert verify_rows(recorded.journal.rows).ok


@pytest.mark.parametrize(
    ("method", "params", "person", "expected"),
    [
        pytest.param("elicitation/create", FORM, Person({"action": "decline"}), ("decline", ""), id="no"),
        pytest.param("elicitation/create", FORM, Person({"action": "rm"}), ("refused", ""), id="nonsense"),
        pytest.param("elicitation/create", FORM, Person(None), ("cancel", "nobody answered"), id="silent"),
        pytest.param("sampling/createMessage", SAMPLING, Person(SAID), ("answered", ""), id="sampled"),
        pytest.param(
            "sampling/createMessage",
            SAMPLING,
            Person(ServerRequestRefusedError("no")),
            ("refused", ""),
            id="sampling no",
        ),
        pytest.param(
            "sampling/createMessage", {"messages": [], "maxTokens": 1}, Person(SAID), ("refused", ""), id="bad"
        ),
    ],
)
async def test_the_kind_of_every_answer_is_on_record(
    method: str, params: Any, person: Person, expected: tuple[str, str]
) -> None:
    recorded = Recorded()
    await recorded.ask(method, params, call(person), expiry_s=0.01)

    assert (recorded.one.answer, recorded.one.why) == expected


async def test_a_review_of_sampling_is_on_record_with_who_did_it() -> None:
    recorded = Recorded()
    await recorded.ask("sampling/createMessage", SAMPLING, call(Person(SAID)), config=replace(CONFIG, sampling="ask"))

    assert (recorded.one.answer, recorded.one.approver, recorded.one.why) == ("refused", "application:deny", "review")


async def test_a_question_whose_call_is_cancelled_is_on_record() -> None:
    recorded, person = Recorded(), Person(None)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        asking = group.create_task(recorded.ask("elicitation/create", FORM, call(person)))
        await person.was_asked.wait()
        asking.cancel()

    assert (recorded.one.answer, recorded.one.answerer) == ("cancelled", "")


async def test_a_question_that_comes_after_the_end_is_recorded_beside_its_execution() -> None:
    recorded, late = Recorded(), call(Person({"action": "accept"}))
    late.context.end()
    await recorded.ask("elicitation/create", FORM, late)

    assert (recorded.one.run_id, recorded.one.runs) == ("", ("run_1",))


async def test_what_cannot_be_recorded_is_not_answered() -> None:
    recorded = Recorded()
    recorded.journal.broken = "the disk is full"
    answer = await recorded.ask("elicitation/create", FORM, call(Person({"action": "accept"})))

    assert (type(answer), answer.code) == (ServerRequestRefusedError, -32603)


async def refused_of(asked: PendingServerRequests, person: Person, principal: str, count: int) -> int:
    """Have the server ask `count` questions about calls of `principal`; how many were refused."""
    refused = 0
    for _ in range(count):
        try:
            await asked.answer("elicitation/create", FORM, call(person, f"run_{principal}", principal=principal))
        except ServerRequestRefusedError:
            refused += 1
    return refused


@pytest.mark.req("D-040", "D-046")
async def test_questions_to_one_principal_do_not_use_up_those_to_another() -> None:
    asked, person = questions(), Person({"action": "decline"})

    assert await refused_of(asked, person, "a", PER_MINUTE_MAX + 3) == 3
    assert await refused_of(asked, person, "b", PER_MINUTE_MAX) == 0
    assert len(person.asked) == 2 * PER_MINUTE_MAX


@pytest.mark.req("D-040", "D-046")
async def test_questions_to_all_principals_together_are_bounded_too() -> None:
    asked, person = questions(), Person({"action": "decline"})
    everybody = [f"p{number}" for number in range(OF_ALL_PER_MINUTE_MAX // PER_MINUTE_MAX)]
    refused = [await refused_of(asked, person, principal, PER_MINUTE_MAX) for principal in everybody]

    assert sum(refused) == 0
    assert await refused_of(asked, person, "one more", 1) == 1


async def test_who_does_not_answer_keeps_nobody_else_from_being_asked() -> None:
    asked, silent, person = questions(), Person(None), Person({"action": "decline"})
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(asked.answer("elicitation/create", FORM, call(silent, principal="silent")))
            for _ in range(OPEN_OF_ONE_MAX)
        ]
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ServerRequestRefusedError, match="8 server requests are open already"):
            await asked.answer("elicitation/create", FORM, call(silent, principal="silent"))
        other = await asked.answer("elicitation/create", FORM, call(person, principal="other"))
        for one in waiting:
            one.cancel()
    assert other == {"action": "decline"}


async def test_open_questions_of_one_server_are_bounded_in_all() -> None:
    asked, silent = questions(), Person(None)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(asked.answer("elicitation/create", FORM, call(silent, principal=f"p{number}")))
            for number in range(OPEN_COUNT_MAX)
        ]
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ServerRequestRefusedError, match="open already"):
            await asked.answer("elicitation/create", FORM, call(silent, principal="one more"))
        for one in waiting:
            one.cancel()


async def test_a_server_cannot_fill_the_journal_with_questions_that_nobody_sees() -> None:
    journal = MemoryJournal()
    asked = questions(journal=journal)
    for _ in range(50):
        await asked.answer("elicitation/create", FORM)

    assert len(journal.entries) == UNSHOWN_PER_MINUTE_MAX
