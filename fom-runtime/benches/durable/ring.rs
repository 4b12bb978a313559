//! Operations without a runtime: a thread makes their transitions, another one commits them.

use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use kit::{now, pin};

use crate::{
    LIFE, Load,
    stored::{Change, State, Store},
};

struct Op {
    id: u64,
    /// The operation before this one. It ended with the transition that began this one.
    ended: Option<u64>,
    /// The number of transitions until its end.
    left: u32,
    /// The time of its last transition.
    made: u64,
    state: State,
}

impl Op {
    fn new(id: u64) -> Self {
        Self {
            id,
            ended: None,
            left: LIFE,
            made: now(),
            state: State::new(id),
        }
    }

    /// Makes one transition. `next` is the id of the next operation.
    fn go(&mut self, next: &mut u64) {
        self.ended = None;
        self.left -= 1;
        if self.left == 0 {
            let ended = self.id;
            *self = Self::new(*next);
            self.ended = Some(ended);
            *next += 1;
            return;
        }
        self.state.change();
        self.made = now();
    }

    fn change(&self) -> Change<'_> {
        Change {
            id: self.id,
            state: &self.state.0,
            ended: self.ended,
        }
    }
}

/// Starts both threads. All operations travel together. With two halves, one worked on while the other is committed,
/// there are twice as many syncs. That is slower with few operations in flight and no faster with many.
pub(crate) fn start(load: Load, store: Box<dyn Store>) {
    let (made, to_commit) = unbounded();
    let (committed, to_work) = unbounded();
    made.send(begin(load)).expect("it is there");
    thread::spawn(move || work(load, &to_work, &made));
    thread::spawn(move || commit(load, store, &to_commit, &committed));
}

fn begin(load: Load) -> Vec<Op> {
    (1..=load.flying as u64).map(Op::new).collect()
}

fn work(load: Load, to_work: &Receiver<Vec<Op>>, made: &Sender<Vec<Op>>) {
    pin(0);
    let mut next = load.flying as u64 + 1;
    for mut ops in to_work {
        step(load, &mut ops, &mut next);
        count(load, ops.len());
        made.send(ops).expect("the committer runs");
    }
}

fn step(load: Load, ops: &mut [Op], next: &mut u64) {
    for op in &mut *ops {
        load.waits.add(now() - op.made);
        op.go(next);
    }
}

fn count(load: Load, ops: usize) {
    load.done.set(load.done.get() + ops as u64);
}

fn commit(
    load: Load,
    mut store: Box<dyn Store>,
    to_commit: &Receiver<Vec<Op>>,
    committed: &Sender<Vec<Op>>,
) {
    for ops in to_commit {
        store.commit(&mut ops.iter().map(Op::change));
        load.syncs.add_alone();
        committed.send(ops).expect("the worker runs");
    }
}

/// As [`start`], with two threads that work on half of the operations each. Both halves share a sync: with one for each,
/// there are twice as many.
pub(crate) fn two(load: Load, store: Box<dyn Store>) {
    let mut halves = [begin(load), Vec::new()];
    halves[1] = halves[0].split_off(load.flying / 2);
    let ends = [0, 1].map(|half| {
        let (made, to_commit) = unbounded();
        let (committed, to_work) = unbounded::<Vec<Op>>();
        made.send(std::mem::take(&mut halves[half]))
            .expect("it is there");
        thread::spawn(move || {
            pin(half);
            // Half of all ids each.
            let mut next = (half as u64 + 1) << 60;
            for mut ops in to_work {
                step(load, &mut ops, &mut next);
                made.send(ops).expect("the committer runs");
            }
        });
        (to_commit, committed)
    });
    thread::spawn(move || commit_both(load, store, &ends));
}

/// The committer's ends of the channels to one worker.
type Ends = (Receiver<Vec<Op>>, Sender<Vec<Op>>);

fn commit_both(load: Load, mut store: Box<dyn Store>, ends: &[Ends; 2]) {
    loop {
        let halves = ends
            .each_ref()
            .map(|(made, _)| made.recv().expect("the worker runs"));
        store.commit(&mut halves.iter().flatten().map(Op::change));
        load.syncs.add_alone();
        count(load, load.flying);
        for (half, (_, committed)) in halves.into_iter().zip(ends) {
            committed.send(half).expect("the worker runs");
        }
    }
}

/// Does everything in one thread: nothing is handed over, and no operation runs during a sync.
pub(crate) fn alone(load: Load, mut store: Box<dyn Store>) {
    let mut ops = begin(load);
    thread::spawn(move || {
        pin(0);
        let mut next = ops.len() as u64 + 1;
        loop {
            store.commit(&mut ops.iter().map(Op::change));
            load.syncs.add_alone();
            step(load, &mut ops, &mut next);
            count(load, ops.len());
        }
    });
}
