"""`moonpool secrets set|list|remove`: values for `${secret:NAME}` in server configurations.

SECURITY: a value comes from a prompt or from standard input, never from an argument, which all processes can read.
"""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING

import click

from moonpool.cli.commands import command_group
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import remark
from moonpool.configuration.expansion import is_secret_name
from moonpool.configuration.secrets import SECRET_LENGTH_MIN
from moonpool.configuration.server_files import secret_store
from moonpool.core.errors import InputError
from moonpool.store.secrets import SECRET_BYTES_MAX, SECRET_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

app = command_group("Stored secrets, for ${secret:NAME} in server configurations.")


@app.command("set")
@click.argument("name", help="Letters, digits, _, - and dots.")
def set_(name: str) -> int:
    """Store a value: typed at a prompt that does not show it, or read from standard input."""
    if not is_secret_name(name):
        raise InputError(f"{name[:40]!r} cannot be a secret's name; use up to 128 letters, digits, _, - and dots")
    value = _value(name)
    secret_store(os.environ).put(SECRET_KIND, name, value)
    remark(f"stored; write ${{secret:{name}}} where it is needed")
    if len(value) < SECRET_LENGTH_MIN:
        remark(f"under {SECRET_LENGTH_MIN} characters it cannot be redacted from outputs")
    return EXIT_OK


@app.command("list")
def list_() -> int:
    """List the names, never the values."""
    names = list(secret_store(os.environ).names(SECRET_KIND))
    for name in names:
        click.echo(name)
    if not names:
        remark("no secrets are stored; `moonpool secrets set NAME` stores one")
    return EXIT_OK


@app.command("remove")
@click.argument("name", help="Letters, digits, _, - and dots.")
def remove(name: str) -> int:
    """Forget a value. Exit code 1 when there was none."""
    if secret_store(os.environ).remove(SECRET_KIND, name):
        remark(f"forgot {name}")
        return EXIT_OK
    remark(f"there is no secret {name[:40]!r}")
    return EXIT_FAILED


def _value(name: str) -> str:
    given = value_of(name)
    if not given:
        raise InputError("the value is empty; nothing was stored")
    return given


def value_of(name: str) -> str:
    """What is typed unseen, or all of standard input. Raises InputError."""
    if sys.stdin.isatty():
        given = getpass.getpass(f"value of {name} (not shown): ")
    else:
        try:
            given = sys.stdin.buffer.read(SECRET_BYTES_MAX + 2).decode()
        except UnicodeDecodeError:
            raise InputError("the value is not UTF-8; encode it, for instance as base64") from None
        given = given.removesuffix("\n").removesuffix("\r")
    return given


def values_of(names: Sequence[str]) -> dict[str, str]:
    """The value of each: typed unseen, or a line each of standard input. Raises InputError."""
    if not names:
        return {}
    if sys.stdin.isatty():
        return {name: value_of(name) for name in names}
    lines = value_of(names[0]).splitlines()
    if len(lines) != len(names):
        raise InputError(
            f"standard input has {len(lines)} of the values of {', '.join(names)}; write the value of each on a line"
        )
    return dict(zip(names, lines, strict=True))
