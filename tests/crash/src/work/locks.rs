//! An operation that holds long locks over two phases, and over the commit between them.

use std::time::Duration;

use fom_patterns::{
    lock::{LockMode, LockSet, LongLocks},
    prelude::*,
};
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};
use crate::history::History;

/// The number of locks.
const ACCOUNTS: u64 = 5;

/// The lock tables. Two tables that do not know of each other give no locks at all, and the harness must find that.
#[derive(Clone, Debug)]
pub(crate) struct Tables(pub(crate) [LongLocks; 2]);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    mark: Mark,
}

#[fom(operation(Move))]
pub(crate) enum Moving {
    #[phase(start, sync, to(Take))]
    Begin,
    #[phase(to(Give), locks)]
    Take,
    #[phase(sync, to(Last), locks)]
    Give,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl Move {
    /// Returns two accounts. Some operations only read the first.
    fn accounts(&self) -> [(u64, LockMode); 2] {
        let any = mixed(self.mark.n);
        let first = any % ACCOUNTS;
        let second = (first + 1 + any / 8 % (ACCOUNTS - 1)) % ACCOUNTS;
        let mode = match any / 64 % 2 {
            0 => LockMode::Read,
            _ => LockMode::Write,
        };
        [(first, mode), (second, LockMode::Write)]
    }

    fn both(&self, cx: &Cx<'_>) -> LockSet {
        let table = &cx.resource::<Tables>().0[(mixed(self.mark.n) / 4096 % 2) as usize];
        let accounts = self.accounts().into_iter();
        accounts.fold(LockSet::new(), |set, (account, mode)| {
            set.with(&table.of(account), mode)
        })
    }

    fn say(&self, cx: &Cx<'_>, what: &str) {
        for (account, mode) in self.accounts() {
            let n = self.mark.n;
            let mode = if mode == LockMode::Write { 'w' } else { 'r' };
            let history = cx.resource::<History>();
            history.line(format_args!("{what} {n} {account} {mode}"));
        }
    }
}

impl MovingTransitions for Move {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Begin")
    }
    fn take_locks(&self, cx: &Cx<'_>) -> LockSet {
        self.both(cx)
    }
    async fn take(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx, "G");
        self.mark.effect(cx, "Take");
        cx.sleep(Duration::from_micros(mixed(self.mark.n) % 1_000))
            .await;
        self.mark.hop();
        self.say(cx, "V");
        Ok(())
    }
    fn give_locks(&self, cx: &Cx<'_>) -> LockSet {
        self.both(cx)
    }
    fn give(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx, "G");
        self.mark.effect(cx, "Give");
        self.mark.hop();
        self.say(cx, "U");
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Move {
    const LETTER: char = 'l';
    fn make(n: u64) -> Self {
        Self { mark: Mark::new(n) }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        "moved".to_owned()
    }
    fn due(_: u64) -> String {
        "moved".to_owned()
    }
}
