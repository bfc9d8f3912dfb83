"""Executions for tests of the call pipeline, in few words."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from moonpool.pipeline.call_state import CallContext
from moonpool.pipeline.execution_grant import CallIdentity, ExecutionGrant

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.manifest import Manifest

_OF_IDENTITY: Final = {one.name for one in fields(CallIdentity)}
_OF_GRANT: Final = {one.name for one in fields(ExecutionGrant)}


def call_context(manifest: Callable[[], Manifest], **members: Any) -> CallContext:
    """An execution with these members of its identity, its grant and itself."""
    identity = {
        "run_id": "run", "trace_id": "trace", "principal": "local", "session_id": "session", "code_digest": "sha256:c",
        **{name: members.pop(name) for name in _OF_IDENTITY & members.keys()},
    }  # fmt: skip
    grant = {name: members.pop(name) for name in _OF_GRANT & members.keys()}
    return CallContext(identity=CallIdentity(**identity), grant=ExecutionGrant(**grant), manifest=manifest, **members)


def changed(context: CallContext, **members: Any) -> CallContext:
    """`context` with these members, which goes on with its counters and holds the same places."""
    identity = {name: members.pop(name) for name in _OF_IDENTITY & members.keys()}
    grant = {name: members.pop(name) for name in _OF_GRANT & members.keys()}
    made = replace(
        context, identity=replace(context.identity, **identity), grant=replace(context.grant, **grant), **members
    )
    if "limits" not in grant:
        for name in ("slots", "turns"):
            object.__setattr__(made, name, getattr(context, name))
    return made
