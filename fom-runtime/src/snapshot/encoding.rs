//! Values as bytes: MessagePack with names, read strictly.
//!
//! Positional formats were tried and rejected: after a new phase or field, they decode wrong data without an error.

use std::{cell::RefCell, ops::Range};

use serde::{Deserialize, Serialize};

use crate::snapshot::strict::{Place, Strict};

/// The deepest nesting of a value. Hostile bytes can nest deeply, and the stack of a thread is finite.
const MOST_DEPTH: usize = 128;

/// Appends a value. After an error, the bytes appended so far stay.
pub(super) fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    rmp_serde::encode::write_named(out, value).map_err(|error| error.to_string())
}

/// Writes a value.
///
/// # Errors
///
/// Fails with the text of the value's own error.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    append(value, &mut bytes)?;
    Ok(bytes)
}

/// The reason why bytes are not a value of the requested type.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// The bytes have a field that the type does not have.
    Unknown(String),
    Other(String),
}

impl From<Misfit> for String {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Unknown(field) => format!("it does not have the field `{field}`"),
            Misfit::Other(reason) => reason,
        }
    }
}

/// Decodes all bytes as one value. A field that the type does not have is an error, because the field would be lost.
pub(crate) fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Misfit> {
    one_value(bytes).map_err(Misfit::Other)?;
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(MOST_DEPTH);
    let unknown = RefCell::new(None);
    let strict = Strict::new(&mut reader, Place::outermost(&unknown));
    let value = T::deserialize(strict);
    value.map_err(|error| {
        unknown
            .take()
            .map_or_else(|| Misfit::Other(error.to_string()), Misfit::Unknown)
    })
}

/// Decodes the value at the start of the bytes. Returns the value and the bytes behind it.
pub fn leading<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<(T, &'de [u8]), String> {
    let (first, rest) = bytes.split_at(value_end(bytes)?);
    let mut reader = rmp_serde::Deserializer::from_read_ref(first);
    reader.set_max_depth(MOST_DEPTH);
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    Ok((value, rest))
}

/// Checks that the bytes are one whole value, with nothing behind it.
///
/// Then every element that a length promises is there, so the bytes bound the allocated memory.
fn one_value(bytes: &[u8]) -> Result<(), String> {
    let end = value_end(bytes)?;
    if end == bytes.len() {
        Ok(())
    } else {
        Err(format!("{} bytes too many", bytes.len() - end))
    }
}

/// Returns the end of the value at the start of the bytes.
fn value_end(bytes: &[u8]) -> Result<usize, String> {
    // The number of remaining values on each level.
    let mut left = [0u64; MOST_DEPTH + 1];
    let (mut depth, mut at) = (0, 0usize);
    left[0] = 1;
    loop {
        while left[depth] == 0 {
            if depth == 0 {
                return Ok(at);
            }
            depth -= 1;
        }
        left[depth] -= 1;
        let (head, data, inner) = item(&bytes[at..]).ok_or("it is no MessagePack, or cut short")?;
        at = at
            .checked_add(head)
            .and_then(|at| at.checked_add(data))
            .filter(|at| *at <= bytes.len())
            .ok_or("it is cut short")?;
        if inner > 0 {
            depth += 1;
            *left.get_mut(depth).ok_or("it is nested too deeply")? = inner;
        }
    }
}

/// Returns the range of a field's value in bytes that are a map by names.
pub(crate) fn field(bytes: &[u8], name: &str) -> Option<Range<usize>> {
    entry(bytes, name).map(|entry| entry.value)
}

/// An entry in the bytes of a map.
struct Entry {
    /// Where its name begins.
    begin: usize,
    value: Range<usize>,
}

/// Returns the entry with this name in bytes that are a map by names.
fn entry(bytes: &[u8], name: &str) -> Option<Entry> {
    let (mut at, values) = map(bytes)?;
    for _ in 0..values {
        let begin = at;
        let (head, data, _) = item(bytes.get(at..)?)?;
        let key = bytes.get(at + head..)?.get(..data)?;
        at += head + data;
        let end = at + value_end(bytes.get(at..)?).ok()?;
        if key == name.as_bytes() {
            let value = at..end;
            return Some(Entry { begin, value });
        }
        at = end;
    }
    None
}

/// Returns the length of the head of a map, and the number of its entries.
fn map(bytes: &[u8]) -> Option<(usize, u64)> {
    let is_map = matches!(bytes.first()?, 0x80..=0x8f | 0xde | 0xdf);
    let (head, _, values) = item(bytes).filter(|_| is_map)?;
    Some((head, values / 2))
}

/// Takes the entry with this name out of bytes that are a map by names. Returns the map without it, and the entry.
pub(super) fn cut(bytes: &[u8], name: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (head, entries) = map(bytes)?;
    let Entry { begin, value } = entry(bytes, name)?;
    let mut rest = map_head(entries - 1)?;
    rest.extend_from_slice(&bytes[head..begin]);
    rest.extend_from_slice(&bytes[value.end..]);
    Some((rest, bytes[begin..value.end].to_vec()))
}

/// Adds entries that were [`cut`] to bytes that are a map by names.
pub(super) fn extend_map(bytes: &[u8], more: &[Vec<u8>]) -> Option<Vec<u8>> {
    let (head, entries) = map(bytes)?;
    let mut all = map_head(entries + more.len() as u64)?;
    all.extend_from_slice(&bytes[head..]);
    all.extend(more.iter().flatten());
    Some(all)
}

/// Returns the head of a map with this number of entries.
fn map_head(entries: u64) -> Option<Vec<u8>> {
    Some(match u16::try_from(entries) {
        Ok(few @ 0..=15) => vec![0x80 | few as u8],
        Ok(some) => [&[0xde], &some.to_be_bytes()[..]].concat(),
        Err(_) => [&[0xdf], &u32::try_from(entries).ok()?.to_be_bytes()[..]].concat(),
    })
}

/// Reads the first item of MessagePack. Returns the length of its head, the length of its data, and the number of
/// values in it.
fn item(bytes: &[u8]) -> Option<(usize, usize, u64)> {
    let (&marker, rest) = bytes.split_first()?;
    let number = |size: usize| {
        let bytes = rest.get(..size)?;
        let number = bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        Some(number)
    };
    let data = |size: usize, more: usize| {
        let length = usize::try_from(number(size)?).ok()?;
        Some((1 + size, length + more, 0))
    };
    let inner = |size: usize, each: u64| Some((1 + size, 0, number(size)? * each));
    match marker {
        0x80..=0x8f => Some((1, 0, u64::from(marker & 0xf) * 2)),
        0x90..=0x9f => Some((1, 0, u64::from(marker & 0xf))),
        0xa0..=0xbf => Some((1, usize::from(marker & 0x1f), 0)),
        0xc1 => None,
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Some((1, 0, 0)),
        0xcc | 0xd0 => Some((1, 1, 0)),
        0xcd | 0xd1 => Some((1, 2, 0)),
        0xca | 0xce | 0xd2 => Some((1, 4, 0)),
        0xcb | 0xcf | 0xd3 => Some((1, 8, 0)),
        0xd4..=0xd8 => Some((1, 1 + (1 << (marker - 0xd4)), 0)),
        0xc4 | 0xd9 => data(1, 0),
        0xc5 | 0xda => data(2, 0),
        0xc6 | 0xdb => data(4, 0),
        // An extension has a type before its data.
        0xc7 => data(1, 1),
        0xc8 => data(2, 1),
        0xc9 => data(4, 1),
        0xdc => inner(2, 1),
        0xdd => inner(4, 1),
        0xde => inner(2, 2),
        0xdf => inner(4, 2),
    }
}
