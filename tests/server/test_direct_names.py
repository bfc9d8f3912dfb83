"""Names of several servers side by side: their own where they can be, never two alike, whatever servers call things."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.json import digest_json
from moonpool.server.mcp.direct.names import NAME_CHARS_MAX, public_names

KEYS = st.lists(
    st.tuples(st.sampled_from(["git", "git hub", "a_b", "ä", "a"]), st.text(min_size=1, max_size=140)), unique=True
)


def digest(server_id: str, name: str) -> str:
    return digest_json([server_id, name])[7:23]


@pytest.mark.parametrize(
    ("keys", "prefixes", "expected"),
    [
        pytest.param([("git", "log"), ("time", "now")], {}, ["log", "now"], id="as they are"),
        pytest.param([("git", "log")], {"git": "vcs"}, ["vcs_log"], id="a prefix"),
        pytest.param(
            [("git", "log"), ("svn", "log"), ("svn", "blame")], {}, ["blame", "git_log", "svn_log"], id="alike"
        ),
        pytest.param([("git", "log"), ("svn", "log")], {"svn": "s"}, ["log", "s_log"], id="alike but for a prefix"),
        pytest.param([("a", "to do")], {}, ["to_do"], id="what MCP does not want"),
        pytest.param(
            [("a", "x y"), ("a", "x_y")], {}, sorted(f"x_y_{digest('a', name)}" for name in ("x y", "x_y")), id="of one"
        ),
        pytest.param([("a", "x" * 200)], {}, ["x" * 111 + "_" + digest("a", "x" * 200)], id="too long"),
    ],
)
def test_names(keys: list[tuple[str, str]], prefixes: dict[str, str], expected: list[str]) -> None:
    assert list(public_names(keys, prefixes)) == expected


def test_a_server_that_takes_the_names_of_another_gets_none_of_its_calls() -> None:
    names = public_names([("git", "log"), ("evil", "log"), ("evil", "git_log")], {})
    mine = [name for name, key in names.items() if key == ("git", "log")]

    assert len(names) == 3
    assert "log" not in names
    assert mine == [f"git_log_{digest('git', 'log')}"]


def test_a_server_that_knows_how_a_tool_will_be_called_cannot_take_that_name_either() -> None:
    chain = [("git", "log"), ("evil", "log"), ("evil", "git_log"), ("evil", f"git_log_{digest('git', 'log')}")]
    names = public_names(chain, {})

    assert sorted(names.values()) == sorted(chain)


@pytest.mark.req("L-010")
@given(KEYS)
def test_every_thing_has_one_name_that_mcp_allows(keys: list[tuple[str, str]]) -> None:
    names = public_names(keys, {"git": "vcs"})

    assert sorted(names.values()) == sorted(keys)
    assert all(re.fullmatch(rf"[A-Za-z0-9._-]{{1,{NAME_CHARS_MAX}}}", name) for name in names)


@given(KEYS, st.randoms())
def test_the_order_in_which_servers_list_does_not_matter(keys: list[tuple[str, str]], random: object) -> None:
    other = list(keys)
    random.shuffle(other)  # type: ignore[attr-defined]

    assert public_names(keys, {}) == public_names(other, {})
