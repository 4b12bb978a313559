//! Foms that came back and rest. The runtime has the journal's bytes of each, but no fom. It makes the fom when there
//! is room, when the fom's deadline passes, or when a caller looks for the fom.

use std::{
    any::TypeId,
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    durable::{Durable, Meta, Types, types::Entered},
    entry::entry_of,
};
use fom_protocol::{
    shrink::Shrink as _,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
        thread_local,
    },
};
use fom_runtime::{
    __durability::{self as seam, KeyOf, Resident, Shared},
    FomId,
};

thread_local! {
    /// Whether this thread is reviving a resting fom. The revival runs the user's code, which may look for another fom.
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static REVIVES: Cell<bool> = Cell::new(false);
}

/// Longest sleep before the thread checks the time again: the clock may be a test's.
const LOOK: Duration = Duration::from_secs(3600);

/// The resting foms.
pub(crate) struct Passive {
    /// Limit on foms that came back and have not ended: only below it are more made. With `usize::MAX`, no fom rests.
    most: usize,
    /// Number of foms that came back, were made and have not ended.
    resident: AtomicUsize,
    /// Number of resting foms; never less than in `inner`.
    left: AtomicUsize,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Held while a fom is made. A thread that looks for the fom meanwhile waits, and then finds it.
    door: Mutex<()>,
}

#[derive(Default)]
struct Inner {
    records: BTreeMap<FomId, Box<[u8]>>,
    /// The oldest fom with each key.
    keys: HashMap<KeyOf, FomId>,
    /// The other foms with each key, in their order.
    sharing: HashMap<KeyOf, BTreeSet<FomId>>,
    /// Deadlines in journal time.
    dues: BTreeSet<(u64, FomId)>,
    /// Foms that were made before the recovery was over. No fom runs before all foms are back.
    early: Vec<Resident>,
    started: bool,
    /// Whether there may be something to do.
    poked: bool,
}

/// What the thread does next.
enum Next {
    Revive(FomId),
    /// Nothing before this journal time, or ever if `None`.
    Wait(Option<u64>),
    Nothing,
}

impl Passive {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            resident: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            inner: Mutex::default(),
            changed: Condvar::default(),
            door: Mutex::default(),
        }
    }

    /// Whether foms may rest at all.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.most != usize::MAX
    }

    /// Whether this thread is reviving a fom now, and runs the user's code. It can revive no other fom then.
    pub(crate) fn is_reviving() -> bool {
        REVIVES.with(Cell::get)
    }

    /// Returns the number of resting foms.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    /// Adds a resting fom.
    pub(super) fn add(&self, shared: &Shared, id: FomId, entered: &Entered<'_>, bytes: &[u8]) {
        let of = entered.of.type_id();
        let meta = &entered.meta;
        if let Some(once) = &meta.once {
            Durable::of(shared).memory.rests((of, once.clone()), id);
        }
        let mut inner = self.inner.lock();
        for name in meta.names(of) {
            // If two foms have one key, the older one has it. The other fom finds that out when it is made.
            inner.keep(&name, id);
        }
        if let Some(due) = due_of(meta) {
            inner.dues.insert((due, id));
        }
        inner.records.insert(id, bytes.into());
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Revives a resting fom. Returns `false` if no fom with this id rests. If another thread was reviving this fom,
    /// the fom is made by now.
    pub(crate) fn revive(&self, shared: &Shared, id: FomId) -> bool {
        if self.left() == 0 || seam::is_closed(shared) || REVIVES.with(Cell::get) {
            return false;
        }
        self.revive_alone(shared, id, self.door.lock())
    }

    /// As [`revive`](Self::revive), for a caller that holds the door.
    fn revive_alone(&self, shared: &Shared, id: FomId, door: MutexGuard<'_, ()>) -> bool {
        let Some(bytes) = self.inner.lock().records.remove(&id) else {
            return false;
        };
        REVIVES.with(|revives| revives.set(true));
        let revived = Types::bring_back(shared, entry_of(id), &bytes);
        REVIVES.with(|revives| revives.set(false));
        let ready = {
            let mut inner = self.inner.lock();
            inner.forget(shared, id, &bytes);
            match revived {
                // Read only now: the recovery may have ended while this fom was made.
                Ok(fom) if inner.started => Some(fom),
                Ok(fom) => {
                    inner.early.push(fom);
                    None
                }
                Err(quarantined) => {
                    Durable::of(shared).quarantine.put(*quarantined);
                    None
                }
            }
        };
        if let Some(fom) = ready {
            seam::enqueue(shared, fom);
        }
        self.left.fetch_sub(1, Ordering::SeqCst);
        drop(door);
        // The last resting entry may not have become a fom.
        seam::tell_idle(shared);
        true
    }

    /// Returns the operation type of the resting fom with this id.
    pub(crate) fn type_of(&self, shared: &Shared, id: FomId) -> Option<TypeId> {
        if self.left() == 0 {
            return None;
        }
        let bytes = self.inner.lock().records.get(&id)?.clone();
        let entered = Durable::of(shared).enter(&bytes).ok()?;
        Some(entered.of.type_id())
    }

    /// Returns the oldest resting fom with this key.
    pub(crate) fn with_key(&self, place: &KeyOf) -> Option<FomId> {
        if self.left() == 0 {
            return None;
        }
        self.inner.lock().keys.get(place).copied()
    }

    /// Revives all resting foms with this key, so that a new request for the key comes after all foms that share it.
    pub(crate) fn revive_key(&self, shared: &Shared, place: &KeyOf) {
        let oldest = || self.inner.lock().keys.get(place).copied();
        let mut next = oldest();
        while let Some(id) = next {
            let revived = self.revive(shared, id);
            next = oldest();
            // The fom still rests: no foms are revived now.
            if !revived && next == Some(id) {
                return;
            }
        }
    }

    /// Revives the resting foms that have the key that this fom waits for. Otherwise this fom would get the key from a
    /// fom before it that gives up its turn.
    pub(crate) fn revive_before(&self, shared: &Shared, fom: &Resident) {
        if self.left() > 0
            && let Some(of) = seam::waits_again(fom)
        {
            self.revive_key(shared, &of);
        }
    }

    /// Counts a fom that came back and was made.
    pub(crate) fn one_made(&self) {
        self.resident.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a fom that came back and has ended.
    pub(crate) fn one_ended(&self) {
        self.resident.fetch_sub(1, Ordering::SeqCst);
        if self.left() > 0 {
            self.poke();
        }
    }

    /// Wakes the thread: there may be room, or another time.
    pub(crate) fn poke(&self) {
        if self.is_limited() {
            self.inner.lock().poked = true;
            self.changed.notify_all();
        }
    }

    fn next(&self, now: u64) -> Next {
        let inner = self.inner.lock();
        let due = inner.dues.first();
        match (due, inner.records.first_key_value()) {
            (Some((due, id)), _) if *due <= now => Next::Revive(*id),
            (_, Some((id, _))) if self.resident.load(Ordering::SeqCst) < self.most => {
                Next::Revive(*id)
            }
            (due, Some(_)) => Next::Wait(due.map(|due| due.0)),
            (_, None) => Next::Nothing,
        }
    }

    /// Revives the foms with a passed deadline, and more foms while there is room. Returns what to do next, and when.
    fn tend(&self, shared: &Shared) -> Next {
        loop {
            if seam::takes_nothing(shared) || REVIVES.with(Cell::get) {
                return Next::Wait(None);
            }
            // One thread at a time checks for room: two threads would bring back one fom more than there is room for.
            let door = self.door.lock();
            match self.next(Durable::of(shared).journal_now()) {
                Next::Revive(id) => {
                    self.revive_alone(shared, id, door);
                }
                next => return next,
            }
        }
    }

    /// Does the work of [`tend`](Self::tend) now, if any fom rests.
    pub(crate) fn settle(&self, shared: &Shared) {
        if self.left() > 0 {
            self.tend(shared);
        }
    }

    /// Ends the recovery: runs the foms that were made, and revives as many more as there is room for.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started for the resting foms. The error has the foms that were made.
    pub(crate) fn start(
        shared: &Shared,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> std::io::Result<()>,
    ) -> Result<(), (std::io::Error, Vec<Resident>)> {
        let this = &Durable::of(shared).passive;
        if this.left() > 0 {
            let weak = seam::weak(shared);
            let passive = Arc::clone(this);
            if let Err(error) = spawn(Box::new(move || passive.run(&weak))) {
                return Err((error, std::mem::take(&mut this.inner.lock().early)));
            }
        }
        let early = {
            let mut inner = this.inner.lock();
            inner.started = true;
            std::mem::take(&mut inner.early)
        };
        for fom in early {
            seam::enqueue(shared, fom);
        }
        this.settle(shared);
        Ok(())
    }

    /// Runs the thread that looks after the resting foms.
    fn run(&self, shared: &Weak<Shared>) {
        let mut inner = self.inner.lock();
        // The recovery goes first.
        while !inner.started
            && shared
                .upgrade()
                .is_some_and(|shared| !seam::is_closed(&shared))
        {
            (inner, _) = self.changed.wait_for(inner, Duration::from_millis(100));
        }
        loop {
            inner.poked = false;
            drop(inner);
            let sleep = {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                match self.tend(&shared) {
                    _ if seam::is_closed(&shared) => return,
                    Next::Nothing => return,
                    Next::Wait(Some(due)) => {
                        let left = Durable::of(&shared)
                            .committer()
                            .map_or(0, |to| to.left_until(due));
                        Duration::from_nanos(left).min(LOOK)
                    }
                    Next::Wait(None) | Next::Revive(_) => LOOK,
                }
            };
            inner = self.inner.lock();
            if !inner.poked {
                (inner, _) = self.changed.wait_for(inner, sleep);
            }
        }
    }
}

impl Inner {
    /// Removes the deadline and key of a fom that no longer rests.
    fn forget(&mut self, shared: &Shared, id: FomId, bytes: &[u8]) {
        let Ok(entered) = Durable::of(shared).enter(bytes) else {
            return;
        };
        if let Some(due) = due_of(&entered.meta) {
            self.dues.remove(&(due, id));
        }
        for name in entered.meta.names(entered.of.type_id()) {
            self.give_up(&name, id);
        }
    }

    /// Notes the key of a resting fom. If two foms do not share the key, the older one has it. The other fom finds that
    /// out when it is made.
    fn keep(&mut self, place: &KeyOf, id: FomId) {
        match self.keys.entry(place.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(id);
            }
            Entry::Occupied(mut entry) => {
                let oldest = id.min(*entry.get());
                let other = id.max(entry.insert(oldest));
                self.sharing.entry(place.clone()).or_default().insert(other);
            }
        }
    }

    /// Reverts [`keep`](Self::keep).
    fn give_up(&mut self, place: &KeyOf, id: FomId) {
        let others = self.sharing.get_mut(place);
        if self.keys.get(place) != Some(&id) {
            others.map(|others| others.remove(&id));
        } else if let Some(next) = others.and_then(BTreeSet::pop_first) {
            self.keys.insert(place.clone(), next);
        } else {
            self.sharing.remove(place);
            self.keys.remove(place);
            self.sharing.shrink();
            self.keys.shrink();
        }
    }
}

/// Returns the first of the fom's deadlines, or when it begins.
fn due_of(meta: &Meta) -> Option<u64> {
    let kept = meta.kept.as_ref().map(|kept| kept.0);
    let begins = meta.rare.as_ref().and_then(|rare| rare.begins);
    meta.due.into_iter().chain(kept).chain(begins).min()
}
