"""Says what there is when code imports a server, a tool, an action or a skill that is not there.

Last among the import system's finders, so it is asked for what nothing else has found. Models misspell names; Python's
own words for that (`No module named 'servers.tim'`) leave them nothing to go on with.
"""

import sys

ROOTS = ("servers", "mcptools", "actions", "skills")
_NAMES_MAX = 40


class WhatThereIs:
    """A finder that finds nothing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for a name below one of ROOTS, or for a whole root that is empty."""
        del path, target
        package, dot, leaf = name.rpartition(".")
        if name.partition(".")[0] not in ROOTS or leaf.startswith("_"):
            return
        if sys._getframe(2).f_code.co_name != "_find_and_load_unlocked":  # pyright: ignore[reportPrivateUsage]
            return  # `importlib.util.find_spec`, which asks whether there is one, and is answered with None
        if not dot:
            if name in ("actions", "skills"):
                raise ModuleNotFoundError(f"no {name} are kept here, so there is no module {name!r}", name=name)
            return
        module = sys.modules.get(package)
        there: list[str] | None = getattr(module, "__functions__", None) or getattr(module, "__all__", None)
        if type(there) is list:
            # named after the package: for a name of its own the import system would leave our words out
            raise ModuleNotFoundError(_sentence(package, leaf, [str(one) for one in there]), name=package)


def install() -> None:
    """Be asked, last."""
    sys.meta_path.append(WhatThereIs)  # pyright: ignore[reportArgumentType]  it finds nothing


def _sentence(package: str, name: str, there: list[str]) -> str:
    from difflib import get_close_matches

    problem = f"{package!r} has no {name[:100]!r}"
    if not there:
        return f"{problem}; it is empty: " + ("no server is configured" if "." not in package else "there are no tools")
    near = get_close_matches(name[:100], there, n=3, cutoff=0.5)
    more = f" and {len(there) - _NAMES_MAX} more" if len(there) > _NAMES_MAX else ""
    hint = f"near names: {', '.join(near)}; " if near else ""
    return f"{problem}; {hint}it has {', '.join(there[:_NAMES_MAX])}{more}"
