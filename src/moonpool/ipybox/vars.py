"""`${VAR}` in server parameters, as ipybox's own code fills it in. A missing one is reported here, not raised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")


@dataclass
class ReplaceResult:
    """Parameters with values, and which variables they named."""

    replaced: dict[str, Any]
    replaced_variables: set[str]
    missing_variables: set[str]

    @property
    def total_variables(self) -> int:
        """How many variables were named."""
        return len(self.replaced_variables) + len(self.missing_variables)


def replace_variables(template: dict[str, Any], variables: Mapping[str, str]) -> ReplaceResult:
    """Fill in `${VAR}` in all strings of `template`. What has no value stays as it is."""
    named: set[str] = set()

    def filled(value: Any) -> Any:
        match value:
            case str():
                named.update(_PLACEHOLDER.findall(value))
                return _PLACEHOLDER.sub(lambda found: variables.get(found[1], found[0]), value)
            case dict():
                return {key: filled(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
            case list():
                return [filled(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
            case _:
                return value

    replaced = filled(template)
    return ReplaceResult(replaced, named & variables.keys(), named - variables.keys())
