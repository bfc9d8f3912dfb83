"""`moonpool settings`: what is set, and by whom.

SECURITY: no password is shown: addresses are without user information and query, a program without its arguments.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moonpool.cli.commands import command, json_object
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.settings import FILE_VARIABLE, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMNS: Final = ("setting", "value", "from")
_ADDRESS: Final = re.compile(
    r"(?P<start>[a-z][a-z0-9+.-]*://)(?:[^/?#]*@)?(?P<rest>[^?#]*).*", re.IGNORECASE | re.DOTALL
)

settings_option = click.option(
    "--settings", type=Path, metavar="FILE", help="Settings (TOML). MOONPOOL_... variables win over it."
)


def use_settings(path: Path | None) -> None:
    """Have this process, and those that it starts, read this file. Without one: MOONPOOL_SETTINGS_FILE, if any."""
    if path is not None:
        os.environ[FILE_VARIABLE] = str(path.absolute())


@command
@settings_option
@click.option("--all", "every", is_flag=True, help="Also those that nobody set.")
@json_object
def settings(*, settings: Path | None, every: bool, as_json: bool) -> None:
    """Show the settings in force, and where each comes from; without secrets."""
    use_settings(settings)
    shown = list(_shown(every=every))
    if as_json:
        print_json({name: value for name, value, _ in shown})
    elif not shown:
        remark("nobody set any: all have their defaults, which --all shows")
    else:
        print_table(_COLUMNS, ((name, str(value), origin) for name, value, origin in shown))


def _shown(*, every: bool) -> Iterator[tuple[str, Any, str]]:
    """Name, value and origin. Raises ConfigError."""
    in_force = Settings.load(os.environ)
    defaults = dict(zip(Settings.__struct_fields__, Settings.__struct_defaults__, strict=True))
    file = os.environ.get(FILE_VARIABLE)
    in_file = Settings.load({FILE_VARIABLE: file}) if file else Settings()
    for name, default in defaults.items():
        value = getattr(in_force, name)
        if f"MOONPOOL_{name.upper()}" in os.environ:
            yield name, _without_secrets(name, value), f"MOONPOOL_{name.upper()}"
        elif file and getattr(in_file, name) != default:
            yield name, _without_secrets(name, value), file
        elif every:
            yield name, _without_secrets(name, value), "default"


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        return value
    if name == "approval_command" and value:
        return f"{value.split(maxsplit=1)[0]} ..."
    return ",".join(map(_address, value.split(","))) if "://" in value else value


def _address(text: str) -> str:
    """Without user information, whatever characters a password has, query and fragment."""
    scheme, mark, rest = text.partition("://")
    return f"{scheme}{mark}{re.split('[?#]', rest.rpartition('@')[2])[0]}" if mark else text
