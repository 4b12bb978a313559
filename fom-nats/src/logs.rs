//! The logs of slots: a subject for each slot. A record is added only directly after the last one that the owner knows. So a claim,
//! which adds a record, keeps the former owner from adding more.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::jetstream::message::StreamMessage;
use fom_cluster::{Slot, engine::Append};

use crate::{
    connection::Stream,
    error::NatsError,
    record::{self, Head, Reader, Unreadable},
};

/// About how many bytes of bodies one answer has.
const PAGE: usize = 8 << 20;

/// The logs of the slots of a cluster.
#[derive(Debug)]
pub(crate) struct Logs {
    /// What the subjects of all slots begin with.
    prefix: String,
    owned: Mutex<BTreeMap<Slot, Owned>>,
}

/// A slot that was claimed here.
#[derive(Debug)]
struct Owned {
    term: u64,
    /// The number of the last message of the slot.
    sequence: u64,
    /// The greatest time that was sent.
    time: Duration,
    /// The numbers of the last body and of the last message of each record that is known, in their order.
    records: VecDeque<(u64, u64)>,
    /// The number of a body, and of the message from which on it is found.
    next: (u64, u64),
}

/// What came of records that were sent.
pub(crate) enum Added {
    Kept,
    /// Another term has the slot.
    Fenced,
}

impl Logs {
    pub(crate) fn new(prefix: String) -> Self {
        Self {
            prefix,
            owned: Mutex::default(),
        }
    }

    fn subject(&self, slot: Slot) -> String {
        format!("{}.{}", self.prefix, slot.0)
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<Slot, Owned>> {
        // No panic leaves a part of a change behind.
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a slot up. Nothing is added for its term any more.
    pub(crate) fn release(&self, slot: Slot, term: u64) {
        let mut owned = self.owned();
        if owned.get(&slot).is_some_and(|owned| owned.term == term) {
            owned.remove(&slot);
        }
    }

    /// Adds the record of a claim that the state has granted. From its acknowledgment on, no record of an earlier term is added.
    /// Returns the number of the last body and the greatest time, or `None` if there is a later claim.
    pub(crate) async fn claim(
        &self,
        stream: &Stream,
        (slot, term, time): (Slot, u64, Duration),
    ) -> Result<Option<(u64, Duration)>, NatsError> {
        let subject = self.subject(slot);
        loop {
            let (mut found, mut sequence) = (None, 0);
            if let Some(message) = stream.last(&subject).await? {
                sequence = message.sequence;
                found = Some(head(stream, &message)?);
            }
            if found.is_some_and(|head| head.term > term) {
                return Ok(None);
            }
            let last = found.map_or(0, |head| head.last);
            let time = found.map_or(time, |head| head.time.max(time));
            let claim = record::write((term, last, time), &[], usize::MAX);
            // If the owner before was faster, or the leader did not know the last message, the next attempt knows more.
            if let Some(sequence) = stream.publish(&subject, claim, sequence).await? {
                self.keep(slot, term, sequence, time);
                return Ok(Some((last, time)));
            }
        }
    }

    fn keep(&self, slot: Slot, term: u64, sequence: u64, time: Duration) {
        let mut owned = self.owned();
        let owned = owned.entry(slot).or_insert_with(|| Owned {
            term,
            sequence,
            time,
            records: VecDeque::new(),
            next: (0, 0),
        });
        (owned.term, owned.sequence, owned.time) = (term, sequence, time);
    }

    /// Adds the bodies of a slot, all or none, if it has their term.
    pub(crate) async fn add(&self, stream: &Stream, append: &Append) -> Result<Added, NatsError> {
        let Some(&(last, _)) = append.bodies.last() else {
            return Ok(Added::Kept);
        };
        let (slot, term) = (append.slot, append.term);
        let known = self
            .owned()
            .get(&slot)
            .map(|owned| (owned.term, owned.sequence, owned.time));
        let Some((_, expected, time)) = known.filter(|(owned, ..)| *owned == term) else {
            return Ok(Added::Fenced);
        };
        let subject = self.subject(slot);
        let time = time.max(append.time);
        let longest = stream.longest().await?;
        let messages = record::write((term, last, time), &append.bodies, longest);
        if let Some(sequence) = stream.publish(&subject, messages, expected).await? {
            if let Some(owned) = self
                .owned()
                .get_mut(&slot)
                .filter(|owned| owned.term == term)
            {
                (owned.sequence, owned.time) = (sequence, time);
                owned.records.push_back((last, sequence));
            }
            return Ok(Added::Kept);
        }
        // A server that was the leader may not know the last message. Only the record of a later claim proves that the slot is lost.
        let is_lost = match stream.last(&subject).await? {
            Some(message) => head(stream, &message)?.term > term,
            None => false,
        };
        match is_lost {
            true => Ok(Added::Fenced),
            false => Err(NatsError::request(
                "the last message of the slot is another one",
            )),
        }
    }

    /// Returns the first bodies of a slot with these numbers.
    pub(crate) async fn load(
        &self,
        stream: &Stream,
        slot: Slot,
        (from, to): (u64, u64),
    ) -> Result<Vec<(u64, Vec<u8>)>, NatsError> {
        let subject = self.subject(slot);
        let known = self
            .owned()
            .get(&slot)
            .map(|owned| (owned.sequence, owned.next));
        let (end, mut at) = match known {
            Some((end, (next, at))) if next == from => (end, at),
            Some((end, _)) => (end, 0),
            None => {
                let last = stream.last(&subject).await?;
                (last.map_or(0, |message| message.sequence), 0)
            }
        };
        let (mut bodies, mut size) = (Vec::new(), 0);
        let mut reader = Reader::default();
        while at <= end && end > 0 {
            let page = stream.read(&subject, at).await?;
            if page.is_empty() {
                stream.wait_for_copy().await;
            }
            for message in page {
                at = message.sequence + 1;
                let read = reader.read(&message.payload);
                let Some(record) = read.map_err(|why| unreadable(stream, &message, why))? else {
                    continue;
                };
                if !record.bodies.is_empty() {
                    self.note(slot, record.last, message.sequence);
                }
                let last = record.last;
                for (number, body) in record.bodies {
                    if (from..=to).contains(&number) {
                        size += body.len();
                        bodies.push((number, body));
                    }
                }
                if last >= to && !bodies.is_empty() {
                    return Ok(bodies);
                }
                if size >= PAGE {
                    self.go_on(slot, last + 1, at);
                    return Ok(bodies);
                }
            }
        }
        match reader.is_inside() {
            true => Err(NatsError::request("the end of a record was not read")),
            false => Ok(bodies),
        }
    }

    /// Returns the number of the last body of each slot, as of this message of another subject.
    pub(crate) async fn ends(
        &self,
        stream: &Stream,
        (subject, until): (&str, u64),
        slots: u16,
    ) -> Result<Vec<u64>, NatsError> {
        let all = format!("{}.*", self.prefix);
        loop {
            let found = stream.read_last(&[subject, &all], until).await?;
            if !found.iter().any(|message| message.sequence == until) {
                stream.wait_for_copy().await;
                continue;
            }
            let mut ends = vec![0; usize::from(slots)];
            for message in found {
                let slot = message.subject.strip_prefix(&*self.prefix);
                let slot = slot.and_then(|slot| slot.strip_prefix('.')?.parse::<usize>().ok());
                if let Some(end) = slot.and_then(|slot| ends.get_mut(slot)) {
                    *end = head(stream, &message)?.last;
                }
            }
            return Ok(ends);
        }
    }

    /// Notes where a record is.
    fn note(&self, slot: Slot, last: u64, sequence: u64) {
        if let Some(owned) = self.owned().get_mut(&slot)
            && owned
                .records
                .back()
                .is_none_or(|(_, known)| *known < sequence)
        {
            owned.records.push_back((last, sequence));
        }
    }

    /// Notes where the next read of a slot begins.
    fn go_on(&self, slot: Slot, number: u64, sequence: u64) {
        if let Some(owned) = self.owned().get_mut(&slot) {
            owned.next = (number, sequence);
        }
    }

    /// Deletes the bodies of a slot up to this number, if it has this term here. The last record stays in each case: the numbers
    /// of the messages of a slot must not begin anew.
    pub(crate) async fn delete_until(
        &self,
        stream: &Stream,
        (slot, term): (Slot, u64),
        last: u64,
    ) -> Result<(), NatsError> {
        let mut before = None;
        if let Some(owned) = self
            .owned()
            .get_mut(&slot)
            .filter(|owned| owned.term == term)
        {
            while owned.records.len() > 1
                && let Some((number, sequence)) = owned.records.front().copied()
                && number <= last
            {
                before = Some(sequence + 1);
                owned.records.pop_front();
            }
        }
        match before {
            Some(before) => stream.delete_before(&self.subject(slot), before).await,
            None => Ok(()),
        }
    }
}

fn head(stream: &Stream, message: &StreamMessage) -> Result<Head, NatsError> {
    let read = Head::read(&message.payload);
    read.map(|(head, _)| head)
        .map_err(|why| unreadable(stream, message, why))
}

fn unreadable(stream: &Stream, message: &StreamMessage, why: Unreadable) -> NatsError {
    let (stream, sequence) = (stream.name().to_owned(), message.sequence);
    match why {
        Unreadable::Newer => NatsError::Newer { stream, sequence },
        Unreadable::Damaged(what) => NatsError::Damaged {
            stream,
            sequence,
            what: what.to_owned(),
        },
    }
}
