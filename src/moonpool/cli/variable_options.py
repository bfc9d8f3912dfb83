"""The option for environment variables of code, the same for keys and sandbox configurations."""

from __future__ import annotations

import click

from moonpool.cli.secrets import values_of
from moonpool.core.errors import InputError

variable_option = click.option(
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An environment variable of the code; repeatable. Other users can read arguments: without =VALUE it is asked "
    "for, or read from standard input, one on a line.",
)


def variables_given(options: tuple[str, ...]) -> dict[str, str]:
    """By name. Raises InputError."""
    given: dict[str, str] = {}
    asked: list[str] = []
    for option in options:
        name, has_value, value = option.partition("=")
        if name in given or name in asked:
            raise InputError(f"the variable {name[:80]!r} is named twice; name each once")
        if has_value:
            given[name] = value
        else:
            asked.append(name)
    return {**given, **values_of(asked)}
