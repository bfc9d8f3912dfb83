"""The head of a SKILL.md: what people write is read as they mean it, what is broken is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.errors import InputError
from moonpool.features.library.model.front_matter import HEAD_CHARS_MAX, LINES_MAX, read_frontmatter
from tables import every_row

WANTED = frozenset({"name", "description", "license", "metadata", "allowed-tools"})


def read(head: str, body: str = "Do it.\n") -> dict[str, object]:
    return dict(read_frontmatter(f"---\n{head}\n---\n{body}", source="SKILL.md", wanted=WANTED).values)


@every_row(
    ("written", "meant"),
    [
        pytest.param("description: Fill forms.", "Fill forms.", id="plain"),
        pytest.param("description:    Fill forms.   ", "Fill forms.", id="spaces around it"),
        pytest.param("description: Forms: fill them", "Forms: fill them", id="a colon, as published skills have it"),
        pytest.param("description: Fill forms # by hand", "Fill forms", id="a comment"),
        pytest.param("description: C# code", "C# code", id="a number sign within a word"),
        pytest.param("description: Fill\n  all\n  forms", "Fill all forms", id="plain over several lines"),
        pytest.param("description:\n  Fill\n  forms", "Fill forms", id="plain below the key"),
        pytest.param('description: "Fill: \\"it\\" \\u00e9"', 'Fill: "it" é', id="double quotes"),
        pytest.param('description: "Fill\n  all"  # so', "Fill all", id="double quotes over lines, and a comment"),
        pytest.param("description: 'It''s #1: a form'", "It's #1: a form", id="single quotes"),
        pytest.param("description: >\n  Fill\n  forms.\n\n  Then\n  stop.", "Fill forms.\nThen stop.", id="folded"),
        pytest.param("description: >-\n  a\n    code\n  b", "a\n  code\nb", id="folded, with a deeper line"),
        pytest.param("description: |\n  Fill\n  forms.\n\n  Stop.", "Fill\nforms.\n\nStop.", id="literal"),
        pytest.param("description: |2-  # as it is\n    Fill", "  Fill", id="literal with its own indentation"),
        pytest.param("description: |\n  # no comment\n  a: b", "# no comment\na: b", id="a block holds what it likes"),
        pytest.param("description: 2026-01-01", "2026-01-01", id="a date stays a text"),
        pytest.param('"description": yes', "yes", id="a quoted key, and a word that others take for a truth value"),
    ],
)
def test_a_text_means_what_its_writer_meant(written: str, meant: str) -> None:
    assert read(written) == {"description": meant}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("allowed-tools: Bash(git:*) Read", "Bash(git:*) Read", id="a text"),
        pytest.param("allowed-tools:\n  - Bash(git:*)\n  - 'Read'", ["Bash(git:*)", "Read"], id="a list"),
        pytest.param("allowed-tools:\n- Read\n- Write", ["Read", "Write"], id="a list that is not indented"),
        pytest.param('allowed-tools: [Read, "Write"]  # two', ["Read", "Write"], id="a list in brackets"),
        pytest.param("allowed-tools: [Read,\n  Write]", ["Read", "Write"], id="brackets over two lines"),
    ],
)
def test_lists_are_read_in_every_way_of_writing_them(written: str, meant: object) -> None:
    assert read(written) == {"allowed-tools": meant}


def test_a_mapping_gives_its_texts_and_leaves_out_what_is_deeper() -> None:
    head = "metadata:\n  author: me  # and mine\n  version: \"1.0\"\n  more:\n    x: y\n  tags: [a]\n  last: 'z'"
    assert read(head) == {"metadata": {"author": "me", "version": "1.0", "last": "z"}}


def test_keys_that_nobody_asked_for_may_hold_anything() -> None:
    head = "argument-hint: [action] — say which\nhooks: &anchor\n  - !!python/object:os.system\n  x: {a: [b\nname: a"
    assert read(head) == {"name": "a"}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param('metadata: {"a": "b"', id="a mapping that is not closed"),
        pytest.param("metadata: *a", id="an alias"),
        pytest.param("metadata:\n  a: b\n  a: c", id="a member twice"),
    ],
)
def test_under_a_key_that_may_be_read_what_cannot_be_is_no_value(written: str) -> None:
    text = f"---\n{written}\nname: a\n---\n"
    found = read_frontmatter(text, source="SKILL.md", wanted=frozenset({"name"}), optional=frozenset({"metadata"}))
    assert found.values == {"name": "a"}
    assert found.keys == ("metadata", "name")


@every_row(
    ("written", "meant"),
    [
        pytest.param('{"tool":{"requires":{"bins":["a"]}},"by":"me"}', {"by": "me"}, id="JSON on one line"),
        pytest.param('\n  {\n    "tool": {"requires": []},\n  }', {}, id="JSON below the key"),
        pytest.param('{\n  "tool": 1\n}', {"tool": "1"}, id="JSON that closes at the margin"),
        pytest.param("[\n  a,\n]", ["a"], id="a list over lines"),
    ],
)
def test_json_is_yaml(written: str, meant: object) -> None:
    assert read(f"metadata: {written}") == {"metadata": meant}


def test_what_would_grow_is_refused_at_once() -> None:
    """Aliases of aliases, and nesting as deep as a head is long: no more is parsed than shows it."""
    rows = [f"  b{at}: &b{at} [{', '.join([f'*b{at - 1}'] * 9) if at else 'x'}]" for at in range(9)]
    for head in ("\n".join(["metadata:", *rows]), f"metadata: {'[' * 15_000}", f"metadata: {'{a: ' * 3_000}"):
        with pytest.raises(InputError, match=r"cannot begin with '&'|nested more than|expected"):
            read(head)


def test_nothing_is_no_value() -> None:
    assert read("name:\ndescription: ~\nlicense: null\n# a comment\n") == {}


@pytest.mark.parametrize("lead", ["", "\ufeff"], ids=["without a byte order mark", "with one"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_line_ends_and_a_byte_order_mark_change_nothing(lead: str, end: str) -> None:
    text = lead + end.join(["---", "name: a", "description: |", "  one", "  two", "---", "Body", "---", "more"])
    found = read_frontmatter(text, source="SKILL.md", wanted=WANTED)
    assert found.values == {"name": "a", "description": "one\ntwo"}
    assert found.body == "Body\n---\nmore"


@every_row(
    ("text", "says"),
    [
        pytest.param("", "does not begin with a line `---`", id="an empty file"),
        pytest.param("# Title\n---\nname: a\n---\n", "does not begin with a line `---`", id="text before it"),
        pytest.param("---\nname: a\n", "has no second line `---`; put", id="not closed"),
        pytest.param("---\nname: a\n ---\n", "has no second line `---`", id="closed by an indented line"),
        pytest.param("---\n" + "a: b\n" * 1_000, f"within {LINES_MAX} lines", id="not closed for very long"),
        pytest.param("---\nx: " + "b" * HEAD_CHARS_MAX + "\n" + "c" * HEAD_CHARS_MAX, "within", id="endless lines"),
        pytest.param("---\nname: a\nname: b\n---\n", "line 3: `name` is on line 2 already", id="a key twice"),
        pytest.param("---\nx: 1\ny: 2\nx: 3\n---\n", "line 4: `x` is on line 2", id="an unread key twice"),
        pytest.param("---\nmetadata:\n  a: b\n  a: c\n---\n", "line 4: `a` is there twice", id="a member twice"),
        pytest.param("---\n\tname: a\n---\n", "line 2: it is indented", id="a tab before a key"),
        pytest.param("---\nmetadata:\n\ta: b\n---\n", "line 3: a tab indents it", id="a tab below a key"),
        pytest.param("---\n  name: a\n---\n", "line 2: it is indented", id="a key that is indented"),
        pytest.param("---\nname\n---\n", "line 2: 'name' is not `key: value`", id="no colon"),
        pytest.param("---\nname:a\n---\n", "line 2: 'name:a' is not `key: value`", id="no space after the colon"),
        pytest.param("---\n{name: a}\n---\n", "line 2: '{name: a}' is not", id="a mapping in braces"),
        pytest.param('---\nname: "a\n---\n', "line 2: the quote that begins the value is not closed", id="open quote"),
        pytest.param('---\nname: "a" b\n---\n', "there is text behind the end of the value", id="text after a quote"),
        pytest.param('---\nname: "\\q"\n---\n', "is no escape sequence", id="an unknown escape"),
        pytest.param('---\nname: "\\ud800"\n---\n', "is no escape sequence", id="half a character"),
        pytest.param('---\nname: "\\U0011ffff"\n---\n', "is no escape sequence", id="beyond Unicode"),
        pytest.param('---\nname: "\\UFFFFFFFF"\n---\n', "is no escape sequence", id="beyond a C int"),
        pytest.param("---\nname: *a\n---\n", "cannot begin with '*'", id="an alias"),
        pytest.param("---\nname: &a b\n---\n", "cannot begin with '&'", id="an anchor"),
        pytest.param("---\nname: !!str b\n---\n", "cannot begin with '!'", id="a tag"),
        pytest.param('---\nname: a\ndescription: "\x1bb"\n---\n', "line 3: the character U+001B", id="a control code"),
        pytest.param("---\ndescription: [WIP] forms\n---\n", "write it in double quotes", id="an open bracket"),
        pytest.param("---\nallowed-tools: [a, [b]]\n---\n", "close the list", id="a list in a list"),
        pytest.param(
            "---\nallowed-tools:\n  - a\n  b\n---\n",
            "line 4: it does not belong to the value above it; a list goes one `- item` to a line",
            id="a broken list",
        ),
        pytest.param(
            "---\ndescription: |4\n  a\n---\n",
            "line 3: there is text behind the end of the value, or it is indented",
            id="a block too far left",
        ),
    ],
)
def test_what_is_broken_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_frontmatter(text, source="SKILL.md", wanted=WANTED)
    assert says in str(refused.value)
    assert str(refused.value).startswith("SKILL.md ")


def test_an_error_shows_no_control_characters() -> None:
    with pytest.raises(InputError) as refused:
        read("\x1b[31mname\u202e")
    assert str(refused.value).isprintable()


@given(st.text(alphabet=st.sampled_from("abc-:#'\"\\|>[]{}&*! \n\t"), max_size=200))
def test_any_text_is_read_or_refused(head: str) -> None:
    try:
        values = read(head)
    except InputError:
        return
    assert all(isinstance(value, str | list | dict) for value in values.values())


@given(st.text(max_size=60))
def test_a_text_in_json_quotes_means_itself(text: str) -> None:
    """JSON's strings are double-quoted texts, which is how people's programs write heads."""
    import json

    encoded = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if any(0xD800 <= ord(char) < 0xE000 for char in text) or not encoded.isprintable():
        return
    if text.strip() == text and "  " not in text:
        assert read(f"description: {encoded}") == {"description": text}
