'use strict';
/*
 * The Node kernel: a child of PID 1 that runs what comes over its link, one execution after the other.
 *
 * Started as `node FLAGS kernel.cjs CONFIG`, by `companion.py`. CONFIG is JSON: `folder` (where code lies), `link` and
 * `alarm` (descriptors), `tools` (folder with what TypeScript needs, or empty).
 *
 * SECURITY: code runs in this process and can change anything here. The boundary is the sandbox; what is caught here is
 * caught for the code's own good, so that every execution has an end and says what it was.
 */

const { Executor } = require('./execution.cjs');
const fetchProxy = require('./fetch_proxy.cjs');
const interrupts = require('./interrupts.cjs');
const { Link } = require('./link.cjs');
const streams = require('./streams.cjs');
const typescript = require('./typescript.cjs');

const config = JSON.parse(process.argv[2]);
const { reallyExit } = process;

process.chdir(config.folder);
process.execArgv = [];
streams.install();
typescript.configure(config.tools);
fetchProxy.install(config.tools);
const executor = new Executor(config.folder);
executor.watching = interrupts.watch(config.alarm, (number) => executor.interrupt(number));
const link = new Link(
  config.link,
  (head, body) => {
    if (head.t === 'execute') {
      executor.start(head, body.toString('utf8'));
    } else if (head.t === 'variables') {
      executor.variables = JSON.parse(body.toString('utf8'));
    } else if (head.t === 'reply') {
      executor.calls.settle(head.id, body);
    }
  },
  () => reallyExit(0), // PID 1 is gone
);
executor.link = executor.calls.link = link;
link.send({ t: 'ready', version: process.versions.node });
