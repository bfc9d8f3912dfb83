"""Languages that code may be written in, and the names people give them. Pure.

A request names a language, or its file's name does; Python where neither does. `typescript` is Node's: types are
stripped, not checked. Node before 22.13 needs tools for that, so whoever runs code says whether it is TypeScript.
"""

from __future__ import annotations

import difflib
from typing import Final, Literal, TypeAlias, get_args

from moonpool.core.errors import InputError

Language: TypeAlias = Literal["python", "node", "bash"]
"""As the channel, the journal and the envelope name them (J-011)."""
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
PYTHON: Final = "python"
TYPESCRIPT: Final = "typescript"

_OTHER_NAMES: Final = {
    "py": PYTHON, "python3": PYTHON,
    "js": "node", "javascript": "node", "nodejs": "node", "mjs": "node", "ts": "node", TYPESCRIPT: "node",
    "sh": "bash", "shell": "bash",
}  # fmt: skip
_SUFFIXES: Final = {
    ".mjs": "node", ".cjs": "node", ".js": "node", ".ts": "node", ".mts": "node", ".cts": "node",
    ".sh": "bash", ".bash": "bash",
}  # fmt: skip


def language_of(name: str | None) -> str:
    """The language called `name`; Python for None. Raises InputError that names the languages."""
    if name is None:
        return PYTHON
    wanted = name.strip().lower()
    if wanted in LANGUAGES:
        return wanted
    if wanted in _OTHER_NAMES:
        return _OTHER_NAMES[wanted]
    near = difflib.get_close_matches(wanted[:40], [*LANGUAGES, *_OTHER_NAMES], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InputError(f"there is no language {name[:40]!r}{hint}; write one of {', '.join((*LANGUAGES, 'typescript'))}")


def language_of_file(name: str) -> str:
    """The language that a file's name tells; Python when it tells none."""
    return next((language for suffix, language in _SUFFIXES.items() if name.lower().endswith(suffix)), PYTHON)


def is_typescript(language: str | None, file_name: str = "") -> bool:
    """Whether a language's name, or a file's, says that the code is TypeScript."""
    said = (language or "").strip().lower() in {TYPESCRIPT, "ts"}
    return said or (language_of_file(file_name) == "node" and file_name.lower().endswith("ts"))
