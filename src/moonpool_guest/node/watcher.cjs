'use strict';
/*
 * The thread that waits for alarms and interrupts the main thread. See `interrupts.cjs`.
 *
 * An alarm is the number of an execution, u32. The main thread is asked again and again until it says that this
 * execution is over: one look may find it in Node's own parts, or at the end of its stack, where nothing can be called.
 */

const { Session } = require('node:inspector');
const { Socket } = require('node:net');
const { workerData } = require('node:worker_threads');

const AGAIN_AFTER_MS = 5;
const FAILURES_MAX = 3;

let session = null;
let rest = Buffer.alloc(0);

new Socket({ fd: workerData.fd, readable: true, writable: false }).on('data', (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  const whole = rest.length - (rest.length % 4);
  if (whole === 0) return;
  const number = rest.readUInt32BE(whole - 4);
  rest = rest.subarray(whole);
  end();
  session = new Session();
  session.connectToMainThread(); // only now: a connected inspector makes every console.log slower
  ask(session, number, 0);
});

function ask(mine, number, failures) {
  const call = { expression: `globalThis[Symbol.for('moonpool.alarm')](${number})`, returnByValue: true, silent: true };
  mine.post('Runtime.evaluate', call, (error, answer) => {
    if (mine !== session) return;
    if (answer?.result?.value === 'gone') {
      end();
      return;
    }
    const failed = error || answer.exceptionDetails ? failures + 1 : 0;
    if (failed >= FAILURES_MAX) mine.post('Runtime.terminateExecution'); // no room on the stack, or Symbol is not there
    setTimeout(() => mine === session && ask(mine, number, failed % FAILURES_MAX), AGAIN_AFTER_MS);
  });
}

function end() {
  session?.disconnect();
  session = null;
}
