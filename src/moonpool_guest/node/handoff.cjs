'use strict';
/*
 * Turns the value that code left in `result`, or of its last expression, or the arguments of a tool call, into JSON, or
 * says in one sentence why it cannot.
 *
 * What JSON holds goes through, dates become ISO 8601, `toJSON` is honoured, `undefined` is left out or null as
 * JSON.stringify has it. NaN, infinities, BigInts, functions, symbols, Maps, Sets, bytes, promises, errors, cycles and
 * lone surrogates are errors that name the place and the remedy: nothing is converted by guessing.
 */

const { stringify } = JSON;
const { isArray } = Array;
const { keys } = Object;
const { isProxy, isBoxedPrimitive, isDate, isMap, isSet, isPromise, isAnyArrayBuffer, isNativeError, isRegExp } =
  require('node:util').types;
const { isView } = ArrayBuffer;

const DEPTH_MAX = 60; // the host refuses JSON deeper than 64
const PLAIN_NAME = /^[A-Za-z_$][\w$]*$/;

class NotSerializableError extends Error {}
class TooLargeError extends Error {}

let left = Infinity; // bytes that the value under way may still have

/**
 * JSON text of `value`, or undefined for undefined. `root` names the value in messages. Throws TooLargeError as soon as
 * it is certain that there are more than `room` bytes.
 */
function encode(value, root, room = Infinity) {
  const before = left; // of a value whose `toJSON` calls a tool
  left = room;
  try {
    const plain = toPlain(value, { key: root, above: null }, 0, []);
    return plain === undefined ? undefined : stringify(plain);
  } finally {
    left = before;
  }
}

function toPlain(value, place, depth, around) {
  left -= typeof value === 'string' ? value.length : 1; // at least
  if (left < 0) throw new TooLargeError();
  switch (typeof value) {
    case 'undefined':
    case 'boolean':
      return value;
    case 'string':
      return text(value, place);
    case 'number':
      if (Number.isFinite(value)) return value;
      throw refused(place, `${value}, which JSON cannot hold; use null or a string`, 'is');
    case 'bigint':
      throw refused(place, 'a BigInt, which JSON cannot hold; use String(...) or Number(...)', 'is');
    case 'symbol':
      throw refused(place, 'a symbol, which JSON cannot hold; use its description', 'is');
    case 'function':
      throw refused(place, 'a function, which JSON cannot hold; call it and hand over what it gives', 'is');
    default:
      return value === null ? null : compound(value, place, depth, around);
  }
}

function compound(value, place, depth, around) {
  if (depth > DEPTH_MAX) {
    throw refused(place, `nested more than ${DEPTH_MAX} levels deep; hand over a flatter value`, 'is');
  }
  if (around.includes(value)) throw refused(place, 'itself; JSON cannot hold a cycle', 'contains');
  around.push(value);
  const plain = members(value, place, depth + 1, around);
  around.pop();
  return plain;
}

function members(value, place, depth, around) {
  if (isArray(value)) {
    const items = [];
    for (let index = 0; index < value.length; index += 1) {
      items[index] = toPlain(value[index], { key: index, above: place }, depth, around) ?? null;
    }
    return items;
  }
  if (isBoxedPrimitive(value)) return toPlain(value.valueOf(), place, depth, around);
  const obstacle = obstacleOf(value);
  if (obstacle !== null) throw refused(place, obstacle, 'is');
  if (typeof value.toJSON === 'function') return toPlain(value.toJSON(String(place.key)), place, depth, around);
  const plain = { __proto__: null };
  for (const key of keys(value)) {
    const below = { key, above: place };
    const member = toPlain(value[key], below, depth, around);
    if (member !== undefined) plain[text(key, below)] = member;
  }
  return plain;
}

/** What keeps an object from being JSON, with the remedy. */
function obstacleOf(value) {
  if (isProxy(value)) return null;
  if (isDate(value)) return Number.isNaN(value.getTime()) ? 'an invalid Date; use null or a string' : null;
  if (isMap(value)) return 'a Map, which JSON cannot hold; use Object.fromEntries(...)';
  if (isSet(value)) return 'a Set, which JSON cannot hold; use [...set] or Array.from(...)';
  if (isPromise(value)) return 'a Promise, which JSON cannot hold; write `await` before it';
  if (isView(value) && !(value instanceof DataView) && !Buffer.isBuffer(value)) {
    return `${article(value.constructor?.name ?? 'typed array')}, which JSON cannot hold; use Array.from(...)`;
  }
  if (isView(value) || isAnyArrayBuffer(value)) {
    return 'bytes, which JSON cannot hold; use .toString() or write them to a file in /workspace';
  }
  if (isNativeError(value)) return 'an Error, which JSON cannot hold; use its message';
  if (isRegExp(value)) return 'a RegExp, which JSON cannot hold; use String(...)';
  return null;
}

function text(value, place) {
  if (value.isWellFormed()) return value;
  throw refused(place, 'a lone surrogate, which is not text; use .toWellFormed()', 'holds');
}

function refused(place, what, verb) {
  return new NotSerializableError(`${nameOf(place)} ${verb} ${what}`);
}

/** `result.rows[3]`. Made only when there is something to say about the place. */
function nameOf(place) {
  let name = '';
  for (; place.above !== null; place = place.above) {
    const { key } = place;
    name = (typeof key === 'number' ? `[${key}]` : PLAIN_NAME.test(key) ? `.${key}` : `[${stringify(key.slice(0, 80))}]`) + name;
  }
  name = place.key + name;
  return name.length <= 200 ? name : `${name.slice(0, 120)}...${name.slice(-60)}`;
}

function article(name) {
  return `${/^[aeiou]/i.test(name) ? 'an' : 'a'} ${name}`;
}

module.exports = { NotSerializableError, TooLargeError, encode };
