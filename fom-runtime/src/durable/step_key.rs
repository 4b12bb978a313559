//! The name of one visit of one phase, for those who are called from it.

use std::fmt;

use crate::{
    durable::record::{fom_of, put_key},
    id::Key,
    journal::EntryId,
};

/// Names what is done in one visit of a phase, or for one event: an idempotency key.
///
/// Transitions happen exactly once, effects at least once: a phase function that was run and whose transition was not committed is
/// run again. Give the key to the service that the function calls: the service can then tell a repetition from a new request.
///
/// **Before the function takes an event**, the key names the visit. All attempts of the visit have it, also after a restart. No other
/// visit of this or any other fom of this journal has it. A phase that is entered again, by a loop or from a dead letter phase, is
/// another visit with another key. What must happen once over all visits needs a name that is saved in the operation.
///
/// **After the function has taken an event**, the key names that event, until the function takes another event, returns or fails. In a
/// `sync` phase with `on(..)` each event has its key from the beginning; in an async phase the key changes when
/// [`Cx::event`](crate::Cx::event) and its like return an event. No other event has the key. The event keeps it in whatever step and in
/// whatever phase it is taken: a crash can lose a transition, and another event can then come first. What identifies an event:
///
/// - One that came through an [outbox](crate::Cx::outbox): its entry in the journal. It is the same after a restart.
/// - One that was sent [with an id](crate::FomRef::send_with_id): the receiver and that id. An event that its sender sends again with
///   its id has the same key. The key has a hash of 128 bits of the id: among 2³² ids that one fom is sent, two have the same hash
///   with a probability of 2⁻⁶⁵.
/// - Any other: a number that it gets when it is sent. It is lost in a crash, and if its sender sends it again it is another event.
///
/// An `exhausted` function and one for a failure have the key that the last attempt ended with. A `late` function has the key of the
/// visit, without an event, until it takes one itself: after a restart it runs at once, and no event is taken before. A function that
/// asks one service for several things gives each of them a [`part`](Self::part). Requests made by [`Cx::call`](crate::Cx::call) and
/// its like have parts from 1 on, and begin again with 1 after each event.
///
/// A lazy operation that lost transitions makes visits again, and gives them the keys of those that were lost.
///
/// Without a journal a key is unique in this run of the program alone; after an event without an id, and after a missed deadline of a
/// phase that takes events, it is one that names nothing else. A journal that was restored from a copy gives keys again that were given
/// since the copy was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// The journal, or the run of the program, in which the rest is unique.
    origin: u128,
    /// Zero for an event that no other fom can take.
    fom: u64,
    name: [u64; 2],
    part: u32,
    of: Of,
}

/// What a key names, and with it what its other fields say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Of {
    Visit,
    Posted,
    Sent,
    Given,
}

/// What an event is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventId {
    /// It is in the journal.
    Posted(EntryId),
    /// It is in memory alone: a number that no other event has in this run.
    Sent(u64),
    /// Its sender says which one it is.
    Given([u64; 2]),
}

impl EventId {
    /// Of an event that its sender has given this id.
    pub(crate) fn given(id: &Key) -> Self {
        let mut bytes = Vec::new();
        put_key(id, &mut bytes);
        let hash = hash(&bytes);
        Self::Given([(hash >> 64) as u64, hash as u64])
    }
}

/// FNV-1a with 128 bits. Keys stand in other systems for long: it must be the same in each release and on each machine. A sender that
/// wants two ids to have one hash can as well send one id twice, so it need not resist that.
fn hash(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(BASIS, mix)
}

impl StepKey {
    /// Of the visit with this number in the life of a fom.
    pub(crate) fn of_visit(origin: u128, fom: u64, visit: u64) -> Self {
        Self {
            origin,
            fom,
            name: [0, visit],
            part: 0,
            of: Of::Visit,
        }
    }

    /// Of an event that this fom has taken.
    pub(crate) fn of_event(journal: u128, run: u128, fom: u64, event: EventId) -> Self {
        // An outbox entry may come to another fom with the same key later, and is the same event then.
        let (origin, fom, name, of) = match event {
            EventId::Posted(entry) => (journal, 0, [0, fom_of(entry)], Of::Posted),
            EventId::Sent(number) => (run, 0, [0, number], Of::Sent),
            EventId::Given(hash) => (journal, fom, hash, Of::Given),
        };
        Self {
            origin,
            fom,
            name,
            part: 0,
            of,
        }
    }

    /// The key of one of several effects in the same visit, or for the same event. `part(0)` is the key itself.
    ///
    /// Number the effects in an order that does not change when the function is run again.
    pub fn part(self, number: u32) -> Self {
        Self {
            part: number,
            ..self
        }
    }
}

/// Letters, digits and dashes: fit for headers and for columns of tables. At most 94 characters.
impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            origin,
            fom,
            name: [high, low],
            part,
            of,
        } = self;
        match of {
            Of::Visit => write!(f, "{origin:032x}-{fom:x}-{low:x}"),
            Of::Posted => write!(f, "{origin:032x}-event-{low:x}"),
            Of::Sent => write!(f, "{origin:032x}-sent-{low:x}"),
            Of::Given => write!(f, "{origin:032x}-{fom:x}-id-{high:016x}{low:016x}"),
        }?;
        match part {
            0 => Ok(()),
            part => write!(f, "-{part:x}"),
        }
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepKey({self})")
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    /// The values that everybody gets for FNV-1a: other systems keep keys for years.
    #[test]
    fn the_hash_of_an_id_never_changes() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(hash(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn a_key_is_small_and_says_what_it_names() {
        assert_eq!(size_of::<StepKey>(), 48);
        let event = |event| StepKey::of_event(1, 2, 3, event).part(10).to_string();
        let visit = StepKey::of_visit(1, 3, 4);
        let one = "00000000000000000000000000000001";
        let two = "00000000000000000000000000000002";
        assert_eq!(visit.to_string(), format!("{one}-3-4"));
        let posted = EventId::Posted(crate::durable::entry_of(77));
        assert_eq!(event(posted), format!("{one}-event-4d-a"));
        assert_eq!(event(EventId::Sent(5)), format!("{two}-sent-5-a"));
        let given = format!("{one}-3-id-0000000000000001000000000000002a-a");
        assert_eq!(event(EventId::Given([1, 42])), given);
        let longest = StepKey::of_event(1, 2, u64::MAX, EventId::Given([1, 42])).part(u32::MAX);
        assert_eq!(longest.to_string().len(), 94);
    }
}
