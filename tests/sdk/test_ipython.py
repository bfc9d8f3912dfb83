"""IPython's semantics in the environment data: one session, because its zygote takes a second to start."""

from __future__ import annotations

from typing import Any

import pytest

import moonpool

pytestmark = pytest.mark.anyio

ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("6 * 7", {"data": 42, "text": "42"}),
    ("_ + 1", {"data": 43}),
    ("In[1], Out[1]", {"data": ["6 * 7", 42]}),
    ("!echo hi; exit 3", {"stdout": "hi\n"}),
    ("_exit_code", {"data": 3}),
    ("x = !printf 'a\\nb\\n'\nx", {"data": ["a", "b"]}),
    ("name = 'w'\ndef f():\n    inner = 5\n    !echo {name} {inner}\nf()\nNone", {"stdout": "w 5\n"}),
    ("%%bash\necho $((2 * 3))\ncat <<< done", {"stdout": "6\ndone\n"}),
    ("%%sh\nexit 4", {"error": "CalledProcessError"}),
    ("len?", {"stdout": "Signature: len(obj, /)"}),
    ("%timeit -n1 -r1 1 + 1", {"stdout": "1 run, 1 loop each"}),
    ("%matplotlib inline", {}),
    ("%pip install six", {"error": "RuntimeError", "message": "nobody allowed it"}),
    ("import asyncio\nawait asyncio.sleep(0)\n'slept'", {"data": "slept"}),
    ("y = 1\n\n1 / 0", {"error": "ZeroDivisionError", "stderr": "line 3, in <module>"}),
    ("for i in range(2):\n    bad syntax", {"error": "SyntaxError", "message": "line 2"}),
    ("import pandas as pd\npd.DataFrame({'a': [1]})", {"text": "   a\n0  1", "display": "text/html"}),
    ("from IPython.display import Markdown, display\ndisplay(Markdown('*m*'))", {"display": "text/markdown"}),
    (
        "from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
        {"display": "image/svg+xml"},
    ),
    ("import matplotlib.pyplot as plt\nline = plt.plot([1, 2])", {"display": "image/png"}),
    ("def g():\n    return get_ipython().__class__.__name__\ng()", {"data": "InteractiveShell"}),
    ("import threading; threading.active_count()", {"data": 1}),
    ("import requests\nrequests.get('http://127.0.0.1:9/')", {"error": "ConnectionError"}),
)


@pytest.mark.req("P-011")
@pytest.mark.slow  # builds the environment data
@pytest.mark.timeout(300)
async def test_code_is_read_as_ipython_reads_it() -> None:
    async with moonpool.session(environment="data") as s:
        for code, wanted in ROWS:
            result = await s.run(code)
            found = {
                "data": result.data,
                "text": result.text,
                "stdout": result.stdout,
                "stderr": result.stderr,
                "error": result.error.type if result.error else None,
                "message": result.error.message if result.error else "",
                "display": result.displays[0].mime if result.displays else "",
            }
            for name, value in {"error": None, **wanted}.items():
                if name in {"stdout", "stderr", "message"}:
                    assert value in found[name], (code, found)
                else:
                    assert found[name] == value, (code, found)
        shown = (await s.run("x = pd.DataFrame({'b': ['<b>']}); x")).displays[0]
        assert shown.forms["text/plain"] == "     b\n0  <b>"
        assert b"&lt;b&gt;" in shown.data
        many = await s.run("for n in range(50): display(Markdown('x' * 100_000))\ndisplay(Markdown('y' * 2**20))")
        assert (many.ok, len(many.displays)) == (True, 32)


async def test_magics_are_no_python_in_other_environments() -> None:
    async with moonpool.session() as s:
        assert (await s.run("%time 1")).error.type == "SyntaxError"  # pyright: ignore[reportOptionalMemberAccess]
