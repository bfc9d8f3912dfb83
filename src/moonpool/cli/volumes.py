"""`moonpool volumes create|list|delete|put|get`: files that an organisation's sandboxes share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.printer import remark
from moonpool.cli.service_data import tenant_options
from moonpool.cli.stored_trees import get_file, path_argument, print_trees, put_file, with_files
from moonpool.features.storage.model import TreeName

if TYPE_CHECKING:
    from moonpool.cli.service_data import ChosenTenant

app = command_group("Volumes: files that an organisation's sandboxes share, at /data/SLUG.")
_slug_argument = click.argument("slug", metavar="SLUG", help="The volume's name.")


@app.command("create")
@_slug_argument
@tenant_options
def create(*, slug: str, tenant: ChosenTenant) -> None:
    """Make an empty volume."""
    with_files(tenant, lambda files: files.create_volume(slug))
    remark(f"made volume {slug}; a sandbox configuration mounts it at /data/{slug}")


@app.command("list")
@json_lines
@tenant_options
def list_(*, as_json: bool, tenant: ChosenTenant) -> None:
    """List volumes by name."""
    found = with_files(tenant, lambda files: files.trees.all("volume"))
    print_trees(tenant, found, called="slug", as_json=as_json)


@app.command("delete")
@_slug_argument
@tenant_options
def delete(*, slug: str, tenant: ChosenTenant) -> None:
    """Delete a volume with all its files."""
    with_files(tenant, lambda files: files.delete(_name(slug)))
    remark(f"deleted volume {slug}")


@app.command("put")
@_slug_argument
@click.argument("file", type=Path, metavar="FILE", help="A file here.")
@click.argument("path", required=False, metavar="PATH", help="Where it goes in the volume. Default: its name.")
@tenant_options
def put(*, slug: str, file: Path, path: str | None, tenant: ChosenTenant) -> None:
    """Write a file into a volume, replacing one."""
    put_file(tenant, _name(slug), file, path)


@app.command("get")
@_slug_argument
@path_argument
@click.argument("file", type=Path, required=False, metavar="FILE", help="Where it goes here. Default: its name.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@tenant_options
def get(*, slug: str, path: str, file: Path | None, force: bool, tenant: ChosenTenant) -> None:
    """Fetch a file of a volume."""
    get_file(tenant, _name(slug), path, file, force=force)


def _name(slug: str) -> TreeName:
    return TreeName(kind="volume", name=slug)
