"""A program in a folder that it attached: what code writes there runs only where the program itself imports it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = """
import importlib, importlib.metadata, importlib.util, pkgutil, sys, threading
from importlib.machinery import PathFinder

def found(ask):
    try:
        return ask() is not None
    except ModuleNotFoundError:
        return False

def importing(name): return __import__(name, fromlist=["x"])
def statement(name): exec(f"import {name}", {}); return True
def loaded(name): return importlib.import_module(name)
def looked_up(name): return importlib.util.find_spec(name)
def by_pkgutil(name): return pkgutil.find_loader(name) if sys.version_info < (3, 12) else importlib.util.find_spec(name)
def by_finder(name): return PathFinder.find_spec(name)
def entry_points(): return sorted(one.name for one in importlib.metadata.entry_points(group="moonpool-test"))
def anew(module): return importlib.reload(module)

class Delegating:  # as test runners have one, that rewrites what is found
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target)
"""
PROGRAM = """
import importlib, json, os, sys, zipfile
from pathlib import Path
here, outside = Path(HERE), Path(HERE).parent / "outside"
sys.path[:] = [place for place in sys.path if place not in ("", HERE)]
sys.path[:0] = ["", HERE, "relative", str(here / "file.zip"), str(outside / "link"), str(here / "kept"), str(outside)]
import library, own, shared.given
from moonpool.sandboxes.host_folders import Surroundings, attached

around = Surroundings(home=Path("/home/nobody-here"), data=Path("/var/lib/nothing-here"), own_code=(here / "kept",))
attached([here], around=around)

HOSTILE = "raise RuntimeError('what code wrote was run')"
def write(path, text=HOSTILE):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
names = ("brotli", "winreg", "org", "in_relative", "in_link", "in_zip", "package", "shared.late")
write(here / "brotli.py")
write(here / "winreg.py")
write(here / "org/python/core.py")
write(here / "relative/in_relative.py")
write(here / "linked/in_link.py")
write(here / "package/__init__.py")
write(here / "shared/late.py")
write(here / "shared/theirs.py")
write(here / "later.py", "x = 1")
write(here / "own/sub.py", "x = 1")
with zipfile.ZipFile(here / "file.zip", "w") as file:
    file.writestr("in_zip.py", HOSTILE)
write(here / "evil-1.dist-info/METADATA", "Name: evil\\nVersion: 1\\n")
write(here / "evil-1.dist-info/entry_points.txt", "[moonpool-test]\\nby_code = brotli:run\\n")
library.importlib.invalidate_caches()

told = {}
for hooked in (False, True):
    if hooked:
        sys.meta_path.insert(0, library.Delegating)
    for ask in ("importing", "statement", "loaded", "looked_up", "by_pkgutil", "by_finder"):
        for name in names:
            if "." not in name or ask not in ("by_finder", "by_pkgutil"):
                told[f"{ask} {name} {hooked}"] = library.found(lambda: getattr(library, ask)(name))
sys.path.append(str(outside / "more"))  # namespace packages look anew
told["late of a namespace"] = library.found(lambda: library.loaded("shared.late"))
told["by what is read-only there"] = library.found(lambda: importlib.import_module("in_kept").importing("brotli"))
told["entry points"] = library.entry_points() != ["given"]
told["standard, by the program"] = library.found(lambda: __import__("winreg"))
allowed = {
    "not the library's own": library.found(lambda: library.loaded("shared.theirs")),
    "kept": library.found(lambda: library.loaded("in_kept")),
    "submodule": library.found(lambda: library.loaded("own.sub")),
    "loaded anew": library.anew(own) is own,
    "the program's": __import__("later").x == 1,
    "the program's, by name": library.importlib.util.find_spec("brotli") is not None,
    "listed": "brotli" in [one.name for one in library.pkgutil.iter_modules([HERE])],
}
print(json.dumps([[name for name, found in told.items() if found], [name for name, ok in allowed.items() if not ok]]))
"""


def started(folder: Path, *arguments: str, typed: str = "") -> Any:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, input=typed, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip(">. \n"))  # prompts


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The program's folder, with a library beside it."""
    here, outside = tmp_path / "here", tmp_path / "outside"
    for path, text in (
        (here / "own/__init__.py", ""),
        (here / "kept/in_kept.py", LIBRARY),
        (here / "linked/early.py", ""),
        (here / "shared/early.py", ""),
        (outside / "library.py", LIBRARY),
        (outside / "shared/given.py", ""),
        (outside / "shared/theirs.py", ""),
        (outside / "given-1.dist-info/METADATA", "Name: given\nVersion: 1\n"),
        (outside / "given-1.dist-info/entry_points.txt", "[moonpool-test]\ngiven = library:found\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (outside / "link").symlink_to(here / "linked")
    return here


@pytest.mark.parametrize("kind", ["a file", "a command", "a module of it", "profiled"])
def test_no_library_imports_what_code_wrote(here: Path, kind: str) -> None:
    program = f"HERE = {str(here)!r}\n{PROGRAM}"
    (here / "program.py").write_text(program, encoding="utf-8")
    given = {"a file": ["program.py"], "a command": ["-c", program], "a module of it": ["-c", "import program"],
             "profiled": ["-m", "cProfile", "-o", "figures", "program.py"]}[kind]  # fmt: skip
    assert started(here, *given) == [[], []]


ATTACHING = """
import json, os, sys
from pathlib import Path
from moonpool.sandboxes.host_folders import Surroundings, attached

def attach(folder):
    attached([folder], around=Surroundings(home=Path("/home/nobody-here"), data=Path("/var/lib/nothing"), own_code=()))
"""


def test_hooks_have_names(here: Path) -> None:
    program = (
        f"{ATTACHING}\nattach('.')\nprint(json.dumps([[one.__name__, one.__qualname__] for one in sys.path_hooks]))"
    )
    assert all(map(all, started(here, "-c", program)))


@pytest.mark.parametrize(
    "removed", ["os.chdir('sub'); os.rmdir(here / 'sub')", "os.rmdir('sub'); os.symlink('sub', 'sub')"]
)
def test_code_does_not_stop_imports(here: Path, removed: str) -> None:
    """Of what lies elsewhere: by a current directory that is gone, or by links in a circle."""
    (here / "sub").mkdir()
    (here.parent / "two").mkdir()
    (here / "program.py").write_text(
        f"{ATTACHING}\nhere = Path({str(here)!r})\nsys.path.insert(0, str(here.parent / 'to'))\nattach(here)\n"
        f"{removed}\nattach(here.parent / 'two')\nimport wave\nprint(json.dumps('wave' in sys.modules))",
        encoding="utf-8",
    )
    (here.parent / "to").symlink_to(here / "sub")
    assert started(here, "program.py")


BACKPORT = """
import sys
from importlib.machinery import PathFinder
from importlib.metadata import MetadataPathFinder, entry_points

class Finder(MetadataPathFinder):
    find_spec = staticmethod(lambda *_: None)

sys.meta_path.append(Finder())
if "find_distributions" in vars(PathFinder):
    del PathFinder.find_distributions

def finds_flat():
    try:
        import flat
    except ModuleNotFoundError:
        return False
    return True
"""


@pytest.mark.parametrize("loaded", ["before", "after"])
def test_no_backport_of_the_search_sees_entry_points_of_code(here: Path, loaded: str) -> None:
    """`importlib_metadata` removes the search of the standard library, and searches itself."""
    outside = here.parent / "outside"
    (outside / "importlib_metadata.py").write_text(BACKPORT, encoding="utf-8")
    (here / "flat.py").touch()
    (here / "program.py").write_text(
        f"{ATTACHING}\nsys.path.append({str(outside)!r})\nimport library\n"
        f"{'import importlib_metadata' * (loaded == 'before')}\nattach('.')\nimport importlib_metadata\n"
        "os.mkdir('evil-1.dist-info')\nPath('evil-1.dist-info/METADATA').write_text('Name: evil', encoding='utf-8')\n"
        "Path('evil-1.dist-info/entry_points.txt').write_text('[moonpool-test]\\nby_code = x:y\\n', encoding='utf-8')\n"
        "own = [one.name for one in importlib_metadata.entry_points(group='moonpool-test')]\n"
        "print(json.dumps([library.entry_points(), sorted(own), importlib_metadata.finds_flat()]))",
        encoding="utf-8",
    )
    assert started(here, "program.py") == [["given"], ["by_code", "given"], False]


@pytest.mark.parametrize("prompt", [["-i"], ["-m", "code"], ["-m", "asyncio"]])
def test_a_prompt_is_the_program(here: Path, prompt: list[str]) -> None:
    (here / "attaching.py").write_text(ATTACHING, encoding="utf-8")
    typed = "from attaching import *\nattach('.')\nimport own\nprint(json.dumps('own' in sys.modules))\n"
    assert started(here, *prompt, typed=typed)


def test_a_file_that_the_program_runs_is_the_programs(here: Path) -> None:
    (here / "step.py").write_text("import own\nprint('true')", encoding="utf-8")
    assert started(
        here, "-c", f"{ATTACHING}\nimport runpy\n__file__ = '/elsewhere'\nattach('.')\nrunpy.run_path('step.py')"
    )


def test_a_namespace_package_keeps_what_lies_in_the_folder(here: Path) -> None:
    """Libraries have it look again; they find nothing there. One that lies in the folder only is the folder's."""
    for path in (here / "shared/mine.py", here / "alone/early.py", here / "alone/late.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("", encoding="utf-8")
    (here / "program.py").write_text(
        f"{ATTACHING}\nsys.path.append({str(here.parent / 'outside')!r})\n"
        "import alone.early, library, shared.early, shared.given\nattach('.')\nlibrary.importlib.invalidate_caches()\n"
        "names = ('shared.theirs', 'shared.mine', 'alone.late')\n"
        "found = [library.found(lambda: library.loaded(name)) for name in names]\n"
        "import shared.mine\nprint(json.dumps(found))",
        encoding="utf-8",
    )
    assert started(here, "program.py") == [True, False, True]


def test_an_import_that_is_refused_says_why(here: Path) -> None:
    """And who only looks gets no error: code could make such files to that end."""
    (here / "flat.py").touch()
    (here / "program.py").write_text(
        f"{ATTACHING}\nsys.path.append({str(here.parent / 'outside')!r})\nimport library\nattach('.')\n"
        "told = [library.found(lambda: library.looked_up('flat'))]\n"
        "for name in ('flat', 'winreg', 'nowhere'):\n"
        "    try: library.loaded(name)\n"
        "    except ModuleNotFoundError as error: told.append([error.name, str(error)])\n"
        "print(json.dumps(told))",
        encoding="utf-8",
    )
    looked, flat, *others = started(here, "program.py")
    assert (looked, flat[0]) == (False, "flat")
    assert f"No module named 'flat' but {here / 'flat.py'}, where code of a sandbox may write" in flat[1]
    assert others == [[name, f"No module named {name!r}"] for name in ("winreg", "nowhere")]


@pytest.mark.parametrize("change", ["insert(0, hook)", "append(hook)", "remove(sys.path_hooks[0])"])
def test_no_hook_comes_before_the_guards(here: Path, change: str) -> None:
    (here / "flat.py").touch()
    (here / "program.py").write_text(
        f"{ATTACHING}\nfrom importlib.machinery import FileFinder, SourceFileLoader\n"
        f"sys.path.append({str(here.parent / 'outside')!r})\nimport library\nattach('.')\n"
        "hook = FileFinder.path_hook((SourceFileLoader, ['.py']))\n"
        f"sys.path_hooks.{change}\nsys.path_importer_cache.clear()\n"
        "print(json.dumps([library.found(lambda: library.importing('flat')), __import__('flat').__name__]))",
        encoding="utf-8",
    )
    assert started(here, "program.py") == [False, "flat"]
