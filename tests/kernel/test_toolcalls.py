"""Tool calls from code: sync and async, in loops and threads, of any size, one channel for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import ExitCause
from moonpool.sandboxes.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio

TOOLS = "import asyncio, threading\nfrom moonpool_guest.toolcalls import invoke, invoke_sync\n"
VALUE = "['raw']['structuredContent']['arguments']['n']"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(f"result = invoke_sync('s', 't', {{'n': 1}}){VALUE}", 1, id="sync"),
        pytest.param(f"result = (await invoke('s', 't', {{'n': 2}})){VALUE}", 2, id="await"),
        pytest.param(
            f"async def main(): return invoke_sync('s', 't', {{'n': 3}}){VALUE}\nresult = asyncio.run(main())",
            3,
            id="sync inside a running loop",
        ),
        pytest.param(
            f"async def main(): return (await invoke('s', 't', {{'n': 4}})){VALUE}\n"
            "result = [await main(), asyncio.run(main())]",
            [4, 4],
            id="outer and nested loop",
        ),
        pytest.param(
            "answers = await asyncio.gather(*(invoke('s', 't', {'n': n}) for n in range(100)))\n"
            f"result = [a{VALUE} for a in answers] == list(range(100))",
            True,
            id="gather of 100",
        ),
        pytest.param(
            f"result = [invoke_sync('s', 't', {{'n': n}}){VALUE} for n in range(50)] == list(range(50))",
            True,
            id="50 in a row",
        ),
    ],
)
async def test_calls_get_their_own_answers(kernel: Probe, code: str, expected: object) -> None:
    assert (await kernel.run(TOOLS + code)).result == expected


THREADED = f"""
def calls(base, count):
    for n in range(count): answers[base + n] = invoke_sync("s", "t", {{"n": base + n}}){VALUE}
answers = {{}}
threads = [threading.Thread(target=calls, args=(base * 1000, 16)) for base in range(8)]
"""
CHECK = "result = [len(answers), all(key == value for key, value in answers.items())]"


@pytest.mark.req("P-014")
async def test_8_threads_make_16_calls_each(kernel: Probe) -> None:
    code = f"{TOOLS}{THREADED}for t in threads: t.start()\nfor t in threads: t.join()\n{CHECK}"
    assert (await kernel.run(code)).result == [128, True]


async def test_threads_and_coroutines_call_at_the_same_time(kernel: Probe) -> None:
    code = f"""{TOOLS}{THREADED}
for t in threads: t.start()
async def main(base):
    for n in range(10):
        got = await asyncio.gather(*(invoke("s", "t", {{"n": base + n * 10 + k}}) for k in range(10)))
        for k in range(10): answers[base + n * 10 + k] = got[k]{VALUE}
        key = base + 500 + n
        answers[key] = invoke_sync("s", "t", {{"n": key}}){VALUE}
await asyncio.gather(main(20_000), asyncio.to_thread(lambda: asyncio.run(main(30_000))))
for t in threads: t.join()
{CHECK}
"""
    assert (await kernel.run(code)).result == [128 + 2 * 110, True]


async def test_many_loops_in_threads_call_at_the_same_time(kernel: Probe) -> None:
    code = f"""{TOOLS}
answers = {{}}
async def main(base):
    for n in range(10):
        for a in await asyncio.gather(*(invoke("s", "t", {{"n": base + n * 10 + k}}) for k in range(10))):
            answers[a{VALUE}] = a{VALUE}
threads = [threading.Thread(target=lambda base=base: asyncio.run(main(base))) for base in range(0, 6000, 1000)]
for t in threads: t.start()
for t in threads: t.join()
{CHECK}
"""
    assert (await kernel.run(code)).result == [600, True]


@pytest.mark.parametrize("size", [65_000, 65_536, 300_000, 3_000_000])
async def test_large_arguments_and_replies_pass_in_every_style(kernel: Probe, size: int) -> None:
    code = f"""{TOOLS}
text = "x" * {size}
def same(answer): return answer["raw"]["structuredContent"]["arguments"]["text"] == text
calls = (invoke("s", "t", {{"text": text}}) for _ in range(4))
answers = [invoke_sync("s", "t", {{"text": text}}), *await asyncio.gather(*calls)]
result = [same(a) for a in answers]
"""
    assert (await kernel.run(code)).result == [True] * 5


async def test_large_and_small_calls_mix_in_threads(kernel: Probe) -> None:
    code = f"""{TOOLS}
def calls(size):
    for n in range(10):
        got = invoke_sync("s", "t", {{"n": n, "text": "x" * size}})["raw"]["structuredContent"]["arguments"]
        answers.append(got == {{"n": n, "text": "x" * size}})
answers = []
threads = [threading.Thread(target=calls, args=(size,)) for size in (1, 70_000, 1, 900_000, 1, 200_000)]
for t in threads: t.start()
for t in threads: t.join()
result = [len(answers), all(answers)]
"""
    assert (await kernel.run(code)).result == [60, True]


@pytest.mark.req("P-010")
async def test_a_reply_of_20_megabytes_arrives(kernel: Probe) -> None:
    big = "z" * (20 << 20)
    kernel.broker = lambda _call, _arguments: {"ok": True, "raw": {"text": big}}
    calls = "(invoke_sync('s', 't', {}), await invoke('s', 't', {}))"
    code = f"{TOOLS}result = [len(reply['raw']['text']) for reply in {calls}]"
    assert (await kernel.run(code)).result == [20 << 20] * 2


async def test_a_reply_above_the_guest_s_limit_is_refused_and_the_host_may_send_another(kernel: Probe) -> None:
    kernel.broker = None
    kernel.start(f"{TOOLS}result = invoke_sync('s', 't', {{}})")
    (call,) = (await kernel.until(lambda run: run.calls)).calls
    kernel.answer(call, {"ok": True, "raw": {"text": "z" * (65 << 20)}})
    assert (await kernel.until(lambda run: run.refused)).refused == [ToolResult(id=call.id)]
    kernel.answer(call, {"ok": False})
    assert (await kernel.finish()).result == {"ok": False, "line": 3}


async def test_arguments_above_the_host_s_limit_are_a_typed_failure(kernel: Probe) -> None:
    run = await kernel.run(f"{TOOLS}result = invoke_sync('s', 't', {{'text': 'x' * (17 << 20)}})")
    assert run.result == {
        "ok": False,
        "error": {
            "type": "ValidationError",
            "message": "the arguments are larger than the broker accepts; pass less at a time",
            "retryable": False,
        },
        "line": 3,
    }
    assert run.calls == []


@pytest.mark.parametrize(
    "arguments",
    ["{'x': float('nan')}", "{'x': {1}}", "{'x': '\\ud800'}", "{'x': b''}", "(lambda x: x.append(x) or x)([])"],
)
async def test_arguments_that_are_not_json_are_a_typed_failure(kernel: Probe, arguments: str) -> None:
    run = await kernel.run(f"{TOOLS}result = [invoke_sync('s', 't', {arguments}), await invoke('s', 't', {arguments})]")
    assert isinstance(run.result, list)
    for reply in run.result:
        assert reply["error"]["type"] == "ValidationError"
        assert "arguments of s.t are not JSON" in reply["error"]["message"]
    assert run.calls == []


async def test_names_of_any_text_up_to_the_limit_reach_the_broker_and_longer_ones_fail(kernel: Probe) -> None:
    name = "\U0001f600" * 1024
    run = await kernel.run(
        f"{TOOLS}result = [invoke_sync({name!r}, {name!r}, {{}})['ok'], invoke_sync('s', 't' * 1025, {{}})]"
    )
    assert run.calls == [ToolCall(id=1, server=name, tool=name, line=3)]
    assert isinstance(run.result, list)
    assert run.result[1]["error"]["type"] == "UnknownTool"
    run = await kernel.run(f"{TOOLS}result = invoke_sync('\\ud800', 't', {{}})['ok']")
    assert [call.server for call in run.calls] == ["?"]


# --- calls that nobody waits for any more


@pytest.mark.req("P-013")
async def test_a_call_after_the_execution_is_over_is_a_typed_failure(kernel: Probe) -> None:
    code = f"""{TOOLS}
import os, time
def later():
    while not os.path.exists("/workspace/stop"):
        seen.append(invoke_sync("s", "t", {{}}))
        time.sleep(0.001)
seen = []
thread = threading.Thread(target=later)
thread.start()
"""
    await kernel.run(code)
    for _ in range(10):
        await anyio.sleep(0.005)
        await kernel.run("x = 1")
    run = await kernel.run("open('stop', 'w').close()\nthread.join()\nresult = [r for r in seen if not r['ok']]")
    assert isinstance(run.result, list)
    assert run.result[0]["error"] == {
        "type": "ExecutionEnded",
        "message": "s.t was called after the execution had ended",
        "retryable": False,
    }


async def test_a_cancelled_call_is_forgotten_and_its_late_answer_harms_nobody(kernel: Probe) -> None:
    kernel.broker = None
    kernel.start(
        f"""{TOOLS}
try:
    await asyncio.wait_for(invoke("s", "slow", {{}}), 0.01)
except TimeoutError:
    print("timed out")
result = (await invoke("s", "t", {{"n": 2}}))["raw"]["n"]
"""
    )
    run = await kernel.until(lambda run: len(run.calls) == 2)
    slow, quick = run.calls
    assert run.stdout == "timed out\n"
    kernel.answer(slow, {"ok": True, "raw": {"n": 1}})
    kernel.answer(slow, {"ok": True, "raw": {"n": 1}})  # and once more
    kernel.answer(quick, {"ok": True, "raw": {"n": 2}})
    assert (await kernel.finish()).result == 2


async def test_answers_in_any_order_reach_their_callers(kernel: Probe) -> None:
    kernel.broker = None
    kernel.start(
        f"{TOOLS}answers = await asyncio.gather(*(invoke('s', 't', {{}}) for _ in range(20)))\n"
        "result = [answer['raw']['id'] for answer in answers]"
    )
    run = await kernel.until(lambda run: len(run.calls) == 20)
    for call in reversed(run.calls):
        kernel.answer(call, {"ok": True, "raw": {"id": call.id}})
    assert (await kernel.finish()).result == [call.id for call in run.calls]


async def test_an_answer_to_nothing_is_dropped(kernel: Probe) -> None:
    kernel.answer(ToolCall(id=99, server="s", tool="t"), {"ok": True})
    assert (await kernel.run(f"{TOOLS}result = invoke_sync('s', 't', {{'n': 1}}){VALUE}")).result == 1


async def test_a_blob_that_nobody_waits_for_any_more_does_not_block_the_next_calls(kernel: Probe) -> None:
    code = f"""{TOOLS}
async def big():
    try: await asyncio.wait_for(invoke("s", "t", {{"text": "x" * 10_000_000}}), 0.0001)
    except TimeoutError: return "timed out"
result = [await big(), invoke_sync("s", "t", {{"n": 5}}){VALUE}, (await invoke("s", "t", {{"n": 6}})){VALUE}]
"""
    run = await kernel.run(code)
    assert run.result == ["timed out", 5, 6]


async def test_when_the_host_goes_away_callers_do_not_hang(kernel: Probe) -> None:
    kernel.broker = None
    calls = "asyncio.gather(*(invoke('s', 't', {}) for _ in range(3)))"
    kernel.start(f"{TOOLS}{THREADED}for t in threads: t.start()\nresult = await {calls}")
    await kernel.until(lambda run: len(run.calls) == 11)
    kernel.sandbox._link._close_channel()  # pyright: ignore[reportAttributeAccessIssue]
    run = await kernel.exited()
    assert run.exit is not None
    assert (run.exit.cause, run.exit.exit_code) == (ExitCause.EXITED, 0)
