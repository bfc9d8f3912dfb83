"""What a command's exit code says. `docs/reference/commands.md` tells users the same."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
"""The answer is no: the code failed, the chain is broken, a probe got through."""
EXIT_UNUSABLE: Final = 2
"""The request, the configuration or this machine cannot be used: one sentence on stderr, and nothing was run."""
EXIT_INTERRUPTED: Final = 130
"""A signal came before the code started, or during a transfer: nothing was run, or nothing of it kept."""
