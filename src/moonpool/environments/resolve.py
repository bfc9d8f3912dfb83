"""Resolves an environment: from a name to files that sandboxes of a uid can read.

The order is fixed: the folder is made safe first, then the interpreter readable, then the packages are built. If
everything exists, this costs a few file look-ups.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from anyio import to_thread

from moonpool.environments.access import first_obstacle
from moonpool.environments.base import Environment
from moonpool.environments.build import PREPARE_MODULE, BuildSpec, built_packages, environment_digest, packages_folder
from moonpool.environments.interpreter import SYSTEM_PREFIX, Interpreter, copied_interpreter, describe_interpreter
from moonpool.environments.publishing import ensure_root
from moonpool.environments.recipes import recipe_named

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.environments.base import ProgressSink
    from moonpool.environments.recipes import EnvironmentRecipe


async def resolve_environment(name: str, *, root: Path, uid: int, progress: ProgressSink | None = None) -> Environment:
    """Return environment `name` for sandboxes of `uid`, building what is missing below `root`."""
    recipe = recipe_named(name)
    interpreter, digest = await to_thread.run_sync(_look_up, recipe, root, uid)
    spec = BuildSpec(recipe=recipe, digest=digest, interpreter=interpreter, root=root, uid=uid, progress=progress)
    folder = await built_packages(spec) if recipe.lock else None
    own = [path for path in (interpreter.prefix, folder) if path and not path.is_relative_to(SYSTEM_PREFIX)]
    return Environment(
        name=name,
        digest=digest,
        python=interpreter.python,
        stdlib_paths=interpreter.stdlib_paths,
        site_paths=(folder / "site",) if folder else (),
        prepare=(PREPARE_MODULE,) if recipe.prepare else (),
        preload=recipe.preload,
        binds=(SYSTEM_PREFIX, *own),
        libs=interpreter.libs,
        variables=MappingProxyType(dict(recipe.variables)),
    )


async def is_built(name: str, *, root: Path, uid: int) -> bool:
    """Whether environment `name` is complete, so that `resolve_environment` would build nothing."""
    recipe = recipe_named(name)
    if recipe.lock is None or not await to_thread.run_sync((root / name).is_dir):
        return recipe.lock is None
    _, digest = await to_thread.run_sync(_look_up, recipe, root, uid)
    return await to_thread.run_sync(packages_folder(root, recipe, digest).is_dir)


def _look_up(recipe: EnvironmentRecipe, root: Path, uid: int) -> tuple[Interpreter, str]:
    ensure_root(root, uid)
    interpreter = _readable_interpreter(root, uid)
    return interpreter, environment_digest(recipe, interpreter)


def _readable_interpreter(root: Path, uid: int) -> Interpreter:
    original = describe_interpreter()
    needed = [original.python, original.stdlib / "os.py", *original.libs]
    if original.is_of_the_system and all(first_obstacle(path, uid) is None for path in needed):
        return original
    return copied_interpreter(original, root)
