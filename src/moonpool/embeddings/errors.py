"""Why there are no vectors."""

from __future__ import annotations

from moonpool.core.errors import Fault, MoonpoolError


class DenseUnavailableError(MoonpoolError):
    """Vectors are asked for and cannot be had. Search goes on with words alone; the text says what to do."""

    code = "dense_unavailable"
    fault = Fault.HOST
