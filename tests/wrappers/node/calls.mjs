// Calls every tool in every form that a Node tree offers, with a fake bridge, and prints what the bridge received.
//
//     node calls.mjs TREE < cases.json

import { pathToFileURL } from "node:url";
import { callEveryWay } from "./every_way.mjs";

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

await main(process.argv[2]);
