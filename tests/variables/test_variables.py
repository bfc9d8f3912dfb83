"""Which environment variables code may be given: names, values, sizes (`moonpool.core.variables`)."""

from __future__ import annotations

import pytest

from moonpool.core.errors import InputError
from moonpool.core.variables import (
    NAME_CHARS_MAX,
    RESERVED_TEXT,
    TOTAL_CHARS_MAX,
    VALUE_CHARS_MAX,
    VARIABLES_MAX,
    check_variables,
)

pytestmark = pytest.mark.req("J-025")
FULL = "v" * VALUE_CHARS_MAX


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"A": ""},
        {"API_URL": "https://example.com/ä", "B2_": "tab\tand\nlines\r\n"},
        {"N" * NAME_CHARS_MAX: FULL},
        {f"V{number}": "x" for number in range(VARIABLES_MAX)},
        {f"V{number:02}": FULL[3:] for number in range(TOTAL_CHARS_MAX // VALUE_CHARS_MAX)},
        {"PATHS": "", "HOMES": "", "LDX": "", "ENVIRONMENT": ""},
    ],
)
def test_what_baponi_takes_is_taken(good: dict[str, str]) -> None:
    check_variables(good)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({f"V{number}": "x" for number in range(VARIABLES_MAX + 1)}, "Too many"),
        ({"": "x"}, "1-128"),
        ({"N" * (NAME_CHARS_MAX + 1): "x"}, "1-128"),
        ({"Ä": "x"}, "ASCII"),
        ({"1A": "x"}, "uppercase letter"),
        ({"a": "x"}, "uppercase letter"),
        ({"A-B": "x"}, "uppercase letter"),
        ({"_A": "x"}, "uppercase letter"),
        ({"A\n": "x"}, "uppercase letter"),
        ({"A": FULL + "v"}, "at most 4096"),
        ({"A": "a\0b"}, "control"),
        ({"A": "\x1b[0m"}, "control"),
        ({"A": "\ud800"}, "UTF-8"),
        ({f"V{number:02}": FULL[2:] for number in range(TOTAL_CHARS_MAX // VALUE_CHARS_MAX)}, "64KB"),
    ],
)
def test_what_baponi_refuses_is_refused(bad: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        check_variables(bad)
    assert "\x1b" not in str(caught.value)
    assert FULL[:100] not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONSTARTUP", "PIP_TARGET", "BASH_ENV", "ENV", "IFS"),
        *("HTTPS_PROXY", "NO_PROXY", "NODE_OPTIONS", "CARGO_HOME", "USER", "TERM"),
        *("LD_PRELOAD", "LD_ANYTHING", "LC_MINE", "XDG_RUNTIME_DIR", "BAPONI_KEY", "NSJAIL_X", "MOONPOOL_DATA"),
    ],
)
def test_reserved_names_are_refused_without_the_list(name: str) -> None:
    with pytest.raises(InputError) as caught:
        check_variables({name: "x"})
    assert str(caught.value) == RESERVED_TEXT == "This environment variable name is reserved by the system"
