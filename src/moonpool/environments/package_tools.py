"""The resolver of packages where sandbox uids can read it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from moonpool.environments.build import uv_program
from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds

UV: Final = "uv"


def package_tools(root: Path) -> Path:
    """The folder with `UV`. Copies 40 MB once. Blocks. Raises EnvironmentBuildError."""
    program = Path(uv_program()).resolve()
    state = program.stat()
    made_of = [str(program), state.st_size, state.st_mtime_ns]
    final = root / "package-tools" / hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    if final.is_dir():
        return final
    with held_lock(root, "package-tools"):
        remove_stale_builds(final.parent)
        if not final.is_dir():
            with building_folder(final) as folder:
                shutil.copyfile(program, folder / UV)
                (folder / UV).chmod(0o755)
                os.sync()  # the contents must reach the disk before the rename
    return final
