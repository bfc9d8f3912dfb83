// Reads generated files with TypeScript's own parser and says what is in them besides what belongs there.
//
//     node harmless.mjs TYPESCRIPT < [{"path", "text"}...]
//
// prints [{"path", "wrong": [...], "calls": [[function, server, tool]...]}...].
//
// index.js: one import, functions that return one call with two string literals, one table. index.d.ts: one import,
// interfaces, function signatures, one table. In comments: no tags, no commands to the compiler.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const ts = createRequire(pathToFileURL(`${process.argv[2]}/`))("typescript");
const { SyntaxKind: Kind } = ts;

function look({ path, text }) {
  const wrong = [];
  const calls = [];
  const isTypes = path.endsWith(".d.ts");
  const kind = isTypes ? ts.ScriptKind.TS : ts.ScriptKind.JS;
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true, kind);
  const expect = (condition, what) => condition || wrong.push(what);
  expect(file.parseDiagnostics.length === 0, `syntax: ${file.parseDiagnostics.map((each) => each.messageText)}`);
  expect(!file.commentDirectives?.length, "a comment is a command to the compiler");
  expect(file.referencedFiles.length + file.typeReferenceDirectives.length + file.pragmas.size === 0, "pragmas");
  file.statements.forEach((statement, at) => {
    expect(ts.getJSDocTags(statement).length === 0, `tags at ${statement.getText().slice(0, 60)}`);
    if (at === 0) {
      const import_ = isTypes ? "import type { ToolCallResult }" : "import { callTool }";
      expect(statement.getText() === `${import_} from "../../client/mcp_client.js";`, "another import");
    } else if (at === file.statements.length - 1) {
      expect(ts.isVariableStatement(statement) && /^export const tools\b/.test(statement.getText()), "no table");
    } else if (isTypes) {
      const isSignature = ts.isFunctionDeclaration(statement) && !statement.body;
      expect(isSignature || ts.isInterfaceDeclaration(statement), Kind[statement.kind]);
      if (ts.isInterfaceDeclaration(statement)) statement.members.forEach((member) => checkMember(member, expect));
    } else {
      calls.push(readFunction(statement, expect));
    }
  });
  return { path, wrong, calls };
}

function checkMember(member, expect) {
  expect(ts.isPropertySignature(member) || ts.isIndexSignatureDeclaration(member), `member ${Kind[member.kind]}`);
  expect(ts.getJSDocTags(member).length === 0, `tags at ${member.getText().slice(0, 60)}`);
}

/** `export async function NAME(args = {}) { return callTool("SERVER", "TOOL", args); }` */
function readFunction(statement, expect) {
  const [only, ...more] = statement.body?.statements ?? [];
  const call = only?.expression;
  const fits =
    ts.isFunctionDeclaration(statement) && more.length === 0 && only && ts.isReturnStatement(only) &&
    statement.parameters.map((each) => each.getText()).join() === "args = {}" && ts.isCallExpression(call) &&
    call.expression.getText() === "callTool" && call.arguments.length === 3 &&
    ts.isStringLiteral(call.arguments[0]) && ts.isStringLiteral(call.arguments[1]) &&
    call.arguments[2].getText() === "args";
  expect(fits, `not a wrapper: ${statement.getText().slice(0, 120)}`);
  return fits ? [statement.name.text, call.arguments[0].text, call.arguments[1].text] : [];
}

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
process.stdout.write(JSON.stringify(JSON.parse(input).map(look)));
