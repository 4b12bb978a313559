//! One request: its bytes, and where its words are.

use std::ops::Range;

use bytes::Bytes;

/// A request. Its words are slices of its bytes, so a clone copies no words.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Bytes,
    words: Words,
}

/// Where the words are in the bytes of a request.
#[derive(Clone, Debug)]
pub(super) enum Words {
    /// Most requests have few words near their beginning, and need no further memory.
    Few {
        count: u8,
        ends: [(u16, u16); 4],
    },
    Many(Vec<(usize, usize)>),
}

impl Default for Words {
    fn default() -> Self {
        Self::Few {
            count: 0,
            ends: Default::default(),
        }
    }
}

impl Words {
    pub(super) fn push(&mut self, word: Range<usize>) {
        if let Self::Few { count, ends } = self
            && let Some(free) = ends.get_mut(usize::from(*count))
            && let (Ok(begin), Ok(end)) = (word.start.try_into(), word.end.try_into())
        {
            *free = (begin, end);
            *count += 1;
            return;
        }
        if let Self::Few { .. } = self {
            let few = (0..self.len()).filter_map(|at| self.get(at));
            *self = Self::Many(few.map(|word| (word.start, word.end)).collect());
        }
        if let Self::Many(words) = self {
            words.push((word.start, word.end));
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few { count, .. } => usize::from(*count),
            Self::Many(words) => words.len(),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Option<Range<usize>> {
        match self {
            Self::Few { count, ends } if at < usize::from(*count) => {
                let (begin, end) = ends[at];
                Some(begin.into()..end.into())
            }
            Self::Few { .. } => None,
            Self::Many(words) => words.get(at).map(|(begin, end)| *begin..*end),
        }
    }

    /// Returns how many bytes they take in memory, besides this value.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Few { .. } => 0,
            Self::Many(words) => words.capacity() * size_of::<(usize, usize)>(),
        }
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
            ranges.push(begin..bytes.len());
        }
        Self::new(bytes.into(), ranges)
    }

    /// Returns the number of words, with the name of the command.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether the request has no word.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many bytes the request takes in memory.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.words.size()
    }

    /// Returns the word at this place, or an empty word if there is none.
    pub fn word(&self, at: usize) -> &[u8] {
        self.words.get(at).map_or(&[], |word| &self.bytes[word])
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
    pub(crate) fn without(self, first: usize, end: usize) -> Request {
        let mut words = Words::default();
        let kept = (0..self.len()).filter(|at| !(first..end).contains(at));
        kept.filter_map(|at| self.words.get(at))
            .for_each(|word| words.push(word));
        Request::new(self.bytes, words)
    }

    /// Returns the name of the command, as errors show it.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.word(0)).to_lowercase()
    }
}
