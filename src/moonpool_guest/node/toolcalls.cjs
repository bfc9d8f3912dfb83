'use strict';
/*
 * Tool calls of code: over the link to PID 1, from there to the broker. Wrappers find `callTool` as
 * `globalThis[Symbol.for("moonpool.callTool")]`; it returns the broker's reply object, of a failed call with the `line`
 * of code that made it, and never throws.
 */

const { encode } = require('./handoff.cjs');

const OPEN_MAX = 200; // below what the host allows to one execution; the others wait their turn here
const NAME_CHARS_MAX = 1024;
const BODY_BYTES_MAX = 16 * 1024 * 1024; // what the channel takes
const { byteLength } = Buffer;
const { parse } = JSON;
const { captureStackTrace } = Error;
const { includes, indexOf, slice, split } = String.prototype;

const { setTimeout } = globalThis;

class ToolCalls {
  constructor() {
    this.link = null;
    this._phase = 'ended'; // or `open`: an execution is under way, or `cut`: the last one was ended early
    this._lastId = 0;
    this._open = new Map();
    this._waiting = [];
    this._files = []; // what the code that runs is called
    const callTool = (serverId, toolName, args) => this._call(serverId, toolName, args);
    Object.defineProperty(globalThis, Symbol.for('moonpool.callTool'), { value: callTool });
  }

  _call(server, tool, args) {
    if (typeof server !== 'string' || typeof tool !== 'string' || server.length + tool.length > NAME_CHARS_MAX) {
      return reply('UnknownTool', 'the name of a server or tool is a string of at most 1,024 characters');
    }
    if (this._phase === 'cut') return new Promise(() => {}); // what is left of code that was ended goes no further
    if (this._phase === 'ended') {
      return reply('ExecutionEnded', `${server}.${tool} was called after the execution had ended`);
    }
    let body;
    try {
      body = encode(args ?? {}, 'arguments');
    } catch (error) {
      return this._refuse(server, tool, `the arguments of ${server}.${tool} are not JSON: ${error.message}`);
    }
    if (byteLength(body) > BODY_BYTES_MAX) {
      return this._refuse(server, tool, 'the arguments are larger than the broker accepts; pass less at a time');
    }
    return new Promise((resolve) => {
      const call = { server, tool, line: this._line(), body, resolve };
      if (this._open.size < OPEN_MAX) this._send(call);
      else this._waiting.push(call);
    });
  }

  /** A call that cannot be sent: the host only counts it. */
  _refuse(server, tool, message) {
    this.link.send({ t: 'refused', server, tool, message: slice.call(message, 0, 1000) });
    return reply('ValidationError', message);
  }

  _send({ server, tool, line, body, resolve }) {
    this._lastId += 1;
    this._open.set(this._lastId, { resolve, line });
    this.link.keepAlive(true);
    this.link.send({ t: 'call', id: this._lastId, server, tool, line }, body);
  }

  /** The line of the code that makes the call under way; 0 where none of it waits for that. */
  _line() {
    try {
      const holder = {};
      captureStackTrace(holder); // as text: an interrupt must not find settings of Error half changed
      for (const frame of split.call(holder.stack, '\n')) {
        const name = this._files.find((one) => includes.call(frame, `${one}:`));
        if (name !== undefined) return parseInt(slice.call(frame, indexOf.call(frame, `${name}:`) + name.length + 1), 10) || 0;
      }
    } catch {
      // code has changed what this stands on
    }
    return 0;
  }

  /** A reply has come. */
  settle(id, body) {
    const call = this._open.get(id);
    if (call === undefined) return;
    this._open.delete(id);
    if (this._waiting.length > 0) this._send(this._waiting.shift());
    else if (this._open.size === 0) this.link.keepAlive(false);
    const answer = parse(body.toString('utf8'));
    if (answer.ok !== true && call.line > 0) answer.line = call.line;
    call.resolve(answer);
  }

  /** An execution begins; `files` is what its code is called. */
  open(files) {
    this._files = files;
    this._phase = 'open';
  }

  /** The execution is over; whoever still waits waits for ever. `early`: it was ended. */
  close(early) {
    this._phase = early ? 'cut' : 'ended';
    this._open.clear();
    this._waiting = [];
  }
}

/** A reply of our own. Not at once: code that calls in a loop must let the event loop turn. */
function reply(type, message) {
  return new Promise((resolve) => {
    setTimeout(() => resolve({ ok: false, error: { type, message, retryable: false } }), 0);
  });
}

module.exports = { ToolCalls };
