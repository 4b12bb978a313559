//! Submission of an operation that runs once.

use std::any::TypeId;

use crate::{
    durable::{Open, Passive, Place, Seen, Stored},
    fom::{AnyRef, Launch, NewFom, Priority, RefusedReason, Resident, Seed},
    id::FomId,
    operation::Operation,
    runtime::{FomRef, Handle, Refused, Submission, submit::Turned},
};

impl<O: Operation> Submission<'_, O> {
    /// Starts the operation, unless one with its id was started before.
    #[inline(never)]
    pub(super) fn start_once(self) -> Result<Handle<O>, Refused<O>> {
        let shared = self.shared;
        let once = self
            .special
            .as_ref()
            .and_then(|special| special.once.clone());
        let Some((id, open)) = once else {
            unreachable!("asked for before")
        };
        let place: Place = (TypeId::of::<O>(), id);
        if let Some(key) = &self.key
            && shared.passive.left() > 0
        {
            // A resting fom has its key, too. It is brought back now, because making a fom of it takes the
            // lock that is held from here on.
            let place = (TypeId::of::<O>(), key.clone());
            shared.passive.revive_key(shared, &place);
        }
        // No other submission looks until this one is in flight.
        let mut slots = shared.memory.lock(shared.journal_now());
        let mut seen = slots.look(&place);
        while let Seen::Rests(id) = seen {
            drop(slots);
            if !shared.passive.revive(shared, id) {
                // Another thread brings it back.
                fom_protocol::sync::yield_now();
            }
            if self.shared.is_late() {
                return Err(self.refused(RefusedReason::ShuttingDown));
            }
            if Passive::is_reviving() {
                return Err(self.refused(RefusedReason::SetAside));
            }
            slots = shared.memory.lock(shared.journal_now());
            seen = slots.look(&place);
        }
        let (fom, told) = match seen {
            Seen::Never => {
                let started = self.launch_anywhere(true);
                if let Ok((fom, _)) = &started {
                    // SAFETY: it was born with a reference for its handle, which is made below.
                    slots.began(place, AnyRef::of(unsafe { fom.as_ref() }));
                }
                drop(slots);
                return match started {
                    // SAFETY: a wanted fom is born with a reference for its handle.
                    Ok((fom, _)) => Ok(Handle::new(unsafe { FomRef::from_raw(fom) })),
                    Err(turned) => Err(turned.refuse()),
                };
            }
            Seen::Aside => {
                drop(slots);
                return Err(self.refused(RefusedReason::SetAside));
            }
            Seen::Rests(_) => unreachable!("looked at until it rests no more"),
            Seen::Live(fom, told) => (fom, told),
            Seen::Ended(id, answer) => {
                drop(slots);
                return self.remembered(id, &answer, open);
            }
        };
        drop(slots);
        match FomRef::of_any(&fom) {
            Some(_) if self.shared.is_late() => Err(self.refused(RefusedReason::ShuttingDown)),
            Some(fom) => Ok(Handle::joined(fom, told, open)),
            None => unreachable!("ids are kept by type"),
        }
    }

    fn refused(self, reason: RefusedReason) -> Refused<O> {
        Turned {
            shared: self.shared,
            sent: None,
            reason,
            operation: self.operation,
            live: None,
        }
        .refuse()
    }

    /// Makes a fom that has ended, with what is remembered of the fom that ran. The caller gets a handle to
    /// it.
    fn remembered(
        self,
        id: FomId,
        answer: &Stored,
        open: Open<O>,
    ) -> Result<Handle<O>, Refused<O>> {
        let shared = self.shared;
        let home = &shared.localities[0];
        // Counted before the mode is read, as in `launch_anywhere`.
        home.counts.one_sent();
        if self.shared.is_late() {
            home.take_back();
            return Err(self.refused(RefusedReason::ShuttingDown));
        }
        shared.take_room_again();
        let outcome = answer.outcome::<O>(open);
        let birth = NewFom {
            id,
            home: home.index,
            priority: Priority::Normal,
            now: shared.env.clock.nanos(),
            phase: outcome
                .as_ref()
                .map_or(0, |ended| O::index(O::kind(&ended.phase))),
            settled: true,
            resumed: false,
            cold: None,
            wanted: true,
            ready: false,
        };
        let launched = O::Form::launch(Seed {
            stocks: &mut home.outer.lock(),
            shared,
            birth,
            operation: self.operation,
            phase: O::start(),
        });
        // SAFETY: just made, so this is the one resident reference.
        let fom = unsafe { Resident::new(launched.0) };
        fom.settle(outcome);
        shared.tell_idle();
        // SAFETY: a wanted fom is born with a reference for its handle.
        Ok(Handle::new(unsafe { FomRef::from_raw(launched.0) }))
    }
}
