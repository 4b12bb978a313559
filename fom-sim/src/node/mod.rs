//! A node: a machine of the simulated program, which can be killed and starts again.

use std::{
    any::Any,
    fmt, io,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use fom_protocol::{
    schedule::Schedule as _,
    sync::{Condvar, Mutex},
};
use fom_runtime::{
    Builder, Runtime,
    config::Shutdown,
    extension::{Run, RunListener},
    observe::Transition,
};

mod call;
mod current;
mod process;
mod world;

pub use call::Lost;
pub(crate) use current::current;
pub use process::Process;
pub(crate) use world::{Here, World, lock};

use call::Call;
use current::{phase_begins, run_begins, run_ends};

use crate::{baton::Group, timeline::Event};

/// Time of the simulation for the end of a runtime, so it costs nothing.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// A node of the simulation: one process on one machine. Clones are the same node.
///
/// A [kill](Self::kill) ends the runtime of a node at once, as `kill -9` does, and the node starts with a new one. What the
/// node keeps is in its [disk](crate::Disk), and in what the test gave to it.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    name: String,
    world: Arc<World>,
    make: Box<Make>,
    state: Mutex<State>,
    changed: Condvar,
    /// How far its wall clock is ahead, in nanoseconds.
    skew: AtomicI64,
}

/// Makes what runs on a node. Fails with the reason.
type Make = dyn Fn() -> Result<Made, String> + Send + Sync;

/// What runs on a node.
#[derive(Clone)]
pub(crate) enum Made {
    Runtime(Runtime),
    /// The value of a [`Process`].
    Value(Arc<dyn Any + Send + Sync>),
}

impl Made {
    /// Returns the runtime.
    fn runtime(self) -> Runtime {
        match self {
            Self::Runtime(runtime) => runtime,
            Self::Value(_) => unreachable!("a process is no `Node` for a user"),
        }
    }

    /// Returns the number of operations that have not ended. Those of a process are for the test.
    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Self::Runtime(runtime) => runtime.in_flight(),
            Self::Value(_) => 0,
        }
    }

    /// Returns what the report of a failure shows.
    pub(crate) fn listing(&self) -> String {
        match self {
            Self::Runtime(runtime) => runtime.operations().to_string(),
            Self::Value(_) => "runs".to_owned(),
        }
    }

    /// Ends it, when the run is over.
    pub(crate) fn end(self) {
        match self {
            Self::Runtime(runtime) => _ = runtime.shutdown_blocking(Shutdown::Now, LONG),
            Self::Value(value) => drop(value),
        }
    }
}

#[derive(Default)]
struct State {
    /// The number of the life that began last; 0 after a kill.
    life: u64,
    /// `None` while the node is down, or starts.
    made: Option<Made>,
    /// The requests that break when the node is killed.
    calls: Vec<Weak<dyn Call>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.name).finish()
    }
}

/// A life of a node: from a start to a kill.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) node: Node,
    number: u64,
}

impl Life {
    pub(crate) fn group(&self) -> Group {
        Group::Life(self.number)
    }

    /// Lets a fault happen here, or not. After a kill, the call returns when the run is over.
    pub(crate) fn fault_point(&self) {
        let world = &self.node.0.world;
        if let Some(jump) = world.faults.draw_jump(&world.baton) {
            self.node.0.skew.fetch_add(jump, Ordering::Relaxed);
            let jump = Duration::from_nanos(jump.unsigned_abs());
            world.note(
                self.node.name(),
                format!("its wall clock jumps by {jump:?}"),
            );
        }
        if world.faults.draw_kill(&world.baton, self.node.name()) {
            self.kill();
        }
        if let Some(time) = world.faults.draw_stop(&world.baton, self.node.name()) {
            self.stop(time);
        }
    }

    /// Stops all threads of the node for a time.
    fn stop(&self, time: Duration) {
        let (world, group) = (Arc::clone(&self.node.0.world), self.group());
        world.note(self.node.name(), format!("stopped for {time:?}"));
        let of = Arc::clone(&world);
        let goes_on = move || {
            of.faults.pause(&of.baton, time);
            of.baton.goes_on(group);
        };
        world.spawn_task(format!("{}: goes on", self.node.name()), goes_on);
        world.baton.stop(group);
    }

    fn kill(&self) {
        let inner = &self.node.0;
        let world = &inner.world;
        let calls = {
            let mut state = inner.state.lock();
            if state.life != self.number || world.is_over() {
                return;
            }
            std::mem::take(&mut *state).calls
        };
        world.baton.freeze_others(self.group());
        let pause = world.faults.draw_pause(&world.baton);
        world.note(&inner.name, format!("killed, starts in {pause:?}"));
        self.node.start(pause);
        for call in calls.iter().filter_map(Weak::upgrade) {
            call.breaks();
        }
        world.baton.freeze_this(self.group());
    }
}

impl Node {
    pub(crate) fn new(
        name: &str,
        world: &Arc<World>,
        make: impl Fn() -> Result<Made, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            world: Arc::clone(world),
            make: Box::new(make),
            state: Mutex::default(),
            changed: Condvar::default(),
            skew: AtomicI64::new(0),
        }))
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the runtime of the node. While the node is down, the call waits until it has started again.
    ///
    /// The runtime ends with its life: after a [kill](Self::kill), nothing that is asked of it is ever answered. A client that
    /// must notice that uses [`call`](Self::call).
    pub fn runtime(&self) -> Runtime {
        self.made().runtime()
    }

    /// Waits until the node is not down. Returns what runs on it.
    pub(crate) fn made(&self) -> Made {
        let mut state = self.0.state.lock();
        loop {
            if let Some(made) = &state.made {
                return made.clone();
            }
            state = self.0.changed.wait(state);
        }
    }

    /// Returns what runs, if the node is not down.
    pub(crate) fn running(&self) -> Option<Made> {
        self.0.state.lock().made.clone()
    }

    /// Ends the node as `kill -9` does: its threads never go on, and its disk keeps what was synced, with a part of what was
    /// not. The node starts again, with the same function as before. If the node is down, the call does nothing.
    ///
    /// In a phase of this node, the call never returns.
    pub fn kill(&self) {
        let number = self.0.state.lock().life;
        if number > 0 {
            let node = self.clone();
            Life { node, number }.kill();
        }
    }

    /// Notes a request that breaks when the node is killed. Returns what serves it, and its life. `None` if the node is down.
    pub(crate) fn serve(&self, call: Weak<dyn Call>) -> Option<(Made, Life)> {
        let mut state = self.0.state.lock();
        let made = state.made.clone()?;
        state.calls.retain(|call| call.strong_count() > 0);
        state.calls.push(call);
        let life = Life {
            node: self.clone(),
            number: state.life,
        };
        Some((made, life))
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.0.world
    }

    /// Returns how far the wall clock of the node is ahead, in nanoseconds.
    pub(crate) fn skew(&self) -> i64 {
        self.0.skew.load(Ordering::Relaxed)
    }

    /// Forgets the runtime, which holds the node.
    pub(crate) fn forget(&self) {
        drop(std::mem::take(&mut *self.0.state.lock()));
    }

    /// Starts the node after a pause, in a thread of its own.
    pub(crate) fn start(&self, pause: Duration) {
        let node = self.clone();
        let world = &self.0.world;
        world.spawn_task(format!("{}: start", self.0.name), move || {
            let world = &node.0.world;
            world.faults.pause(&world.baton, pause);
            let number = world.next_life();
            node.0.state.lock().life = number;
            let life = Life {
                node: node.clone(),
                number,
            };
            // From now on, a kill ends this thread, too.
            world.baton.join(life.group());
            match life.build() {
                Ok(made) => node.started(made),
                Err(error) => {
                    let text = format!("the node {} does not start: {error}", node.0.name);
                    world.baton.fail(text);
                }
            }
            world.baton.join(Group::Test);
        });
    }

    fn started(&self, made: Made) {
        let world = &self.0.world;
        if world.is_over() {
            // The node was killed when it started, and it is only now that this thread goes on.
            made.end();
            return;
        }
        world.keep(made.clone());
        self.0.state.lock().made = Some(made);
        self.0.changed.notify_all();
        world.tell_settling();
    }
}

impl Life {
    fn build(&self) -> Result<Made, String> {
        let here = Here {
            world: Arc::clone(&self.node.0.world),
            life: Some(self.clone()),
        };
        here.with(|| (self.node.0.make)())
    }

    /// Hears of each transition.
    fn saw(&self, transition: &Transition<'_>) {
        phase_begins(transition);
        let world = &self.node.0.world;
        if world.is_over() {
            return;
        }
        world
            .timeline
            .push(Event::of(world.baton.now(), self.node.name(), transition));
        world.check_invariants();
        if transition.ends() || transition.to().is_none() {
            world.tell_settling();
        }
        self.fault_point();
        world.baton.turn();
    }
}

/// Makes a runtime that is built on this thread a part of the simulation. Outside of the nodes, it is a part of the test, and
/// cannot be killed.
pub(crate) fn adopt(builder: &mut Builder) {
    let Some(Here { world, life }) = Here::get() else {
        return;
    };
    let life = life.unwrap_or_else(|| Life {
        node: Node::new("runtime", &world, || Err("it is no node".into())),
        number: world.next_life(),
    });
    let of = life.clone();
    let spawn = move |thread: String, main: Box<dyn FnOnce() + Send>| -> io::Result<()> {
        let name = format!("{}: {thread}", of.node.name());
        of.node.0.world.spawn(name, Some(of.clone()), main)
    };
    let watch = life.clone();
    *builder = std::mem::take(builder)
        .spawn_with(spawn)
        .pin(false)
        .listen(move |transition| watch.saw(transition))
        .listen_to_runs(Turns(life));
}

/// Starts a thread where this one is.
pub(crate) fn spawn(name: &str, main: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    let Some(Here { world, life }) = Here::get() else {
        return Err(io::Error::other("this thread belongs to no simulation"));
    };
    let of = life.as_ref().map_or("the test", |life| life.node.name());
    world.spawn(format!("{of}: {name}"), life.clone(), main)
}

/// Returns the function that makes a runtime of a builder.
pub(crate) fn builds(
    make: impl Fn() -> Builder + Send + Sync + 'static,
) -> impl Fn() -> Result<Made, String> + Send + Sync + 'static {
    move || {
        let built = make().build();
        built.map(Made::Runtime).map_err(|error| error.to_string())
    }
}

/// Lets other threads run before each run of a fom.
struct Turns(Life);

impl RunListener for Turns {
    fn begins(&self, run: &Run<'_>) {
        run_begins(run);
        let world = &self.0.node.0.world;
        if world.is_over() {
            return;
        }
        self.0.fault_point();
        world.faults.long_run(&world.baton);
        world.baton.turn();
    }

    fn ends(&self) {
        run_ends();
    }
}
