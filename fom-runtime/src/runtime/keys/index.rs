//! Foms by key: which foms have a key of an operation type, and which wait for it.

use std::{collections::hash_map, sync::Weak};

use tokio::sync::oneshot;

use crate::{
    fom::{AnyRef, Header, KeyWait, Order, Rejected, Resident, WaitingFor},
    id::{FomId, Key, KeyHash, KeyOf},
    operation::Operation,
    runtime::{
        Shared,
        keys::{
            Absent, Denied, Entry, Hashed, Line, Place,
            table::{Part, Table},
        },
        observe::KeyInfo,
    },
};
use fom_protocol::{
    FomState,
    shrink::Shrink as _,
    sync::{
        MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    },
};

pub(crate) struct KeyIndex {
    names: Table,
    /// The most foms that may wait for one key.
    most: usize,
    /// The last number of an outbox entry: no less than each number in the journal.
    numbers: AtomicU64,
}

impl KeyIndex {
    pub(in crate::runtime) fn new(most: usize) -> Self {
        Self {
            names: Table::new(),
            most,
            numbers: AtomicU64::new(0),
        }
    }

    /// Returns the name with its hash, and locks its part.
    fn lock(&self, of: KeyOf) -> (MutexGuard<'_, Part>, Hashed) {
        let name = self.hashed(of, None);
        (self.names.lock(&name), name)
    }

    /// Returns the hash of a key. Also used for placement.
    pub(crate) fn hash(&self, key: &Key) -> KeyHash {
        self.names.hash(key)
    }

    /// Returns the name with its hash. `hash`: the hash of its key, if it is known.
    pub(super) fn hashed(&self, of: KeyOf, hash: Option<KeyHash>) -> Hashed {
        self.names.hashed(of, hash)
    }

    /// Returns the fom that has this key.
    pub(crate) fn find_any(&self, of: &KeyOf) -> Option<AnyRef> {
        let (keys, name) = self.lock(of.clone());
        // Skips a stalled fom: it has ended, and keeps its key until it comes back.
        let mut live = keys
            .get(&name)?
            .holders()
            .filter(|fom| fom.token.state() != FomState::Finished);
        live.next().cloned()
    }

    /// Returns the id of the fom that has this key, also if it has just ended. A fom that ends gives its key up after its
    /// outcome is recorded.
    pub(crate) fn holder(&self, of: &KeyOf) -> Option<FomId> {
        let (keys, name) = self.lock(of.clone());
        let holder = keys.get(&name)?.holders().next();
        holder.map(|fom| fom.id())
    }

    /// Returns the foms that have the key that this fom waits for, and the number of foms that get it before this fom.
    pub(crate) fn before(&self, fom: &Header) -> (Vec<AnyRef>, usize) {
        let Some(of) = fom.turn().own() else {
            return Default::default();
        };
        let (keys, name) = self.lock(of);
        let (Some(entry), KeyWait::Waits(number)) = (keys.get(&name), fom.turn().key_wait()) else {
            return Default::default();
        };
        let ahead = entry.line().map_or(0, |line| line.ahead(number));
        (entry.holders().cloned().collect(), ahead)
    }

    /// Gives the key to the fom that `make` makes, or makes the fom wait for it. No other fom gets in between. Returns a
    /// fom that has the key, which the caller enqueues. The thread that grants the key enqueues a fom that waits.
    pub(super) fn enter(
        &self,
        name: Hashed,
        order: Order,
        number: Option<u64>,
        make: &mut dyn FnMut() -> Resident,
    ) -> Result<Option<Resident>, Denied<AnyRef>> {
        let (ready, fom) = self.let_in(name, order, number, || {
            let new = make();
            (AnyRef::of(&new), Some(new))
        })?;
        if ready.is_none() {
            wake_if_due(&fom);
        }
        Ok(ready)
    }

    /// Asks for the key of a fom with a delay that is over.
    pub(crate) fn enter_late(&self, fom: &Header, order: Order) {
        if let Some(of) = fom.turn().own() {
            let name = self.hashed(of, fom.turn().hash());
            self.let_made_in(name, order, None, fom, None);
        }
    }

    /// As [`enter`](Self::enter), for a fom that has its name already. If the fom does not get in, it ends.
    pub(super) fn enter_named(
        &self,
        name: Hashed,
        order: Order,
        number: Option<u64>,
        fom: Resident,
    ) -> Option<Resident> {
        let any = AnyRef::of(&fom);
        let ready = self.let_made_in(name, order, number, &any, Some(fom));
        if ready.is_none() {
            wake_if_due(&any);
        }
        ready
    }

    /// Lets a fom in that is made. `new`: the fom, if it is in no queue yet.
    fn let_made_in(
        &self,
        name: Hashed,
        order: Order,
        number: Option<u64>,
        fom: &Header,
        new: Option<Resident>,
    ) -> Option<Resident> {
        // Set first: `let_in` sets another standing if the fom does not get the key.
        fom.turn().set(KeyWait::Has);
        let mut new = new;
        let entered = self.let_in(name, order, number, || (AnyRef::of(fom), new.take()));
        match entered {
            Ok((ready, _)) => ready,
            Err(_) => {
                fom.turn().set(KeyWait::Rejected(Rejected::Full));
                new
            }
        }
    }

    /// Gives a new fom its name. Its turn is that of its series.
    pub(super) fn take_name(
        &self,
        of: KeyOf,
        make: &mut dyn FnMut() -> Resident,
    ) -> Result<Resident, Denied<AnyRef>> {
        let (mut keys, name) = self.lock(of);
        let entry = keys.entry(name).or_default();
        entry.look(Order::Refuse, self.most)?;
        let fom = make();
        entry.put(AnyRef::of(&fom), false);
        Ok(fom)
    }

    /// Lets a fom in that `make` finds or makes. Returns a new fom that has the key.
    fn let_in(
        &self,
        name: Hashed,
        order: Order,
        number: Option<u64>,
        make: impl FnOnce() -> (AnyRef, Option<Resident>),
    ) -> Result<(Option<Resident>, AnyRef), Denied<AnyRef>> {
        let mut keys = self.names.lock(&name);
        let entry = keys.entry(name).or_default();
        // If the entry refuses, a fom or a suspension is in it: the entry is not a new one.
        let shed = entry.look(order, self.most)?;
        let (fom, mut new) = make();
        // The number of a fom that is kept is in the journal: it is above those of earlier runs.
        let is_kept = fom.kept().is_some();
        let draw = |last| match is_kept {
            true => self.number_after(last),
            false => last + 1,
        };
        let place = entry.enter(order, number, fom.clone(), draw);
        match place {
            Place::Has => {}
            Place::Overtakes => fom.turn().set(KeyWait::Overtakes),
            Place::Waits(number) => {
                fom.turn().set(KeyWait::Waits(number));
                if let Some(new) = new.take() {
                    // Under the lock: the thread that grants the key sees that the fom waits.
                    fom.waiting.set(WaitingFor::Key);
                    new.park();
                }
            }
        }
        if let Some(shed) = &shed {
            shed.turn().set(KeyWait::Rejected(Rejected::Shed));
        }
        drop(keys);
        if let Some(shed) = shed {
            shed.wake();
        }
        Ok((new, fom))
    }

    /// Adds a fom to the turn of this key. The key goes on when all foms of the turn have ended.
    pub(super) fn chain(&self, of: &KeyOf, fom: AnyRef) {
        let (mut keys, name) = self.lock(of.clone());
        keys.entry(name).or_default().put(fom, false);
    }

    /// Gives the key to a fom that comes back and that `make` makes. Returns `false` if another fom has the key.
    pub(super) fn claim_again(
        &self,
        of: &KeyOf,
        id: FomId,
        shares: bool,
        make: impl FnOnce() -> AnyRef,
    ) -> bool {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        let (claimed, before) = match entry.holder_mut(|fom| fom.id() == id) {
            Some(own) => (true, Some(std::mem::replace(own, make()))),
            None => (entry.put_again(make, shares), None),
        };
        drop(keys);
        drop(before);
        claimed
    }

    /// Gives the key to a fom that comes back, has not begun and does not wait. Returns `false` if another fom has the
    /// key or precedes this one.
    pub(super) fn claim_first(
        &self,
        of: &KeyOf,
        number: u64,
        shares: bool,
        make: impl FnOnce() -> AnyRef,
    ) -> bool {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        let mut made = None;
        let make = || made.insert(make()).clone();
        let place = entry.put_first(make, shares, number);
        if let (Some(Place::Overtakes), Some(fom)) = (place, &made) {
            fom.turn().set(KeyWait::Overtakes);
        }
        drop(keys);
        place.is_some()
    }

    /// Makes a fom that comes back wait again, with the number that it had. [`settle`](Self::settle) grants it the key
    /// once the foms before it are back.
    pub(super) fn wait_again(
        &self,
        of: &KeyOf,
        number: u64,
        shares: bool,
        make: impl FnOnce() -> AnyRef,
    ) {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        let fom = make();
        fom.turn().set(KeyWait::Waits(number));
        entry.line_made().wait(number, shares, fom);
    }

    /// Gives a fom that comes back its turn in its series. If it has a number, or another fom has the turn by now, the
    /// fom waits. [`settle`](Self::settle) grants it the turn.
    pub(super) fn go_on(&self, of: &KeyOf, number: Option<u64>, shares: bool, fom: &Resident) {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        let own = entry.holder_mut(|held| number.is_none() && held.id() == fom.id());
        let before = own.map(|own| std::mem::replace(own, AnyRef::of(fom)));
        let goes_on =
            before.is_some() || number.is_none() && entry.put_again(|| AnyRef::of(fom), shares);
        if !goes_on {
            let line = entry.line_made();
            let number = number.unwrap_or_else(|| line.draw(|last| self.number_after(last)));
            fom.turn().set(KeyWait::Waits(number));
            line.wait(number, shares, AnyRef::of(fom));
        }
        drop(keys);
        drop(before);
    }

    /// Notes that a fom is quarantined which had the key, or has this number and has not begun. If it `keeps` its place,
    /// foms behind it wait until it is back, or is [discarded](Self::give_place_up).
    pub(crate) fn miss(&self, of: KeyOf, id: FomId, number: Option<u64>, keeps: bool) {
        let (mut keys, name) = self.lock(of);
        let entry = keys.entry(name).or_default();
        let absent = Absent { number, keeps };
        entry.line_made().miss(id.get(), absent);
    }

    /// Frees the place of a fom that is back, or never comes.
    pub(crate) fn give_place_up(&self, shared: &Shared, of: KeyOf, id: FomId) {
        self.change(shared, of, |entry| {
            entry.change_line(|line| line.give_place_up(id.get()));
            None
        });
    }

    /// Draws a number for an outbox entry. It is above all numbers drawn before, in this run and in earlier ones.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As [`number`](Self::number), and above the last number of a key.
    fn number_after(&self, last: u64) -> u64 {
        self.number_above(last);
        self.number()
    }

    /// Notes a number in the journal. Numbers that are drawn later are above it.
    pub(crate) fn number_above(&self, number: u64) {
        self.numbers.fetch_max(number, Ordering::Relaxed);
    }

    /// Announces a number for a fom with this key that an outbox sends.
    pub(crate) fn announce(&self, shared: &Shared, of: KeyOf) -> Announced {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        let number = entry.line_made().announce(|last| self.number_after(last));
        drop(keys);
        Announced {
            shared: shared.weak(),
            of,
            number,
        }
    }

    /// Grants a fom that came back its key, if that is free. By now the foms that had the key before it have it again.
    pub(crate) fn settle(&self, fom: &Header) {
        if let Some(of) = fom.turn().own() {
            self.change(Shared::of(fom), of, |_| None);
        }
    }

    /// Gives the key of a fom that has ended to the next.
    pub(crate) fn leave(&self, fom: &Header) {
        let id = fom.id();
        if let Some(of) = fom.turn().chained() {
            self.remove(Shared::of(fom), of.clone(), id);
        }
        // First the name: the next fom of the series may submit one with this name.
        if let Some(of) = fom.turn().name_only() {
            self.remove(Shared::of(fom), of, id);
        }
        if let Some(of) = fom.turn().own() {
            let name = self.hashed(of, fom.turn().hash());
            self.change_named(Shared::of(fom), name, |entry| match fom.turn().key_wait() {
                KeyWait::Has | KeyWait::Overtakes => entry.give_back(|held| held.id() == id),
                KeyWait::Waits(number) => entry.change_line(|line| line.give_up(number)),
                KeyWait::Outside | KeyWait::Rejected(_) => None,
            });
        }
    }

    /// Makes a fom give up the key, or its place for the key.
    pub(crate) fn remove(&self, shared: &Shared, of: KeyOf, id: FomId) {
        self.change(shared, of, |entry| {
            let is = |fom: &AnyRef| fom.id() == id;
            let held = entry.give_back(is);
            held.or_else(|| entry.change_line(|line| line.give_up_waiting(is)))
        });
    }

    /// Bars a fom that still waits: it never begins.
    pub(super) fn bar(&self, fom: &Header, why: Rejected) {
        let Some(of) = fom.turn().own() else { return };
        self.change(Shared::of(fom), of, |entry| {
            let KeyWait::Waits(number) = fom.turn().key_wait() else {
                return None;
            };
            fom.turn().set(KeyWait::Rejected(why));
            entry.change_line(|line| line.give_up(number))
        });
        fom.wake();
    }

    pub(super) fn suspend<O: Operation>(&self, of: KeyOf) {
        let (mut keys, name) = self.lock(of);
        let entry = keys.entry(name).or_default();
        entry.suspend(O::GRAPH.operation());
    }

    pub(super) fn resume(&self, shared: &Shared, of: KeyOf) {
        self.change(shared, of, |entry| {
            entry.resume();
            None
        });
    }

    /// Keeps a place in the queue of a key. Without room, returns a receiver that hears when a place is kept.
    pub(super) fn reserve(&self, of: &KeyOf, shares: bool) -> Option<oneshot::Receiver<()>> {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        entry.reserve(shares, self.most)
    }

    /// Keeps a place in the queue of a key, if there is room.
    pub(super) fn reserve_now(&self, of: &KeyOf, shares: bool) -> bool {
        let (mut keys, name) = self.lock(of.clone());
        let entry = keys.entry(name).or_default();
        // If there is no room, a fom or a place is in the entry: the entry is not a new one.
        entry.reserve_now(shares, self.most)
    }

    /// Gives up a kept place.
    pub(super) fn release(&self, shared: &Shared, of: &KeyOf) {
        self.change(shared, of.clone(), |entry| {
            entry.change_line(Line::release);
            None
        });
    }

    /// Tells the submissions that wait for a place that the runtime takes nothing more.
    pub(in crate::runtime) fn dismiss(&self, shared: &Shared) {
        for mut keys in self.names.parts() {
            let outside: Vec<_> = keys
                .values_mut()
                .flat_map(|entry| entry.change_line(Line::dismiss))
                .collect();
            keys.retain(|_, entry| !entry.is_empty());
            drop(keys);
            for one in outside {
                shared.env.told("the end of a wait for a place", || {
                    drop(one);
                    true
                });
            }
        }
    }

    /// Lists the keys that foms wait for, or that are suspended.
    pub(crate) fn waited_for(&self) -> Vec<KeyInfo> {
        let mut found = Vec::new();
        for keys in self.names.parts() {
            for (Hashed { of, .. }, entry) in keys.iter() {
                let waiting: Vec<_> = entry.waiting().map(|fom| fom.id()).collect();
                if !waiting.is_empty() || entry.suspended() > 0 {
                    found.push(KeyInfo {
                        operation: name_of(entry),
                        key: of.key.clone(),
                        is_serial: of.is_serial,
                        holders: {
                            let there = entry.holders().map(|fom| fom.id());
                            let absent = entry.line().into_iter().flat_map(Line::absent_holders);
                            there.chain(absent.map(FomId)).collect()
                        },
                        waiting,
                        suspended: entry.suspended(),
                    });
                }
            }
        }
        found.sort_by(|one, other| one.place().cmp(&other.place()));
        found
    }

    /// Changes what is known of a key, and gives the key to the foms that may have it then.
    fn change(
        &self,
        shared: &Shared,
        of: KeyOf,
        change: impl FnOnce(&mut Entry<AnyRef>) -> Option<AnyRef>,
    ) {
        let name = self.hashed(of, None);
        self.change_named(shared, name, change);
    }

    /// As [`change`](Self::change), with the hash of the name.
    #[inline]
    fn change_named(
        &self,
        shared: &Shared,
        name: Hashed,
        change: impl FnOnce(&mut Entry<AnyRef>) -> Option<AnyRef>,
    ) {
        let mut keys = self.names.lock(&name);
        let hash_map::Entry::Occupied(mut entry) = keys.entry(name) else {
            return;
        };
        let gone = change(entry.get_mut());
        let granted = match entry.get().is_empty() {
            true => None,
            false => {
                let name = entry.key().clone();
                Some((Granted::of(entry.get_mut(), self.most), name))
            }
        };
        let removed = entry.get().is_empty().then(|| entry.remove_entry());
        if removed.is_some() {
            keys.shrink();
        }
        drop(keys);
        // The last reference to a fom drops what is the user's.
        drop((gone, removed));
        if let Some((granted, name)) = granted {
            self.tell(shared, granted, &name);
        }
    }

    /// Wakes the foms that were given the key, and tells submissions of their places.
    fn tell(&self, shared: &Shared, granted: Granted, name: &Hashed) {
        let mut place = granted.wake();
        while let Some(teller) = place {
            let told = shared
                .env
                .told("a place in the queue of a key", || teller.send(()).is_ok());
            place = self.next_place(name, told);
        }
    }

    /// Returns the next submission to get a place. `told`: the submission before it learned of its place, and was not
    /// gone.
    fn next_place(&self, name: &Hashed, told: bool) -> Option<oneshot::Sender<()>> {
        let mut keys = self.names.lock(name);
        let entry = keys.get_mut(name)?;
        if !told {
            entry.change_line(Line::release);
        }
        let place = entry.hand_out(self.most);
        if entry.is_empty() {
            keys.remove(name);
        }
        place
    }
}

/// Wakes a fom that waits from now on, if it has something to do.
fn wake_if_due(fom: &AnyRef) {
    // A shutdown that looked for waiting foms before this one waited had closed the runtime before.
    fence(Ordering::SeqCst);
    if fom.token.is_cancelled() || fom.env().is_closed() || fom.kept().is_some() {
        // A fom that is kept writes down that it waits.
        fom.wake();
    }
}

/// The number of a fom that an outbox sends, until the fom is in or never will be. It tells foms with the same key that
/// this one may arrive.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct Announced {
    shared: Weak<Shared>,
    of: KeyOf,
    /// The number.
    pub number: u64,
}

impl Drop for Announced {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let withdraw = |entry: &mut Entry<AnyRef>| {
                entry.change_line(|line| line.withdraw(self.number));
                None
            };
            shared.key_index.change(&shared, self.of.clone(), withdraw);
        }
    }
}

/// Returns the operation type of an entry that foms wait for, or that is suspended.
fn name_of(entry: &Entry<AnyRef>) -> &'static str {
    let first = entry.waiting().next();
    first.map_or(entry.suspended_as(), |fom| fom.type_name())
}

/// What a key is given to.
#[derive(Default)]
struct Granted {
    /// The foms: one, unless several share the key.
    first: Option<AnyRef>,
    others: Vec<AnyRef>,
    /// A submission that was given a place in the queue.
    place: Option<oneshot::Sender<()>>,
}

impl Granted {
    /// Gives the key to the foms that may have it now, if at most `most` may wait. The caller holds the lock.
    fn of(entry: &mut Entry<AnyRef>, most: usize) -> Self {
        let mut granted = Self::default();
        while let Some((next, overtakes)) = entry.next() {
            next.turn().set(match overtakes {
                true => KeyWait::Overtakes,
                false => KeyWait::Has,
            });
            granted.put(next);
        }
        granted.place = entry.hand_out(most);
        granted
    }

    fn put(&mut self, fom: AnyRef) {
        if self.first.is_none() {
            self.first = Some(fom);
        } else {
            self.others.push(fom);
        }
    }

    /// Wakes each fom. It goes to the tail of its home's run queue, so a key never overtakes the foms there. Returns the
    /// submission that was given a place.
    fn wake(self) -> Option<oneshot::Sender<()>> {
        for fom in self.first.into_iter().chain(self.others) {
            fom.wake();
        }
        self.place
    }
}
