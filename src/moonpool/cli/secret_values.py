"""Storing, listing and removing secrets.

SECURITY: a value comes from a prompt or from standard input, never from an argument, which every process can read.
"""

from __future__ import annotations

import getpass
import os
import sys

import typer

from moonpool.broker.configured_secrets import SECRET_LENGTH_MIN
from moonpool.broker.expansion import is_secret_name
from moonpool.cli.config_choice import secret_store
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.core.errors import InputError
from moonpool.store.secrets import SECRET_BYTES_MAX, SECRET_KIND


def set_secret(name: str) -> int:
    """Raises InputError, SecretStoreError."""
    if not is_secret_name(name):
        raise InputError(f"{name[:40]!r} cannot be a secret's name; use up to 128 letters, digits, _, - and dots")
    value = _value(name)
    secret_store(os.environ).put(SECRET_KIND, name, value)
    typer.echo(f"moonpool: stored; write ${{secret:{name}}} where it is needed", err=True)
    if len(value) < SECRET_LENGTH_MIN:
        typer.echo(f"moonpool: under {SECRET_LENGTH_MIN} characters it cannot be redacted from outputs", err=True)
    return EXIT_OK


def list_secrets() -> int:
    for name in secret_store(os.environ).names(SECRET_KIND):
        typer.echo(name)
    return EXIT_OK


def remove_secret(name: str) -> int:
    if secret_store(os.environ).remove(SECRET_KIND, name):
        typer.echo(f"moonpool: forgot {name}", err=True)
        return EXIT_OK
    typer.echo(f"moonpool: there is no secret {name[:40]!r}", err=True)
    return EXIT_FAILED


def _value(name: str) -> str:
    if sys.stdin.isatty():
        given = getpass.getpass(f"value of {name} (not shown): ")
    else:
        try:
            given = sys.stdin.buffer.read(SECRET_BYTES_MAX + 2).decode()
        except UnicodeDecodeError:
            raise InputError("the value is not UTF-8; encode it, for instance as base64") from None
        given = given.removesuffix("\n").removesuffix("\r")
    if not given:
        raise InputError("the value is empty; nothing was stored")
    return given
