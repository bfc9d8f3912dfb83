"""`moonpool threads list|show|delete|put|get`: files that executions of a thread find again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.printer import print_json, remark
from moonpool.cli.service_data import tenant_options
from moonpool.cli.stored_trees import (
    file_json,
    files_of,
    get_file,
    path_argument,
    print_files,
    print_trees,
    put_file,
    tree_json,
    with_files,
)
from moonpool.features.storage.model import TreeName

if TYPE_CHECKING:
    from moonpool.cli.service_data import ChosenTenant

app = command_group("Threads: files that executions of a thread find again.")
_id_argument = click.argument("thread_id", metavar="ID", help="The thread's id.")
_owner_option = click.option(
    "--owner", default="", metavar="PRINCIPAL", help="Of this user or OAuth client. Default: those that keys share."
)


@app.command("list")
@click.option("--owner", metavar="PRINCIPAL", help="Only those of this user or OAuth client. Default: all.")
@json_lines
@tenant_options
def list_(*, owner: str | None, as_json: bool, tenant: ChosenTenant) -> None:
    """List threads by id."""
    found = with_files(tenant, lambda files: files.trees.all("thread", owner))
    print_trees(tenant, found, called="id", as_json=as_json)


@app.command("show")
@_id_argument
@_owner_option
@click.option("--path", default="", metavar="FOLDER", help="Only what is below this folder of it.")
@json_object
@tenant_options
def show(*, thread_id: str, owner: str, path: str, as_json: bool, tenant: ChosenTenant) -> None:
    """Show a thread and its files."""
    state, found = files_of(tenant, _name(thread_id, owner), path)
    if as_json:
        print_json({**tree_json(state, called="id"), "files": [file_json(one) for one in found]})
        return
    print_trees(tenant, [state], called="id", as_json=False)
    print_files(found)


@app.command("delete")
@_id_argument
@_owner_option
@tenant_options
def delete(*, thread_id: str, owner: str, tenant: ChosenTenant) -> None:
    """Delete a thread with all its files."""
    with_files(tenant, lambda files: files.delete(_name(thread_id, owner)))
    remark(f"deleted thread {thread_id}")


@app.command("put")
@_id_argument
@click.argument("file", type=Path, metavar="FILE", help="A file here.")
@click.argument("path", required=False, metavar="PATH", help="Where it goes in the thread. Default: its name.")
@_owner_option
@tenant_options
def put(*, thread_id: str, file: Path, path: str | None, owner: str, tenant: ChosenTenant) -> None:
    """Write a file into a thread, replacing one; a thread that is not there is made."""
    put_file(tenant, _name(thread_id, owner), file, path)


@app.command("get")
@_id_argument
@path_argument
@click.argument("file", type=Path, required=False, metavar="FILE", help="Where it goes here. Default: its name.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@_owner_option
@tenant_options
def get(*, thread_id: str, path: str, file: Path | None, force: bool, owner: str, tenant: ChosenTenant) -> None:
    """Fetch a file of a thread."""
    get_file(tenant, _name(thread_id, owner), path, file, force=force)


def _name(thread_id: str, owner: str) -> TreeName:
    return TreeName(kind="thread", name=thread_id, owner=owner)
