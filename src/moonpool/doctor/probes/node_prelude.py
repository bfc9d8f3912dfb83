"""The first lines of every attack program in Node: the functions of `prelude`, in JavaScript.

`attempt(name, action, ...codes)` is blocked if the action throws, with one of `codes` if any are named; `refused(name,
promise, ...codes)` when the promise is rejected. `run(program, ...arguments)` runs a child to its end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_PRELUDE: Final = r"""
const fs = require('fs'), os = require('os'), net = require('net'), dgram = require('dgram'), dns = require('dns');
const { spawn, spawnSync } = require('child_process'), { Worker } = require('worker_threads');
const through = [], stopped = {};
let tries = 0;
const note = (text) => { through.push(String(text)) };
const seen = (what) => { tries += 1; stopped[what] = (stopped[what] ?? 0) + 1 };
const judge = (name, error, codes) => {
  const code = String(error.code ?? error.name);
  stopped[code] = (stopped[code] ?? 0) + 1;
  if (codes.length > 0 && !codes.includes(code)) note(`${name}: ${code}, expected ${codes.join(' or ')}`);
};
const attempt = (name, action, ...codes) => {
  tries += 1;
  try { action() } catch (error) { judge(name, error, codes); return }
  note(`${name}: got through`);
};
const refused = async (name, promise, ...codes) => {
  tries += 1;
  try { await promise } catch (error) { judge(name, error, codes); return }
  note(`${name}: got through`);
};
const event = (emitter, wanted) => new Promise((resolve, reject) => {
  emitter.once(wanted, resolve);
  emitter.once('error', reject);
});
const run = (program, ...words) =>
  spawnSync(program, words, { encoding: 'utf8', timeout: 3000, killSignal: 'SIGKILL' });
const statusOf = (text) => Object.fromEntries(text.split('\n').map((line) => line.split(/:\s*/, 2)));
const kinds = () => Object.entries(stopped).map(([code, n]) => `${n} x ${code}`).join(', ');
const verdict = () => tries === 0 ? { blocked: false, detail: 'the probe tried nothing' } : {
  blocked: through.length === 0,
  detail: (through.join('; ') || kinds()).slice(0, 1500),
};
"""


def compose_node(program: str, promised: Mapping[str, object]) -> str:
    """The whole program. In a function: a sandbox may run several of them."""
    constants = "\n".join(f"const {name} = {json.dumps(value)};" for name, value in promised.items())
    return f"result = await (async () => {{\n{NODE_PRELUDE}\n{constants}\n{program}\nreturn verdict();\n}})();\n"
