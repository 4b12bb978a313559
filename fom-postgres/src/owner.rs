//! The process that has a journal.

use std::fmt;

/// The process that has a journal, as a standby sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// The [name](crate::PostgresJournalBuilder::node) of its node.
    pub node: String,
    /// Its term.
    pub term: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, term } = self;
        match node.is_empty() {
            true => write!(f, "another process has the journal, with term {term}"),
            false => write!(f, "{node} has the journal, with term {term}"),
        }
    }
}
