//! One key: who has it, and who waits for it, in the order in which they came.
//!
//! Nothing in here knows what a fom is, and nothing of the user's runs: it is changed under the lock of the directory, and what has
//! left it is given back to whoever holds that lock, to be dropped without it.

use std::collections::BTreeMap;

use crate::runtime::keys::{Full, Order};

/// One key of one operation type.
pub(in crate::runtime) struct Entry<T> {
    /// One that has the key. All there is to know of most keys.
    holder: Option<T>,
    /// What only a key has that others wait for.
    line: Option<Box<Line<T>>>,
}

struct Line<T> {
    /// Others that have the key, beside the holder.
    others: Vec<T>,
    /// Those that have it share it, also with others that would.
    shared: bool,
    /// Who waits, by the number that was drawn.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The last number that was drawn; numbers begin with one.
    drawn: u64,
}

struct Waiting<T> {
    fom: T,
    shared: bool,
}

/// Why a submission does not get in.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Turned<T> {
    /// This one has the key, or is the next to have it.
    InUse(T),
    /// As many wait as may.
    Full,
}

/// Where a submission gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Place {
    /// It has the key at once.
    Has,
    /// It waits, with this number.
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
            shared: false,
            waiting: BTreeMap::new(),
            drawn: 0,
        }
    }
}

impl<T: Clone> Entry<T> {
    /// Those that have the key.
    pub(in crate::runtime) fn holders(&self) -> impl Iterator<Item = &T> {
        let others = self.line.iter().flat_map(|line| &line.others);
        self.holder.iter().chain(others)
    }

    /// Those that wait, in their order.
    pub(in crate::runtime) fn waiting(&self) -> impl Iterator<Item = &T> {
        let line = self.line.iter().flat_map(|line| line.waiting.values());
        line.map(|waiting| &waiting.fom)
    }

    /// Whether nothing of it need be kept.
    pub(in crate::runtime) fn is_empty(&self) -> bool {
        self.holder.is_none()
            && self
                .line
                .as_ref()
                .is_none_or(|line| line.waiting.is_empty())
    }

    /// Whether one more may have the key now, together with those that have it.
    fn admits(&self, shared: bool) -> bool {
        let beside = |line: &Line<T>| shared && line.shared;
        self.holder.is_none() || self.line.as_deref().is_some_and(beside)
    }

    fn no_one_waits(&self) -> bool {
        self.line
            .as_ref()
            .is_none_or(|line| line.waiting.is_empty())
    }

    /// Whether a submission gets in, where at most so many wait. The second is the one that makes room for it.
    pub(in crate::runtime) fn look(
        &mut self,
        order: Order,
        most: usize,
    ) -> Result<Option<T>, Turned<T>> {
        let Order::Queue { shared, full } = order else {
            let first = self.holders().chain(self.waiting()).next();
            return match first {
                None => Ok(None),
                Some(first) => Err(Turned::InUse(first.clone())),
            };
        };
        let goes_on = self.no_one_waits() && self.admits(shared);
        let waiting = self.line.as_ref().map_or(0, |line| line.waiting.len());
        if goes_on || waiting < most {
            return Ok(None);
        }
        match (full, &mut self.line) {
            (Full::Shed, Some(line)) => match line.waiting.pop_first() {
                Some((_, oldest)) => Ok(Some(oldest.fom)),
                None => Err(Turned::Full),
            },
            _ => Err(Turned::Full),
        }
    }

    /// Lets one in that was let in by [`look`](Self::look), under the same lock.
    pub(in crate::runtime) fn enter(&mut self, order: Order, fom: T) -> Place {
        let shared = matches!(order, Order::Queue { shared: true, .. });
        if self.no_one_waits() && self.admits(shared) {
            self.put(fom, shared);
            return Place::Has;
        }
        let line = self.line.get_or_insert_default();
        line.drawn += 1;
        line.waiting.insert(line.drawn, Waiting { fom, shared });
        Place::Waits(line.drawn)
    }

    /// It has the key from now on.
    pub(in crate::runtime) fn put(&mut self, fom: T, shared: bool) {
        if self.holder.is_some() {
            self.line.get_or_insert_default().others.push(fom);
            return;
        }
        self.holder = Some(fom);
        if shared || self.line.is_some() {
            self.line.get_or_insert_default().shared = shared;
        }
    }

    /// One that has the key, if it is this one.
    pub(in crate::runtime) fn holder_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let others = self.line.iter_mut().flat_map(|line| &mut line.others);
        self.holder.iter_mut().chain(others).find(|fom| is(fom))
    }

    /// Takes the key from one that has it.
    pub(in crate::runtime) fn give_back(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let others = self.line.as_mut().map(|line| &mut line.others);
        if self.holder.as_ref().is_some_and(&is) {
            let next = others.and_then(Vec::pop);
            return std::mem::replace(&mut self.holder, next);
        }
        let others = others?;
        let at = others.iter().position(is)?;
        Some(others.swap_remove(at))
    }

    /// One that waits with this number gives up.
    pub(in crate::runtime) fn give_up(&mut self, number: u64) -> Option<T> {
        let line = self.line.as_mut()?;
        line.waiting.remove(&number).map(|waiting| waiting.fom)
    }

    /// Gives the key to the next that waits, if there is one that may have it by now.
    pub(in crate::runtime) fn next(&mut self) -> Option<T> {
        let shared = self.line.as_ref()?.waiting.first_key_value()?.1.shared;
        if !self.admits(shared) {
            return None;
        }
        let (_, next) = self.line.as_mut()?.waiting.pop_first()?;
        self.put(next.fom.clone(), shared);
        Some(next.fom)
    }
}
