"""`moonpool serve` and a key of profile `baponi`, as a user of Baponi meets them, on either kind of stores."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.console import moonpool
from server.test_serve_command import Serving
from service_stores import FOLDER

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from service_stores import Stores


@dataclass
class BaponiService:
    """One that runs, and is started again with `restart`."""

    folder: Path
    stores: Stores = FOLDER
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict[str, str])
    key: str = field(default="", repr=False)
    serving: Serving = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.key = self.key or make_key(self.folder, "--profile", "baponi", stores=self.stores)
        self.start()

    def start(self) -> None:
        state = ("--data-dir", str(self.folder / "state"))
        environ = {**self.stores.environ, **self.environ}
        has_keys = "--no-auth" not in self.options
        self.serving = Serving(
            self.folder, *state, *self.stores.options, *self.options, keys=has_keys, **environ
        ).__enter__()

    @property
    def url(self) -> str:
        """The base, without /mcp."""
        return self.serving.url.removesuffix("/mcp")

    def stop(self, *, kill: bool = False) -> None:
        if kill:
            self.serving.process.kill()
        self.serving.__exit__()

    def restart(self, *, kill: bool = False) -> str:
        """Its new base."""
        self.stop(kill=kill)
        self.start()
        return self.url


def make_key(folder: Path, *options: str, org: str = "acme", stores: Stores = FOLDER) -> str:
    """A new key's text."""
    command = ("keys", "create", "--data-dir", folder / "state", "--org", org, "--json", *options)
    made = moonpool(folder, *command, **stores.environ)
    assert made.exit_code == 0, made.stderr
    printed = json.loads(made.stdout)
    assert sorted(printed) == ["id", "key"]
    return printed["key"]


@contextmanager
def serving_baponi(
    folder: Path, *options: str, stores: Stores = FOLDER, key: str = "", **environ: str
) -> Generator[BaponiService]:
    """A service with its state in `folder`; a key is made first, as the how-to page says."""
    service = BaponiService(folder, stores, options, environ, key)
    try:
        yield service
    finally:
        service.stop()
