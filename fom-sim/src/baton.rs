//! The threads of a simulation: real threads that pass a baton. Only the thread that has the baton runs.
//!
//! A thread that would block passes the baton to a thread that is ready, which is drawn. If none is ready, time moves to the
//! next deadline. If there is none either, all threads wait for each other for ever.

use std::{
    any::Any,
    cell::Cell,
    fmt::Write as _,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use fom_protocol::schedule::{Part, Schedule, address, take_part};
use fom_runtime::Builder;

use crate::choices::Choices;

/// The thread that runs the program of the test.
const DRIVER: usize = 0;

thread_local! {
    /// The index of this thread in its simulation.
    static ME: Cell<usize> = const { Cell::new(DRIVER) };
    /// Whether this thread starts a thread of the simulation.
    static SPAWNS: Cell<bool> = const { Cell::new(false) };
}

/// Returns the index of this thread in its simulation.
pub(crate) fn me() -> usize {
    ME.get()
}

/// Returns whether this thread starts a thread of the simulation.
pub(crate) fn spawns() -> bool {
    SPAWNS.get()
}

/// Says who runs.
#[derive(Debug)]
pub(crate) struct Baton {
    state: Mutex<State>,
    /// The time since the simulation began, in nanoseconds.
    now: Arc<AtomicU64>,
    entries: Entries,
}

/// What a thread runs.
pub(crate) type Main = Box<dyn FnOnce() + Send>;

/// How what a program makes becomes a part of the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    /// For a runtime.
    pub(crate) adopt: fn(&mut Builder),
    /// For a thread.
    pub(crate) spawn: fn(&str, Main) -> io::Result<()>,
}

#[derive(Debug)]
struct State {
    threads: Vec<Member>,
    /// The threads that have not ended, in ascending order.
    alive: Vec<usize>,
    /// The thread that has the baton.
    runs: usize,
    /// How often a thread has passed the baton on.
    turns: u64,
    choices: Choices,
    /// Why the simulation cannot go on. The driver learns of it.
    trouble: Option<String>,
    /// Whether all threads waited for each other.
    was_stuck: bool,
    /// The lives that are stopped and go on later.
    stopped: Vec<Group>,
    /// Whether the program has ended. What happens now belongs to no run.
    over: bool,
}

#[derive(Debug)]
struct Member {
    name: String,
    group: Group,
    stands: Stands,
    /// Whether its node is stopped. It runs when the node goes on.
    is_stopped: bool,
    timed_out: bool,
    /// Whether the run is over, and the thread is to end where it waits.
    ends: bool,
    bell: Arc<Condvar>,
}

/// What a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The program of the test, its tasks, and what the simulator itself runs.
    Test,
    /// A life of a node, which has a number.
    Life(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Ready,
    Waits {
        on: usize,
        until: Option<u64>,
    },
    /// Its node was killed.
    Frozen,
    Gone,
}

impl Member {
    fn new(name: String, group: Group) -> Self {
        Self {
            name,
            group,
            stands: Stands::Ready,
            is_stopped: false,
            timed_out: false,
            ends: false,
            bell: Arc::default(),
        }
    }

    fn is_ready(&self) -> bool {
        self.stands == Stands::Ready && !self.is_stopped
    }

    fn wake(&mut self, timed_out: bool) {
        self.stands = Stands::Ready;
        self.timed_out = timed_out;
    }
}

impl State {
    /// Notes that a thread has ended.
    fn gone(&mut self, thread: usize) {
        self.threads[thread].stands = Stands::Gone;
        self.alive.retain(|alive| *alive != thread);
    }
}

impl Baton {
    /// Makes the baton. The driver has it.
    pub(crate) fn new(choices: Choices, entries: Entries) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                threads: vec![Member::new("the test".to_owned(), Group::Test)],
                alive: vec![DRIVER],
                runs: DRIVER,
                turns: 0,
                choices,
                trouble: None,
                was_stuck: false,
                stopped: Vec::new(),
                over: false,
            }),
            now: Arc::default(),
            entries,
        })
    }

    /// Makes this thread the driver, until the guard is dropped.
    pub(crate) fn drive(self: &Arc<Self>) -> Part {
        ME.set(DRIVER);
        take_part(Arc::clone(self) as Arc<dyn Schedule>)
    }

    /// Returns the name of the thread that has the baton.
    pub(crate) fn running(&self) -> String {
        let state = self.lock();
        state.threads[state.runs].name.clone()
    }

    /// Returns how often a thread has passed the baton on.
    pub(crate) fn turns(&self) -> u64 {
        self.lock().turns
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn draw(&self, below: u32) -> u32 {
        self.lock().choices.draw(below)
    }

    /// Returns the choices so far, and how many possible ones there were at each.
    pub(crate) fn made(&self) -> (Vec<u32>, Vec<u32>) {
        let state = self.lock();
        let choices = &state.choices;
        (choices.made().to_vec(), choices.below().to_vec())
    }

    /// Ends the run with this reason. The driver learns of it where it waits.
    pub(crate) fn fail(&self, reason: String) {
        let mut state = self.lock();
        if !state.over {
            state.trouble.get_or_insert(reason);
            state.threads[DRIVER].wake(false);
        }
    }

    /// Whether all threads waited for each other.
    pub(crate) fn was_stuck(&self) -> bool {
        self.lock().was_stuck
    }

    /// Returns the reason of [`fail`](Self::fail), if the driver has not learned of it.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock().trouble.take()
    }

    /// Starts a thread of the simulation.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: String,
        group: Group,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let me = {
            let mut state = self.lock();
            let me = state.threads.len();
            state.threads.push(Member::new(name.clone(), group));
            state.alive.push(me);
            me
        };
        let baton = Arc::clone(self);
        let spawn = move || {
            ME.set(me);
            let part = take_part(Arc::clone(&baton) as Arc<dyn Schedule>);
            drop(baton.until_mine(baton.lock()));
            let ended = catch_unwind(AssertUnwindSafe(main));
            drop(part);
            baton.leave(me, ended.is_err());
        };
        SPAWNS.set(true);
        let spawned = thread::Builder::new().name(name).spawn(spawn);
        SPAWNS.set(false);
        if spawned.is_err() {
            self.lock().gone(me);
        }
        spawned.map(drop)
    }

    /// Ends the part of this thread.
    fn leave(&self, me: usize, panicked: bool) {
        let mut state = self.lock();
        state.gone(me);
        if panicked && !state.over {
            let reason = format!("the thread {} panicked", state.threads[me].name);
            state.trouble.get_or_insert(reason);
        }
        // The driver looks for threads that are left.
        notify(&mut state, address(self), true);
        let bell = choose(&mut state, &self.now, me);
        drop(state);
        bell.notify_one();
    }

    /// Makes this thread a part of a life of a node, or of the test again. If the node is stopped, the call returns when it
    /// goes on.
    pub(crate) fn join(&self, group: Group) {
        let mut state = self.lock();
        let is_stopped = state.stopped.contains(&group);
        let thread = &mut state.threads[ME.get()];
        thread.group = group;
        thread.is_stopped = is_stopped;
        if is_stopped {
            drop(self.pass(state));
        }
    }

    /// Stops all threads of a group until [`goes_on`](Self::goes_on). If this thread is one of them, the call returns then.
    pub(crate) fn stop(&self, group: Group) {
        let mut state = self.lock();
        state.stopped.push(group);
        for thread in &mut state.threads {
            thread.is_stopped |= thread.group == group;
        }
        if state.threads[ME.get()].is_stopped {
            drop(self.pass(state));
        }
    }

    /// Lets a group go on that was stopped. What its threads waited for may have happened meanwhile.
    pub(crate) fn goes_on(&self, group: Group) {
        let mut state = self.lock();
        state.stopped.retain(|stopped| *stopped != group);
        for thread in &mut state.threads {
            thread.is_stopped &= thread.group != group;
        }
    }

    /// Stops the other threads of a group where they are.
    pub(crate) fn freeze_others(&self, group: Group) {
        let mut state = self.lock();
        for (at, thread) in state.threads.iter_mut().enumerate() {
            if thread.group == group && thread.stands != Stands::Gone && at != ME.get() {
                thread.stands = Stands::Frozen;
            }
        }
    }

    /// If this thread belongs to the group, stops it. The call returns when the run is over.
    pub(crate) fn freeze_this(&self, group: Group) {
        let mut state = self.lock();
        let thread = &mut state.threads[ME.get()];
        if thread.group == group {
            thread.stands = Stands::Frozen;
            drop(self.pass(state));
        }
    }

    /// Ends the run: threads that were frozen go on, so that they can end, and those of the test end where they wait.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        state.stopped.clear();
        for thread in &mut state.threads[DRIVER + 1..] {
            thread.is_stopped = false;
            thread.ends = thread.group == Group::Test;
            let waits = matches!(thread.stands, Stands::Waits { .. });
            if thread.stands == Stands::Frozen || thread.ends && waits {
                thread.wake(false);
            }
        }
    }

    /// Waits until all other threads have ended, or for this time. Only the driver calls this.
    pub(crate) fn wait_for_others(&self, time: Duration) {
        let by = self.now() + time;
        let is_left = || {
            let others = &self.lock().threads[DRIVER + 1..];
            others.iter().any(|thread| thread.stands != Stands::Gone)
        };
        while is_left() && self.now() < by {
            self.wait(address(self), Some(by - self.now()));
        }
    }

    /// Passes the baton to a thread that is drawn, and waits until it is back.
    fn pass<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let bell = choose(&mut state, &self.now, ME.get());
        if state.runs == ME.get() {
            return state;
        }
        // The thread that wakes takes the lock.
        drop(state);
        bell.notify_one();
        self.until_mine(self.lock())
    }

    fn until_mine<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let me = ME.get();
        let bell = Arc::clone(&state.threads[me].bell);
        while state.runs != me {
            state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl Schedule for Baton {
    fn wait(&self, on: usize, time: Option<Duration>) -> bool {
        let me = ME.get();
        let mut state = self.lock();
        let until = time.map(|time| self.now.load(Ordering::Relaxed).saturating_add(nanos(time)));
        state.threads[me].stands = Stands::Waits { on, until };
        state = self.pass(state);
        if me == DRIVER
            && let Some(trouble) = state.trouble.take()
        {
            drop(state);
            panic!("{trouble}");
        }
        if state.threads[me].ends && !thread::panicking() {
            drop(state);
            resume_unwind(Box::new("the run is over"));
        }
        mem::take(&mut state.threads[me].timed_out)
    }

    fn notify(&self, on: usize, all: bool) {
        notify(&mut self.lock(), on, all);
    }

    fn turn(&self) {
        let state = self.lock();
        drop(self.pass(state));
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }

    fn clock(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.now)
    }

    fn adopt(&self, builder: &mut dyn Any) {
        if let Some(builder) = builder.downcast_mut() {
            (self.entries.adopt)(builder);
        }
    }

    fn spawn(&self, name: &str, main: Main) -> io::Result<()> {
        (self.entries.spawn)(name, main)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes the threads that wait for this ready: all of them, or one that is drawn.
fn notify(state: &mut State, on: usize, all: bool) {
    let waits = |at: &usize| matches!(state.threads[*at].stands, Stands::Waits { on: its, .. } if its == on);
    let mut waiting: Vec<_> = state.alive.iter().copied().filter(waits).collect();
    if !all && !waiting.is_empty() {
        let one = state.choices.draw(waiting.len() as u32);
        waiting = vec![waiting[one as usize]];
    }
    for thread in waiting {
        state.threads[thread].wake(false);
    }
}

/// Chooses the thread that runs next, and returns what wakes it. The plainest choice is the thread that runs now.
fn choose(state: &mut State, now: &AtomicU64, me: usize) -> Arc<Condvar> {
    state.turns += 1;
    loop {
        let is_ready = |at: &usize| state.threads[*at].is_ready();
        let (before, from_me) = state
            .alive
            .split_at(state.alive.partition_point(|at| *at < me));
        let ready = from_me.iter().chain(before).copied().filter(is_ready);
        let ready: Vec<_> = ready.collect();
        if !ready.is_empty() {
            let next = ready[state.choices.choose(&ready) as usize];
            state.runs = next;
            return Arc::clone(&state.threads[next].bell);
        }
        let untils = state
            .alive
            .iter()
            .filter_map(|at| match state.threads[*at].stands {
                Stands::Waits { until, .. } if !state.threads[*at].is_stopped => until,
                _ => None,
            });
        match untils.min() {
            Some(first) => {
                now.fetch_max(first, Ordering::Relaxed);
                for at in &state.alive {
                    let thread = &mut state.threads[*at];
                    if matches!(thread.stands, Stands::Waits { until: Some(until), .. } if until <= first)
                    {
                        thread.wake(true);
                    }
                }
            }
            None => {
                let trouble = stuck(state);
                state.trouble.get_or_insert(trouble);
                state.was_stuck = true;
                state.threads[DRIVER].wake(false);
            }
        }
    }
}

fn stuck(state: &State) -> String {
    let mut text = "every thread waits for another one, for ever:".to_owned();
    for thread in &state.threads {
        if !matches!(thread.stands, Stands::Gone | Stands::Frozen) {
            // Writing to a string never fails.
            let _ = write!(text, " {};", thread.name);
        }
    }
    text.pop();
    text.push_str(". A wake by a thread outside of the simulation is not seen");
    text
}
