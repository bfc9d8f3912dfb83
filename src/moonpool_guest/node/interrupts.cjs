'use strict';
/*
 * Ends code that runs, from outside (an interrupt) or from inside (`process.exit`), without ending the process.
 *
 * An interrupt is not a signal: Node's handlers run on the event loop, which a busy loop never reaches. A second
 * thread (`watcher.cjs`) waits for an alarm from PID 1 and uses the inspector, whose messages V8 takes up in the middle
 * of any JavaScript, to call `onAlarm` in this thread. That looks at what runs: code is terminated, which no `catch` or
 * `finally` can stop; the kernel and Node's own parts are left alone and looked at again a little later.
 *
 * INVARIANT: nothing of the kernel that must not be left half done runs outside of `guarded`.
 * INVARIANT: the kernel keeps no promise that must survive a termination: V8 empties the queue of microtasks then.
 */

const { Session } = require('node:inspector');
const { Worker } = require('node:worker_threads');
const path = require('node:path');

const { captureStackTrace } = Error;
const ErrorBefore = Error;
const KERNEL = __dirname + path.sep;
const MICROTASKS = 'processTicksAndRejections';
const FRAMES_MAX = 200;
const NODE_LOOKS_MAX = 40; // at 5 ms each; then even Node's own parts are ended, to save the session
const ALARM = Symbol.for('moonpool.alarm');
const clearAsyncIdStack = internal('internal/async_hooks', 'clearAsyncIdStack');

const PATIENCE = { code: 0, node: NODE_LOOKS_MAX, nothing: Infinity };
const loopTime = internal('internal/test/binding', 'internalBinding')?.('timers').getLibuvNow ?? (() => NaN);

let depth = 0;
let sessions = [];

/** Something of Node's own that has no public name; null in a version that does not have it. */
function internal(module, name) {
  try {
    return require(module)[name] ?? null;
  } catch {
    return null;
  }
}

/** Run `action` without being interrupted. */
function guarded(action) {
  depth += 1;
  try {
    return action();
  } finally {
    depth -= 1;
  }
}

/**
 * Start listening for alarms on `fd`. `interrupt(number)` marks the execution of that number as interrupted, sees to
 * it that it is settled when the event loop comes round again, and returns whether it is under way at all. Returns a
 * promise for the moment from which alarms are heard.
 */
function watch(fd, interrupt) {
  let looks = 0;
  let turnedAt = NaN;
  const onAlarm = (number) => {
    if (!interrupt(number)) {
      looks = 0;
      turnedAt = NaN;
      return 'gone';
    }
    const isTurning = loopTime() !== turnedAt; // since the last look; a waiting loop turns to take the look in
    turnedAt = loopTime();
    let place = whatRuns();
    if (place === 'nothing' && looks > 0 && !isTurning) place = 'code'; // microtasks follow each other without end
    looks += 1;
    if (depth === 0 && looks > PATIENCE[place]) terminate();
    return 'again';
  };
  Object.defineProperty(globalThis, ALARM, { value: onAlarm });
  const worker = new Worker(path.join(__dirname, 'watcher.cjs'), {
    workerData: { fd },
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 4, stackSizeMb: 1 },
  });
  worker.on('error', () => {}); // then interrupts end the process instead: PID 1 sees to that
  worker.unref();
  return new Promise((resolve) => {
    worker.once('online', resolve);
    worker.once('exit', resolve);
  });
}

/** `code`, `node` (its own parts) or `nothing`, judged from the stack below the alarm's own two frames. */
function whatRuns() {
  const { stackTraceLimit, prepareStackTrace } = ErrorBefore;
  ErrorBefore.stackTraceLimit = FRAMES_MAX;
  ErrorBefore.prepareStackTrace = (_, frames) => frames;
  const holder = {};
  captureStackTrace(holder, whatRuns);
  const frames = holder.stack.slice(2);
  ErrorBefore.stackTraceLimit = stackTraceLimit;
  ErrorBefore.prepareStackTrace = prepareStackTrace;
  if (frames.length === 0) return 'nothing';
  if (frames.some(isOfCode)) return 'code';
  return frames.length === 1 && frames[0].getFunctionName() === MICROTASKS ? 'code' : 'node';
}

function isOfCode(frame) {
  const file = frame.getScriptNameOrSourceURL();
  if (!file) return frame.isEval();
  return !file.startsWith('node:') && !file.startsWith(KERNEL);
}

/** End the JavaScript that runs at its next step. The event loop goes on. */
function terminate() {
  const session = new Session();
  session.connect();
  sessions.push(session);
  clearAsyncIdStack?.(); // whoever left marks there does not come to remove them
  session.post('Runtime.terminateExecution');
}

/** End the code that called this. Does not return. */
function terminateCaller() {
  terminate();
  for (;;);
}

/** After a termination, from the event loop. */
function recover() {
  depth = 0;
  for (const session of sessions) session.disconnect();
  sessions = [];
}

module.exports = { guarded, internal, recover, terminateCaller, watch };
