//! The users that submit operations and wait for them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use fom_durable::prelude::*;
use fom_runtime::{Key, error::RefusedReason, snapshot::QuarantineKind};
use tokio::task::spawn_local;

use crate::{
    child::{DRAIN, is_newer, stalled},
    history::History,
    work::{
        Bill, Desk, Die, Fail, Grown, Guarded, Late, Loose, Mend, Move, NUMBERS, Post, Queued,
        Retry, Speak, Story, Tick, Till, Walk, is_desk, is_shared, mixed, posted, send_bills,
    },
};

/// The number of operations of each common kind that are submitted at a time.
const USERS: u64 = 8;

/// The number of keys that operations use one after the other.
const CHAINS: u64 = 6;

/// The number of keys at which operations wait: posted and submitted ones, and those that share a key.
const LINES: u64 = 4;

/// The number of keys for which senders in several localities post.
const FEEDS: u64 = 4;

/// The most operations of one user that wait at a key.
const WAITING: usize = 7;

/// The most operations in flight before users stop adding: those that came back must be able to end.
pub(crate) const MOST: usize = 400;

/// The pause before a user tries a refused operation again.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// The count of operation numbers for one life, and for one user.
const PER_LIFE: u64 = 1_000_000;
pub(crate) const PER_USER: u64 = 5_000;

/// A user that submits operations and waits for them.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) runtime: Runtime,
    pub(crate) history: History,
    life: u64,
}

impl User {
    pub(crate) fn new(runtime: Runtime, history: History, life: u64) -> Self {
        Self {
            runtime,
            history,
            life,
        }
    }

    /// Starts the load that any release can read.
    pub(crate) fn load(&self) {
        let first = self.life * PER_LIFE;
        let mut firsts = (0..).map(|user| first + user * PER_USER);
        let mut next = || firsts.next().unwrap_or_default();
        for place in 0..USERS {
            spawn_local(self.clone().ones::<Walk>(next(), place % 2 == 0));
            spawn_local(self.clone().ones::<Tick>(next(), place % 3 == 0));
            spawn_local(self.clone().ones::<Retry>(next(), place % 3 == 1));
            spawn_local(self.clone().ones::<Speak>(next(), false));
            spawn_local(self.clone().ones::<Loose>(next(), false));
        }
        for place in 0..USERS / 2 {
            spawn_local(self.clone().ones::<Late>(next(), false));
            spawn_local(self.clone().ones::<Move>(next(), false));
            spawn_local(self.clone().ones::<Die>(next(), false));
            spawn_local(self.clone().ones::<Fail>(next(), place % 2 == 0));
            spawn_local(self.clone().ones::<Mend>(next(), false));
            spawn_local(self.clone().ones::<Guarded<Tick>>(next(), place % 2 == 0));
            spawn_local(self.clone().ones::<Guarded<Walk>>(next(), false));
        }
        for chain in 0..CHAINS {
            if chain % 2 == 0 {
                spawn_local(self.clone().chained::<Tick>(next(), chain));
            } else {
                spawn_local(self.clone().chained::<Walk>(next(), chain));
            }
        }
        for line in 0..LINES {
            spawn_local(self.clone().line(next(), line));
            spawn_local(self.clone().sharing(next(), line));
            spawn_local(self.clone().series(next(), line, Queued::of_series));
            spawn_local(self.clone().series(next(), line, Mend::of_series));
            spawn_local(self.clone().bills(next()));
            spawn_local(self.clone().mails(next()));
            spawn_local(self.clone().buys(next()));
        }
        for line in 0..FEEDS {
            spawn_local(self.clone().feed(next(), line));
        }
    }

    /// Starts the load that only newer releases can read.
    pub(crate) fn load_newer(&self, drain: bool) {
        let first = self.life * PER_LIFE + PER_LIFE * 9 / 10;
        for place in (0..USERS / 2).filter(|_| !drain) {
            let first = first + place * PER_USER;
            spawn_local(self.clone().ones::<Grown>(first, place % 2 == 0));
        }
    }

    /// Submits operations one after the other.
    async fn ones<O: Story>(self, first: u64, once: bool) {
        for n in (first..first + PER_USER).step_by(2) {
            while self.runtime.in_flight() > MOST {
                tokio::time::sleep(PAUSE).await;
            }
            self.one::<O>(n, once).await;
        }
    }

    async fn one<O: Story>(&self, n: u64, once: bool) {
        self.say_submitted::<O>(n, once);
        let mut operation = O::make(n);
        let refused = loop {
            let submission = self.runtime.submit(operation);
            let submission = match (once, mixed(n) % 8) {
                (true, _) => submission.once(n),
                (false, 0) => submission.after(Duration::from_micros(300)),
                (false, _) => submission,
            };
            match submission.start() {
                Ok(handle) => return self.say_outcome(n, handle.await),
                // The journal fails at times, on purpose. A fom that could not commit continues by itself soon.
                Err(refused)
                    if refused.reason() == RefusedReason::Quarantined && self.all_go_on() =>
                {
                    operation = refused.into_operation();
                    tokio::time::sleep(PAUSE).await;
                }
                Err(refused) => break refused.reason(),
            }
        };
        self.say_refused(n, refused);
    }

    /// Returns whether every fom in quarantine is one that may be there.
    fn all_go_on(&self) -> bool {
        let quarantined = self.runtime.quarantine().list();
        quarantined
            .iter()
            .filter(|quarantined| quarantined.kind() != QuarantineKind::Failed)
            .all(|quarantined| stalled(quarantined) || is_newer(quarantined))
    }

    /// Submits operations one after the other with the same key. After a restart, the last one may still be there.
    async fn chained<O: Story>(self, first: u64, chain: u64) {
        for n in first..first + PER_USER {
            let Some(handle) = self.with_key::<O>(n, ("chain", chain).into()).await else {
                return;
            };
            self.say_outcome(n, handle.await);
        }
    }

    /// Submits the operation once its key is free. Returns `None` if that never succeeds.
    pub(crate) async fn with_key<O: Story>(&self, n: u64, key: Key) -> Option<Handle<O>> {
        let mut operation = O::make(n);
        loop {
            self.say_submitted::<O>(n, false);
            let submission = self.runtime.submit(operation).key(key.clone());
            let refused = match submission.start() {
                Ok(handle) => return Some(handle),
                Err(refused) => refused,
            };
            let RefusedReason::KeyInUse = refused.reason() else {
                self.say_refused(n, refused.reason());
                return None;
            };
            if let Some(live) = refused.live() {
                // No phase is listed, so this waits until the fom ends. After a failed commit the fom has ended for its
                // handle, but comes back soon.
                live.reached([]).await;
            }
            tokio::time::sleep(PAUSE).await;
            operation = refused.into_operation();
        }
    }

    /// Posts some operations to a queue, then submits some, so many at a time that most of them wait.
    async fn line(self, first: u64, line: u64) {
        let key = Key::from(("line", line));
        let mut waiting = VecDeque::new();
        let mut n = first;
        while n + 10 < first + PER_USER {
            let Some(post) = self.with_key::<Post>(n, key.clone()).await else {
                return;
            };
            let posted = posted(n);
            let outcome = post.await;
            let went_well = outcome.is_ok();
            self.say_outcome(n, outcome);
            n += 1 + posted;
            // A fom that could not commit posts later. An operation submitted now would go before the posted ones.
            if !went_well {
                continue;
            }
            for _ in 0..mixed(n) % 4 {
                self.queue(n, &key, false, &mut waiting).await;
                n += 1;
            }
        }
    }

    /// Submits operations of which some share a key. Those that share wait for those that do not.
    async fn sharing(self, first: u64, line: u64) {
        let key = Key::from(("shared", line));
        let mut waiting = VecDeque::new();
        for n in first..first + PER_USER {
            self.queue(n, &key, is_shared(n), &mut waiting).await;
        }
    }

    /// Submits operations of a series, each with a key of its own.
    async fn series<O: Story>(self, first: u64, line: u64, make: fn(u64, u64) -> O) {
        let mut waiting = VecDeque::<(u64, Handle<O>)>::new();
        for n in first..first + PER_USER {
            if waiting.len() >= WAITING
                && let Some((n, handle)) = waiting.pop_front()
            {
                self.say_outcome(n, handle.await);
            }
            self.say_submitted::<O>(n, false);
            let operation = make(n, line);
            let series = operation.series().unwrap_or_default();
            let submission = self.runtime.submit(operation);
            match submission.key(("one", n)).serial(line).start() {
                Ok(handle) => {
                    // An operation that is not on disk yet may be the only one that a crash loses.
                    if !mixed(n).is_multiple_of(3) && handle.committed().await.is_ok() {
                        self.history.line(format_args!("B {n} {series}"));
                    }
                    waiting.push_back((n, handle));
                }
                Err(refused) => self.say_refused(n, refused.reason()),
            }
        }
    }

    pub(crate) async fn queue(
        &self,
        n: u64,
        key: &Key,
        shared: bool,
        waiting: &mut VecDeque<(u64, Handle<Queued>)>,
    ) {
        if waiting.len() >= WAITING
            && let Some((n, handle)) = waiting.pop_front()
        {
            self.say_outcome(n, handle.await);
        }
        self.say_submitted::<Queued>(n, false);
        let submission = self.runtime.submit(Queued::make(n)).key(key.clone());
        let submission = match shared {
            true => submission.queue().shared(),
            false => submission.queue(),
        };
        match submission.start() {
            Ok(handle) => waiting.push_back((n, handle)),
            Err(refused) => self.say_refused(n, refused.reason()),
        }
    }

    /// Submits the operations that pay for their events, one after the other.
    async fn bills(self, first: u64) {
        for n in (first..first + PER_USER).step_by(NUMBERS as usize) {
            while self.runtime.in_flight() > MOST {
                tokio::time::sleep(PAUSE).await;
            }
            match is_desk(n) {
                true => self.pays::<Desk>(n).await,
                false => self.pays::<Till>(n).await,
            }
        }
    }

    async fn pays<O: Story + Operation<Event = Bill>>(&self, n: u64) {
        let Some(handle) = self.with_key::<O>(n, ("bills", n).into()).await else {
            return;
        };
        // An event before the first commit of the operation may go to an operation that a crash undoes.
        while handle.phase() == O::GRAPH.phases()[0].name() {
            tokio::time::sleep(PAUSE).await;
        }
        // After a restart the operation sends them to itself again. An ended operation needs none.
        let _ = send_bills(&handle.sender());
        self.say_outcome(n, handle.await);
    }

    pub(crate) fn say_refused(&self, n: u64, reason: RefusedReason) {
        self.history
            .line(format_args!("X {n} was refused: {reason}"));
    }

    pub(crate) fn say_submitted<O: Story>(&self, n: u64, once: bool) {
        let once = if once { "once" } else { "-" };
        self.history
            .line(format_args!("S {n} {} {once}", O::LETTER));
    }

    pub(crate) fn say_outcome<O: Story>(&self, n: u64, outcome: Result<Ended<O>, Failure<O>>) {
        match outcome {
            Ok(ended) => self
                .history
                .line(format_args!("H {n} {}", ended.operation.outcome())),
            Err(failure) => self.history.line(format_args!(
                "H {n} failed-{}",
                failure.cause.name().replace(' ', "-")
            )),
        }
    }
}

/// Submits operations of an earlier life again, with their ids.
pub(crate) async fn resubmit(user: User, again: Vec<(char, u64)>) {
    let begun = Instant::now();
    let mut waits = BTreeMap::new();
    for (letter, n) in again {
        let user = user.clone();
        waits.insert(
            n,
            spawn_local(async move {
                match letter {
                    Walk::LETTER => user.one::<Walk>(n, true).await,
                    Tick::LETTER => user.one::<Tick>(n, true).await,
                    Fail::LETTER => user.one::<Fail>(n, true).await,
                    Grown::LETTER => user.one::<Grown>(n, true).await,
                    Guarded::<Tick>::LETTER => user.one::<Guarded<Tick>>(n, true).await,
                    _ => user.one::<Retry>(n, true).await,
                }
            }),
        );
    }
    for (n, wait) in waits {
        let left = DRAIN.saturating_sub(begun.elapsed());
        if tokio::time::timeout(left, wait).await.is_err() {
            user.history
                .line(format_args!("X {n}, submitted again, has no outcome"));
        }
    }
}
