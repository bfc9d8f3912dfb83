"""Configurations of MCP clients with comments: read in a time that follows their size, whatever stands in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.cli.client_configs import read_servers
from moonpool.core.errors import ConfigError
from tables import every_row

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(30)
@every_row(
    "text",
    [
        pytest.param("/*" * 300_000, id="comments that do not end"),
        pytest.param('"' + '\\"' * 300_000, id="a text that does not end"),
        pytest.param('"' + '\\"' * 300_000 + "\\", id="nor its last escape"),
    ],
)
def test_a_text_without_an_end_is_refused_at_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_servers(path, {})
