// npm's redis with its defaults: node node-redis.js PORT
import assert from 'node:assert/strict';
import { createClient, WatchError } from 'redis';

const RELEASE =
  'if redis.call("get",KEYS[1]) == ARGV[1] then\n    return redis.call("del",KEYS[1])\nelse\n    return 0\nend';

async function strings(r) {
  assert.equal(await r.ping(), 'PONG');
  assert.equal(await r.set('greeting', 'hello'), 'OK');
  assert.equal(await r.get('greeting'), 'hello');
  assert.equal(await r.get('none'), null);
  assert.equal(await r.set('greeting', 'x', { condition: 'NX' }), null);
  assert.equal(await r.incrBy('hits', 5), 5);
  assert.equal(await r.mSet({ a: '1', b: '2' }), 'OK');
  assert.deepEqual(await r.mGet(['a', 'none', 'b']), ['1', null, '2']);
  assert.equal(await r.del(['a', 'b', 'none']), 2);
  assert.equal(await r.setEx('leased', 100, 'x'), 'OK');
  assert.ok((await r.ttl('leased')) > 0);
  await assert.rejects(r.incr('greeting'), /not an integer/);
}

async function lists(r) {
  assert.equal(await r.rPush('list', ['a', 'b', 'c']), 3);
  assert.deepEqual(await r.lRange('list', 0, -1), ['a', 'b', 'c']);
  assert.equal(await r.lPop('list'), 'a');
  assert.deepEqual(await r.rPopCount('list', 2), ['c', 'b']);
  assert.equal(await r.lPop('none'), null);
}

async function pipelines(r) {
  const asked = [];
  for (let n = 0; n < 1000; n++) {
    r.set(`p${n}`, `${n}`);
    asked.push(r.get(`p${n}`));
  }
  assert.deepEqual(await Promise.all(asked), Array.from({ length: 1000 }, (_, n) => `${n}`));
  assert.deepEqual(await r.multi().set('t', '1').incr('t').get('none').exec(), ['OK', 2, null]);
}

async function watching(r) {
  const other = await r.duplicate().connect();
  await r.watch('watched');
  await other.set('watched', '5');
  await assert.rejects(r.multi().set('watched', '2').exec(), WatchError);
  assert.equal(await r.get('watched'), '5');
  await r.watch('watched');
  assert.deepEqual(await r.multi().set('watched', '6').exec(), ['OK']);
  await other.close();
}

async function blocking(r) {
  const other = await r.duplicate().connect();
  assert.equal(await other.blPop('queue', 0.05), null);
  const waiting = other.blPop(['empty', 'queue'], 10);
  while (!(await r.info()).includes('blocked_clients:1')) await new Promise(setImmediate);
  await r.rPush('queue', 'element');
  const { key, element } = await waiting;
  assert.deepEqual([key, element], ['queue', 'element']);
  await other.close();
}

async function scanning(r) {
  const keys = [];
  for await (const some of r.scanIterator({ MATCH: 'p1*' })) keys.push(...some);
  const expected = Array.from({ length: 1000 }, (_, n) => `p${n}`).filter((key) => key.startsWith('p1'));
  assert.deepEqual(keys.sort(), expected.sort());
}

async function locks(r) {
  const options = { condition: 'NX', expiration: { type: 'PX', value: 60000 } };
  assert.equal(await r.set('lock', 'mine', options), 'OK');
  assert.equal(await r.set('lock', 'other', options), null);
  const release = (token) => ({ keys: ['lock'], arguments: [token] });
  assert.equal(await r.eval(RELEASE, release('other')), 0);
  const sha = await r.scriptLoad(RELEASE);
  assert.deepEqual(await r.scriptExists([sha, '0'.repeat(40)]), [1, 0]);
  assert.equal(await r.evalSha(sha, release('mine')), 1);
  assert.equal(await r.exists('lock'), 0);
  await assert.rejects(r.eval('return 1'), /there are no scripts here/);
}

async function about(r) {
  assert.deepEqual({ ...(await r.configGet('maxclients')) }, { maxclients: '10000' });
  assert.match((await r.clientInfo()).libName ?? 'node-redis', /^node-redis/);
}

const url = `redis://127.0.0.1:${process.argv[2]}`;
// As its users write it, with every default; then the other version of the protocol.
for (const options of [{ url }, { url, RESP: 2 }, { url, RESP: 3 }]) {
  const r = await createClient(options).on('error', (error) => { throw error; }).connect();
  await r.flushAll();
  for (const part of [strings, lists, pipelines, watching, blocking, scanning, locks, about]) await part(r);
  await r.close();
}
console.log('ok: redis of npm');
