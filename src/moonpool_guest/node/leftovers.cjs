'use strict';
/*
 * Ends what an execution started and did not finish, when it ended by an error, an exit or an interrupt: in a script
 * that would have ended with the process. Timers and immediates are cancelled, threads ended; sockets, servers and
 * child processes no longer keep executions from ending.
 *
 * The counters put right here are Node's own: a terminated timer or immediate never came to lower them.
 */

const { internal } = require('./interrupts.cjs');

const timers = {
  lists: internal('internal/timers', 'timerListMap') ?? {},
  immediates: internal('internal/timers', 'immediateQueue'),
  refed: internal('internal/timers', 'kRefed'),
  asyncId: internal('internal/timers', 'async_id_symbol'),
};
const newAsyncId = internal('internal/async_hooks', 'newAsyncId') ?? (() => 0);
const binding = internal('internal/test/binding', 'internalBinding')?.('timers') ?? {};
const timerCount = binding.timerInfo ?? binding.timeoutInfo ?? [0];
const immediateCounts = binding.immediateInfo ?? [0, 0, 0];
const { clearTimeout } = globalThis;
const threads = new Set();

/** Code has started a thread. */
function noteThread(worker) {
  threads.add(worker);
  worker.once('exit', () => threads.delete(worker));
}

/** What is there before an execution begins. */
function mark() {
  return { asyncId: newAsyncId(), handles: new Set(process._getActiveHandles()), threads: new Set(threads) };
}

/** Cancel the timers that came since `before`. */
function cancelTimersSince(before) {
  for (const timer of allTimers()) {
    if (timer[timers.asyncId] >= before.asyncId) clearTimeout(timer);
  }
}

/** End what came since `before`. Called from a timer, which itself still counts. */
function cancelSince(before) {
  cancelTimersSince(before);
  timerCount[0] = 1 + allTimers().filter((timer) => timer[timers.refed]).length;
  if (timers.immediates !== null) timers.immediates.head = timers.immediates.tail = null;
  immediateCounts[0] = immediateCounts[1] = 0;
  binding.toggleImmediateRef?.(false);
  for (const handle of process._getActiveHandles()) {
    if (!before.handles.has(handle)) quietly(() => handle.unref());
  }
  for (const worker of threads) {
    if (!before.threads.has(worker)) quietly(() => worker.terminate().catch(() => {}));
  }
}

function allTimers() {
  const found = [];
  for (const list of Object.values(timers.lists)) {
    for (let timer = list._idleNext; timer && timer !== list; timer = timer._idleNext) found.push(timer);
  }
  return found;
}

function quietly(action) {
  try {
    action();
  } catch {
    // it has no such thing, or it has ended already
  }
}

module.exports = { cancelSince, cancelTimersSince, mark, noteThread };
