"""However an execution ends: exactly one line on stdout, a true exit code, everything else on stderr."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool, run_code

if TYPE_CHECKING:
    from pathlib import Path


FORK = """
import os
pid = os.fork()
if pid == 0:
    os.write(1, b'{"child": 1}\\n')
    os._exit(0)
os.waitpid(pid, 0)
result = 2
"""
THREADS = """
import threading
for _ in range(20):
    threading.Thread(target=print, args=("t" * 1000,)).start()
result = 3
"""


@pytest.mark.req("H-018", "H-027")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("import sys; sys.exit(3)", "SystemExit", id="exit with a status"),
        pytest.param("import sys; sys.exit('why')", "SystemExit", marks=pytest.mark.slow, id="exit with a text"),
        pytest.param("import os; os._exit(0)", "KernelExited", id="end without goodbye"),
        pytest.param("import ctypes; ctypes.string_at(0)", "KernelKilled", id="segfault"),
        pytest.param("import os; os.abort()", "KernelKilled", marks=pytest.mark.slow, id="abort"),
        pytest.param("bytearray(2**31)", "MemoryError", id="out of memory"),
        pytest.param("def f(): f()\nf()", "RecursionError", marks=pytest.mark.slow, id="endless recursion"),
        pytest.param("while True: pass", "Timeout", id="endless loop"),
        pytest.param("import time; time.sleep(60)", "Timeout", marks=pytest.mark.slow, id="sleep"),
        pytest.param("1/0", "ZeroDivisionError", id="exception"),
        pytest.param("x = (", "SyntaxError", marks=pytest.mark.slow, id="syntax error"),
        pytest.param("result = 'x' * 10_000_000", "OutputTooLarge", id="result of 10 MB"),
        pytest.param(
            "result = '\\u2028' * 20_000", "OutputTooLarge", marks=pytest.mark.slow, id="line that grows by escapes"
        ),
        pytest.param("print('x' * 40_000_000)", "OutputTooLarge", id="print of 40 MB"),
        pytest.param("result = float('nan')", "ResultNotSerializable", marks=pytest.mark.slow, id="NaN"),
        pytest.param("result = '\\ud800'", "ResultNotSerializable", id="lone surrogate"),
        pytest.param("result = {1, 2}", "ResultNotSerializable", marks=pytest.mark.slow, id="a set"),
        pytest.param(
            "import signal, os; os.kill(0, signal.SIGTERM); raise SystemExit(1)", "KernelKilled", id="kill all"
        ),
        pytest.param("import signal, os; os.kill(1, signal.SIGKILL)", "KernelKilled", id="kill itself"),
    ],
)
def test_a_failing_program_leaves_one_line(tmp_path: Path, code: str, expected: str) -> None:
    ended = run_code(tmp_path, code, "--timeout", "2" if expected == "Timeout" else "50")
    assert ended.error_type == expected


def test_a_traceback_shows_the_programs_own_frames_only(tmp_path: Path) -> None:
    ended = run_code(tmp_path, "def f():\n    return 1 / 0\nf()")
    assert ended.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert 'File "<stdin>", line 2, in f' in ended.stderr
    assert "moonpool" not in ended.stderr


@pytest.mark.req("H-018", "H-021", "H-029")
@pytest.mark.parametrize(
    ("code", "data"),
    [
        pytest.param("result = [1, None, 'ä']", [1, None, "ä"], id="a result"),
        pytest.param("x = 1", None, marks=pytest.mark.slow, id="nothing at all"),
        pytest.param("print('{\"a\": 1}')", {"a": 1}, id="a last line of JSON"),
        pytest.param("import sys; sys.exit(0)", None, marks=pytest.mark.slow, id="exit with 0"),
        pytest.param("print('x' * 200_000); result = 1", 1, id="print of 200 kB"),
        pytest.param(
            "result = 'a\\u2028b\\u2029c\\x85d\\ne'",
            "a\u2028b\u2029c\x85d\ne",
            marks=pytest.mark.slow,
            id="line ends in data",
        ),
        pytest.param("result = 'x' * 61_000", "x" * 61_000, id="a large result"),
        pytest.param(FORK, 2, id="a child that writes to fd 1"),
        pytest.param(THREADS, 3, id="threads that print"),
        pytest.param("import os, sys\nos.close(1); os.close(2); result = 4", 4, id="closed streams"),
    ],
)
def test_a_program_that_succeeds_leaves_one_line(tmp_path: Path, code: str, data: object) -> None:
    ended = run_code(tmp_path, code)
    assert ended.result["ok"], ended.stderr
    assert ended.result["data"] == data


@pytest.mark.req("H-019", "H-024", "H-082")
def test_whatever_the_program_logs_goes_to_stderr(tmp_path: Path) -> None:
    code = """
import logging, os, sys, warnings, ctypes
print("by print")
logging.basicConfig(); logging.warning("by logging")
warnings.warn("by warnings")
os.write(1, b"by fd 1\\n"); os.write(2, b"by fd 2\\n")
ctypes.CDLL(None).puts(b"by C")
ctypes.CDLL(None).fflush(None)
result = "done"
"""
    ended = run_code(tmp_path, code)
    assert ended.result["data"] == "done"
    said = ("by print", "by logging", "by warnings", "by fd 1", "by fd 2", "by C")
    assert [word for word in said if word not in ended.stderr] == []


@pytest.mark.req("H-023", "H-025", "H-032")
def test_the_envelope_holds_true_digests_and_stays_small_beside_its_result(tmp_path: Path) -> None:
    code = "result = {'b': 1, 'a': [1.5, 'ä']}"
    envelope = run_code(tmp_path, code).envelope
    canonical = json.dumps({"a": [1.5, "ä"], "b": 1}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert envelope["input_digest"] == "sha256:" + hashlib.sha256(code.encode()).hexdigest()
    assert envelope["output_digest"] == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert envelope["approval_state"] == "NOT_REQUIRED"
    assert envelope["run_id"] != envelope["trace_id"]
    assert isinstance(envelope["duration_ms"], int)
    assert len(json.dumps({**envelope, "result": None})) < 2048


@pytest.mark.req("H-020")
@pytest.mark.parametrize("chars", [60 * 1024 // 2 - 1, 60 * 1024 // 2])
def test_the_limit_of_a_result_counts_bytes_not_characters(tmp_path: Path, chars: int) -> None:
    ended = run_code(tmp_path, f"result = 'ä' * {chars}")
    assert ended.result["ok"] is (2 * chars + 2 <= 60 * 1024)


@pytest.mark.slow
def test_a_file_whose_name_is_no_text_runs_like_any_other(tmp_path: Path) -> None:
    name = b"\xff\xfe odd.py"
    (tmp_path / os.fsdecode(name)).write_text("1/0", encoding="utf-8")
    for options in ([], ["--session", "odd"]):
        ended = moonpool(tmp_path, "run", name, *options)
        assert ended.error_type == "ZeroDivisionError", ended.stderr
    moonpool(tmp_path, "session", "close", "odd")
