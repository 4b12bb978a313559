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
use tokio::sync::oneshot;

use crate::{
    durable::{
        Durable, DurableState, Handover, Kind, Meta, RetryError, Stored, Types, encode_head,
        record::{Times, decode_fom},
    },
    entry::entry_of,
};
use fom_runtime::{
    __durability::{self as seam, Content, FailedAs, Header, Shared, Tried},
    FomId,
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
}

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

impl Head {
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
    /// Returns the entry that keeps this failed fom. `content` writes the operation, and calls user code.
    pub(crate) fn failed_entry(
        &self,
        fom: &Header,
        failed: &FailedAs<'_>,
        content: Option<&dyn Content>,
    ) -> Arc<[u8]> {
        let durable = Durable::of(seam::shared_of(fom));
        let committer = durable.committer();
        let head = Head {
            cause: (failed.describe)(),
            phase: failed.phase.to_owned(),
            path: self.path(fom),
            attempts: committer.map_or_else(Vec::new, |to| to.in_journal(failed.tried.to_vec())),
            at: durable.journal_now(),
        };
        let mut out = vec![Kind::Failed as u8];
        // Names, texts and numbers cannot fail to encode.
        let _ = rmp_serde::encode::write(&mut out, &head);
        encode_head(
            &self.inner(),
            committer.map(|to| to.past_to_journal(seam::submitted(fom))),
            fom.key(),
            self.once().map(|once| &once.id),
            &mut out,
        );
        let end = out.len();
        let written = content.is_some_and(|content| {
            let write = || content.write(&mut out).is_ok();
            catch_unwind(AssertUnwindSafe(write)).unwrap_or(false)
        });
        let fits =
            |length| committer.is_some_and(|committer| committer.check_length(length).is_ok());
        if !written || !fits(out.len()) {
            out.truncate(end);
            let fingerprint = seam::fingerprint(fom.graph());
            out.extend_from_slice(&fingerprint.to_le_bytes());
        }
        out.into()
    }
}

impl Durable {
    /// Lists a fom that failed. The entry is in the journal.
    pub(crate) fn list_failed(&self, shared: &Shared, id: FomId, bytes: &[u8]) {
        let Some((head, record)) = decode(bytes) else {
            self.quarantine
                .put(self.quarantined(id, RestoreError::Damaged, bytes));
            return;
        };
        if let Ok(entered) = self.enter(record)
            && let Some(once) = entered.meta.once
        {
            let place = (entered.of.type_id(), once);
            // No caller waits: the fom is not live.
            drop(self.memory.failed(place, id, Arc::new(head.answer())));
        }
        let quarantined = self.quarantined(id, head.reason(), bytes);
        self.quarantine.put_failed(quarantined, head.at);
        self.drop_old_failed(shared);
    }

    /// Lists an entry again that could not be removed from the journal.
    pub(super) fn put_back(&self, shared: &Shared, quarantined: Quarantined) {
        match quarantined.kind() {
            QuarantineKind::Failed => self.list_failed(shared, quarantined.id, &quarantined.bytes),
            _ => self.quarantine.put(quarantined),
        }
    }

    /// Drops the failed operations above the limits of number and age.
    pub(crate) fn drop_old_failed(&self, shared: &Shared) {
        let old = self.quarantine.take_old_failed(self.journal_now());
        for quarantined in &old {
            self.memory.discarded(quarantined.id);
            seam::report(
                shared,
                format!(
                    "a failed operation was dropped, because the quarantine is full: {quarantined}"
                ),
            );
        }
        self.drop_messages(old.iter().map(|quarantined| entry_of(quarantined.id)));
        for quarantined in old {
            self.never_comes(shared, quarantined.id);
        }
    }

    /// Makes a fom again of an operation that failed. It begins in the phase in which it failed.
    pub(super) fn retry_failed(
        &self,
        shared: &Shared,
        quarantined: Quarantined,
    ) -> Result<(), RetryError> {
        let id = quarantined.id;
        let again = self.record_again(&quarantined.bytes).and_then(|record| {
            let (of, key) = {
                let entered = self.enter(&record)?;
                (entered.of.type_id(), entered.meta.key)
            };
            if let Some(key) = key {
                // A resting fom has its key, too.
                self.passive.revive_key(shared, &(of, key));
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
            // If this cannot be committed, the next transition of the fom replaces the entry.
            committer.take(Handover::alone(batch, oneshot::channel().0));
        }
        seam::enqueue(shared, fom);
        Ok(())
    }

    /// Returns the record with which the operation begins the phase anew: with all its attempts, its whole time, and
    /// the step keys that it had.
    fn record_again(&self, bytes: &[u8]) -> Result<Vec<u8>, RestoreError> {
        let (head, record) = decode(bytes).ok_or(RestoreError::Damaged)?;
        let (meta, body) = decode_fom(record)?;
        if !is_saved(body) {
            return Err(head.reason());
        }
        let meta = Meta {
            times: meta.times.map(|times| Times {
                since: self.journal_now(),
                ..times
            }),
            number: None,
            attempt: 0,
            tried: Vec::new(),
            due: None,
            kept: None,
            rare: meta.rare.filter(|rare| rare.shares).map(|mut rare| {
                (rare.queues, rare.retry, rare.held_gate) = (false, None, false);
                rare
            }),
            ..meta
        };
        let (key, once) = (meta.key.clone(), meta.once.clone());
        let submitted = meta.times.map(|times| times.submitted);
        let state = DurableState::new(meta, true);
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
