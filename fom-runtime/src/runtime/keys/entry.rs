//! One key: the foms that have it, and the foms that wait for it, in the order in which they came.
//!
//! This module does not know what a fom is, and runs no user code. Entries change under the lock of the directory. What
//! leaves an entry is returned to the holder of that lock, to be dropped without it.
//!
//! # The order over a crash
//!
//! A fom that an outbox sent is in the journal, with a number, before it has its turn. After a restart the numbers are
//! the order. Foms that have begun have their key again. Of the others, the fom with the lowest number begins. So a fom
//! may enter its first function unrecorded only if the journal can have no fom with a lower number. The numbers show
//! this:
//!
//! - A number is drawn under the lock of the key, when the step that sends the fom is written down. It is above all
//!   numbers that were drawn for this key before. So a later draw never gives a lower one.
//! - From then on the number is *announced*, until the fom is here or set aside, or the step is certainly not in the
//!   journal.
//! - Foms wait here by their numbers, and the lowest is granted first. A fom that ends before it begins leaves when the
//!   journal has deleted it.
//!
//! A fom that is granted its turn while a lower number is announced *overtakes* that number. It commits that it begins
//! before it enters its function, as each fom does that is not in the journal yet. No fom waits for an announced one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::oneshot;

use crate::fom::{Full, Order};

/// One key of one operation type.
pub(super) struct Entry<T> {
    /// One fom that has the key. Most keys need nothing more.
    holder: Option<T>,
    /// What only a contended or suspended key has.
    line: Option<Box<Line<T>>>,
}

struct Line<T> {
    /// Other foms that have the key, beside the holder.
    others: Vec<T>,
    /// Whether the foms that have the key share it, also with further sharing foms.
    is_chained: bool,
    /// The waiting foms, by the number that was drawn.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The last number that was drawn; numbers begin with one.
    drawn: u64,
    /// Foms that are in the journal and not here, by their ids.
    absent: BTreeMap<u64, Absent>,
    /// The numbers of foms that are on their way from an outbox.
    announced: BTreeSet<u64>,
    /// How often the key is suspended. While it is, no fom gets it.
    suspended: u32,
    /// The operation type of a suspended key.
    suspended_as: &'static str,
    /// Places kept for submissions that waited for one, and the submissions that still wait for one.
    reserved: usize,
    outside: VecDeque<oneshot::Sender<()>>,
}

struct Waiting<T> {
    fom: T,
    is_chained: bool,
}

/// A fom that is in the journal and not here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absent {
    /// Its number. `None`: the fom had the key.
    pub(super) number: Option<u64>,
    /// Whether the fom keeps its place, so that foms behind it wait for it.
    pub(super) keeps: bool,
}

/// Why a submission does not get in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Denied<T> {
    /// This fom has the key, or is the next to have it.
    InUse(T),
    /// The key is suspended, and no fom has it.
    Suspended,
    /// As many foms wait as may.
    Full,
}

/// Where a submission gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The fom has the key at once.
    Has,
    /// The fom has the key at once, before a fom with a lower number.
    Overtakes,
    /// The fom waits, with this number.
    Waits(u64),
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self {
            holder: None,
            line: None,
        }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            others: Vec::new(),
            is_chained: false,
            waiting: BTreeMap::new(),
            drawn: 0,
            absent: BTreeMap::new(),
            announced: BTreeSet::new(),
            suspended: 0,
            suspended_as: "",
            reserved: 0,
            outside: VecDeque::new(),
        }
    }
}

impl<T> Line<T> {
    /// Counts the foms that wait, and the kept places, which may be taken at any time.
    fn taken(&self) -> usize {
        self.waiting.len() + self.reserved
    }
}

impl<T: Clone> Entry<T> {
    /// Returns the foms that have the key.
    pub(super) fn holders(&self) -> impl Iterator<Item = &T> {
        let others = self.line.iter().flat_map(|line| &line.others);
        self.holder.iter().chain(others)
    }

    /// Returns the waiting foms, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &T> {
        let line = self.line.iter().flat_map(|line| line.waiting.values());
        line.map(|waiting| &waiting.fom)
    }

    pub(super) fn suspended(&self) -> u32 {
        self.line.as_ref().map_or(0, |line| line.suspended)
    }

    pub(super) fn suspended_as(&self) -> &'static str {
        self.line.as_ref().map_or("", |line| line.suspended_as)
    }

    /// Returns whether the entry can be removed.
    pub(super) fn is_empty(&self) -> bool {
        let idle = |line: &Line<T>| {
            line.taken() == 0
                && line.suspended == 0
                && line.absent.is_empty()
                && line.announced.is_empty()
                && line.outside.is_empty()
        };
        self.holder.is_none() && self.line.as_deref().is_none_or(idle)
    }

    /// Draws a number above all others, and announces it. `above` makes it from the last number that was drawn here.
    pub(super) fn announce(&mut self, above: impl FnOnce(u64) -> u64) -> u64 {
        let line = self.line.get_or_insert_default();
        line.drawn = above(line.drawn);
        line.announced.insert(line.drawn);
        line.drawn
    }

    /// Withdraws an announced number: its fom is here by now, or never arrives.
    pub(super) fn withdraw(&mut self, number: u64) {
        if let Some(line) = &mut self.line {
            line.announced.remove(&number);
        }
    }

    /// Returns whether a fom with this number, once granted its turn, precedes a fom with a lower number that the
    /// journal has or may get. No waiting fom has a lower number.
    fn overtakes(&self, number: u64) -> bool {
        let Some(line) = &self.line else { return false };
        let before = |other: u64| other < number;
        let absent = |one: &Absent| one.number.is_none_or(before);
        line.announced.first().is_some_and(|first| before(*first))
            || line.absent.values().any(absent)
    }

    /// Returns the place of a fom with this number that has the key from now on.
    fn place(&self, number: u64) -> Place {
        if self.overtakes(number) {
            Place::Overtakes
        } else {
            Place::Has
        }
    }

    /// Notes a fom that is in the journal and not here.
    pub(super) fn miss(&mut self, name: u64, absent: Absent) {
        let line = self.line.get_or_insert_default();
        line.drawn = line.drawn.max(absent.number.unwrap_or(0));
        line.absent.insert(name, absent);
    }

    /// Forgets an absent fom, which is back or never comes.
    pub(super) fn give_place_up(&mut self, name: u64) {
        if let Some(line) = &mut self.line {
            line.absent.remove(&name);
        }
    }

    /// Returns the absent foms that had the key and keep their place.
    pub(super) fn absent(&self) -> impl Iterator<Item = u64> {
        let absent = self.line.iter().flat_map(|line| &line.absent);
        absent
            .filter(|(_, absent)| absent.keeps && absent.number.is_none())
            .map(|(name, _)| *name)
    }

    /// Returns whether an absent fom keeps its place before this number.
    fn is_behind_absent(&self, number: u64) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| {
            let mut kept = line.absent.values().filter(|absent| absent.keeps);
            kept.any(|absent| absent.number.is_none_or(|before| before < number))
        })
    }

    /// Returns whether one more fom may have the key now, together with those that have it.
    fn admits(&self, is_chained: bool) -> bool {
        let beside = |line: &Line<T>| is_chained && line.is_chained;
        self.suspended() == 0 && (self.holder.is_none() || self.line.as_deref().is_some_and(beside))
    }

    fn no_one_waits(&self) -> bool {
        let line = self.line.as_ref();
        line.is_none_or(|line| line.waiting.is_empty())
    }

    /// Returns whether there is room for one more fom if at most `most` may wait.
    fn has_room(&self, is_chained: bool, most: usize) -> bool {
        let taken = self.line.as_ref().map_or(0, |line| line.taken());
        taken < most || self.no_one_waits() && self.admits(is_chained)
    }

    /// Decides whether a submission gets in, if at most `most` may wait. Returns the fom that makes room for it, if
    /// any.
    pub(super) fn look(&mut self, order: Order, most: usize) -> Result<Option<T>, Denied<T>> {
        let Order::Queue { is_chained, full } = order else {
            let first = self.holders().chain(self.waiting()).next();
            return match first {
                Some(first) => Err(Denied::InUse(first.clone())),
                None if self.suspended() > 0 => Err(Denied::Suspended),
                None => Ok(None),
            };
        };
        if full == Full::Ignore || self.has_room(is_chained, most) {
            return Ok(None);
        }
        match (full, &mut self.line) {
            (Full::Shed, Some(line)) => match line.waiting.pop_first() {
                Some((_, oldest)) => Ok(Some(oldest.fom)),
                None => Err(Denied::Full),
            },
            _ => Err(Denied::Full),
        }
    }

    /// Lets in a submission that [`look`](Self::look) has accepted, under the same lock. `number` is the number that
    /// was announced for it.
    pub(super) fn enter(&mut self, order: Order, number: Option<u64>, fom: T) -> Place {
        let is_chained = matches!(
            order,
            Order::Queue {
                is_chained: true,
                ..
            }
        );
        // A submission that does not queue needs only that no fom that is here has the key.
        let behind = matches!(order, Order::Queue { .. })
            && self.is_behind_absent(number.unwrap_or(u64::MAX));
        if self.is_next(number) && self.admits(is_chained) && !behind {
            self.put(fom, is_chained);
            return number.map_or(Place::Has, |number| self.place(number));
        }
        let last = || self.line.as_ref().map_or(0, |line| line.drawn);
        let number = number.unwrap_or_else(|| last() + 1);
        self.wait(number, is_chained, fom);
        Place::Waits(number)
    }

    /// Returns whether no fom waits before this number. Without a number: whether no fom waits.
    fn is_next(&self, number: Option<u64>) -> bool {
        let waiting = self.line.as_ref().map(|line| &line.waiting);
        let first = waiting.and_then(|waiting| waiting.first_key_value());
        first.is_none_or(|(first, _)| number.is_some_and(|number| number < *first))
    }

    /// Adds a waiting fom, with a number that it has, or had before a restart.
    pub(super) fn wait(&mut self, number: u64, is_chained: bool, fom: T) {
        let line = self.line.get_or_insert_default();
        line.drawn = line.drawn.max(number);
        line.waiting.insert(number, Waiting { fom, is_chained });
    }

    /// Gives the key to the fom.
    pub(super) fn put(&mut self, fom: T, is_chained: bool) {
        if self.holder.is_some() {
            self.line.get_or_insert_default().others.push(fom);
            return;
        }
        self.holder = Some(fom);
        if is_chained || self.line.is_some() {
            self.line.get_or_insert_default().is_chained = is_chained;
        }
    }

    /// Gives the key to a fom that had it before a restart. Returns `false` if another fom has it.
    pub(super) fn put_again(&mut self, fom: impl FnOnce() -> T, is_chained: bool) -> bool {
        let beside = |line: &Line<T>| is_chained && line.is_chained;
        let may = self.holder.is_none() || self.line.as_deref().is_some_and(beside);
        if may {
            self.put(fom(), is_chained);
        }
        may
    }

    /// As [`put_again`](Self::put_again), for a fom that has not begun. This fom does not wait, and waiting foms may
    /// precede it.
    pub(super) fn put_first(
        &mut self,
        fom: impl FnOnce() -> T,
        is_chained: bool,
        number: u64,
    ) -> Option<Place> {
        (self.is_next(Some(number)) && self.put_again(fom, is_chained)).then(|| self.place(number))
    }

    /// Returns the fom that has the key and that `is` accepts.
    pub(super) fn holder_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let others = self.line.iter_mut().flat_map(|line| &mut line.others);
        self.holder.iter_mut().chain(others).find(|fom| is(fom))
    }

    /// Takes the key from a fom that has it.
    pub(super) fn give_back(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let others = self.line.as_mut().map(|line| &mut line.others);
        if self.holder.as_ref().is_some_and(&is) {
            let next = others.and_then(Vec::pop);
            return std::mem::replace(&mut self.holder, next);
        }
        let others = others?;
        let at = others.iter().position(is)?;
        Some(others.swap_remove(at))
    }

    /// Removes the fom that waits with this number.
    pub(super) fn give_up(&mut self, number: u64) -> Option<T> {
        let line = self.line.as_mut()?;
        line.waiting.remove(&number).map(|waiting| waiting.fom)
    }

    /// Removes the waiting fom that `is` accepts.
    pub(super) fn give_up_waiting(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let mut waiting = self.line.as_ref()?.waiting.iter();
        let number = *waiting.find(|(_, waiting)| is(&waiting.fom))?.0;
        self.give_up(number)
    }

    /// Gives the key to the next waiting fom, if that fom may have it by now. The flag says whether the fom overtakes.
    pub(super) fn next(&mut self) -> Option<(T, bool)> {
        let (number, first) = self.line.as_ref()?.waiting.first_key_value()?;
        let (number, is_chained) = (*number, first.is_chained);
        if !self.admits(is_chained) || self.is_behind_absent(number) {
            return None;
        }
        let (_, next) = self.line.as_mut()?.waiting.pop_first()?;
        self.put(next.fom.clone(), is_chained);
        Some((next.fom, self.overtakes(number)))
    }

    /// Suspends the key: no fom gets it until it is resumed as often.
    pub(super) fn suspend(&mut self, operation: &'static str) {
        let line = self.line.get_or_insert_default();
        line.suspended += 1;
        line.suspended_as = operation;
    }

    pub(super) fn resume(&mut self) {
        if let Some(line) = &mut self.line {
            line.suspended = line.suspended.saturating_sub(1);
        }
    }

    /// Keeps a place for one more submission. Without room, returns a receiver that hears when a place is kept.
    pub(super) fn reserve(
        &mut self,
        is_chained: bool,
        most: usize,
    ) -> Option<oneshot::Receiver<()>> {
        let room = self.has_room(is_chained, most);
        let line = self.line.get_or_insert_default();
        if room {
            line.reserved += 1;
            return None;
        }
        let (tell, told) = oneshot::channel();
        line.outside.push_back(tell);
        Some(told)
    }

    /// Gives up this many kept places.
    pub(super) fn release(&mut self, places: usize) {
        if let Some(line) = &mut self.line {
            line.reserved = line.reserved.saturating_sub(places);
        }
    }

    /// Keeps a place for the submission that has waited longest for one, if there is room. Returns its sender.
    pub(super) fn hand_out(&mut self, most: usize) -> Option<oneshot::Sender<()>> {
        let line = self.line.as_mut()?;
        while line.outside.front().is_some_and(oneshot::Sender::is_closed) {
            line.outside.pop_front();
        }
        if line.outside.is_empty() || !self.has_room(false, most) {
            return None;
        }
        let line = self.line.as_mut()?;
        line.reserved += 1;
        line.outside.pop_front()
    }

    /// Returns the submissions that wait for a place, which need not wait any more.
    pub(super) fn dismiss(&mut self) -> VecDeque<oneshot::Sender<()>> {
        let line = self.line.as_mut();
        line.map(|line| std::mem::take(&mut line.outside))
            .unwrap_or_default()
    }
}
