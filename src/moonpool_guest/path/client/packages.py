"""What makes `servers` and its packages lazy: a tool's file is read when the tool is first used.

All of these give the same function, before and after any of the others:

    from servers.sheets import get_all_rows
    import servers.sheets as sheets; sheets.get_all_rows
    from servers.sheets.get_all_rows import get_all_rows
    import servers.sheets.get_all_rows; servers.sheets.get_all_rows
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Server(ModuleType):
    """A package of tools."""

    __tools__: dict[str, tuple[str, str]]  # function -> (file, function)
    __functions__: list[str]  # without those that need no `await`

    def __getattr__(self, name: str) -> Any:
        where = self.__tools__.get(name)
        if where is None:
            known = ", ".join(self.__functions__[:40])
            raise AttributeError(f"server package {self.__name__!r} has no tool {name!r}; it has {known}")
        module = import_module(f"{self.__name__}.{where[0]}")
        tool = getattr(module, where[1])
        super().__setattr__(name, tool)
        return tool

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep the function where the import system would put the module of the same name."""
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}" and name in self.__tools__:
            tool = getattr(value, name)
            for other, member in vars(value).items():
                if not other.startswith("__"):
                    tool.__dict__.setdefault(other, member)  # `import servers.sheets.get_all_rows as q; q.get_all_rows`
            value = tool
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self.__all__})


class _Servers(ModuleType):
    """The package of server packages."""

    def __getattr__(self, name: str) -> Any:
        if name not in self.__all__:
            raise AttributeError(f"no server {name!r}; there are {', '.join(self.__all__[:40])}")
        return import_module(f"{self.__name__}.{name}")

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self.__all__})


def open_servers(package: str, _names: list[str]) -> None:
    """Make attribute access on `package` import its server packages."""
    sys.modules[package].__class__ = _Servers


def open_server(package: str, tools: dict[str, tuple[str, str]]) -> None:
    """Make attribute access on `package` import its tools; `tools` is function -> (file, sync function)."""
    module = sys.modules[package]
    places = {function: (file, function) for function, (file, _) in tools.items()}
    places.update({sync: (file, sync) for file, sync in tools.values()})
    module.__dict__["__tools__"] = places
    module.__dict__["__functions__"] = list(tools)
    module.__class__ = _Server
    for function, (file, _) in tools.items():
        if file != function:  # two functions differ in case only, so their files have other names
            sys.modules[f"{package}.{function}"] = import_module(f"{package}.{file}")


def extension(module: str) -> Any:
    """A module's `__getattr__` that looks for missing names in `mcpparse.<server>.<tool>`, if somebody wrote that."""
    name_there = "mcpparse" + module.removeprefix("mcptools") if module.startswith("mcptools.") else ""

    def find(name: str) -> Any:
        if name_there and not name.startswith("_"):
            try:
                there = import_module(name_there)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{name_there}.".startswith(f"{error.name}."):
                    raise
            else:
                if hasattr(there, name):
                    return getattr(there, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
