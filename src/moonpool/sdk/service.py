"""Sessions at a service, for applications with an event loop. The same without one: `moonpool.sync.connect`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON
from moonpool.sdk.approve_functions import in_loop
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.remote.address import service_address
from moonpool.sdk.remote.local_copies import copied_here
from moonpool.sdk.session import TYPES, Session
from moonpool.sdk.session_handle import SessionHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from moonpool.sdk.approve_functions import EventTypes
    from moonpool.sdk.events import ApprovalRequest
    from moonpool.sdk.options import AllowedDomains, FileContent, Limits
    from moonpool.sdk.remote.address import ServiceAddress
    from moonpool.sdk.results import Result
    from moonpool.sdk.runtime_thread import RuntimeThread
    from moonpool.sdk.session import Answer
    from moonpool.sdk.session_host import SessionHost

RemoteApprove: TypeAlias = "Callable[[ApprovalRequest], Answer | Awaitable[Answer]] | None"
"""Who answers: a function of the application. None: whoever reads the stream."""


class Service:
    """A service that runs sessions. Made by `moonpool.connect`."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._sessions: list[Session] = []

    def __repr__(self) -> str:
        return f"<moonpool service {self._address.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the sessions that were opened by `session` and are open still."""
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(one.close() for one in sessions))

    def session(
        self,
        *,
        environment: str | None = None,
        approve: RemoteApprove = None,
        files: Mapping[str, FileContent] | None = None,
        limits: Limits | None = None,
        checkpoints: bool = False,
        network: AllowedDomains = None,
        packages: str | Sequence[str] | None = None,
    ) -> Session:
        """A session at the service: `async with service.session() as s: ...`.

        The parameters are those of `moonpool.session`; servers and policy are those of the key's organisation. What is
        not given is as the service says, and nothing goes beyond what its operator allows. `approve` answers with the
        credential `approver` of `moonpool.connect`.

        Raises InputError; what opening it meets is raised by its first use.
        """
        options = remote_options(
            approve=approve,
            environment=environment,
            files=files,
            limits=limits,
            checkpoints=checkpoints,
            network=network,
            packages=packages,
        )
        check_approve(self._address, options)
        handle = SessionHandle(
            options, TYPES, lambda: partial(in_loop, asyncio.get_running_loop()), begin=beginning(self._address)
        )
        self._sessions = [one for one in self._sessions if not one.is_closed]
        self._sessions.append(session := Session(options, handle=handle))
        return session

    async def run(  # noqa: PLR0913  those of a session, and of a run
        self,
        code: str,
        *,
        timeout: float | None = None,
        language: str = PYTHON,
        environment: str | None = None,
        approve: RemoteApprove = None,
        files: Mapping[str, FileContent] | None = None,
        limits: Limits | None = None,
        network: AllowedDomains = None,
    ) -> Result:
        """Run one piece of code in a sandbox of its own at the service.

        The parameters are those of `session` and `Session.run`. Files that the code made are copied to this machine,
        into a new folder for temporary files; `path` of each says where.
        """
        async with self.session(
            environment=environment, approve=approve, files=files, limits=limits, network=network
        ) as opened:
            result = await opened.run(code, timeout=timeout, language=language)
            return await copied_here(result, opened.files.get)


def connect(url: str, key: str | None = None, *, approver: str | None = None, allow_http: bool = False) -> Service:
    """Sessions at a service: `async with moonpool.connect("https://...", key) as service: ...`.

    `key` is a key of an organisation with the scopes execute and files, or a token; None: this machine's service has no
    authentication (`moonpool serve --no-auth`). `approver` is another credential,
    with the scope approve, with which the application answers approvals as its users' hand: nobody approves the calls
    of their own code. Addresses with `http://` are of this machine only, unless `allow_http`.

    Connects with the first use of a session. Raises InputError.
    """
    return Service(service_address(url, key, approver, allow_http=allow_http))


def remote_options(**given: object) -> SessionOptions:
    """Options of a session at a service. Raises InputError."""
    approve = given["approve"]
    if not (approve is None or callable(approve)):
        raise InputError(f"approve must be a function or None for a session at a service, not {approve!r}")
    options = SessionOptions(**given)  # pyright: ignore[reportArgumentType]  checked next
    options.check()
    return options


def check_approve(address: ServiceAddress, options: SessionOptions) -> None:
    """Raise InputError for a function whose yes would never count."""
    if callable(options.approve) and address.approver is None:
        raise InputError(
            "approve= answers with a credential of its own, because nobody approves the calls of their own code: "
            "moonpool.connect(url, key, approver=ANOTHER_KEY)"
        )


def beginning(address: ServiceAddress) -> Callable[[RuntimeThread, SessionOptions, EventTypes], SessionHost]:
    """Makes sessions at this service."""
    from moonpool.sdk.remote.session import RemoteSession  # noqa: PLC0415  imports an HTTP client; most need none

    return lambda thread, options, types: RemoteSession(thread, address, options, types)
