//! Keys as bytes, in journals and in step keys.

use crate::id::Key;

const INT: u8 = 0;
/// The first byte of a text.
pub const TEXT: u8 = 1;
const BYTES: u8 = 2;
/// The first byte of a pair.
pub const PAIR: u8 = 3;

/// Limit on pairs in pairs: hostile bytes can nest deeply, and a thread's stack is finite.
const DEEPEST_KEY: u8 = 64;

/// Appends a key so that different keys give different bytes. Step keys contain these bytes, so the form never changes.
pub fn put_key(key: &Key, out: &mut Vec<u8>) {
    let mut put = |kind, bytes: &[u8]| {
        out.push(kind);
        put_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    };
    match key {
        Key::Int(number) => {
            out.push(INT);
            put_varint(*number, out);
        }
        Key::Text(text) => put(TEXT, text.as_bytes()),
        Key::Bytes(bytes) => put(BYTES, bytes),
        Key::Pair(pair) => {
            out.push(PAIR);
            put_key(&pair.0, out);
            put_key(&pair.1, out);
        }
    }
}

/// Reads a key, which is inside of `depth` pairs. Returns the bytes behind it, too.
pub fn take_key(bytes: &[u8], depth: u8) -> Option<(Key, &[u8])> {
    let (&kind, bytes) = bytes.split_first()?;
    if kind == PAIR {
        if depth == DEEPEST_KEY {
            return None;
        }
        let (one, bytes) = take_key(bytes, depth + 1)?;
        let (other, bytes) = take_key(bytes, depth + 1)?;
        return Some((Key::from((one, other)), bytes));
    }
    let (number, bytes) = take_varint(bytes)?;
    if kind == INT {
        return Some((Key::Int(number), bytes));
    }
    let (key, bytes) = bytes.split_at_checked(usize::try_from(number).ok()?)?;
    let key = match kind {
        TEXT => Key::Text(std::str::from_utf8(key).ok()?.into()),
        BYTES => Key::Bytes(key.into()),
        _ => return None,
    };
    Some((key, bytes))
}

/// Writes a number in as many bytes as it needs, seven bits in each, the lowest first.
pub fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number. Returns the bytes behind it, too.
pub fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        let shifted = part << (7 * at);
        if shifted >> (7 * at) != part {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}
