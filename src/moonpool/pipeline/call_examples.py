"""Examples of calls for refusals: what a call that would fit looks like.

SECURITY: reading a schema and naming a whole manifest cost time on the loop. Names are cached per manifest; the caller
bounds how often examples are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.wrappers.examples import example_call
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.tree import read_shape

if TYPE_CHECKING:
    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.wrappers.names import TreeNames

_MANIFESTS_MAX: Final = 4
_SCHEMA_CHARS_MAX: Final = 64 * 1024


class CallExamples:
    """Writes examples; used on one event loop."""

    def __init__(self) -> None:
        self._names: dict[str, TreeNames] = {}

    def after(self, problem: str, tool: ToolDefinition, manifest: Manifest, *, language: str) -> str:
        """`problem` and an example; `problem` alone for a definition too large to be read here."""
        if len(str(tool.raw)) > _SCHEMA_CHARS_MAX:
            return problem
        names = self._names.get(manifest.digest)
        if names is None:
            if len(self._names) >= _MANIFESTS_MAX:
                self._names.clear()
            names = self._names[manifest.digest] = name_manifest(manifest)
        server, own = names.find(tool.server_id, tool.name)
        example = example_call(tool, read_shape(tool), server, own, language=language)
        return f"{problem}{'' if problem.endswith(('.', '?')) else '.'} {example}"
