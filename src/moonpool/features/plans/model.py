"""Plans: what a dry run of code would have done, for a person to approve once. Pure.

A `Plan` is the ordered list of calls that a rehearsal did not make (`Effect`), bound to principal, code, language,
policy, the configuration of the servers, the definitions of the tools and the digests of the arguments. What a person
sees of arguments is without secrets; what binds is `Plan.digest`.

Where an argument held a mark of a placeholder (`core.placeholders`), the effect is open there: an `Opening` says which
earlier call's result goes there. The real run may fill exactly that place with exactly that value (`as_planned`).

The rehearsal and the watch over the real run are `moonpool.pipeline.dry_run` and `moonpool.pipeline.planned_run`, the
file is `moonpool.features.plans.table`, the use case `moonpool.features.plans.service`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.core.placeholders import FOUND, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from moonpool.core.placeholders import Mark

EFFECTS_MAX: Final = 500
SHOWN_CHARS_MAX: Final = 16_000
"""Of one effect's arguments. What is longer could not be read; its rehearsal makes no plan."""
SHOWN_BYTES_MAX: Final = 4 * SHOWN_CHARS_MAX
SHOWN_TOTAL_CHARS_MAX: Final = 400_000
OPENINGS_MAX: Final = 100
POINTER_CHARS_MAX: Final = 500
"""Of a place in arguments or in a result; a longer one could not be read, and is not followed."""


class EffectKind(StrEnum):
    """What the real run may do with an effect."""

    CALL = "call"  # once
    READ = "read"  # a reading call whose arguments rest on a placeholder; reading is not bound by the plan
    DENIED = "denied"  # policy refuses it, in the real run too


class PlanState(StrEnum):
    """Where a plan stands. Only WAITING can be answered and only APPROVED be used."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A place in the arguments that the result of an earlier call of the plan fills."""

    at: str  # JSON pointer into the arguments
    start: int  # where in the text there; -1: the whole value
    planned: str | int  # what stood there in the rehearsal
    number: int  # the effect whose result goes there
    path: str  # JSON pointer into that result's data

    def to_json(self) -> JsonObject:
        return {"at": self.at, "start": self.start, "planned": self.planned, "number": self.number, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One call that the rehearsal did not make."""

    number: int  # 1 for the first
    kind: EffectKind
    server_id: str
    tool_name: str
    tool_digest: str
    arguments: str  # JSON for reading, without secrets
    arguments_digest: str  # of the arguments with placeholders in them
    verdict: str  # what policy said
    rule_id: str
    reason: str
    of_the_moment: bool  # it said so because of what was done before
    destructive: bool
    placeholder: str  # where the answer came from: `declared`, `schema`, `text`; empty when denied
    openings: tuple[Opening, ...] = ()
    whole: str = ""  # the same but for known secrets only, where `arguments` does not show all of it
    code_line: int = 0  # that makes the call, as the sandbox says
    derived: tuple[str, ...] = ()  # places that hold a part of a placeholder, which nobody can follow

    @property
    def name(self) -> str:
        return f"{self.server_id}.{self.tool_name}"

    def to_json(self) -> JsonObject:
        return {
            "number": self.number,
            "kind": str(self.kind),
            "server": self.server_id,
            "tool": self.tool_name,
            "tool_digest": self.tool_digest,
            "arguments": self.arguments,
            "arguments_digest": self.arguments_digest,
            "verdict": self.verdict,
            "rule": self.rule_id,
            "reason": self.reason,
            "of_the_moment": self.of_the_moment,
            "destructive": self.destructive,
            "placeholder": self.placeholder,
            "openings": [one.to_json() for one in self.openings],
            "derived": list(self.derived),
            "whole": self.whole,
            "code_line": self.code_line,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """A server that a plan's effects are about: what is reached, not only what it is called."""

    server_id: str
    digest: str  # of the configuration by which it is reached
    address: str  # command or URL, without secrets
    config_file: str

    def to_json(self) -> JsonObject:
        return {
            "server": self.server_id,
            "digest": self.digest,
            "address": self.address,
            "config_file": self.config_file,
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A rehearsal's whole list, and what it is bound to."""

    plan_id: str
    run_id: str  # of the rehearsal
    principal: str
    session_id: str
    language: str
    code_digest: str
    manifest_digest: str
    policy_digest: str
    effects: tuple[Effect, ...]
    made_at: float  # seconds since 1970
    expires_at: float
    servers: tuple[PlannedServer, ...] = ()  # that its effects name
    problem: str = ""  # why nobody may approve it

    @property
    def calls(self) -> tuple[Effect, ...]:
        """The effects that the real run may have."""
        return tuple(effect for effect in self.effects if effect.kind is EffectKind.CALL)

    @property
    def human_only(self) -> bool:
        """Whether policy reserves one of its calls for a person's answer."""
        return any(effect.verdict == "human_only" for effect in self.calls)

    @property
    def cut(self) -> bool:
        """Whether its lines do not show all arguments."""
        return any(effect.whole for effect in self.effects)

    @cached_property
    def digest(self) -> str:
        """What an approval binds: all of it."""
        return digest_json(self.to_json())

    def to_json(self) -> JsonObject:
        return {
            "plan_id": self.plan_id,
            "run_id": self.run_id,
            "principal": self.principal,
            "session_id": self.session_id,
            "language": self.language,
            "code_digest": self.code_digest,
            "manifest_digest": self.manifest_digest,
            "policy_digest": self.policy_digest,
            "servers": [server.to_json() for server in self.servers],
            "effects": [effect.to_json() for effect in self.effects],
            "made_at": self.made_at,
            "expires_at": self.expires_at,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Plan:
        """Read what `to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
        members = dict(cast("dict[str, object]", data))
        effects = tuple(_effect(one) for one in cast("list[JsonObject]", members.pop("effects")))
        servers = tuple(_server(one) for one in cast("list[dict[str, str]]", members.pop("servers")))
        return cls(effects=effects, servers=servers, **members)  # pyright: ignore[reportArgumentType]


class PlanError(MoonpoolError):
    """A plan cannot be shown, answered or used: unknown, answered or used already, too late, or made for other code."""

    code = "plan_unusable"
    fault = Fault.CALLER


class PlanStoreError(MoonpoolError):
    """The file of plans cannot be read or written. What needed it was refused."""

    code = "plan_store_unusable"
    fault = Fault.HOST
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan and what has become of it."""

    plan: Plan
    state: PlanState
    approver: str = ""
    by_person: bool = False


def find_openings(
    arguments: JsonObject, marks: Mapping[str, tuple[int, Mark]], redacted: Callable[[str], str] = str
) -> tuple[tuple[Opening, ...], tuple[str, ...]]:
    """Where `arguments` hold marks of earlier calls; and where only a part of one, or more than can be followed.

    SECURITY: a place is named as it is shown, by `redacted` names. One whose name is not to be shown is not followed.
    """
    openings: list[Opening] = []
    derived: list[str] = []
    for at, leaf, is_name in _leaves(arguments):
        for found in FOUND.finditer(str(leaf)):
            number, mark = marks.get(found[0], (0, None))
            if mark is None:
                continue  # looks like one, and is none
            start = _start_of(leaf, mark, found[0], found.start())
            shown = "/".join(_step(redacted(_name(step))) for step in at.split("/"))
            unreadable = shown != at or max(len(at), len(mark.path)) > POINTER_CHARS_MAX
            if start is None or len(openings) >= OPENINGS_MAX or is_name or unreadable:
                derived.append(shown[:POINTER_CHARS_MAX])
            else:
                openings.append(Opening(at=at, start=start, planned=mark.value, number=number, path=mark.path))
    return tuple(openings), tuple(dict.fromkeys(derived))[:OPENINGS_MAX]


def _start_of(leaf: str | int, mark: Mark, found: str, found_at: int) -> int | None:
    """Where the whole of `mark` begins in `leaf`; -1 when it is all of it, None when a part of it is there."""
    if leaf == mark.value and type(leaf) is type(mark.value):
        return -1
    if not isinstance(leaf, str):
        return None
    text = str(mark.value)
    start = found_at - text.find(found)
    return start if start >= 0 and leaf.startswith(text, start) else None


def as_planned(arguments: JsonObject, effect: Effect, results: Mapping[int, JsonValue]) -> bool:
    """Whether `arguments` are the effect's, with what earlier calls really returned where the plan is open."""
    if not effect.openings:
        return digest_json(arguments) == effect.arguments_digest
    filled: JsonObject = copy.deepcopy(arguments)
    places: dict[str, list[Opening]] = {}
    for opening in effect.openings:
        places.setdefault(opening.at, []).append(opening)
    for at, openings in places.items():
        actual = value_at(filled, at)
        planned = _planned_value(actual, openings, results)
        if planned is None or not _put(filled, at, planned):
            return False
    return digest_json(filled) == effect.arguments_digest


def _planned_value(
    actual: JsonValue, openings: Sequence[Opening], results: Mapping[int, JsonValue]
) -> str | int | None:
    """What the rehearsal had in the place of `actual`; None when the real results do not lead to `actual`."""
    moved = 0
    for opening in sorted(openings, key=lambda one: one.start):
        if opening.number not in results:
            return None
        real = value_at(results[opening.number], opening.path)
        if real is None:
            return None
        if opening.start < 0:
            return opening.planned if digest_json(real) == digest_json(actual) else None
        if not isinstance(actual, str) or isinstance(real, bool) or not isinstance(real, str | int):
            return None
        text, start = str(real), opening.start
        if not actual.startswith(text, start):  # the places before it hold the planned texts again by now
            return None
        actual = actual[:start] + str(opening.planned) + actual[start + len(text) :]
        moved += 1
    return actual if moved and isinstance(actual, str) else None


def _put(document: JsonValue, at: str, value: str | int) -> bool:
    parent, _, last = at.rpartition("/")
    holder = value_at(document, parent)
    step = _name(last)
    if isinstance(holder, dict) and step in holder:
        holder[step] = value
        return True
    if isinstance(holder, list) and step.isdigit() and int(step) < len(holder):
        holder[int(step)] = value
        return True
    return False


def _step(name: str) -> str:
    """A member's name in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _name(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _leaves(document: JsonObject) -> Iterator[tuple[str, str | int, bool]]:
    """Every text and integer with its pointer, and whether it is the name of a member instead of its value."""
    waiting: list[tuple[str, JsonValue]] = [("", document)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, dict):
            for name, item in value.items():
                here = f"{at}/{_step(name)}"
                yield here, name, True
                waiting.append((here, item))
        elif isinstance(value, list):
            waiting.extend((f"{at}/{index}", item) for index, item in enumerate(value))
        elif isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            yield at, value, False


def _server(data: dict[str, str]) -> PlannedServer:
    members = dict(data)
    return PlannedServer(server_id=members.pop("server"), **members)


def _effect(data: JsonObject) -> Effect:
    members = dict(cast("dict[str, object]", data))
    openings = tuple(Opening(**one) for one in cast("list[dict[str, Any]]", members.pop("openings")))
    return Effect(
        kind=EffectKind(cast("str", members.pop("kind"))),
        server_id=cast("str", members.pop("server")),
        tool_name=cast("str", members.pop("tool")),
        rule_id=cast("str", members.pop("rule")),
        derived=tuple(cast("list[str]", members.pop("derived"))),
        openings=openings,
        **members,  # pyright: ignore[reportArgumentType]
    )
