//! The crate `redis` with its defaults: `kv-clients PORT`

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use redis::{
    Client, Commands as _, Connection, ExistenceCheck, Pipeline, RedisResult, Script, SetExpiry,
    SetOptions,
};

const RELEASE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;

type Done = RedisResult<()>;

fn strings(r: &mut Connection) -> Done {
    let () = r.set("greeting", "hello")?;
    assert_eq!(r.get::<_, String>("greeting")?, "hello");
    assert_eq!(r.get::<_, Option<String>>("none")?, None);
    assert_eq!(r.incr::<_, _, i64>("hits", 5)?, 5);
    let () = r.mset(&[("a", 1), ("b", 2)])?;
    let got: Vec<Option<i64>> = r.mget(&["a", "none", "b"])?;
    assert_eq!(got, [Some(1), None, Some(2)]);
    assert_eq!(r.del::<_, i64>(&["a", "b", "none"])?, 2);
    let wrong: RedisResult<i64> = r.incr("greeting", 1);
    assert!(wrong.is_err_and(|error| error.to_string().contains("not an integer")));
    Ok(())
}

fn lists(r: &mut Connection) -> Done {
    assert_eq!(r.rpush::<_, _, i64>("list", &["a", "b", "c"])?, 3);
    assert_eq!(r.lrange::<_, Vec<String>>("list", 0, -1)?, ["a", "b", "c"]);
    assert_eq!(
        r.lpop::<_, Option<String>>("list", None)?.as_deref(),
        Some("a")
    );
    assert_eq!(r.lpop::<_, Option<String>>("none", None)?, None);
    Ok(())
}

fn pipelines(r: &mut Connection) -> Done {
    let mut pipeline = redis::pipe();
    for n in 0..1000 {
        pipeline
            .set(format!("p{n}"), n)
            .ignore()
            .get(format!("p{n}"));
    }
    let got: Vec<i64> = pipeline.query(r)?;
    assert_eq!(got, (0..1000).collect::<Vec<_>>());
    let mut pipeline = redis::pipe();
    pipeline
        .atomic()
        .set("t", 1)
        .ignore()
        .incr("t", 1)
        .get("none");
    let (counted, none): (i64, Option<String>) = pipeline.query(r)?;
    assert_eq!((counted, none), (2, None));
    Ok(())
}

fn watching(r: &mut Connection, other: &mut Connection) -> Done {
    let mut tries = 0;
    let change = |r: &mut Connection, pipeline: &mut Pipeline| {
        tries += 1;
        if tries == 1 {
            let () = other.set("watched", 5)?;
        }
        let value: i64 = r.get::<_, Option<i64>>("watched")?.unwrap_or(0);
        pipeline.set("watched", value + 1).query(r)
    };
    let _: Option<(String,)> = redis::transaction(r, &["watched"], change)?;
    assert_eq!((tries, r.get::<_, i64>("watched")?), (2, 6));
    Ok(())
}

fn blocking(r: &mut Connection, mut other: Connection) -> Done {
    assert_eq!(r.blpop::<_, Option<(String, String)>>("queue", 0.05)?, None);
    let pushing = std::thread::spawn(move || {
        let is_blocked = |other: &mut Connection| -> RedisResult<bool> {
            Ok(redis::cmd("INFO")
                .query::<String>(other)?
                .contains("blocked_clients:1"))
        };
        while !is_blocked(&mut other)? {
            std::thread::sleep(Duration::from_millis(5));
        }
        other.rpush::<_, _, i64>("queue", "element")
    });
    let got: (String, String) = r.blpop(&["empty", "queue"], 10.0)?;
    assert_eq!(got, ("queue".to_owned(), "element".to_owned()));
    assert_eq!(pushing.join().expect("a thread")?, 1);
    Ok(())
}

fn scanning(r: &mut Connection) -> Done {
    let keys: BTreeSet<String> = r.scan_match("p1*")?.collect::<RedisResult<_>>()?;
    let all = (0..1000).map(|n| format!("p{n}"));
    assert_eq!(keys, all.filter(|key| key.starts_with("p1")).collect());
    Ok(())
}

fn locks(r: &mut Connection) -> Done {
    let options = SetOptions::default()
        .conditional_set(ExistenceCheck::NX)
        .with_expiration(SetExpiry::PX(60_000));
    let mut lock =
        |token: &str| r.set_options::<_, _, Option<String>>("lock", token, options.clone());
    assert!(lock("mine")?.is_some());
    assert!(lock("other")?.is_none());
    for (token, expected) in [("other", 0), ("mine", 1)] {
        let released: i64 = Script::new(RELEASE).key("lock").arg(token).invoke(r)?;
        assert_eq!(released, expected);
    }
    assert!(!r.exists::<_, bool>("lock")?);
    assert!(Script::new("return 1").invoke::<i64>(r).is_err());
    Ok(())
}

fn about(r: &mut Connection) -> Done {
    let got: HashMap<String, String> =
        redis::cmd("CONFIG").arg("GET").arg("maxclients").query(r)?;
    assert_eq!(got["maxclients"], "10000");
    let info: redis::InfoDict = redis::cmd("INFO").query(r)?;
    assert_eq!(info.get::<String>("role").as_deref(), Some("master"));
    Ok(())
}

fn main() -> Done {
    let port = std::env::args().nth(1).expect("a port");
    // As users of the crate write it, with every default; then each version of the protocol by name.
    for options in ["", "?protocol=resp2", "?protocol=resp3"] {
        let client = Client::open(format!("redis://127.0.0.1:{port}/{options}"))?;
        let (mut r, mut other) = (client.get_connection()?, client.get_connection()?);
        let () = redis::cmd("FLUSHALL").query(&mut r)?;
        strings(&mut r)?;
        lists(&mut r)?;
        pipelines(&mut r)?;
        watching(&mut r, &mut other)?;
        blocking(&mut r, other)?;
        scanning(&mut r)?;
        locks(&mut r)?;
        about(&mut r)?;
    }
    println!("ok: the crate redis");
    Ok(())
}
