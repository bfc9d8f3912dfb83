"""`moonpool sandboxes create|list|show|change|delete`: what code of an organisation's keys runs with.

SECURITY: values of variables are sealed, and no command shows them again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import administered, check_known, data_dir_option, database_url_option, with_service_data
from moonpool.cli.variable_options import variable_option, variables_given
from moonpool.core.errors import InputError
from moonpool.features.sandbox_configurations.model import BUILT_IN, LANGUAGES, VolumeMount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from moonpool.core.json import JsonObject
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration, StoredConfiguration

_COLUMNS: Final = ("name", "default", "language", "timeout", "environment", "network", "storage", "variables")
_UNITS: Final = {"k": 1024, "m": 1024**2, "g": 1024**3}

app = command_group("Sandbox configurations: what code of an organisation's keys runs with.")
_org_option = click.option("--org", required=True, metavar="ORG", help="The organisation's id.")
_name_argument = click.argument("name", metavar="NAME", help="The configuration's name.")


def _what_code_has(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of what a configuration says, as the argument `said`. Those left out are not in it."""
    options = (
        click.option("--env", "environment", metavar="ENV", help="The environment; `base` or `data`."),
        click.option("--language", type=click.Choice(LANGUAGES), help="Of code whose request names none."),
        click.option("--timeout", "timeout_s", type=int, metavar="S", help="Of code whose request names none."),
        click.option("--timeout-max", "timeout_s_max", type=int, metavar="S", help="The most that a request may name."),
        click.option("--memory", metavar="BYTES", help="Memory: 536870912, 512m or 1g."),
        click.option("--disk", metavar="BYTES", help="Disk: as --memory."),
        click.option("--cpu", "cpu_cores", type=float, metavar="CORES", help="Processors at once, 0.5 or 2."),
        click.option("--cpu-time", "cpu_s", type=int, metavar="S", help="Seconds of processor time."),
        click.option("--processes", type=int, metavar="N", help="Processes and threads at once."),
        variable_option,
        click.option("--allow-network", multiple=True, metavar="DOMAIN", help="A domain to reach; repeatable."),
        click.option("--storage/--no-storage", "has_storage", default=None, help="Whether threads can be used."),
        click.option("--volume", "volumes", multiple=True, metavar="SLUG[:rw]", help="A volume to see; repeatable."),
        click.option("--default/--no-default", "is_default", default=None, help="For keys without one of their own."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@app.command("create")
@_org_option
@click.option("--name", required=True, metavar="NAME", help="How keys and people call it.")
@_what_code_has
@json_object
@data_dir_option
@database_url_option
def create(*, org: str, name: str, as_json: bool, data_dir: Path | None, database_url: str | None, **said: Any) -> None:
    """Make a configuration. What is left out is as the service's settings say."""
    variables = variables_given(said["variables"])
    wanted = _altered(replace(BUILT_IN, name=name, is_default=False), said, variables)
    stored = administered(data_dir, database_url, lambda administration: administration.create_sandbox(org, wanted))
    _report(stored, f"made sandbox configuration {name} of {org}", as_json=as_json)


@app.command("list")
@_org_option
@json_lines
@data_dir_option
@database_url_option
def list_(*, org: str, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List the configurations of an organisation. Values of variables are never shown."""

    async def all_of(opened: ServiceData) -> Sequence[StoredConfiguration]:
        await check_known(opened, org)
        return await opened.configurations.all(org)

    found = with_service_data(data_dir, database_url, all_of)
    if as_json:
        for one in found:
            print_json(_json(one))
    elif found:
        print_table(_COLUMNS, map(_cells, found))
    if not found:
        remark(f"{org} has no sandbox configurations; its code runs with what the settings say")


@app.command("show")
@_name_argument
@_org_option
@data_dir_option
@database_url_option
def show(*, name: str, org: str, data_dir: Path | None, database_url: str | None) -> None:
    """Show one configuration as JSON. Values of variables are never shown."""
    print_json(_json(with_service_data(data_dir, database_url, lambda opened: opened.configurations.find(org, name))))


@app.command("change")
@_name_argument
@_org_option
@click.option("--name", "new_name", metavar="NEW", help="Call it so from now on.")
@_what_code_has
@click.option("--no-variable", "removed", multiple=True, metavar="NAME", help="Remove a variable; repeatable.")
@click.option("--no-network", is_flag=True, help="Reach no domain any more.")
@click.option("--no-volumes", is_flag=True, help="See no volume any more.")
@json_object
@data_dir_option
@database_url_option
def change(  # noqa: PLR0913  options of the command
    *,
    name: str,
    org: str,
    new_name: str | None,
    removed: tuple[str, ...],
    no_network: bool,
    no_volumes: bool,
    as_json: bool,
    data_dir: Path | None,
    database_url: str | None,
    **said: Any,
) -> None:
    """Change a configuration, within one second everywhere. What is left out stays as it is."""
    variables = variables_given(said["variables"])
    more: dict[str, Any] = {} if new_name is None else {"name": new_name}
    more |= {"network": None} if no_network else {}
    more |= {"volumes": ()} if no_volumes else {}

    def alter(was: SandboxConfiguration) -> SandboxConfiguration:
        kept = {one: value for one, value in was.variables.items() if one not in removed}
        return replace(_altered(replace(was, variables=kept), said, variables), **more)

    stored = administered(
        data_dir, database_url, lambda administration: administration.change_sandbox(org, name, alter)
    )
    _report(stored, f"changed sandbox configuration {name} of {org}", as_json=as_json)


@app.command("delete")
@_name_argument
@_org_option
@data_dir_option
@database_url_option
def delete(*, name: str, org: str, data_dir: Path | None, database_url: str | None) -> None:
    """Delete a configuration. Refused while keys use it; code of keys without one has the built-in one then."""
    administered(data_dir, database_url, lambda administration: administration.delete_sandbox(org, name))
    remark(f"deleted sandbox configuration {name} of {org}")


def _altered(was: SandboxConfiguration, said: dict[str, Any], variables: dict[str, str]) -> SandboxConfiguration:
    """`was` with what the options say, and these variables. Raises InputError."""
    plain = ("environment", "language", "timeout_s", "timeout_s_max", "cpu_cores", "cpu_s", "processes", "has_storage")
    given = {name: said[name] for name in (*plain, "is_default") if said[name] is not None}
    for option, member in (("memory", "memory_bytes"), ("disk", "disk_bytes")):
        if said[option] is not None:
            given[member] = _bytes_of(said[option])
    if said["allow_network"]:
        given["network"] = tuple(said["allow_network"])
    if said["volumes"]:
        given["volumes"] = tuple(map(_volume, said["volumes"]))
    return replace(was, variables={**was.variables, **variables}, **given)


def _volume(text: str) -> VolumeMount:
    slug, colon, mode = text.partition(":")
    if colon and mode not in {"ro", "rw"}:
        raise InputError(f"{text[:80]!r} must be a volume's slug, with :rw if code may write it")
    return VolumeMount(slug=slug, writable=mode == "rw")


def _bytes_of(text: str) -> int:
    number, unit = (text[:-1], _UNITS[text[-1].lower()]) if text[-1:].lower() in _UNITS else (text, 1)
    if not number.isdecimal() or not number.isascii() or len(number) > 15:
        raise InputError(f"{text[:40]!r} is no number of bytes; write 536870912, 512m or 1g")
    return int(number) * unit


def _report(stored: StoredConfiguration, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_json(stored))
    remark(done)


def _cells(one: StoredConfiguration) -> tuple[str, ...]:
    has = one.configuration
    return (
        has.name, "yes" if has.is_default else "", has.language, f"{has.timeout_s} s", has.environment or "as set",
        "none" if has.network is None else ", ".join(has.network), "yes" if has.has_storage else "no",
        ", ".join(one.variable_names),
    )  # fmt: skip


def _json(one: StoredConfiguration) -> JsonObject:
    has = one.configuration
    return {
        "id": has.configuration_id,
        "name": has.name,
        "default": has.is_default,
        "environment": has.environment,
        "language": has.language,
        "timeout_s": has.timeout_s,
        "timeout_s_max": has.timeout_s_max,
        "memory_bytes": has.memory_bytes,
        "cpu_cores": has.cpu_cores,
        "cpu_s": has.cpu_s,
        "disk_bytes": has.disk_bytes,
        "processes": has.processes,
        "variables": list(one.variable_names),
        "network": None if has.network is None else list(has.network),
        "storage": has.has_storage,
        "volumes": [{"slug": each.slug, "writable": each.writable} for each in has.volumes],
    }
