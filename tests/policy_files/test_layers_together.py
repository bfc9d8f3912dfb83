"""Organisation, key, session and server blocks in every combination, against a model that shares no code with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from moonpool.configuration.policies import blocks_layer, load_policy
from moonpool.configuration.policy_file import parse_policy
from moonpool.configuration.servers import parse_config
from moonpool.core.manifest import ToolDefinition
from moonpool.policy import CallFacts, Layer, LayerName, Policy, Verdict, decide, explain

if TYPE_CHECKING:
    from pathlib import Path

STRICTNESS: Final = ("allow", "ask", "human_only", "deny")


@dataclass(frozen=True)
class Author:
    """What somebody wrote, and what it says about `git.push` in words of the model."""

    text: str
    says: str = ""
    default: str = ""  # says so of what no rule matches
    reads: bool | None = None  # `allow_trusted_reads`
    names: bool = False  # the rule names the tool

    def of(self, tool: str) -> str:
        """The model: what this author says about a tool; nothing: none."""
        return self.says or ("" if tool == "read" and self.reads else self.default)


def rule(verdict: str, tool: str = "push") -> str:
    return f'[[rule]]\nid = "r"\nverdict = "{verdict}"\ntool = "{tool}"\n'


FILES: Final = (
    Author(""),  # a file without a default is like none
    *(Author(f'default = "{verdict}"\n', default=verdict) for verdict in STRICTNESS),
    *(Author(rule(verdict), says=verdict, names=True) for verdict in ("allow", "deny")),
    Author(rule("allow", "*"), says="allow"),
    Author('default = "deny"\n' + rule("allow"), says="allow", default="deny", names=True),
    Author('default = "deny"\nallow_trusted_reads = true\n', default="deny", reads=True),
    Author("allow_trusted_reads = false\n", reads=False),
)
SESSION_FILES: Final = tuple(FILES[place] for place in (0, 1, 4, 5, 7))  # nothing, defaults, rules; the rest is alike
BLOCKS: Final = (
    Author("{}"),
    Author('{"allow": ["push"]}', says="allow", names=True),
    Author('{"allow": ["*"]}', says="allow"),
    Author('{"ask": ["push"]}', says="ask", names=True),
    Author('{"deny": ["*"], "allow": ["push"]}', says="deny"),
)
HINTS: Final = {"plain": {}, "read": {"readOnlyHint": True}, "destructive": {"destructiveHint": True}}
TOOLS: Final = {
    kind: ToolDefinition(server_id="git", name="push", raw={"name": "push", "annotations": hints})
    for kind, hints in HINTS.items()
}
NAMES: Final = (LayerName.ORGANISATION, LayerName.KEY, LayerName.SESSION)


def model(authors: tuple[Author, ...], tool: str) -> str:
    """What must be decided."""
    said = [(author, said) for author in authors if (said := author.of(tool))]
    if not said:
        return "allow" if tool == "read" and all(author.reads is not False for author in authors) else "ask"
    strictest = max((one for _, one in said), key=STRICTNESS.index)
    named = any(author.names and author.says == "allow" for author, _ in said)
    return "ask" if (strictest, tool, named) == ("allow", "destructive", False) else strictest


def layer_of(author: Author, name: LayerName) -> Layer:
    return parse_policy(f"version = 1\n{author.text}".encode(), source="p", layer=name).layer


def block_of(author: Author) -> Layer:
    servers = {"mcpServers": {"git": {"command": "x", "moonpool": json.loads(author.text)}}}
    return blocks_layer(parse_config(json.dumps(servers).encode(), source="c", environ={}))


@pytest.mark.req("X-06")
def test_every_combination_of_authors_is_decided_as_the_model_says_and_none_more_loosens() -> None:
    written = zip(NAMES, (FILES, FILES, SESSION_FILES), strict=True)
    columns = [[(author, layer_of(author, name)) for author in files] for name, files in written]
    columns.append([(author, block_of(author)) for author in BLOCKS])
    decided: dict[tuple[tuple[int, ...], str], str] = {}
    for places in product(*(range(len(column)) for column in columns)):
        chosen = [column[place] for column, place in zip(columns, places, strict=True)]
        authors, policy = tuple(author for author, _ in chosen), Policy(layers=tuple(layer for _, layer in chosen))
        for kind, tool in TOOLS.items():
            verdict = str(decide(policy, CallFacts(tool=tool, trusted=True)).verdict)
            assert verdict == model(authors, kind), (authors, kind)
            decided[places, kind] = verdict
    for (places, kind), verdict in decided.items():
        authors = [column[place][0] for column, place in zip(columns, places, strict=True)]
        for number, added in enumerate(authors):
            others = [*authors[:number], *authors[number + 1 :]]
            # What nobody has a say about, and a destructive tool that nobody names, waits for somebody who has one.
            if any(author.of(kind) for author in others) and not (kind == "destructive" and added.names):
                fewer = (*places[:number], 0, *places[number + 1 :])  # the first of a column says nothing
                loosened = STRICTNESS.index(verdict) < STRICTNESS.index(decided[fewer, kind])
                assert not loosened, (authors, number, kind)


def test_no_file_is_the_same_as_a_file_that_says_nothing() -> None:
    for block, tool in product(BLOCKS, TOOLS.values()):
        facts = CallFacts(tool=tool, trusted=True)
        alone = Policy(layers=(block_of(block),))
        beside = Policy(layers=(layer_of(FILES[0], LayerName.KEY), block_of(block)))
        assert decide(alone, facts).verdict is decide(beside, facts).verdict


def test_a_default_of_the_organisation_stands_against_key_session_and_blocks_that_allow_everything(
    tmp_path: Path,
) -> None:
    everything = "version = 1\n" + rule("allow", "*")
    for name, text in {"o": 'version = 1\ndefault = "deny"\n', "k": everything, "s": everything}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    config = parse_config(
        b'{"mcpServers": {"git": {"command": "x", "moonpool": {"allow": ["*"]}}}}', source="c", environ={}
    )
    policy = load_policy(tmp_path / "o", config, key=tmp_path / "k", session=tmp_path / "s")
    told = explain(policy, CallFacts(tool=TOOLS["plain"]))
    assert (told.decision.verdict, told.decision.layer, told.decision.rule_id) == (
        Verdict.DENY, "organisation", "default",
    )  # fmt: skip
    assert told.decision.reason == ("no rule of the organisation policy matches git.push, and its default is deny")
    assert told.decision.remedy == "the owner of the organisation policy can add a rule for it"
    assert [(layer.verdict, layer.by_default) for layer in told.layers] == [
        (Verdict.DENY, True), *[(Verdict.ALLOW, False)] * 3,
    ]  # fmt: skip
