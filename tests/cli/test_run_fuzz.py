"""Small programs nobody thought of: each leaves one line that parses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps import open_app
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelope_line import LINE_BYTES_MAX, envelope_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moonpool.engine.envelope_line import EnvelopeLine

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
_fixed = st.sampled_from(
    [
        *("pass", "1/0", "raise SystemExit(2)", "raise KeyboardInterrupt", "raise BaseException('b')", "return"),
        *("import os; os._exit(0)", "import os; os._exit(1)", "import os; os.close(1)", "import os; os.close(3)"),
        *("import os; os.kill(os.getpid(), 15)", "import ctypes; ctypes.string_at(0)", "import gc; gc.collect()"),
        *("import sys; sys.stdout = None", "import sys; sys.stderr.close()", "import sys; sys.modules.clear()"),
        *("del __builtins__", "result = result", "result = ...", "result = print", "result = open('/etc/passwd')"),
        *(
            "print('{\"a\": 1}')",
            "print('NaN')",
            "print('\\ud800')",
            "print('[1', end='')",
            "import json; json.dumps = 1",
        ),
        *("import asyncio; await asyncio.sleep(0)", "import asyncio; asyncio.run(asyncio.sleep(0))", "yield 1"),
        *("result = []; result.append(result)", "class R:\n    def __del__(self): print(1)\nresult = R()"),
        *(
            "import threading; threading.Thread(target=lambda: 1/0).start()",
            "import atexit; atexit.register(lambda: 1/0)",
        ),
        *(
            "import builtins; builtins.repr = None",
            "import os; os.fork()",
            "import signal; signal.alarm(0)",
            "x = 1\n  y",
        ),
        *("from __future__ import annotations", "import servers.nope", "import os; os.write(1, b'\\xff\\xfe\\n')"),
    ]
)
_statements = (
    _fixed
    | _values.map(lambda value: f"result = {value!r}")
    | _values.map(lambda value: f"print({value!r})")
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)


@pytest.fixture(scope="module")
def run_line() -> Iterator[Callable[[str], EnvelopeLine]]:
    """Runs code in a sandbox of its own and returns its line."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(open_app()) as app:

        async def run(code: str) -> EnvelopeLine:
            request = CodeRequest(code=code.encode("utf-8", "surrogatepass"), timeout_s=5)
            return envelope_line(await app.runtime.run(request, app.caller_grant))

        yield lambda code: portal.call(run, code)


@pytest.mark.req("H-018", "H-088")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(statements=st.lists(_statements, min_size=1, max_size=4))
def test_every_program_leaves_one_line_that_parses(
    run_line: Callable[[str], EnvelopeLine], statements: list[str]
) -> None:
    try:
        answer = run_line("\n".join(statements))
    except InputError:
        return  # white space, NUL or half a surrogate pair: said in a sentence before anything runs
    assert len(answer.line) <= LINE_BYTES_MAX
    assert answer.line.endswith(b"\n")
    (line,) = answer.line.decode().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["result"]["ok"] is answer.ok
