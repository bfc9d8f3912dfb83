"""The exit codes of commands, documented in `docs/reference/commands.md`."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
"""A negative result: the code failed, the chain is broken, a probe got through."""
EXIT_UNUSABLE: Final = 2
"""The request, the configuration or this machine cannot be used: one sentence is on stderr and nothing was run."""
EXIT_INTERRUPTED: Final = 130
"""A signal arrived before the code started or during a transfer: nothing was run, or the transfer has no effect."""
