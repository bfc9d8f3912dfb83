"""What to do about mistakes that models make in code: a sentence behind the error, made of what is really there.

Languages say "name 'servers' is not defined" or "No module named 'pandas'", which leaves a model nothing to go on with.
The sentence names what this environment has, and shows a call of a real tool in the syntax of the code's language.

SECURITY: an error's words are the code's or a library's. They only choose a sentence, and are read up to
`_READ_CHARS_MAX`, the code up to `_CODE_CHARS_MAX`: no pattern may take quadratic time, because an event loop waits.
Names and schemas are servers' own texts: examples quote and bound them (`wrappers.examples`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import CallErrorType
from moonpool.core.languages import PYTHON
from moonpool.core.phrases import clip, near_names
from moonpool.environments.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.core.envelope import ExecutionError
    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.wrappers.names import TreeNames

_OF_CALLS: Final = frozenset(map(str, CallErrorType))
_READ_CHARS_MAX: Final = 4000
_CODE_CHARS_MAX: Final = 20_000
_TOOLS_NAMED_SOON_MAX: Final = 500
_SERVERS_MAX: Final = 10
_SCHEMA_CHARS_MAX: Final = 64 * 1024

_COROUTINE: Final = re.compile(r"'coroutine'|\btype coroutine\b")
_RESULT_OBJECT: Final = re.compile(r"\b(?:not|type) '?(?:ToolCallResult|Members)\b")
_OBJECT_AS_TEXT: Final = re.compile(r"\[object Object\]\"? is not valid JSON|Unexpected token o in JSON at position 1")
_RESULT_IS_DATA: Final = (
    "a tool's result is not a JSON string: its `data` is parsed already, its `text` is the plain text"
)
_NO_PROMISE: Final = re.compile(r"is not iterable|is not a function|Cannot read properties of undefined|\bPromise\b")
_PROMISE: Final = "a call is a Promise until it is awaited: write `await` before it"
_NODE_IMPORT: Final = re.compile(r"\bimport \* as ([A-Za-z_$][\w$]{0,99}) from [\"']\./servers/")
_NODE_CALL: Final = re.compile(
    r"(?:=|\bof)[ \t]{0,9}([A-Za-z_$][\w$]{0,99})\.[A-Za-z_$][\w$]{0,199}\([ \t]{0,9}[{)](?![^\n]{0,500}\.then\b)"
)
_NETWORK: Final = re.compile(
    r"Address family not supported|\[Errno (?:97|101)\]|[Nn]ame resolution|Name or service not known"
    r"|No address associated with hostname|Network is unreachable|EAFNOSUPPORT|EAI_AGAIN|ENOTFOUND|ENETUNREACH"
    r"|[Cc]ould not resolve|unable to resolve host|Failed to establish a new connection"
)
_CONNECTION: Final = re.compile(
    r"[Pp]roxy|PROXY|[Tt]unnel|CONNECT|[Cc]onnection|TLS|SSL|ssl|[Hh]andshake|fetch failed|HTTP Error|HTTP/1"
    r"|ECONN|EPROTO|unable to access|\b(?:40[03]|50[0-4])\b"
)
_BY_PROXY: Final = (
    "the network of this session is HTTP and HTTPS through the proxy that the variable HTTPS_PROXY names; names are "
    "resolved and addresses reached by the host alone"
)
_REFUSED: Final = re.compile(r"[Cc]onnection refused|ECONNREFUSED|\[Errno 111\]")
_LOOPBACK: Final = re.compile(r"(?<![\w.-])(?:127\.\d{1,3}\.\d{1,3}\.\d{1,3}|localhost|\[::1\])(?![\w.-])")
_NO_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_NO_PACKAGE: Final = re.compile(r"Cannot find (?:package|module) '([^'\n]{1,200})'")
_INSTALLER: Final = re.compile(
    r"externally-managed-environment|No matching distribution found|^npm err|code ENOTCACHED"
    r"|No such file or directory: '(?:pip3?|uv|npm)'|Command failed: (?:pip3?|npm|npx|yarn) "
    r"|^Command '.{0,60}\b(?:pip3?|uv|npm)\b.{0,20}\b(?:install|add|i|ci)\b",
    re.MULTILINE | re.IGNORECASE,
)
_NO_INSTALLER: Final = re.compile(r"\b(?:pip3?|uv|conda): (?:command )?not found|No module named '?pip\b")
_NOT_DEFINED: Final = re.compile(r"(?:name '(\w+)'|\b([\w$]{1,200})) is not defined")
_NO_COMMAND: Final = re.compile(r"([\w.$-]{1,200}): (?:command )?not found")
_NO_TOOL: Final = re.compile(r"^server package '[\w.]+' has no tool '(\w+)'")
_NO_FUNCTION: Final = re.compile(r"\b[\w$]{1,200}\.([\w$]{1,200}) is not a function")
_PYTHON_CALLS: Final = re.compile(
    r"^[ \t]*(?:import|from)\s+(?:servers|mcptools)\b|\bservers\.\w+\.\w+\(", re.MULTILINE
)
_SERVER_IN_CODE: Final = re.compile(r"\b(?:servers|mcptools)[./](\w+)(?:[./](\w+))?")
_NO_FILE: Final = re.compile(r"No such file or directory|\bENOENT\b")
_FENCE: Final = re.compile(r"^[ \t]*```", re.MULTILINE)
_NOTEBOOK: Final = re.compile(r"^[ \t]*[!%]", re.MULTILINE)
_WRITTEN_AS: Final = {
    PYTHON: re.compile(
        r"^import [a-z_][\w.]*(?: as \w+)?$|^from [a-z_][\w.]* import [\w*(][^\n\"']*$"
        r"|^[ \t]*(?:async )?def \w+\([^\n]*:"
        r"|^[ \t]*(?:for \w[^\n{};]{0,200} in|if|while|with|elif) [^\n{};]{0,200}:$"
        r"|^[ \t]*(?:else|try):$|^[ \t]*print\(",
        re.MULTILINE,
    ),
    "node": re.compile(
        r"^[ \t]*(?:const|let|var)[ \t]+[\w{\[]|^[ \t]*import\b[^\n]{0,500}\bfrom[ \t]+[\"']|\bconsole\.log\("
        r"|=>[ \t]*[{(]|^[ \t]*(?:async )?function \w+\(|\brequire\([\"']",
        re.MULTILINE,
    ),
    "bash": re.compile(
        r"^#![^\n]*\b(?:ba|z|da)?sh\b|^[ \t]*(?:echo|cat|ls|grep|curl|wget|mkdir|sudo|export|set) +[^\s=(,.]"
        r"|;[ \t]*(?:do|then)[ \t]*$|^[ \t]*(?:done|fi|esac)[ \t]*$|^[ \t]*moonpool (?:call|tools|search)\b",
        re.MULTILINE,
    ),
}
_NOT_READABLE: Final = {
    PYTHON: re.compile(r""),
    "node": re.compile(r"Unexpected|Invalid|[Mm]issing|Unterminated|Cannot use import|print is not defined"),
    "bash": re.compile(r"syntax error|unexpected EOF|: (?:command )?not found|import: unable to"),
}
"""What the error says where the code is not this language's. `import` may be a program that is there."""

_LANGUAGE_NAMES: Final = {PYTHON: "Python", "node": "JavaScript", "bash": "Bash"}

_NODE_MODULES: Final = "Node has its own modules here (node:fs, node:path…), and nothing can be installed"
_NETWORK_CLIENTS: Final = frozenset({"requests", "httpx", "aiohttp", "urllib3", "websockets"})
_OUR_TOOLS: Final = frozenset({"search_tools", "get_tool_definition", "execute_code"})
_FINDING: Final = {
    PYTHON: "write `from client.catalog import search, definition`",
    "node": "search before you write it",
    "bash": "write `moonpool search WORDS` or `moonpool tools SERVER.TOOL`",
}


@dataclass(frozen=True, kw_only=True)
class ErrorContext:
    """What an execution ran with, and what it left."""

    language: str
    environment: str  # its name
    manifest: Manifest
    code: str = field(repr=False)
    stderr: str = field(repr=False)
    may_install: bool = False
    ipython: bool = False  # the code is read as IPython reads it, which has `%pip`
    refusals: Sequence[str] | None = None  # why its connections were refused; None: it has no network
    has_folders: bool = False  # of the host, in which it works

    @property
    def is_large(self) -> bool:
        """Whether naming all tools takes so long that an event loop should not wait for it."""
        return sum(len(server.tools) for server in self.manifest.servers) > _TOOLS_NAMED_SOON_MAX


def with_hint(error: ExecutionError, context: ErrorContext) -> ExecutionError:
    """`error` with what to do about it, if that is known. Blocks for a moment where the context `is_large`."""
    if error.type in _OF_CALLS:  # the broker has said what to do, or a server speaks of its own network and modules
        return error
    hint = next((text for row in _ROWS if (text := row(error, context))), "")
    return replace(error, message=f"{error.message.rstrip('.')}; {hint}") if hint else error


def remark_on(context: ErrorContext) -> str:
    """A sentence about code that ended well and handed nothing over. A member of a Promise is undefined, silently."""
    return _PROMISE if context.language == "node" and _has_unawaited(context) else ""


def _has_unawaited(context: ErrorContext) -> bool:
    """Whether Node code looks for the result of a call where it does not await one, written as the examples are."""
    code = context.code[:_CODE_CHARS_MAX]
    named = {found[1] for found in _NODE_IMPORT.finditer(code)}
    return any(found[1] in named for found in _NODE_CALL.finditer(code))


# --- one function for each mistake: the sentence, or nothing


def _not_awaited(error: ExecutionError, context: ErrorContext) -> str:
    if context.language == "node" and error.type == "TypeError" and _found(_NO_PROMISE, error):
        return _PROMISE if _has_unawaited(context) else ""
    if context.language != PYTHON or error.type not in {"AttributeError", "TypeError"}:
        return ""
    return "a call is a coroutine until it is awaited: write `await` before it" if _found(_COROUTINE, error) else ""


def _result_as_text(error: ExecutionError, context: ErrorContext) -> str:
    """JSON is read from, or written of, what is no text but a tool's result."""
    if error.type == "TypeError" and context.language == PYTHON and _found(_RESULT_OBJECT, error):
        return _RESULT_IS_DATA
    return _RESULT_IS_DATA if context.language == "node" and _found(_OBJECT_AS_TEXT, error) else ""


def _refused(error: ExecutionError, context: ErrorContext) -> str:
    """The sentence of the proxy, where the client has told of a failed connection without it."""
    said = _said(error, context)
    if context.refusals is None:
        return ""
    if not context.refusals:
        return _BY_PROXY if _NETWORK.search(said) else ""
    sentence = context.refusals[-1]
    return sentence if _CONNECTION.search(said) and sentence not in said else ""


def _own_loopback(error: ExecutionError, context: ErrorContext) -> str:
    """A server of the machine outside is looked for on the loopback of the sandbox."""
    if not _REFUSED.search(_said(error, context)) or not _LOOPBACK.search(context.code[:_CODE_CHARS_MAX]):
        return ""
    return "127.0.0.1 and localhost are the sandbox's own: what listens on the machine outside is not reached there"


def _no_network(error: ExecutionError, context: ErrorContext) -> str:
    said = _said(error, context)
    if context.refusals is not None:
        return ""
    missing = _NO_MODULE.search(said)
    if not _NETWORK.search(said) and not (missing and missing[1].partition(".")[0] in _NETWORK_CLIENTS):
        return ""
    ids = [server.server_id for server in context.manifest.servers]
    more = f" and {len(ids) - _SERVERS_MAX} more" if len(ids) > _SERVERS_MAX else ""
    offered = f"; servers: {clip(', '.join(ids[:_SERVERS_MAX]), 300)}{more}" if ids else "; no server is configured"
    return f"a sandbox has no network: code reaches everything outside by calling tools{offered}"


def _no_module(error: ExecutionError, context: ErrorContext) -> str:
    said = _said(error, context)
    if _INSTALLER.search(said) or (context.language == PYTHON and _NO_INSTALLER.search(said)):
        return _NODE_MODULES if context.language == "node" else _packages("", context)
    if context.language == "node" and (missing := _NO_PACKAGE.search(said)):
        return _how_to_call(context) if "servers" in missing[1] else _NODE_MODULES
    if error.type != "ModuleNotFoundError" or not (missing := _NO_MODULE.search(said)):
        return ""
    name = missing[1].partition(".")[0]
    return _how_to_call(context, name) if _server_called(name, context) else _packages(name, context)


def _packages(name: str, context: ErrorContext) -> str:
    """What can be imported, and how to get more."""
    environment = context.environment
    packages, others = RECIPES[environment].packages if environment in RECIPES else (), RECIPES["data"].packages
    has = f"the standard library and {', '.join(packages)}" if packages else "the standard library alone"
    text = f"the environment `{environment}` has {has}, and {_installing(context)}"
    if packages or not others or (context.may_install and name not in others):
        return text
    where = "has it" if name in others else f"has {', '.join(others)}"
    return f'{text}; `data` {where}: the operator starts Moonpool with `--env data` (`environment="data"` in Python)'


def _installing(context: ErrorContext) -> str:
    if not context.may_install:
        return "nothing can be installed"
    return "`%pip install` gets more" if context.ipython else "more is installed by the application, not by code"


def _undefined(error: ExecutionError, context: ErrorContext) -> str:
    pattern = _NO_COMMAND if context.language == "bash" else _NOT_DEFINED
    if (undefined := pattern.search(_said(error, context))) is None:
        return ""
    word = next(group for group in undefined.groups() if group)
    if word in _OUR_TOOLS:
        return f"{word} is no function of the code: {_FINDING[context.language]}"
    first, _, last = word.rpartition(".")
    is_called = re.search(rf"(?<![\w.$]){re.escape(word)}\s*\(", context.code[:_CODE_CHARS_MAX]) is not None
    if "servers" in first or word in {"servers", "mcptools"} or _server_called(first or word, context):
        return _how_to_call(context, last, first)
    if _tool_called(last, context, near=is_called):
        return _how_to_call(context, last)
    return "programs are those of the host's /usr, and nothing can be installed" if context.language == "bash" else ""


def _no_such_function(error: ExecutionError, context: ErrorContext) -> str:
    pattern = {"node": _NO_FUNCTION, PYTHON: _NO_TOOL}.get(context.language)
    missing = pattern and pattern.search(_said(error, context))
    return _how_to_call(context, missing[1]) if missing and _tool_called(missing[1], context, near=True) else ""


def _other_syntax(error: ExecutionError, context: ErrorContext) -> str:
    """Code that is written as another language's would be."""
    if error.type not in {"SyntaxError", "IndentationError", "ExitStatus", "CommandFailed", "ReferenceError"}:
        return ""
    code = context.code[:_CODE_CHARS_MAX]
    own, others = _WRITTEN_AS[context.language], [one for one in _WRITTEN_AS if one != context.language]
    beside = _PYTHON_CALLS.sub("", code)  # which may be a mistake about calls only
    written = next((one for one in others if _WRITTEN_AS[one].search(beside)), "")
    if written and not own.search(code) and _NOT_READABLE[context.language].search(_said(error, context)):
        named, other = _LANGUAGE_NAMES[context.language], _LANGUAGE_NAMES[written]
        return f'this was read as {named}; {other} needs `language`: "{written}"'
    return _how_to_call(context) if context.language != PYTHON and _PYTHON_CALLS.search(code) else ""


def _not_code(error: ExecutionError, context: ErrorContext) -> str:
    """What stands around code in a chat or a notebook, and what only a function may do."""
    if error.type != "SyntaxError" or context.language == "bash":
        return ""
    code = context.code[:_CODE_CHARS_MAX]
    if _FENCE.search(code):
        return "give the code alone, without the lines of ``` around it"
    if context.language == PYTHON and _NOTEBOOK.search(code):
        return f"lines that begin with ! or % are a notebook's; this is plain Python, and {_installing(context)}"
    if "outside function" in error.message or "Illegal return" in error.message:
        return "to hand a value over, set `result` or end with an expression"
    return ""


def _no_file(error: ExecutionError, context: ErrorContext) -> str:
    if _NO_FILE.search(_said(error, context)) is None:
        return ""
    if context.has_folders:
        return "files of the machine outside are not in a sandbox, but for the folders that are attached to it"
    return (
        "files of the machine outside are not in a sandbox: the code's own are in /workspace, others come by tools, or "
        "the operator puts them there (`--put`)"
    )


_ROWS: Final[Sequence[Callable[[ExecutionError, ErrorContext], str]]] = (
    _not_awaited,
    _result_as_text,
    _own_loopback,
    _refused,
    _no_network,
    _no_module,
    _not_code,
    _other_syntax,
    _undefined,
    _no_such_function,
    _no_file,
)


# --- calls


def _how_to_call(context: ErrorContext, *wanted: str) -> str:
    """How a tool is called: one that `wanted` or the code names, or whose server they name, else a simple one."""
    from moonpool.wrappers.examples import example_call, simplest  # noqa: PLC0415  with all that writes wrappers
    from moonpool.wrappers.reading import read_shape  # noqa: PLC0415

    meant = _SERVER_IN_CODE.search(context.code[:_CODE_CHARS_MAX])
    named = (
        found
        for words in (wanted, tuple(reversed(meant.groups())) if meant else ())
        for found in (
            *(_tool_called(word, context, near=False) for word in words if word),
            *(_server_called(word, context) for word in words if word),
            *(_tool_called(word, context, near=True) for word in words if word),
        )
    )
    tool = next((one for one in named if one), None) or simplest(context.manifest.tools())
    if tool is None:
        return "no server is configured, so there are no tools to call"
    if len(str(tool.raw)) > _SCHEMA_CHARS_MAX:
        return ""
    server, names = _names(context).find(tool.server_id, tool.name)
    example = example_call(tool, read_shape(tool), server, names, language=context.language).removeprefix("Example: ")
    first = {
        PYTHON: f"import servers.{server.module}; ",
        "node": f'import * as {server.module} from "./servers/{server.module}/index.js"; ',
    }.get(context.language, "")
    return f"tools are called so: {first}{example}"


def _tool_called(word: str, context: ErrorContext, *, near: bool) -> ToolDefinition | None:
    """The tool of any server with this name in any spelling, or the nearest."""
    by_name = {tool.name: tool for tool in reversed(list(context.manifest.tools()))}
    found = near_names([word], list(by_name))
    if not found or not (near or _letters(found[0]) == _letters(word)):
        return None
    return by_name[found[0]]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _server_called(word: str, context: ErrorContext) -> ToolDefinition | None:
    """A simple tool of the server whose module or id this is, with or without the package's name."""
    from moonpool.wrappers.examples import simplest  # noqa: PLC0415

    name = word.removeprefix("servers.")
    for server in _names(context).servers.values():
        if name in {server.module, server.server_id}:
            return simplest(tool for tool in context.manifest.tools() if tool.server_id == server.server_id)
    return None


def _names(context: ErrorContext) -> TreeNames:
    from moonpool.wrappers.names import name_manifest  # noqa: PLC0415

    return name_manifest(context.manifest)


# --- reading


def _said(error: ExecutionError, context: ErrorContext) -> str:
    """The error's words; of a program, whose status says nothing, the end of stderr, too, but for errors of calls."""
    of_program = context.language == "bash" or error.type == "CalledProcessError"
    lines = context.stderr[-_READ_CHARS_MAX:].splitlines() if of_program else []
    return "\n".join([error.message[:_READ_CHARS_MAX], *(line for line in lines if not line.startswith('{"type":'))])


def _found(pattern: re.Pattern[str], error: ExecutionError) -> bool:
    return pattern.search(error.message[:_READ_CHARS_MAX]) is not None
