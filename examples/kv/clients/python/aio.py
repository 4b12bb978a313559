"""redis-py's asyncio with its defaults: python aio.py PORT"""

import asyncio
import sys

import redis
import redis.asyncio
from redis.exceptions import LockNotOwnedError, WatchError


async def strings(r):
    assert await r.ping() is True
    assert await r.set("greeting", "hello") is True and await r.get("greeting") == b"hello"
    assert await r.get("none") is None and await r.set("greeting", "x", nx=True) is None
    assert await r.incrby("hits", 5) == 5
    assert await r.mset({"a": 1, "b": 2}) is True and await r.mget("a", "none", "b") == [b"1", None, b"2"]


async def lists(r):
    assert await r.rpush("list", "a", "b", "c") == 3
    assert await r.lrange("list", 0, -1) == [b"a", b"b", b"c"]
    assert await r.lpop("list") == b"a" and await r.lpop("none") is None


async def pipelines(r):
    async with r.pipeline(transaction=False) as pipe:
        for n in range(500):
            pipe.set(f"p{n}", n).get(f"p{n}")
        assert (await pipe.execute())[1::2] == [str(n).encode() for n in range(500)]
    async with r.pipeline() as pipe:
        assert await pipe.set("t", 1).incr("t").get("none").execute() == [True, 2, None]


async def watching(r):
    async with r.pipeline() as pipe:
        await pipe.watch("watched")
        await r.set("watched", 5)
        pipe.multi()
        pipe.set("watched", 2)
        try:
            await pipe.execute()
            raise AssertionError("a watched key was changed")
        except WatchError:
            pass
    assert await r.get("watched") == b"5"


async def blocking(r):
    assert await r.blpop(["queue"], timeout=0.05) is None
    waiting = asyncio.create_task(r.blpop(["empty", "queue"], timeout=10))
    while (await r.info())["blocked_clients"] != 1:
        await asyncio.sleep(0.01)
    await r.rpush("queue", "element")
    assert list(await waiting) == [b"queue", b"element"]


async def scanning(r):
    keys = [key async for key in r.scan_iter(match="p1*")]
    assert sorted(keys) == sorted(key for key in (b"p%d" % n for n in range(500)) if key.startswith(b"p1"))


async def locks(r):
    lock = r.lock("lock", timeout=60)
    assert await lock.acquire() and await lock.locked() and await lock.owned()
    assert await r.lock("lock", timeout=60).acquire(blocking=False) is False
    assert await lock.extend(60) is True and 60_000 < await r.pttl("lock") <= 120_000
    assert await lock.reacquire() is True and await r.pttl("lock") <= 60_000
    await r.set("lock", "stolen")
    try:
        await lock.release()
        raise AssertionError("a stolen lock was released")
    except LockNotOwnedError:
        pass
    async with r.lock("other lock", timeout=5):
        assert await r.exists("other lock") == 1
    assert await r.exists("other lock") == 0


async def main(port):
    for options in ({}, {"protocol": 2}, {"protocol": 3}):
        async with redis.asyncio.Redis(port=port, **options) as r:
            await r.flushall()
            for part in (strings, lists, pipelines, watching, blocking, scanning, locks):
                await part(r)


asyncio.run(main(int(sys.argv[1])))
print("ok: redis-py asyncio", redis.__version__)
