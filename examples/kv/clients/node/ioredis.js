// ioredis with its defaults, and redlock on it: node ioredis.js PORT
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import Redlock from 'redlock';

const RELEASE =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

async function strings(r) {
  assert.equal(await r.ping(), 'PONG');
  assert.equal(await r.set('greeting', 'hello'), 'OK');
  assert.equal(await r.get('greeting'), 'hello');
  assert.equal(await r.get('none'), null);
  assert.equal(await r.set('greeting', 'x', 'NX'), null);
  assert.equal(await r.incrby('hits', 5), 5);
  assert.equal(await r.mset({ a: '1', b: '2' }), 'OK');
  assert.deepEqual(await r.mget('a', 'none', 'b'), ['1', null, '2']);
  await assert.rejects(r.incr('greeting'), /not an integer/);
}

async function lists(r) {
  assert.equal(await r.rpush('list', 'a', 'b', 'c'), 3);
  assert.deepEqual(await r.lrange('list', 0, -1), ['a', 'b', 'c']);
  assert.equal(await r.lpop('list'), 'a');
  assert.deepEqual(await r.rpop('list', 2), ['c', 'b']);
  assert.equal(await r.lpop('none'), null);
}

async function pipelines(r) {
  const pipeline = r.pipeline();
  for (let n = 0; n < 1000; n++) pipeline.set(`p${n}`, n).get(`p${n}`);
  const replies = await pipeline.exec();
  assert.ok(replies.every(([error]) => error === null));
  assert.deepEqual(
    replies.filter((_, at) => at % 2 === 1).map(([, value]) => value),
    Array.from({ length: 1000 }, (_, n) => `${n}`),
  );
  assert.deepEqual(await r.multi().set('t', 1).incr('t').get('none').exec(), [[null, 'OK'], [null, 2], [null, null]]);
}

async function watching(r) {
  const other = r.duplicate();
  await r.watch('watched');
  await other.set('watched', 5);
  assert.equal(await r.multi().set('watched', 2).exec(), null);
  assert.equal(await r.get('watched'), '5');
  await r.watch('watched');
  assert.deepEqual(await r.multi().set('watched', 6).exec(), [[null, 'OK']]);
  await other.quit();
}

async function blocking(r) {
  const other = r.duplicate();
  assert.equal(await other.blpop('queue', 0.05), null);
  const waiting = other.blpop('empty', 'queue', 10);
  while (!(await r.info()).includes('blocked_clients:1')) await new Promise(setImmediate);
  await r.rpush('queue', 'element');
  assert.deepEqual(await waiting, ['queue', 'element']);
  await other.quit();
}

async function scanning(r) {
  const keys = [];
  for await (const some of r.scanStream({ match: 'p1*' })) keys.push(...some);
  const expected = Array.from({ length: 1000 }, (_, n) => `p${n}`).filter((key) => key.startsWith('p1'));
  assert.deepEqual(keys.sort(), expected.sort());
}

async function locks(r) {
  assert.equal(await r.set('lock', 'mine', 'PX', 60000, 'NX'), 'OK');
  assert.equal(await r.set('lock', 'other', 'PX', 60000, 'NX'), null);
  r.defineCommand('release', { numberOfKeys: 1, lua: RELEASE });
  assert.equal(await r.release('lock', 'other'), 0);
  assert.equal(await r.release('lock', 'mine'), 1);
  await assert.rejects(r.eval('return 1', 0), /there are no scripts here/);

  const redlock = new Redlock([r], { retryCount: 0 });
  const lock = await redlock.lock('resource', 60000);
  await assert.rejects(redlock.lock('resource', 60000), /LockError|unable to achieve|exceeded/i);
  await lock.extend(90000);
  assert.ok((await r.pttl('resource')) > 60000);
  await lock.unlock();
  assert.equal(await r.exists('resource'), 0);
}

const port = Number(process.argv[2]);
// As its users write it, with every default; then the other version of the protocol.
for (const options of [{}, { protocol: 2 }, { protocol: 3 }]) {
  const r = new Redis(port, options);
  r.on('error', (error) => { throw error; });
  await r.flushall();
  for (const part of [strings, lists, pipelines, watching, blocking, scanning, locks]) await part(r);
  await r.quit();
}
console.log('ok: ioredis');
