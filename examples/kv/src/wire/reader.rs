//! Reads requests from a stream of untrusted bytes.
//!
//! A request is an array of bulk strings, and nothing else of the protocol. The reader notes where each word is when it has
//! come, so a long request costs its bytes once, in however many packets they come. The tests compare it with the protocol
//! crate, whose decoder starts again with each packet, and recurses as deep as a client nests arrays.

use bytes::{Buf as _, BytesMut};

use super::inline;
use super::request::{Request, Words, size};

/// The longest line: the head of a request, or an inline command.
const LINE: usize = 64 * 1024;
/// The room for a read when the size of the next bytes is unknown.
const CHUNK: usize = 16 * 1024;
/// A request of at least this many bytes does not share its buffer with later ones, which would keep all of it.
const LARGE: usize = 64 * 1024;
/// The most room made at once for an announced word, since its bytes need not come.
const AHEAD: usize = 1 << 20;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes in one word.
    pub bulk: usize,
    /// Words in one request.
    pub words: usize,
    /// Bytes in one request. More than 4 GiB are 4 GiB.
    pub request: usize,
}

impl Default for Limits {
    /// 64 MiB a word, 1,048,576 words, 128 MiB a request.
    fn default() -> Self {
        Self {
            bulk: 64 << 20,
            words: 1 << 20,
            request: 128 << 20,
        }
    }
}

/// The bytes are not the protocol, or are too large. The client gets this error, and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The number of words is not a number, or is too large.
    #[error("Protocol error: invalid multibulk length")]
    Words,
    /// The length of a word is not a number, or is too large.
    #[error("Protocol error: invalid bulk length")]
    Bulk,
    /// A word begins with another byte.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    Expected(u8),
    /// The line with the number of words does not end.
    #[error("Protocol error: too big mbulk count string")]
    WordsLine,
    /// The line with the length of a word does not end.
    #[error("Protocol error: too big bulk count string")]
    BulkLine,
    /// An inline command does not end.
    #[error("Protocol error: too big inline request")]
    Inline,
    /// An inline command with quotes that do not close.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// All words together are too large.
    #[error("Protocol error: too big request")]
    Request,
}

/// The bytes that came, and how far they are understood.
#[derive(Debug)]
pub struct Reader {
    bytes: BytesMut,
    /// The bytes of the first request that were read so far.
    looked: usize,
    /// The number of words that the request still lacks. `None` before its head is whole.
    lacks: Option<usize>,
    /// The words of the first request that were read so far.
    words: Words,
    /// The bytes that the word at `looked` still lacks, as far as known.
    needs: usize,
    /// True if the last look found no whole request.
    starved: bool,
    /// Bytes in memory of all requests that the reader returned.
    taken: usize,
    limits: Limits,
}

impl Reader {
    /// Creates an empty reader.
    pub fn new(limits: Limits) -> Self {
        Self {
            bytes: BytesMut::new(),
            looked: 0,
            lacks: None,
            words: Words::default(),
            needs: 0,
            starved: true,
            taken: 0,
            limits,
        }
    }

    /// Returns the buffer for more bytes, with some room.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.growth() > 0 {
            self.bytes.reserve(self.needs.clamp(CHUNK, AHEAD));
        }
        &mut self.bytes
    }

    /// Returns by how many bytes [`room`](Self::room) enlarges the buffer.
    pub fn growth(&self) -> usize {
        let (capacity, len) = (self.bytes.capacity(), self.bytes.len());
        if capacity - len >= CHUNK / 4 {
            return 0;
        }
        // A buffer that grows at least doubles.
        self.needs.clamp(CHUNK, AHEAD).max(capacity)
    }

    /// Returns the size of the buffer in bytes, with what is noted about the first request.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + size(&self.words)
    }

    /// Returns how many bytes in memory all requests took that the reader has returned.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Drops all remaining bytes.
    pub fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Returns how many bytes are not taken yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the next request needs more bytes.
    pub fn is_hungry(&self) -> bool {
        self.bytes.is_empty() || self.starved
    }

    /// Returns whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next whole request.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; then the later bytes cannot be understood.
    pub fn next_request(&mut self) -> Result<Option<Request>, Malformed> {
        let next = self.whole();
        self.starved = matches!(next, Ok(None));
        next
    }

    fn whole(&mut self) -> Result<Option<Request>, Malformed> {
        loop {
            match self.bytes.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => match self.next_inline()? {
                    Some(request) if request.is_empty() => continue,
                    other => return Ok(other),
                },
            }
            let mut lacks = match self.lacks {
                Some(lacks) => lacks,
                None => match number(&self.bytes, 1, Malformed::Words, Malformed::WordsLine)? {
                    None => return Ok(None),
                    // Redis skips these, too.
                    Some((words, end)) if words <= 0 => {
                        self.taken += end;
                        self.bytes.advance(end);
                        continue;
                    }
                    Some((words, end)) => {
                        self.looked = end;
                        usize::try_from(words)
                            .ok()
                            .filter(|words| *words <= self.limits.words)
                            .ok_or(Malformed::Words)?
                    }
                },
            };
            while lacks > 0 {
                self.lacks = Some(lacks);
                if !self.word()? {
                    return Ok(None);
                }
                lacks -= 1;
            }
            self.lacks = None;
            let whole = std::mem::take(&mut self.looked);
            let words = std::mem::take(&mut self.words);
            self.taken += size(&words);
            return Ok(Some(Request::new(self.split(whole).freeze(), words)));
        }
    }

    /// Takes so many bytes from the front.
    fn split(&mut self, count: usize) -> BytesMut {
        self.taken += count;
        let front = self.bytes.split_to(count);
        // The copy is smaller than the bytes that were split off, so all copies together are smaller than the input.
        if count >= LARGE && self.bytes.len() < count {
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        front
    }

    /// Returns whether the word at `looked` is whole, and passes it if so.
    fn word(&mut self) -> Result<bool, Malformed> {
        match self.bytes.get(self.looked) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => return Err(Malformed::Expected(*other)),
        }
        let at = self.looked + 1;
        let Some((length, begin)) = number(&self.bytes, at, Malformed::Bulk, Malformed::BulkLine)?
        else {
            return Ok(false);
        };
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.limits.bulk)
            .ok_or(Malformed::Bulk)?;
        let end = begin + length + 2;
        // The places of words have 32 bits.
        if end > self.limits.request.min(u32::MAX as usize) {
            return Err(Malformed::Request);
        }
        self.needs = end.saturating_sub(self.bytes.len());
        if self.needs > 0 {
            return Ok(false);
        }
        if &self.bytes[end - 2..end] != b"\r\n" {
            return Err(Malformed::Bulk);
        }
        self.words.push((begin as u32, end as u32 - 2));
        self.looked = end;
        Ok(true)
    }

    fn next_inline(&mut self) -> Result<Option<Request>, Malformed> {
        let Some(end) = self.bytes[self.looked..]
            .iter()
            .position(|byte| *byte == b'\n')
        else {
            self.looked = self.bytes.len();
            return if self.looked > LINE {
                Err(Malformed::Inline)
            } else {
                Ok(None)
            };
        };
        let whole = std::mem::take(&mut self.looked) + end + 1;
        let line = self.split(whole);
        if line.len() > LINE {
            return Err(Malformed::Inline);
        }
        let words = inline::words(&line).ok_or(Malformed::Quotes)?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        Ok(Some(Request::of(&words)))
    }
}

/// Returns the number in the line that begins at `from`, and the end of the line. Returns `None` if the line is not
/// whole.
fn number(
    bytes: &[u8],
    from: usize,
    wrong: Malformed,
    endless: Malformed,
) -> Result<Option<(i64, usize)>, Malformed> {
    let rest = &bytes[from..];
    let Some(end) = rest.iter().take(LINE).position(|byte| *byte == b'\r') else {
        return if rest.len() >= LINE {
            Err(endless)
        } else {
            Ok(None)
        };
    };
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(wrong),
    }
    let number = integer(&rest[..end]).ok_or(wrong)?;
    Ok(Some((number, from + end + 2)))
}

/// Reads an integer as Redis does: no blanks, no `+`, no leading zeroes.
pub(crate) fn integer(digits: &[u8]) -> Option<i64> {
    let (negative, magnitude) = match digits {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    match magnitude {
        [b'0'] => return (!negative).then_some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut value: i64 = 0;
    for byte in magnitude {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        // Downwards: there is one more number below zero than above.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}
