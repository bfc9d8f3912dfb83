"""Wrapper trees on disk: their digests, and writing them.

A server whose tools could not be listed has a package, too, which raises an error on import.

INVARIANT: trees are addressed by digest and written atomically, so an existing one is complete. The newest TREES_MAX
are kept, because a server may change its tools for ever. A removed tree is written again when needed (`snapshot.show`).
SECURITY: sandbox uids may read trees, so every user may; but a tree's name can only be known from its contents.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_json
from moonpool.store.private_files import unusable_data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from moonpool.core.manifest import Manifest

TREES_MAX = 64
NO_REASONS: Final[Mapping[str, str]] = MappingProxyType({})
_TREE_FORMAT = 5  # increase it if the same manifest renders to different files


def why_missing(server_id: str, reasons: Mapping[str, str]) -> str:
    """What code and models are told about a configured server whose tools are not known."""
    unlisted = f"server {server_id!r} is configured, but its tools could not be listed; the operator sees why"
    return reasons.get(server_id, unlisted)


def tree_digest(manifest: Manifest, missing: Sequence[str], reasons: Mapping[str, str] = NO_REASONS) -> str:
    """The digest of the wrapper tree of these tools."""
    return digest_json([_TREE_FORMAT, manifest.digest, list(missing), *([dict(reasons)] if reasons else [])])


def write_tree(
    folder: Path, manifest: Manifest, missing: Sequence[str], reasons: Mapping[str, str] = NO_REASONS
) -> None:
    """Render and write a tree atomically. Raises StoreFolderError.

    `reasons`: why a server is missing, by its id, if code may know more than that its tools could not be listed.
    """
    from moonpool.wrappers.tree import render_tree  # noqa: PLC0415  only when the tree is not on disk yet

    files = {**render_tree(manifest).files, **_missing_packages(manifest, missing, reasons)}
    building = folder.parent / f".{folder.name}-{secrets.token_hex(4)}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(folder.parent, 0o711)  # noqa: PTH101, S103  sandbox uids must pass
        for name, content in files.items():
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            path.write_bytes(content)
            path.chmod(0o644)
    except OSError as exc:  # a partial tree would keep a full disk full
        shutil.rmtree(building, ignore_errors=True)
        raise unusable_data_folder(folder.parent, exc) from exc
    try:
        building.rename(folder)
    except OSError:  # another process was faster; its tree is the same
        with contextlib.suppress(OSError):
            shutil.rmtree(building)
    drop_oldest(folder.parent)


def drop_oldest(trees: Path, *, kept: int = TREES_MAX) -> None:
    """Remove all but the newest. INVARIANT: in one step, so that a partly removed tree is never used."""
    with contextlib.suppress(OSError):
        found = [(path.stat().st_mtime_ns, path) for path in trees.iterdir() if not path.name.startswith(".")]
        for _, path in sorted(found)[: -kept or None]:
            gone = trees / f".gone-{secrets.token_hex(8)}"
            with contextlib.suppress(OSError):  # another process was faster
                path.rename(gone)
                shutil.rmtree(gone)


def _missing_packages(manifest: Manifest, missing: Sequence[str], reasons: Mapping[str, str]) -> dict[str, bytes]:
    """Packages for servers without a listing, so that importing one raises an error with the reason instead of `No
    module named`.
    """
    from moonpool.core.naming import name_server_modules  # noqa: PLC0415
    from moonpool.wrappers.node_tree import render_missing  # noqa: PLC0415

    present = [listing.server_id for listing in manifest.servers]
    modules = name_server_modules([*present, *missing])
    files: dict[str, bytes] = {}
    for server_id in missing:
        text = why_missing(server_id, reasons)
        for root in ("servers", "mcptools"):
            files[f"{root}/{modules[server_id]}/__init__.py"] = f"raise ImportError({text!r})\n".encode()
        files[f"servers/{modules[server_id]}/index.js"] = render_missing(text).encode()
    return files
