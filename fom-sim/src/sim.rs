//! One run of a program.

use std::{future::Future, sync::Arc, time::Duration};

use fom_protocol::{panic_message, schedule::Schedule as _, sync::block_on};
use fom_runtime::Builder;

use crate::{
    chaos::Chaos,
    disk::Disk,
    node::{Here, LONG, Made, Node, Process, World, builds},
};

/// One run of a program under one seed. [`explore`](crate::explore) makes it.
#[derive(Debug)]
pub struct Sim {
    world: Arc<World>,
    nodes: Vec<Node>,
}

impl Sim {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            nodes: Vec::new(),
        }
    }

    /// Starts a node: a runtime with threads and a clock of the simulation, which replace those of the builder. The builder
    /// has everything else: the number of localities, the resources, the locality data, and the listeners. After a
    /// [kill](Node::kill), the node starts again with another builder of the function.
    ///
    /// # Panics
    ///
    /// Panics if there is a node of this name, and if the runtime cannot be built.
    pub fn node(&mut self, name: &str, make: impl Fn() -> Builder + Send + Sync + 'static) -> Node {
        let node = self.add(name, builds(make));
        node.made();
        node
    }

    /// Starts a process: a node that runs a program of its own, with its threads and any number of runtimes. `main` starts the
    /// program, and returns what stands for it. After a [kill](Process::kill), `main` runs again. Does not wait for `main`.
    ///
    /// All runtimes that the threads of the process build belong to it, and so do the threads that
    /// `fom_protocol::schedule::spawn` starts.
    ///
    /// # Panics
    ///
    /// Panics if there is a node of this name.
    pub fn process<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        main: impl Fn() -> T + Send + Sync + 'static,
    ) -> Process<T> {
        let made = move || Ok(Made::Value(Arc::new(main())));
        Process::of(self.add(name, made))
    }

    fn add(
        &mut self,
        name: &str,
        make: impl Fn() -> Result<Made, String> + Send + Sync + 'static,
    ) -> Node {
        assert!(
            self.find(name).is_none(),
            "there is a node `{name}`; give this one another name"
        );
        let node = Node::new(name, &self.world, make);
        self.nodes.push(node.clone());
        node.start(Duration::ZERO);
        node
    }

    /// Returns a disk that is empty.
    pub fn disk(&self) -> Disk {
        Disk::new(&self.world)
    }

    /// Sets the faults that may happen from now on. [`settle`](Self::settle) ends them.
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    /// use fom_sim as sim;
    ///
    /// sim::explore(0..10, |sim| {
    ///     let node = sim.node("node", || Runtime::builder().localities(1));
    ///     sim.during(|chaos| chaos.kill("node", 2).lose());
    ///     // ..
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no node of a name.
    pub fn during(&mut self, set: impl FnOnce(&mut Chaos) -> &mut Chaos) {
        let kills = self.world.faults.set(&self.world.baton, set);
        for name in self.world.faults.victims() {
            assert!(
                self.find(&name).is_some(),
                "there is no node `{name}` to kill"
            );
        }
        for (name, time) in kills {
            let Some(node) = self.find(&name).cloned() else {
                continue;
            };
            let main = move || {
                let world = node.world();
                world.faults.pause(&world.baton, time);
                if world.faults.takes_kill(node.name()) {
                    node.kill();
                }
            };
            self.world.spawn_task("the end of a node".to_owned(), main);
        }
    }

    /// Runs a future beside the rest of the program, on a thread of its own. If it panics, the run has failed.
    ///
    /// # Panics
    ///
    /// Panics if the system has no thread for it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (task, world) = (self.world.begin_task(), Arc::clone(&self.world));
        let main = move || {
            let _task = task;
            let ran = std::panic::AssertUnwindSafe(|| block_on(future));
            if let Err(panic) = std::panic::catch_unwind(ran) {
                let text = format!("a task panicked: {}", panic_message(panic));
                world.baton.fail(text);
            }
        };
        self.world.spawn_task("a task of the test".to_owned(), main);
    }

    /// Returns the time since the simulation began.
    pub fn now(&self) -> Duration {
        self.world.baton.now()
    }

    /// Checks this after each transition of each node, on the thread of the locality. If it panics, the run has failed. It must
    /// not block.
    pub fn always(&self, check: impl Fn() + Send + Sync + 'static) {
        self.world.add_invariant(Arc::new(check));
    }

    /// Waits until all operations and all tasks have ended. [Faults](Self::during) go on for a drawn time, from a second to 36
    /// hours. Then nodes that are down start, and the network and the disks work: from then on, all must end within `time`
    /// of the simulation.
    ///
    /// # Panics
    ///
    /// Panics if some have not ended by then, and lists them.
    pub fn settle(&self, time: Duration) {
        if let Some(time) = self.world.faults.draw_rest(&self.world.baton) {
            self.wait_for_ends(time);
        }
        self.world.faults.stop();
        self.world.faults.tell_calm(&self.world.baton);
        if !self.wait_for_ends(time) {
            panic!("not all has ended after {time:?}:\n{}", self.listing());
        }
    }

    /// Waits until all operations and all tasks have ended, or for this time. Returns whether they have.
    fn wait_for_ends(&self, time: Duration) -> bool {
        let by = self.now() + time;
        loop {
            // Time passes when no thread is ready. So what has ended is also counted by then.
            sleep(Duration::from_nanos(1));
            if self.is_settled() {
                return true;
            }
            let left = by.saturating_sub(self.now());
            if left.is_zero() {
                return false;
            }
            self.world.wait_for_settling(left);
        }
    }

    fn find(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    fn is_settled(&self) -> bool {
        let is_idle = |node: &Node| {
            let made = node.running();
            made.is_some_and(|made| made.in_flight() == 0)
        };
        self.nodes.iter().all(is_idle) && self.world.tasks() == 0
    }

    /// Returns the foms of each node: their phases, and what they wait for.
    pub(crate) fn listing(&self) -> String {
        let running = self.world.tasks();
        let nodes = self.nodes.iter().map(|node| {
            let state = match node.running() {
                Some(made) => made.listing(),
                None => "down".to_owned(),
            };
            format!("{}:\n{state}", node.name())
        });
        let tasks = (running > 0).then(|| format!("{running} tasks of the test"));
        nodes.chain(tasks).collect::<Vec<_>>().join("\n")
    }

    /// Ends the nodes and their threads.
    pub(crate) fn end(self) {
        let made = self.world.end();
        self.nodes.iter().for_each(Node::forget);
        made.into_iter().for_each(Made::end);
        drop(self.nodes);
        self.world.baton.wait_for_others(LONG);
    }
}

/// Lets this much time of the simulation pass, while other threads run. Use it in the program of a test, in a task, and in a
/// blocking section that stands for a slow call. In a thread without a simulation, time is real.
pub fn sleep(time: Duration) {
    let mut time = time;
    if let Some(here) = Here::get()
        && here.life.is_some()
    {
        time += here.world.faults.slow_call(&here.world.baton);
    }
    fom_protocol::sync::sleep(time);
}

/// Lets the time of a message pass. Returns whether it arrives. [`Chaos`] says what may happen to messages. A test with a service
/// of its own, such as a database, uses it on the thread that asks, before and after each request: the second message has the
/// names in the other order. A fault of the thread's node may happen here.
///
/// # Panics
///
/// Panics outside of a simulation.
pub fn message(from: &str, to: &str) -> bool {
    let here = Here::get().expect("`message` works only in a program that `explore` runs");
    if let Some(life) = &here.life
        && !here.world.is_over()
    {
        life.fault_point();
    }
    here.world.arrives(from, to)
}

/// Draws a number below `below` from the seed, in the program of a test, in a task or in a phase. 0 is the plainest choice, to
/// which a failure is shrunk.
///
/// ```
/// use fom_sim as sim;
///
/// sim::explore(0..10, |_| {
///     let dice = 1 + sim::draw(6);
///     assert!((1..=6).contains(&dice));
/// });
/// ```
///
/// # Panics
///
/// Panics if `below` is 0, and outside of a simulation.
pub fn draw(below: u32) -> u32 {
    assert!(below > 0, "there is no number below 0");
    let here = Here::get().expect("`draw` works only in a program that `explore` runs");
    here.world.baton.draw(below)
}
