"""What can be asked over HTTP. Of each `Operation` its route is made, and its place in the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from moonpool.server.http.sessions import lines
from moonpool.server.http.sessions.bodies import error_answer
from moonpool.server.http.sessions.messages import ErrorAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from moonpool.core.scopes import Scope
    from moonpool.server.http.callers import HttpCaller

    Endpoint: TypeAlias = Callable[[Request, HttpCaller], Awaitable[Response]]

_Path: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2048)]
"""In an address each character may take twelve, and a head is bounded (`serving.HEAD_BYTES_MAX`)."""


PROFILES: Final[frozenset[str | None]] = frozenset({None, "code"})
"""SECURITY: a credential that is good for one profile of MCP only runs code here if it may there."""
SANDBOX_PROFILES: Final[frozenset[str | None]] = PROFILES | {"baponi"}
"""Of executions by one call."""
FILE_PROFILES: Final[frozenset[str | None]] = SANDBOX_PROFILES | {"codegen"}
"""Of files of threads and volumes."""


class _Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands behind the question mark."""


class NoQuery(_Query, frozen=True):
    """Nothing."""


class EventsQuery(_Query, frozen=True):
    """Lines behind this one."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0


class FilesQuery(_Query, frozen=True):
    path: _Path = "."
    recursive: bool = False


class RemoveQuery(_Query, frozen=True):
    path: _Path
    recursive: bool = False


class ReadQuery(_Query, frozen=True):
    path: _Path


class WriteQuery(_Query, frozen=True):
    """`mode`: rights of the file, as a decimal number."""

    path: _Path
    replace: bool = False
    mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o644


class UnpackQuery(_Query, frozen=True):
    path: _Path = "."
    form: Literal["tar", "zip"] = "tar"
    replace: bool = False


class ToolsQuery(_Query, frozen=True):
    server: Annotated[str, Meta(max_length=200)] | None = None


class DefinitionQuery(_Query, frozen=True):
    path: Annotated[str, Meta(max_length=1000)]
    form: Literal["stub", "typescript", "json"] = "stub"


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """How an operation tells its errors."""

    model: type[Any]
    answer: Callable[..., Response]  # as `bodies.error_answer`


SESSIONS_FORM: Final = ErrorForm(ErrorAnswer, error_answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path below `/v1`."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    name: str  # operationId
    summary: str
    endpoint: Endpoint | None  # None: it needs no credential, is described here and answered elsewhere
    scope: Scope | None = "execute"  # that the caller needs
    body: type[Any] | Literal["bytes"] | None = None
    query: type[Any] = NoQuery
    answer: type[Any] | Literal["bytes", "lines"] | None = None
    status: int = 200
    line: Any = lines.Line  # of an answer in lines; with `accepted`, which a client chooses beside `answer`
    accepted: type[Any] | None = None  # what 202 answers, where a client asks for that
    profiles: frozenset[str | None] | None = PROFILES
    """SECURITY: a credential that is good for one profile of MCP only does here what that profile does. None: nothing
    here runs code, and any may.
    """
    form: ErrorForm = SESSIONS_FORM
