"""The four tools as a model sees them: ipybox's names, parameters and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.manifest import ToolDefinition
from moonpool.features.approvals.model import REGISTRATION
from moonpool.server.mcp.tool_set import Offer

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

REGISTER: Final = REGISTRATION
EXECUTE: Final = "execute_ipython_cell"
INSTALL: Final = "install_package"
RESET: Final = "reset"
TIMEOUT_S: Final = 120.0
OUTPUT_CHARS: Final = 5000


def _tool(name: str, description: str, required: list[str], **properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {**properties}, "additionalProperties": False}
    if required:
        schema["required"] = [*required]
    return {"name": name, "description": description, "inputSchema": schema}


_REGISTERS: Final = (
    "Connects to an MCP server and generates a Python API for its tools under mcptools/{server_name}/. The user is "
    "asked first. Returns the names of its tool modules, which execute_ipython_cell can import at once: "
    "`from mcptools.{server_name} import {tool}; {tool}.run({tool}.Params(...))`. Registering a name again "
    "replaces it; import the new modules again."
)
_KNOWS: Final = (
    "Returns the names of the tool modules of an MCP server that this organisation has, which execute_ipython_cell can "
    "import: `from mcptools.{server_name} import {tool}; {tool}.run({tool}.Params(...))`. No server is connected here: "
    "administrators of the organisation add servers, and server_params is not used."
)
_WORKSPACE: Final = "the user's workspace, where it reads and writes files"


def _tools(registers: str, folder: str, pictures: str, rest: str) -> tuple[JsonObject, ...]:
    """`registers` describes the tool; `folder` is the current directory; where `pictures` and much output go."""
    return (
        _tool(
            REGISTER,
            registers,
            ["server_name", "server_params"],
            server_name={
                "type": "string",
                "description": "Application-defined MCP server name (valid Python identifier, lower case)",
            },
            server_params={
                "type": "object",
                "description": 'Server config: {"command", "args", "env"} for stdio or {"url", "headers"} for HTTP. '
                "${VAR} is replaced by the value of a variable that the user has set; never write a secret itself",
            },
        ),
        _tool(
            EXECUTE,
            "Executes Python code in a stateful IPython kernel, in a sandbox. Variables, imports and definitions "
            "persist; executions run one after the other; use `await` directly. Executed code can use the generated "
            "Python tool API of registered MCP servers (mcptools), saved code (gentools) and output parsers "
            f"(mcpparse). Its current directory is {folder}. Returns what it prints, the value of the last "
            f"expression, and {pictures}.",
            ["code"],
            code={"type": "string", "description": "Python code to execute"},
            timeout={
                "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}],
                "default": 120,
                "description": "Maximum execution time in seconds; waiting for approvals does not count",
            },
            max_output_chars={
                "type": "integer",
                "minimum": 100,
                "default": OUTPUT_CHARS,
                "description": f"Output character limit; of longer output the beginning and the end are returned{rest}",
            },
        ),
        _tool(
            INSTALL,
            "Installs a Python package for executed code, if the user allowed that. Supports version specifiers.",
            ["package_name"],
            package_name={"type": "string", "description": "Package spec, such as `requests` or `numpy>=1.20.0`"},
        ),
        _tool(
            RESET,
            "Creates a new kernel, clearing all variables and imports. Installed packages and generated mcptools/ "
            "persist.",
            [],
        ),
    )


_TOOLS: Final = _tools(
    _REGISTERS,
    _WORKSPACE,
    "the paths of generated images",
    ", and the path of a file on the user's machine that holds all of it",
)
_HOSTED_TOOLS: Final = _tools(_KNOWS, "/workspace, which ends with the kernel", "generated images", "")
HOW: Final = (
    "Moonpool runs Python that you write in an IPython kernel in a sandbox. Register MCP servers with "
    f"{REGISTER}, read their modules under mcptools/, then write one {EXECUTE} that calls several tools, filters and "
    "combines, and prints a short result."
)
OFFER: Final = Offer(tools=_TOOLS, how=HOW, prompt="", runs=EXECUTE)
HOSTED_OFFER: Final = Offer(tools=_HOSTED_TOOLS, how=HOW, prompt="", runs=EXECUTE)
"""Over HTTP: a client has no folder there, and starts no server."""
DEFINITIONS: Final = {
    str(raw["name"]): ToolDefinition(server_id="moonpool", name=str(raw["name"]), raw=raw) for raw in _TOOLS
}
