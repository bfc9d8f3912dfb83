"""The version of Moonpool, as journal, envelope and `moonpool --version` have it."""

from typing import Final

VERSION: Final = "0.1.0"
