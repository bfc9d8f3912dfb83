"""The server that the official suite looks for behind `moonpool serve --profile direct`: its fixture names, on stdio.

    python upstream.py 2026-07-28|legacy

What each name does is described by the suite's scenarios. Of both eras, so that a client of either meets a server of
either: `legacy` knows the handshake only and asks by requests, else questions are in results.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

LEGACY = sys.argv[1:] == ["legacy"]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
).decode()
KEY = b"a key that only this server has"
STEP_S = 0.05

Ctx = Any
NOTHING = {"type": "object", "properties": {}}
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK_FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
COLOR_FORM = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONTEXT_FORM = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
DEFAULTS_FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}


def _titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


ENUMS_FORM = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": _titled(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": _titled(("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice"))
            },
        },
    },
    "required": [],
}


def text(said: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], **more)


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(question: str, tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=question))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(given: str | None) -> str:
    state, _, mac = (given or "").rpartition(".")
    if not hmac.compare_digest(mac, sealed(state).rpartition(".")[2]):
        raise MCPError(types.INVALID_PARAMS, "requestState fails its integrity check")
    return state


def answers(ctx: Ctx) -> dict[str, Any]:
    given = (ctx.params or {}).get("inputResponses")
    return given if isinstance(given, dict) else {}


def required(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests or None, request_state=state)


async def asked(ctx: Ctx, message: str, schema: dict[str, Any]) -> types.ElicitResult:
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(form(message, schema), types.ElicitResult, metadata=related)


class World:
    """What changes: a tool and a prompt that come and go."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.more_tools = self.more_prompts = False

    async def change_tools(self, ctx: Ctx) -> None:
        self.more_tools = not self.more_tools
        await self.bus.publish(ToolsListChanged())
        if LEGACY:
            await ctx.session.send_tool_list_changed()

    async def change_prompts(self, ctx: Ctx) -> None:
        self.more_prompts = not self.more_prompts
        await self.bus.publish(PromptsListChanged())
        if LEGACY:
            await ctx.session.send_prompt_list_changed()


WORLD = World()


async def simple_text(ctx: Ctx, given: Any) -> Any:
    return text("This is a simple text response for testing.")


async def image(ctx: Ctx, given: Any) -> Any:
    return types.CallToolResult(content=[types.ImageContent(data=PNG, mime_type="image/png")])


async def audio(ctx: Ctx, given: Any) -> Any:
    return types.CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])


def _embedded(uri: str, mime: str, held: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime, text=held))


async def embedded(ctx: Ctx, given: Any) -> Any:
    held = _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return types.CallToolResult(content=[held])


async def mixed(ctx: Ctx, given: Any) -> Any:
    held = _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    blocks = [
        types.TextContent(text="Multiple content types test:"),
        types.ImageContent(data=PNG, mime_type="image/png"),
        held,
    ]
    return types.CallToolResult(content=blocks)


async def logs(ctx: Ctx, given: Any) -> Any:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)
        await anyio.sleep(STEP_S)
    return text("Logged three messages.")


async def fails(ctx: Ctx, given: Any) -> Any:
    return text("This tool intentionally returns an error for testing", is_error=True)


async def progresses(ctx: Ctx, given: Any) -> Any:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(STEP_S)
    return text("Done in three steps.")


async def samples(ctx: Ctx, given: Any) -> Any:
    request = sampling(given.get("prompt", ""), 100)
    if not LEGACY:
        if (answer := answers(ctx).get("sample")) is None:
            return required(sample=request)
        return text(f"LLM response: {answer['content']['text']}")
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(request, types.CreateMessageResult, metadata=related)
    return text(f"LLM response: {result.content.text}")


def elicits(message: str | None, schema: dict[str, Any], said: str) -> Callable[[Ctx, Any], Awaitable[Any]]:
    """A tool that asks a person; `message` None: what is asked is its argument."""

    async def call(ctx: Ctx, given: Any) -> Any:
        question = given.get("message", "") if message is None else message
        if LEGACY:
            result = await asked(ctx, question, schema)
            action, content = result.action, result.content
        else:
            if (answer := answers(ctx).get("form")) is None:
                return required(form=form(question, schema))
            action, content = answer["action"], answer.get("content")
        return text(said.format(action=action, content=json.dumps(content)))

    return call


async def needs_sampling(ctx: Ctx, given: Any) -> Any:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY if not LEGACY else types.INVALID_PARAMS,
            "this tool needs sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return text("The client can sample.")


async def changes_tools(ctx: Ctx, given: Any) -> Any:
    await WORLD.change_tools(ctx)
    return text("The list of tools changed.")


async def changes_prompts(ctx: Ctx, given: Any) -> Any:
    await WORLD.change_prompts(ctx)
    return text("The list of prompts changed.")


async def reconnects(ctx: Ctx, given: Any) -> Any:
    await anyio.sleep(STEP_S)
    return text("Reconnection is for the transport.")


async def schema_tool(ctx: Ctx, given: Any) -> Any:
    return text("The schema is the point.")


# --- questions in results (2026-07-28)


async def ir_elicitation(ctx: Ctx, given: Any) -> Any:
    if "user_name" not in answers(ctx):
        return required(user_name=form("What is your name?", NAME_FORM))
    return text(f"Hello, {answers(ctx)['user_name'].get('content', {}).get('name')}!")


async def ir_sampling(ctx: Ctx, given: Any) -> Any:
    if "capital_question" not in answers(ctx):
        return required(capital_question=sampling("What is the capital of France?", 100))
    return text(answers(ctx)["capital_question"]["content"]["text"])


async def ir_roots(ctx: Ctx, given: Any) -> Any:
    if "client_roots" not in answers(ctx):
        return required(client_roots=types.ListRootsRequest())
    return text(f"Roots: {json.dumps(answers(ctx)['client_roots']['roots'])}")


async def ir_state(ctx: Ctx, given: Any) -> Any:
    if "confirm" not in answers(ctx):
        return required(sealed("one"), confirm=form("Please confirm", OK_FORM))
    opened(ctx.params.get("requestState"))
    return text("state-ok")


async def ir_multiple(ctx: Ctx, given: Any) -> Any:
    if not {"user_name", "greeting", "client_roots"} <= answers(ctx).keys():
        return required(
            sealed("several"),
            user_name=form("What is your name?", NAME_FORM),
            greeting=sampling("Generate a greeting", 50),
            client_roots=types.ListRootsRequest(),
        )
    opened(ctx.params.get("requestState"))
    return text("All three were answered.")


async def ir_rounds(ctx: Ctx, given: Any) -> Any:
    if not answers(ctx):
        return required(sealed("round-1"), step1=form("Step 1: What is your name?", NAME_FORM))
    if opened(ctx.params.get("requestState")) == "round-1":
        return required(sealed("round-2"), step2=form("Step 2: What is your favorite color?", COLOR_FORM))
    return text("Both steps were answered.")


async def ir_capabilities(ctx: Ctx, given: Any) -> Any:
    able = ctx.session.client_capabilities
    wanted: dict[str, Any] = {}
    if able is not None and able.sampling is not None:
        wanted["sample"] = sampling("What can you do?", 50)
    if able is not None and able.elicitation is not None:
        wanted["form"] = form("What is your name?", NAME_FORM)
    if not wanted or wanted.keys() <= answers(ctx).keys():
        return text("Asked what the client can answer.")
    return required(**wanted)


TOOLS: dict[str, tuple[Callable[[Ctx, Any], Awaitable[Any]], dict[str, Any]]] = {
    "test_simple_text": (simple_text, NOTHING),
    "test_image_content": (image, NOTHING),
    "test_audio_content": (audio, NOTHING),
    "test_embedded_resource": (embedded, NOTHING),
    "test_multiple_content_types": (mixed, NOTHING),
    "test_tool_with_logging": (logs, NOTHING),
    "test_logging_tool": (logs, NOTHING),
    "test_error_handling": (fails, NOTHING),
    "test_tool_with_progress": (progresses, NOTHING),
    "test_sampling": (samples, {**NOTHING, "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}),
    "test_elicitation": (
        elicits(
            None,
            {
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            },
            "User response: action={action}, content={content}",
        ),
        {**NOTHING, "properties": {"message": {"type": "string"}}, "required": ["message"]},
    ),
    "test_elicitation_sep1034_defaults": (
        elicits("Fill in what you like", DEFAULTS_FORM, "Elicitation completed: action={action}, content={content}"),
        NOTHING,
    ),
    "test_elicitation_sep1330_enums": (
        elicits("Choose", ENUMS_FORM, "Elicitation completed: action={action}, content={content}"),
        NOTHING,
    ),
    "test_streaming_elicitation": (elicits("Anything?", NAME_FORM, "{action}"), NOTHING),
    "test_reconnection": (reconnects, NOTHING),
    "json_schema_2020_12_tool": (schema_tool, SCHEMA_2020),
    "test_x_mcp_header": (simple_text, MIRRORED),
    "test_missing_capability": (needs_sampling, NOTHING),
    "test_trigger_tool_change": (changes_tools, NOTHING),
    "test_trigger_prompt_change": (changes_prompts, NOTHING),
}
MODERN_TOOLS: dict[str, tuple[Callable[[Ctx, Any], Awaitable[Any]], dict[str, Any]]] = {
    "test_input_required_result_elicitation": (ir_elicitation, NOTHING),
    "test_input_required_result_sampling": (ir_sampling, NOTHING),
    "test_input_required_result_list_roots": (ir_roots, NOTHING),
    "test_input_required_result_request_state": (ir_state, NOTHING),
    "test_input_required_result_multiple_inputs": (ir_multiple, NOTHING),
    "test_input_required_result_multi_round": (ir_rounds, NOTHING),
    "test_input_required_result_tampered_state": (ir_state, NOTHING),
    "test_input_required_result_capabilities": (ir_capabilities, NOTHING),
}
if not LEGACY:
    TOOLS |= MODERN_TOOLS


async def list_tools(ctx: Ctx, params: Any) -> types.ListToolsResult:
    more = {"test_dynamic_tool": (simple_text, NOTHING)} if WORLD.more_tools else {}
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=f"Conformance fixture {name}", input_schema=schema)
            for name, (_, schema) in {**TOOLS, **more}.items()
        ]
    )


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> Any:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await TOOLS[params.name][0](ctx, params.arguments or {})


def _arguments(*names: str) -> list[types.PromptArgument]:
    return [types.PromptArgument(name=name, description=f"The {name}", required=True) for name in names]


PROMPTS: dict[str, list[types.PromptArgument]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": _arguments("arg1", "arg2"),
    "test_prompt_with_embedded_resource": _arguments("resourceUri"),
    "test_prompt_with_image": [],
}
if not LEGACY:
    PROMPTS["test_input_required_result_prompt"] = []


async def list_prompts(ctx: Ctx, params: Any) -> types.ListPromptsResult:
    more: dict[str, list[types.PromptArgument]] = {"test_dynamic_prompt": []} if WORLD.more_prompts else {}
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(name=name, description=f"Conformance fixture {name}", arguments=arguments)
            for name, arguments in {**PROMPTS, **more}.items()
        ]
    )


async def get_prompt(ctx: Ctx, params: types.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    blocks: list[Any]
    match params.name:
        case "test_simple_prompt":
            blocks = [types.TextContent(text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            blocks = [types.TextContent(text=said)]
        case "test_prompt_with_embedded_resource":
            held = _embedded(given.get("resourceUri", ""), "text/plain", "Embedded resource content for testing.")
            blocks = [held, types.TextContent(text="Please process the embedded resource above.")]
        case "test_prompt_with_image":
            blocks = [
                types.ImageContent(data=PNG, mime_type="image/png"),
                types.TextContent(text="Please analyze the image above."),
            ]
        case "test_input_required_result_prompt":
            if "user_context" not in answers(ctx):
                return required(user_context=form("What context should the prompt use?", CONTEXT_FORM))
            blocks = [types.TextContent(text=f"In this context: {answers(ctx)['user_context'].get('content')}")]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PNG),
    "test://watched-resource": ("text/plain", "Watched resource content"),
}


async def list_resources(ctx: Ctx, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.removeprefix("test://"), mime_type=mime)
            for uri, (mime, _) in RESOURCES.items()
        ]
    )


async def list_templates(ctx: Ctx, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Ctx, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents: Any
    if uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.removeprefix("test://template/").removesuffix("/data")
        held = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=held)
    elif uri == "test://static-binary":
        contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri in RESOURCES:
        contents = types.TextResourceContents(uri=uri, mime_type=RESOURCES[uri][0], text=RESOURCES[uri][1])
    else:
        raise MCPError(-32002 if LEGACY else types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[contents])


async def subscribe(ctx: Ctx, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def complete(ctx: Ctx, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party", "test") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(ctx: Ctx, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def main() -> None:
    server: Server[Any] = Server(
        "conformance-fixture",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=subscribe,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(WORLD.bus),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    options = server.create_initialization_options(
        NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    )
    async with stdio_server() as (reader, writer):
        if LEGACY:
            await serve_loop(server, reader, writer, lifespan_state={}, init_options=options)
        else:
            await server.run(reader, writer, options)


if __name__ == "__main__":
    anyio.run(main)
