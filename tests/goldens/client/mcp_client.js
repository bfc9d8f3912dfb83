/**
 * Calls MCP tools from inside the sandbox. Generated wrappers stand on this; hand-written code may use it too.
 *
 *     import { callTool } from "../../client/mcp_client.js";
 *     const result = await callTool({ serverId: "sheets", name: "get_all_rows", arguments: { sheetId: "q" } });
 *
 * The kernel puts the way to the broker at `globalThis[Symbol.for("moonpool.callTool")]`: an async function of server,
 * tool and arguments that gives the broker's reply, `{ok, data_from, raw}` or `{ok, error, raw}`. The twin for Python
 * is `client.mcp_client`; both mean the same by everything.
 *
 * What a call returns is one object for every way of reading a result:
 *
 *     rows.ok, rows.data, rows.error, rows.raw, rows.content, rows.structuredContent, rows.isError, rows.text
 *     rows.unwrap()      the data; throws the typed error of a failed call
 *     rows.length, rows[0], for (const row of rows), rows.map(...), { ...rows }      read the data
 *     JSON.stringify(rows)      the data
 *
 * Of a failed call only `ok`, `error`, `raw`, `isError` and `structuredContent` can be read, and once `ok`, `error` or
 * `isError` was asked, `content` and `text`: what the server said of the failure. Whatever would look at its data throws
 * the typed error instead, so that a failure never passes for data. Data wins: a member that an object in the data has is the data's, also when it
 * is called `ok`, `error`, `data`, `content` or `text`. Always the call's are `unwrap()`, `raw`, `structuredContent`,
 * `isError` and `toJSON`; data of such a name is a member of `unwrap()`.
 */

const BRIDGE = Symbol.for("moonpool.callTool");
const INSPECT = Symbol.for("nodejs.util.inspect.custom");
const ERROR = Symbol.for("moonpool.error");

// -- errors: one class per type, as in the result contract's `error`

/** A tool call gave no data. The message says why and what to do. */
export class ToolCallError extends Error {
  constructor(message, { type = "ToolError", retryable = false, tool = "", line = 0 } = {}) {
    const named = tool === "" || message.includes(tool) ? message : `${tool}: ${message}`;
    super(line > 0 ? `${named} (called at line ${line})` : named);
    this.type = type;
    this.retryable = retryable;
    this.tool = tool;
    this.line = line; // of the code, where it made the call; 0: unknown
    if (this.name !== type) this.name = type; // a type that has no class of its own
  }

  toJSON() {
    return { type: this.type, message: this.message, retryable: this.retryable };
  }

  /** What the envelope says when the code did not catch this. */
  [ERROR]() {
    return this.toJSON();
  }
}

/** The tool itself reported the failure. */
export class ToolError extends ToolCallError {}
/** No such tool in this session. */
export class UnknownTool extends ToolCallError {}
/** The arguments do not fit the tool's schema; nothing was called. */
export class ValidationError extends ToolCallError {}
/** A rule of the operator forbids the call. */
export class PolicyDenied extends ToolCallError {}
/** The server changed the tool, and the operator has not accepted that yet. */
export class ToolPaused extends ToolCallError {}
/** A person refused the call. */
export class ApprovalRejected extends ToolCallError {}
/** Nobody answered in time, which counts as a refusal. */
export class ApprovalExpired extends ToolCallError {}
/** The server took too long. */
export class Timeout extends ToolCallError {}
/** Too many calls. */
export class RateLimit extends ToolCallError {}
/** The server died or could not be reached; it is being restarted. */
export class TransientNetwork extends ToolCallError {}
/** The server answered with a protocol error or with garbage. */
export class UpstreamError extends ToolCallError {}
/** The result is over the limit. */
export class OutputTooLarge extends ToolCallError {}
/** The call came after its execution was over, or from outside of one. */
export class ExecutionEnded extends ToolCallError {}

const CLASSES = new Map(
  [
    ToolError, UnknownTool, ValidationError, PolicyDenied, ToolPaused, ApprovalRejected, ApprovalExpired, Timeout,
    RateLimit, TransientNetwork, UpstreamError, OutputTooLarge, ExecutionEnded,
  ].map((each) => [each.name, each]),
);
for (const [name, each] of CLASSES) {
  Object.defineProperty(each.prototype, "name", { value: name, writable: true, configurable: true });
}

// -- results

/** What the broker's reply says, without any of the ways to read it. */
class Outcome {
  #reply;
  #tool;
  #data;

  constructor(reply, tool) {
    this.#reply = reply !== null && typeof reply === "object" ? reply : {};
    this.#tool = tool;
    if (this.ok) this.#data = this.#readData();
  }

  get ok() {
    return this.#reply.ok === true;
  }

  get error() {
    if (this.ok) return null;
    return this.#reply.error ?? { type: "Internal", message: "no reason given", retryable: false };
  }

  get raw() {
    return this.#reply.raw ?? null;
  }

  get content() {
    return this.raw?.content ?? [];
  }

  get structuredContent() {
    return this.raw?.structuredContent;
  }

  get isError() {
    return (this.raw?.isError ?? !this.ok) === true;
  }

  get text() {
    return this.content.filter((block) => typeof block.text === "string").map((block) => block.text).join("\n");
  }

  get data() {
    if (!this.ok) throw this.failure();
    return this.#data;
  }

  unwrap = () => this.data;
  toJSON = () => this.data;

  /** The typed error of a failed call. */
  failure() {
    const { type = "Internal", message = "", retryable = false } = this.error;
    const Class = CLASSES.get(String(type)) ?? ToolCallError;
    const about = { type: String(type), retryable: retryable === true, tool: this.#tool, line: this.#reply.line };
    const error = new Class(String(message), about);
    // The trace begins where the code read the data, not in here.
    const isOurs = (line) => line.startsWith("    at ") && line.includes(import.meta.url);
    error.stack = String(error.stack).split("\n").filter((line) => !isOurs(line)).join("\n");
    return error;
  }

  #readData() {
    switch (this.#reply.data_from) {
      case "structured":
        return this.structuredContent;
      case "json_text":
        return JSON.parse(this.text);
      case "literal_text":
        return this.#reply.data;
      case "text":
        return this.text;
      default:
        return this.content;
    }
  }
}

/** Names that are always the call's, and those that are unless the data has a member of that name. */
const ALWAYS = new Set(["raw", "structuredContent", "isError", "unwrap", "toJSON"]);
const OWN = new Set([...ALWAYS, "ok", "data", "error", "content", "text"]);
const ASKS = new Set(["ok", "error", "isError"]); // whoever reads one of these knows about a failure
const ofTheCall = (data, key) => ALWAYS.has(key) || (OWN.has(key) && !Object.hasOwn(data, key));
const results = new WeakSet();

/** Outcome of one tool call; see the top of this file. */
export class ToolCallResult {
  constructor(reply, tool = "") {
    const outcome = new Outcome(reply, tool);
    const isObject = outcome.ok && outcome.data !== null && typeof outcome.data === "object";
    const Traps = isObject ? ObjectTraps : outcome.ok ? ValueTraps : FailureTraps;
    const result = new Proxy(isObject ? outcome.data : standIn(outcome), new Traps(outcome));
    results.add(result);
    return result;
  }

  static [Symbol.hasInstance](value) {
    return results.has(value);
  }
}

/** Data that is a list or an object: the proxy is over the data itself, so it is one for everybody who asks. */
class ObjectTraps {
  constructor(outcome) {
    this.outcome = outcome;
  }

  get(data, key) {
    if (ofTheCall(data, key)) return this.outcome[key];
    const value = data[key];
    // Functions are the prototype's, since JSON has none; bound to the data they run at full speed.
    return typeof value === "function" && key !== "constructor" ? value.bind(data) : value;
  }

  has(data, key) {
    return OWN.has(key) || key in data;
  }

  set(data, key, value) {
    return !ofTheCall(data, key) && Reflect.set(data, key, value);
  }
}

/** Data that is text, a number, true, false or null. */
class ValueTraps {
  constructor(outcome) {
    this.outcome = outcome;
  }

  get(_, key) {
    if (OWN.has(key)) return this.outcome[key];
    const { data } = this.outcome;
    if (key === Symbol.toPrimitive) return (hint) => (hint === "string" ? String(data) : data);
    const value = data?.[key];
    return typeof value === "function" && key !== "constructor" ? value.bind(data) : value;
  }

  has(_, key) {
    return OWN.has(key);
  }

  set() {
    return false;
  }
}

/** A failed call. */
class FailureTraps {
  constructor(outcome) {
    this.outcome = outcome;
    this.asked = false; // whether it failed
  }

  get(_, key) {
    if (ASKS.has(key)) this.asked = true;
    if ((key === "content" || key === "text") && !this.asked) throw this.outcome.failure();
    if (OWN.has(key)) return this.outcome[key];
    switch (key) {
      case "then": // `await` asks every object for it
        return undefined;
      case "constructor":
        return ToolCallResult;
      case "toString":
      case "toLocaleString":
      case Symbol.toPrimitive:
        return () => `ToolCallResult(ok=false, error=${JSON.stringify(this.outcome.error)})`;
      case Symbol.iterator:
      case Symbol.asyncIterator:
        throw this.outcome.failure();
      default:
        if (typeof key === "symbol") return undefined;
        throw this.outcome.failure();
    }
  }

  has(_, key) {
    if (OWN.has(key)) {
      this.asked = true;
      return key !== "data";
    }
    throw this.outcome.failure();
  }

  ownKeys() {
    throw this.outcome.failure();
  }

  getOwnPropertyDescriptor() {
    throw this.outcome.failure();
  }

  set() {
    return false;
  }
}

/** The target of a proxy without data of its own. Node's console looks at targets, whatever the traps say. */
function standIn(outcome) {
  const show = (_, options, inspect) =>
    outcome.ok ? inspect(outcome.data, options) : `ToolCallResult(ok=false, error=${inspect(outcome.error, options)})`;
  return Object.create({ [INSPECT]: show });
}

// -- calls

/**
 * Call a tool by its own name: `callTool(serverId, name, args)` or `callTool({ serverId, name, arguments })`. Never
 * throws for a failing tool. The kernel refuses arguments that JSON cannot hold; the broker knows the tool's schema.
 */
export async function callTool(serverId, name, args) {
  if (serverId !== null && typeof serverId === "object") {
    ({ serverId, name, arguments: args } = serverId);
  }
  if (typeof serverId !== "string" || typeof name !== "string") {
    throw new TypeError("callTool takes the names of a server and of a tool, both strings");
  }
  const tool = `${serverId}.${name}`;
  const given = args instanceof ToolCallResult ? args.unwrap() : args === undefined ? {} : args;
  if (!isPlainObject(given)) {
    throw new TypeError(`the arguments of ${tool} are one plain object, not ${described(given)}`);
  }
  const bridge = globalThis[BRIDGE];
  if (typeof bridge !== "function") {
    const message = `${tool} was called where no execution is running; tools can be called by code that Moonpool runs`;
    return new ToolCallResult({ ok: false, error: { type: "ExecutionEnded", message, retryable: false } }, tool);
  }
  return new ToolCallResult(await bridge(serverId, name, given), tool);
}

/** Also for objects of another realm: the prototype is a root. */
function isPlainObject(value) {
  if (value === null || typeof value !== "object") return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || (Object.getPrototypeOf(prototype) === null && !Array.isArray(value));
}

function described(value) {
  if (value === null || typeof value !== "object") return value === null ? "null" : `a ${typeof value}`;
  return Array.isArray(value) ? "an array" : `a ${value.constructor?.name ?? "object"}`;
}
