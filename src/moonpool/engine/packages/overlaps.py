"""Which packages may not be shown together, or beside what an environment has. Pure.

SECURITY: installed packages come last on `sys.path`, but there a module wins over a folder of the same name on all of
it, and in their own folder one file wins over another. So none may bring a module where somebody else has one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.engine.files.errors import shown
from moonpool.engine.packages.model import PackageRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from moonpool.engine.packages.model import StoredWheel

_INFO: Final = re.compile(r"[^/]*\.dist-info/")
_IMPORTED: Final = frozenset({"py", "pyc", "so"})


@dataclass(frozen=True, kw_only=True)
class TakenModules:
    """What no package may bring."""

    owner: Callable[[str], str]  # who has a top-level module of this name already; empty: nobody
    namespaces: Collection[str]  # folders of the environment to which packages may add modules, with slashes


def check_overlaps(wheels: Iterable[StoredWheel], taken: TakenModules) -> int:
    """How many files they have together. Raises PackageRefusedError. Takes a moment where there are many."""
    owners: dict[str, StoredWheel] = {}
    places: dict[str, tuple[str, StoredWheel]] = {}
    for wheel in wheels:
        _check_taken(wheel, taken)
        for path, digest in wheel.files.items():
            owner = owners.setdefault(path, wheel)
            if owner is not wheel and owner.files[path] != digest:
                raise _both(owner, wheel, f"the file {shown(path)!r}")
        for module, place in _modules(wheel.files):
            other, owner = places.setdefault(module, (place, wheel))
            if owner is not wheel and other != place:
                raise _both(owner, wheel, f"a module {shown(module.replace('/', '.'))!r}")
    _check_folders(owners)
    return len(owners)


def _check_folders(owners: Mapping[str, StoredWheel]) -> None:
    """Raises PackageRefusedError for a file in the place of a folder."""
    folders: dict[str, StoredWheel] = {}
    for path, wheel in owners.items():
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders[above] = wheel
            above = above.rpartition("/")[0]
    if clashes := folders.keys() & owners.keys():
        path = min(clashes)
        raise _both(owners[path], folders[path], f"a file and a folder {shown(path)!r}")


def _check_taken(wheel: StoredWheel, taken: TakenModules) -> None:
    for name in sorted({path.partition("/")[0] for path in wheel.files if not _INFO.match(path)}):
        if owner := taken.owner(name.partition(".")[0]):
            raise _refused(wheel, name, f"a module of {owner}")
    for module, place in _modules(wheel.files):
        if module.removesuffix("/__init__") in taken.namespaces and place != f"{module}/":
            raise _refused(wheel, place, "modules of the environment")


def _modules(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What these files let be imported, with slashes for dots, and its place: a file, or a folder with a slash."""
    for path in files:
        folder, _, leaf = path.rpartition("/")
        suffix = leaf.partition(".")[2]
        if suffix.rpartition(".")[2] in _IMPORTED and not _INFO.match(path):
            yield path[: -len(suffix) - 1], path
            while folder:
                yield folder, f"{folder}/"
                folder = folder.rpartition("/")[0]


def _refused(wheel: StoredWheel, name: str, what: str) -> PackageRefusedError:
    return PackageRefusedError(
        f"the wheel of {wheel.name} was refused: {shown(name)} would take the place of {what}; nothing was installed"
    )


def _both(one: StoredWheel, other: StoredWheel, what: str) -> PackageRefusedError:
    return PackageRefusedError(
        f"nothing was installed: {one.name} and {other.name} both bring {what}; install one of them"
    )
