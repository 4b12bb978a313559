//! What the foms of a runtime share.

use std::{
    any::TypeId,
    ptr,
    sync::{Arc, OnceLock, Weak},
};

use fom_protocol::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::{
    clock::Clock,
    fom::{
        Carried, Carriers, Cause, Counters, Failures, Flight, Hooks, Host, LocalFoms, MailLimit,
        Recorder, RefusedReason, hand::context, room::Room,
    },
    id::{FomId, KeyOf},
    incident::{Incident, IncidentCounter, IncidentKind, Incidents},
    step_key::random,
};

/// What a runtime takes. A runtime only goes to a later state, never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum RuntimeState {
    /// All submissions.
    Open = 0,
    /// Only the submissions of foms in flight.
    Draining = 1,
    /// Nothing.
    Closed = 2,
}

/// What the foms of a runtime share: the clock, the listeners, durability and the list of incidents.
pub(crate) struct Env {
    host: HostLink,
    intake: Intake,
    pub(crate) room: Room,
    /// The foms of each locality.
    pub(crate) homes: Box<[Arc<LocalFoms>]>,
    pub(crate) clock: Clock,
    pub(crate) hooks: Hooks,
    /// The most events kept for one fom.
    pub(crate) mailbox: MailLimit,
    /// The number of phases kept for each fom.
    pub(crate) history: usize,
    /// The number of this run of the program; no other run has it.
    pub(crate) run: u128,
    /// Whether transitions are committed to a journal.
    pub(crate) journaled: bool,
    /// Keeps what must survive the process, if anything must. Set before the first fom of a journal.
    pub(crate) recorder: OnceLock<Arc<dyn Recorder>>,
    memory: Memory,
}

/// What the runtime remembers for its users.
struct Memory {
    incidents: Incidents,
    failures: Failures,
    counters: Counters,
    flight: Option<Arc<Flight>>,
}

/// The runtime, which begins with its [`Env`].
struct HostLink {
    host: Weak<dyn Host>,
    type_id: TypeId,
}

/// What a runtime takes, and what it gives to each fom.
struct Intake {
    state: AtomicU8,
    /// Whether another process has the journal.
    moved: AtomicBool,
    /// Whether nothing that a fom submits is remembered, limited or journaled, and foms carry nothing.
    plain: bool,
    carriers: Carriers,
}

/// The settings of an [`Env`].
pub(crate) struct EnvSettings {
    pub(crate) clock: Clock,
    pub(crate) journaled: bool,
    pub(crate) mailbox: usize,
    pub(crate) history: usize,
    /// The most failures that are kept of each operation type.
    pub(crate) failures: usize,
    /// The slots of the flight recorder in each locality, or zero for no recorder.
    pub(crate) recorder: usize,
    /// The most foms, or `usize::MAX` for any number.
    pub(crate) capacity: usize,
    pub(crate) carriers: Carriers,
}

impl Env {
    /// Creates the beginning of a host.
    pub(crate) fn new<H: Host>(
        host: &Weak<H>,
        settings: EnvSettings,
        homes: Box<[Arc<LocalFoms>]>,
    ) -> Self {
        let EnvSettings {
            clock,
            journaled,
            mailbox,
            history,
            failures,
            recorder,
            capacity,
            carriers,
        } = settings;
        let flight = || Arc::new(Flight::new(homes.len(), recorder, clock.clone()));
        let flight = (recorder > 0).then(flight);
        let room = Room::new(capacity);
        Self {
            host: HostLink {
                host: host.clone(),
                type_id: TypeId::of::<H>(),
            },
            intake: Intake {
                state: AtomicU8::new(RuntimeState::Open as u8),
                moved: AtomicBool::new(false),
                plain: room.is_unlimited() && history == 0 && !journaled && carriers.is_empty(),
                carriers,
            },
            room,
            homes,
            clock,
            hooks: Hooks::new(journaled, flight.is_some()),
            mailbox: MailLimit::new(mailbox, recorder > 0),
            history,
            run: random(),
            journaled,
            recorder: OnceLock::new(),
            memory: Memory {
                incidents: Incidents::default(),
                failures: Failures::new(failures),
                counters: Counters::default(),
                flight,
            },
        }
    }

    /// Returns how many counters number foms: one for each locality, and one for the outside.
    #[inline]
    pub(crate) fn ways(&self) -> u64 {
        self.homes.len() as u64 + 1
    }

    pub(super) fn host_ptr(&self) -> *const dyn Host {
        self.host.host.as_ptr()
    }

    #[inline]
    pub(super) fn host_type(&self) -> TypeId {
        self.host.type_id
    }

    pub(super) fn is_of(&self, host: &Arc<dyn Host>) -> bool {
        ptr::addr_eq(self.host.host.as_ptr(), Arc::as_ptr(host))
    }

    pub(super) fn upgrade(&self) -> Option<Arc<dyn Host>> {
        self.host.host.upgrade()
    }

    pub(crate) fn state(&self) -> RuntimeState {
        match self.intake.state.load(Ordering::SeqCst) {
            0 => RuntimeState::Open,
            1 => RuntimeState::Draining,
            _ => RuntimeState::Closed,
        }
    }

    /// Goes to a stricter state, never back.
    pub(crate) fn raise_state(&self, state: RuntimeState) {
        self.intake.state.fetch_max(state as u8, Ordering::SeqCst);
    }

    /// Returns whether the runtime takes nothing from outside.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.state() != RuntimeState::Open
    }

    /// Returns whether nothing more may begin.
    pub(crate) fn is_closed(&self) -> bool {
        self.state() == RuntimeState::Closed
    }

    /// Notes that another process has the journal. The runtime must be closed after this.
    pub(crate) fn set_moved(&self) {
        self.intake.moved.store(true, Ordering::SeqCst);
    }

    /// Returns whether another process has the journal.
    pub(crate) fn has_moved(&self) -> bool {
        self.intake.moved.load(Ordering::SeqCst)
    }

    /// Returns why a runtime that is shutting down ends a fom.
    #[cold]
    pub(crate) fn end_cause<E>(&self) -> Cause<E> {
        match self.has_moved() {
            true => Cause::Moved,
            false => Cause::Shutdown,
        }
    }

    /// Returns why a runtime that is shutting down refuses a submission.
    #[cold]
    pub(crate) fn late_reason(&self) -> RefusedReason {
        match self.has_moved() {
            true => RefusedReason::Moved,
            false => RefusedReason::ShuttingDown,
        }
    }

    /// Returns whether no phase function may be entered now: another process may have the journal. A closed runtime
    /// only ends its foms.
    pub(crate) fn is_frozen(&self) -> bool {
        self.hooks.extras().are_leased()
            && !self.is_closed()
            && self
                .recorder()
                .is_some_and(|recorder| !recorder.holds_lease())
    }

    /// Returns whether the runtime takes everything that a fom submits, and keeps nothing of it.
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        self.intake.state.load(Ordering::Relaxed) != RuntimeState::Closed as u8 && self.intake.plain
    }

    /// Returns what the foms carry.
    #[inline]
    pub(crate) fn carriers(&self) -> &Carriers {
        &self.intake.carriers
    }

    /// Returns what a fom carries that this thread submits now. `given`: what its submission says. Calls user code.
    #[inline]
    pub(crate) fn carried(&self, given: Option<&Arc<Carried>>) -> Option<Arc<Carried>> {
        let carriers = self.carriers();
        if carriers.is_empty() {
            return None;
        }
        let from = context::running_any(Carried::of).flatten();
        Some(carriers.made(given.map(|given| &**given), from.as_deref()))
    }

    /// Returns whether nothing of a fom is remembered, limited or journaled.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.intake.plain
    }

    /// Returns the component that keeps what must survive the process.
    #[inline]
    pub(crate) fn recorder(&self) -> Option<&dyn Recorder> {
        self.recorder.get().map(|recorder| &**recorder)
    }

    /// Returns the number of foms that came back and rest.
    pub(crate) fn resting(&self) -> usize {
        self.recorder().map_or(0, Recorder::resting)
    }

    /// Makes all foms that have this key and rest.
    pub(crate) fn revive_key(&self, of: impl FnOnce() -> KeyOf) {
        if let Some(recorder) = self.recorder()
            && recorder.resting() > 0
        {
            recorder.revive_key(&of());
        }
    }

    /// Notes that a fom that came back has asked for its gate, or will not ask.
    pub(crate) fn has_asked(&self, id: FomId) {
        if let Some(recorder) = self.recorder() {
            recorder.has_asked(id);
        }
    }

    /// Reports a problem that ends no operation. The text is a sentence, which names the subject.
    pub(crate) fn report(&self, kind: IncidentKind, subject: impl Into<String>, text: String) {
        let now = self.clock.nanos();
        let incidents = &self.memory.incidents;
        incidents.report(kind, subject.into(), text, now);
    }

    /// Returns the latest incidents, the oldest first.
    pub(crate) fn incidents(&self) -> Vec<Incident> {
        self.memory.incidents.list(self.clock.nanos())
    }

    /// Returns how many incidents of each kind there were.
    pub(crate) fn incident_counts(&self) -> Vec<IncidentCounter> {
        self.memory.incidents.counts()
    }

    /// Returns the failures of operations that no quarantine keeps.
    pub(crate) fn failures(&self) -> &Failures {
        &self.memory.failures
    }

    /// Returns the flight recorder, if there is one.
    pub(crate) fn flight(&self) -> Option<&Arc<Flight>> {
        self.memory.flight.as_ref()
    }

    /// Returns the counters of the foms, by type.
    pub(crate) fn counters(&self) -> &Counters {
        &self.memory.counters
    }
}
