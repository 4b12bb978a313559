//! Step keys, which name one visit of one phase for the services that it calls.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    time::SystemTime,
};

use crate::{
    id::{FomId, Key},
    key_encoding::put_key,
};

/// An idempotency key: it names the effects of one visit of a phase, or of one event.
///
/// Transitions happen exactly once, effects at least once: a phase function runs again if its transition was not
/// committed. Pass the key to the service that the function calls. The service can then tell a repetition from a new
/// request.
///
/// **Before the function takes an event**, the key names the visit. All attempts of the visit share the key, also after
/// a restart. No other visit of any fom of this journal has it. If a loop or a dead letter phase enters the phase
/// again, that is another visit with another key. An effect that must happen once over all visits needs a name that the
/// operation saves.
///
/// **After the function has taken an event**, the key names that event, until the function takes another event, returns
/// or fails. In a `sync` phase with `on(..)` each event has its key from the beginning. In an async phase the key
/// changes when [`Cx::event`](crate::Cx::event) and similar methods return an event. No other event has the key. The
/// event keeps its key in every step and every phase: a crash can lose a transition, and another event can then arrive
/// first. What identifies an event depends on how it was sent:
///
/// - Through an outbox of `fom-durable`: its entry in the journal. The key is the same after a restart.
/// - [With an id](crate::FomRef::send_with_id): the receiver and that id. If the sender sends the event again with its
///   id, the key is the same. The key contains a hash of 128 bits of the id. Among 2³² ids for one fom, two have the
///   same hash with a probability of 2⁻⁶⁵.
/// - Otherwise: a number that the event gets when it is sent. A crash loses the number. If the sender sends the event
///   again, it is another event.
///
/// An `exhausted` function and a failure function have the key with which the last attempt ended. A `late` function has
/// the key of the visit, without an event, until it takes an event itself. The reason: after a restart it runs at once,
/// before any event is taken. A function that makes several requests to one service gives each request a
/// [`part`](Self::part). Requests through [`Cx::call`](crate::Cx::call) and similar methods have parts from 1 on, and
/// from 1 again after each event.
///
/// A lazy operation that lost transitions makes those visits again, with the same keys as before.
///
/// Without a journal a key is unique only in this run of the program. After an event without an id, the key is a new
/// one that names nothing else. The same holds after a missed deadline of a phase that takes events. A journal that was
/// restored from a copy repeats the keys that it has issued since the copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// The journal, or the run of the program, in which the other fields are unique.
    origin: u128,
    /// The fom. Zero for a posted or sent event: its name is unique without the fom.
    fom: u64,
    name: [u64; 2],
    part: u32,
    of: Of,
}

/// What the key names. It determines what the other fields mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Of {
    Visit,
    Posted,
    Sent,
    Given,
}

/// The identity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventId {
    /// The event is kept, under this id.
    Posted(FomId),
    /// The event is only in memory. No other event has this number in this run.
    Sent(u64),
    /// The hash of the id that its sender gave.
    Given([u64; 2]),
}

impl EventId {
    /// The identity of an event with this id of its sender.
    pub(crate) fn given(id: &Key) -> Self {
        let mut bytes = Vec::new();
        put_key(id, &mut bytes);
        let hash = hash(&bytes);
        Self::Given([(hash >> 64) as u64, hash as u64])
    }
}

/// FNV-1a with 128 bits. Other systems store keys for years, so the hash must be the same in each release and on each
/// machine. It need not resist collisions that a sender makes on purpose: such a sender can as well send one id twice.
fn hash(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(BASIS, mix)
}

impl StepKey {
    /// The key of the visit with this number in the life of a fom.
    pub(crate) fn of_visit(origin: u128, fom: u64, visit: u64) -> Self {
        Self {
            origin,
            fom,
            name: [0, visit],
            part: 0,
            of: Of::Visit,
        }
    }

    /// The key of an event that this fom has taken.
    pub(crate) fn of_event(journal: u128, run: u128, fom: u64, event: EventId) -> Self {
        // An outbox entry may later go to another fom with the same key. It is the same event there, so the receiver is
        // not part of the key.
        let (origin, fom, name, of) = match event {
            EventId::Posted(id) => (journal, 0, [0, id.get()], Of::Posted),
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

/// Letters, digits and dashes, at most 94 characters. The text fits into headers and table columns.
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

/// Returns a number that nothing else has.
pub fn random() -> u128 {
    u128::from(half()) << 64 | u128::from(half())
}

fn half() -> u64 {
    #[cfg(not(fom_shuttle))]
    let process = match fom_protocol::schedule::schedule() {
        // A simulation is the same in each process.
        Some(_) => 0,
        None => std::process::id(),
    };
    #[cfg(fom_shuttle)]
    let process = std::process::id();
    RandomState::new().hash_one((SystemTime::now(), process))
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    /// The published values of FNV-1a: other systems store keys for years.
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
        let posted = EventId::Posted(FomId(77));
        assert_eq!(event(posted), format!("{one}-event-4d-a"));
        assert_eq!(event(EventId::Sent(5)), format!("{two}-sent-5-a"));
        let given = format!("{one}-3-id-0000000000000001000000000000002a-a");
        assert_eq!(event(EventId::Given([1, 42])), given);
        let longest = StepKey::of_event(1, 2, u64::MAX, EventId::Given([1, 42])).part(u32::MAX);
        assert_eq!(longest.to_string().len(), 94);
    }
}
