'use strict';
/*
 * What executions of one session share through the global object: the names that their code declared, and `result`.
 *
 * A later execution sees a name of an earlier one as an accessor that leads to the variable itself, so functions that
 * were defined beside it and code that comes later work on the same one.
 */

const { defineProperty, getOwnPropertyDescriptor } = Object;

/** The place of `globalThis.result`: knows whether the current execution has assigned it. */
class ResultSlot {
  constructor() {
    this._value = undefined;
    this._assigned = false;
    this._get = () => this._value;
    this._set = (value) => {
      this._value = value;
      this._assigned = true;
    };
  }

  /** Begin an execution. What an earlier one left can still be read. */
  reset() {
    if (!this._isInPlace()) this._value = globalThis.result;
    this._assigned = false;
    try {
      defineProperty(globalThis, 'result', { configurable: true, get: this._get, set: this._set });
    } catch {
      // code made it a property for ever: then that is what is handed over
    }
  }

  /** What the execution handed over; undefined for nothing. `declared` is the value of its own top-level `result`. */
  take(declared) {
    if (!this._isInPlace()) return globalThis.result;
    if (this._assigned) return this._value;
    if (declared !== undefined) this._value = declared;
    return declared;
  }

  /** Forget everything, as if nothing had run. */
  clear() {
    this._value = undefined;
    this._assigned = false;
  }

  _isInPlace() {
    return getOwnPropertyDescriptor(globalThis, 'result')?.get === this._get;
  }
}

/** Let later executions see what `names` (name -> whether it can be assigned) mean in `scope`. */
function shareNames(names, scope) {
  let index = 0;
  for (const [name, assignable] of names) {
    const at = index;
    index += 1;
    if (name === 'result' || !isThere(scope, at)) continue;
    const get = () => scope(at, false);
    const set = assignable ? (value) => scope(at, true, value) : () => refuseAssignment(name);
    try {
      defineProperty(globalThis, name, { configurable: true, enumerable: true, get, set });
    } catch {
      // `undefined` and the like: what cannot be redefined stays
    }
  }
}

/** The value of the top-level `result` in `scope`, if the code declared one and came that far. */
function declaredResult(names, scope) {
  const at = [...names.keys()].indexOf('result');
  return at >= 0 && isThere(scope, at) ? scope(at, false) : undefined;
}

function isThere(scope, at) {
  try {
    scope(at, false);
    return true;
  } catch {
    return false; // the code ended before its declaration
  }
}

function refuseAssignment(name) {
  throw new TypeError(`Assignment to constant variable ${name}, which an earlier execution declared`);
}

module.exports = { ResultSlot, declaredResult, shareNames };
