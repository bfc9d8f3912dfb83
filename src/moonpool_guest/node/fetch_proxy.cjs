'use strict';
/*
 * Takes `fetch` through the proxy that the environment names, for versions of Node.js that do not do so themselves:
 * undici's own agent, which the host installs beside the sandbox (`tools`), loaded when code first fetches something.
 */

const path = require('node:path');

const DISPATCHER = Symbol.for('undici.globalDispatcher.1'); // where Node's own undici looks, and every other one

function readsTheEnvironmentItself(version) {
  const [major, minor] = version.split('.').map(Number);
  return major >= 24 || (major === 22 && minor >= 21);
}

function install(tools) {
  if (!process.env.HTTPS_PROXY || readsTheEnvironmentItself(process.versions.node)) return;
  let agent = null;
  const dispatcher = {
    dispatch(options, handler) {
      agent ??= load(tools);
      return agent.dispatch(options, handler);
    },
  };
  Object.defineProperty(globalThis, DISPATCHER, { value: dispatcher, writable: true, configurable: true });
}

function load(tools) {
  try {
    const { EnvHttpProxyAgent } = require(path.join(tools, 'node_modules', 'undici'));
    return new EnvHttpProxyAgent();
  } catch (error) {
    throw new Error(
      'fetch of this Node.js needs the npm package undici to reach the network from here, and the host could not ' +
        'install it; the operator installs npm, or Node.js 22.21 or newer',
      { cause: error },
    );
  }
}

module.exports = { install };
