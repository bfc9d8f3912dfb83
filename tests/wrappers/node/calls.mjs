// Calls every tool in every form that a Node tree offers, with a fake bridge, and prints what the bridge received.
//
//     node calls.mjs < [{"tree", "cases"}...]
//
// prints [{"received": [[server, tool, arguments]...], "exported": {module: names}, "error"}...], tree by tree.

import { pathToFileURL } from "node:url";
import { callEveryWay } from "./every_way.mjs";

async function callAll({ tree, cases }) {
  const received = [];
  const exported = {};
  globalThis[Symbol.for("moonpool.callTool")] = async (server, tool, args) => {
    received.push(JSON.parse(JSON.stringify([server, tool, args])));
    return { ok: true, data_from: "text", raw: { content: [{ type: "text", text: "done" }] } };
  };
  const load = (path) => import(pathToFileURL(`${tree}/${path}`).href);
  try {
    const { callTool } = await load("client/mcp_client.js");
    for (const item of cases) {
      const module = await load(`servers/${item.module}/index.js`);
      exported[item.module] = Object.keys(module);
      await callEveryWay(item, module, callTool);
    }
  } catch (error) {
    return { received, exported, error: error.stack };
  }
  return { received, exported, error: null };
}

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
const answers = [];
for (const each of JSON.parse(input)) answers.push(await callAll(each));
process.stdout.write(JSON.stringify(answers));
