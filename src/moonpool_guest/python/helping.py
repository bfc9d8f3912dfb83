"""`help` for code in a sandbox, whose interpreter starts without `site`.

Of `servers` and its packages it prints what they say of themselves, one line a tool: `pydoc` would import every tool to
print them all. Anything else is for `pydoc`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Help:
    """The builtin `help`."""

    def __repr__(self) -> str:
        return "help(thing) tells about a tool, a package of tools or anything else"

    def __call__(self, *things: Any) -> None:
        if len(things) == 1 and isinstance(things[0], ModuleType) and _is_package_of_tools(things[0].__name__):
            print(things[0].__doc__)  # noqa: T201  that is what it is for
            return
        import pydoc

        if things:
            pydoc.help(*things)
        else:
            print(repr(self))  # noqa: T201


def _is_package_of_tools(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "servers" and len(parts) <= 2
