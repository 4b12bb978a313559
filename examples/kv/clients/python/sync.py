"""redis-py with its defaults: python sync.py PORT"""

import sys
import threading

import redis
from redis.exceptions import LockNotOwnedError, NoScriptError, ResponseError, WatchError


def strings(r):
    assert r.ping() is True
    assert r.set("greeting", "hello") is True
    assert r.get("greeting") == b"hello"
    assert r.get("none") is None
    assert r.set("greeting", "other", nx=True) is None
    assert r.set("greeting", "other", get=True) == b"hello"
    assert r.incr("hits") == 1 and r.incrby("hits", 10) == 11 and r.decr("hits") == 10
    assert r.append("greeting", "!") == 6 and r.strlen("greeting") == 6
    assert r.mset({"a": 1, "b": 2}) is True
    assert r.mget("a", "none", "b") == [b"1", None, b"2"]
    assert r.delete("a", "b", "none") == 2 and r.exists("a") == 0
    assert r.set("leased", "x", ex=100) is True and 0 < r.ttl("leased") <= 100
    assert r.persist("leased") is True and r.ttl("leased") == -1
    assert r.type("greeting") == b"string"
    try:
        r.incr("greeting")
        raise AssertionError("a text was counted")
    except ResponseError as error:
        assert "not an integer" in str(error), error


def lists(r):
    assert r.rpush("list", "a", "b", "c") == 3 and r.lpush("list", "z") == 4
    assert r.lrange("list", 0, -1) == [b"z", b"a", b"b", b"c"]
    assert r.lindex("list", -1) == b"c" and r.lindex("list", 9) is None
    assert r.lpop("list") == b"z" and r.rpop("list", 2) == [b"c", b"b"]
    assert r.llen("list") == 1 and r.lpop("none") is None and r.lpop("none", 2) is None


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"p{n}", n).get(f"p{n}")
        replies = pipe.execute()
    assert replies[0::2] == [True] * 1000
    assert replies[1::2] == [str(n).encode() for n in range(1000)]
    with r.pipeline() as pipe:
        assert pipe.set("t", 1).incr("t").get("none").execute() == [True, 2, None]


def watching(r):
    r.set("watched", 1)
    with r.pipeline() as pipe:
        pipe.watch("watched")
        r.set("watched", 5)
        pipe.multi()
        pipe.set("watched", 2)
        try:
            pipe.execute()
            raise AssertionError("a watched key was changed")
        except WatchError:
            pass
        pipe.watch("watched")
        value = int(pipe.get("watched"))
        pipe.multi()
        pipe.set("watched", value + 1)
        assert pipe.execute() == [True]
    assert r.get("watched") == b"6"


def blocking(r):
    assert r.blpop(["queue"], timeout=0.05) is None
    later = threading.Timer(0.05, lambda: r.rpush("queue", "element"))
    later.start()
    assert list(r.blpop(["empty", "queue"], timeout=10)) == [b"queue", b"element"]
    later.join()


def scanning(r):
    expected = sorted(key for key in (b"p%d" % n for n in range(1000)) if key.startswith(b"p1"))
    assert sorted(r.scan_iter(match="p1*")) == expected
    assert len(list(r.scan_iter())) == r.dbsize()


def locks(r):
    assert r.set("lease", "mine", nx=True, px=60000) is True
    assert r.set("lease", "other", nx=True, px=60000) is None
    lock = r.lock("lock", timeout=60)
    assert lock.acquire() and lock.locked() and lock.owned()
    assert r.lock("lock", timeout=60).acquire(blocking=False) is False
    assert lock.extend(60) is True and 60_000 < r.pttl("lock") <= 120_000
    assert lock.extend(5, replace_ttl=True) is True and r.pttl("lock") <= 5_000
    assert lock.reacquire() is True and 5_000 < r.pttl("lock") <= 60_000
    lock.release()
    assert r.exists("lock") == 0
    assert lock.acquire()
    r.set("lock", "stolen")
    try:
        lock.release()
        raise AssertionError("a stolen lock was released")
    except LockNotOwnedError:
        pass
    assert r.get("lock") == b"stolen"
    with r.lock("other lock", timeout=5):
        assert r.exists("other lock") == 1
    assert r.exists("other lock") == 0
    for wrong in (lambda: r.eval("return 1", 0), lambda: r.evalsha("0" * 40, 0)):
        try:
            wrong()
            raise AssertionError("an unknown script ran")
        except (ResponseError, NoScriptError):
            pass


def about(r):
    assert r.config_get("maxclients") == {"maxclients": "10000"}
    info = r.info()
    assert info["role"] == "master" and info["loading"] == 0 and info["maxmemory_clients"] > 0
    assert r.client_setname("me") is True and r.client_getname() in ("me", b"me")
    mine = [c for c in r.client_list() if c["id"] == str(r.client_id())]
    assert mine and mine[0]["lib-name"].startswith("redis-py"), mine
    assert "get" in r.command()


def main(port):
    # As its users write it, with every default; then the other version of the protocol.
    for options in ({}, {"protocol": 2}, {"protocol": 3}):
        with redis.Redis(port=port, **options) as r:
            r.flushall()
            for part in (strings, lists, pipelines, watching, blocking, scanning, locks, about):
                part(r)
    with redis.Redis(port=port, protocol=3, decode_responses=True, client_name="named") as r:
        assert r.client_getname() == "named" and r.get("greeting") == "other!"


main(int(sys.argv[1]))
print("ok: redis-py", redis.__version__)
