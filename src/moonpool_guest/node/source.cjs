'use strict';
/*
 * Reads code before it runs: is it a module or a script, which names does it declare, is it TypeScript?
 *
 * Code is a module if it uses `import`, `export`, `import.meta` or top-level `await`; otherwise it is a script with
 * `require`, as in Node. It runs as it is. Behind its end, so that no line moves, stands one function through which
 * later executions reach the names that it declared. The same function takes the value of the code's last expression.
 */

const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const { stripTypes } = require('./typescript.cjs');

const OPTIONS = { ecmaVersion: 'latest', allowHashBang: true };
const LEFT_OUT = new Set(['FunctionDeclaration', 'EmptyStatement']); // which do nothing where they stand
const ASSIGNMENTS = new Set(['AssignmentExpression', 'UpdateExpression']);
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);

/**
 * A program: `{kind: 'module' | 'script', text, plain, shift, names, scopeName, strict}`. `plain` is the text without what
 * was put in. `names` is null where the code cannot be read here and is left to V8, whose error is the better one.
 */
function prepare(text) {
  const code = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const program = read(code);
  if (program !== null) return program;
  const stripped = stripTypes(code);
  return (stripped === null ? null : read(stripped)) ?? { kind: guessKind(code), text: code, plain: code, shift: 0, names: null };
}

function read(code) {
  const module = parse(code, { ...OPTIONS, sourceType: 'module' });
  if (module !== null) {
    const found = survey(module);
    if (found.isModule) return finish('module', code, module, found.names);
    if (parse(code, SCRIPT) === null) return finish('module', code, module, found.names);
    return finish('script', code, module, found.names);
  }
  const script = parse(code, SCRIPT);
  return script === null ? null : finish('script', code, script, survey(script).names);
}

const SCRIPT = { ...OPTIONS, sourceType: 'script', allowReturnOutsideFunction: true, allowImportExportEverywhere: false };

function parse(code, options) {
  try {
    return acorn.parse(code, options);
  } catch {
    return null;
  }
}

function finish(kind, code, tree, names) {
  let scopeName = '__moonpool_scope';
  while (code.includes(scopeName)) scopeName += '_';
  const strict = tree.body[0]?.directive === 'use strict';
  const text = kind === 'module' ? code : code.replace(/^#!/, '//');
  return { kind, ...keepLast(text, tree, scopeName), names, scopeName, strict };
}

/**
 * The code, which hands the value of its last statement to the function behind its end, if that is an expression. What
 * is put in stands behind the statement before, so that columns of other lines stay; `shift`: at the code's very
 * beginning; `inserted` says where else.
 */
function keepLast(text, tree, scopeName) {
  const at = tree.body.findLastIndex((one) => !LEFT_OUT.has(one.type));
  const last = tree.body[at];
  const isKept = last?.type === 'ExpressionStatement' && !ASSIGNMENTS.has(last.expression.type) && last.directive !== 'use strict';
  if (!isKept) return { text, plain: text, shift: 0 };
  const first = text.startsWith('#!') ? last.start : 0;
  const begin = at === 0 ? first : tree.body[at - 1].end;
  const end = text[last.end - 1] === ';' ? last.end - 1 : last.end;
  const call = `${at === 0 ? '' : ';'}${scopeName}(-1,1,(`;
  const kept = `${text.slice(0, begin)}${call}${text.slice(begin, end)}))${text.slice(end)}`;
  if (begin === 0) return { text: kept, plain: text, shift: call.length, inserted: { line: 1, column: 0, length: 0 } };
  const lines = text.slice(0, begin).split(/\r\n|[\n\r\u2028\u2029]/);
  const inserted = { line: lines.length, column: lines.at(-1).length, length: call.length };
  return { text: kept, plain: text, shift: 0, inserted };
}

/** Whether the tree can only be a module's, and its top-level names: name -> whether it can be assigned. */
function survey(tree) {
  const names = new Map();
  const found = { isModule: false, names };
  for (const statement of tree.body) declare(statement, names, found);
  walk(tree, false, found);
  return found;
}

function declare(statement, names, found) {
  switch (statement.type) {
    case 'ImportDeclaration':
      found.isModule = true;
      for (const one of statement.specifiers) names.set(one.local.name, false);
      break;
    case 'ExportNamedDeclaration':
    case 'ExportDefaultDeclaration':
      found.isModule = true;
      if (statement.declaration) declare(statement.declaration, names, found);
      break;
    case 'ExportAllDeclaration':
      found.isModule = true;
      break;
    case 'FunctionDeclaration':
    case 'ClassDeclaration':
      if (statement.id) names.set(statement.id.name, true);
      break;
    case 'VariableDeclaration':
      for (const one of statement.declarations) bind(one.id, names, statement.kind !== 'const');
      break;
    default:
  }
}

function bind(pattern, names, assignable) {
  switch (pattern?.type) {
    case 'Identifier':
      names.set(pattern.name, assignable);
      break;
    case 'ObjectPattern':
      for (const one of pattern.properties) bind(one.value ?? one.argument, names, assignable);
      break;
    case 'ArrayPattern':
      for (const one of pattern.elements) bind(one, names, assignable);
      break;
    case 'AssignmentPattern':
      bind(pattern.left, names, assignable);
      break;
    case 'RestElement':
      bind(pattern.argument, names, assignable);
      break;
    default:
  }
}

/** Find what only a module has, and every `var` outside of functions. */
function walk(node, inFunction, found) {
  if (node.type === 'MetaProperty' && node.meta.name === 'import') found.isModule = true;
  if (!inFunction) {
    if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) found.isModule = true;
    if (node.type === 'VariableDeclaration' && node.kind === 'var') declare(node, found.names, found);
    if (node.type === 'VariableDeclaration' && node.kind === 'await using') found.isModule = true;
  }
  const inside = inFunction || FUNCTIONS.has(node.type) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition';
  for (const key in node) {
    const child = node[key];
    if (child === null || typeof child !== 'object') continue;
    if (Array.isArray(child)) {
      for (const one of child) if (one !== null && typeof one.type === 'string') walk(one, inside, found);
    } else if (typeof child.type === 'string') {
      walk(child, inside, found);
    }
  }
}

/** Source of the function that reads and writes the program's names: `(index, writes, value)`; -1: takes `last`. */
function scopeFunction({ names, scopeName }) {
  const [which, writes, value] = [0, 1, 2].map((number) => `${scopeName}${number}`); // no names of the code
  const cases = [...names].map(([name, assignable], index) =>
    assignable ? `case ${index}:return ${writes}?(${name}=${value}):${name};` : `case ${index}:return ${name};`,
  );
  cases.push(`case -1:${scopeName}.last=${value}`);
  return `function ${scopeName}(${which},${writes},${value}){switch(${which}){${cases.join('')}}}`;
}

function guessKind(code) {
  return /^\s*(?:import|export)\b|\bimport\.meta\b|\bawait\b/m.test(code) ? 'module' : 'script';
}

module.exports = { prepare, scopeFunction };
