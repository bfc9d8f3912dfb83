"""The runtime contract as data: each row in three languages, and what every one of them must come to.

`None` for a language: the row has no meaning there, and `why` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LANGUAGES = ("python", "node", "bash")
ANY = object()
"""Whatever it is, it is not looked at."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: code per language and the outcome."""

    req: tuple[str, ...]
    python: str | None = None
    node: str | None = None
    bash: str | None = None
    data: object = ANY
    error: str | tuple[str, ...] | None = None
    message: str = ""  # part of the error's message
    exit_code: object = ANY
    stdout: object = ANY
    stderr: str = ""  # part of it
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    why: str = ""


ROWS: dict[str, Row] = {
    "result is handed over": Row(
        req=("H-028", "H-029"),
        python="result = {'a': [1, None, 'ü'], 'b': 2.5}",
        node="globalThis.result = {a: [1, null, 'ü'], b: 2.5}",
        bash="""echo '{"a": [1, null, "ü"], "b": 2.5}'""",
        data={"a": [1, None, "ü"], "b": 2.5},
        exit_code=0,
    ),
    "a plain assignment at top level counts": Row(
        req=("H-028",),
        python="result = 7",
        node="result = 7",
        data=7,
        why="Bash has no values, only output",
    ),
    "a result after an await counts": Row(
        req=("H-028", "H-030"),
        python="import asyncio\nawait asyncio.sleep(0)\nresult = 'late'",
        node="await new Promise(done => setTimeout(done, 1)); globalThis.result = 'late'",
        bash="sleep 0.01 & wait; echo '\"late\"'",
        data="late",
    ),
    "without a result the last line of stdout counts if it is JSON": Row(
        req=("H-029",),
        python="print('words')\nprint('[1, 2]')",
        node="console.log('words'); console.log('[1, 2]')",
        bash="echo words; echo '[1, 2]'",
        data=[1, 2],
        stdout="words\n[1, 2]\n",
    ),
    "a last expression counts": Row(
        req=("H-029",),
        python="import servers.echo as e\nr = await e.echo(n=6)\nr.n * 7",
        node="import * as e from './servers/echo/index.js';\nconst r = await e.echo({n: 6});\nr.n * 7 // or so",
        data=42,
        stdout="",
        why="Bash has no values, only output",
    ),
    "a printed line goes before a last expression": Row(
        req=("H-029",),
        python="print('[1, 2]')\n6 * 7",
        node="console.log('[1, 2]');\n6 * 7",
        data=[1, 2],
        why="Bash has no values, only output",
    ),
    "neither gives null": Row(
        req=("H-029",),
        python="print('words')",
        node="console.log('words')",
        bash="echo words",
        data=None,
        stdout="words\n",
        exit_code=0,
    ),
    "an un-awaited main is waited for": Row(
        req=("H-092",),
        python="import asyncio\nasync def main():\n    global result\n    result = 'done'\nasyncio.run(main())",
        node="async function main() { await new Promise(d => setTimeout(d, 20)); globalThis.result = 'done' }\nmain()",
        bash="main() { sleep 0.02; echo '\"done\"'; }\nmain",
        data="done",
    ),
    "stdout and stderr are apart": Row(
        req=("H-019", "H-024"),
        python="import sys\nprint('out')\nprint('err', file=sys.stderr)",
        node="console.log('out'); console.error('err')",
        bash="echo out; echo err >&2",
        stdout="out\n",
        stderr="err\n",
    ),
    "logs do not go to stdout": Row(
        req=("H-024",),
        python="import logging\nlogging.warning('careful')",
        node="console.warn('careful')",
        bash="echo careful >&2",
        stdout="",
        stderr="careful",
    ),
    "what a child process prints comes too": Row(
        req=("H-018",),
        python="import subprocess\nsubprocess.run(['echo', 'from a child'])",
        node=(
            "import {execFileSync} from 'node:child_process';\n"
            "execFileSync('echo', ['from a child'], {stdio: 'inherit'})"
        ),
        bash="/bin/echo 'from a child'",
        stdout="from a child\n",
    ),
    "an exception": Row(
        req=("H-027",),
        python="def f():\n    raise ValueError('bad thing')\nf()",
        node="function f() {\n  throw new RangeError('bad thing');\n}\nf()",
        bash="set -e\nls '/bad thing'\n",
        error=("ValueError", "RangeError", "CommandFailed"),
        exit_code=ANY,
        stderr="bad thing",
    ),
    "a rejected promise or an unretrieved failure": Row(
        req=("H-092",),
        python="async def main():\n    raise KeyError('k')\nimport asyncio\nasyncio.run(main())",
        node="async function main() { throw new TypeError('k') }\nmain()",
        bash="main() { return 9; }\nmain",
        error=("KeyError", "TypeError", "ExitStatus"),
    ),
    "an exit with a status": Row(
        req=("H-018", "H-092"),
        python="import sys\nprint('before')\nsys.exit(3)",
        node="console.log('before'); process.exit(3)",
        bash="echo before\nexit 3",
        error="SystemExit",
        exit_code=3,
        stdout="before\n",
    ),
    "an exit with status 0 is a success": Row(
        req=("H-018",),
        python="import sys\nresult = 1\nsys.exit(0)",
        node="globalThis.result = 1; process.exit(0)",
        bash="echo 1\nexit 0",
        data=1,
        exit_code=0,
    ),
    "an exit code that is set": Row(
        req=("H-092",),
        node="process.exitCode = 4",
        error="SystemExit",
        exit_code=4,
        why="Node's own way to fail; the others have none",
    ),
    "code that does not parse": Row(
        req=("H-027",),
        python="result = (1,\n",
        node="globalThis.result = (1,\n",
        bash="if true; then\n  echo '(1,'\n",
        error=("SyntaxError",),
    ),
    "line numbers are those of the code": Row(
        req=("H-031",),
        python="\n\ntext = '''\n\n'''\nraise ValueError(text)",
        node="\n\nconst text = `\n\n`;\nthrow new Error(text)",
        bash="\n\ntext='\n\n'\nno_such_command",
        error=("ValueError", "Error", "ExitStatus"),
        stderr="6",
    ),
    "the working directory": Row(
        req=("H-011",),
        python="import os\nresult = os.getcwd()",
        node="globalThis.result = process.cwd()",
        bash='printf \'"%s"\' "$PWD"',
        data="/workspace",
    ),
    "nothing of the host's environment": Row(
        req=("H-055",),
        python="import os\nresult = [name for name in os.environ if 'MOONPOOL' in name or 'PYTEST' in name]",
        node="globalThis.result = Object.keys(process.env).filter(k => /MOONPOOL|PYTEST|npm/.test(k))",
        bash="env | grep -E '^(MOONPOOL|PYTEST|npm)' | wc -l | sed 's/.*/[]/;'",
        data=[],
    ),
    "standard input is at its end": Row(
        req=("H-018",),
        python="import sys\nresult = sys.stdin.read()",
        node="import {readFileSync} from 'node:fs';\nglobalThis.result = readFileSync(0, 'utf8')",
        bash='read line; printf \'"%s"\' "$line"',
        data="",
    ),
    "a tool is called": Row(
        req=("H-012", "H-016"),
        python="import servers.echo as e\nresult = (await e.echo(a=[1, None], b='ü')).data",
        node=(
            "import * as e from './servers/echo/index.js';\n"
            "globalThis.result = (await e.echo({a: [1, null], b: 'ü'})).data"
        ),
        bash="""moonpool call echo.echo '{"a": [1, null], "b": "ü"}'""",
        data={"a": [1, None], "b": "ü"},
    ),
    "what the data has is the data's": Row(
        req=("H-044", "H-045", "X-03"),
        python=(
            "import servers.echo as e\n"
            "r = await e.echo(ok=False, data=[1], error='e', content='c', text='t', items=1, keys=2, values=3, raw=4)\n"
            "result = [r.ok, r.data, r.error, r.content, r.text, r['items'], r['keys'], r['values'], r['raw'],\n"
            "          dict(r) == r.unwrap() == r.structuredContent == r.raw['structuredContent'], r.isError]"
        ),
        node=(
            "import * as e from './servers/echo/index.js';\n"
            "const given = {ok: false, data: [1], error: 'e', content: 'c', text: 't', items: 1, keys: 2, values: 3,\n"
            "  raw: 4};\n"
            "const r = await e.echo(given), same = JSON.stringify(given), all = r.unwrap();\n"
            "globalThis.result = [r.ok, r.data, r.error, r.content, r.text, r.items, r.keys, r.values, all.raw,\n"
            "  [r, all, r.structuredContent, r.raw.structuredContent].every((one) => JSON.stringify(one) === same),\n"
            "  r.isError]"
        ),
        bash=(
            """moonpool call echo.echo '{"ok":false,"data":[1]}' | grep -qx '{"ok":false,"data":\\[1\\]}' && """
            """echo '[false, [1], "e", "c", "t", 1, 2, 3, 4, true, false]'"""
        ),
        data=[False, [1], "e", "c", "t", 1, 2, 3, 4, True, False],
    ),
    "a hundred calls at once": Row(
        req=("H-060",),
        python=(
            "import asyncio, servers.echo as e\n"
            "got = await asyncio.gather(*(e.echo(n=n) for n in range(100)))\n"
            "result = sum(one.data['n'] for one in got)"
        ),
        node=(
            "import * as e from './servers/echo/index.js';\n"
            "const got = await Promise.all([...Array(100).keys()].map(n => e.echo({n})));\n"
            "globalThis.result = got.reduce((sum, one) => sum + one.data.n, 0)"
        ),
        bash=(
            "seq 238 257 | xargs -P 8 -I N moonpool call echo.echo '{\"n\": N}' > answers\n"
            "grep -o '[0-9]*' answers | paste -sd+ | bc 2>/dev/null || "
            "{ sum=0; for n in $(grep -o '[0-9]*' answers); do sum=$((sum + n)); done; echo $sum; }"
        ),
        data=4950,  # in Bash, where each call is a process, of twenty that have the same sum
    ),
    "a failing tool is an outcome": Row(
        req=("H-027",),
        python="import servers.echo as e\nr = await e.fail(text='no')\nresult = [r.ok, r.error['type']]",
        node=(
            "import * as e from './servers/echo/index.js';\nconst r = await e.fail({text: 'no'});\n"
            "globalThis.result = [r.ok, r.error['type']]"
        ),
        bash="""moonpool call echo.fail '{"text": "no"}' 2> said && ok=true || ok=false
grep -q ToolError said && printf '[%s, "ToolError"]' $ok""",
        data=[False, "ToolError"],
    ),
    "a denied call that nobody catches": Row(
        req=("H-063",),
        python="import servers.echo as e\n(await e.text(text='x')).unwrap()",
        node="import * as e from './servers/echo/index.js';\n(await e.text({text: 'x'})).unwrap()",
        bash='set -e\nmoonpool call echo.text \'{"text": "x"}\'',
        error=("PolicyDenied", "CommandFailed"),
        stderr="PolicyDenied",
    ),
    "a result that is no JSON": Row(
        req=("H-021",),
        python="result = {'rows': [1, float('nan')]}",
        node="globalThis.result = {rows: [1, NaN]}",
        error="ResultNotSerializable",
        message="rows",
        why="Bash hands over text only",
    ),
    "a result that is too large": Row(
        req=("H-021",),
        python="result = 'x' * 10_000_000",
        node="globalThis.result = 'x'.repeat(10_000_000)",
        error="OutputTooLarge",
        why="in Bash a last line that is too long is an ordinary line",
    ),
    "more output than may be kept": Row(
        req=("H-020",),
        python="import os\nwhile True: os.write(1, b'x' * 65536)",
        node=(
            "import {writeSync} from 'node:fs';\nconst b = Buffer.alloc(65536, 120);\n"
            "for (;;) { try { writeSync(1, b) } catch {} }"
        ),
        bash="yes",
        error="OutputTooLarge",
        request={"timeout_s": 60},
    ),
    "bytes that are no text": Row(
        req=("H-018",),
        python="import os\nos.write(1, b'a\\xff\\x00b\\n')\nresult = 1",
        node="process.stdout.write(Buffer.from([97, 255, 0, 98, 10])); globalThis.result = 1",
        bash="printf 'a\\xff\\x00b\\n'; echo 1",
        data=1,
    ),
    "an endless loop is a timeout": Row(
        req=("H-018",),
        python="while True: pass",
        node="for (;;) {}",
        bash="while :; do :; done",
        error="Timeout",
        request={"timeout_s": 0.5},
    ),
    "an endless wait is a timeout": Row(
        req=("H-018",),
        python="import asyncio\nawait asyncio.sleep(1000)",
        node="await new Promise(done => setTimeout(done, 1e6))",
        bash="sleep 1000",
        error="Timeout",
        request={"timeout_s": 0.5},
    ),
    "the kernel is killed": Row(
        req=("H-018",),
        python="import os, signal\nos.kill(os.getpid(), 9)\nos.abort()",
        node="process.kill(process.pid, 'SIGKILL'); for (;;) {}",
        bash="kill -9 $$",
        error="KernelKilled",
        message="(SIGKILL); ",  # and what to do
    ),
    "no network": Row(
        req=("H-053",),
        python=(
            "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 80), 1)\n"
            "except OSError:\n    result = 'refused'"
        ),
        node=(
            "import net from 'node:net';\n"
            "globalThis.result = await new Promise(d => net.connect(80, '1.1.1.1').on('error', () => d('refused'))\n"
            "  .on('connect', () => d('connected')))"
        ),
        bash="(exec 9<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo '\"connected\"' || echo '\"refused\"'",
        data="refused",
    ),
    "an ordinary uid": Row(
        req=("H-053",),
        python="import os\nresult = os.getuid()",
        node="globalThis.result = process.getuid()",
        bash="id -u",
        data=1000,
    ),
    "no file of the host": Row(
        req=("H-053",),
        python=(
            "import os\nplaces = ('/root', '/etc/shadow', '/home/user/../root')\n"
            "result = [p for p in places if os.path.exists(p)]"
        ),
        node=(
            "import {existsSync} from 'node:fs';\n"
            "globalThis.result = ['/root', '/etc/shadow', '/home/user/../root'].filter(p => existsSync(p))"
        ),
        bash='for p in /root /etc/shadow; do [ -e $p ] && echo "\\"$p\\""; done; echo \'[]\'',
        data=[],
    ),
}
