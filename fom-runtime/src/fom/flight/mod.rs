//! The flight recorder: what the foms of each locality did last.
//!
//! Each locality has a [`TraceRing`]. Only the thread that holds the core of the locality writes to it, without a lock.
//! What happens on other threads is not recorded: they have no ring. The run that follows from it is.
//!
//! The names in the entries are numbers. [`Names`] has what they stand for.

mod code;
mod event;
mod write;

use std::sync::Arc;

use fom_protocol::{TraceRing, sync::Mutex};

pub use self::event::{FlightEntry, FlightEvent};
pub(crate) use self::{
    code::Kind,
    write::{record_commit, record_panic, record_returned, record_send, record_transition},
};
use crate::{clock::Clock, graph::Graph};

/// The flight recorder of a runtime.
pub(crate) struct Flight {
    pub(crate) clock: Clock,
    rings: Box<[Arc<TraceRing>]>,
    names: Names,
}

/// What the numbers in the entries stand for.
#[derive(Default)]
pub(crate) struct Names {
    graphs: Mutex<Vec<&'static Graph>>,
    words: Mutex<Vec<&'static str>>,
}

/// What a read of the recorder found.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The entries of each locality, in the order in which they were written.
    pub(crate) localities: Vec<Vec<FlightEntry>>,
    /// How many entries were written and are no longer there.
    pub(crate) older: u64,
    /// How many entries were overwritten while they were read.
    pub(crate) overwritten: u64,
}

impl Names {
    fn learn(&self, graph: &'static Graph) {
        let mut graphs = self.graphs.lock();
        if !graphs.iter().any(|known| std::ptr::eq(*known, graph)) {
            graphs.push(graph);
        }
    }

    /// Returns the number of a word.
    #[cold]
    fn number(&self, word: &'static str) -> u32 {
        let mut words = self.words.lock();
        let place = words.iter().position(|known| *known == word);
        place.unwrap_or_else(|| {
            words.push(word);
            words.len() - 1
        }) as u32
    }

    fn graph(&self, address: u64) -> Option<&'static Graph> {
        let graphs = self.graphs.lock();
        let mut graphs = graphs.iter().copied();
        graphs.find(|graph| code::address(graph) == address)
    }

    fn word(&self, number: usize) -> Option<&'static str> {
        self.words.lock().get(number).copied()
    }
}

impl Flight {
    /// Makes the rings of a runtime.
    pub(crate) fn new(localities: usize, slots: usize, clock: Clock) -> Self {
        Self {
            clock,
            rings: (0..localities)
                .map(|_| Arc::new(TraceRing::new(slots)))
                .collect(),
            names: Names::default(),
        }
    }

    /// Returns the ring of a locality, for the core of that locality.
    pub(crate) fn ring(&self, locality: usize) -> Arc<TraceRing> {
        Arc::clone(&self.rings[locality])
    }

    /// Learns the names of a machine. Called before the first fom of the machine.
    pub(crate) fn learn(&self, graph: &'static Graph) {
        self.names.learn(graph);
    }

    /// Reads all rings. This stops no handler.
    pub(crate) fn read(&self) -> Read {
        let mut read = Read::default();
        for (locality, ring) in self.rings.iter().enumerate() {
            let traced = ring.read();
            read.older += traced.first - traced.overwritten;
            read.overwritten += traced.overwritten;
            let entries = traced.entries.into_iter();
            let decoded = entries.filter_map(|words| code::decode(words, locality, &self.names));
            read.localities.push(decoded.collect());
        }
        read
    }
}
