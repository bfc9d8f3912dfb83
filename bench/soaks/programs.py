"""Programs of all sorts from a seed: sound, broken and hostile Python, for the fuzz of what an execution answers.

Each is made of statements drawn from lists, filled with odd literals and nested into each other; some are then damaged
character by character, and some are no Python at all. None needs a network, a file of the host or more than a moment;
those that never end are rare, because each costs its timeout.
"""

from __future__ import annotations

import random
from typing import Final

_LITERALS: Final = (
    *(
        "0",
        "-1",
        "1e308 * 10",
        "float('nan')",
        "-float('inf')",
        "10**5000",
        "1j",
        "True",
        "None",
        "...",
        "b'\\xff\\x00'",
    ),
    *(
        "b'\\xff\\x00'",
        "'text'",
        "'\\ud800'",
        "'\\x00\\x1b[2J'",
        "'\\u2028\\u2029\\x85'",
        "'é' * 100",
        "'\\U0001f600'",
        "'{\"a\": 1}'",
    ),
    *("[]", "{}", "()", "set()", "{1: 2}", "{'a': {'b': [1, {'c': None}]}}", "{(1, 2): 3}", "[[]] * 3", "range(5)"),
    *("object()", "type('T', (), {})", "lambda: 0", "print", "__import__('sys')", "Exception('x')", "iter([])"),
    *("'x' * 70000", "list(range(20000))", "{str(n): n for n in range(3000)}", "[0] * 10**6", "bytearray(10**6)"),
    *(
        "__import__('decimal').Decimal('1.5')",
        "__import__('datetime').datetime(2026, 1, 1)",
        "__import__('uuid').UUID(int=1)",
    ),
)
_STATEMENTS: Final = (
    "result = {a}",
    "print({a})",
    "print({a}, {b}, sep={a!s} if isinstance({a}, str) else None)",
    "print({a}, end='')",
    "import sys; print({a}, file=sys.stderr)",
    "import sys; sys.stdout.write('no newline'); result = {a}",
    "import os; os.write(1, b'\\xff\\xfe\\n{{\\n'); result = {a}",
    "import os; os.write(1, b'x' * {n})",
    "import json; print(json.dumps({{'n': {n}}}))",
    "raise ValueError({a})",
    "raise KeyboardInterrupt({a})",
    "raise BaseException({a})",
    "raise type('E\\u2028', (Exception,), {{'__str__': lambda self: 1 / 0}})()",
    "raise type('E', (Exception,), {{'__str__': lambda self: 'x' * 100000}})()",
    "raise ExceptionGroup('many', [ValueError(n) for n in range({n} % 50 + 1)])",
    "import sys; sys.exit({a})",
    "import os; os._exit({n} % 256)",
    "import os; os.kill(os.getpid(), {n} % 32)",
    "import os, signal; signal.raise_signal({n} % 15 + 1)",
    "import ctypes; ctypes.string_at(1)",
    "import sys; sys.stdout.close(); result = {a}",
    "import sys; sys.stdout = None; print({a})",
    "import sys; sys.stderr = {a}; raise ValueError({b})",
    "import os; os.close(1); print({a})",
    "import os; os.close(3); result = {a}",
    "import os; os.closerange(0, 20); result = {a}",
    "import os; os.write(3, b'\\x00' * {n})",
    "import os\nif os.fork() == 0: os._exit(0)\nresult = {a}",
    "import threading; threading.Thread(target=lambda: print({a})).start()",
    "import atexit; atexit.register(lambda: print({a}))",
    "import asyncio; result = await asyncio.sleep(0, {a})",
    "import asyncio; result = asyncio.run(asyncio.sleep(0, {a}))",
    "async def main(): return {a}\nresult = main()",
    "def f(): return f()\nresult = f()",
    "def deep(n): return [deep(n - 1)] if n else {a}\nresult = deep({n} % 900)",
    "x = []; x.append(x); result = x",
    "import builtins; del builtins.print; result = {a}",
    "import builtins; builtins.open = None; builtins.len = None; result = {a}",
    "import json; json.dumps = lambda *_: 'not json'; result = {a}",
    "import sys; sys.modules.clear(); result = {a}",
    "import sys; sys.setrecursionlimit(10**6)",
    "import gc; gc.disable(); result = gc.get_objects()[:3]",
    "globals().clear()",
    "globals()['result'] = {a}",
    "class C:\n    def __getattribute__(self, name): raise SystemExit({n})\nresult = C()",
    "class C(dict):\n    def items(self): raise RuntimeError\nresult = C(a=1)",
    "class C(str): __slots__ = ()\nresult = {{C('k'): C('v')}}",
    "class C(int):\n    def __repr__(self): return '}}{{'\nresult = C({n})",
    "open('file', 'w').write('x' * {n})",
    "bytearray({n} * 10**7)",
    "import subprocess; subprocess.run(['echo', 'child'], check=False)",
    "from servers.nothing import tool",
    "from client.mcp_client import call_tool; result = await call_tool({a}, {b})",
    "del result",
    "assert {a} == {b}, {a}",
    "match {a}:\n    case {{}}: result = 1\n    case _: result = {b}",
    "with open('/etc/passwd') as f: result = len(f.read()) > 0",
    "exec({a})",
    "eval('result := {n}')",
    "input()",
    "breakpoint()",
)
_MISPLACED: Final = ("return {a}", "yield {a}", "%matplotlib inline", "!ls", "break", "await {a}", "nonlocal x")
_FRAMES: Final = (
    "if {n} % 2:\n{body}\nelse:\n    result = 'else'",
    "for i in range(3):\n{body}",
    "try:\n{body}\nexcept Exception as error:\n    result = str(error)",
    "try:\n{body}\nfinally:\n    print('finally')",
    "def work():\n{body}\nwork()",
    "async def work():\n{body}\nawait work()",
    "class Made:\n{body}",
    "with __import__('contextlib').suppress(BaseException):\n{body}",
)
_SOUP: Final = "()[]{}:=,.#'\"\\\n\t @+-*/%&|^~<>!?$` abcdef012 é\u2028\x0c\x1b\ufeff"
_KEYWORDS: Final = ("async", "await", "lambda", "yield", "class", "def", "for", "in", "import", "f'{", "not", "else")
_ENDLESS: Final = "while True: pass"


def programs(seed: int, count: int) -> list[str]:
    """`count` programs, the same for the same seed. None is empty and none holds a NUL, which a caller may not send."""
    chance = random.Random(seed)  # noqa: S311
    return [_program(chance) for _ in range(count)]


def _program(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.002:
        text = f"{_statement(chance)}\n{_ENDLESS}"
    elif kind < 0.82:
        text = _block(chance, depth=0)
    elif kind < 0.94:
        text = _damaged(chance, _block(chance, depth=0))
    else:
        text = _soup(chance)
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return text if text.strip() else "pass"


def _block(chance: random.Random, *, depth: int) -> str:
    return "\n".join(_piece(chance, depth) for _ in range(chance.randrange(1, 5)))


def _piece(chance: random.Random, depth: int) -> str:
    if depth < 3 and chance.random() < 0.3:
        body = "\n".join(f"    {line}" for line in _block(chance, depth=depth + 1).split("\n"))
        return chance.choice(_FRAMES).replace("{n}", str(chance.randrange(1000))).replace("{body}", body)
    return _statement(chance)


def _statement(chance: random.Random) -> str:
    a, b = chance.choice(_LITERALS), chance.choice(_LITERALS)
    number = chance.choice((0, 1, 7, 300, 5000, 80_000))
    return chance.choice(_MISPLACED if chance.random() < 0.02 else _STATEMENTS).format(a=a, b=b, n=number)


def _damaged(chance: random.Random, text: str) -> str:
    """Some characters taken out, put in or doubled."""
    letters = list(text)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(letters) + 1)
        letters[at : at + chance.randrange(3)] = chance.choice(_SOUP) * chance.randrange(3)
    return "".join(letters)


def _soup(chance: random.Random) -> str:
    words = [chance.choice(_KEYWORDS) if chance.random() < 0.3 else chance.choice(_SOUP) for _ in range(60)]
    return "".join(words[: chance.randrange(1, 60)])
