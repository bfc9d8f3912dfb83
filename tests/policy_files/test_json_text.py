"""Changing JSON where it stands: what is meant is there afterwards, and every comment still is."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.configuration.jsonc import JsonText, JsonTextError, without_comments

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

TEXT = """{
  // servers of mine
  "mcpServers": {
    "git": {
      "command": "mcp-git", // local
      "moonpool": {
        "allow": [
          "one", /* why one */
          "two" // why two
        ]
      }
    },
    "web": {"url": "http://h/mcp", "moonpool": {"allow": ["a",],},}, // a comma too many
    "bare": {}
  }
}
"""
COMMENTS = ("// servers of mine", "// local", "/* why one */", "// why two", "// a comma too many")
NAMES = st.text(max_size=6) | st.sampled_from(['"', "\\", "//", "/*", "*/", "a,b", "]", "\u2028", "\n", "{}"])


def value(text: str) -> Any:
    return json.loads(without_comments(text))


def test_each_change_is_made_and_all_else_stays() -> None:
    document = JsonText(TEXT)
    git, web, bare = (["mcpServers", name, "moonpool"] for name in ("git", "web", "bare"))
    meant = copy.deepcopy(document.value)
    document.append([*git, "allow"], "three")
    document.append([*web, "allow"], 'b"')
    document.append([*bare, "deny"], "x")
    document.put([*git, "trusted"], value=True)
    assert document.remove([*git, "allow"], "two")
    assert not document.remove([*git, "allow"], "nobody")
    servers: Any = meant["mcpServers"]
    servers["git"]["moonpool"] = {"allow": ["one", "three"], "trusted": True}
    servers["web"]["moonpool"] = {"allow": ["a", 'b"']}
    servers["bare"]["moonpool"] = {"deny": ["x"]}
    assert value(document.text) == document.value == meant
    assert all(comment in document.text for comment in COMMENTS)
    assert '\n          "three"' in document.text  # on a line of its own, as the others are


@given(
    st.lists(NAMES, max_size=4),
    st.lists(st.tuples(st.booleans(), NAMES), max_size=6),
    st.sampled_from(["", " ", "\n  ", "\r\n\t", "/*,*/", "//\n"]),
)
def test_whatever_the_names_and_the_layout_the_list_says_what_was_meant(
    first: list[str], changes: list[tuple[bool, str]], gap: str
) -> None:
    items = f",{gap}".join(json.dumps(name) for name in first)
    document = JsonText(f'{{{gap}"s": {{{gap}"l": [{gap}{items}{gap}]{gap}}}{gap}}}')
    meant = list(first)
    for adds, name in changes:
        try:
            if adds:
                document.append(["s", "l"], name)
                meant.append(name)
            else:
                document.remove(["s", "l"], name)
                meant = [one for one in meant if one != name]
        except JsonTextError:  # refused, and nothing was changed that counts: `permissions` writes nothing then
            return
    assert value(document.text) == {"s": {"l": meant}}


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"a": }', ""])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|no JSON object"):
        JsonText(text)


def test_a_change_that_would_not_read_back_is_refused() -> None:
    document: JsonObject = {"a": 3, "l": {"x": 1}}
    with pytest.raises(JsonTextError):
        JsonText(json.dumps(document)).append(["a", "b"], "x")
    with pytest.raises(JsonTextError):
        JsonText(json.dumps(document)).append(["l"], "x")
    with pytest.raises(JsonTextError):
        JsonText('{\n"l": ["a" /* over\ntwo lines */]\n}').append(["l", "x"], "x")
