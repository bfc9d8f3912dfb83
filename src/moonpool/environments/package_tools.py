"""What a build sandbox for packages needs on disk: the resolver, where sandbox uids can read it, and certificates."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.environments.base import EnvironmentBuildError
from moonpool.environments.build import uv_program
from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds

if TYPE_CHECKING:
    from typing import Final

UV: Final = "uv"
CERTIFICATES: Final = "certificates.pem"
_CERTIFICATES_BYTES_MAX: Final = 4 * 1024**2


def package_tools(root: Path, certificates: Path | None) -> Path:
    """The folder with `UV` and, where there are `certificates`, `CERTIFICATES`. Copies 40 MB once. Blocks.

    Raises EnvironmentBuildError.
    """
    program = Path(uv_program()).resolve()
    state = program.stat()
    pem = b"" if certificates is None else _certificates(certificates)
    made_of = [str(program), state.st_size, state.st_mtime_ns, hashlib.sha256(pem).hexdigest()]
    final = root / "package-tools" / hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    if final.is_dir():
        return final
    with held_lock(root, "package-tools"):
        remove_stale_builds(final.parent)
        if not final.is_dir():
            with building_folder(final) as folder:
                shutil.copyfile(program, folder / UV)
                (folder / UV).chmod(0o755)
                if pem:
                    (folder / CERTIFICATES).write_bytes(pem)
                os.sync()  # the contents must reach the disk before the rename
    return final


def _certificates(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_CERTIFICATES_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise EnvironmentBuildError(f"the certificates for the package index, {path}: {reason}") from None
    if len(content) > _CERTIFICATES_BYTES_MAX:
        raise EnvironmentBuildError(f"the certificates for the package index, {path}, are too large")
    return content
