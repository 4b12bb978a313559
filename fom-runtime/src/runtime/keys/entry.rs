//! One key: the foms that have it, and its line.
//!
//! This module does not know what a fom is, and runs no user code. Entries change under the lock of the index. What
//! leaves an entry is returned to the holder of that lock, to be dropped without it.

use tokio::sync::oneshot;

use crate::{
    fom::{Full, Order},
    heap::SMALL,
    runtime::keys::Line,
};

/// One key of one operation type.
pub(super) struct Entry<T> {
    /// One fom that has the key. Most keys need nothing more.
    holder: Option<T>,
    /// What only a contended or suspended key has.
    more: Option<Box<More<T>>>,
}

/// What only a contended or suspended key has. It is [`SMALL`], because another thread may free it.
struct More<T> {
    /// Other foms that have the key, beside the holder.
    others: Vec<T>,
    /// Whether the foms that have the key share it, also with further sharing foms.
    shares: bool,
    /// How often the key is suspended. While it is, no fom gets it.
    suspended: u32,
    /// The operation type of a suspended key.
    suspended_as: &'static str,
    line: Line<T>,
}

const _: () = assert!(size_of::<More<usize>>() <= SMALL);

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
            more: None,
        }
    }
}

impl<T> Default for More<T> {
    fn default() -> Self {
        Self {
            others: Vec::new(),
            shares: false,
            suspended: 0,
            suspended_as: "",
            line: Line::default(),
        }
    }
}

impl<T: Clone> Entry<T> {
    /// Returns the foms that have the key.
    pub(super) fn holders(&self) -> impl Iterator<Item = &T> {
        let others = self.more.iter().flat_map(|more| &more.others);
        self.holder.iter().chain(others)
    }

    /// Returns the waiting foms, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.line().into_iter().flat_map(Line::waiting)
    }

    /// Returns the line, if the key has ever needed one.
    pub(super) fn line(&self) -> Option<&Line<T>> {
        self.more.as_ref().map(|more| &more.line)
    }

    /// Returns the line. Makes it if there is none.
    pub(super) fn line_made(&mut self) -> &mut Line<T> {
        &mut self.more.get_or_insert_default().line
    }

    /// Changes the line, if there is one.
    pub(super) fn change_line<R: Default>(&mut self, change: impl FnOnce(&mut Line<T>) -> R) -> R {
        let line = self.more.as_mut().map(|more| &mut more.line);
        line.map(change).unwrap_or_default()
    }

    pub(super) fn suspended(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.suspended)
    }

    pub(super) fn suspended_as(&self) -> &'static str {
        self.more.as_ref().map_or("", |more| more.suspended_as)
    }

    /// Returns whether the entry can be removed.
    pub(super) fn is_empty(&self) -> bool {
        let idle = |more: &More<T>| more.suspended == 0 && more.line.is_empty();
        self.holder.is_none() && self.more.as_deref().is_none_or(idle)
    }

    /// Returns whether the foms that have the key share it with one more fom that shares it.
    fn admits_beside(&self, shares: bool) -> bool {
        shares && self.more.as_deref().is_some_and(|more| more.shares)
    }

    /// Returns whether one more fom may have the key now, together with those that have it.
    fn admits(&self, shares: bool) -> bool {
        self.suspended() == 0 && (self.holder.is_none() || self.admits_beside(shares))
    }

    /// Returns whether no fom waits before this number. Without a number: whether no fom waits.
    fn is_next(&self, number: Option<u64>) -> bool {
        self.line().is_none_or(|line| line.is_next(number))
    }

    fn overtakes(&self, number: u64) -> bool {
        self.line().is_some_and(|line| line.overtakes(number))
    }

    fn is_behind_absent(&self, number: u64) -> bool {
        let behind = |line: &Line<T>| line.is_behind_absent(number);
        self.line().is_some_and(behind)
    }

    /// Returns the place of a fom with this number that has the key from now on.
    fn place(&self, number: u64) -> Place {
        if self.overtakes(number) {
            Place::Overtakes
        } else {
            Place::Has
        }
    }

    /// Returns whether there is room for one more fom if at most `most` may wait.
    fn has_room(&self, shares: bool, most: usize) -> bool {
        let taken = self.line().map_or(0, Line::taken);
        taken < most || self.is_next(None) && self.admits(shares)
    }

    /// Decides whether a submission gets in, if at most `most` may wait. Returns the fom that makes room for it, if
    /// any.
    pub(super) fn look(&mut self, order: Order, most: usize) -> Result<Option<T>, Denied<T>> {
        let Order::Queue { shares, full } = order else {
            let first = self.holders().chain(self.waiting()).next();
            return match first {
                Some(first) => Err(Denied::InUse(first.clone())),
                None if self.suspended() > 0 => Err(Denied::Suspended),
                None => Ok(None),
            };
        };
        if full == Full::Ignore || self.has_room(shares, most) {
            return Ok(None);
        }
        let oldest = match full {
            Full::Shed => self.change_line(Line::pop_first),
            _ => None,
        };
        oldest.map(Some).ok_or(Denied::Full)
    }

    /// Lets in a submission that [`look`](Self::look) has accepted, under the same lock. `number` is the number that
    /// was announced for it. `draw` makes one from the last number that was drawn here.
    pub(super) fn enter(
        &mut self,
        order: Order,
        number: Option<u64>,
        fom: T,
        draw: impl FnOnce(u64) -> u64,
    ) -> Place {
        let shares = matches!(order, Order::Queue { shares: true, .. });
        // A submission that does not queue needs only that no fom that is here has the key.
        let behind = matches!(order, Order::Queue { .. })
            && self.is_behind_absent(number.unwrap_or(u64::MAX));
        if self.is_next(number) && self.admits(shares) && !behind {
            self.put(fom, shares);
            return number.map_or(Place::Has, |number| self.place(number));
        }
        let line = self.line_made();
        let number = number.unwrap_or_else(|| line.draw(draw));
        line.wait(number, shares, fom);
        Place::Waits(number)
    }

    /// Gives the key to the fom.
    pub(super) fn put(&mut self, fom: T, shares: bool) {
        if self.holder.is_some() {
            self.more.get_or_insert_default().others.push(fom);
            return;
        }
        self.holder = Some(fom);
        if shares || self.more.is_some() {
            self.more.get_or_insert_default().shares = shares;
        }
    }

    /// Gives the key to a fom that had it before a restart. Returns `false` if another fom has it.
    pub(super) fn put_again(&mut self, fom: impl FnOnce() -> T, shares: bool) -> bool {
        let may = self.holder.is_none() || self.admits_beside(shares);
        if may {
            self.put(fom(), shares);
        }
        may
    }

    /// As [`put_again`](Self::put_again), for a fom that has not begun. This fom does not wait, and waiting foms may
    /// precede it.
    pub(super) fn put_first(
        &mut self,
        fom: impl FnOnce() -> T,
        shares: bool,
        number: u64,
    ) -> Option<Place> {
        (self.is_next(Some(number)) && self.put_again(fom, shares)).then(|| self.place(number))
    }

    /// Returns the fom that has the key and that `is` accepts.
    pub(super) fn holder_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let others = self.more.iter_mut().flat_map(|more| &mut more.others);
        self.holder.iter_mut().chain(others).find(|fom| is(fom))
    }

    /// Takes the key from a fom that has it.
    pub(super) fn give_back(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let others = self.more.as_mut().map(|more| &mut more.others);
        if self.holder.as_ref().is_some_and(&is) {
            let next = others.and_then(Vec::pop);
            return std::mem::replace(&mut self.holder, next);
        }
        let others = others?;
        let at = others.iter().position(is)?;
        Some(others.swap_remove(at))
    }

    /// Gives the key to the next waiting fom, if that fom may have it by now. The flag says whether the fom overtakes.
    pub(super) fn next(&mut self) -> Option<(T, bool)> {
        let (number, shares) = self.line()?.first()?;
        if !self.admits(shares) || self.is_behind_absent(number) {
            return None;
        }
        let next = self.change_line(Line::pop_first)?;
        self.put(next.clone(), shares);
        Some((next, self.overtakes(number)))
    }

    /// Suspends the key: no fom gets it until it is resumed as often.
    pub(super) fn suspend(&mut self, operation: &'static str) {
        let more = self.more.get_or_insert_default();
        more.suspended += 1;
        more.suspended_as = operation;
    }

    pub(super) fn resume(&mut self) {
        if let Some(more) = &mut self.more {
            more.suspended = more.suspended.saturating_sub(1);
        }
    }

    /// Keeps a place for one more submission, if there is room.
    pub(super) fn reserve_now(&mut self, shares: bool, most: usize) -> bool {
        let room = self.has_room(shares, most);
        if room {
            self.line_made().keep_place();
        }
        room
    }

    /// Keeps a place for one more submission. Without room, returns a receiver that hears when a place is kept.
    pub(super) fn reserve(&mut self, shares: bool, most: usize) -> Option<oneshot::Receiver<()>> {
        match self.reserve_now(shares, most) {
            true => None,
            false => Some(self.line_made().wait_for_place()),
        }
    }

    /// Keeps a place for the submission that has waited longest for one, if there is room. Returns its sender.
    pub(super) fn hand_out(&mut self, most: usize) -> Option<oneshot::Sender<()>> {
        if !self.change_line(Line::is_place_wanted) || !self.has_room(false, most) {
            return None;
        }
        self.change_line(Line::hand_out)
    }
}
