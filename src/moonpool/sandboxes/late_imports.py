"""What this process imports late does not come from a folder that code of a sandbox may write.

A program often stands in the folder that it attaches: then that folder is the first on `sys.path`, and a file `h11.py`
or `winreg.py` that code writes there would run in this process as soon as any library asks for that name.

Who asks decides, not the name: a list of names is never whole, since libraries ask for much that is not installed.
Only modules of the folder find modules there, and the program where it is no file (`python -c`, a prompt, a notebook).
What belongs to a module of the folder is found by all: its submodules, and itself when it is loaded anew. The standard
library's names are never found there.

The place is the hooks of `sys.path`: every search passes these, also those of namespace packages, of other finders and
of `pkgutil`. `importlib.metadata` has none, so its searches of `sys.path` are guarded: an entry point names code, too.

SECURITY: this does not cover what the program imports, nor a search that is given its own path; an import by a
compiled module counts as its caller's; whoever replaces `sys.path_hooks` itself has no guard until the next session.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.machinery import ModuleSpec
    from importlib.metadata import DistributionFinder
    from types import FrameType, ModuleType


_PROMPTS: Final = ("<stdin>", "<console>", "<input>", "<python-input-")


class _Guard:
    """Takes the entries of `sys.path` where code may write."""

    def __init__(self, leads_to_code: Callable[[Path], bool]) -> None:
        self._leads_to_code = leads_to_code

    def hook(self, entry: str) -> _GuardedEntry:
        """A method, since libraries ask a hook of `sys.path` for its name."""
        if self._leads_to_code(Path(entry)):
            for hook in sys.path_hooks:
                if hook != self.hook:
                    with suppress(ImportError, OSError):  # the current directory may have been removed
                        return _GuardedEntry(hook(str(Path(entry).absolute())), self)
        raise ImportError("not this hook's", path=entry)

    def lets_find(self, fullname: str, target: ModuleType | None) -> bool:
        """Whether this import may find a module in the folder."""
        if fullname in sys.stdlib_module_names:
            return False
        belongs_to = target or sys.modules.get(fullname.rpartition(".")[0])
        places = _portions(belongs_to) or [getattr(belongs_to, "__dict__", {}).get("__file__")]
        return all(self._is_codes(place) for place in places) or self.program_asks()

    def program_asks(self, *, by: str = "importlib") -> bool:
        """Whether the innermost frame that imports, or asks what is installed, is the program's.

        `by` asks for its caller. SECURITY: the backport imports much late, and in its own name.
        """
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        asking = _of_find_spec(frame) or frame  # beyond the finders that importlib asks: those of tools import nothing
        while asking is not None:
            names = asking.f_globals
            module, file = str(names.get("__name__")), names.get("__file__")
            is_main = module == "__main__"
            if (is_main or module == "__console__") and asking.f_code.co_filename.startswith(_PROMPTS):
                return True  # some have a `__file__`: that of the module that prompts
            if (
                (is_main or file is not None)
                and module != __name__
                and module.partition(".")[0] not in {"importlib", by}
            ):
                return file is None or self._is_codes(file, relative=is_main or names.get("__spec__") is None)
            asking = asking.f_back  # also from what `exec` runs: that counts as its caller's
        return False

    def searched(self, context: DistributionFinder.Context | None) -> DistributionFinder.Context:
        """What a search for what is installed may look through: not where code may write, unless the program asks."""
        from importlib.metadata import DistributionFinder  # noqa: PLC0415  0.02 s, rarely needed

        context = context or DistributionFinder.Context()
        asked: dict[str, Any] = vars(context)
        if "path" not in asked and not self.program_asks(by="importlib_metadata"):
            asked = {**asked, "path": [entry for entry in sys.path if not self._leads_to_code(Path(entry))]}
        return type(context)(**asked)  # the backport has a class of its own

    def _is_codes(self, file: object, *, relative: bool = False) -> bool:
        """`relative`: as debuggers, profilers and `runpy` name the program. Of others we do not know the directory."""
        return isinstance(file, str) and (relative or os.path.isabs(file)) and self._leads_to_code(Path(file))  # noqa: PTH117


class _Hooks(list[Any]):
    """Those of `sys.path`. SECURITY: the guard's is asked first, also when a library puts its own before it."""

    def __init__(self, guards: Callable[[str], _GuardedEntry], others: Iterable[Any]) -> None:
        super().__init__([guards, *(hook for hook in others if hook != guards)])
        self._guards = guards

    def __iter__(self) -> Iterator[Any]:
        yield self._guards
        yield from (hook for hook in super().__iter__() if hook != self._guards)


class _GuardedSearch:
    """In place of a finder's `find_distributions`."""

    def __init__(self, search: Callable[[Any], Iterable[Any]], guard: _Guard) -> None:
        self._search = search
        self._guard = guard

    def __call__(self, context: DistributionFinder.Context | None = None) -> Iterable[Any]:
        return self._search(self._guard.searched(context))


class _GuardedSearches:
    """Of what is installed: before each, those that were added since are guarded. First on `sys.meta_path`.

    The backport `importlib_metadata` adds its own whenever it is imported, and removes that of `PathFinder`.
    """

    def __init__(self, guard: _Guard) -> None:
        self.guard = guard

    def find_spec(self, *_: object) -> None:
        """No module."""

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Any]:  # noqa: ARG002
        """Nothing itself: the finders after it are asked next."""
        for finder in sys.meta_path:
            search = getattr(finder, "find_distributions", None)
            if search is not None and finder is not self and not isinstance(search, _GuardedSearch):
                setattr(finder, "find_distributions", _GuardedSearch(search, self.guard))  # noqa: B010  not in its type
        return ()


class _GuardedEntry:
    """An entry of `sys.path`, or of a package's path, where code may write."""

    def __init__(self, finder: Any, guard: _Guard) -> None:
        self._finder = finder
        self._guard = guard

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        if self._guard.lets_find(fullname, target):
            return self._finder.find_spec(fullname, target)
        if not _portions(sys.modules.get(fullname)):
            return None
        spec = self._finder.find_spec(fullname, target)  # a namespace package looks for its portions again
        return spec if spec is not None and spec.loader is None else None

    def refused(self, fullname: str) -> str | None:
        """The file of a module that was not found for who asks."""
        spec = None if fullname in sys.stdlib_module_names else self._finder.find_spec(fullname)
        return spec.origin if spec is not None and spec.loader is not None else None

    def iter_modules(self, prefix: str = "") -> Iterable[tuple[str, bool]]:
        """What lies there, for `pkgutil`: names, nothing is run."""
        listed: Any = getattr(pkgutil, "iter_importer_modules")  # noqa: B009  missing in its types
        return listed(self._finder, prefix)

    def invalidate_caches(self) -> None:
        if hasattr(self._finder, "invalidate_caches"):
            self._finder.invalidate_caches()


class _Refusals:
    """Says why an import fails that nobody could answer. Last on `sys.meta_path`."""

    def find_spec(self, fullname: str, path: Iterable[str] | None = None, _: ModuleType | None = None) -> None:
        """No module. Who only looks (`importlib.util.find_spec`) gets no error."""
        search = _of_find_spec(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        asking = search and search.f_back
        if asking is None or asking.f_code.co_name != "_find_and_load_unlocked" or sys.meta_path[-1] is not self:
            return
        for place in sys.path if path is None else path:
            with suppress(OSError):  # the current directory may have been removed
                entry = sys.path_importer_cache.get(place or str(Path.cwd()))
                if isinstance(entry, _GuardedEntry) and (file := entry.refused(fullname)) is not None:
                    raise ModuleNotFoundError(
                        f"No module named {fullname!r} but {file}, where code of a sandbox may write: "
                        "only modules of that folder import it now; import it there, or before the first session",
                        name=fullname,
                    )


def _portions(module: ModuleType | None) -> list[str]:
    """Where a namespace package lies, as was found last: who asks its `__path__` has it look again. Empty of others."""
    names: dict[str, Any] = getattr(module, "__dict__", {})
    found: Any = getattr(names.get("__path__"), "_path", None) if names.get("__file__") is None else None
    return found if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType]


def _of_find_spec(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        if frame.f_code.co_name == "_find_spec" and frame.f_globals.get("__name__") == "importlib._bootstrap":
            return frame
        frame = frame.f_back
    return None


def guard(leads_to_code: Callable[[Path], bool]) -> None:
    """From now on, also in folders that were searched before. INVARIANT: the import lock is held."""
    before = [finder for finder in sys.meta_path if isinstance(finder, _GuardedSearches)]
    searches = before[0] if before else _GuardedSearches(_Guard(leads_to_code))
    others = [one for one in sys.meta_path if not isinstance(one, _GuardedSearches | _Refusals)]
    sys.meta_path[:] = [searches, *others, _Refusals()]
    sys.path_hooks = _Hooks(searches.guard.hook, sys.path_hooks)
    searches.find_distributions()
    sys.path_importer_cache.clear()
