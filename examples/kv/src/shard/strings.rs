//! Commands on strings and counters.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{Done, Entry, Shard, Value};
use crate::wire::{Reply, Request, integer};

/// The longest string that APPEND makes.
const LONGEST: usize = 512 << 20;

const OVERFLOW: Reply = Reply::error("ERR increment or decrement would overflow");

pub(crate) fn get(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let text = shard.text(request.word(at))?;
    Ok(Reply::bulk_or_null(text.cloned()))
}

/// For MGET: a value that is not a string counts as missing.
pub(crate) fn get_if_text(shard: &mut Shard, request: &Request, at: usize) -> Done {
    get(shard, request, at).or(Ok(Reply::Null))
}

/// For MSET: the value is behind the key.
pub(crate) fn set_plain(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let text = Bytes::copy_from_slice(request.word(at + 1));
    shard.put(request.word(at), text, None);
    Ok(Reply::OK)
}

/// The expiry of a key, as SET says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Never,
    Keep,
    At(u64),
}

pub(crate) fn set(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let (key, value) = (request.word(at), request.word(at + 1));
    if request.len() == at + 2 {
        return set_plain(shard, request, at);
    }
    let (mut expiry, mut only, mut get) = (Expiry::Never, None, false);
    let mut words = request.words_from(at + 2);
    while let Some(word) = words.next() {
        let unit = Unit::of(word);
        if word.eq_ignore_ascii_case(b"get") {
            get = true;
        } else if word.eq_ignore_ascii_case(b"nx") && only.is_none() {
            only = Some(false);
        } else if word.eq_ignore_ascii_case(b"xx") && only.is_none() {
            only = Some(true);
        } else if expiry != Expiry::Never {
            return Err(Reply::SYNTAX);
        } else if word.eq_ignore_ascii_case(b"keepttl") {
            expiry = Expiry::Keep;
        } else if let Some(unit) = unit {
            let time = integer(words.next().ok_or(Reply::SYNTAX)?).ok_or(Reply::NOT_AN_INTEGER)?;
            expiry = Expiry::At(unit.at(time, shard.now(), "set", true)?);
        } else {
            return Err(Reply::SYNTAX);
        }
    }
    let old = if get {
        Some(Reply::bulk_or_null(shard.text(key)?.cloned()))
    } else {
        None
    };
    let there = shard.live(key).map(|entry| entry.expires);
    if only.is_some_and(|there_already| there_already != there.is_some()) {
        return Ok(old.unwrap_or(Reply::Null));
    }
    let expires = match expiry {
        Expiry::Never => None,
        Expiry::Keep => there.flatten(),
        Expiry::At(time) => Some(time),
    };
    shard.put(key, Bytes::copy_from_slice(value), expires);
    Ok(old.unwrap_or(Reply::OK))
}

/// A unit of time, and whether it counts from now.
pub(crate) struct Unit {
    millis: i64,
    from_now: bool,
}

impl Unit {
    pub(crate) const fn new(millis: i64, from_now: bool) -> Self {
        Self { millis, from_now }
    }

    fn of(word: &[u8]) -> Option<Self> {
        let unit = match word.to_ascii_lowercase().as_slice() {
            b"ex" => Self::new(1000, true),
            b"px" => Self::new(1, true),
            b"exat" => Self::new(1000, false),
            b"pxat" => Self::new(1, false),
            _ => return None,
        };
        Some(unit)
    }

    /// Returns the time `time` units from now on, or from 1970 if the unit is absolute, in milliseconds since 1970;
    /// never below zero.
    pub(crate) fn at(
        &self,
        time: i64,
        now: u64,
        command: &str,
        positive: bool,
    ) -> Result<u64, Reply> {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let begin = if self.from_now { now } else { 0 };
        let at = time
            .checked_mul(self.millis)
            .and_then(|time| time.checked_add(begin))
            .filter(|_| !positive || time > 0);
        match at {
            Some(at) => Ok(u64::try_from(at).unwrap_or(0)),
            None => Err(Reply::Error(
                format!("ERR invalid expire time in '{command}' command").into(),
            )),
        }
    }
}

pub(crate) fn getset(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let old = get(shard, request, at)?;
    set_plain(shard, request, at)?;
    Ok(old)
}

pub(crate) fn getdel(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let old = get(shard, request, at)?;
    shard.remove(request.word(at));
    Ok(old)
}

pub(crate) fn setnx(shard: &mut Shard, request: &Request, at: usize) -> Done {
    if shard.live(request.word(at)).is_some() {
        return Ok(Reply::Int(0));
    }
    set_plain(shard, request, at)?;
    Ok(Reply::Int(1))
}

pub(crate) fn setex(shard: &mut Shard, request: &Request, at: usize) -> Done {
    set_for(shard, request, at, 1000, "setex")
}

pub(crate) fn psetex(shard: &mut Shard, request: &Request, at: usize) -> Done {
    set_for(shard, request, at, 1, "psetex")
}

fn set_for(shard: &mut Shard, request: &Request, at: usize, millis: i64, name: &str) -> Done {
    let time = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    let expires = Unit::new(millis, true).at(time, shard.now(), name, true)?;
    let text = Bytes::copy_from_slice(request.word(at + 2));
    shard.put(request.word(at), text, Some(expires));
    Ok(Reply::OK)
}

pub(crate) fn append(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let (key, more) = (request.word(at), request.word(at + 1));
    let expires = shard.live(key).and_then(|entry| entry.expires);
    let old = match shard.text(key)? {
        None => Bytes::new(),
        Some(text) if text.len() + more.len() > LONGEST => {
            return Err(Reply::error(
                "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ));
        }
        Some(_) => shard.take_text(key),
    };
    // In place, if the bytes have no other owner.
    let mut text = old
        .try_into_mut()
        .unwrap_or_else(|old| BytesMut::from(&old[..]));
    text.put_slice(more);
    let len = text.len();
    shard.put(key, text.freeze(), expires);
    Ok(Reply::count(len))
}

pub(crate) fn strlen(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let text = shard.text(request.word(at))?;
    Ok(Reply::count(text.map_or(0, Bytes::len)))
}

pub(crate) fn incr(shard: &mut Shard, request: &Request, at: usize) -> Done {
    add(shard, request.word(at), 1)
}

pub(crate) fn decr(shard: &mut Shard, request: &Request, at: usize) -> Done {
    add(shard, request.word(at), -1)
}

pub(crate) fn incrby(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let by = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    add(shard, request.word(at), by)
}

pub(crate) fn decrby(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let by = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    let by = by
        .checked_neg()
        .ok_or(Reply::error("ERR decrement would overflow"))?;
    add(shard, request.word(at), by)
}

fn add(shard: &mut Shard, key: &[u8], by: i64) -> Done {
    let (old, expires) = match shard.live(key) {
        None => (0, None),
        Some(Entry {
            value: Value::Text(text),
            expires,
        }) => (integer(text).ok_or(Reply::NOT_AN_INTEGER)?, *expires),
        Some(_) => return Err(Reply::WRONG_TYPE),
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    let text = Bytes::copy_from_slice(itoa::Buffer::new().format(new).as_bytes());
    shard.put(key, text, expires);
    Ok(Reply::Int(new))
}
