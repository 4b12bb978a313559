//! Records: what one commit or one claim adds to the log of a slot, as messages of the stream.

use std::time::Duration;

/// The version of the form.
const VERSION: u8 = 1;
/// The length of a head.
const HEAD: usize = 33;

/// What each message of a record says before its part of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The term of the slot.
    pub(crate) term: u64,
    /// The number of the last body in the log.
    pub(crate) last: u64,
    /// The greatest time that a claim or a commit of the slot had.
    pub(crate) time: Duration,
    /// The number of the message in its record.
    part: u32,
    /// The messages of the record.
    parts: u32,
}

/// Returns the messages of a record, each at most so long. A claim has no bodies.
pub(crate) fn write(
    (term, last, time): (u64, u64, Duration),
    bodies: &[(u64, Vec<u8>)],
    longest: usize,
) -> Vec<Vec<u8>> {
    let length = bodies.iter().map(|(_, body)| 12 + body.len()).sum();
    let mut content = Vec::with_capacity(length);
    for (number, body) in bodies {
        content.extend(number.to_le_bytes());
        content.extend((body.len() as u32).to_le_bytes());
        content.extend(body);
    }
    let room = longest.saturating_sub(HEAD).max(1);
    let parts = content.len().div_ceil(room).max(1) as u32;
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let write = |part: u32| {
        let begin = part as usize * room;
        let content = &content[begin..content.len().min(begin + room)];
        let mut message = Vec::with_capacity(HEAD + content.len());
        message.push(VERSION);
        for number in [term, last, nanos] {
            message.extend(number.to_le_bytes());
        }
        for number in [part, parts] {
            message.extend(number.to_le_bytes());
        }
        message.extend(content);
        message
    };
    (0..parts).map(write).collect()
}

/// A message that is none of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A later release wrote it.
    Newer,
    /// It is damaged.
    Damaged(&'static str),
}

impl Head {
    /// Reads the head of a message. Returns the content behind it, too.
    pub(crate) fn read(message: &[u8]) -> Result<(Self, &[u8]), Unreadable> {
        let short = Unreadable::Damaged("it is too short");
        match message.first() {
            None => return Err(short),
            Some(0) => return Err(Unreadable::Damaged("it has no version")),
            Some(version) if *version > VERSION => return Err(Unreadable::Newer),
            Some(_) => {}
        }
        let (head, content) = message.split_at_checked(HEAD).ok_or(short)?;
        let long = |at: usize| take(head, at).map(u64::from_le_bytes).ok_or(short);
        let int = |at: usize| take(head, at).map(u32::from_le_bytes).ok_or(short);
        let head = Self {
            term: long(1)?,
            last: long(9)?,
            time: Duration::from_nanos(long(17)?),
            part: int(25)?,
            parts: int(29)?,
        };
        Ok((head, content))
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Puts the messages of records together again.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    content: Vec<u8>,
    parts: u32,
}

/// A whole record.
#[derive(Debug)]
pub(crate) struct Record {
    /// The number of the last body in the log.
    pub(crate) last: u64,
    /// The bodies of this record, with their numbers.
    pub(crate) bodies: Vec<(u64, Vec<u8>)>,
}

impl Reader {
    /// Reads the next message. Returns the record that ends with it.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<Option<Record>, Unreadable> {
        let (head, content) = Head::read(message)?;
        if head.part != self.parts || head.part >= head.parts {
            return Err(Unreadable::Damaged("a message before it is missing"));
        }
        self.parts += 1;
        self.content.extend_from_slice(content);
        if self.parts < head.parts {
            return Ok(None);
        }
        let content = std::mem::take(self).content;
        let bodies = bodies(&content).ok_or(Unreadable::Damaged("its bodies are cut off"))?;
        let last = head.last;
        Ok(Some(Record { last, bodies }))
    }

    /// Whether a record has begun.
    pub(crate) fn is_inside(&self) -> bool {
        self.parts > 0
    }
}

fn bodies(mut content: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let mut bodies = Vec::new();
    while !content.is_empty() {
        let number = u64::from_le_bytes(take(content, 0)?);
        let length = u32::from_le_bytes(take(content, 8)?);
        let (body, rest) = content[12..].split_at_checked(usize::try_from(length).ok()?)?;
        bodies.push((number, body.to_vec()));
        content = rest;
    }
    Some(bodies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (u64, u64, Duration) = (3, 8, Duration::from_secs(5));

    fn bodies() -> Vec<(u64, Vec<u8>)> {
        vec![(7, vec![1; 100]), (8, Vec::new())]
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for longest in [34, 40, 77, 1 << 20] {
            let messages = write(AT, &bodies(), longest);
            assert!(messages.iter().all(|message| message.len() <= longest));
            let mut reader = Reader::default();
            let mut read = messages.iter().map(|message| reader.read(message).unwrap());
            let record = read.find_map(|record| record).unwrap();
            assert!(read.next().is_none(), "the last message ends it");
            assert_eq!((record.last, record.bodies), (8, bodies()));
        }
        let claim = write(AT, &[], 1 << 20);
        assert_eq!(claim.len(), 1);
        let (head, content) = Head::read(&claim[0]).unwrap();
        assert_eq!((head.term, head.last, head.time), AT);
        assert!(content.is_empty());
    }

    #[test]
    fn damage_is_found() {
        let whole = write(AT, &bodies(), 1 << 20).remove(0);
        let read = |message: &[u8]| Reader::default().read(message).map(drop);
        for length in 0..whole.len() {
            // Exactly after the first body, what is there is whole.
            if length != HEAD && length != HEAD + 112 {
                read(&whole[..length]).unwrap_err();
            }
        }
        let mut newer = whole.clone();
        newer[0] = VERSION + 1;
        assert_eq!(read(&newer), Err(Unreadable::Newer));
        let parts = write(AT, &bodies(), 60);
        assert!(read(&parts[1]).is_err(), "the first part is missing");
        let mut reader = Reader::default();
        reader.read(&parts[0]).unwrap();
        assert!(reader.read(&parts[2]).is_err(), "a part is missing");
    }
}
