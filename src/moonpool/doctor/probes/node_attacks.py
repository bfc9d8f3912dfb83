"""Attacks from Node: the isolation of Python must hold for every language in a sandbox."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

NODE: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="node-identity",
        claim="C-LANG-1",
        title="from Node: change its user, hold a capability, or run without the filter; in threads and children, too",
        language="node",
        program=r"""
const look = (where, text) => {
  const status = statusOf(text);
  seen(where);
  for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
    if (BigInt('0x' + status[name]) !== 0n) note(`${where}: ${name} is ${status[name]}`);
  if (status.NoNewPrivs !== '1' || status.Seccomp !== '2') note(`${where}: no filter`);
  if (status.Uid.split('\t').some((uid) => uid !== '1000')) note(`${where}: uid ${status.Uid}`);
};
look('node', fs.readFileSync('/proc/self/status', 'utf8'));
look('child', run('/usr/bin/cat', '/proc/self/status').stdout);
const worker = new Worker("require('worker_threads').parentPort.postMessage(" +
  "require('fs').readFileSync('/proc/thread-self/status', 'utf8'))", { eval: true });
look('thread', await event(worker, 'message'));
await worker.terminate();
for (const id of [0, 1, 1001, 65534]) {
  attempt(`setuid ${id}`, () => process.setuid(id), 'EPERM', 'EINVAL');
  attempt(`setgid ${id}`, () => process.setgid(id), 'EPERM', 'EINVAL');
  attempt(`seteuid ${id}`, () => process.seteuid(id), 'EPERM', 'EINVAL');
}
attempt('setgroups', () => process.setgroups([0]), 'EPERM', 'EINVAL');
attempt('priority', () => os.setPriority(-5), 'ERR_SYSTEM_ERROR', 'EACCES', 'EPERM');
const asRoot = spawnSync('/usr/bin/id', ['-u'], { uid: 0 });
if (asRoot.error === undefined) note('a child started as uid 0'); else seen(asRoot.error.code);
""",
    ),
    Probe(
        probe_id="node-files",
        claim="C-LANG-1",
        title="from Node: read files of the host, write outside the sandbox's own folders, open devices",
        language="node",
        program=r"""
for (const path of ['/etc/shadow', '/root', '/home/root', '/var/log', '/run', '/sys', '/srv', '/boot',
                    '/proc/1/root/etc/shadow', '/proc/self/cwd/../../../../etc/shadow', '/proc/sys', '/proc/kcore'])
  attempt(path, () => fs.statSync(path), 'ENOENT');
for (const folder of ['/', '/usr', '/usr/bin', '/etc', '/dev', '/home', '/moonpool', '/wrappers', '/proc'])
  attempt(folder, () => fs.writeFileSync(`${folder}/probe`, 'x'), 'EROFS', 'EACCES', 'EPERM', 'ENOENT');
for (const name of ['kvm', 'mem', 'kmsg', 'fuse', 'vsock', 'net/tun', 'vda', 'sda'])
  attempt(name, () => fs.closeSync(fs.openSync(`/dev/${name}`, 'r')), 'ENOENT');
attempt('program', () => fs.appendFileSync(process.execPath, 'x'), 'EROFS', 'EACCES', 'ETXTBSY');
attempt('kernel', () => fs.writeFileSync('/moonpool/moonpool_guest/node/kernel.cjs', ''), 'EROFS', 'EACCES');
attempt('oom', () => fs.writeFileSync('/proc/self/oom_score_adj', '-1000'), 'EROFS', 'EACCES');
attempt('memory of 1', () => fs.closeSync(fs.openSync('/proc/1/mem', 'r+')), 'EROFS', 'EACCES', 'EPERM');
attempt('channel of 1', () => fs.closeSync(fs.openSync('/proc/1/fd/3', 'r+')), 'ENXIO', 'EROFS', 'EACCES');
fs.symlinkSync('/proc/1/root/etc/shadow', '/tmp/probe-link');
attempt('link', () => fs.readFileSync('/tmp/probe-link'), 'ENOENT');
fs.unlinkSync('/tmp/probe-link');
""",
    ),
    Probe(
        probe_id="node-network",
        claim="C-LANG-1",
        title="from Node: reach or offer anything on a network, by the usual modules and by its own bindings",
        language="node",
        program=r"""
const none = ['EAFNOSUPPORT', 'ENETUNREACH', 'EPERM', 'EACCES', 'EADDRNOTAVAIL', 'EINVAL'];
const places = [[443, '1.1.1.1'], [80, '169.254.169.254'], [22, '127.0.0.1'], [80, '10.0.0.1'], [80, '::1']];
for (const [port, host] of places)
  await refused(`${host}:${port}`, event(net.connect({ port, host }), 'connect'), ...none);
await refused('listen', event(net.createServer().listen(0, '127.0.0.1'), 'listening'), ...none);
for (const kind of ['udp4', 'udp6'])
  await refused(kind, (async () => {
    const socket = dgram.createSocket(kind);
    const sent = event(socket, 'message');
    const address = kind === 'udp4' ? '8.8.8.8' : '::1';
    socket.send('x', 53, address, (error) => socket.emit(error ? 'error' : 'message', error));
    await sent;
  })(), ...none, 'EBADF');
await refused('name', dns.promises.lookup('example.com'), 'EAI_AGAIN', 'ENOTFOUND');
await refused('resolver', dns.promises.resolve('example.com'), 'ECONNREFUSED', 'ETIMEOUT', 'ENOTFOUND', 'ESERVFAIL');
await refused('http', event(require('http').get('http://169.254.169.254/latest/meta-data/'), 'response'), ...none);
if (Object.keys(os.networkInterfaces === undefined ? {} : (() => {
  try { return os.networkInterfaces() } catch { return {} }
})()).some((name) => name !== 'lo')) note('an interface is visible');
try {
  const { TCP, constants } = process.binding('tcp_wrap');
  const status = new TCP(constants.SOCKET).bind('127.0.0.1', 0);
  if (status === 0) note('tcp_wrap could bind'); else seen(`tcp_wrap ${status}`);
} catch (error) { seen(`binding: ${error.code ?? error.name}`) }
""",
    ),
    Probe(
        probe_id="node-processes",
        claim="C-LANG-1",
        quick=False,
        title="from Node: signal processes of others, or see them",
        language="node",
        program=r"""
const own = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number);
if (own.length > 6) note(`processes ${own}`);
for (let pid = 2; pid < 2000; pid += 1)
  if (!own.includes(pid) && !fs.existsSync(`/proc/${pid}`))
    attempt(`kill ${pid}`, () => process.kill(pid, 0), 'ESRCH');
attempt('every process', () => process.kill(-1, 0), 'ESRCH', 'EPERM');
attempt('trace', () => fs.openSync('/proc/1/syscall', 'w'), 'EROFS', 'EACCES', 'ENOENT');
for (const [program, ...words] of [['/usr/bin/unshare', '-Ur', 'true'], ['/usr/sbin/chroot', '/tmp', 'true'],
    ['/usr/bin/mount', '-t', 'tmpfs', 'x', '/tmp'], ['/usr/bin/nsenter', '-t', '1', '-a', 'true']]) {
  if (!fs.existsSync(program)) continue;
  const ended = run(program, ...words);
  if (ended.status === 0) note(`${program} worked`); else seen('refused');
}
""",
        fresh=True,
    ),
    Probe(
        probe_id="node-limits",
        claim="C-LANG-1",
        title="from Node: take more memory, files, descriptors or processes than the sandbox was promised",
        language="node",
        program=r"""
const numbers = Object.fromEntries(fs.readFileSync('/proc/self/limits', 'utf8').split('\n').slice(1).map((line) =>
  [line.slice(0, 25).trim(), Number(line.slice(26, 46).trim().replace('unlimited', 'Infinity'))]));
const memory = Math.min(numbers['Max address space'], numbers['Max data size']);
for (const [name, value, most] of [['memory', memory, MEMORY_BYTES], ['files', numbers['Max open files'], OPEN_FILES],
    ['processes', numbers['Max processes'], PROCESSES + 16], ['size', numbers['Max file size'], FILE_BYTES],
    ['locked', numbers['Max locked memory'], 0]]) {
  if (value > most) note(`${name}: ${value}, promised ${most}`); else seen(name);
}
attempt('wasm', () => new WebAssembly.Memory({ initial: Math.ceil(MEMORY_BYTES / 65536) + 1 }), 'RangeError');
attempt('buffer', () => Buffer.alloc(MEMORY_BYTES), 'RangeError', 'ERR_OUT_OF_RANGE', 'ERR_MEMORY_ALLOCATION_FAILED');
const handles = [];
attempt('descriptors', () => {
  for (let n = 0; n <= OPEN_FILES; n += 1) handles.push(fs.openSync('/dev/null'));
}, 'EMFILE');
for (const one of handles) fs.closeSync(one);
attempt('disk', () => {
  const block = Buffer.alloc(1 << 20);
  const file = fs.openSync('/tmp/fill', 'w');
  for (let written = 0; written <= DISK_BYTES; written += block.length)
    if (fs.writeSync(file, block) < block.length) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
}, 'ENOSPC', 'EFBIG');
fs.unlinkSync('/tmp/fill');
const children = [];
for (let n = 0; n < PROCESSES + 32; n += 1) {
  const child = spawn('/usr/bin/sleep', ['20']);
  child.on('error', () => {});
  if (child.pid === undefined) { seen('EAGAIN'); break }
  children.push(child);
}
if (children.length > PROCESSES) note(`${children.length} processes, ${PROCESSES} were promised`);
for (const child of children) child.kill('SIGKILL');
""",
        fresh=True,
        quick=False,
    ),
    Probe(
        probe_id="node-residue",
        claim="C-LANG-1",
        quick=False,
        title="from Node: find variables, arguments or descriptors of the host",
        language="node",
        program=r"""
const known = new Set(['PATH', 'HOME', 'USER', 'TMPDIR', 'LANG', 'LC_CTYPE', 'PWD', 'PYTHONHASHSEED',
  'PIP_NO_INDEX', 'NPM_CONFIG_OFFLINE', 'UV_OFFLINE', ...VARIABLES]);
const lines = fs.readFileSync('/proc/self/environ', 'utf8').split('\0').filter(Boolean);
const initial = lines.map((one) => one.split('=')[0]);
for (const name of [...Object.keys(process.env), ...initial]) if (!known.has(name)) note(`variable ${name}`);
seen(`${initial.length} variables`);
let sockets = 0;
for (const name of fs.readdirSync('/proc/self/fd')) {
  let target;
  try { target = fs.readlinkSync(`/proc/self/fd/${name}`) } catch { continue }
  if (target.startsWith('socket:')) sockets += 1;
  else if (!/^(pipe:|anon_inode:|\/dev\/u?(null|random)$|\/moonpool\/|\/usr\/|\/proc\/)/.test(target)) note(target);
}
seen(`${sockets} socket`);
if (sockets > 1) note(`${sockets} sockets; one is the way to PID 1`);
for (const word of ['token', 'secret', 'password', 'http:', 'https:'])
  if (fs.readFileSync('/proc/self/cmdline', 'utf8').toLowerCase().includes(word)) note(`${word} in the command line`);
""",
    ),
)
