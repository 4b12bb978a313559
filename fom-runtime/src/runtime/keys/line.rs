//! The line of one key: the foms that wait for it in their order, and the submissions that wait for a place.
//!
//! # The order over a crash
//!
//! Two kinds of foms are in the journal before their turn: foms that an outbox sent, and kept foms that wait. Each has a
//! number there. After a restart the numbers are the order. Foms that have begun have their key
//! again. Of the others, the fom with the lowest number begins. So a fom may enter its first function unrecorded only if
//! the journal can have no fom with a lower number. The numbers show this:
//!
//! - A number is drawn under the lock of the key. For a fom from an outbox this is when the step that sends it is written
//!   down, for other foms when they begin to wait. The number is above all numbers that were drawn for this key before.
//!   So a later draw never gives a lower number.
//! - The number of a fom that an outbox sends is then *announced*. This ends when the fom is here or quarantined, or when
//!   the step is certainly not in the journal.
//! - Foms wait here by their numbers, and the lowest is granted first. A fom that ends before it begins leaves when the
//!   journal has deleted it.
//!
//! A fom that is granted its turn while a lower number is announced *overtakes* that number. It commits its begin before
//! it enters its function, as each fom does that is not in the journal yet. No fom waits for an announced number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::oneshot;

use crate::runtime::keys::waiting::Waiting;

pub(super) struct Line<T> {
    waiting: Waiting<T>,
    /// The last number that was drawn; numbers begin with one.
    drawn: u64,
    /// What few lines have.
    rare: Option<Box<Rare>>,
}

/// What few lines have.
#[derive(Default)]
struct Rare {
    /// Foms that are in the journal and not here, by their ids.
    absent: BTreeMap<u64, Absent>,
    /// The numbers of foms that are on their way from an outbox.
    announced: BTreeSet<u64>,
    /// Places kept for submissions that waited for one, and the submissions that still wait for one.
    reserved: usize,
    outside: VecDeque<oneshot::Sender<()>>,
}

/// A fom that is in the journal and not here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absent {
    /// Its number. `None`: the fom had the key.
    pub(super) number: Option<u64>,
    /// Whether the fom keeps its place, so that foms behind it wait for it.
    pub(super) keeps: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            drawn: 0,
            rare: None,
        }
    }
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.reserved == 0
            && self.absent.is_empty()
            && self.announced.is_empty()
            && self.outside.is_empty()
    }
}

impl<T> Line<T> {
    fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    fn rare_made(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn absent(&self) -> impl Iterator<Item = (&u64, &Absent)> {
        self.rare().into_iter().flat_map(|rare| &rare.absent)
    }

    /// Returns whether the line can be removed.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.rare().is_none_or(Rare::is_empty)
    }

    /// Returns the waiting foms, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, fom)| fom)
    }

    /// Counts the foms that wait with a lower number.
    pub(super) fn ahead(&self, number: u64) -> usize {
        self.waiting.ahead(number)
    }

    /// Counts the foms that wait, and the kept places, which may be taken at any time.
    pub(super) fn taken(&self) -> usize {
        self.waiting.len() + self.rare().map_or(0, |rare| rare.reserved)
    }

    /// Returns whether no fom waits before this number. Without a number: whether no fom waits.
    pub(super) fn is_next(&self, number: Option<u64>) -> bool {
        let first = self.waiting.first();
        first.is_none_or(|(first, _)| number.is_some_and(|number| number < first))
    }

    /// Draws a number above all others. `above` makes it from the last number that was drawn here.
    pub(super) fn draw(&mut self, above: impl FnOnce(u64) -> u64) -> u64 {
        self.drawn = above(self.drawn);
        self.drawn
    }

    /// Adds a waiting fom, with a number that it has, or had before a restart.
    pub(super) fn wait(&mut self, number: u64, shares: bool, fom: T) {
        self.drawn = self.drawn.max(number);
        self.waiting.insert(number, shares, fom);
    }

    /// Returns the number of the first waiting fom, and whether it shares the key.
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        self.waiting.first()
    }

    /// Removes the first waiting fom.
    pub(super) fn pop_first(&mut self) -> Option<T> {
        self.waiting.pop_first()
    }

    /// Removes the fom that waits with this number.
    pub(super) fn give_up(&mut self, number: u64) -> Option<T> {
        self.waiting.remove(number)
    }

    /// Removes the waiting fom that `is` accepts.
    pub(super) fn give_up_waiting(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let found = self.waiting.iter().find(|(_, fom)| is(fom));
        let number = found?.0;
        self.give_up(number)
    }

    /// Draws a number above all others, and announces it. `above` makes it from the last number that was drawn here.
    pub(super) fn announce(&mut self, above: impl FnOnce(u64) -> u64) -> u64 {
        let number = self.draw(above);
        self.rare_made().announced.insert(number);
        number
    }

    /// Withdraws an announced number: its fom is here by now, or never arrives.
    pub(super) fn withdraw(&mut self, number: u64) {
        if let Some(rare) = &mut self.rare {
            rare.announced.remove(&number);
        }
    }

    /// Returns whether a fom with this number, once granted its turn, precedes a fom with a lower number that the
    /// journal has or may get. No waiting fom has a lower number.
    pub(super) fn overtakes(&self, number: u64) -> bool {
        let before = |other: u64| other < number;
        let absent = |one: &Absent| one.number.is_none_or(before);
        let overtakes = |rare: &Rare| {
            rare.announced.first().is_some_and(|first| before(*first))
                || rare.absent.values().any(absent)
        };
        self.rare().is_some_and(overtakes)
    }

    /// Notes a fom that is in the journal and not here.
    pub(super) fn miss(&mut self, name: u64, absent: Absent) {
        self.drawn = self.drawn.max(absent.number.unwrap_or(0));
        self.rare_made().absent.insert(name, absent);
    }

    /// Forgets an absent fom, which is back or never comes.
    pub(super) fn give_place_up(&mut self, name: u64) {
        if let Some(rare) = &mut self.rare {
            rare.absent.remove(&name);
        }
    }

    /// Returns the absent foms that had the key and keep their place.
    pub(super) fn absent_holders(&self) -> impl Iterator<Item = u64> {
        self.absent()
            .filter(|(_, absent)| absent.keeps && absent.number.is_none())
            .map(|(name, _)| *name)
    }

    /// Returns whether an absent fom keeps its place before this number.
    pub(super) fn is_behind_absent(&self, number: u64) -> bool {
        let mut kept = self.absent().filter(|(_, absent)| absent.keeps);
        kept.any(|(_, absent)| absent.number.is_none_or(|before| before < number))
    }

    /// Keeps a place for one more submission.
    pub(super) fn keep_place(&mut self) {
        self.rare_made().reserved += 1;
    }

    /// Gives up a kept place.
    pub(super) fn release(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.reserved = rare.reserved.saturating_sub(1);
        }
    }

    /// Adds a submission that waits for a place. The receiver hears when a place is kept.
    pub(super) fn wait_for_place(&mut self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        self.rare_made().outside.push_back(tell);
        told
    }

    /// Returns whether a submission waits for a place.
    pub(super) fn is_place_wanted(&mut self) -> bool {
        let Some(rare) = &mut self.rare else {
            return false;
        };
        while rare.outside.front().is_some_and(oneshot::Sender::is_closed) {
            rare.outside.pop_front();
        }
        !rare.outside.is_empty()
    }

    /// Keeps a place for the submission that has waited longest for one. Returns its sender.
    pub(super) fn hand_out(&mut self) -> Option<oneshot::Sender<()>> {
        let first = self.rare.as_mut()?.outside.pop_front()?;
        self.keep_place();
        Some(first)
    }

    /// Returns the submissions that wait for a place, which need not wait any more.
    pub(super) fn dismiss(&mut self) -> VecDeque<oneshot::Sender<()>> {
        let rare = self.rare.as_mut();
        rare.map_or_else(VecDeque::new, |rare| std::mem::take(&mut rare.outside))
    }
}
