//! Commands on lists.

use std::ops::Range;

use super::{Done, List, Shard, Side};
use crate::wire::{Reply, Request, integer};

pub(crate) fn lpush(shard: &mut Shard, request: &Request, at: usize) -> Done {
    push(shard, request, at, Side::Left)
}

pub(crate) fn rpush(shard: &mut Shard, request: &Request, at: usize) -> Done {
    push(shard, request, at, Side::Right)
}

fn push(shard: &mut Shard, request: &Request, at: usize, side: Side) -> Done {
    let len = shard.push(request.word(at), side, request.words_from(at + 1))?;
    Ok(Reply::count(len))
}

pub(crate) fn lpop(shard: &mut Shard, request: &Request, at: usize) -> Done {
    pop(shard, request, at, Side::Left)
}

pub(crate) fn rpop(shard: &mut Shard, request: &Request, at: usize) -> Done {
    pop(shard, request, at, Side::Right)
}

fn pop(shard: &mut Shard, request: &Request, at: usize, side: Side) -> Done {
    let key = request.word(at);
    if request.len() == at + 1 {
        return Ok(Reply::bulk_or_null(shard.pop(key, side)?));
    }
    let count = integer(request.word(at + 1))
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(Reply::error("ERR value is out of range, must be positive"))?;
    let Some(list) = shard.list(key)? else {
        return Ok(Reply::NullArray);
    };
    let mut popped = Vec::new();
    for _ in 0..count.min(list.len()) {
        popped.extend(shard.pop(key, side)?.map(Reply::Bulk));
    }
    Ok(Reply::Array(popped))
}

/// Pops for a blocking pop inside a transaction, which does not wait. Returns the key and an element.
pub(crate) fn pop_now(shard: &mut Shard, key: &[u8], side: Side) -> Result<Option<Reply>, Reply> {
    let popped = shard.pop(key, side)?;
    Ok(popped.map(|value| {
        let key = Reply::Bulk(bytes::Bytes::copy_from_slice(key));
        Reply::Array(vec![key, Reply::Bulk(value)])
    }))
}

pub(crate) fn llen(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let list = shard.list(request.word(at))?;
    Ok(Reply::count(list.map_or(0, List::len)))
}

pub(crate) fn lindex(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let index = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    let Some(list) = shard.list(request.word(at))? else {
        return Ok(Reply::Null);
    };
    let item = from_end(index, list.len()).and_then(|index| list.get(index));
    Ok(Reply::bulk_or_null(item.cloned()))
}

pub(crate) fn lrange(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let first = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    let last = integer(request.word(at + 2)).ok_or(Reply::NOT_AN_INTEGER)?;
    let Some(list) = shard.list(request.word(at))? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let items = list.range(range(first, last, list.len()));
    Ok(Reply::bulks(items))
}

/// Resolves an index; a negative index counts from the end.
fn from_end(index: i64, len: usize) -> Option<usize> {
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        let back = usize::try_from(index.unsigned_abs()).ok()?;
        len.checked_sub(back)
    }
}

/// Returns the range from the first to the last element, as far as there are elements.
fn range(first: i64, last: i64, len: usize) -> Range<usize> {
    let begin = from_end(first, len).unwrap_or(0);
    let end = from_end(last, len).map_or(0, |last| last.saturating_add(1).min(len));
    begin.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn a_range_is_what_redis_takes_it_for() {
        for (first, last, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 2..2),
            (5, 9, 5..5),
            (0, -6, 0..0),
        ] {
            assert_eq!(range(first, last, 5), expected, "{first} {last}");
        }
    }
}
