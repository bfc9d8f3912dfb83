"""Builds what is made from other texts: the Python API's reference, `llms.txt` and `llms-full.txt`. `make docs`.

`docs/reference/python-api.md` is made from signatures and docstrings of `import moonpool` and kept in the tree, so that
it can be read where the source is. The other two go into `build/docs/`: an index of all pages, and all of them in one
file, for models that read documentation.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import moonpool

ROOT = Path(__file__).parents[1]
API_PAGE = ROOT / "docs" / "reference" / "python-api.md"
_GROUPS = {
    "Open and run": ("session", "run", "Session", "Stream", "Files", "Tools", "Limits"),
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
    ),
}  # fmt: skip
_FIELD = re.compile(r'^    (\w+): [^\n#]*?(?:#\s*([^\n]*))?\n(?:    """(.*?)""")?', re.MULTILINE | re.DOTALL)
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_NOT_SHOWN = {"__version__", "sync", "Event"}


def api_page() -> str:
    """The reference of the Python API as Markdown."""
    listed = {name for names in _GROUPS.values() for name in names}
    assert listed | _NOT_SHOWN == set(moonpool.__all__), listed ^ (set(moonpool.__all__) - _NOT_SHOWN)
    parts = [
        "# Python API",
        "Made from the docstrings by `make docs`. How to use it: [embed](../how-to/embed.md). `moonpool.sync` has `session`, "
        "`run` and the classes that belong to a session without `async` and `await`; all others are the same.",
    ]
    for title, names in _GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _described(name, getattr(moonpool, name))
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


def _members(value: type[Any]) -> list[str]:
    """Rows for public fields and properties, with what the source says beside them."""
    rows: list[str] = []
    if is_dataclass(value):
        said = _remarks(value)
        for one in fields(value):
            if not one.name.startswith("_"):
                default = "" if one.default is MISSING else f", default `{one.default!r}`"
                rows.append(f"| `{one.name}` | `{_cell(str(one.type))}`{default} | {_cell(said.get(one.name, ''))} |")
    for name, member in inspect.getmembers(value, lambda one: isinstance(one, property)):
        kind = inspect.signature(member.fget).return_annotation
        rows.append(f"| `{name}` | `{_cell(str(kind))}` | {_cell(_text(member).splitlines()[0])} |")
    return rows


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


def pages() -> list[Path]:
    """Every page, the README first; decisions are history and left out."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in found if "decisions" not in page.parts)]


def index() -> str:
    """`llms.txt`: a line for each page."""
    about = "> Runs model-written code in a sealed sandbox whose only opening is a broker that calls MCP tools for it."
    lines = ["# Moonpool", "", about, ""]
    for page in pages():
        text = page.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({page.relative_to(ROOT).as_posix()})")
    return "\n".join(lines) + "\n"


def whole() -> str:
    """`llms-full.txt`: every page, each under its path."""
    return "\n".join(
        f"<!-- {page.relative_to(ROOT).as_posix()} -->\n{page.read_text(encoding='utf-8')}" for page in pages()
    )


def write_texts(folder: Path) -> None:
    """Write `llms.txt` and `llms-full.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llms.txt").write_text(index(), encoding="utf-8")
    (folder / "llms-full.txt").write_text(whole(), encoding="utf-8")


def main() -> None:
    """Write all three."""
    API_PAGE.write_text(api_page(), encoding="utf-8")
    write_texts(ROOT / "build" / "docs")
    sys.stdout.write(f"{API_PAGE.relative_to(ROOT)}, build/docs/llms.txt, build/docs/llms-full.txt\n")


if __name__ == "__main__":
    main()
