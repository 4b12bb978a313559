//! What the tests of admission share: an operation that reports its start and waits to be let go, and one that does not
//! wait.

use std::sync::{Arc, Mutex, PoisonError};

use fom_patterns::{
    admission::{Admission, AdmissionBuilder, AdmissionRequest, Queued},
    prelude::*,
};
use fom_runtime::error::RefusedReason;

/// The names of operations in the order of their starts.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<Mutex<Vec<String>>>);

impl Starts {
    fn put(&self, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(name.to_owned());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the names in one line.
    pub(crate) fn line(&self) -> String {
        self.take().join(" ")
    }
}

/// Reports its start, and ends.
pub(crate) struct Quick {
    pub(crate) name: String,
    pub(crate) starts: Starts,
}

#[fom(operation(Quick), transient)]
pub(crate) enum QuickPhase {
    #[phase(start, sync, to(Done))]
    Serve,
    #[phase(end)]
    Done,
}

impl QuickPhaseTransitions for Quick {
    fn serve(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.starts.put(&self.name);
        Ok(())
    }
}

/// Reports its start, and waits for a word.
pub(crate) struct Slow {
    pub(crate) name: String,
    pub(crate) starts: Starts,
}

#[derive(Debug)]
pub(crate) enum Word {
    Go,
    Fail,
    Panic,
}

#[fom(operation(Slow), event(Word), transient)]
pub(crate) enum SlowPhase {
    #[phase(start, sync, to(Waits))]
    Begin,
    #[phase(sync, to(Done), on(Go, Fail, Panic))]
    Waits,
    #[phase(end)]
    Done,
}

impl SlowPhaseTransitions for Slow {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.starts.put(&self.name);
        Ok(())
    }

    fn waits(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<SlowPhaseAfterWaits, BoxError> {
        match word {
            Word::Go => Ok(SlowPhaseAfterWaits::Done),
            Word::Fail => Err("told to".into()),
            Word::Panic => panic!("told to"),
        }
    }
}

/// An intake with one place, which is taken: submissions are queued until the holder is told to go.
pub(crate) struct Held {
    pub(crate) intake: Admission,
    pub(crate) starts: Starts,
    holder: Queued<Slow>,
}

impl Held {
    pub(crate) async fn new(builder: AdmissionBuilder) -> Self {
        let intake = builder.in_flight(1).build().expect("a good intake");
        let starts = Starts::default();
        let slow = Slow {
            name: "holder".into(),
            starts: starts.clone(),
        };
        let mut holder = intake.submit(slow).start().expect("there is room");
        holder.started().await.expect("it starts at once");
        Self {
            intake,
            starts,
            holder,
        }
    }

    pub(crate) fn quick(&self, name: impl Into<String>) -> Quick {
        Quick {
            name: name.into(),
            starts: self.starts.clone(),
        }
    }

    /// An operation to be queued; the letters of the name are its client.
    pub(crate) fn of_client(&self, name: &str) -> AdmissionRequest<'_, Quick> {
        let client = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        self.intake.submit(self.quick(name)).client(client)
    }

    pub(crate) fn detach_all(&self, names: &str) {
        for name in names.split_whitespace() {
            self.of_client(name).detach().expect("there is room");
        }
    }

    /// Lets the holder go, and returns the order of the starts when nothing is queued any more.
    pub(crate) async fn order(&mut self, runtime: &Runtime) -> String {
        self.go().await;
        runtime.idle().await;
        let line = self.starts.line();
        line.strip_prefix("holder ").unwrap_or(&line).to_owned()
    }

    /// Lets the holder go.
    pub(crate) async fn go(&mut self) {
        if let Some(fom) = self.holder.started().await {
            let _ = fom.send(Word::Go);
        }
    }
}

/// Returns the reason of the refusal.
pub(crate) fn reason<O: fom_runtime::Operation>(failure: &Failure<O>) -> Option<RefusedReason> {
    match failure.cause {
        Cause::Refused(reason) => Some(reason),
        _ => None,
    }
}

/// A generator with a seed (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}
