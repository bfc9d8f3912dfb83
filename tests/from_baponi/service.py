"""`moonpool serve` and a key of profile `baponi`, as a user of Baponi meets them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.console import moonpool
from server.test_serve_command import Serving

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@dataclass(frozen=True)
class BaponiService:
    """One that runs."""

    url: str  # the base, without /mcp
    key: str = field(repr=False)
    folder: Path


def make_key(folder: Path, *options: str, org: str = "acme") -> str:
    """A new key's text."""
    made = moonpool(folder, "keys", "create", "--data-dir", folder / "state", "--org", org, "--json", *options)
    assert made.exit_code == 0, made.stderr
    printed = json.loads(made.stdout)
    assert sorted(printed) == ["id", "key"]
    return printed["key"]


@contextmanager
def serving_baponi(folder: Path, *options: str) -> Generator[BaponiService]:
    """A service with its state in `folder`; a key is made first, as the how-to page says."""
    key = make_key(folder, "--profile", "baponi")
    with Serving(folder, "--data-dir", str(folder / "state"), *options, keys=True) as serving:
        yield BaponiService(serving.url.removesuffix("/mcp"), key, folder)
