//! Operations that failed: their entries in the journal, and how a caller tries them again.
//!
//! The entry of a failed fom replaces the fom's own entry. First come the kind (1) and [`Head`] as MessagePack. The
//! record of the fom follows, as it was when the fom failed. If the operation could not be saved, the record ends after
//! the fingerprint of its schema.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_journal::Batch;
use serde::{Deserialize, Serialize};

use crate::{
    durable::{
        Durable, DurableState, Handover, Kind, Meta, RetryError, Stored, Types, encode_head,
        record::{Times, decode_fom},
        retained::Ended,
    },
    entry::{entry_of, fom_of},
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{self as seam, Content, FailedAs, Header, KeptFailed, Shared, Tried},
    FomId,
    observe::IncidentKind,
    snapshot::{KeptFailure, QuarantineKind, Quarantined, RestoreError},
};

/// How an operation failed, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    cause: String,
    phase: String,
    path: Vec<String>,
    /// In the time of the journal.
    attempts: Vec<Tried>,
    /// When the operation failed, in the time of the journal.
    at: u64,
    /// The events that belong to it, by the ids of their entries: another fom may have its key.
    events: Vec<u64>,
}

/// The most bytes of a cause in an entry that would be too long for the journal.
const SHORT: usize = 256;

/// Returns whether there is an operation in the body of a failed fom's record.
pub(super) fn is_saved(body: &[u8]) -> bool {
    body.len() > size_of::<u64>()
}

/// Reads the entry of a failed fom, up to the record.
fn decode(bytes: &[u8]) -> Option<(Head, &[u8])> {
    match bytes.split_first() {
        Some((kind, rest)) if *kind == Kind::Failed as u8 => seam::leading(rest).ok(),
        _ => None,
    }
}

/// Returns the record in the entry of a failed fom, if the operation could be saved.
pub(in crate::durable) fn saved_record(bytes: &[u8]) -> Result<Option<&[u8]>, RestoreError> {
    let (_, record) = decode(bytes).ok_or(RestoreError::Damaged)?;
    let (_, body) = decode_fom(record)?;
    Ok(is_saved(body).then_some(record))
}

/// Returns how the operation in the entry of a failed fom failed, its phase, and its record.
pub(in crate::durable) fn failure_and_record(bytes: &[u8]) -> Option<(KeptFailure, String, &[u8])> {
    let (head, record) = decode(bytes)?;
    Some((head.shown(), head.phase, record))
}

/// Returns the ids of the events that belong to a failed fom. No other entry has some.
pub(in crate::durable) fn events_of_failed(bytes: &[u8]) -> Vec<FomId> {
    let events = decode(bytes).map_or(Vec::new(), |(head, _)| head.events);
    events.into_iter().map(seam::fom_id).collect()
}

impl Head {
    /// Leaves out most of the texts, which may be of any length.
    fn shorten(&mut self) {
        let end = (0..=SHORT.min(self.cause.len()))
            .rev()
            .find(|end| self.cause.is_char_boundary(*end));
        self.cause.truncate(end.unwrap_or(0));
        self.attempts.clear();
        self.path.clear();
    }

    /// Returns what a listing shows at the time of the failure.
    fn shown(&self) -> KeptFailure {
        let mut shown = KeptFailure::default();
        shown.cause.clone_from(&self.cause);
        shown.path.clone_from(&self.path);
        let attempts = self.attempts.iter();
        shown.attempts = attempts.map(|attempt| attempt.shown(self.at)).collect();
        shown
    }

    /// Returns the answer for the operation id.
    fn answer(&self) -> Stored {
        Stored::Failed {
            cause: self.cause.clone(),
            phase: self.phase.clone(),
        }
    }

    fn reason(&self) -> RestoreError {
        RestoreError::Failed {
            cause: self.cause.clone(),
        }
    }
}

impl DurableState {
    /// Returns the entry that keeps this failed fom. It calls user code, which writes the operation.
    pub(crate) fn failed_entry(
        &self,
        fom: &Header,
        failed: &FailedAs<'_>,
        kept: &KeptFailed<'_>,
    ) -> Arc<[u8]> {
        let durable = Durable::of(seam::shared_of(fom));
        let committer = durable.committer();
        let mut head = Head {
            cause: (failed.describe)(),
            phase: failed.phase.to_owned(),
            path: self.path(fom),
            attempts: committer.map_or_else(Vec::new, |to| to.in_journal(kept.tried.to_vec())),
            at: durable.journal_now(),
            events: self.inner().events().map(fom_of).map(FomId::get).collect(),
        };
        let fits = |entry: &Vec<u8>| {
            committer.is_some_and(|committer| committer.check_length(entry.len()).is_ok())
        };
        let whole = kept
            .content
            .and_then(|content| self.failed_record(fom, &head, Some(content)));
        if let Some(entry) = whole.filter(fits) {
            return entry.into();
        }
        let mut entry = self.failed_record(fom, &head, None).unwrap_or_default();
        if !fits(&entry) {
            head.shorten();
            entry = self.failed_record(fom, &head, None).unwrap_or_default();
        }
        entry.into()
    }

    /// Returns the entry with this head. Without a content, the record ends after the fingerprint. Returns `None` if the
    /// content cannot be written.
    fn failed_record(
        &self,
        fom: &Header,
        head: &Head,
        content: Option<&dyn Content>,
    ) -> Option<Vec<u8>> {
        let mut out = vec![Kind::Failed as u8];
        // Names, texts and numbers cannot fail to encode.
        let _ = rmp_serde::encode::write(&mut out, head);
        encode_head(
            &self.inner(),
            Durable::of_fom(fom)
                .committer()
                .map(|to| to.past_to_journal(seam::submitted(fom))),
            fom.key(),
            self.once(),
            &mut out,
        );
        let Some(content) = content else {
            let fingerprint = seam::fingerprint(fom.graph());
            out.extend_from_slice(&fingerprint.to_le_bytes());
            return Some(out);
        };
        let write = || content.write(&mut out).is_ok();
        let written = catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
            // The drop of what it panicked with is the user's code, too.
            drop(panic_message(panic));
            false
        });
        written.then_some(out)
    }
}

impl Durable {
    /// Notes a fom that fails and is kept. It is listed when it has left all tables. From now on until then, events that
    /// do not find it wait for it.
    pub(crate) fn leaves_failed(&self, fom: &Header) {
        let reason = RestoreError::Failed {
            cause: String::new(),
        };
        let mut leaving = seam::unread(fom.id(), reason, &[]);
        leaving.machine = Some(fom.graph().name().to_owned());
        leaving.operation = Some(fom.graph().operation().to_owned());
        leaving.key = fom.key().cloned();
        self.quarantine.put_leaving(leaving);
    }

    /// Lists a fom that failed. The entry is in the journal.
    ///
    /// # Errors
    ///
    /// Returns the entry, to be listed, if it cannot be read.
    pub(crate) fn list_failed(
        &self,
        shared: &Shared,
        id: FomId,
        bytes: &[u8],
    ) -> Result<(), Box<Quarantined>> {
        let Some((head, record)) = decode(bytes) else {
            return Err(Box::new(self.quarantined(id, RestoreError::Damaged, bytes)));
        };
        if let Ok(entered) = self.enter(record)
            && let Some(once) = entered.meta.once
        {
            let place = (entered.of.type_id(), once);
            // No caller waits: the fom is not live.
            drop(self.memory.failed(place, id, Arc::new(head.answer())));
        }
        let quarantined = self.quarantined(id, head.reason(), bytes);
        self.put_failed(shared, quarantined, &head);
        self.drop_old_failed(shared);
        Ok(())
    }

    /// Lists a fom that failed. The events that came while it left all tables wait for it.
    fn put_failed(&self, shared: &Shared, quarantined: Quarantined, head: &Head) {
        let Some(committer) = self.committer() else {
            return;
        };
        let id = quarantined.id;
        loop {
            let mut orphans = committer.orphans.lock();
            let Some(waiting) = orphans.remove(&id) else {
                // Under the lock: from now on, events go into the quarantine.
                let events = head.events.iter().map(|id| seam::fom_id(*id));
                self.quarantine
                    .put_failed(quarantined, head.at, events.collect());
                return;
            };
            drop(orphans);
            // Without the lock: the user's code may write the event.
            for posted in waiting {
                let bytes = posted.bytes(quarantined.key.as_ref());
                self.wait_for_failed(shared, id, posted.entry, bytes);
            }
        }
    }

    /// Lists an entry again that could not be removed from the journal.
    pub(super) fn put_back(&self, shared: &Shared, quarantined: Quarantined) {
        match quarantined.kind() {
            QuarantineKind::Failed => {
                let listed = self.list_failed(shared, quarantined.id, &quarantined.bytes);
                if let Err(unread) = listed {
                    self.quarantine.put(*unread);
                }
            }
            _ => self.quarantine.put(quarantined),
        }
    }

    /// Drops the failed operations above the limits of number and age.
    pub(crate) fn drop_old_failed(&self, shared: &Shared) {
        let old = self.quarantine.take_old_failed(self.journal_now());
        for quarantined in old {
            let id = quarantined.id;
            if !self.remember_dropped(&quarantined) {
                // The delete comes first, because the operation id is free then.
                self.drop_messages([entry_of(id)]);
                self.memory.discarded(id);
            }
            seam::report(
                shared,
                IncidentKind::Lost,
                quarantined.named(),
                format!(
                    "a failed operation was dropped, because the quarantine is full: {quarantined}"
                ),
            );
            self.never_comes(shared, id);
        }
    }

    /// Replaces the entry of a failed operation that is dropped by its answer, as long as its outcome is remembered.
    /// Returns whether it is.
    fn remember_dropped(&self, quarantined: &Quarantined) -> bool {
        let (Some((head, record)), Some(committer)) =
            (decode(&quarantined.bytes), self.committer())
        else {
            return false;
        };
        let Ok(entered) = self.enter(record) else {
            return false;
        };
        let (of, graph) = (entered.of.type_id(), entered.of.graph());
        let series = entered.meta.series().cloned();
        let (once, key) = (entered.meta.once, entered.meta.key);
        let answered = self.answered(of, head.answer(), head.at);
        let expires = answered.expires;
        let Some(remembering) = self.memory.remembering(of, once.clone()) else {
            return false;
        };
        if expires <= self.journal_now() {
            return false;
        }
        let ended = Ended {
            of: Some(of),
            machine: graph.name().into(),
            operation: graph.operation().into(),
            once,
            key: key.clone(),
            at: head.at,
            answer: Arc::clone(&answered.answer),
        };
        let mut batch = Batch::new();
        batch.put_with(entry_of(quarantined.id), |out| {
            remembering.encode(graph, (key.as_ref(), series.as_ref()), answered, out);
        });
        batch.end_group();
        committer.take(Handover::owed(batch));
        self.memory.dropped(quarantined.id, ended, expires);
        true
    }

    /// Makes a fom again of an operation that failed. It begins in the phase in which it failed.
    pub(super) fn retry_failed(
        &self,
        shared: &Shared,
        quarantined: Quarantined,
    ) -> Result<(), RetryError> {
        let id = quarantined.id;
        let again = self
            .record_again(shared, &quarantined.bytes)
            .and_then(|record| {
                let names: Vec<_> = {
                    let entered = self.enter(&record)?;
                    entered.meta.names(entered.of.type_id()).collect()
                };
                for of in &names {
                    // A resting fom has its key, too.
                    self.passive.revive_key(shared, of);
                }
                Types::make_again(shared, entry_of(id), &record).map(|fom| (fom, record))
            });
        let (fom, record) = match again {
            Ok(again) => again,
            Err(reason) => {
                self.stays_quarantined(shared, quarantined);
                return Err(RetryError::Still(reason));
            }
        };
        drop(self.quarantine.take(id));
        self.is_back(shared, id, DurableState::of(&fom));
        if let Some(committer) = self.committer() {
            let mut batch = Batch::new();
            batch.put(entry_of(id), &record);
            batch.end_group();
            // Before the next transition of the fom. If it cannot be committed, it is tried again.
            committer.take(Handover::owed(batch));
        }
        seam::enqueue(shared, fom);
        Ok(())
    }

    /// Returns the record with which the operation begins the phase anew: with all its attempts, its whole time, and
    /// the step keys that it had.
    fn record_again(&self, shared: &Shared, bytes: &[u8]) -> Result<Vec<u8>, RestoreError> {
        let (head, record) = decode(bytes).ok_or(RestoreError::Damaged)?;
        let (meta, body) = decode_fom(record)?;
        if !is_saved(body) {
            return Err(head.reason());
        }
        // It goes to the tail of its series.
        let is_serial = meta.series().is_some();
        let meta = Meta {
            times: meta.times.map(|times| Times {
                since: self.journal_now(),
                ..times
            }),
            number: is_serial.then(|| seam::next_number(shared)),
            attempt: 0,
            tried: Vec::new(),
            due: None,
            kept: None,
            rare: meta.rare.map(|mut rare| {
                (rare.queues, rare.retry, rare.held_gate) = (is_serial, None, false);
                rare.begins = None;
                rare
            }),
            ..meta
        };
        let (key, once) = (meta.key.clone(), meta.once.clone());
        let submitted = meta.times.map(|times| times.submitted);
        let state = DurableState::new(meta, true, None);
        let mut out = Vec::new();
        encode_head(
            &state.inner(),
            submitted,
            key.as_ref(),
            once.as_ref(),
            &mut out,
        );
        out.extend_from_slice(body);
        Ok(out)
    }
}

/// Reads as much of the entry of a failed fom as possible: its record.
pub(super) fn read<'a>(
    quarantined: &mut Quarantined,
    bytes: &'a [u8],
) -> Option<(&'a [u8], usize)> {
    let (head, record) = decode(bytes)?;
    quarantined.phase = Some(head.phase.clone());
    quarantined.failure = Some(Box::new(head.shown()));
    Some((record, bytes.len() - record.len()))
}
