"""Errors of a service as applications meet them: the classes that sessions here raise, where there is one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.core.errors import ConfigError, Fault, InputError, MoonpoolError

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


@lru_cache
def _kinds() -> Mapping[str, type[MoonpoolError]]:
    """By code. Most connections meet no error, and need none of these modules."""
    from moonpool.catalog.errors import CatalogQueryError, NotInCatalogError  # noqa: PLC0415
    from moonpool.engine.branches import CheckpointError  # noqa: PLC0415
    from moonpool.engine.files.errors import FileTransferError  # noqa: PLC0415
    from moonpool.engine.packages.model import PackageError  # noqa: PLC0415
    from moonpool.features.approvals.model import ApprovalAnswerError  # noqa: PLC0415
    from moonpool.network.rules import NetworkRuleError  # noqa: PLC0415
    from moonpool.server.http.sessions.errors import SelfApprovalError  # noqa: PLC0415

    special = [kind for root in (FileTransferError, PackageError) for kind in _with_subclasses(root)]
    single = (
        ApprovalAnswerError, CatalogQueryError, CheckpointError, ConfigError, InputError, NetworkRuleError,
        NotInCatalogError, SelfApprovalError,
    )  # fmt: skip
    return {kind.code: kind for kind in (*special, *single)}


def error_of(body: ErrorBody) -> MoonpoolError:
    """The error that the service tells."""
    message = body.message[:_MESSAGE_CHARS_MAX]
    kind = _kinds().get(body.code, ServiceUnavailableError if body.retryable else ServiceError)
    error = kind.__new__(kind, message)  # their own parameters differ
    Exception.__init__(error, message)
    from moonpool.engine.packages.model import PackageError  # noqa: PLC0415  see `_kinds`

    if isinstance(error, PackageError):
        error.for_guest = message
    if isinstance(error, ServiceError):
        error.code = body.code[:_CODE_CHARS_MAX]
    return error


def unreachable(why: str) -> ServiceUnavailableError:
    """No answer."""
    return ServiceUnavailableError(f"the service cannot be reached: {why}; check the address, and whether it runs")
