"""Environment variables of one execution: which there may be, where they show, and where they do not."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import InputError
from moonpool.core.variables import RESERVED, RESERVED_TEXT, check_variables
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from moonpool.bootstrap import Tenant
    from stored_files.executions import Executions
    from stored_files.memory_trees import MemoryTree

pytestmark = pytest.mark.anyio
ODD = 'it\'s "odd" $HOME `x` \\ \n\tand äöü'


@pytest.mark.req("J-025")
@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"1A": "x"}, "must start with an uppercase letter"),
        ({"a": "x"}, "must start with an uppercase letter"),
        ({"A-B": "x"}, "must start with an uppercase letter"),
        ({"A\n": "x"}, "must start with an uppercase letter"),
        ({"Ä": "x"}, "only ASCII"),
        ({"": "x"}, "1-128 characters"),
        ({"A" * 129: "x"}, "1-128 characters"),
        ({"A": "x" * 4097}, "at most 4096 characters"),
        ({"A": "x\0"}, "null bytes or control characters"),
        ({"A": "x\x1b"}, "null bytes or control characters"),
        ({"A": "\ud800"}, "UTF-8"),
        ({"A": 1}, "must be a string, got int"),
        ({f"A{n}": "" for n in range(51)}, "maximum 50"),
        ({f"A{n}": "x" * 4000 for n in range(17)}, "64KB"),
        *(({name: "x"}, RESERVED_TEXT) for name in ("LD_X", "MOONPOOL_X", "BAPONI_KEY", "XDG_Y")),
        *(({name: "x"}, RESERVED_TEXT) for name in sorted(RESERVED)),
    ],
)
def test_what_is_refused(variables: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        check_variables(variables)


def test_what_is_taken() -> None:
    check_variables({})
    check_variables({"A": "", "A1_": ODD, **{f"B{n}": "x" * 1000 for n in range(48)}})


@pytest.mark.req("J-025", "X-10")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import json, os, subprocess; print(json.dumps([os.environ['ODD'], subprocess.getoutput('printenv ODD')]))"),
        ("node", "const { execSync } = require('node:child_process');"
                 "console.log(JSON.stringify([process.env.ODD, execSync('printenv ODD').toString().slice(0, -1)]))"),
        ("bash", "python3 -c 'import json, os, sys; print(json.dumps([sys.argv[1], os.environ[\"ODD\"]]))' \"$ODD\""),
    ],
)  # fmt: skip
async def test_code_has_them_in_three_languages(executions: Executions, language: str, code: str) -> None:
    shown = await executions.execute(code, language=language, variables={"ODD": ODD})
    assert shown.error is None
    assert ODD not in str(shown.extras["stdout"])
    assert str(shown.extras["stdout"]).count("[REDACTED:ODD]") == 2
    plain = await executions.execute(code.replace("ODD", "ODX"), language=language, variables={"ODX": "ab\n'"})
    assert json.loads(str(plain.extras["stdout"]))[0] == "ab\n'"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(os.environ.get('KEY'))"),
        ("node", "console.log(process.env.KEY)"),
        ("bash", "echo ${KEY:-None}"),
        ("bash", "echo ${KEY:-None}; exit 3"),
    ],
)
async def test_they_are_gone_at_the_next_execution_of_a_session(app: Tenant, language: str, code: str) -> None:
    session = app.runtime.session(app.caller_grant)
    try:
        said = [
            (await session.execute(CodeRequest(code=code.encode(), language=language, variables=variables))).extras
            for variables in ({}, {"KEY": "k1"}, {"KEY": "k2"}, {}, {"KEY": "k3"})
        ]
    finally:
        await session.close()
    nothing = "undefined" if language == "node" else "None"
    assert [str(one["stdout"]).strip() for one in said] == [nothing, "k1", "k2", nothing, "k3"]


@pytest.mark.req("X-10")
async def test_values_are_redacted_for_this_execution_only_and_names_are_on_record(
    executions: Executions, thread: MemoryTree
) -> None:
    secret = "a-value-of-ours"
    code = f"import os; print('{secret}'); result = '{secret}'\n"
    envelope = await executions.execute(code + f"raise ValueError('{secret}')", thread, variables={"OURS": secret})
    assert secret not in json.dumps(envelope.to_json())
    envelope = await executions.execute(code, thread, variables={"OURS": secret})
    assert envelope.data == "[REDACTED:OURS]"
    later = await executions.execute(code, thread)
    assert later.data == secret
    rows = await asyncio.to_thread(list, read_rows(journal_path(executions.app.data), tail=200))
    starts = [row.to_json() for row in rows if row.to_json()["kind"] == "execution_start"]
    assert next(row for row in starts if row["run_id"] == envelope.run_id)["variables"] == ["OURS"]
    assert secret not in json.dumps([row.to_json() for row in rows if row.to_json()["run_id"] == envelope.run_id])


async def test_a_package_in_the_users_site_of_a_thread_is_imported(executions: Executions, thread: MemoryTree) -> None:
    site = "os.path.expanduser(f'~/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages')"
    code = f"""
    import os, sys
    os.makedirs({site}); open({site} + '/mine.py', 'w').write('x = 5')
    os.makedirs('.local/bin'); open('.local/bin/tool', 'w').write('#!/bin/sh\\necho tool')
    os.chmod('.local/bin/tool', 0o755)
    """
    await executions.run(code, thread)
    assert await executions.run("import mine, subprocess; result = [mine.x, subprocess.getoutput('tool')]", thread) == [
        5,
        "tool",
    ]
    assert await executions.run("tool", thread, language="bash") == "tool\n"
    assert (await executions.execute("import mine")).error is not None


@pytest.mark.req("J-025")
@pytest.mark.skipif(not Path("/usr/bin/pip").exists(), reason="no pip of the system here")
async def test_pip_installs_into_the_thread(executions: Executions, thread: MemoryTree) -> None:
    """As Baponi's documentation has it, without a word to Debian's pip that it may."""
    wheel = """
    import zipfile
    with zipfile.ZipFile("mine-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("mine.py", "x = 5")
        wheel.writestr("mine-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n")
        wheel.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.dist-info/RECORD", "")
    """
    await executions.run(wheel, thread)
    installed = await executions.execute("pip install ./mine*.whl", thread, language="bash")
    assert installed.error is None, installed.extras
    assert any(path.startswith(".local/lib/") and path.endswith("/mine.py") for path in thread.files)
    assert await executions.run("python3 -c 'import mine; print(mine.x)'", thread, language="bash") == "5\n"
