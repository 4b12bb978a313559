//! The scripts that are known, byte by byte as the clients send them: a hash is of every byte.

use super::Script;
use crate::command::{Kind, Spec};
use crate::shard::{Run, locks};

const fn lock(arity: i16, run: Run) -> Script {
    let spec = Spec {
        name: "eval",
        arity,
        writes: true,
        kind: Kind::Key(run),
    };
    Script { spec, run }
}

/// Arguments: the token.
static RELEASE: Script = lock(3, locks::release);
/// Arguments: the token, milliseconds.
static PEXPIRE: Script = lock(4, locks::pexpire);
/// Arguments: the token, seconds.
static EXPIRE: Script = lock(4, locks::expire);
/// Arguments: the token, milliseconds, 0 where they are more than there are.
static EXTEND: Script = lock(5, locks::extend);
/// Arguments: the token, milliseconds.
static ACQUIRE: Script = lock(4, locks::acquire);
/// Arguments: the token, milliseconds.
static SET_AGAIN: Script = lock(4, locks::set_again);

/// Each script, and the command that it is.
pub(super) static KNOWN: &[(&str, &Script)] = &[
    // Redis's own documentation.
    (
        r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#,
        &RELEASE,
    ),
    // The same, to hold a lock for longer.
    (
        r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],ARGV[2])
else
    return 0
end"#,
        &PEXPIRE,
    ),
    // And in seconds.
    (
        r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("expire",KEYS[1],ARGV[2])
else
    return 0
end"#,
        &EXPIRE,
    ),
    // PyPI's redis, `Lock.release`.
    (
        r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    "#,
        &RELEASE,
    ),
    // PyPI's redis, `Lock.extend`.
    (
        r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    "#,
        &EXTEND,
    ),
    // PyPI's redis, `Lock.reacquire`.
    (
        r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    "#,
        &PEXPIRE,
    ),
    // npm's redlock 5; redlock 4 has other blanks.
    (
        r#"
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries added.
  return #KEYS
"#,
        &ACQUIRE,
    ),
    // npm's redlock, `unlock`.
    (
        r#"
  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
"#,
        &RELEASE,
    ),
    // npm's redlock, `extend`.
    (
        r#"
  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries updated.
  return #KEYS
"#,
        &SET_AGAIN,
    ),
    // The crate rslock, `unlock`.
    (
        r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
"#,
        &RELEASE,
    ),
    // The crate rslock, `extend`.
    (
        r#"
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
else
  if redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) ~= nil then
    return 1
  else
    return 0
  end
end
"#,
        &SET_AGAIN,
    ),
];
