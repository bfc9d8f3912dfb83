"""Shared by the commands for saved actions and for skills."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, TypeVar

from moonpool.bootstrap.library import open_library_changes
from moonpool.cli.config_choice import read_config
from moonpool.cli.printer import remark

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from moonpool.cli.service_data import ChosenTenant
    from moonpool.features.library.service import LibraryChanges

_T = TypeVar("_T")


def change(
    tenant: ChosenTenant,
    config: Path | None,
    work: Callable[[LibraryChanges], Awaitable[_T]],
    *,
    keeps_something: bool = True,
) -> _T:
    """Change a library, on record. The configuration's secrets are needed only if something is saved."""

    async def changed() -> _T:
        servers = read_config(config) if keeps_something else None
        async with open_library_changes(tenant.settings, servers, os.environ, tenant.tenant_id) as changes:
            return await work(changes)

    return asyncio.run(changed())


def problem_on_stderr(problem: str) -> None:
    """Report an unusable entry."""
    remark(f"{problem}")
