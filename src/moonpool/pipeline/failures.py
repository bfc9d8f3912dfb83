"""What an upstream's failure means to the code that made the call. Pure.

`retryable` needs both a cause that may pass and a call that may be repeated (X-21): a tool that changes something is
not called again blindly after a lost answer, unless the request was certainly not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.configuration.server_config import ServerLeftOutError
from moonpool.core.calls import CallError, CallErrorType, RpcError
from moonpool.upstreams.base import (
    UpstreamClosedAtOnceError,
    UpstreamConnectTimeoutError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamRateLimitedError,
    UpstreamRestingError,
    UpstreamUnreachableError,
)

if TYPE_CHECKING:
    from moonpool.core.errors import MoonpoolError

PASSING_CAUSES: Final = frozenset({CallErrorType.TIMEOUT, CallErrorType.RATE_LIMIT, CallErrorType.TRANSIENT_NETWORK})
"""The only error types that may be worth a second try (H-064)."""

_NOT_CARRIED_OUT: Final = (
    UpstreamClosedAtOnceError,
    UpstreamConnectTimeoutError,
    UpstreamRateLimitedError,
    UpstreamRestingError,
    UpstreamUnreachableError,
)


def not_listed(name: str, cause: MoonpoolError) -> CallError:
    """The typed error for a call of an unknown tool whose server's tools could not be listed.

    The call was not sent, so it may be made again once the cause has passed.
    """
    if isinstance(cause, ServerLeftOutError):
        return CallError(type=CallErrorType.UPSTREAM_ERROR, message=f"{name} is not available: {cause.for_guest}")
    problem = f"{name} is not available now, because its server's tools could not be listed"
    if not isinstance(cause, UpstreamError):
        return CallError(type=CallErrorType.UPSTREAM_ERROR, message=f"{problem}; the operator sees why")
    kind = cause.call_error_type
    return CallError(type=kind, message=f"{problem}: {cause.for_guest}", retryable=kind in PASSING_CAUSES)


def upstream_failure(exc: UpstreamError, *, repeatable: bool) -> CallError:
    """The typed error for `exc`; `repeatable` says whether doing the call twice does no harm."""
    kind = exc.call_error_type
    if isinstance(exc, UpstreamProtocolError) and exc.rpc_code is not None:
        return CallError(type=kind, message=exc.for_guest, rpc=RpcError(code=exc.rpc_code, data=exc.rpc_data))
    if kind not in PASSING_CAUSES:
        return CallError(type=kind, message=exc.for_guest)
    if repeatable or isinstance(exc, _NOT_CARRIED_OUT):
        return CallError(type=kind, message=exc.for_guest, retryable=True)
    message = f"{exc.for_guest}; the call may have been carried out, so look before you repeat it"
    return CallError(type=kind, message=message)
