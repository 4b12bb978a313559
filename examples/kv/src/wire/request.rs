//! One request: its bytes, and where its words are.

use bytes::Bytes;
use smallvec::SmallVec;

/// A request. Its words are slices of its bytes, so a clone copies no words.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Bytes,
    words: Words,
}

/// Where each word begins and ends in the bytes of a request, which has less than 4 GiB. Most requests have few words, and need no further memory.
pub(super) type Words = SmallVec<[(u32, u32); 3]>;

/// Returns how many bytes they take in memory, besides the value.
pub(super) fn size(words: &Words) -> usize {
    match words.spilled() {
        true => words.capacity() * size_of::<(u32, u32)>(),
        false => 0,
    }
}

impl Request {
    pub(super) fn new(bytes: Bytes, words: Words) -> Self {
        Self { bytes, words }
    }

    /// Creates a request of these words.
    pub fn of(words: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        let mut ranges = Words::default();
        for word in words {
            let begin = bytes.len();
            bytes.extend_from_slice(word);
            ranges.push((begin as u32, bytes.len() as u32));
        }
        Self::new(bytes.into(), ranges)
    }

    /// Returns the number of words, with the name of the command.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether the request has no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns how many bytes the request takes in memory.
    pub fn size(&self) -> usize {
        self.bytes.len() + size(&self.words)
    }

    /// Returns the word at this place, or an empty word if there is none.
    pub fn word(&self, at: usize) -> &[u8] {
        let word = self.words.get(at);
        word.map_or(&[], |(begin, end)| {
            &self.bytes[*begin as usize..*end as usize]
        })
    }

    /// Returns the words from this place on.
    pub fn words_from(&self, first: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (first.min(self.len())..self.len()).map(|at| self.word(at))
    }

    /// Returns the same command with only these arguments, and its last one.
    pub(crate) fn only(&self, arguments: &[usize]) -> Request {
        let mut words = vec![self.word(0)];
        words.extend(arguments.iter().map(|at| self.word(*at)));
        words.push(self.word(self.len() - 1));
        Request::of(&words)
    }

    /// Returns the same request in bytes of its own.
    pub(crate) fn compact(self) -> Request {
        Request::new(Bytes::copy_from_slice(&self.bytes), self.words)
    }

    /// Returns the same command without the words from `first` up to `end`. Copies no word.
    pub(crate) fn without(mut self, first: usize, end: usize) -> Request {
        let len = self.words.len();
        self.words.drain(first.min(len)..end.min(len));
        self
    }

    /// Returns the name of the command, as errors show it.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.word(0)).to_lowercase()
    }
}
