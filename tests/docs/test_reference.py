"""Reference pages against the code: every setting, error, command, key and limit stands there, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import re
import runpy
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click
import pytest

import moonpool
import moonpool_wire.messages as wire_messages
from contract_rows.envelope_schema import ENVELOPE_SCHEMA, TOKENS_SCHEMA
from docs.pages import DOCS, ROOT, links, read, rows, section
from moonpool.configuration.condition_entry import ConditionEntry
from moonpool.configuration.policy_file import (
    BudgetEntry,
    CostEntry,
    ExampleEntry,
    LabelEntry,
    PolicyDocument,
    RuleEntry,
)
from moonpool.configuration.server_entry import KNOWN_KEYS, Block
from moonpool.core.calls import ApprovalState, CallErrorType
from moonpool.core.errors import MoonpoolError
from moonpool.engine import branches
from moonpool.engine.packages.requests import INSTALLS_MAX
from moonpool.ipybox import options as ipybox_options
from moonpool.ipybox.tool_exec.app import BODY_BYTES_MAX
from moonpool.sandboxes import host_folders, messages, seccomp
from moonpool.sandboxes.cgroups import UNIT_LINES
from moonpool.sandboxes.folder_copies import KEPT_MAX
from moonpool.server.http.authentication.issuer_file import IssuerEntry, read_issuers
from moonpool.settings import Settings
from moonpool_wire import folder_names, limits
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {row[0]: row for row in rows(read("docs/reference/settings.md"))}
ERRORS = {row[0]: row for row in rows(read("docs/reference/errors.md"))}
CONTRACT = read("docs/reference/runtime-contract.md")
CONFIG_PAGE = read("docs/how-to/configure-servers.md")


def test_every_setting_has_a_row_with_its_default() -> None:
    shown = {name: row[1] for name, row in SETTINGS.items()}
    real = dict(zip(Settings.__struct_fields__, Settings.__struct_defaults__, strict=True))
    assert set(shown) == set(real)
    assert {name: value for name, value in shown.items() if name != "data_dir"} == {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in real.items()
        if name != "data_dir"
    }


def test_every_guarded_name_is_listed() -> None:
    shown = set(re.findall(r"`([^`]+)`", section(read("docs/how-to/folders.md"), "What code cannot touch")))
    guarded = {*folder_names.HIDDEN, *folder_names.READ_ONLY, *folder_names.PUBLIC, folder_names.VENV_MARK}
    assert guarded <= shown


def test_it_is_said_how_many_copies_of_folders_are_kept() -> None:
    assert f"The last {KEPT_MAX} are kept" in section(read("docs/how-to/folders.md"), "Copies")
    assert f"| {KEPT_MAX} | `sandboxes.folder_copies.KEPT_MAX`;" in read("docs/reference/limits.md")


def _all_errors() -> Iterator[type[MoonpoolError]]:
    for module in pkgutil.walk_packages(moonpool.__path__, "moonpool."):
        importlib.import_module(module.name)
    waiting = list(MoonpoolError.__subclasses__())
    while waiting:
        error = waiting.pop()
        if error.__module__.startswith("moonpool."):
            yield error
        waiting += error.__subclasses__()


@pytest.mark.req("G-050")
def test_every_error_code_has_a_row_with_its_fault_and_whether_to_retry() -> None:
    real = {error.code: [str(error.fault), "yes" if error.retryable else "no"] for error in _all_errors()}
    assert {code: row[1:3] for code, row in ERRORS.items()} == real


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in set(_all_errors())]
    assert len(codes) == len(set(codes))


@pytest.mark.req("H-026")
def test_the_keys_of_the_envelope_are_those_of_the_page() -> None:
    keys = [row[0] for row in rows(section(CONTRACT, "Envelope"))]
    members = {name for row in rows(section(CONTRACT, "Result")) for name in row[0].split(", ")}
    assert keys == ENVELOPE_SCHEMA["required"]
    assert members == {
        name for option in ENVELOPE_SCHEMA["properties"]["result"]["oneOf"] for name in option["properties"]
    }


@pytest.mark.req("H-083")
def test_every_token_figure_of_the_envelope_is_explained() -> None:
    assert [row[0] for row in rows(section(CONTRACT, "Tokens"))] == list(TOKENS_SCHEMA["properties"])


@pytest.mark.req("H-034")
def test_every_approval_state_is_explained() -> None:
    assert {state for state in ApprovalState if f"`{state}`" in section(CONTRACT, "Envelope")} == set(ApprovalState)


def test_every_type_of_call_error_has_a_row() -> None:
    _, _, calls = section(CONTRACT, "Error types").partition("A tool call that fails")
    assert {row[0] for row in rows(calls)} == {str(kind) for kind in CallErrorType}


def test_every_type_that_the_host_makes_has_a_row() -> None:
    own, _, _ = section(CONTRACT, "Error types").partition("A tool call that fails")
    modules = sorted((Path(moonpool.__file__).parent / "engine").glob("*.py"))
    made = {name for path in modules for name in re.findall(r'\btype="(\w+)"', path.read_text(encoding="utf-8"))}
    assert {"OutOfMemory", "KernelKilled", "LanguageUnavailable"} <= made
    assert made <= {row[0] for row in rows(own)}


@pytest.mark.req("B-086")
def test_every_wire_message_has_a_row_with_its_members() -> None:
    to_guest, _, to_host = section(read("docs/reference/wire.md"), "Messages").partition("To the host:")
    names: set[str] = set()
    for half, union in ((to_guest, messages.HostMessage), (to_host, messages.GuestMessage)):
        page = {row[0]: row[1] for row in rows(half)}
        structs: dict[str, Any] = {kind.__struct_config__.tag: kind for kind in get_args(union)}
        names |= set(structs)
        assert set(page) == set(structs)
        for tag, kind in structs.items():
            assert set(re.findall(r"\w+", page[tag].partition("(")[0])) == set(kind.__struct_fields__), tag
    assert names == {value for name, value in vars(wire_messages).items() if name.isupper()}


@every_row("name", [name for name in vars(limits) if name.isupper() and name != "PROTOCOL_VERSION"])
def test_every_wire_limit_is_named(name: str) -> None:
    shown_as = "INLINE_BODY_BYTES_MAX" if name == "FRAME_BYTES_MAX" else name  # the sum of its two parts
    assert shown_as in section(read("docs/reference/limits.md"), "Wire")


@every_row(
    ("title", "limit", "told"),
    [
        ("Attached folders", "folders of a session", f"{host_folders.FOLDERS_MAX}"),
        ("Attached folders", "files in one, without .git", f"{folder_names.ENTRIES_MAX:,}"),
        ("Attached folders", "names in one that are hidden or read-only", f"{folder_names.GUARDS_MAX:,}"),
        ("Attached folders", "free on its file system", f"{host_folders.FREE_BYTES_MIN >> 30} GiB at the start"),
        ("Checkpoints", "checkpoints after executions", f"{branches.KEPT_MAX}"),
        ("Checkpoints", "named ones", f"{branches.NAMED_MAX}, names of {branches.NAME_CHARS_MAX} characters"),
        ("Packages", "packages of one session, unpacked", f"{Settings().packages_bytes_max >> 30} GiB"),
        ("Packages", "cache of all sessions", f"{Settings().package_cache_bytes_max >> 30} GiB"),
        ("Packages", "installations of one execution", f"{INSTALLS_MAX}"),
        (
            "ipybox",
            "text of a result, each of stdout and stderr",
            f"{ipybox_options._DEFAULTS['stdout_bytes_max'] >> 20} MiB",
        ),
        ("ipybox", "body of a request to a tool server", f"{BODY_BYTES_MAX >> 20} MiB"),
    ],
)
def test_limits_of_what_applications_use_are_those_of_the_code(title: str, limit: str, told: str) -> None:
    shown = {row[0]: row[1] for row in rows(section(read("docs/reference/limits.md"), title))}
    assert re.match(rf"{re.escape(told)}(?!\d)", shown[limit])


@every_row("key", KNOWN_KEYS)
def test_every_key_of_a_server_entry_is_explained(key: str) -> None:
    assert f"`{key}`" in section(CONFIG_PAGE, "Keys of an entry")


def test_every_key_of_the_moonpool_block_has_a_row_with_its_default() -> None:
    shown = {row[0]: row[1] for row in rows(section(CONFIG_PAGE, "Keys of the `moonpool` block"))}
    defaults = zip(Block.__struct_fields__, Block.__struct_defaults__, strict=True)
    real = {key: _shown(value) for key, value in defaults}
    assert shown == real


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value:
        return value
    return f"{value:g}" if isinstance(value, int | float) else "none"


def _filtered_calls() -> list[str]:
    lists = (seccomp._NEVER, seccomp._NEVER_ENOSYS, seccomp._BUILDING, seccomp._UNACCOUNTED_MEMORY)
    by_argument = [name for name, _ in seccomp._argument_checks(namespaces=False)]
    return sorted({*(name for each in lists for name in each), *by_argument})


@every_row("call", _filtered_calls)
def test_every_filtered_system_call_is_explained(call: str) -> None:
    table = section(read("docs/explanation/isolation.md"), "System calls")
    assert any(fnmatchcase(call, glob) for glob in re.findall(r"`([\w*]+)`", table))


def test_the_unit_that_delegates_control_groups_is_on_the_page() -> None:
    assert f"```ini\n{UNIT_LINES}\n```" in read("docs/reference/limits.md")


def _commands(group: Any, path: str = "moonpool") -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def _all_commands() -> list[tuple[str, Any]]:
    from moonpool.cli.main import app

    return list(_commands(click.Group(commands={name: app.load(name) for name in app.commands})))


@every_row(("path", "command"), _all_commands, ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_has_a_section_with_every_option(path: str, command: Any) -> None:
    text = section(read("docs/reference/commands.md"), path)
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}
    shown = {name.strip() for row in rows(text) for name in row[0].split(",") if name.strip().startswith("--")}
    assert text
    assert shown == options
    if arguments := _arguments(command):
        assert f"`{path} {arguments}`" in text


def _arguments(command: Any) -> str:
    """The arguments of a command as `--help` names them: NAME, [NAME] when it may be left out, NAME... for many."""
    found = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return " ".join(parameter.make_metavar(click.Context(command)) for parameter in found)


def test_what_help_says_of_a_command_is_what_the_command_says_of_itself() -> None:
    from moonpool.cli.main import app

    for name, summary in app.commands.items():
        assert summary.get_short_help_str(999) == app.load(name).get_short_help_str(999), name


def test_no_section_describes_a_command_that_is_not_there() -> None:
    titles = re.findall(r"^## (.+)$", read("docs/reference/commands.md"), re.MULTILINE)
    assert sorted(titles) == sorted(path for path, _ in _all_commands())


@pytest.mark.req("H-067")
def test_the_prompt_on_the_page_is_the_prompt_that_is_offered() -> None:
    from moonpool.server.mcp.definitions import PROMPT_TEXT

    page = read("docs/prompts/code-mode.md")
    assert f"```text\n{PROMPT_TEXT.rstrip()}\n```" in page
    assert len(re.findall(r"^- ", PROMPT_TEXT, re.MULTILINE)) == 4


def test_the_three_tools_and_their_arguments_stand_on_the_page() -> None:
    from moonpool.server.mcp.definitions import TOOLS

    page = {row[0]: row[1] for row in rows(read("docs/reference/mcp-face.md"))}
    real = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in cast("Any", TOOLS)}
    assert {name: set(re.findall(r"[a-z_]+", re.sub(r"\(.*?\)", "", told))) for name, told in page.items()} == real


@pytest.mark.parametrize(
    ("title", "entry"),
    [
        ("Keys of the file", PolicyDocument),
        ("Keys of a rule", RuleEntry),
        ("Keys of a condition", ConditionEntry),
        ("Keys of a label", LabelEntry),
        ("Keys of a budget", BudgetEntry),
        ("Keys of a cost", CostEntry),
        ("Keys of an example", ExampleEntry),
    ],
)
def test_every_key_of_a_policy_file_has_a_row(title: str, entry: Any) -> None:
    shown = [row[0] for row in rows(section(read("docs/reference/policy-file.md"), title))]
    assert sorted(shown) == sorted(entry.__struct_encode_fields__)


def test_every_key_of_an_issuer_has_a_row() -> None:
    shown = [row[0] for row in rows(section(read("docs/how-to/oauth.md"), "Keys of an issuer"))]
    assert sorted(shown) == sorted(IssuerEntry.__struct_encode_fields__)


def test_the_issuers_on_the_page_can_be_read(tmp_path: Path) -> None:
    texts = re.findall(r"^```toml\n(.*?)^```", read("docs/how-to/oauth.md"), re.MULTILINE | re.DOTALL)
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        assert len(read_issuers(path)) == 1
    assert len(texts) == 2


@pytest.mark.req("E-006")
def test_every_part_of_the_review_of_oauth_is_shown_by_tests() -> None:
    known = tomllib.loads((ROOT / "tests/requirements.toml").read_text(encoding="utf-8"))["rows"]
    review = rows(read("docs/reference/oauth-review.md"))
    assert len(review) >= 16
    for row in review:
        assert all(row), row
        ids = row[-1].split(", ")
        assert [one for one in ids if known[one]["status"].startswith("pending")] == [], row[0]


BUILD: Any = runpy.run_path(str(ROOT / "docs" / "build.py"))


@pytest.mark.req("I-007")
@every_row("name", BUILD["TEXTS"])
def test_what_is_made_of_other_texts_is_current(name: str) -> None:
    assert BUILD["TEXTS"][name]() == read(name), "run: make docs"


def test_everything_in_the_reference_of_the_python_api_is_explained() -> None:
    page = read("docs/reference/python-api.md")
    assert [row for row in re.findall(r"^\| `.*$", page, re.MULTILINE) if row.endswith("|  |")] == []
    in_signatures = " ".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    in_tables = " ".join(re.findall(r"^\| `\w+` \| `([^`]*)`", page, re.MULTILINE))
    python = re.findall(
        r"\w+", "Any Awaitable Callable Collection False Literal Mapping None Path PathLike Self Sequence True"
    )
    told = {*moonpool.__all__, *(name for name, _, _ in BUILD["aliases"]()), *python}
    assert set(re.findall(r"\b[A-Z][A-Za-z]+\b", f"{in_signatures} {in_tables}")) - told == set()


@pytest.mark.req("I-007", "G-052")
def test_models_find_every_page_from_where_the_index_lies() -> None:
    index, whole = read("docs/llms.txt"), read("docs/llms-full.txt")
    found = {(DOCS / link).resolve() for link in links(index)}
    pages = {page for page in DOCS.rglob("*.md") if "decisions" not in page.parts}
    assert found == pages | {ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "THREAT_MODEL", "CHANGELOG")}
    assert index.startswith("# Moonpool\n\n> ")
    assert all(re.fullmatch(r"# .*|> .*|## .*|- \[[^\]]+\]\([^)]+\)(: .+)?|", line) for line in index.splitlines())
    for page in (ROOT / "README.md", *pages):
        path = page.relative_to(ROOT).as_posix()
        assert f"<!-- {path} -->\n{page.read_text(encoding='utf-8')}" in whole
