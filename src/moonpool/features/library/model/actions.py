"""Saved actions: Python code with one typed `run`, read for its interface. Pure; the code is parsed, never executed.

`read_action` makes a catalog entry of a source: what `run` takes, as JSON Schema, and a stub that says how it is
called. The stub holds names, annotations, literal defaults and docstrings, and the classes that annotations refer to;
the body of no function (I-103). `trim` makes a module of code that ran once, which ends in statements that only that
run needed.

SECURITY: the code may be a model's. What annotations and defaults may hold is listed in
`moonpool.features.library.model.action_types`; everything else is written as `Any` or `...`, so that no text of the
implementation is shown. What CPython's parser takes for a text is bounded by no count: code that nobody has read before
is read in a process with limits (`moonpool.code_reading.reader`). Code that was read there and kept costs the same
again, so it is read here.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Final

from moonpool.code_reading.first_look import refuse_endless_names, refuse_other_encoding
from moonpool.core.errors import InputError
from moonpool.features.library.model.action_types import Types, is_literal, is_shown, printable
from moonpool.features.library.model.bounds import ACTION_FILE, DESCRIPTION_CHARS_MAX
from moonpool.features.library.model.entries import LibraryEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.library.model.entries import LibrarySource

NODES_MAX: Final = 20_000
DEFINITION_CHARS_MAX: Final = 32 * 1024
DOC_CHARS_MAX: Final = 4_000
_HOW: Final = 'write\n\nasync def run(city: str) -> dict[str, float]:\n    """Weather of a city."""'
_PARSE_ERRORS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInterface:
    """What is shown of an action's code."""

    description: str
    parameters: JsonObject
    definition: str


def read_action(
    source: LibrarySource, read: Callable[[bytes, str, str], ActionInterface] | None = None
) -> LibraryEntry:
    """What is shown of an action. Raises InputError, which says what to change.

    `read` is `read_interface`, or what calls it in another process.
    """
    text = decode(source.files[ACTION_FILE], of=f"action {source.name!r}").encode()
    shown = (read or read_interface)(text, source.name, source.description)
    path = source.name.replace(".", "/")
    return LibraryEntry(
        kind="action",
        name=source.name,
        description=shown.description,
        parameters=shown.parameters,
        definition=shown.definition,
        files={f"{path}.py": text, f"{path}.pyi": shown.definition.encode()},
        digest=source.digest,
    )


def read_interface(code: bytes, name: str, description: str) -> ActionInterface:
    """The interface of action `name`; an empty `description` is made of its docstring. Raises InputError."""
    module = parse(decode(code, of=f"action {name!r}"))
    check_module(module)
    run = _run_of(module)
    doc = ast.get_docstring(run) or ast.get_docstring(module) or ""
    if not doc.strip():
        raise InputError(f"`run` has no docstring, by which others find it; {_HOW}")
    types = Types(module)
    return ActionInterface(
        description=description or _first_paragraph(doc),
        definition=_definition(f"actions.{name}", module, run, types),
        parameters=_parameters(run, types, doc),
    )


def trim(code: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Leave out what only one run needed: calls, prints and what sets `result` beside functions and classes.

    Returns the code and the lines that were left out. Raises InputError for code that does not parse.
    """
    text = decode(code, of="the code")
    module = parse(text)
    _run_of(module)
    # SECURITY: only what ends a line for the parser. At another break, a line of a text would be kept as code.
    lines = [f"{line}\n" for line in text.split("\n")]
    kept = {line for node in module.body if not _only_for_one_run(node) for line in _lines(node)}
    gone = sorted({line for node in module.body if _only_for_one_run(node) for line in _lines(node)} - kept)
    left_out = tuple(lines[number - 1].strip() for number in gone)
    for number in gone:
        lines[number - 1] = ""
    return "".join(lines).rstrip().encode() + b"\n", left_out


def decode(code: bytes, *, of: str) -> str:
    """The text of code. Raises InputError."""
    try:
        text = code.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{of} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if "\0" in text:
        raise InputError(f"{of} holds a NUL character, which Python does not accept; remove it")
    refuse_other_encoding(code, of=of)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse(text: str) -> ast.Module:
    """Parse a module, within bounds. Raises InputError."""
    refuse_endless_names(text.encode())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, "<action>", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
    except _PARSE_ERRORS as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"the code does not parse: {reason or 'it is too complex'}{line}") from None
    assert isinstance(tree, ast.Module)
    if sum(1 for _ in zip(ast.walk(tree), range(NODES_MAX + 1), strict=False)) > NODES_MAX:
        raise InputError(f"the code is too large for an action: more than {NODES_MAX:,} parts; split it")
    return tree


def check_module(module: ast.Module) -> None:
    """Raise InputError for what cannot be imported as a module: `await` outside functions, relative imports."""
    for node in _outside_functions(module):
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            raise InputError(
                f"line {node.lineno} awaits outside a function, which an import cannot do; move it into `run`"
            )
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise InputError(f"line {node.lineno} is a relative import; write `from actions.category.name import run`")


def _run_of(module: ast.Module) -> _Function:
    """The one `run` of a module. Raises InputError."""
    bound = [node for node in _outside_functions(module) if "run" in _bound_names(node)]
    functions = [node for node in module.body if isinstance(node, _Function) and node.name == "run"]
    if not functions:
        raise InputError(f"the code has no function `run` at its top level; {_HOW}")
    if len(bound) > 1:
        line = getattr(bound[1], "lineno", 1)
        raise InputError(f"`run` is bound more than once (line {line}); an action has one `run`")
    return functions[0]


def _bound_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case _:
            return


def _outside_functions(module: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported, functions and classes themselves included."""
    waiting: list[ast.AST] = list(reversed(module.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _only_for_one_run(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Expr() | ast.AsyncFor() | ast.AsyncWith():
            return True
        case ast.Assign(targets=[ast.Name(id="result")]) | ast.AnnAssign(target=ast.Name(id="result")):
            return True
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.With() | ast.If() | ast.Try():
            return any(isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith) for one in _inside(node))
        case _:
            return False


def _inside(node: ast.stmt) -> Iterator[ast.AST]:
    return _outside_functions(ast.Module(body=[node], type_ignores=[]))


def _lines(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


# --- the interface


def _parameters(run: _Function, types: Types, doc: str) -> JsonObject:
    """JSON Schema of what `run` takes."""
    given = run.args
    told = _documented_parameters(doc)
    properties: JsonObject = {}
    required: list[JsonValue] = []
    defaults = {
        **dict(zip([one.arg for one in [*given.posonlyargs, *given.args]][::-1], given.defaults[::-1], strict=False)),
        **{one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None},
    }
    for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        schema = types.schema(one.annotation)
        if about := told.get(one.arg) or types.note(one.annotation):
            schema["description"] = about
        if (default := defaults.get(one.arg)) is None:
            required.append(one.arg)
        elif (
            isinstance(default, ast.Constant)
            and isinstance(default.value, str | int | float | bool | None)
            and is_shown(default.value)
        ):
            schema["default"] = default.value
        properties[one.arg] = schema
    whole: JsonObject = {"type": "object", "properties": properties, "additionalProperties": given.kwarg is not None}
    return {**whole, "required": required} if required else whole


def _definition(imported: str, module: ast.Module, run: _Function, types: Types) -> str:
    """The stub: how it is imported, the types of its interface, its signature and docstring."""
    keyword = "async def" if isinstance(run, ast.AsyncFunctionDef) else "def"
    returns = f" -> {types.text(run.returns)}" if run.returns is not None else ""
    doc = ast.get_docstring(run) or ast.get_docstring(module) or ""
    function = "\n".join([f"{keyword} run({_signature(run.args, types)}){returns}:", *_quoted_doc(doc, "    ")])
    text = "\n\n".join([f"from {imported} import run", *types.definitions(), function]) + "\n"
    if len(text) > DEFINITION_CHARS_MAX:
        raise InputError(f"the interface of the action is longer than {DEFINITION_CHARS_MAX:,} characters; shorten it")
    return text


def _signature(given: ast.arguments, types: Types) -> str:
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    parts = [_parameter(one, default, types) for one, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if given.vararg is not None:
        parts.append(f"*{_parameter(given.vararg, None, types)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [_parameter(one, value, types) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg is not None:
        parts.append(f"**{_parameter(given.kwarg, None, types)}")
    return ", ".join(parts)


def _parameter(one: ast.arg, default: ast.expr | None, types: Types) -> str:
    text = f"{one.arg}: {types.text(one.annotation)}" if one.annotation is not None else one.arg
    if default is None:
        return text
    shown = ast.unparse(default) if is_literal(default) else "..."
    return f"{text} = {shown}" if one.annotation is not None else f"{text}={shown}"


def _quoted_doc(doc: str, indent: str) -> list[str]:
    """A docstring as source; the text cannot end it."""
    shown = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in cleandoc(doc)[:DOC_CHARS_MAX])
    lines = shown.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').split("\n")
    if lines[-1].endswith('"'):
        lines.append("")
    lines[0] = f'"""{lines[0]}'
    lines[-1] = f'{lines[-1]}"""'
    return [f"{indent}{line}".rstrip() for line in lines]


def _first_paragraph(doc: str) -> str:
    paragraph = cleandoc(doc).strip().partition("\n\n")[0]
    return " ".join(printable(paragraph).split())[:DESCRIPTION_CHARS_MAX]


def _documented_parameters(doc: str) -> dict[str, str]:
    """What a docstring says of parameters, as `:param name: text` or as `name: text` below `Args:`."""
    told: dict[str, str] = {}
    inside, base = False, 0
    for line in cleandoc(doc).split("\n"):
        bare = printable(line).strip()
        indent = len(line) - len(line.lstrip())
        if bare.lower() in {"args:", "arguments:", "parameters:"}:
            inside, base = True, indent
        elif bare.startswith(":param "):
            name, _, about = bare.removeprefix(":param ").partition(":")
            told[name.split(" ")[-1]] = about.strip()[:DESCRIPTION_CHARS_MAX]
        elif inside and bare and indent <= base:
            inside = False
        elif inside and ":" in bare:
            name, _, about = bare.partition(":")
            told.setdefault(name.split(" ")[0].strip("*"), about.strip()[:DESCRIPTION_CHARS_MAX])
    return {name: about for name, about in told.items() if name.isidentifier() and about}
