'use strict';
/*
 * The private way between this process and PID 1: frames over one end of a socket pair.
 *
 * A frame is u32 (bytes that follow), u16 (bytes of the head), the head as JSON, the body. The other side is
 * `link.py`. What it may send is bounded, since replies of tools travel here too.
 *
 * INVARIANT: writing is synchronous. A frame is on its way whole when `send` returns, whatever happens to the code
 * that caused it; an interrupt never falls into the middle (`interrupts.guarded`).
 */

const { Socket } = require('node:net');
const { writeWhole } = require('./streams.cjs');
const { guarded } = require('./interrupts.cjs');

const FRAME_BYTES_MAX = 65 * 1024 * 1024; // source code and replies: 64 MiB, as on the channel
const { parse, stringify } = JSON;
const { concat, allocUnsafe, from } = Buffer;

class Link {
  /** Opens `fd`. `onFrame(head, body)` hears every frame, `onClosed` the end. */
  constructor(fd, onFrame, onClosed) {
    this._fd = fd;
    this._chunks = [];
    this._held = 0;
    this._onFrame = onFrame;
    this._socket = new Socket({ fd, readable: true, writable: true });
    this._socket.on('data', (chunk) => this._take(chunk));
    this._socket.on('error', onClosed);
    this._socket.on('close', onClosed);
  }

  /** Whether this process shall stay alive for what PID 1 may say. */
  keepAlive(wanted) {
    if (wanted) this._socket.ref();
    else this._socket.unref();
  }

  send(head, body = '') {
    guarded(() => {
      const headBytes = from(stringify(head));
      const bodyBytes = from(body);
      const frame = allocUnsafe(6 + headBytes.length + bodyBytes.length);
      frame.writeUInt32BE(2 + headBytes.length + bodyBytes.length, 0);
      frame.writeUInt16BE(headBytes.length, 4);
      headBytes.copy(frame, 6);
      bodyBytes.copy(frame, 6 + headBytes.length);
      writeWhole(this._fd, frame);
    });
  }

  _take(chunk) {
    this._chunks[this._chunks.length] = chunk; // not push: code may have replaced it
    this._held += chunk.length;
    for (let wanted = this._wanted(); wanted !== 0 && this._held >= wanted; wanted = this._wanted()) {
      const all = this._whole();
      const headEnd = 6 + all.readUInt16BE(4);
      const head = parse(all.toString('utf8', 6, headEnd));
      const body = all.subarray(headEnd, wanted);
      this._chunks = wanted < all.length ? [all.subarray(wanted)] : [];
      this._held = all.length - wanted;
      this._onFrame(head, body);
    }
  }

  /** Length of the frame that has begun to arrive; 0 while that is not known. */
  _wanted() {
    if (this._held < 6) return 0;
    if (this._chunks[0].length < 6) this._whole();
    const wanted = 4 + this._chunks[0].readUInt32BE(0);
    if (wanted > FRAME_BYTES_MAX) throw new RangeError(`a frame of ${wanted} bytes`);
    return wanted;
  }

  _whole() {
    if (this._chunks.length > 1) this._chunks = [concat(this._chunks, this._held)];
    return this._chunks[0];
  }
}

module.exports = { Link };
