//! Runs a program once.

use std::{
    hash::{Hash as _, Hasher},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use fom_protocol::panic_message;

use crate::{
    baton::{Baton, Entries},
    choices::Choices,
    node::{Here, World, adopt, spawn},
    sim::{Sim, sleep},
    timeline::Event,
};

/// The real time in which a thread must pass the baton on.
const STEP: Duration = Duration::from_secs(10);

/// The real time that a run may take. A machine may be busy with other work.
const RUN: Duration = Duration::from_secs(60);

/// What may be the reason with this feature.
const LOCKS: &str = match cfg!(feature = "locks") {
    true => ", for example for a lock of `std` that another thread holds while it calls fom",
    false => "",
};

pub(crate) type Program = dyn Fn(&mut Sim) + Send + Sync;

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
    /// Whether it took too long. Its threads go on.
    pub(crate) is_late: bool,
    pub(crate) choices: Vec<u32>,
    /// How many possible choices there were at each one.
    pub(crate) below: Vec<u32>,
    pub(crate) events: Vec<Event>,
}

impl Ran {
    /// Adds what happened to a hash.
    pub(crate) fn hash(&self, hash: &mut impl Hasher) {
        self.choices.hash(hash);
        self.events.hash(hash);
    }
}

/// Runs the program once, in a thread of its own.
pub(crate) fn run(program: &Arc<Program>, choices: Choices) -> Ran {
    let (send, ran) = mpsc::channel();
    let world = World::new(Baton::new(choices, Entries { adopt, spawn }));
    let (program, of) = (Arc::clone(program), Arc::clone(&world));
    let driver = thread::Builder::new().name("fom-sim".into());
    let driver = driver.spawn(move || {
        stay_here();
        // The caller may have waited for too long.
        let _ = send.send(drive(&program, of));
    });
    driver.expect("a thread for a run");
    let (begun, mut turns) = (Instant::now(), 0);
    let failure = loop {
        if let Ok(ran) = ran.recv_timeout(STEP) {
            return ran;
        }
        let before = mem::replace(&mut turns, world.baton.turns());
        let running = world.baton.running();
        if turns == before {
            break format!(
                "a step took more than {STEP:?} of real time: {running} computes or blocks for ever{LOCKS}"
            );
        }
        if begun.elapsed() >= RUN {
            break format!("the run took more than {RUN:?} of real time: {running} goes on");
        }
    };
    let (choices, below) = world.baton.made();
    Ran {
        failure: Some(failure),
        is_late: true,
        choices,
        below,
        events: world.timeline.take(),
    }
}

fn drive(program: &Arc<Program>, world: Arc<World>) -> Ran {
    let part = world.baton.drive();
    let mut sim = Sim::new(Arc::clone(&world));
    let here = Here {
        world: Arc::clone(&world),
        life: None,
    };
    let (ended, listing, (choices, below), events) = here.with(|| {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            program(&mut sim);
            // The tasks that are ready run.
            sleep(Duration::from_nanos(1));
        }));
        let (choices, events) = (world.baton.made(), world.timeline.take());
        // A thread that waits may have a lock that the listing needs.
        let list = || world.baton.was_stuck().then(|| sim.listing());
        let listing = catch_unwind(AssertUnwindSafe(list)).ok().flatten();
        // What comes now belongs to no run.
        let _ = catch_unwind(AssertUnwindSafe(|| sim.end()));
        (ended, listing, choices, events)
    });
    drop(part);
    let failure = ended.err().map(panic_message);
    let failure = failure.or_else(|| world.baton.trouble());
    let listing = listing.map_or_else(String::new, |listing| format!("\n{listing}"));
    Ran {
        failure: failure.map(|failure| failure + &listing),
        is_late: false,
        choices,
        below,
        events,
    }
}

/// Keeps this thread, and the threads that it starts, on one processor. Only one of them runs at a time, and a switch is
/// faster there.
fn stay_here() {
    #[cfg(target_os = "linux")]
    // SAFETY: the set is valid, and an error, such as a processor that is not allowed, only keeps the switches slow.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if let Ok(here) = usize::try_from(libc::sched_getcpu()) {
            libc::CPU_SET(here, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}
