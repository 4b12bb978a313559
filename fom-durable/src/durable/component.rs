//! The durability of one runtime.

use std::{
    any::{Any, TypeId},
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use fom_journal::Lease;

use crate::durable::{
    CommitBuffer, Committer, DurableState, GateRecovery, IdempotencyStore, Meta, Passive,
    QuarantineList, Remembering, Types,
    record::{Home, stored},
    retained::Bounds,
    types::Entered,
};
use fom_runtime::{
    __durability::{self as seam, FomRecord, Header, KeyOf, NewRecord, Recorder, Shared},
    FomId,
    extension::{Listing, PartId},
    snapshot::{Quarantined, RestoreError},
    time::Clock,
};

/// How much durability keeps: the most of each, and how long.
pub(super) struct Limits {
    /// The outcomes of operations with an id that are remembered, and the ids of durable sends.
    pub(super) remember: (usize, Duration),
    /// The outcomes of all operations of a type that are remembered.
    pub(super) remember_all: HashMap<TypeId, (usize, Duration)>,
    /// The failed operations in quarantine.
    pub(super) failed: (usize, Duration),
    /// The events without a receiver, and those for failed operations, in quarantine.
    pub(super) events: (usize, Duration),
    /// The foms that are back out of the journal at once.
    pub(super) resident: usize,
    /// The foms that go into quarantine when the journal is read.
    pub(super) held_back: HashSet<FomId>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            remember: (10_000, Duration::from_secs(3600)),
            remember_all: HashMap::new(),
            failed: (10_000, Duration::from_secs(30 * 24 * 3600)),
            events: (10_000, Duration::from_secs(30 * 24 * 3600)),
            resident: usize::MAX,
            held_back: HashSet::new(),
        }
    }
}

/// All that durability keeps beside one runtime.
pub(crate) struct Durable {
    shared: Weak<Shared>,
    clock: Clock,
    /// The buffer of each locality; set with the start of a journal.
    pub(super) buffers: Box<[OnceLock<PartId<CommitBuffer>>]>,
    /// Commits the transitions; set before the first fom.
    committer: OnceLock<Arc<Committer>>,
    /// The lease of the journal, if it has one; set before the recovery.
    pub(super) lease: OnceLock<Lease>,
    /// Set with the committer.
    listing: OnceLock<Listing>,
    /// The operation types that can come back.
    pub(super) types: Types,
    /// What is in the journal and does not run.
    pub(super) quarantine: QuarantineList,
    /// Foms that came back and rest.
    pub(super) passive: Arc<Passive>,
    /// Foms that held the gates of their phases, and have not asked for them again.
    pub(super) gate_recovery: GateRecovery,
    /// Operation ids, and the outcomes that are remembered by them.
    pub(super) memory: Arc<IdempotencyStore>,
    /// The foms that go into quarantine when the journal is read.
    pub(super) held_back: HashSet<FomId>,
}

impl Durable {
    pub(super) fn new(shared: &Shared, types: Types, limits: &Limits) -> Arc<Self> {
        let nanos = |(most, time)| (most, fom_protocol::nanos(time));
        Arc::new(Self {
            shared: seam::weak(shared),
            clock: seam::clock(shared).clone(),
            buffers: (0..seam::runtime_of(shared).localities())
                .map(|_| OnceLock::new())
                .collect(),
            committer: OnceLock::new(),
            lease: OnceLock::new(),
            listing: OnceLock::new(),
            types,
            quarantine: QuarantineList::new(nanos(limits.failed), nanos(limits.events)),
            passive: Arc::new(Passive::new(limits.resident)),
            gate_recovery: GateRecovery::default(),
            held_back: limits.held_back.clone(),
            memory: Arc::new(IdempotencyStore::new(Bounds {
                identified: nanos(limits.remember),
                types: limits
                    .remember_all
                    .iter()
                    .map(|(of, bound)| (*of, nanos(*bound)))
                    .collect(),
            })),
        })
    }

    /// Returns the durability of this runtime. A runtime without a journal gets it with the first operation id.
    pub(super) fn of(shared: &Shared) -> &Self {
        let make = || Self::new(shared, Types::default(), &Limits::default()) as _;
        Self::typed(seam::recorder_or(shared, make))
    }

    /// Returns the durability of the runtime of this fom, which durability keeps something beside.
    #[inline]
    pub(super) fn of_fom(fom: &Header) -> &Self {
        Self::typed(seam::recorder_of(fom).expect("durability made the state of the fom"))
    }

    #[inline]
    fn typed(recorder: &dyn Any) -> &Self {
        recorder
            .downcast_ref()
            .expect("no other type is a recorder")
    }

    /// Returns the committer of the transitions, if there is a journal.
    #[inline]
    pub(super) fn committer(&self) -> Option<&Arc<Committer>> {
        self.committer.get()
    }

    /// Sets the committer, before the first fom.
    pub(super) fn set_committer(&self, committer: Arc<Committer>) {
        if let Some(shared) = self.shared.upgrade() {
            let part: Weak<Committer> = Arc::downgrade(&committer);
            let listing = seam::runtime_of(&shared).extension().list(part);
            let _ = self.listing.set(listing);
        }
        // Called once; a second committer would be for another journal.
        let _ = self.committer.set(committer);
    }

    /// Returns the time in the journal, or the runtime's without a journal.
    pub(super) fn journal_now(&self) -> u64 {
        let now = seam::nanos(&self.clock);
        self.committer().map_or(now, |to| to.to_journal(now))
    }

    /// Reads a fom's entry, except for the user's part.
    pub(super) fn enter<'a>(&self, bytes: &'a [u8]) -> Result<Entered<'a>, RestoreError> {
        let schemas = self.committer().map(|committer| &committer.schemas);
        self.types
            .find(schemas.ok_or(RestoreError::NoSchema)?, bytes)
    }
}

impl Recorder for Durable {
    fn holds_lease(&self) -> bool {
        self.lease.get().is_none_or(Lease::holds)
    }

    fn journal_of(&self, fom: FomId) -> Option<u128> {
        Some(self.committer()?.journal.of(fom))
    }

    fn lets_foms_rest(&self) -> bool {
        self.passive.is_limited()
    }

    fn resting(&self) -> usize {
        self.passive.left()
    }

    fn revive(&self, id: FomId) {
        if let Some(shared) = self.shared.upgrade() {
            self.passive.revive(&shared, id);
        }
    }

    fn revive_key(&self, of: &KeyOf) {
        if let Some(shared) = self.shared.upgrade() {
            self.passive.revive_key(&shared, of);
        }
    }

    fn settle(&self) {
        if let Some(shared) = self.shared.upgrade() {
            self.passive.settle(&shared);
        }
    }

    fn poke(&self) {
        self.passive.poke();
    }

    fn one_ended(&self, id: FomId) {
        self.gate_recovery.has_asked(id);
        if self.passive.is_limited() {
            self.passive.one_ended();
        }
    }

    fn has_asked(&self, id: FomId) {
        self.gate_recovery.has_asked(id);
    }

    fn begin(&self, new: NewRecord) -> FomRecord {
        if !new.is_kept
            && let Some(id) = new.operation_id
        {
            return FomRecord::Identified(Remembering::new(Some(id)));
        }
        let remembering = self.memory.remembering(new.of, new.operation_id);
        let meta = Meta {
            home: Home {
                index: new.home as u16,
                settled: new.placed,
            },
            priority: new.priority as u8,
            rare: stored(new.order, new.series, false, new.carried),
            ..Meta::default()
        };
        FomRecord::Kept(DurableState::new(meta, false, remembering))
    }

    fn quarantined(&self) -> Vec<Quarantined> {
        self.quarantine.list(self.journal_now())
    }

    fn close(&self) {
        if let Some(committer) = self.committer() {
            committer.close();
        }
    }

    fn wait_closed(&self, by: Instant) {
        if let Some(committer) = self.committer() {
            committer.wait_closed(by);
        }
    }
}
