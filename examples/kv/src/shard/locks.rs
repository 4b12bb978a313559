//! The commands of lock scripts. A lock is a string that expires: the token of the client that holds the lock.
//!
//! A request holds the name of the script, the key, the token, and the other arguments of the script.

use bytes::Bytes;

use super::keys::expire_at;
use super::strings::Unit;
use super::{Done, Shard};
use crate::wire::{Reply, Request, integer};

const MILLIS: Unit = Unit::new(1, true);

/// Returns whether the lock holds the token.
fn is_mine(shard: &mut Shard, request: &Request, at: usize) -> Result<bool, Reply> {
    let token = shard.text(request.word(at))?;
    Ok(token.is_some_and(|token| token == request.word(at + 1)))
}

fn number(request: &Request, at: usize) -> Result<i64, Reply> {
    integer(request.word(at)).ok_or(Reply::NOT_AN_INTEGER)
}

/// Removes the lock if it holds the token.
pub(crate) fn release(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let mine = is_mine(shard, request, at)?;
    if mine {
        shard.remove(request.word(at));
    }
    Ok(Reply::Int(mine.into()))
}

/// Lets the lock expire after so many milliseconds.
pub(crate) fn pexpire(shard: &mut Shard, request: &Request, at: usize) -> Done {
    if !is_mine(shard, request, at)? {
        return Ok(Reply::Int(0));
    }
    let time = number(request, at + 2)?;
    expire_at(shard, request.word(at), time, &MILLIS, "pexpire")
}

/// Extends the lock by so many milliseconds, or makes it expire after so many. A lock that does not expire stays as it
/// is.
pub(crate) fn extend(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let key = request.word(at);
    if !is_mine(shard, request, at)? {
        return Ok(Reply::Int(0));
    }
    let now = shard.now();
    let Some(expires) = shard.live(key).and_then(|entry| entry.expires) else {
        return Ok(Reply::Int(0));
    };
    let mut time = number(request, at + 2)?;
    if request.word(at + 3) == b"0" {
        let left = i64::try_from(expires.saturating_sub(now)).unwrap_or(i64::MAX);
        time = time.saturating_add(left);
    }
    expire_at(shard, key, time, &MILLIS, "pexpire")
}

fn set(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let time = number(request, at + 2)?;
    let expires = MILLIS.at(time, shard.now(), "set", true)?;
    let token = Bytes::copy_from_slice(request.word(at + 1));
    shard.put(request.word(at), token, Some(expires));
    Ok(Reply::Int(1))
}

/// Takes the lock if it is free.
pub(crate) fn acquire(shard: &mut Shard, request: &Request, at: usize) -> Done {
    if shard.live(request.word(at)).is_some() {
        return Ok(Reply::Int(0));
    }
    set(shard, request, at)
}

/// Takes the lock again if it holds the token.
pub(crate) fn set_again(shard: &mut Shard, request: &Request, at: usize) -> Done {
    if !is_mine(shard, request, at)? {
        return Ok(Reply::Int(0));
    }
    set(shard, request, at)
}
