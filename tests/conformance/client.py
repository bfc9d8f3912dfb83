"""The client that the official suite examines: our broker over one URL, put together as the product does it.

The server's tools come through the tool registry, every call passes the pipeline with its stages, and what a server
asks back is answered by a handler that confirms the form as it is, as a person would. What to call is what the
scenario's context says, else every tool that is listed, all at the same time. Where a login is needed, `Browser` plays
the person.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2

from call_contexts import call_context
from moonpool.bootstrap.tools import assemble_tools
from moonpool.configuration.servers import parse_config
from moonpool.core.calls import ToolCallSpec
from moonpool.pipeline.approval import AutoApprover, LiveApprovals
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Policy, configuration_layer, server_rules
from moonpool.redaction.redactor import Redactor
from moonpool.settings import Settings
from moonpool.store.fake import MemoryJournal
from moonpool.upstreams.server_requests import ServerRequestHandlers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest
    from moonpool.pipeline.call_state import CallContext

SERVER = "examined"
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
_CANNOT_CALL = frozenset({"json-schema-ref-no-deref"})
"""Scenarios whose server lists tools that it cannot run."""
_MACHINES = "auth/client-credentials-"
_PLAIN: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the suite tells a client through its environment."""

    url: str
    scenario: str = ""
    context: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> Task:
        given = json.loads(text)
        return cls(url=given["url"], scenario=given["scenario"], context=json.loads(given["context"] or "{}"))


async def carry_out(task: Task, data: Path) -> list[str]:
    """Do what the scenario wants of a client and return what went wrong."""
    entry: JsonObject = {
        "url": task.url,
        "oauth": _login(task),
        "moonpool": {"timeout_s": 20, "connect_timeout_s": 20},
    }
    config = parse_config(json.dumps({"mcpServers": {SERVER: entry}}).encode(), source="suite", environ={})
    settings = Settings(data_dir=data)
    handlers = ServerRequestHandlers(elicit=_confirm)
    async with assemble_tools(
        settings, config=config, environ=dict(os.environ), handlers=handlers, agent=Browser()
    ) as tool_registry:
        snapshot = await tool_registry.snapshot()
        if snapshot.problems:
            return [f"{server}: {problem}" for server, problem in snapshot.problems.items()]
        pipeline = CallPipeline(tool_registry, journal=MemoryJournal(), redactor=Redactor.of_values({}))
        session = _session(snapshot.manifest)
        calls = _wanted(task, snapshot.manifest)
        specs = [
            ToolCallSpec(run_id="run", call_id=number, server_id=SERVER, tool=name, arguments=arguments)
            for number, (name, arguments) in enumerate(calls)
        ]
        outcomes = await asyncio.gather(*(pipeline.run(spec, session) for spec in specs))
        if task.scenario in _CANNOT_CALL:
            return []
        return [_problem(spec, outcome) for spec, outcome in zip(specs, outcomes, strict=True) if not outcome.ok]


class Browser:
    """A person who agrees to everything, at once."""

    redirect_uri = "http://localhost:8765/callback"  # nobody listens there: the answer is read from the redirect

    @asynccontextmanager
    async def open(self, redirect_uri: str) -> AsyncGenerator[Browser]:
        assert redirect_uri == ""
        yield self

    async def fetch(self, address: str) -> str:
        async with httpx2.AsyncClient() as client:
            response = await client.get(address)
        return response.headers["location"]


def _login(task: Task) -> JsonObject:
    """The client that the scenario registered beforehand; a machine where it wants one."""
    told = {"client_id": "client_id", "client_secret": "client_secret", "private_key_pem": "private_key"}
    given: JsonObject = {ours: task.context[name] for name, ours in told.items() if task.context.get(name)}
    if task.scenario.startswith(_MACHINES):
        return {"grant": "client_credentials", **given}
    return {"client_metadata_url": CLIENT_DOCUMENT, **given}


async def _confirm(server_id: str, question: JsonObject) -> JsonObject:
    del server_id, question
    return {"action": "accept", "content": {}}


def _wanted(task: Task, manifest: Manifest) -> list[tuple[str, JsonObject]]:
    named: Any = task.context.get("toolCalls")
    if named:
        # As a generated model packs them: what is None is left out, because a null that the schema forbids is refused.
        return [
            (call["name"], {key: value for key, value in call["arguments"].items() if value is not None})
            for call in named
        ]
    tools = [tool for server in manifest.servers for tool in server.tools]
    schemas: dict[str, Any] = {tool.name: tool.raw["inputSchema"] for tool in tools}
    for echo, schema in schemas.items():
        if "schema" in schema.get("required", ()):  # wants the other tool's schema back, untouched
            (other,) = schemas.keys() - {echo}
            return [(echo, {"schema": schemas[other]})]
    return [(name, _arguments(schema)) for name, schema in schemas.items()]


def _arguments(schema: Any) -> JsonObject:
    """Something plain for every required parameter."""
    properties = schema.get("properties", {})
    return {name: _PLAIN[properties[name].get("type", "string")] for name in schema.get("required", ())}


def _session(manifest: Manifest) -> CallContext:
    return call_context(
        lambda: manifest,
        approvals=LiveApprovals(AutoApprover()),
        policy=Policy(layers=(configuration_layer(server_rules(SERVER, [("*", "allow")])),)),
    )


def _problem(spec: ToolCallSpec, outcome: ToolCallOutcome) -> str:
    assert outcome.error is not None
    return f"{spec.tool}: {outcome.error.type}: {outcome.error.message}"
