"""One injective allocator: table of the rules, and properties over names nobody thought of."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.naming import (
    LENGTH_MAX,
    allocate,
    name_enum_members,
    name_files,
    name_js_functions,
    name_parameters,
    name_server_modules,
    name_sync_functions,
    name_tool_functions,
    name_tool_modules,
    pascal,
)
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Callable

ALLOCATORS = [name_server_modules, name_tool_functions, name_tool_modules, name_parameters, name_enum_members]
_awkward = st.sampled_from(
    [
        "get-x",
        "get_x",
        "get.x",
        "Get_X",
        "class",
        "class_",
        "2fa",
        "_2fa",
        "__init__",
        "_init__",
        "",
        "-",
        "_",
        "x" * 128,
    ]
)
_names = st.lists(st.one_of(_awkward, st.text(max_size=12), st.text(alphabet="ab_-.A", max_size=4)), max_size=12)


@pytest.mark.req("H-015")
@pytest.mark.parametrize(
    ("server_id", "module"),
    [
        pytest.param("google-drive", "google_drive", id="the guide's example"),
        pytest.param("GitHub", "github", id="capitals become small"),
        pytest.param("a.b c", "a_b_c", id="other characters become underscores"),
        pytest.param("class", "class_", id="a keyword"),
        pytest.param("9lives", "_9lives", id="a leading digit"),
    ],
)
def test_server_modules_are_snake_case(server_id: str, module: str) -> None:
    assert name_server_modules([server_id]) == {server_id: module}


@pytest.mark.req("H-014", "H-015", "H-017")
@every_row(
    ("tool", "function"),
    [
        pytest.param("admin.tools.list", "admin_tools_list", id="dots"),
        pytest.param("a.b-c_d", "a_b_c_d", id="dots, dashes and underscores"),
        pytest.param("getUser", "getUser", id="case is kept"),
        pytest.param("class", "class_", id="a keyword"),
        pytest.param("None", "None_", id="a constant"),
        pytest.param("match", "match", id="a soft keyword is a fine name"),
        pytest.param("2fa", "_2fa", id="a leading digit"),
        pytest.param("__init__", "_init__", id="a dunder"),
        pytest.param("", "_e3b0c4", id="nothing"),
        pytest.param("list", "list_", id="a builtin that generated code uses"),
        pytest.param("call_tool", "call_tool_", id="a name that generated code imports"),
        pytest.param("naïve", "na_ve", id="not ASCII"),
    ],
)
def test_tool_functions_follow_the_rules(tool: str, function: str) -> None:
    assert name_tool_functions([tool]) == {tool: function}


@pytest.mark.req("H-017")
def test_in_a_collision_the_name_that_is_its_own_identifier_keeps_it() -> None:
    assert name_tool_functions(["get-x", "get_x", "get.x"]) == {
        "get_x": "get_x",
        "get-x": "get_x_e64bf8",
        "get.x": "get_x_e8860c",
    }


def test_a_claimed_suffix_gets_a_longer_one() -> None:
    claimed = name_tool_functions(["get-x", "get.x"])["get-x"]
    names = name_tool_functions(["get-x", "get.x", claimed])
    assert names[claimed] == claimed
    assert len(names["get-x"]) == len(claimed) + 2


@pytest.mark.req("H-037")
@pytest.mark.parametrize("length", [128, 129, 5000])
def test_identifiers_of_long_names_fit_into_file_names(length: int) -> None:
    (identifier,) = name_tool_functions(["x" * length]).values()
    assert len(identifier) <= LENGTH_MAX


def test_sync_functions_stay_apart_from_tools_of_that_name() -> None:
    functions = name_tool_functions(["get", "get_sync", "get-sync"])
    sync = name_sync_functions(functions)
    assert len({*functions.values(), *sync.values()}) == 6
    assert functions["get_sync"] == "get_sync"


def test_sync_functions_step_aside_again_when_their_second_choice_is_taken() -> None:
    first = name_sync_functions({"get": "get", "get_sync": "get_sync"})["get"]
    sync = name_sync_functions({"get": "get", "get_sync": "get_sync", first: first})
    assert sync["get"] not in {"get_sync", first}


def test_files_never_differ_in_case_only() -> None:
    functions = name_tool_functions(["getUser", "GetUser", "getuser", "other"])
    files = name_files(functions)
    assert files["getuser"] == "getuser"
    assert files["other"] == "other"
    assert len({name.lower() for name in files.values()}) == 4


def test_a_file_steps_aside_again_when_its_second_choice_is_taken() -> None:
    first = name_files({"A": "A", "a": "a"})["A"]
    files = name_files({"A": "A", "a": "a", first.lower(): first.lower()})
    assert len({name.lower() for name in files.values()}) == 3


@pytest.mark.req("H-015", "H-017")
@every_row(
    ("tool", "function"),
    [
        pytest.param("get_document", "getDocument", id="the guide's example"),
        pytest.param("API-get-user", "APIGetUser", id="capitals stay"),
        pytest.param("admin.tools.list", "adminToolsList", id="dots"),
        pytest.param("delete", "delete_", id="a reserved word"),
        pytest.param("await", "await_", id="a word that only modules reserve"),
        pytest.param("then", "then_", id="what would make a promise of the module"),
        pytest.param("tools", "tools_", id="a name that generated code exports"),
        pytest.param("__proto__", "Proto", id="a dunder"),
        pytest.param("2fa", "_2fa", id="a leading digit"),
        pytest.param("getUser", "getUser", id="camel case stays"),
    ],
)
def test_js_functions_are_camel_case(tool: str, function: str) -> None:
    assert name_js_functions([tool]) == {tool: function}


@pytest.mark.req("I-023")
def test_modules_of_tools_have_the_names_that_ipybox_gives_them() -> None:
    wanted = {"brave_image_search": "brave_image_search", "Get-User.All": "get_user_all", "naïve": "na_ve"}
    assert name_tool_modules(wanted) == wanted


def test_enum_members_avoid_what_enums_and_strings_own() -> None:
    names = name_enum_members(["name", "_x_", "title", "stars"])
    assert names == {"name": "name_", "_x_": "v__x_", "title": "title_", "stars": "stars"}


def test_pascal_joins_words() -> None:
    assert pascal("get_all-rows.now") == "GetAllRowsNow"


@pytest.mark.req("H-017", "X-05")
@pytest.mark.parametrize("allocator", [*ALLOCATORS, name_js_functions])
@given(names=_names)
def test_allocation_is_injective_and_valid(allocator: Callable[[list[str]], dict[str, str]], names: list[str]) -> None:
    allocated = allocator(names)
    assert set(allocated) == set(names)
    assert len(set(allocated.values())) == len(set(names))
    for identifier in allocated.values():
        assert identifier.isidentifier()
        assert identifier.isascii()
        assert len(identifier) <= LENGTH_MAX + 1
        assert not keyword.iskeyword(identifier)
        assert not identifier.startswith("__")


@pytest.mark.req("H-017")
@pytest.mark.parametrize("allocator", ALLOCATORS)
@given(names=_names, random=st.randoms())
def test_allocation_does_not_depend_on_order(
    allocator: Callable[[list[str]], dict[str, str]], names: list[str], random: object
) -> None:
    shuffled = [*names]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert allocator(shuffled) == allocator(names)


@given(names=_names, more=st.lists(st.text(alphabet="QZ", min_size=9, max_size=12)))
def test_unrelated_names_change_nothing(names: list[str], more: list[str]) -> None:
    before, after = name_tool_functions(names), name_tool_functions([*names, *more])
    assert {name: after[name] for name in names} == before


@given(names=_names)
def test_modules_are_distinct_on_any_file_system(names: list[str]) -> None:
    for allocator in (name_server_modules, name_tool_modules):
        modules = [module.lower() for module in allocator(names).values()]
        assert len(set(modules)) == len(modules)
    files = [file.lower() for file in name_files(name_tool_functions(names)).values()]
    assert len(set(files)) == len(files)


def test_claimed_suffixes_cannot_stop_the_allocator() -> None:
    names = {"a-", "a."}
    for _ in range(12):
        names |= set(allocate(names, lambda name: name.replace("-", "_").replace(".", "_")).values())
    allocated = allocate(names, lambda name: name.replace("-", "_").replace(".", "_"))
    assert len(set(allocated.values())) == len(names)
