'use strict';
/*
 * Takes the types out of TypeScript, so that the lines stay where they are. Nothing is checked.
 *
 * Done by `sucrase`, which the host installs beside the sandbox and names (`configure`), else by Node itself from
 * 22.13 on. Plain JavaScript needs neither.
 */

const path = require('node:path');
const nodeModule = require('node:module');

const LOOKS_TYPED = new RegExp(
  [
    String.raw`^\s*(?:export\s+)?(?:declare\s+)?(?:interface\s+\w+|type\s+\w+\s*(?:<.*>\s*)?=|enum\s+\w+\s*\{|namespace\s+\w+\s*\{)`,
    String.raw`^\s*import\s+type\b`,
    String.raw`(?:const|let|var)\s+\w+\s*:\s*[A-Za-z{[(]`,
    String.raw`[(,]\s*\w+\??\s*:\s*(?:string|number|boolean|any|unknown|object|[A-Z]\w*)\b`,
    String.raw`\)\s*:\s*(?:string|number|boolean|any|void|unknown|never|[A-Z]\w*)`,
  ].join('|'),
  'm',
);

let tools = '';

class TypeScriptUnavailableError extends Error {
  constructor() {
    super(
      'this is no JavaScript; if it is TypeScript, say so (language `typescript`, or a file name that ends in .ts), ' +
        'so that the host installs what this Node.js needs to take types out, or write JavaScript',
    );
    this.name = 'LanguageUnavailable';
  }
}

/** `folder` holds the node_modules with sucrase; empty when there is none. */
function configure(folder) {
  tools = folder;
}

/** `code` without its types; null if that cannot be. Throws if it looks like TypeScript and nobody can strip it yet. */
function stripTypes(code) {
  const strip = stripper();
  if (strip === null) {
    if (LOOKS_TYPED.test(code)) throw new TypeScriptUnavailableError();
    return null;
  }
  try {
    return strip(code);
  } catch {
    return null;
  }
}

function stripper() {
  if (tools !== '') {
    try {
      const { transform } = require(path.join(tools, 'node_modules', 'sucrase'));
      return (code) => transform(code, { transforms: ['typescript'], disableESTransforms: true }).code;
    } catch {
      // unreadable or broken: as if it were not there
    }
  }
  return typeof nodeModule.stripTypeScriptTypes === 'function' ? stripByNode : null;
}

/** What is more than types (enums, namespaces) has to be written anew, which may move the lines below it. */
function stripByNode(code) {
  const { stripTypeScriptTypes } = nodeModule;
  try {
    return stripTypeScriptTypes(code);
  } catch {
    return stripTypeScriptTypes(code, { mode: 'transform' });
  }
}

module.exports = { configure, stripTypes };
