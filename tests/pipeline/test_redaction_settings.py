"""What is redacted is chosen by two settings; a misspelt kind is an error, never silence."""

from __future__ import annotations

import pytest

from moonpool.core.errors import ConfigError
from moonpool.redaction.personal_data import PERSONAL_KINDS
from moonpool.settings import Settings


def test_every_kind_of_personal_data_can_be_chosen_and_none_is_by_default() -> None:
    chosen = Settings.load({"MOONPOOL_REDACT_PERSONAL": ", ".join(PERSONAL_KINDS)})
    assert chosen.personal_kinds == PERSONAL_KINDS
    assert Settings.load({}).personal_kinds == ()
    assert Settings.load({}).redact_patterns == "on"


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        (
            "MOONPOOL_REDACT_PERSONAL",
            "email,phones",
            "'phones', which is no kind of personal data; did you mean phone?",
        ),
        ("MOONPOOL_REDACT_PERSONAL", "all", "choose from email, phone, card, iban"),
        ("MOONPOOL_REDACT_PATTERNS", "no", "redact_patterns must be off or on, but is 'no'"),
        ("MOONPOOL_DRIFT", "puase", "drift must be pause or report, but is 'puase'; did you mean \"pause\"?"),
        ("MOONPOOL_TIMEOUT_S", "nan", "timeout_s must be above 0, but is nan"),
    ],
)
def test_a_wrong_choice_is_refused_with_the_remedy(variable: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load({variable: value})
    assert problem in str(caught.value)
