"""Why there are no vectors."""

from __future__ import annotations

from moonpool.core.errors import Fault, MoonpoolError


class DenseUnavailableError(MoonpoolError):
    """Vectors are enabled but unavailable. Search continues with words alone; the message says what to do."""

    code = "dense_unavailable"
    fault = Fault.HOST
