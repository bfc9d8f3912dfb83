// The client in plain Node: one result object for every way of reading (decision 0039); a failure never passes for data.
// Run by test_node_client.py, with the folder of a wrapper tree in TREE.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { afterEach, test } from "node:test";

const client = await import(pathToFileURL(`${process.env.TREE}/client/mcp_client.js`).href);
const { PolicyDenied, Timeout, ToolCallError, ToolCallResult, ToolError, callTool } = client;
const BRIDGE = Symbol.for("moonpool.callTool");
const FAILURE = { ok: false, error: { type: "ToolError", message: "no such sheet", retryable: false } };

const success = (dataFrom, raw) => new ToolCallResult({ ok: true, data_from: dataFrom, raw }, "s.t");
const structured = (data) => success("structured", { structuredContent: data, content: [] });
const textual = (dataFrom, ...texts) => success(dataFrom, { content: texts.map((text) => ({ type: "text", text })) });
const failed = (members = {}) => new ToolCallResult({ ...FAILURE, ...members }, "sheets.get_all_rows");

function bridge(reply = { ok: true, data_from: "text", raw: { content: [{ type: "text", text: "done" }] } }) {
  const calls = [];
  globalThis[BRIDGE] = async (server, tool, args) => {
    calls.push([server, tool, JSON.parse(JSON.stringify(args))]);
    return reply;
  };
  return calls;
}

afterEach(() => delete globalThis[BRIDGE]);

test("presence is not truth", () => {
  for (const data of [{}, [], { rows: [] }, "", 0, false, null]) {
    assert.equal(structured(data).ok, true);
    assert.deepEqual(structured(data).data, data);
    assert.deepEqual(JSON.parse(JSON.stringify({ result: structured(data) })), { result: data });
  }
});

test("a success has the normalized shape", () => {
  const result = structured({ a: 1 });
  assert.deepEqual([result.ok, result.data, result.error], [true, { a: 1 }, null]);
  assert.deepEqual(result.raw.structuredContent, { a: 1 });
  assert.ok(["ok", "data", "raw", "a"].every((key) => key in result));
  assert.deepEqual(result.unwrap(), { a: 1 });
  assert.equal(result.isError, false);
});

test("a failure has the normalized shape", () => {
  const result = failed({ raw: { content: [{ type: "text", text: "boom" }], isError: true } });
  assert.deepEqual([result.ok, result.error], [false, FAILURE.error]);
  assert.deepEqual([result.isError, result.text, result.structuredContent], [true, "boom", undefined]);
  assert.deepEqual([failed().raw, failed().isError], [null, true]);
  for (const ask of ["ok", "error", "isError"]) {
    const asked = failed();
    assert.notEqual(asked[ask], undefined);
    assert.deepEqual([asked.text, asked.content], ["", []]);
  }
  assert.deepEqual(["ok", "error", "raw", "data"].map((key) => key in result), [true, true, true, false]);
});

test("data that is a list reads like a list", () => {
  const rows = textual("json_text", '[{"n": 1}, {"n": 2}]');
  assert.equal(rows.length, 2);
  assert.deepEqual(rows[0], { n: 1 });
  assert.deepEqual([...rows], rows.data);
  assert.deepEqual(rows.map((row) => row.n).concat(rows.filter((row) => row.n > 1).length), [1, 2, 1]);
  assert.equal(Array.isArray(rows), true);
  assert.equal(rows.constructor, Array);
  assert.deepEqual([].concat(rows), rows.data);
  let sum = 0;
  for (const { n } of rows) sum += n;
  assert.equal(sum, 3);
});

test("data that is an object reads like an object", () => {
  const document = structured({ title: "x", rows: [1] });
  assert.deepEqual([document.title, document.content], ["x", []]);
  assert.equal(document.structuredContent?.title ?? JSON.stringify(document.content), "x");
  const { rows, ...rest } = document;
  assert.deepEqual([rows, Object.keys(rest)], [[1], ["title"]]);
  assert.equal("nothing" in document, false);
});

test("a member of the data is the data's", () => {
  const names = ["ok", "data", "error", "content", "text", "items", "keys", "values", "get", "raw", "unwrap"];
  const theirs = Object.fromEntries(names.map((name) => [name, "theirs"]));
  const result = structured(theirs);
  for (const name of names.slice(0, 9)) assert.equal(result[name], "theirs");
  for (const name of names.slice(0, 5)) assert.notEqual(structured({})[name], "theirs");
  assert.deepEqual(result.unwrap(), theirs);
  assert.deepEqual(result.raw.structuredContent, theirs);
  assert.deepEqual([result.structuredContent, result.isError], [theirs, false]);
  assert.equal(JSON.stringify(result), JSON.stringify(theirs));
});

test("what a server calls a failure in its data is none of ours", () => {
  const result = structured({ ok: false, error: "not found" });
  assert.deepEqual([result.ok, result.error, result.isError], [false, "not found", false]);
  assert.deepEqual(result.unwrap(), { ok: false, error: "not found" });
});

test("a printed Python literal is data", () => {
  const raw = { content: [{ type: "text", text: "[{'id': 1}]" }] };
  const result = new ToolCallResult({ ok: true, data_from: "literal_text", data: [{ id: 1 }], raw });
  assert.deepEqual([result[0].id, result.text], [1, "[{'id': 1}]"]);
});

test("the error says where the call was made", () => {
  assert.throws(() => failed({ line: 7 }).title, /^ToolError: sheets\.get_all_rows: no such sheet \(called at line 7\)$/);
});

test("data that is text reads like text", () => {
  const result = textual("text", "one", "two");
  assert.equal(`${result}`, "one\ntwo");
  assert.equal(result + "!", "one\ntwo!");
  assert.deepEqual([result.length, result.split("\n"), [...result].length], [7, ["one", "two"], 7]);
  assert.equal(result == "one\ntwo", true);
});

test("data that is a number, true or null is a value", () => {
  assert.equal(structured(7) + 1, 8);
  assert.equal(structured(7).toFixed(1), "7.0");
  assert.equal(`${structured(null)}`, "null");
  assert.equal(structured(null).anything, undefined);
  assert.equal("x" in structured(7), false);
});

test("content is data where it is more than text", () => {
  const blocks = [{ type: "image", data: "…" }];
  assert.deepEqual(new ToolCallResult({ ok: true, data_from: "content", raw: { content: blocks } }).data, blocks);
});

test("data that looks like a promise or claims a prototype is plain data", async () => {
  for (const text of ['{"then": 1}', '{"__proto__": {"x": 1}}', '{"constructor": 2}']) {
    const result = await (async () => textual("json_text", text))();
    assert.equal(JSON.stringify(result), JSON.stringify(JSON.parse(text)));
    assert.equal(result.ok, true);
  }
});

test("the console shows the data, or the error", () => {
  assert.equal(inspect(structured({ a: [1] })), inspect({ a: [1] }));
  assert.equal(inspect(structured("x")), "'x'");
  assert.match(inspect(failed()), /^ToolCallResult\(ok=false, error=\{ type: 'ToolError'/);
  assert.match(`${failed()}`, /no such sheet/);
});

test("reading the data of a failure throws the typed error", async () => {
  const reads = {
    data: (result) => result.data,
    unwrap: (result) => result.unwrap(),
    length: (result) => result.length,
    index: (result) => result[0],
    member: (result) => result.title,
    iteration: (result) => [...result],
    spread: (result) => ({ ...result }),
    keys: (result) => Object.keys(result),
    membership: (result) => "rows" in result,
    method: (result) => result.map((row) => row),
    json: (result) => JSON.stringify(result),
    text: (result) => result.text,
    content: (result) => result.structuredContent ?? result.content,
  };
  for (const [name, read] of Object.entries(reads)) {
    const isTyped = (error) => error instanceof ToolError && error.message === "sheets.get_all_rows: no such sheet";
    assert.throws(() => read(failed()), isTyped, name);
  }
  assert.equal((await failed()).ok, false); // awaiting a failure is not reading it
});

test("results cannot be given another outcome", () => {
  for (const result of [structured({ a: 1 }), structured(7), failed()]) {
    assert.throws(() => Object.assign(result, { ok: "else" }), TypeError);
  }
});

test("results are known as such", () => {
  for (const result of [structured([]), structured(1), failed()]) assert.ok(result instanceof ToolCallResult);
  assert.equal({} instanceof ToolCallResult, false);
});

test("errors have a class per type, named as the type", () => {
  for (const [type, Class] of [["Timeout", Timeout], ["PolicyDenied", PolicyDenied], ["New", ToolCallError]]) {
    const error = (() => {
      try {
        return failed({ error: { type, message: "why", retryable: type === "Timeout" } }).unwrap();
      } catch (caught) {
        return caught;
      }
    })();
    assert.equal(error.constructor, Class);
    assert.ok(error instanceof ToolCallError && error instanceof Error);
    assert.deepEqual([error.name, error.type, error.tool], [type, type, "sheets.get_all_rows"]);
    assert.equal(error.retryable, type === "Timeout");
    assert.deepEqual(error[Symbol.for("moonpool.error")](), error.toJSON());
    assert.deepEqual(error.toJSON(), { type, message: "sheets.get_all_rows: why", retryable: type === "Timeout" });
    if (type !== "New") assert.match(error.stack, new RegExp(`^${type}: sheets.get_all_rows: why`));
  }
});

test("the trace of an error begins in the code that read the data", () => {
  assert.throws(() => failed().data, (caught) => {
    assert.match(caught.stack.split("\n")[1], /client\.test\.mjs/);
    assert.ok(!caught.stack.includes("mcp_client.js"));
    return true;
  });
});

test("a failure without a reason is still one", () => {
  for (const reply of [{ ok: false }, null, undefined, "nonsense", {}]) {
    const { error } = new ToolCallResult(reply);
    assert.deepEqual(error, { type: "Internal", message: "no reason given", retryable: false });
  }
});

test("a call can be written in both forms, and gives a result", async () => {
  const calls = bridge();
  const location = "Bern";
  assert.equal((await callTool("weather", "get_weather", { location })).data, "done");
  assert.equal((await callTool({ serverId: "weather", name: "get_weather", arguments: { location } })).data, "done");
  await callTool("weather", "get.all");
  assert.deepEqual(calls, [
    ["weather", "get_weather", { location: "Bern" }],
    ["weather", "get_weather", { location: "Bern" }],
    ["weather", "get.all", {}],
  ]);
});

test("a failing tool does not throw", async () => {
  bridge({ ok: false, error: { type: "Timeout", message: "slow", retryable: true } });
  const result = await callTool("s", "t");
  assert.equal(result.error.type, "Timeout");
});

test("outside of an execution a call says so", async () => {
  const result = await callTool("s", "t", {});
  assert.match(result.error.message, /s\.t was called where no execution is running/);
  assert.throws(() => result.data, { name: "ExecutionEnded" });
});

test("arguments that are no plain object are refused", async () => {
  const calls = bridge();
  for (const args of [null, [], "text", 7, new Map(), new Date(), () => 1]) {
    const message = /arguments of s\.t are one plain object/;
    await assert.rejects(callTool("s", "t", args), { name: "TypeError", message });
  }
  await assert.rejects(callTool("s", 7), TypeError);
  await assert.rejects(callTool(), TypeError);
  assert.deepEqual(calls, []);
});

test("objects without a prototype and earlier results may be arguments", async () => {
  const calls = bridge();
  await callTool("s", "t", Object.assign(Object.create(null), { rows: structured([1]) }));
  await callTool("s", "t", structured({ a: 1 }));
  assert.deepEqual(calls.map((call) => call[2]), [
    { rows: [1] },
    { a: 1 },
  ]);
});

test("a failed result cannot be an argument", async () => {
  const calls = bridge();
  await assert.rejects(callTool("s", "t", { rows: failed() }), { name: "ToolError" }); // by the bridge
  await assert.rejects(callTool("s", "t", failed()), { name: "ToolError" });
  assert.deepEqual(calls, []);
});
