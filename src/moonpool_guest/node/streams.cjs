'use strict';
/*
 * Standard output and error as blocking, unbuffered streams.
 *
 * The pipes belong to PID 1 too. Node's own streams would make them non-blocking for both, and would keep output that
 * the process then takes with it. Here a write is done when it returns.
 *
 * INVARIANT: no state between two writes: code can be cut off in the middle of any of them (`interrupts`).
 */

const { writeSync } = require('node:fs');
const { Writable } = require('node:stream');

const { wait } = Atomics;
const { nextTick } = process;
const { from } = Buffer;
const bell = new Int32Array(new SharedArrayBuffer(4)); // nobody rings it: waiting for it is a sleep

/** Write all of `bytes`, also where a child process has made the pipe non-blocking. */
function writeWhole(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if (error.code === 'EPIPE') return; // nobody reads any more
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') throw error;
      wait(bell, 0, 0, 1);
    }
  }
}

class BlockingStream extends Writable {
  constructor(fd) {
    super({ decodeStrings: false, autoDestroy: false, emitClose: false });
    this.fd = fd;
    this._type = 'pipe';
  }

  write(chunk, encoding, done) {
    if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
    if (typeof chunk === 'string') writeWhole(this.fd, from(chunk, encoding));
    else if (ArrayBuffer.isView(chunk)) writeWhole(this.fd, from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    else throw new TypeError(`process.std${this.fd === 1 ? 'out' : 'err'}.write takes a string or bytes`);
    if (typeof done === 'function') nextTick(done);
    return true;
  }

  /** As in Node, these streams cannot be closed. */
  end(chunk, encoding, done) {
    if (typeof chunk === 'function') [chunk, done] = [undefined, chunk];
    if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    if (typeof done === 'function') nextTick(done);
    return this;
  }

  destroy() {
    return this;
  }

  destroySoon() {}

  cork() {}

  uncork() {}

  _write(chunk, encoding, done) {
    this.write(chunk, encoding);
    done();
  }
}

/** Put blocking streams in the place of Node's. Once, before anything is printed. */
function install() {
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    const stream = new BlockingStream(fd);
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream });
  }
}

module.exports = { install, writeWhole };
