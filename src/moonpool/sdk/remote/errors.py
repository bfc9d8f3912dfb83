"""Errors of a service as applications meet them: the classes that sessions here raise, where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.catalog.errors import CatalogQueryError, NotInCatalogError
from moonpool.core.errors import ConfigError, Fault, InputError, MoonpoolError
from moonpool.engine.branches import CheckpointError
from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.packages.model import PackageError
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.network.rules import NetworkRuleError
from moonpool.server.http.sessions.errors import SelfApprovalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moonpool.server.http.sessions.messages import ErrorBody

_E = TypeVar("_E", bound=MoonpoolError)
_CODE_CHARS_MAX: Final = 100
_MESSAGE_CHARS_MAX: Final = 10_000


class ServiceError(MoonpoolError):
    """A service refused a request, or failed at it. `code` and message are what the service says."""

    code = "service_refused"
    fault = Fault.CALLER


class ServiceUnavailableError(ServiceError):
    """A service cannot be reached, or not now; the same may succeed later. Where it answers, `code` is its own."""

    code = "service_unreachable"
    fault = Fault.HOST
    retryable = True


class ServiceAnswerError(ServiceError):
    """What answers at the address is no service, or a newer one: its answer cannot be read."""

    code = "service_answer_invalid"
    fault = Fault.HOST


def _with_subclasses(kind: type[_E]) -> Iterator[type[_E]]:
    yield kind
    for special in kind.__subclasses__():
        yield from _with_subclasses(special)


_KINDS: Final[Mapping[str, type[MoonpoolError]]] = {
    kind.code: kind
    for root in (FileTransferError, PackageError)
    for kind in _with_subclasses(root)
} | {
    kind.code: kind
    for kind in (
        ApprovalAnswerError,
        CatalogQueryError,
        CheckpointError,
        ConfigError,
        InputError,
        NetworkRuleError,
        NotInCatalogError,
        SelfApprovalError,
    )
}  # fmt: skip


def error_of(body: ErrorBody) -> MoonpoolError:
    """The error that the service tells."""
    message = body.message[:_MESSAGE_CHARS_MAX]
    kind = _KINDS.get(body.code, ServiceUnavailableError if body.retryable else ServiceError)
    error = kind.__new__(kind, message)  # their own parameters differ
    Exception.__init__(error, message)
    if isinstance(error, PackageError):
        error.for_guest = message
    if isinstance(error, ServiceError):
        error.code = body.code[:_CODE_CHARS_MAX]
    return error


def unreachable(why: str) -> ServiceUnavailableError:
    """No answer."""
    return ServiceUnavailableError(f"the service cannot be reached: {why}; check the address, and whether it runs")
