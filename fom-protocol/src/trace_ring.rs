//! The last entries of a locality, for readers that stop no writer.
//!
//! # Why it is right
//!
//! The writer numbers the entries. Entry `n` goes into slot `n % slots`, over the entry that is older by the number of
//! slots. `head` is the number of the next entry. The writer stores it after the words of the entry, with `Release`. A
//! reader that reads `head` with `Acquire` so sees all words of the entries before it, or words that are newer.
//!
//! A newer word must not go unseen. The writer makes a `Release` fence before the words of entry `n`, and `head` is `n`
//! by then. The reader makes an `Acquire` fence after it has read the words. If it has read a word of entry `n`, the
//! two fences synchronize. So the second read of `head` returns `n` or more. Then the reader drops all entries up to
//! `n - slots`, among them the entry that this word has replaced. All words are atomic, so no read is a data race.
//!
//! The writer never waits: it reads nothing that a reader writes. A reader reads each word once, so it never waits
//! either. On x86 the fences are no instructions.
//!
//! Only one thread writes at a time. The thread that hands the ring to another one makes its stores visible to it, as
//! the core of a locality is handed over.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// The number of words of an entry.
pub const ENTRY: usize = 4;

/// A ring of entries of 32 bytes. One thread at a time writes, and any thread reads.
pub struct TraceRing {
    /// The number of the next entry.
    head: CachePadded<AtomicU64>,
    slots: Box<[[AtomicU64; ENTRY]]>,
}

/// What a reader found in a [`TraceRing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The entries, the oldest first.
    pub entries: Vec<[u64; ENTRY]>,
    /// The number of the first of these entries: so many were written before it.
    pub first: u64,
    /// How many entries were overwritten while they were read. They are not among the entries.
    pub overwritten: u64,
}

impl fmt::Debug for TraceRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceRing")
    }
}

impl TraceRing {
    /// Creates an empty ring, at least of two slots. `slots` is rounded up to a power of two. The ring holds one entry less,
    /// because the writer may be at the oldest one at any time.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(2).next_power_of_two();
        let vacant = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            head: CachePadded::new(AtomicU64::new(0)),
            slots: (0..slots).map(vacant).collect(),
        }
    }

    /// Writes an entry over the oldest one. Only one thread at a time calls this.
    #[inline]
    pub fn push(&self, entry: [u64; ENTRY]) {
        let number = self.head.load(Ordering::Relaxed);
        fence(Ordering::Release);
        let slot = &self.slots[self.slot(number)];
        for (word, value) in slot.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.head.store(number.wrapping_add(1), Ordering::Release);
    }

    /// Copies the entries of this moment.
    pub fn read(&self) -> Traced {
        // The writer may be at entry `end`, over the one that is older by the number of slots.
        let oldest = |end: u64| (end + 1).saturating_sub(self.slots.len() as u64);
        let end = self.head.load(Ordering::Acquire);
        let begin = oldest(end);
        let copy = |number| {
            let slot = &self.slots[self.slot(number)];
            std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
        };
        let mut entries: Vec<_> = (begin..end).map(copy).collect();
        fence(Ordering::Acquire);
        let first = oldest(self.head.load(Ordering::Relaxed)).min(end);
        entries.drain(..(first - begin) as usize);
        Traced {
            entries,
            first,
            overwritten: first - begin,
        }
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }
}
