// Calls every tool in every form that a Node tree offers, with a fake bridge, and prints what the bridge received.
//
//     node calls.mjs TREE < cases.json
//
// Runs in plain Node. A test in a real sandbox imports `callEveryWay`.

import { pathToFileURL } from "node:url";

export const FORMS = 4;

/** One call per form, all with the case's arguments; results are not looked at. */
export async function callEveryWay(item, module, callTool) {
  const args = item.arguments;
  await module[item.node](args);
  await module.tools[item.tool](args);
  await callTool(item.server_id, item.tool, args);
  await callTool({ serverId: item.server_id, name: item.tool, arguments: args });
}

async function main(tree) {
  const received = [];
  globalThis[Symbol.for("moonpool.callTool")] = async (server, tool, args) => {
    received.push(JSON.stringify([server, tool, args]));
    return { ok: true, data_from: "text", raw: { content: [{ type: "text", text: "done" }] } };
  };
  const load = (path) => import(pathToFileURL(`${tree}/${path}`).href);
  const { callTool } = await load("client/mcp_client.js");
  let input = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
  const cases = JSON.parse(input);
  const exported = {};
  for (const item of cases) {
    const module = await load(`servers/${item.module}/index.js`);
    exported[item.module] = Object.keys(module);
    await callEveryWay(item, module, callTool);
  }
  process.stdout.write(`{"received":[${received.join(",")}],"exported":${JSON.stringify(exported)}}`);
}

if (process.argv[2]) await main(process.argv[2]);
