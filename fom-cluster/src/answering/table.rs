//! Which calls a slot has begun, and what it has answered.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use fom_protocol::sync::Mutex;
use fom_runtime::FomId;
use tokio::sync::oneshot;

use crate::{call::Reply, clock::boot_time, numbers::Ranges};

/// The most calls that a slot answers at once.
const WINDOW: usize = 1024;

/// How long a caller is known after its last call. Callers repeat a call for a shorter time.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// The calls of a slot, since this node owns it.
#[derive(Default)]
pub(super) struct Table(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    callers: HashMap<String, Caller>,
    /// The number of calls without an answer.
    running: usize,
}

#[derive(Default)]
struct Caller {
    heard: Duration,
    /// The calls that are never repeated.
    done: Ranges,
    calls: BTreeMap<u64, State>,
}

enum State {
    Runs(Run),
    Answered(Reply),
}

/// A call without an answer.
#[derive(Default)]
struct Run {
    /// `None` until it has started.
    fom: Option<FomId>,
    waiting: Vec<oneshot::Sender<Reply>>,
}

impl Run {
    fn wait(&mut self) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(answer);
        answered
    }
}

impl Caller {
    /// Notes calls that are never repeated. Returns the foms of those that run.
    fn done(&mut self, done: &Ranges) -> Vec<FomId> {
        self.done.add(done);
        let mut foms = Vec::new();
        let done = &self.done;
        self.calls.retain(|number, state| {
            if !done.contains(*number) {
                return true;
            }
            match state {
                State::Runs(run) => {
                    foms.extend(run.fom);
                    true
                }
                State::Answered(_) => false,
            }
        });
        foms
    }
}

/// What is to be done with a call.
pub(super) enum Begun {
    /// The caller of this function runs it, and waits.
    Runs(oneshot::Receiver<Reply>),
    /// It runs already.
    Waits(oneshot::Receiver<Reply>),
    Answered(Reply),
    Busy,
}

impl Table {
    /// Begins a call. Also returns the foms of calls that no caller waits for.
    pub(super) fn begin(&self, caller: &str, number: u64, done: &Ranges) -> (Begun, Vec<FomId>) {
        let mut inner = self.0.lock();
        let Inner { callers, running } = &mut *inner;
        let now = boot_time();
        if !callers.contains_key(caller) {
            callers.retain(|_, caller| {
                let runs = |state: &State| matches!(state, State::Runs(_));
                now.saturating_sub(caller.heard) < REMEMBERED || caller.calls.values().any(runs)
            });
        }
        let caller = callers.entry(caller.to_owned()).or_default();
        caller.heard = now;
        let dropped = caller.done(done);
        let begun = match caller.calls.get_mut(&number) {
            Some(State::Answered(reply)) => Begun::Answered(reply.clone()),
            Some(State::Runs(run)) => Begun::Waits(run.wait()),
            // A message that was late: its call is done, and its caller has the answer or has gone.
            None if caller.done.contains(number) => {
                Begun::Answered(Reply::Failed("the call is done".to_owned()))
            }
            None if *running >= WINDOW => Begun::Busy,
            None => {
                let mut run = Run::default();
                let answered = run.wait();
                caller.calls.insert(number, State::Runs(run));
                *running += 1;
                Begun::Runs(answered)
            }
        };
        (begun, dropped)
    }

    /// Notes the fom of a call. Returns it if no caller waits for it any more.
    pub(super) fn started(&self, caller: &str, number: u64, fom: FomId) -> Option<FomId> {
        let mut inner = self.0.lock();
        let caller = inner.callers.get_mut(caller)?;
        if let Some(State::Runs(run)) = caller.calls.get_mut(&number) {
            run.fom = Some(fom);
        }
        caller.done.contains(number).then_some(fom)
    }

    /// Notes calls that are never repeated. Returns the foms of those that run.
    pub(super) fn done(&self, caller: &str, done: &Ranges) -> Vec<FomId> {
        let mut inner = self.0.lock();
        let caller = inner.callers.get_mut(caller);
        caller.map_or_else(Vec::new, |caller| caller.done(done))
    }

    pub(super) fn answer(&self, caller: &str, number: u64, reply: Reply) {
        let waiting = {
            let mut inner = self.0.lock();
            let Some(caller) = inner.callers.get_mut(caller) else {
                return;
            };
            let Some(State::Runs(run)) = caller.calls.remove(&number) else {
                return;
            };
            if !caller.done.contains(number) {
                caller.calls.insert(number, State::Answered(reply.clone()));
            }
            inner.running -= 1;
            run.waiting
        };
        for waiting in waiting {
            // The caller may have gone.
            let _ = waiting.send(reply.clone());
        }
    }

    /// Forgets a call that has no answer.
    pub(super) fn forget(&self, caller: &str, number: u64) {
        let mut inner = self.0.lock();
        let Some(caller) = inner.callers.get_mut(caller) else {
            return;
        };
        if let Some(State::Runs(_)) = caller.calls.get(&number) {
            // The waiters are dropped, and call again.
            let forgotten = caller.calls.remove(&number);
            inner.running -= 1;
            drop(inner);
            drop(forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::Blob, numbers::Numbers};

    fn reply(text: &str) -> Reply {
        Reply::Answer(Blob(text.into()))
    }

    fn begin(table: &Table, caller: &str, number: u64, done: &Ranges) -> Begun {
        table.begin(caller, number, done).0
    }

    /// PR-07: while it runs, a repeated call waits for the same answer. After that, it gets the answer that is kept.
    #[test]
    fn a_repeated_call_runs_once() {
        let (table, mut numbers) = (Table::default(), Numbers::default());
        let (number, done) = numbers.begin();
        let Begun::Runs(mut first) = begin(&table, "a", number, &done) else {
            panic!("it runs");
        };
        let Begun::Waits(mut second) = begin(&table, "a", number, &done) else {
            panic!("it waits");
        };
        table.answer("a", number, reply("seven"));
        assert_eq!(first.try_recv().unwrap(), reply("seven"));
        assert_eq!(second.try_recv().unwrap(), reply("seven"));
        let Begun::Answered(again) = begin(&table, "a", number, &done) else {
            panic!("it is answered");
        };
        assert_eq!(again, reply("seven"));
        // Another caller has numbers of its own.
        assert!(matches!(begin(&table, "b", number, &done), Begun::Runs(_)));
    }

    /// The answer is kept as long as the caller may repeat the call. A message that comes later runs nothing.
    #[test]
    fn what_is_done_is_forgotten_and_never_runs() {
        let (table, mut numbers) = (Table::default(), Numbers::default());
        for _ in 0..100 {
            let (number, done) = numbers.begin();
            assert!(matches!(begin(&table, "a", number, &done), Begun::Runs(_)));
            table.answer("a", number, reply("answer"));
            numbers.done(number);
        }
        assert_eq!(table.0.lock().callers["a"].calls.len(), 1);
        let (number, done) = numbers.begin();
        assert!(matches!(begin(&table, "a", number, &done), Begun::Runs(_)));
        for late in 0..number {
            let begun = begin(&table, "a", late, &Ranges::default());
            assert!(matches!(begun, Begun::Answered(Reply::Failed(_))));
        }
        // A caller that has gone before the answer does not get one.
        numbers.done(number);
        let (next, done) = numbers.begin();
        assert!(matches!(begin(&table, "a", next, &done), Begun::Runs(_)));
        table.answer("a", number, reply("late"));
        let inner = table.0.lock();
        assert_eq!(inner.callers["a"].calls.len(), 1);
        assert_eq!(inner.running, 1);
    }

    /// A dropped fom forgets its call, so the call can run again. A slot refuses calls beyond its window.
    #[test]
    fn a_dropped_call_can_run_again_and_too_many_calls_are_refused() {
        let (table, none) = (Table::default(), Ranges::default());
        let Begun::Runs(mut dropped) = begin(&table, "a", 0, &none) else {
            panic!("it runs");
        };
        table.forget("a", 0);
        assert!(dropped.try_recv().is_err());
        for number in 0..WINDOW as u64 {
            assert!(matches!(begin(&table, "a", number, &none), Begun::Runs(_)));
        }
        let number = WINDOW as u64;
        assert!(matches!(begin(&table, "a", number, &none), Begun::Busy));
        table.answer("a", 3, reply("answer"));
        assert!(matches!(begin(&table, "a", number, &none), Begun::Runs(_)));
    }

    /// A call that runs is ended when its caller has gone, also if that is known before it has started.
    #[test]
    fn a_call_that_no_caller_waits_for_is_ended() {
        let (table, none) = (Table::default(), Ranges::default());
        let mut done = Ranges::default();
        done.insert(0);
        let fom = FomId::from;
        for number in 0..2 {
            assert!(matches!(begin(&table, "a", number, &none), Begun::Runs(_)));
        }
        assert_eq!(table.started("a", 0, fom(10)), None);
        assert_eq!(table.done("a", &done), [fom(10)]);
        done.insert(1);
        assert_eq!(table.done("a", &done), [fom(10)]);
        assert_eq!(table.started("a", 1, fom(11)), Some(fom(11)));
        // With the next call, too.
        let (_, dropped) = table.begin("a", 2, &done);
        assert_eq!(dropped, [fom(10), fom(11)]);
        table.forget("a", 0);
        assert_eq!(table.done("a", &done), [fom(11)]);
        assert_eq!(table.done("b", &done), []);
    }
}
