// Parses many files as ES modules (what `node --check` does, in one process) and prints what is wrong with them.
//
//     node --experimental-vm-modules syntax.mjs < [{"path", "text"}...]

import { SourceTextModule } from "node:vm";

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
const wrong = [];
for (const { path, text } of JSON.parse(input)) {
  try {
    new SourceTextModule(text, { identifier: path });
  } catch (error) {
    wrong.push(`${path}: ${error}`);
  }
}
process.stdout.write(JSON.stringify(wrong));
