//! What a slot has taken from other slots: an operation for each source. Its state is the watermark, and it takes a letter in
//! the step that moves the watermark.

use fom_durable::{DurableBuilderExt as _, DurableCxExt as _, DurableExt as _, DurableFomExt as _};
use fom_runtime::{Builder, Cx, Key, Runtime, error::BoxError, fom};
use serde::{Deserialize, Serialize};

use crate::{
    call::{Letter, Name, Reply},
    node::Here,
};

/// The first part of the keys of the operations of this package.
pub(crate) const KEY: &str = "fom-cluster";

/// Adds the operations of this file to a runtime.
pub(crate) fn set_up(builder: Builder) -> Builder {
    builder.operation::<Inbox>().operation::<UnreadLetter>()
}

/// What an inbox takes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Delivered {
    /// A letter, and the operation type that it is for.
    Letter(Box<(Name, Letter)>),
    /// Ends the inbox.
    Close,
}

/// The letters that a slot has taken from another one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Inbox {
    source: u16,
    /// The newest attempt: the term and the number of its sender.
    newest: (u64, u64),
    /// The letter that was taken last.
    last: Option<u64>,
}

#[fom(operation(Inbox), event(Delivered))]
pub(crate) enum Taking {
    #[phase(start, sync, on(Letter, Close), to(Take, Closed))]
    Take,
    #[phase(end)]
    Closed,
}

impl TakingTransitions for Inbox {
    fn take(
        &mut self,
        cx: &mut Cx<'_, Delivered>,
        event: Delivered,
    ) -> Result<TakingAfterTake, BoxError> {
        let (of, letter) = match event {
            Delivered::Letter(letter) => *letter,
            Delivered::Close => return Ok(TakingAfterTake::Closed),
        };
        let attempt = (letter.term, letter.attempt);
        // A sender has one letter under way. An older attempt is of a letter that was taken, or of a former owner; a newer
        // attempt with the same letter is its repetition.
        if attempt > self.newest && self.last != Some(letter.id) {
            let node = cx.resource::<Here>().node().ok_or("the node ends")?;
            let taken = match node.registry.get(&of) {
                Some(serves) => serves.take(&cx.outbox(), &letter.content),
                None => Err(format!("this node does not serve {of}")),
            };
            if let Err(why) = taken {
                let unread = UnreadLetter {
                    of,
                    letter: letter.clone(),
                    why,
                };
                cx.outbox().submit(unread).post()?;
            }
            self.last = Some(letter.id);
        }
        self.newest = self.newest.max(attempt);
        Ok(TakingAfterTake::Take)
    }
}

/// A letter that the target could not read. It counts as taken, and is in quarantine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UnreadLetter {
    of: Name,
    letter: Letter,
    why: String,
}

#[fom(operation(UnreadLetter))]
pub(crate) enum Unread {
    #[phase(start, sync, to(Read))]
    Fail,
    #[phase(end)]
    Read,
}

impl UnreadTransitions for UnreadLetter {
    fn fail(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let node = cx.resource::<Here>().node().ok_or("the node ends")?;
        // After a retry, this release may serve it.
        match node.registry.get(&self.of) {
            Some(_) => Err(format!("a letter cannot be read: {}", self.why).into()),
            None => Err(format!(
                "a letter is for {}, which this node does not serve",
                self.of
            )
            .into()),
        }
    }
}

/// Takes a letter: when this returns [`Reply::Done`], the journal of the slot has it. While the inbox is in quarantine, the letter
/// stays at its sender.
pub(crate) async fn deliver(runtime: &Runtime, of: Name, letter: Letter) -> Reply {
    let key = Key::from((KEY, (u64::from(letter.source), "inbox")));
    if runtime.find::<Inbox>(key.clone()).is_none() {
        // A fom in quarantine does not keep its key, and a second inbox would not know what the first one has taken.
        if is_in_quarantine(runtime, &key) {
            return Reply::Moved;
        }
        let inbox = Inbox {
            source: letter.source,
            ..Inbox::default()
        };
        // Another letter of the same source may be faster.
        if let Ok(inbox) = runtime.submit(inbox).key(key.clone()).start()
            && inbox.committed().await.is_err()
        {
            return Reply::Moved;
        }
    }
    let once = (letter.term, letter.attempt);
    let event = Delivered::Letter(Box::new((of, letter)));
    match runtime.send_durably::<Inbox>(key, event, once).await {
        Ok(_) => Reply::Done,
        Err(_) => Reply::Moved,
    }
}

/// Whether a fom with this key is in quarantine. An event in quarantine has no phase.
fn is_in_quarantine(runtime: &Runtime, key: &Key) -> bool {
    let all = runtime.quarantine().list().into_iter();
    let mut foms = all.filter(|entry| entry.phase.is_some());
    foms.any(|entry| entry.key.as_ref() == Some(key))
}

#[cfg(test)]
mod tests {
    use fom_durable::DurableExt as _;
    use fom_journal::MemoryJournal;
    use fom_runtime::prelude::Shutdown;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{
        Cluster, MemoryEngine, Slot,
        call::{At, Blob, Content},
        registry::name_of,
    };

    /// Keeps the numbers that letters bring, and ends with 0.
    #[derive(Serialize, Deserialize)]
    struct List {
        numbers: Vec<u64>,
    }

    #[derive(Serialize, Deserialize)]
    enum Brought {
        Number { number: u64 },
    }

    #[fom(operation(List), event(Brought))]
    enum Listing {
        #[phase(start, sync, on(Number), to(List, Done))]
        List,
        #[phase(end)]
        Done,
    }

    impl ListingTransitions for List {
        fn list(
            &mut self,
            _: &mut Cx<'_, Brought>,
            event: Brought,
        ) -> Result<ListingAfterList, BoxError> {
            let Brought::Number { number } = event;
            self.numbers.push(number);
            Ok(match number {
                0 => ListingAfterList::Done,
                _ => ListingAfterList::List,
            })
        }
    }

    fn letter((term, attempt): (u64, u64), id: u64, number: u64) -> Letter {
        let event = rmp_serde::to_vec_named(&Brought::Number { number }).unwrap();
        let to = At {
            key: Some("list".into()),
            once: None,
        };
        Letter {
            source: 3,
            term,
            attempt,
            id,
            content: Content::Event {
                to,
                event: Blob(event),
            },
        }
    }

    /// An inbox is in quarantine if it ran when the owners of its slot died. It knows what was taken before, and no other one does.
    #[tokio::test]
    async fn while_an_inbox_is_in_quarantine_there_is_no_second_one() {
        let journal = MemoryJournal::new();
        let start = |held_back| {
            let builder = set_up(Runtime::builder().localities(1));
            let journal = builder.journal_with(journal.clone());
            journal.hold_back(held_back).build().unwrap()
        };
        let key = Key::from((KEY, (3, "inbox")));
        let runtime = start(None);
        let inbox = runtime.submit(Inbox::default()).key(key.clone());
        let inbox = inbox.start().unwrap();
        inbox.committed().await.unwrap();
        let id = inbox.id();
        runtime
            .shutdown(Shutdown::Now, std::time::Duration::from_secs(10))
            .await;
        let runtime = start(Some(id));
        let reply = deliver(&runtime, name_of::<List>(), letter((1, 2), 70, 1)).await;
        assert_eq!(reply, Reply::Moved, "the letter stays at its sender");
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1);
        assert!(runtime.find::<Inbox>(key.clone()).is_none());
        runtime.quarantine().retry(id).unwrap();
        let found = runtime.find::<Inbox>(key).expect("it is back");
        assert_eq!(found.id(), id);
    }

    /// A repeated attempt of the last letter is taken once. An attempt that was overtaken by later letters, or by those of a
    /// later owner of its slot, is dropped.
    #[tokio::test]
    async fn each_letter_is_taken_once_and_in_order() {
        let builder = Cluster::builder(MemoryEngine::new(), "a").slots(1);
        let cluster = builder.operation::<List>().join().await.unwrap();
        let list = List { numbers: vec![] };
        let started = cluster.submit(list).key("list").start().await.unwrap();
        let (_, runtime) = cluster
            .node()
            .serving(Slot(0))
            .expect("it has started there");
        let deliveries = [
            ((1, 2), 70, 1),
            // The answer was lost.
            ((1, 3), 70, 1),
            ((1, 5), 71, 2),
            // These were under way for long.
            ((1, 1), 70, 1),
            ((1, 4), 71, 2),
            // Another owner, which does not know that the last letter has arrived. Its attempts begin anew.
            ((2, 1), 71, 2),
            ((2, 2), 72, 3),
            // The former owner is still there.
            ((1, 6), 72, 3),
            ((2, 3), 73, 0),
        ];
        for (attempt, id, number) in deliveries {
            let letter = letter(attempt, id, number);
            let reply = deliver(&runtime, name_of::<List>(), letter).await;
            assert_eq!(reply, Reply::Done);
        }
        let ended = started.await.unwrap().unwrap();
        assert_eq!(ended.operation.numbers, [1, 2, 3, 0]);
        assert!(runtime.quarantine().list().is_empty());
    }
}
