'use strict';
/*
 * What an error says to the caller (`describe`) and on stderr (`show`): the code's own frames only, nothing that code
 * can break by throwing strange things.
 */

const { inspect } = require('node:util');
const path = require('node:path');
const { internal } = require('./interrupts.cjs');

const OWN = Symbol.for('moonpool.error'); // an error's own description: {type, message, retryable}
const KERNEL = __dirname.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') + path.sep;
const HIDDEN_LINE = new RegExp(
  `\\n\\s+(?:at .*(?:\\bnode:|/wrappers/current/(?:servers|client)/|${KERNEL}).*|\\.\\.\\. \\d+ lines matching cause stack trace \\.\\.\\.)`,
  'g',
);
const PLACE = /((?:file:\/\/)?(\/\S{1,200}?)):(\d+):(-?\d+)(?=\)?(?: \{)?$)/gm;
const KNOWN_MAX = 256;
const insertions = new Map(); // file -> `{line, column, length}` of what was put into its text
const ARROW = /^(?:file:\/\/)?(\S+?):(\d+)\r?\n/;
const decorateErrorStack = internal('internal/util', 'decorateErrorStack');

/** `{type, message, retryable}` of anything that was thrown. */
function describe(error) {
  return attempt(() => known(error), () => plain(error), () => ({ type: 'Error', message: 'a value whose text cannot be shown' }));
}

function known(error) {
  const own = error?.[OWN];
  if (own === undefined) return null;
  const { type, message, retryable } = typeof own === 'function' ? own.call(error) : own;
  return { type: String(type), message: String(message), retryable: Boolean(retryable) };
}

function plain(error) {
  if (!isErrorLike(error)) return { type: 'Error', message: `the code threw ${inspect(error, { depth: 1 })}` };
  const line = error instanceof SyntaxError ? lineOf(error) : null;
  const more = line === null ? causeOfFetch(error) : ` (line ${line})`;
  return { type: nameOf(error), message: String(error.message) + more };
}

function isErrorLike(error) {
  return error instanceof Error || (typeof error === 'object' && error !== null && typeof error.stack === 'string');
}

/** The error's name; of a subclass that gave itself none, its class. */
function nameOf(error) {
  const name = String(error.name ?? 'Error');
  const own = error.constructor?.name;
  return name === 'Error' && typeof own === 'string' && own !== '' ? own : name;
}

/** Why `fetch failed`, which only its cause says. */
function causeOfFetch(error) {
  return error.message === 'fetch failed' && isErrorLike(error.cause) ? `: ${error.cause.message}` : '';
}

/** The line of a syntax error, which V8 tells in its stack only. */
function lineOf(error) {
  const arrow = ARROW.exec(stackOf(error));
  return arrow === null ? null : Number(arrow[2]);
}

function stackOf(error) {
  decorateErrorStack?.(error);
  return String(error.stack);
}

/** What stderr shows of an error that nobody caught. */
function show(error) {
  return attempt(
    () => {
      if (error instanceof SyntaxError) stackOf(error);
      const text = isErrorLike(error) ? inspect(error) : `Uncaught ${inspect(error)}`;
      return `${withOwnColumns(text.replace(HIDDEN_LINE, (line) => (line.endsWith(' {') ? ' {' : '')))}\n`;
    },
    () => `${describe(error).type}: ${describe(error).message}\n`,
  );
}

/** Remember what was put into the text of a program, so that the columns that are shown are the code's own. */
function know(filename, inserted) {
  insertions.delete(filename);
  if (inserted !== undefined) insertions.set(filename, inserted);
  if (insertions.size > KNOWN_MAX) insertions.delete(insertions.keys().next().value);
}

function withOwnColumns(text) {
  return text.replace(PLACE, (whole, place, filename, line, column) => {
    const inserted = insertions.get(filename);
    if (inserted === undefined || Number(line) !== inserted.line) return whole;
    const own = Number(column) > inserted.column ? Math.max(Number(column) - inserted.length, inserted.column + 1) : Number(column);
    return `${place}:${line}:${Math.max(own, 1)}`;
  });
}

/** The first of `ways` that neither throws nor gives null. */
function attempt(...ways) {
  for (const way of ways) {
    try {
      const value = way();
      if (value !== null) return value;
    } catch {
      // the next one
    }
  }
  return '';
}

module.exports = { describe, know, show };
