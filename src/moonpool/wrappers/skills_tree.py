"""Skills -> what makes scripts of theirs importable. The folders themselves are entries' own files.

A folder is called as the format calls it (`pdf-forms`), which is no name for Python. So the package `skills` finds its
modules in `skills/.modules`: one small module per skill (`pdf_forms`), whose own modules are the skill's files.
Nothing is put into a skill's folder, and a package that a skill brings itself is not run by importing its scripts.

SECURITY: texts of a skill get into source code quoted only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.features.library.model.bounds import ROOTS
from moonpool.features.library.model.skills import GUEST_FOLDER, importable, module_name
from moonpool.wrappers.quoting import docstring, prose, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.features.library.model.entries import LibraryEntry

_ROOT: Final = ROOTS["skill"]
_PACKAGE: Final = '''\
"""Skills: folders of instructions, scripts and files. INDEX.md lists them; `client.catalog` finds them by words."""

import importlib
import os

__path__ = [os.path.join(os.path.dirname(__file__), ".modules")]
__all__ = {names}


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"{{__name__}}.{{name}}")
    raise AttributeError(f"there is no skill {{name!r}}; there are {{', '.join(__all__[:40])}}")


def __dir__():
    return sorted({{*globals(), *__all__}})
'''
_MODULE: Final = """\
{about}

import os

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), {name})
__path__ = [FOLDER]
"""


def render_packages(skills: Sequence[LibraryEntry]) -> dict[str, bytes]:
    """The package `skills` and a module for each of them; nothing without a skill."""
    if not skills:
        return {}
    modules = {skill.name: module_name(skill.name) for skill in skills}
    files = {f"{_ROOT}/.modules/{modules[skill.name]}.py": _module(skill).encode() for skill in skills}
    files[f"{_ROOT}/__init__.py"] = _PACKAGE.format(names=repr(sorted(modules.values()))).encode()
    return files


def _module(skill: LibraryEntry) -> str:
    folder = f"{GUEST_FOLDER}/{skill.name}"
    names = importable(path.removeprefix(f"{skill.name}/") for path in skill.files)
    scripts = f"Its modules: {', '.join(names[:40])}." if names else "It has no modules."
    told = [
        prose(skill.description),
        f"The skill's files are in {folder}; SKILL.md there says how to use it. {scripts}",
    ]
    return _MODULE.format(about="\n".join(docstring(told, "")), name=quote(skill.name))
