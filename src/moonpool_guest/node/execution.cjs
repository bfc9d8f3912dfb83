'use strict';
/*
 * One execution at a time: begin it, notice its end, say how it ended.
 *
 * It ends when the event loop has nothing left, as a program ends; or at the first exception that nobody catches,
 * `process.exit`, or an interrupt. Then PID 1 gets `done`. The state stays for the next one.
 *
 * INVARIANT: exactly one `done` for each `execute`. Every way out leads to `_finish`, which forgets the execution.
 */

const { EventEmitter } = require('node:events');
const { isPromise } = require('node:util').types;
const { describe, show } = require('./errors.cjs');
const { ResultSlot, declaredResult, shareNames } = require('./globals.cjs');
const { NotSerializableError, TooLargeError, encode } = require('./handoff.cjs');
const interrupts = require('./interrupts.cjs');
const leftovers = require('./leftovers.cjs');
const { Folder, loadModule, loadScript } = require('./modules.cjs');
const { prepare } = require('./source.cjs');
const { writeWhole } = require('./streams.cjs');
const { ToolCalls } = require('./toolcalls.cjs');

const { setImmediate, setTimeout } = globalThis;
const { byteLength, from } = Buffer;
const NEVER_SETTLED = 'the code waits for something that never comes (unsettled top-level await)';
const NEVER_LOADED =
  'an import never ends: its file waits for something that never comes, or an execution was interrupted while it was ' +
  'loaded; import it under another name, such as "./file.mjs?2"';
const LAST = 'the last expression';
const RETURN_LESS = 'return a summary, or write the data to a file in /workspace';
const CALL_ERROR = Symbol.for('moonpool.error');
const { getPromiseDetails, constants } = interrupts.internal('internal/test/binding', 'internalBinding')?.('util') ?? {};
const FULFILLED = constants?.kFulfilled ?? 1;
const NAME_OF_FILE = /^[\w.-]+\.(?:[mc]?[jt]s)$/;

class Executor {
  /** `folder` is where code lies. */
  constructor(folder) {
    this.link = null; // there before the first execution
    this.calls = new ToolCalls();
    this.watching = null; // a promise: interrupts can be heard
    this.variables = null; // of the environment of the next execution
    this._folder = new Folder(folder);
    this._run = null;
    this._count = 0;
    this._result = new ResultSlot();
    const { emit } = process;
    process.emit = (name, ...rest) => {
      const listeners = name === 'beforeExit' ? process.listenerCount(name) : 0;
      const heard = emit.call(process, name, ...rest);
      if (name === 'beforeExit') this._onNothingLeft(listeners); // not a listener: code may remove all of those
      if (name === 'worker') leftovers.noteThread(rest[0]);
      return heard;
    };
    process.setUncaughtExceptionCaptureCallback((error) => this._onUncaught(error));
    process.exit = (code) => this._exit(code);
  }

  /** Begin the execution that `order` describes. */
  start(order, text) {
    const run = {
      number: order.run,
      final: order.final,
      rehearse: order.rehearse,
      resultBytesMax: order.result_bytes_max,
      place: this._folder.at(this._nameFor(order)),
      program: null,
      loaded: null,
      settled: false, // the code ran to its end; what it started may go on
      end: null, // how it ended before that
      started: leftovers.mark(),
      exitTold: false,
      cut: false, // ended early
      variables: this.variables,
      before: null, // what these were
    };
    this.variables = null;
    if (run.variables !== null) {
      run.before = Object.keys(run.variables).map((name) => [name, process.env[name]]);
      Object.assign(process.env, run.variables);
    }
    this._run = run;
    this.calls.open([run.place.filename, run.place.url]);
    this._result.reset();
    process.exitCode = undefined;
    process.argv = [process.execPath, run.place.filename];
    globalThis.require = run.place.require;
    const begin = () => setImmediate(() => this._begin(run, text)); // not inside the link's event: see `interrupts`
    if (run.rehearse) this.watching.then(begin);
    else begin();
  }

  /** Interrupt execution `number`. False if that is not under way. */
  interrupt(number) {
    const run = this._run;
    if (run === null || run.number !== number) return false;
    if (run.end?.status !== 'interrupted') {
      const error = { type: 'KeyboardInterrupt', message: 'the execution was interrupted', retryable: false };
      this._endEarly(run, { status: 'interrupted', exit_code: 0, error });
    }
    return true;
  }

  _nameFor(order) {
    if (order.rehearse) return 'rehearsal.js';
    if (NAME_OF_FILE.test(order.name)) return order.name;
    this._count += 1;
    return this._count === 1 ? 'code.js' : `code-${this._count}.js`;
  }

  // --- running

  _begin(run, text) {
    if (run.end !== null) return;
    this.link.keepAlive(false); // only what the code waits for does, from now on
    try {
      run.program = prepare(text);
      if (run.program.kind === 'module') this._runModule(run);
      else this._runScript(run);
    } catch (error) {
      this._fail(run, error);
    }
  }

  _runScript(run) {
    run.loaded = loadScript(run.program, run.place);
    setImmediate(run.loaded.evaluate); // nothing of the kernel stands above it in a stack trace
    setImmediate(() => {
      run.settled = true;
    });
  }

  async _runModule(run) {
    try {
      run.loaded = await loadModule(run.program, run.place);
      if (run.end !== null) return;
      await run.loaded.evaluate();
      run.settled = true;
    } catch (error) {
      this._fail(run, error);
    }
  }

  // --- noticing the end

  _onNothingLeft(listeners) {
    const run = this._run;
    if (run === null || run.end !== null) return;
    if (listeners > 0) {
      process.nextTick(() => this._finishIfIdle(run)); // they may have begun something
    } else {
      this._finishNormally(run);
    }
  }

  _finishIfIdle(run) {
    if (this._run === run && run.end === null && process.getActiveResourcesInfo().length === 0) {
      this._finishNormally(run);
    }
  }

  _onUncaught(error) {
    if (process.listenerCount('uncaughtException') > 0) {
      process.emit('uncaughtException', error, 'uncaughtException');
    } else if (this._run !== null) {
      this._fail(this._run, error);
    } else {
      writeWhole(2, from(show(error)));
    }
  }

  /** What `process.exit` is here: ends the execution, not the process. */
  _exit(code) {
    const run = this._run;
    if (code !== undefined) process.exitCode = code;
    if (run === null) return;
    this._tellExit(run);
    this._endEarly(run, exited(process.exitCode));
    interrupts.terminateCaller();
  }

  _fail(run, error) {
    if (this._run !== run || run.end !== null) return;
    writeWhole(2, from(show(error)));
    this._endEarly(run, { status: 'error', exit_code: 0, error: describe(error) });
  }

  _endEarly(run, end) {
    run.end ??= end;
    run.cut = true;
    this.calls.close(true);
    if (end.status === 'interrupted') run.end = end;
    this.link.keepAlive(true);
    leftovers.cancelTimersSince(run.started);
    setTimeout(() => this._finishEarly(run), 0);
  }

  // --- ending

  _finishEarly(run) {
    interrupts.recover();
    if (this._run !== run) return;
    leftovers.cancelSince(run.started);
    if (run.end.status !== 'interrupted') this._tellExit(run, 1);
    this._keepNames(run);
    this._finish(run);
  }

  _finishNormally(run) {
    if (run.final) this._tellExit(run);
    if (!run.settled && !process.exitCode) {
      const message = run.loaded === null ? NEVER_LOADED : NEVER_SETTLED;
      run.end = { status: 'error', exit_code: 0, error: { type: 'UnsettledAwait', message, retryable: false } };
    }
    run.end ??= process.exitCode ? exited(process.exitCode) : { status: 'ok', exit_code: 0, error: null };
    this._keepNames(run);
    this._finish(run);
  }

  /** Let the code's `exit` listeners run, once, as at the end of a process. */
  _tellExit(run, code = 0) {
    if (run.exitTold) return;
    run.exitTold = true;
    try {
      process.emit('exit', process.exitCode ?? code);
    } finally {
      process.removeAllListeners('exit');
    }
  }

  _keepNames(run) {
    const { program, loaded } = run;
    if (!run.rehearse && program?.names && loaded?.scope) shareNames(program.names, loaded.scope);
  }

  /** JSON of the result, or undefined; turns the execution into a failed one if it cannot be handed over. */
  _encodeResult(run) {
    const { program, loaded } = run;
    try {
      const declared = program?.names && loaded?.scope ? declaredResult(program.names, loaded.scope) : undefined;
      const text = encode(this._result.take(declared), 'result');
      if (text === undefined) return undefined;
      const size = byteLength(text);
      if (size <= run.resultBytesMax) return text;
      throw new ResultTooLargeError(size, run.resultBytesMax);
    } catch (error) {
      const known = error instanceof NotSerializableError ? 'ResultNotSerializable' : null;
      if (known === null && !(error instanceof ResultTooLargeError)) writeWhole(2, from(show(error)));
      const described = describe(error);
      run.end = { ...run.end, status: 'error', error: { ...described, type: known ?? described.type } };
      return undefined;
    }
  }

  /** What is handed over of the last expression, as members of `done`. INVARIANT: the execution does not fail by it. */
  _encodeLast(run) {
    try {
      const value = settled(run.loaded?.scope?.last);
      const text = isHandle(value) ? undefined : encode(value, LAST, run.resultBytesMax);
      if (text === undefined) return {};
      if (byteLength(text) <= run.resultBytesMax) return { last: text, has_last: true };
      throw new TooLargeError();
    } catch (error) {
      return { note: `nothing is returned: ${whyNot(error, run.resultBytesMax)}` };
    }
  }

  _finish(run) {
    const body = run.end.error === null ? this._encodeResult(run) : undefined;
    const { last, ...told } = run.end.error === null && body === undefined ? this._encodeLast(run) : {};
    if (run.rehearse) this._result.clear();
    process.exitCode = undefined;
    if (run.before !== null && !run.final) putBack(run.before);
    this._run = null;
    this.calls.close(run.cut);
    this.link.keepAlive(true);
    this.link.send({ t: 'done', run: run.number, has_result: body !== undefined, ...told, ...run.end }, body ?? last);
  }
}

function putBack(variables) {
  for (const [name, value] of variables) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

class ResultTooLargeError extends Error {
  constructor(size, most) {
    super(`result is ${shown(size)} bytes of JSON, but at most ${shown(most)} may be handed over; ${RETURN_LESS}`);
    this.name = 'OutputTooLarge';
  }
}

const shown = (bytes) => bytes.toLocaleString('en-US');

/** Why the last expression's value is not handed over, whatever was thrown by it. */
function whyNot(error, most) {
  try {
    if (error instanceof TooLargeError) return `${LAST} is more than ${shown(most)} bytes of JSON; ${RETURN_LESS}`;
    const { type, message } = describe(error);
    if (error instanceof NotSerializableError) return message;
    const ofTool = `${error?.tool ?? 'a tool'}: ${type}`;
    if (typeof error?.[CALL_ERROR] === 'function') return `${LAST} is the result of a tool call that failed (${ofTool})`;
    return `${LAST} cannot be made JSON (${message || type})`;
  } catch {
    return `${LAST} cannot be made JSON`;
  }
}

/** What `setTimeout`, `process.on` and their like return: nobody means to hand that over. */
function isHandle(value) {
  return value instanceof EventEmitter || (typeof value === 'object' && typeof value?.hasRef === 'function');
}

/** What a promise was fulfilled with, if it was: at the end of the code nothing is waited for any more. */
function settled(value) {
  if (!isPromise(value) || getPromiseDetails === undefined) return value;
  const [state, outcome] = getPromiseDetails(value);
  return state === FULFILLED ? outcome : value;
}

/** The outcome of `process.exit(code)` or of `process.exitCode` at the end. */
function exited(code) {
  const status = Number(code ?? 0) & 0xff;
  if (status === 0) return { status: 'exit', exit_code: 0, error: null };
  const error = { type: 'SystemExit', message: `the code exited with status ${status}`, retryable: false };
  return { status: 'exit', exit_code: status, error };
}

module.exports = { Executor };
