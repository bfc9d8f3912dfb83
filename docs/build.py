"""Builds what is made from other texts: the Python API's reference, `llms.txt` and `llms-full.txt`. `make docs`.

`docs/reference/python-api.md` is made from signatures and docstrings of `import moonpool`. `docs/llms.txt` is an index
of all pages (https://llmstxt.org), `docs/llms-full.txt` all of them in one file, for models that read documentation.
All three are kept in the tree, where they can be read without building anything.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import moonpool

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
_GROUPS = {
    "Open and run": ("session", "run", "Session", "Stream", "Files", "Tools", "Limits"),
    "At a service": ("connect", "Service"),
    "Network": ("Network", "HeaderCredential", "NetworkAccess"),
    "Events": (
        "Output", "ToolCallStarted", "ToolCallEnded", "Progress", "CallEventsDropped", "ApprovalRequest",
        "ServerQuestion", "Display",
    ),
    "Results": ("Result", "ExecutionError", "File", "FileEntry", "Tool", "Usage"),
    "Packages": ("InstalledPackages", "InstalledPackage", "PackageError"),
    "Checkpoints": ("Checkpoint", "Undone", "UndoneCall", "CheckpointError"),
    "Errors": (
        "MoonpoolError", "InputError", "ConfigError", "HostUnfitError", "ExecutionFailedError", "ApprovalAnswerError",
        "FileTransferError", "LocalFileError", "NetworkRuleError", "FolderError",
        "ServiceError", "ServiceUnavailableError",
    ),
}  # fmt: skip
_ALIASES = {
    "Servers": "sdk.options", "FileContent": "sdk.options", "AllowedDomains": "sdk.options", "Approve": "sdk.session",
    "RemoteApprove": "sdk.service",
    "Answer": "sdk.session", "Event": "sdk.session", "StreamName": "sdk.results", "Form": "sdk.tool_search",
    "QuestionKind": "engine.server_request_events", "JsonValue": "core.json", "JsonObject": "core.json",
    "FailedBy": "core.envelope", "StateAfter": "core.envelope",
}  # fmt: skip
"""Names of types that stand in signatures and are not classes, and where they are written."""
_SECTIONS = {
    "Project": ("README.md", "docs/README.md", "docs/GLOSSARY.md", "THREAT_MODEL.md"),
    "Tutorial": ("docs/tutorial/",),
    "How-to": ("docs/how-to/",),
    "Reference": ("docs/reference/", "docs/prompts/"),
    "Explanation": ("docs/explanation/", "docs/limitations/"),
    "Optional": ("ARCHITECTURE.md", "CHANGELOG.md"),
}
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FIELD = re.compile(r'^    (\w+): [^\n#]*?(?:#\s*([^\n]*))?\n(?:    """(.*?)""")?', re.MULTILINE | re.DOTALL)
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_NOT_SHOWN = {"__version__", "sync", "Event"}


def api_page() -> str:
    """The reference of the Python API as Markdown."""
    listed = {name for names in _GROUPS.values() for name in names}
    assert listed | _NOT_SHOWN == set(moonpool.__all__), listed ^ (set(moonpool.__all__) - _NOT_SHOWN)
    parts = [
        "# Python API",
        "Made from the docstrings by `make docs`. How to use it: [embed](../how-to/embed.md). `moonpool.sync` has "
        "`session`, `run` and the classes that belong to a session without `async` and `await`; others are the same.",
    ]
    for title, names in _GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _described(name, getattr(moonpool, name))
    parts += [
        "## Types",
        "Names in signatures above that are not classes. Only `Event` is exported.",
        "| name | is | meaning |\n|---|---|---|",
    ]
    parts[-1] += "".join(f"\n| `{name}` | `{_cell(kind)}` | {_cell(said)} |" for name, kind, said in aliases())
    return "\n\n".join(parts) + "\n"


def _described(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        parts = [f"### {name}", _text(value)]
        if rows := _members(value):
            parts.append("| member | type | meaning |\n|---|---|---|\n" + "\n".join(rows))
        for member_name, member in sorted(inspect.getmembers(value, inspect.isfunction)):
            if not member_name.startswith("_") and member.__module__.startswith("moonpool"):
                signature = _signature(member_name, member)
                parts += [f"#### {name}.{member_name}", f"```python\n{signature}\n```", _text(member)]
        return parts
    return [f"### {name}", f"```python\n{_signature(name, value)}\n```", _text(value)]


def _signature(name: str, function: Any) -> str:
    prefix = "async def" if inspect.iscoroutinefunction(function) else "def"
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    given = [f"{_STARS.get(one.kind, '')}{one.name}: {one.annotation}{_default(one)}" for one in parameters]
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        given.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    whole = f"{prefix} {name}({', '.join(given)}) -> {signature.return_annotation}"
    if len(whole) <= 100:
        return whole
    return f"{prefix} {name}(\n" + "".join(f"    {one},\n" for one in given) + f") -> {signature.return_annotation}"


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"


def aliases() -> Iterator[tuple[str, str, str]]:
    """Name, definition and meaning of each type that is not a class."""
    for name, module in _ALIASES.items():
        body = ast.parse(inspect.getsource(import_module(f"moonpool.{module}"))).body
        for statement, following in pairwise(body):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if isinstance(statement, ast.Assign | ast.AnnAssign) and ast.unparse(targets[0] or []) == name:
                written = statement.value
                kind = written.value if isinstance(written, ast.Constant) else ast.unparse(written or [])
                yield name, str(kind), " ".join(ast.literal_eval(getattr(following, "value", None)).split())


def _members(value: type[Any]) -> list[str]:
    """Rows for public fields and properties, with what the source says beside them."""
    said = _remarks(value)
    rows = [
        f"| `{name}` | `{_cell(kind)}`{default} | {_cell(said.get(name, ''))} |"
        for name, kind, default in _fields(value)
    ]
    for name, member in inspect.getmembers(value, lambda one: isinstance(one, property)):
        kind = inspect.signature(member.fget).return_annotation
        rows.append(f"| `{name}` | `{_cell(str(kind))}` | {_cell(_text(member).splitlines()[0])} |")
    return rows


def _fields(value: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Name, type and what is said of the default of each public field."""
    if is_dataclass(value):
        for one in fields(value):
            made = one.default if one.default_factory is MISSING else one.default_factory()
            if not one.name.startswith("_"):
                yield one.name, str(one.type), "" if made is MISSING else f", default `{made!r}`"
    elif issubclass(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            kind = re.sub(r"Annotated\[(\w+), .*", r"\1", value.__annotations__[field.name])
            yield field.name, kind, "" if field.default is msgspec.NODEFAULT else f", default `{field.default!r}`"


def _remarks(value: type[Any]) -> dict[str, str]:
    """What stands beside or below each field, in its class and those above."""
    said: dict[str, str] = {}
    for kind in reversed(value.__mro__):
        if not kind.__module__.startswith("moonpool"):
            continue
        source = inspect.getsource(kind)
        for match in _FIELD.finditer(source):
            said[match[1]] = " ".join((match[2] or match[3] or "").split())
    return said


def _text(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages(starts: tuple[str, ...] = ("README.md", "docs/")) -> list[Path]:
    """The pages whose paths begin so; decisions are history and left out."""
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    named = [(page, page.relative_to(ROOT).as_posix()) for page in found if "decisions" not in page.parts]
    return [
        page
        for start in starts
        for page, name in named
        if name == start or (start[-1] == "/" and name.startswith(start))
    ]


def index() -> str:
    """`llms.txt`: a line for each page, with links from the folder `docs`."""
    about = "> Runs model-written code in a sealed sandbox whose only opening is a broker that calls MCP tools for it."
    lines = ["# Moonpool", "", about]
    for title, starts in _SECTIONS.items():
        lines += ["", f"## {title}", ""]
        for page in pages(starts):
            text = page.read_text(encoding="utf-8")
            link = Path(os.path.relpath(page, ROOT / "docs")).as_posix()
            about = first_sentence(text)
            lines.append(
                f"- [{text.partition(chr(10))[0].removeprefix('# ')}]({link})" + (f": {about}" if about else "")
            )
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """The first sentence below a page's title, without links; empty where that begins with a table or code."""
    for paragraph in text.split("\n\n")[1:]:
        if paragraph.startswith(("|", "```", "#", "<", "- ")):
            continue
        plain = _LINK.sub(r"\1", " ".join(paragraph.split()))
        return plain.partition(". ")[0].rstrip(".:") + "."
    return ""


def whole() -> str:
    """`llms-full.txt`: every page, each under its path."""
    return "\n".join(
        f"<!-- {page.relative_to(ROOT).as_posix()} -->\n{page.read_text(encoding='utf-8')}" for page in pages()
    )


TEXTS = {"docs/reference/python-api.md": api_page, "docs/llms.txt": index, "docs/llms-full.txt": whole}
"""What is made, in this order: the last has the first."""


def main() -> None:
    """Write all three."""
    for name, made in TEXTS.items():
        (ROOT / name).write_text(made(), encoding="utf-8")
    sys.stdout.write(", ".join(TEXTS) + "\n")


if __name__ == "__main__":
    main()
