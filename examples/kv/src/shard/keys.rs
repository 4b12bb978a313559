//! Commands on keys of any kind, and on all keys of a shard.

use bytes::Bytes;

use super::strings::Unit;
use super::{Done, Shard, Value};
use crate::wire::{Reply, Request, integer};

pub(crate) fn del(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let key = request.word(at);
    let there = shard.live(key).is_some();
    shard.remove(key);
    Ok(Reply::Int(there.into()))
}

pub(crate) fn exists(shard: &mut Shard, request: &Request, at: usize) -> Done {
    Ok(Reply::Int(shard.live(request.word(at)).is_some().into()))
}

pub(crate) fn r#type(shard: &mut Shard, request: &Request, at: usize) -> Done {
    Ok(Reply::Status(
        match shard.live(request.word(at)).map(|entry| &entry.value) {
            None => "none",
            Some(Value::Text(_)) => "string",
            Some(Value::List(_)) => "list",
        },
    ))
}

pub(crate) fn expire(shard: &mut Shard, request: &Request, at: usize) -> Done {
    expire_by(shard, request, at, &Unit::new(1000, true), "expire")
}

pub(crate) fn pexpire(shard: &mut Shard, request: &Request, at: usize) -> Done {
    expire_by(shard, request, at, &Unit::new(1, true), "pexpire")
}

pub(crate) fn expireat(shard: &mut Shard, request: &Request, at: usize) -> Done {
    expire_by(shard, request, at, &Unit::new(1000, false), "expireat")
}

pub(crate) fn pexpireat(shard: &mut Shard, request: &Request, at: usize) -> Done {
    expire_by(shard, request, at, &Unit::new(1, false), "pexpireat")
}

fn expire_by(shard: &mut Shard, request: &Request, at: usize, unit: &Unit, name: &str) -> Done {
    let time = integer(request.word(at + 1)).ok_or(Reply::NOT_AN_INTEGER)?;
    expire_at(shard, request.word(at), time, unit, name)
}

/// Sets the expiry of a key. Answers 0 if there is no such key.
pub(super) fn expire_at(shard: &mut Shard, key: &[u8], time: i64, unit: &Unit, name: &str) -> Done {
    let now = shard.now();
    let expires = unit.at(time, now, name, false)?;
    if shard.live(key).is_none() {
        return Ok(Reply::Int(0));
    }
    if expires <= now {
        shard.remove(key);
    } else {
        shard.set_expiry(key, Some(expires));
    }
    Ok(Reply::Int(1))
}

pub(crate) fn persist(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let key = request.word(at);
    let expires = shard.live(key).is_some_and(|entry| entry.expires.is_some());
    if expires {
        shard.set_expiry(key, None);
    }
    Ok(Reply::Int(expires.into()))
}

pub(crate) fn ttl(shard: &mut Shard, request: &Request, at: usize) -> Done {
    Ok(Reply::Int(match left(shard, request.word(at)) {
        // Rounded as Redis rounds.
        Ok(millis) => (millis + 500) / 1000,
        Err(none) => none,
    }))
}

pub(crate) fn pttl(shard: &mut Shard, request: &Request, at: usize) -> Done {
    let left = left(shard, request.word(at));
    Ok(Reply::Int(left.unwrap_or_else(|none| none)))
}

/// Returns the milliseconds that are left, or as an error the number that stands for none.
fn left(shard: &mut Shard, key: &[u8]) -> Result<i64, i64> {
    let now = shard.now();
    let entry = shard.live(key).ok_or(-2)?;
    let left = entry.expires.ok_or(-1)?.saturating_sub(now);
    Ok(i64::try_from(left).unwrap_or(i64::MAX))
}

pub(crate) fn dbsize(shard: &mut Shard, _: &Request) -> Reply {
    Reply::count(shard.len())
}

pub(crate) fn flush(shard: &mut Shard, _: &Request) -> Reply {
    let keys: Vec<Box<[u8]>> = shard.entries.keys().cloned().collect();
    for key in keys {
        shard.remove(&key);
    }
    Reply::OK
}

/// Returns the keys that match the pattern in the second word.
pub(crate) fn keys(shard: &mut Shard, request: &Request) -> Reply {
    Reply::Array(shard.matching(request.word(1)))
}

impl Shard {
    /// Returns the keys that match a pattern.
    pub(crate) fn matching(&mut self, pattern: &[u8]) -> Vec<Reply> {
        let now = if self.expiring.is_empty() {
            0
        } else {
            self.now()
        };
        self.entries
            .iter()
            .filter(|(_, entry)| entry.expires.is_none_or(|expires| expires > now))
            .filter(|(key, _)| fits(pattern, key))
            .map(|(key, _)| Reply::Bulk(Bytes::copy_from_slice(key)))
            .collect()
    }
}

/// Returns whether a text matches a pattern with `*`, `?`, `[a-c]`, `[^a]` and `\`. The search returns to a `*` only
/// until the next one matches, so the time is at most the product of both lengths.
pub(crate) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The place to resume when the text after the last `*` does not match.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(&pattern[p.min(pattern.len())..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match &mut star {
                Some((after, begun)) => {
                    *begun += 1;
                    (p, t) = (*after, *begun);
                }
                None => return false,
            },
        }
    }
    pattern[p.min(pattern.len())..]
        .iter()
        .all(|byte| *byte == b'*')
}

/// Returns how much of the pattern this byte matches, or `None`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', class @ ..] => {
            let (negated, class) = match class {
                [b'^', rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let end = class
                .iter()
                .position(|byte| *byte == b']')
                .unwrap_or(class.len());
            let (mut members, mut found) = (&class[..end], false);
            while let [first, rest @ ..] = members {
                members = match rest {
                    [b'-', last, rest @ ..] => {
                        found |= (*first.min(last)..=*first.max(last)).contains(&byte);
                        rest
                    }
                    rest => {
                        found |= *first == byte;
                        rest
                    }
                };
            }
            (found != negated).then_some(1 + usize::from(negated) + end + 1)
        }
        [other, ..] => (*other == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("user:*:name", "user:7:name", true),
            ("user:*:name", "user:7:names", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[", "a", false),
            (
                "a*a*a*a*a*b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                false,
            ),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
