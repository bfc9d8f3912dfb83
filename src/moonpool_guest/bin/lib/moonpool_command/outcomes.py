"""How the command can end other than well."""

from __future__ import annotations


class UsageError(Exception):
    """The command line is wrong: exit code 2."""


class FailedError(Exception):
    """The tool failed: exit code 1. The message is the error as JSON."""


class ImpossibleError(Exception):
    """Not possible here: exit code 3."""


class InstallError(Exception):
    """Nothing was installed: exit code 1. The message says why."""
