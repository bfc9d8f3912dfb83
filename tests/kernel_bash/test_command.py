"""The command `moonpool` inside a sandbox: calls from bash, its jobs and any program; what it prints; exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from kernel_bash.probing import BashProbe
from moonpool.sandboxes.base import SandboxSpec, TreeRef
from sandboxes.images import readable_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.zygote import ZygoteBackend

pytestmark = pytest.mark.anyio


def _parameter(name: str, kind: str, *, required: bool = False, about: str = "") -> dict[str, object]:
    return {"name": name, "type": kind, "required": required, "description": about}


def _tool(name: str, parameters: list[dict[str, object]] | None, count: int, summary: str = "") -> dict[str, object]:
    python = name.replace("-", "_").replace(".", "_")
    return {
        "name": name,
        "python": python,
        "node": python,
        "summary": summary,
        "readOnly": True,
        "parameters": parameters,
        "parameterCount": count,
    }


INDEX = {
    "version": 1,
    "servers": [
        {
            "id": "my.sheets",
            "module": "my_sheets",
            "title": "Sheets",
            "tools": [
                _tool(
                    "get-rows",
                    [_parameter("sheetId", "string", required=True, about="Which."), _parameter("limit", "number")],
                    2,
                    "Rows of a sheet.",
                ),
                _tool("admin.list", [], 0, "Lists. " + "x" * 300),
            ],
        },
        {"id": "echo", "module": "echo", "title": "", "tools": [_tool("big", None, 900)]},
    ],
}


@pytest.fixture
async def shown(backend: ZygoteBackend, image: ImageSpec) -> AsyncGenerator[BashProbe]:
    """A sandbox that shows `INDEX`; its broker knows those names only."""
    with readable_folder() as folder:
        (folder / "index.json").write_text(json.dumps(INDEX), encoding="utf-8")
        with anyio.fail_after(20):
            spec = SandboxSpec(image=image, tree=TreeRef(path=folder, digest="sha256:index"))
            sandbox = await backend.open_sandbox(spec)
        yield BashProbe(sandbox, _only_shown)
        with anyio.fail_after(20):
            await sandbox.close()


def _only_shown(call: object, arguments: object) -> object:
    name = (getattr(call, "server", ""), getattr(call, "tool", ""))
    if name in {("my.sheets", "get-rows"), ("my.sheets", "admin.list")}:
        return {"ok": True, "data_from": "structured", "raw": {"structuredContent": [*name, arguments]}}
    return {"ok": False, "error": {"type": "UnknownTool", "message": f"no {name}", "retryable": False}}


# --- arguments and data


@pytest.mark.req("H-012")
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        pytest.param("moonpool call s.t", {}, id="none"),
        pytest.param("""moonpool call s.t '{"a": [1, null], "b": "ü\\n"}'""", {"a": [1, None], "b": "ü\n"}, id="word"),
        pytest.param("""echo '{"a": 1}' > a.json; moonpool call s.t @a.json""", {"a": 1}, id="file"),
        pytest.param("""echo '{"a": 2}' | moonpool call s.t -""", {"a": 2}, id="standard input"),
        pytest.param("""moonpool call s.t - <<< '{"a": 3}'""", {"a": 3}, id="here string"),
        pytest.param("""sh -c 'moonpool call s.t "{\\"a\\": 4}"'""", {"a": 4}, id="from sh"),
        pytest.param("""env -i /moonpool/moonpool_guest/bin/moonpool call s.t '{"a": 5}'""", {"a": 5}, id="bare"),
        pytest.param("""cd /; x=$(moonpool call s.t '{"a": 6}') && echo "$x" """, {"a": 6}, id="in a substitution"),
    ],
)
async def test_arguments_arrive_as_they_are_given(bash: BashProbe, command: str, arguments: object) -> None:
    run = await bash.run(command)
    assert run.stderr == ""
    assert json.loads(run.stdout) == {"server": "s", "tool": "t", "arguments": arguments}
    assert run.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"ok": True, "data_from": "structured", "raw": {"structuredContent": {"ü": [1.5, None]}}}, '{"ü":[1.5,null]}'),
        ({"ok": True, "data_from": "text", "raw": {"content": [{"type": "text", "text": "a\nb"}]}}, '"a\\nb"'),
        ({"ok": True, "data_from": "json_text", "raw": {"content": [{"type": "text", "text": "[1, 2]"}]}}, "[1,2]"),
        ({"ok": True, "data_from": "content", "raw": {"content": [{"type": "image"}]}}, '[{"type":"image"}]'),
        ({"ok": True, "data_from": "structured", "raw": {"structuredContent": "\ud800ü"}}, '"\\ud800\\u00fc"'),
    ],
)
async def test_the_data_is_one_line_of_json(bash: BashProbe, reply: object, said: str) -> None:
    bash.always_answer(reply)
    assert (await bash.run("moonpool call s.t")).stdout == f"{said}\n"


async def test_raw_prints_the_servers_whole_answer(bash: BashProbe) -> None:
    run = await bash.run("moonpool call --raw s.t '{\"a\": 1}'; moonpool call s.t --raw")
    first, second = map(json.loads, run.stdout.splitlines())
    assert first == {"structuredContent": {"server": "s", "tool": "t", "arguments": {"a": 1}}}
    assert second["structuredContent"]["arguments"] == {}


async def test_the_data_is_the_result_of_the_execution(bash: BashProbe) -> None:
    run = await bash.run("echo words; moonpool call s.t '{\"n\": 1}'")
    assert run.done is not None
    assert not run.done.has_result  # the host takes the last line
    assert json.loads(run.stdout.splitlines()[-1])["arguments"] == {"n": 1}


@pytest.mark.parametrize("size", [100_000, 5_000_000])
async def test_large_arguments_and_results_pass(bash: BashProbe, size: int) -> None:
    run = await bash.run(
        f"(printf '{{\"a\":\"'; head -c {size} /dev/zero | tr '\\0' x; printf '\"}}') > big\n"
        "moonpool call s.t @big > back; wc -c < back; moonpool call s.t - < big | cmp - back && echo same"
    )
    around = len('{"server":"s","tool":"t","arguments":{"a":""}}\n')
    assert run.stdout.split() == [str(size + around), "same"], run.stderr


async def test_arguments_over_the_limit_are_refused_here(bash: BashProbe) -> None:
    run = await bash.run(
        "(printf '{\"a\":\"'; head -c 17000000 /dev/zero | tr '\\0' x; printf '\"}') | moonpool call s.t -; echo $?"
    )
    assert run.stdout == "2\n"
    assert "16,777,216 bytes" in run.stderr
    assert run.calls == []


# --- failures and exit codes


async def test_a_failing_tool_is_exit_code_1_and_json_on_stderr(bash: BashProbe) -> None:
    bash.always_answer(
        {"ok": False, "error": {"type": "PolicyDenied", "message": "no", "retryable": False}, "raw": None}
    )
    run = await bash.run("moonpool call s.t; echo $?")
    assert run.stdout == "1\n"
    assert json.loads(run.stderr) == {"type": "PolicyDenied", "message": "no", "retryable": False}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("moonpool call", "SERVER.TOOL"),
        ("moonpool call s", "'s' is no SERVER.TOOL"),
        ("moonpool call s.t 1 2", "at most one"),
        ("moonpool call s.t '[1]'", "must be a JSON object"),
        ("moonpool call s.t '{'", "not JSON"),
        ("moonpool call s.t @nosuch", "nosuch: No such file"),
        ("moonpool call s.t @/tmp", "Is a directory"),
        ("moonpool call s.t - < /dev/null", "not JSON"),
        ("moonpool cal s.t", "no command 'cal'"),
        ("moonpool tools a b", "at most one"),
    ],
)
async def test_a_wrong_command_line_is_exit_code_2_with_the_remedy(bash: BashProbe, command: str, said: str) -> None:
    run = await bash.run(f"{command}; echo $?")
    assert run.stdout == "2\n"
    assert said in run.stderr
    assert run.stderr.startswith("moonpool: ")
    assert run.calls == []


@pytest.mark.parametrize("words", ["", "--help", "-h", "help", "call --help", "tools -h"])
async def test_help(bash: BashProbe, words: str) -> None:
    run = await bash.run(f"moonpool {words}")
    assert "moonpool call [--raw] SERVER.TOOL" in run.stdout


async def test_python_code_is_told_to_use_wrappers(bash: BashProbe) -> None:
    run = await bash.python(
        "import subprocess\n"
        "run = subprocess.run(['moonpool', 'call', 's.t'], capture_output=True, text=True)\n"
        "result = [run.returncode, run.stdout, run.stderr]"
    )
    said = str(run.result)
    assert said.startswith("[3, '', ")
    assert "servers.<module>" in said
    assert "Traceback" not in said


async def test_a_call_after_the_end_of_its_execution_is_refused(bash: BashProbe) -> None:
    await bash.run("mkfifo go; (read < go; moonpool call s.t; echo exit=$?) > said 2>&1 & true")
    run = await bash.python(
        "import time\nopen('go', 'w').write('x\\n')\n"
        "while 'exit=' not in (said := open('said').read()): time.sleep(0.01)\nresult = said"
    )
    assert str(run.result).endswith("exit=3\n")
    assert run.calls == []


async def test_a_call_that_outlives_its_execution_is_given_up(bash: BashProbe) -> None:
    bash.leave_open("hang", "gate")
    bash.start("(moonpool call s.hang > said 2>&1; echo exit=$? >> said) & moonpool call s.gate")
    run = await bash.until(lambda run: len(run.calls) == 2)
    for call in run.calls:
        if call.tool == "gate":
            bash.answer(call, {"ok": True, "data_from": "structured", "raw": {}})
    await bash.finish()
    run = await bash.python(
        "import time\nwhile 'exit=' not in (said := open('said').read()): time.sleep(0.01)\nresult = said"
    )
    assert "the call was given up" in str(run.result)
    assert str(run.result).endswith("exit=3\n")


# --- many at once


@pytest.mark.req("H-060")
async def test_jobs_and_xargs_call_at_the_same_time(bash: BashProbe) -> None:
    run = await bash.run(
        "seq 1 16 | xargs -P 8 -I N moonpool call s.t '{\"n\": N}' > answers\n"
        'for n in 17 18 19 20; do moonpool call s.t "{\\"n\\": $n}" >> answers & done; wait; cat answers'
    )
    numbers = [json.loads(line)["arguments"]["n"] for line in run.stdout.splitlines()]
    assert sorted(numbers) == list(range(1, 21)), run.stderr


async def test_calls_wait_beside_each_other(bash: BashProbe) -> None:
    bash.leave_open("hang")
    bash.start("moonpool call s.hang & moonpool call s.hang & moonpool call s.quick; wait")
    run = await bash.until(lambda run: len(run.calls) == 3 and "quick" in run.stdout)
    for call in run.calls:
        if call.tool == "hang":
            bash.answer(call, {"ok": True, "data_from": "structured", "raw": {"structuredContent": call.id}})
    run = await bash.finish()
    assert len(run.stdout.splitlines()) == 2


async def test_a_killed_caller_gives_up_its_call_and_no_other(bash: BashProbe) -> None:
    bash.leave_open("hang", "gate")
    bash.start("moonpool call s.hang & caller=$!; moonpool call s.gate; kill -9 $caller; wait; moonpool call s.t")
    run = await bash.until(lambda run: len(run.calls) == 2)
    hanging, gate = sorted(run.calls, key=lambda call: call.tool, reverse=True)
    bash.answer(gate, {"ok": True, "data_from": "structured", "raw": {"structuredContent": "open"}})
    run = await bash.finish()
    assert json.loads(run.stdout.splitlines()[-1])["tool"] == "t"
    bash.answer(hanging, {"ok": True, "data_from": "structured", "raw": {"structuredContent": "late"}})
    assert json.loads((await bash.run("moonpool call s.t")).stdout)["tool"] == "t"


# --- the list


async def test_tools_are_listed_one_a_line(shown: BashProbe) -> None:
    run = await shown.run("moonpool tools; moonpool tools my_sheets | wc -l; moonpool tools echo")
    lines = run.stdout.splitlines()
    assert lines[0] == "my.sheets.get-rows(sheetId: string, limit?: number)  Rows of a sheet."
    assert lines[1].startswith("my.sheets.admin.list()  Lists. xxx")
    assert len(lines[1]) == 200
    assert lines[2:] == ["echo.big(...)", "2", "echo.big(...)"]


async def test_one_tool_is_described_with_an_example(shown: BashProbe) -> None:
    run = await shown.run("moonpool tools my.sheets.get-rows")
    assert run.stdout == (
        "my.sheets.get-rows\n    Rows of a sheet.\n\nparameters\n    sheetId: string  Which.\n    limit?: number\n\n"
        """moonpool call my.sheets.get-rows '{"sheetId": "..."}'\n"""
    )
    assert "not listed" in (await shown.run("moonpool tools echo.big")).stdout
    assert "no parameters" in (await shown.run("moonpool tools my.sheets.admin.list")).stdout


@pytest.mark.parametrize(
    "name", ["my.sheets.get-rows", "my_sheets.get-rows", "my_sheets.get_rows", "my.sheets.get_rows"]
)
async def test_a_tool_is_called_by_any_of_its_names_and_once(shown: BashProbe, name: str) -> None:
    asked: list[object] = []

    def broker(call: object, arguments: object) -> object:
        asked.append(call)
        return _only_shown(call, arguments)

    shown.broker = broker
    run = await shown.run(f'moonpool call {name} \'{{"sheetId": "q"}}\'')
    assert json.loads(run.stdout) == ["my.sheets", "get-rows", {"sheetId": "q"}], run.stderr
    assert len(asked) == 1


async def test_no_server_takes_the_calls_of_one_whose_name_begins_like_its_own(bash: BashProbe) -> None:
    code = """python3 -c '
import sys; sys.path.insert(0, "/moonpool/moonpool_guest/bin/lib")
from moonpool_command import index
tool = dict(python="", node="")
index.servers = lambda: [dict(id="a", module="a", tools=[{"name": "b.c", **tool}]),
                         dict(id="a.b", module="a_b", tools=[{"name": "c", **tool}])]
print(index.find("a.b.c"))'"""
    assert (await bash.run(code)).stdout == "('a.b', 'c')\n"


async def test_an_unknown_name_gets_the_nearest(shown: BashProbe) -> None:
    run = await shown.run("moonpool tools my.sheets.get-row; echo $?; moonpool call my.sheets.nosuch; echo $?")
    assert run.stdout == "2\n1\n"
    assert "did you mean 'my.sheets.get-rows'?" in run.stderr
    assert '"UnknownTool"' in run.stderr
    run = await shown.run("moonpool call get-rows '{}'; moonpool call get-row; moonpool call get.rows; echo $?")
    assert json.loads(run.stdout.splitlines()[0]) == ["my.sheets", "get-rows", {}]  # the only one that is called so
    assert "'get-row' is no SERVER.TOOL; did you mean my.sheets.get-rows?" in run.stderr


async def test_a_sandbox_without_tools_says_so(bash: BashProbe) -> None:
    run = await bash.run("moonpool tools; echo $?")
    assert run.stdout == "3\n"
    assert "no tools" in run.stderr
