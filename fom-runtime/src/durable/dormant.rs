//! Foms that came back and rest: of each there are the bytes that the journal has, and no fom. One is made when there is room, when
//! its deadline passes, and when somebody looks for it.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    durable::{Meta, Place, Types, entry_of, recovery::Entered},
    fom::Resident,
    id::FomId,
    runtime::World,
    shrink::Shrink as _,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
        thread_local,
    },
};

thread_local! {
    /// This thread makes a fom of what rests. What reads it is the user's, and may look for another one.
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static REVIVES: Cell<bool> = Cell::new(false);
}

/// Longer than that nobody sleeps without looking: a clock may be a test's.
const LOOK: Duration = Duration::from_secs(3600);

/// Those that rest.
pub(crate) struct Dormant {
    /// No more foms that came back are made than that; `usize::MAX`: none rests.
    most: usize,
    /// Those that were made and have not ended.
    resident: AtomicUsize,
    /// Those that rest; no less than what is in `inner`.
    left: AtomicUsize,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Held while one is made: whoever looks for it meanwhile waits, and finds it.
    door: Mutex<()>,
}

#[derive(Default)]
struct Inner {
    records: BTreeMap<FomId, Box<[u8]>>,
    /// The oldest with this key.
    keys: HashMap<Place, FomId>,
    /// Those that share it, in their order.
    sharing: HashMap<Place, BTreeSet<FomId>>,
    /// By the time of the journal.
    dues: BTreeSet<(u64, FomId)>,
    /// Made before the recovery was over: nobody runs before all are there.
    early: Vec<Resident>,
    started: bool,
    /// There may be something to do.
    poked: bool,
}

/// What is to be done next.
enum Next {
    Revive(FomId),
    /// Nothing before this time of the journal, or ever.
    Wait(Option<u64>),
    Nothing,
}

impl Dormant {
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

    /// Whether this thread makes a fom of one at this moment, in code of the user's: then it can make no other.
    pub(crate) fn is_reviving() -> bool {
        REVIVES.with(Cell::get)
    }

    /// How many rest.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    /// One rests from now on.
    pub(super) fn add(&self, world: &World, id: FomId, entered: &Entered<'_>, bytes: &[u8]) {
        let of = entered.of.type_id();
        let meta = &entered.meta;
        if let Some(once) = &meta.once {
            world.memory.rests((of, once.clone()), id);
        }
        let mut inner = self.inner.lock();
        if let Some(key) = &meta.key {
            // Of two with one key the older one has it; the other finds that out when it is made.
            inner.keep(&(of, key.clone()), id);
        }
        if let Some(due) = due_of(meta) {
            inner.dues.insert((due, id));
        }
        inner.records.insert(id, bytes.into());
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes a fom of one that rests. False: none with this id rests; if somebody else was at it, it is made by now.
    pub(crate) fn revive(&self, world: &Arc<World>, id: FomId) -> bool {
        if self.left() == 0 || world.is_closed() || REVIVES.with(Cell::get) {
            return false;
        }
        self.revive_alone(world, id, self.door.lock())
    }

    /// As [`revive`](Self::revive), for who has the door.
    fn revive_alone(&self, world: &Arc<World>, id: FomId, door: MutexGuard<'_, ()>) -> bool {
        let Some(bytes) = self.inner.lock().records.remove(&id) else {
            return false;
        };
        REVIVES.with(|revives| revives.set(true));
        let revived = Types::bring_back(world, entry_of(id.get()), &bytes);
        REVIVES.with(|revives| revives.set(false));
        let ready = {
            let mut inner = self.inner.lock();
            inner.forget(world, id, &bytes);
            match revived {
                // Not as it was before: the recovery may have ended while this one was made.
                Ok(fom) if inner.started => Some(fom),
                Ok(fom) => {
                    inner.early.push(fom);
                    None
                }
                Err(aside) => {
                    world.set_aside.put(*aside);
                    None
                }
            }
        };
        if let Some(fom) = ready {
            crate::locality::enqueue(world, fom);
        }
        self.left.fetch_sub(1, Ordering::SeqCst);
        drop(door);
        // The last one may not have become a fom.
        world.tell_idle();
        true
    }

    /// Makes foms of those with this key that rest: whoever wants it comes after all that share it.
    pub(crate) fn revive_key(&self, world: &Arc<World>, place: &Place) {
        let oldest = || self.inner.lock().keys.get(place).copied();
        let mut next = oldest();
        while let Some(id) = next {
            let revived = self.revive(world, id);
            next = oldest();
            // Somebody else has made it, or nobody makes any.
            if !revived && next == Some(id) {
                return;
            }
        }
    }

    /// Makes foms of those that rest and have the key that this one waits for: else whoever gives up its turn before it would
    /// give the key to it.
    pub(crate) fn revive_before(&self, world: &Arc<World>, fom: &Resident) {
        if self.left() > 0
            && let Some(of) = fom.waits_again()
        {
            self.revive_key(world, &of);
        }
    }

    /// One was made that came back.
    pub(crate) fn one_made(&self) {
        self.resident.fetch_add(1, Ordering::SeqCst);
    }

    /// One has ended that came back.
    pub(crate) fn one_ended(&self) {
        self.resident.fetch_sub(1, Ordering::SeqCst);
        if self.left() > 0 {
            self.poke();
        }
    }

    /// There may be something to do: room, or another time.
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

    /// Makes foms of those whose time has come, and as many others as there is room for. What comes next: at what time.
    fn tend(&self, world: &Arc<World>) -> Next {
        loop {
            if world.takes_nothing() || REVIVES.with(Cell::get) {
                return Next::Wait(None);
            }
            // Whether there is room is looked at by one at a time: two would bring back one more than there is room for.
            let door = self.door.lock();
            match self.next(world.journal_now()) {
                Next::Revive(id) => {
                    self.revive_alone(world, id, door);
                }
                next => return next,
            }
        }
    }

    /// As [`tend`](Self::tend), for whoever wants nothing to be left to do.
    pub(crate) fn settle(&self, world: &Arc<World>) {
        if self.left() > 0 {
            self.tend(world);
        }
    }

    /// The recovery is over: those run that were made, and as many more as there is room for.
    ///
    /// # Errors
    ///
    /// When there is no thread that would look after the rest; those that were made go back to the caller.
    pub(crate) fn start(
        world: &Arc<World>,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> std::io::Result<()>,
    ) -> Result<(), (std::io::Error, Vec<Resident>)> {
        let this = &world.dormant;
        if this.left() > 0 {
            let weak = Arc::downgrade(world);
            let dormant = Arc::clone(this);
            if let Err(error) = spawn(Box::new(move || dormant.run(&weak))) {
                return Err((error, std::mem::take(&mut this.inner.lock().early)));
            }
        }
        let early = {
            let mut inner = this.inner.lock();
            inner.started = true;
            std::mem::take(&mut inner.early)
        };
        for fom in early {
            crate::locality::enqueue(world, fom);
        }
        this.settle(world);
        Ok(())
    }

    /// The whole life of the thread that looks after them.
    fn run(&self, world: &Weak<World>) {
        let mut inner = self.inner.lock();
        // The recovery goes first.
        while !inner.started && world.upgrade().is_some_and(|world| !world.is_closed()) {
            (inner, _) = self.changed.wait_for(inner, Duration::from_millis(100));
        }
        loop {
            inner.poked = false;
            drop(inner);
            let sleep = {
                let Some(world) = world.upgrade() else { return };
                match self.tend(&world) {
                    _ if world.is_closed() => return,
                    Next::Nothing => return,
                    Next::Wait(Some(due)) => {
                        let left = world.committer().map_or(0, |to| to.left_until(due));
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
    /// It rests no more: nobody is to look for it here.
    fn forget(&mut self, world: &World, id: FomId, bytes: &[u8]) {
        let Ok(entered) = world.types.enter(world, bytes) else {
            return;
        };
        if let Some(due) = due_of(&entered.meta) {
            self.dues.remove(&(due, id));
        }
        if let Some(key) = entered.meta.key {
            self.give_up(&(entered.of.type_id(), key), id);
        }
    }

    /// It has this key. Of two that do not share it the older one has it; the other finds that out when it is made.
    fn keep(&mut self, place: &Place, id: FomId) {
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

    /// The reverse of [`keep`](Self::keep).
    fn give_up(&mut self, place: &Place, id: FomId) {
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

/// When the first of its deadlines passes.
fn due_of(meta: &Meta) -> Option<u64> {
    let kept = meta.kept.as_ref().map(|kept| kept.0);
    meta.due.into_iter().chain(kept).min()
}
