"""How much hypothesis tries: little in the quick run, its own number of examples in the whole one.

A test with `settings` of its own takes the rest from the profile that is loaded when its module is imported.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

EXAMPLES: Final = {"fast": 25, "full": 100}


def register() -> None:
    """Registers the profiles. No example has a deadline: it would judge the machine and not the code."""
    for name, examples in EXAMPLES.items():
        settings.register_profile(name, max_examples=examples, deadline=None, derandomize=False)
