'use strict';
/*
 * Runs a prepared program as a module or script that lies in the working directory of sessions.
 *
 * A module is a `vm.SourceTextModule`; what it imports comes from Node's own loader, so every file is loaded once and
 * is the same for `import`, `import()` and `require`. Names that an imported module changes after it was loaded keep
 * the value that they had (docs/limitations/node.md).
 */

const vm = require('node:vm');
const nodeModule = require('node:module');
const { pathToFileURL } = require('node:url');
const { know } = require('./errors.cjs');
const { scopeFunction } = require('./source.cjs');

const { SourceTextModule, SyntheticModule, compileFunction, constants } = vm;
const { createRequire } = nodeModule;
const KEEP = '__moonpool_keep';

/** The folder in which code lies. Files need not be there: only their names count. */
class Folder {
  constructor(path) {
    this.path = path;
    const filename = `${path}/code.js`;
    this.require = createRequire(filename);
    this.importing = compileFunction('return import(s,o)', ['s', 'o'], {
      filename,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
  }

  /** The place of one program. */
  at(name) {
    const filename = `${this.path}/${name}`;
    return { folder: this.path, filename, url: pathToFileURL(filename).href, require: this.require, importing: this.importing };
  }
}

/** Compile and link a module. Returns `{scope, evaluate}`. */
async function loadModule(program, place) {
  know(place.filename, program.inserted);
  const suffix = program.names === null ? '' : `\n;export ${scopeFunction(program)}`;
  const module = compiled(program, (text, shift) => new SourceTextModule(text + suffix, {
    identifier: place.url,
    columnOffset: -shift,
    importModuleDynamically: (specifier, _, attributes) => place.importing(specifier, { with: attributes }),
    initializeImportMeta(meta) {
      meta.dirname = place.folder;
      meta.filename = place.filename;
      meta.url = place.url;
      meta.main = true;
      meta.resolve = (specifier) => resolve(specifier, place);
    },
  }));
  let failure = null; // Node wraps what a linker throws in some versions
  const mirrors = [];
  try {
    await module.link(async (specifier, _, extra) => {
      try {
        const namespace = await place.importing(specifier, { with: extra.attributes ?? extra.assert });
        mirrors.push(mirror(namespace, specifier));
        return mirrors.at(-1);
      } catch (error) {
        failure ??= { error };
        throw error;
      }
    });
  } catch (error) {
    throw failure === null ? error : failure.error;
  }
  const scope = program.names === null ? null : module.namespace[program.scopeName];
  // INVARIANT: the mirrors live until the module is evaluated. Node 20 holds a linked synthetic module weakly and
  // crashes (SIGSEGV) when it evaluates one that was collected.
  const evaluate = async () => {
    try {
      await module.evaluate();
    } finally {
      mirrors.length = 0;
    }
  };
  return { scope, evaluate };
}

/** An error that V8 finds shows the code's own line. */
function compiled(program, compile) {
  try {
    return compile(program.text, program.shift);
  } catch (error) {
    if (program.text === program.plain) throw error;
    return compile(program.plain, 0);
  }
}

function mirror(namespace, specifier) {
  const names = Object.keys(namespace);
  return new SyntheticModule(
    names,
    function fill() {
      for (const name of names) this.setExport(name, namespace[name]);
    },
    { identifier: specifier },
  );
}

/** As `import.meta.resolve` for a file in the working directory. */
function resolve(specifier, place) {
  if (/^(?:\.{0,2}\/|file:)/.test(specifier)) return new URL(specifier, place.url).href;
  if (nodeModule.isBuiltin(specifier)) return specifier.startsWith('node:') ? specifier : `node:${specifier}`;
  return pathToFileURL(place.require.resolve(specifier)).href;
}

/** Compile a script. Returns `{scope, evaluate}`; the scope is there once it has begun. */
function loadScript(program, place) {
  know(place.filename, program.inserted);
  const loaded = { scope: null, evaluate: null };
  const names = program.names ?? new Map();
  const prefix = program.names === null ? '' : `${program.strict ? '"use strict";' : ''}${KEEP}(${program.scopeName});`;
  const suffix = program.names === null ? '' : `\n;${scopeFunction({ ...program, names })}`;
  const parameters = ['exports', 'require', 'module', '__filename', '__dirname', KEEP];
  const run = compiled(program, (text, shift) => compileFunction(prefix + text + suffix, parameters, {
    filename: place.filename,
    columnOffset: -prefix.length - shift,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }));
  const module = new nodeModule(place.filename, null);
  module.filename = place.filename;
  module.paths = nodeModule._nodeModulePaths(place.folder);
  place.require.main = module;
  const keep = (scope) => {
    loaded.scope = scope;
  };
  const { exports } = module;
  loaded.evaluate = run.bind(exports, exports, place.require, module, place.filename, place.folder, keep);
  return loaded;
}

module.exports = { Folder, loadModule, loadScript };
