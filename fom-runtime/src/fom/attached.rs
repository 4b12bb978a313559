//! Details about a fom from another package: what it waits for, and how many requests it has.

use std::{
    fmt,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use crate::{fom::WaitingFor, id::FomId};

/// Tells listings what the header of a fom has no room for; see [`FomRef::attach`](crate::FomRef::attach).
pub trait Attached: Send + Sync {
    /// Returns what the fom waits for, while it waits for a [`WaitKind`].
    fn wait(&self) -> Wait;

    /// Returns the number of requests that the fom has not taken.
    fn queued(&self) -> usize;
}

/// A wait of a fom, as data. `Display` tells it in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The kind of thing that the fom waits for, such as `a request`.
    pub kind: &'static str,
    /// The name of that thing, if it has one.
    pub subject: Option<String>,
    /// The foms that the fom waits for, if they are known.
    pub holders: Vec<FomId>,
    /// The locality of that thing, if it is in one.
    pub locality: Option<usize>,
    /// How long the fom has waited, if that is known.
    pub waited: Option<Duration>,
}

impl Wait {
    /// Returns a wait of this kind, without details.
    pub fn of(kind: &'static str) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if let Some(subject) = &self.subject {
            write!(f, " `{subject}`")?;
        }
        if let Some(locality) = self.locality {
            write!(f, " in locality {locality}")?;
        }
        for (place, holder) in self.holders.iter().enumerate() {
            let before = if place == 0 { ", held by fom" } else { "," };
            write!(f, "{before} {holder}")?;
        }
        if let Some(waited) = self.waited {
            write!(f, ", for {waited:?}")?;
        }
        Ok(())
    }
}

/// A kind of wait that a package adds to those of the runtime. Each kind is one `static`.
///
/// ```
/// use fom_runtime::extension::WaitKind;
///
/// static ANSWER: WaitKind = WaitKind::new("an answer of the printer");
/// // In a future, before it returns `Pending`. Outside a fom, this does nothing.
/// ANSWER.record();
/// ```
#[derive(Debug)]
pub struct WaitKind {
    name: &'static str,
    number: OnceLock<u16>,
}

/// The kinds of this process, by number. The primitives of std do, because no model depends on their order.
static KINDS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

impl WaitKind {
    /// Returns a kind with this name, such as `an answer of the printer`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            number: OnceLock::new(),
        }
    }

    /// Records that the fom that runs on this thread waits for this. A fom forgets it before each run.
    pub fn record(&self) {
        let number = self.number.get_or_init(|| {
            let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.push(self.name);
            u16::try_from(kinds.len() - 1).unwrap_or(u16::MAX)
        });
        WaitingFor::Kind(*number).say();
    }

    /// Returns the name of the kind with this number.
    pub(crate) fn name_of(number: u16) -> &'static str {
        let kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(usize::from(number)).unwrap_or(&"another package")
    }
}
