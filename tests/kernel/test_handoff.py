"""Values to JSON: what goes through, and one clear sentence for each thing that does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from moonpool_guest.python import handoff, pictures

if TYPE_CHECKING:
    from pathlib import Path

    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio

PRELUDE = """
import collections, dataclasses, datetime, decimal, enum, math, pathlib, sys, types, uuid
class Colour(enum.Enum): RED = "red"
class Level(enum.IntEnum): HIGH = 3
class Text(str): pass
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Point:
    x: int
    y: object = None
class Model:
    def model_dump(self): return {"model": 1}
class Reply:
    def __moonpool_json__(self): return {"reply": [1]}
class Broken:
    def __str__(self): raise ValueError("no text")
    __repr__ = __str__
class DataFrame: pass
class Node:
    def __moonpool_json__(self): return [self]
cycle = []; cycle.append({"again": cycle})
deep = []
for _ in range(100): deep = [deep]
class Raises:
    def __moonpool_json__(self): raise KeyError("inside")
async def coroutine(): pass
"""


@pytest.mark.req("H-028")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[None, True, False, 0, -1, 1.5, 'ä€😀']", [None, True, False, 0, -1, 1.5, "ä€😀"]),
        ("(1, (2, 3))", [1, [2, 3]]),
        ("Pair(1, 2)", [1, 2]),
        ("{1: 'a', None: 'b', True: 'c', 2.5: 'd'}", {"1": "c", "null": "b", "2.5": "d"}),
        ("collections.OrderedDict(a=1)", {"a": 1}),
        ("collections.Counter('aab')", {"a": 2, "b": 1}),
        ("[Colour.RED, Level.HIGH, {Colour.RED.value: 1, Level.HIGH: 2}]", ["red", 3, {"red": 1, "3": 2}]),
        ("Text('t')", "t"),
        ("10 ** 30", 10**30),
        ("[datetime.date(2026, 11, 21), datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.time(6)]",
         ["2026-11-21", "2026-01-02T03:04:05", "06:00:00"]),
        ("pathlib.PurePosixPath('/a/b')", "/a/b"),
        ("Point(1, Point(2))", {"x": 1, "y": {"x": 2, "y": None}}),
        ("Model()", {"model": 1}),
        ("{'deep': Reply()}", {"deep": {"reply": [1]}}),
        ("'\\0\\x1f\\u2028'", "\0\x1f\u2028"),
        ("[same := [1], same, same]", [[1], [1], [1]]),
        ("{}", {}),
        ("''", ""),
    ],
)  # fmt: skip
async def test_values_that_json_can_hold(kernel: Probe, value: str, expected: object) -> None:
    run = await kernel.run(f"{PRELUDE}\nresult = {value}")
    assert run.result == expected
    assert json.dumps(expected, ensure_ascii=False, separators=(",", ":")).encode() == run.body


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("math.nan", "result is nan, which JSON cannot hold; use None or a string"),
        ("{'rows': [1, -math.inf]}", "result['rows'][1] is -inf, which JSON cannot hold; use None or a string"),
        ("['\\ud800x']", "result[0] holds a lone surrogate ('\\ud800'), which is not text; "
         'use .encode("utf-8", "replace").decode()'),
        ("{'\\udc00': 1}", "a key of result holds a lone surrogate ('\\udc00'), which is not text; "
         'use .encode("utf-8", "replace").decode()'),
        ("{Text('\\udc00'): 1}", "a key of result holds a lone surrogate ('\\udc00'), which is not text; "
         'use .encode("utf-8", "replace").decode()'),
        ("{'s': {1}}", "result['s'] is a set, which JSON cannot hold; use sorted(...) or list(...)"),
        ("frozenset()", "result is a frozenset, which JSON cannot hold; use sorted(...) or list(...)"),
        ("b'x'", "result is a bytes, which JSON cannot hold; decode it, or write it to a file in /workspace"),
        ("coroutine()", "result is a coroutine, which JSON cannot hold; write `await` before the call"),
        ("len", "result is a builtin_function_or_method, which JSON cannot hold; call it and return what it gives"),
        ("[lambda: 1]", "result[0] is a function, which JSON cannot hold; call it and return what it gives"),
        ("Point", "result is a type, which JSON cannot hold; call it and return what it gives"),
        ("range(3)", "result is a range, which JSON cannot hold; use list(...)"),
        ("(x for x in ())", "result is a generator, which JSON cannot hold; use list(...)"),
        ("DataFrame()", 'result is a DataFrame, which JSON cannot hold; use .to_dict("records") or .to_dict()'),
        ("object()", "result is an object, which JSON cannot hold; convert it to a dict, list, string or number"),
        ("1j", "result is a complex, which JSON cannot hold; convert it to a dict, list, string or number"),
        ("Broken()", "result is a Broken, which JSON cannot hold; convert it to a dict, list, string or number"),
        ("cycle", "result[0]['again'] contains itself; JSON cannot hold a cycle"),
        ("Node()", "result[0] contains itself; JSON cannot hold a cycle"),
        ("deep",
         "result" + "[0]" * 61 + " is nested more than 60 levels deep; return a flatter value"),
        ("{(1, 2): 3}", "result has a key (1, 2), but JSON keys are strings; use str(...)"),
        ("{Broken(): 3}", "result has a key ..., but JSON keys are strings; use str(...)"),
        ("{1: 'a', '1': 'b'}", "result has keys that are the same as text; JSON keys are strings"),
        ("{'k' * 500: math.nan}", f"result['{'k' * 79}] is nan, which JSON cannot hold; use None or a string"),
        ("{'k' * 99: {'m' * 99: {'n' * 99: {1}}}}", None),
        ("10 ** 5000", "result holds a number that cannot be written: Exceeds the limit (4300 digits) for integer "
         "string conversion; use sys.set_int_max_str_digits() to increase the limit"),
    ],
)  # fmt: skip
async def test_values_that_json_cannot_hold_say_where_and_what_to_do(
    kernel: Probe, value: str, sentence: str | None
) -> None:
    run = await kernel.run(f"{PRELUDE}\nresult = {value}")
    kind, message = run.error
    assert kind == "ResultNotSerializable"
    assert len(message) < 400
    assert sentence in {None, message}
    assert (await kernel.run("result = 1")).result == 1


async def test_a_value_that_raises_while_it_is_converted_is_an_error_of_the_code(kernel: Probe) -> None:
    run = await kernel.run(f"{PRELUDE}\nresult = [Raises()]")
    assert run.error == ("KeyError", "'inside'")
    assert "in __moonpool_json__" in run.stderr
    assert "moonpool_guest" not in run.stderr


async def test_many_small_values_are_converted_in_good_time(kernel: Probe) -> None:
    run = await kernel.run("result = [{'n': n, 'text': 'x' * 5} for n in range(100_000)]", result_bytes_max=16 << 20)
    assert isinstance(run.result, list)
    assert len(run.result) == 100_000


@pytest.mark.parametrize(
    "written",
    [
        pytest.param('[{"type":"image","mimeType":"image/png","data":"AAAA"}]', id="the file cannot be written"),
        pytest.param('["mimeType",' + "[" * 100_000 + "]" * 100_000 + "]", id="it is nested too deeply"),
        pytest.param('["mimeType",' + "1" * 5000 + "]", id="it has a number too long to be read"),
    ],
)
def test_a_result_of_another_language_stays_as_it_is_where_its_bytes_cannot_become_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str
) -> None:
    monkeypatch.setattr(pictures, "PLACES", (str(tmp_path / "none"),))
    monkeypatch.setattr(pictures, "_under_way", [pictures.Pictures(None)])  # type: ignore[arg-type]
    assert handoff.without_blobs(written.encode()) == written.encode()
