"""Recipes: the list of environments and their contents.

A recipe is data. `base` is the interpreter and its standard library; `data` adds the packages locked in `data.txt`.
Preload order affects only speed: the zygote imports the list once and every sandbox inherits it by fork.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecipe:
    """What to build and how to start it. `lock` and `prepare` name files of this package."""

    name: str
    lock: str | None = None  # hashed requirements; None means standard library only
    prepare: str | None = None  # source of the module every kernel imports first
    preload: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    not_preloaded: tuple[str, ...] = ()  # notable packages that only the code that needs them imports

    @property
    def packages(self) -> tuple[str, ...]:
        """The notable packages that code can import besides the standard library."""
        preloaded = (name for name in self.preload if "." not in name and name not in sys.stdlib_module_names)
        return (*preloaded, *self.not_preloaded)


# One thread per library: a zygote must be single-threaded when it forks, or the first big matrix product hangs.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

RECIPES: Final[Mapping[str, EnvironmentRecipe]] = MappingProxyType(
    {
        "base": EnvironmentRecipe(
            name="base",
            preload=("asyncio", "collections", "dataclasses", "datetime", "json", "math", "random", "re", "typing"),
        ),
        "data": EnvironmentRecipe(
            name="data",
            lock="data.txt",
            prepare="data_prepare.py",
            preload=(
                *("asyncio", "dataclasses", "datetime", "json", "math", "random", "re", "typing"),
                *("numpy", "pandas", "matplotlib", "matplotlib.pyplot", "pydantic"),
                *("IPython", "IPython.core.interactiveshell", "matplotlib_inline.backend_inline"),
            ),
            not_preloaded=("requests",),
            variables=MappingProxyType(
                {
                    **_ONE_THREAD,
                    "MPLBACKEND": "Agg",
                    "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 - inside the sandbox, its own tmpfs
                    "IPYTHONDIR": "/tmp/ipython",  # noqa: S108
                }
            ),
        ),
    }
)


def check_environment(name: str) -> None:
    """Raise InputError for a name that no environment has."""
    if name not in RECIPES:
        raise InputError(f"there is no environment {name[:80]!r}; there is {', '.join(sorted(RECIPES))}")


def recipe_named(name: str) -> EnvironmentRecipe:
    """Return the recipe, or raise an error that lists all."""
    if name not in RECIPES:
        raise ConfigError(f"unknown environment {name!r}; known: {', '.join(sorted(RECIPES))}")
    return RECIPES[name]
