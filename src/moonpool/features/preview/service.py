"""What code would do, read off its text: wrappers it imports, tools it calls, and what is certain to be refused.

A use case for every face. It runs nothing and asks nobody; the gate decides each call when it comes, so a preview
without findings promises nothing. Saved actions and modules of skills that the code uses are read with it, since their
calls are the code's.
Only Python is read: there is no parser of ours for Node and Bash, and patterns would tell stories.

The sentences are those of a refused call (`core.phrases`, `pipeline.validation`), with one example call each.
SECURITY: the code and the servers' schemas are hostile; both are bounded. The code is parsed in a process with limits
(`code_reading.reader`), which takes some 50 ms, and some seconds for the largest code: a service calls it in a worker
thread.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from moonpool.code_reading.first_look import refuse_endless_names
from moonpool.code_reading.names import NameIndex
from moonpool.code_reading.reader import CodeTooCostlyError, reading_process
from moonpool.code_reading.reading import CodeRead, UnreadableCodeError
from moonpool.code_reading.scopes import TooManyNodesError
from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON
from moonpool.core.naming import name_server_modules
from moonpool.core.phrases import (
    clip,
    offered_server,
    offered_tool,
    undeclared_parameters,
    unknown_server,
    unknown_tool,
)
from moonpool.features.library.model.skills import importable, module_name
from moonpool.features.preview.model import Certainty, Finding, Preview, PreviewedCall
from moonpool.pipeline.validation import SchemaChecks, Unread
from moonpool.wrappers.examples import example_call, simplest
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.reading import read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager

    from moonpool.code_reading.names import Miss
    from moonpool.code_reading.reader import ReadCode, WireNames
    from moonpool.code_reading.reading import CallRead, Remark
    from moonpool.core.json import JsonValue
    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.features.library.model.entries import Library
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.wrappers.ir import ToolShape

    OpenReader = Callable[[NameIndex, WireNames], AbstractContextManager[ReadCode]]

SOURCE_BYTES_MAX: Final = 1_000_000
_NEAR_NAMES_MAX: Final = 20
_NAME_CHARS_MAX: Final = 200
_CHECKED_CALLS_MAX: Final = 200
_REMARKS_MAX: Final = 50
CALLS_LISTED_MAX: Final = 1000
KEPT_READ_MAX: Final = 50
_TOO_LARGE: Final = (
    "the code is too large, or nested too deeply, to be previewed; split it, or write it flatter. The run decides each "
    "call"
)


def preview_code(
    code: bytes,
    manifest: Manifest,
    *,
    language: str = PYTHON,
    missing: Collection[str] = (),
    reader: OpenReader = reading_process,
) -> Preview:
    """Read `code` against the tools of `manifest`; `missing` are configured servers whose tools are not known.

    Raises InputError for code that is too large, no UTF-8, or has an endless name. Only tests give a `reader`.
    """
    if language != PYTHON:
        reason = f"{language} code is not previewed: only Python is read; the run decides each call"
        return Preview(language=language, not_read=reason)
    if len(code) > SOURCE_BYTES_MAX:
        raise InputError(f"the code is larger than {SOURCE_BYTES_MAX:,} bytes, which is what a preview reads; split it")
    try:
        code.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the code is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    refuse_endless_names(code)
    previewer = _Previewer(manifest, missing)
    try:
        with reader(previewer.index, previewer.wire_names) as read_code:
            return previewer.preview(code, read_code)
    except CodeTooCostlyError as error:
        return Preview(language=PYTHON, not_read=f"the code cannot be previewed: {error}; the run decides each call")


def missing_servers(snapshot: ToolSnapshot) -> tuple[str, ...]:
    """Servers of `snapshot` that are configured, but whose tools are not known."""
    known = {server.server_id for server in snapshot.manifest.servers}
    return tuple(one for one in snapshot.problems if one not in known)


class _Previewer:
    """One preview: what is looked up more than once is kept."""

    def __init__(self, manifest: Manifest, missing: Collection[str]) -> None:
        self._manifest, self._names = manifest, name_manifest(manifest)
        modules = name_server_modules([*self._names.servers, *missing])
        self._actions = [entry.name for entry in manifest.library.of("action")]
        self._kept = _modules(manifest.library)
        self.index = NameIndex(
            self._names,
            {modules[one]: one for one in missing},
            actions=frozenset(self._actions),
            skills=frozenset(one.removeprefix("skills.") for one in self._kept if one.startswith("skills.")),
        )
        self._within = ""
        self._calls: list[PreviewedCall] = []
        self._checked = self._remarked = 0
        self._missing = frozenset(missing)
        self._checks = SchemaChecks()
        self._shapes: dict[tuple[str, str], ToolShape] = {}
        self._near = 0
        self._findings: list[Finding] = []

    def preview(self, code: bytes, read_code: ReadCode) -> Preview:
        try:
            read = read_code(code)
        except UnreadableCodeError as error:
            self._error(error.line, error.type, str(error))
            return Preview(language=PYTHON, findings=tuple(self._findings))
        except TooManyNodesError:
            return Preview(language=PYTHON, not_read=_TOO_LARGE)
        self._judge(read)
        left_out = read.left_out + self._follow(read, read_code)
        return Preview(
            language=PYTHON,
            imports=tuple(read.imports),
            calls=tuple(self._calls),
            findings=tuple(sorted(self._findings, key=lambda one: (one.within, one.line))),
            left_out=left_out,
        )

    def _follow(self, first: CodeRead, read_code: ReadCode) -> int:
        """Read what the code uses of the library, and what that uses of it; how much was left out there."""
        seen = dict.fromkeys(first.kept)
        waiting, left_out = list(first.kept.items()), 0
        for place, (name, line) in enumerate(waiting):  # which grows
            if place >= KEPT_READ_MAX:
                self._within = ""
                text = (
                    f"{KEPT_READ_MAX} saved actions and modules of skills are read; what further ones call is not shown"
                )
                self._uncertain(line, text)
                break
            self._within = name
            try:
                read = read_code(self._kept[name], module=name)
            except (UnreadableCodeError, TooManyNodesError):
                self._uncertain(1, f"{name} cannot be read; what it calls only the run shows")
                continue
            except CodeTooCostlyError as error:  # and nothing more can be read
                self._uncertain(1, f"{name} cannot be read: {error}; what it and others call only the run shows")
                break
            self._judge(read)
            left_out += read.left_out
            news = [(one, at) for one, at in read.kept.items() if one not in seen]
            waiting += news
            seen.update(dict.fromkeys(one for one, _ in news))
        return left_out

    def _judge(self, read: CodeRead) -> None:
        for item in read.misses:
            self._miss(item.line, item.miss)
        for call in read.calls:
            self._checked += 1
            if self._checked <= _CHECKED_CALLS_MAX:
                self._call(call)
            elif self._checked == _CHECKED_CALLS_MAX + 1:
                text = f"from here on calls are listed, but not checked; {_CHECKED_CALLS_MAX} are"
                self._uncertain(call.line, text)
        room = CALLS_LISTED_MAX - len(self._calls)
        self._calls += (PreviewedCall.of(call, within=self._within) for call in read.calls[:room])
        read.left_out += max(0, len(read.calls) - room)
        for item in read.uncertain:
            self._uncertain(item.line, item.text)
        wrong = {one.line for one in self._findings if one.certainty is Certainty.ERROR and one.within == self._within}
        for item in read.remarks:
            if item.line not in wrong:  # what is wrong with a call is said with an example that is right
                self._remark(item)

    def _remark(self, item: Remark) -> None:
        self._remarked += 1
        path = clip(item.path, _NAME_CHARS_MAX)
        if self._remarked > _REMARKS_MAX:
            if self._remarked == _REMARKS_MAX + 1:
                text = "from here on calls that are not awaited, or whose result is not read, are not named"
                self._find(item.line, Certainty.REMARK, "UnreadResult", text)
        elif item.awaits:
            text = (
                f"the code does not read what {path} returns, so a refused or failed call goes unnoticed; add .unwrap()"
            )
            self._find(item.line, Certainty.REMARK, "UnreadResult", text)
        else:
            self._error(item.line, "MissingAwait", f"{path} is async: write `await` before it, else nothing is called")

    def _miss(self, line: int, miss: Miss) -> None:
        if miss.is_action:
            near = self._near_actions(miss.path)
            hint = f"near names: {', '.join(near)}" if near else "`search_tools` finds those that there are"
            self._error(line, "UnknownAction", f"there is no saved action {clip(miss.path, 200)!r}; {hint}")
        elif miss.unreachable:
            self._unreachable(line, miss.server_id)
        elif not miss.server_id:
            self._unknown_server(line, miss.name)
        else:
            self._unknown_tool(line, miss.server_id, miss.name)

    def _call(self, call: CallRead) -> None:
        tool = self._manifest.find(call.server_id, call.tool)
        if (paused := self._manifest.held.get((call.server_id, call.tool))) is not None:
            self._error(call.line, "ToolPaused", paused)
            return
        if tool is None:
            if call.server_id in self._missing:
                self._unreachable(call.line, call.server_id)
            else:
                self._unknown_tool(call.line, call.server_id, call.tool)
            return
        for problem in call.arguments.problems:
            self._error(call.line, "TypeError", f"{problem}. {self._example(tool)}")
        if problem := self._argument_problem(tool, call):
            self._error(call.line, "ValidationError", f"{problem}. {self._example(tool)}")

    def _argument_problem(self, tool: ToolDefinition, call: CallRead) -> str:
        given = call.arguments
        unread = Unread(values=frozenset(given.unread), open=frozenset(given.open))
        check = self._checks.arguments(tool)
        if problem := check.known_problem(tool, given.values, unread, near=self._near < _NEAR_NAMES_MAX):
            self._near += 1
            return problem
        shape = self._shape(tool).input
        if shape.asks_for_extras or not shape.members or _has_patterns(tool.input_schema):
            return ""
        known = {member.wire_name for member in shape.members}
        undeclared = [name for name in given.values if name not in known]
        name = f"{tool.server_id}.{tool.name}"
        if not undeclared:
            return ""
        return undeclared_parameters(name, undeclared, tool.input_schema, near=self._looks_near())

    def _unknown_tool(self, line: int, server_id: str, name: str) -> None:
        if server_id not in self._names.servers:
            return self._unknown_server(line, server_id)
        text = unknown_tool(server_id, name, self._manifest, near=self._looks_near())
        self._error(line, "UnknownTool", self._taught(text, offered_tool(text, self._manifest), server_id))
        return None

    def _unknown_server(self, line: int, name: str) -> None:
        text = unknown_server(name, self._manifest, near=self._looks_near())
        self._error(line, "UnknownServer", self._taught(text, None, offered_server(text, self._manifest)))

    def _taught(self, text: str, tool: ToolDefinition | None, server_id: str) -> str:
        """`text` and an example: of `tool`, else of that server's or any server's simplest one."""
        own = (one for one in self._manifest.tools() if one.server_id == server_id)
        shown = tool or simplest(own) or simplest(self._manifest.tools())
        if shown is None:
            return text
        return f"{text}{'' if text.endswith('?') else '.'} {self._example(shown)}"

    def _near_actions(self, path: str) -> list[str]:
        if not self._looks_near():
            return []
        return get_close_matches(path[:_NAME_CHARS_MAX], [f"actions.{name}" for name in self._actions], n=3, cutoff=0.5)

    def _looks_near(self) -> bool:
        """SECURITY: looking for near names takes up to 30 ms each time; how often is the code's choice."""
        self._near += 1
        return self._near <= _NEAR_NAMES_MAX

    def _unreachable(self, line: int, server_id: str) -> None:
        text = f"server {server_id!r} is configured, but its tools could not be listed"
        self._error(line, "Unreachable", text)

    def _error(self, line: int, kind: str, message: str) -> None:
        self._find(line, Certainty.ERROR, kind, message)

    def _uncertain(self, line: int, message: str) -> None:
        self._find(line, Certainty.UNCERTAIN, "Computed", message)

    def _find(self, line: int, certainty: Certainty, kind: str, message: str) -> None:
        found = Finding(line=line, certainty=certainty, kind=kind, message=message, within=self._within)
        self._findings.append(found)

    def _shape(self, tool: ToolDefinition) -> ToolShape:
        if tool.key not in self._shapes:
            self._shapes[tool.key] = read_shape(tool)
        return self._shapes[tool.key]

    def wire_names(self, server_id: str, name: str) -> Mapping[str, str]:
        tool = self._manifest.find(server_id, name)
        members = self._shape(tool).input.members if tool is not None else ()
        return {member.identifier: member.wire_name for member in members}

    def _example(self, tool: ToolDefinition) -> str:
        server, names = self._names.find(tool.server_id, tool.name)
        return example_call(tool, self._shape(tool), server, names, language=PYTHON)


def _modules(library: Library) -> dict[str, bytes]:
    """Code of the library by the name that an import leads to."""
    code = {entry.path: entry.files[f"{entry.name.replace('.', '/')}.py"] for entry in library.of("action")}
    for skill in library.of("skill"):
        paths = {path.removeprefix(f"{skill.name}/"): content for path, content in skill.files.items()}
        package = f"skills.{module_name(skill.name)}"
        code.update({f"{package}.{one}": paths[f"{one.replace('.', '/')}.py"] for one in importable(paths)})
    return code


def _has_patterns(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and "patternProperties" in schema
