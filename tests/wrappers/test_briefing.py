"""Long descriptions in stubs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moonpool.wrappers.long_descriptions import DESCRIPTION_CHARS_MAX, brief

ADVICE = "Always say please, and do so at length. " * 40


def test_what_is_short_stays_as_it_is() -> None:
    text = "a" * DESCRIPTION_CHARS_MAX
    assert brief(text) == text


def test_the_beginning_and_the_arguments_stay() -> None:
    text = f"Send a letter.\n\n{ADVICE.strip()}\n\nArgs:\n    to: Who gets it\n\nReturns: nothing of note"
    shown = brief(text)

    assert shown.startswith("Send a letter.\n\nAlways say please, and do so at length.")
    assert "Args:\n    to: Who gets it" in shown
    assert "Returns" not in shown
    assert shown.splitlines()[-1].startswith("[+")
    assert shown.splitlines()[-1].endswith(" characters in json form]")


def test_a_sentence_is_not_cut_where_one_fits() -> None:
    assert brief(ADVICE.strip()).partition("\n\n[+")[0].endswith("at length.")


@given(st.lists(st.sampled_from(["a", "word ", "End. ", "\n", "\n\n", "Args:\n", "x" * 90, "搜索。"]), max_size=200))
def test_any_text_is_bounded_and_the_note_counts_what_is_gone(parts: list[str]) -> None:
    text = "".join(parts).strip()
    shown = brief(text)

    assert len(shown) <= DESCRIPTION_CHARS_MAX + 2 * text.count("\n\n") + 40
    assert (shown == text) == (len(text) <= DESCRIPTION_CHARS_MAX)
