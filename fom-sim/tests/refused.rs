//! What cannot be repeated, or never ends, is told as that.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_runtime::prelude::*;
use fom_sim::{self as sim, Sim};

sim::interpose!();

fn failure(program: impl Fn(&mut Sim) + Send + Sync + 'static) -> String {
    let explored = catch_unwind(AssertUnwindSafe(|| sim::explore(0..10, program)));
    let told = explored.expect_err("it fails");
    *told.downcast::<String>().expect("a text")
}

/// Counts the runs of all simulations: a static that an earlier run has changed.
static RUNS: AtomicU32 = AtomicU32::new(0);

struct Count;

#[fom(operation(Count), transient)]
enum Counting {
    #[phase(start, sync, to(Even, Odd))]
    Look,
    #[phase(end)]
    Even,
    #[phase(end)]
    Odd,
}

impl CountingTransitions for Count {
    fn look(&mut self, _: &mut Cx<'_>) -> Result<CountingAfterLook, BoxError> {
        Ok(match RUNS.fetch_add(1, Relaxed) % 2 {
            0 => CountingAfterLook::Even,
            _ => CountingAfterLook::Odd,
        })
    }
}

#[test]
fn a_program_that_differs_from_run_to_run() {
    let told = failure(|sim| {
        let node = sim
            .node("node", || Runtime::builder().localities(2))
            .runtime();
        node.submit(Count).detach().unwrap();
        sim.settle(Duration::from_secs(1));
    });
    assert!(
        told.starts_with("seed 0 is not deterministic: transition 1 is\n"),
        "{told}"
    );
    assert!(
        told.contains("Look -> Even") && told.contains("Look -> Odd"),
        "{told}"
    );
    assert!(told.contains("Common causes: "), "{told}");
}

/// With a process for each seed, the static is new.
#[test]
fn statics_are_isolated_on_request() {
    let explored = sim::explore_isolated(0..3, |sim| {
        let node = sim.node("node", || Runtime::builder().localities(2));
        node.runtime().submit(Count).detach().unwrap();
        sim.settle(Duration::from_secs(1));
        assert_eq!(RUNS.load(Relaxed), 1);
    });
    assert_eq!(explored.runs, 3);
}

/// The failure of a process is the failure of the test.
#[test]
fn a_failure_in_isolation() {
    let explore = || {
        sim::explore_isolated(0..3, |_| assert!(sim::draw(2) == 0, "it is 1"));
    };
    if std::env::var_os("FOM_SIM_ISOLATED_SEED").is_some() {
        return explore();
    }
    let explored = catch_unwind(explore);
    let told = explored.expect_err("it fails");
    let told = told.downcast::<String>().expect("a text");
    assert!(told.contains(" fails: it is 1\n"), "{told}");
    assert!(told.contains("Again: FOM_SIM_SEED="), "{told}");
}

struct Ask(Option<tokio::sync::oneshot::Receiver<()>>);

#[fom(operation(Ask), transient)]
enum Asking {
    #[phase(start, to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl AskingTransitions for Ask {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(self.0.take().ok_or("no answer")?.await?)
    }
}

#[test]
fn threads_that_wait_for_each_other() {
    let told = failure(|sim| {
        let node = sim
            .node("node", || Runtime::builder().localities(1))
            .runtime();
        let (answer, receiver) = tokio::sync::oneshot::channel();
        let asked = node.submit(Ask(Some(receiver))).start().unwrap();
        asked.wait().map(drop).unwrap();
        drop(answer);
    });
    assert!(
        told.contains("every thread waits for another one, for ever: the test; node: fom-0-"),
        "{told}"
    );
    assert_names_the_phase(&told);
}

/// Checks that the report lists the fom.
fn assert_names_the_phase(told: &str) {
    let mut listed = told.lines().filter(|line| line.contains(" Ask "));
    assert!(listed.any(|line| line.contains(" Wait ")), "{told}");
}

/// A thread that the simulation does not have wakes a fom. The report names the fom, and the phase that waits.
#[test]
fn a_thread_outside_that_wakes_a_fom() {
    let (send, asked) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
    let outside = std::thread::spawn(move || {
        while let Ok(answer) = asked.recv() {
            // The run may be over.
            let _ = answer.send(());
        }
    });
    let told = failure(move |sim| {
        let node = sim
            .node("node", || Runtime::builder().localities(1))
            .runtime();
        let (answer, receiver) = tokio::sync::oneshot::channel();
        let asked = node.submit(Ask(Some(receiver))).start().unwrap();
        sim::sleep(Duration::from_secs(1));
        send.send(answer).unwrap();
        asked.wait().map(drop).unwrap();
    });
    outside.join().unwrap();
    assert!(
        told.contains("A wake by a thread outside of the simulation is not seen"),
        "{told}"
    );
    assert_names_the_phase(&told);
}

/// Does something that a simulation cannot repeat.
struct Outside(fn() -> Result<(), BoxError>);

#[fom(operation(Outside), transient)]
enum Going {
    #[phase(start, sync, to(Go))]
    Begin,
    #[phase(to(Done))]
    Go,
    #[phase(end)]
    Done,
}

impl GoingTransitions for Outside {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn go(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        (self.0)()
    }
}

/// The report names the operation, the phase and the node.
fn assert_refused(go: fn() -> Result<(), BoxError>, what: &str) {
    let told = failure(move |sim| {
        let node = sim.node("node", || Runtime::builder().localities(1));
        node.runtime().submit(Outside(go)).detach().unwrap();
        sim.settle(Duration::from_secs(1));
    });
    let start = told.split('\n').next().unwrap();
    assert!(
        start.starts_with("seed 0 fails: the phase Go of Outside "),
        "{told}"
    );
    assert!(
        start.contains(&format!(
            " on node {what}, which a simulation cannot repeat; "
        )),
        "{told}"
    );
}

#[test]
fn a_phase_that_opens_a_socket() {
    assert_refused(
        || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            drop(listener);
            Ok(())
        },
        "opens a socket",
    );
}

#[test]
fn a_phase_that_starts_a_thread() {
    let go = || {
        let thread = std::thread::Builder::new().spawn(|| ())?;
        drop(thread);
        Ok(())
    };
    assert_refused(go, "starts a thread");
}

#[test]
fn a_phase_that_uses_spawn_blocking() {
    let go = || {
        drop(tokio::task::spawn_blocking(|| ()));
        Ok(())
    };
    assert_refused(go, "starts a thread");
}

/// The wall clock and `Instant` show the time of the simulation.
#[test]
fn clocks_show_the_time_of_the_simulation() {
    use std::time::{Instant, SystemTime};
    sim::explore(0..2, |_| {
        let (wall, begun) = (SystemTime::now(), Instant::now());
        let since_1970 = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since_1970, Duration::from_secs(1_767_225_600));
        let month = Duration::from_secs(30 * 86_400);
        sim::sleep(month);
        assert_eq!(begun.elapsed(), month);
        assert_eq!(wall.elapsed().unwrap(), month);
        std::thread::sleep(month);
        assert_eq!(begun.elapsed(), 2 * month);
    });
}

/// Random numbers are equal in all runs, and no two threads get the same ones.
#[test]
fn random_bytes_are_the_same_in_all_runs() {
    use std::hash::{BuildHasher as _, RandomState};
    let all = Arc::new(Mutex::new(Vec::new()));
    let runs = Arc::clone(&all);
    sim::explore(0..5, move |sim| {
        let numbers = Arc::new(Mutex::new(Vec::new()));
        for task in 0..3 {
            let numbers = Arc::clone(&numbers);
            sim.spawn(async move {
                let number = RandomState::new().hash_one("a key");
                numbers.lock().unwrap().push((task, number));
            });
        }
        sim.settle(Duration::from_secs(1));
        let mut numbers = numbers.lock().unwrap().clone();
        numbers.sort_unstable();
        runs.lock().unwrap().push(numbers);
    });
    let all = all.lock().unwrap();
    let (first, rest) = all.split_first().unwrap();
    assert!(rest.iter().all(|run| run == first), "{all:?}");
    let different: HashSet<_> = first.iter().map(|(_, number)| number).collect();
    assert_eq!(different.len(), 3, "{first:?}");
}

/// The program may return before its tasks have run.
#[test]
fn a_task_that_panics_after_the_program() {
    let told = failure(|sim| sim.spawn(async { panic!("too late") }));
    assert!(
        told.contains("seed 0 fails: a task panicked: too late\n"),
        "{told}"
    );
}

#[test]
fn a_loop_without_an_end() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let told = failure(move |_| {
        while !stopped.load(Relaxed) {
            std::thread::yield_now();
        }
    });
    stop.store(true, Relaxed);
    assert!(
        told.contains(
            "a step took more than 10s of real time: the test computes or blocks for ever"
        ),
        "{told}"
    );
}

/// Each turn of it is short.
#[test]
fn turns_without_an_end() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let told = failure(move |_| {
        while !stopped.load(Relaxed) {
            sim::sleep(Duration::from_nanos(1));
        }
    });
    stop.store(true, Relaxed);
    assert!(
        told.contains("the run took more than 60s of real time: the test goes on"),
        "{told}"
    );
}

/// A failure is kept in a file, and `FOM_SIM_SEED` repeats the choices there.
#[test]
fn a_failure_is_repeated_by_its_seed() {
    const CHILD: &str = "FOM_SIM_TEST_CHILD";
    let child = std::env::var_os(CHILD).is_some();
    let program = |_: &mut Sim| {
        let (a, b) = (sim::draw(10), sim::draw(10));
        assert!(a < 3 || b < 2, "{a} and {b}");
    };
    if child {
        sim::explore(0..1_000, program);
        return;
    }
    let run = |seed: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "a_failure_is_repeated_by_its_seed",
                "--nocapture",
            ])
            .env(CHILD, "1");
        if let Some(seed) = seed {
            command.env("FOM_SIM_SEED", seed);
        }
        let ran = command.output().unwrap();
        assert!(!ran.status.success());
        String::from_utf8(ran.stderr).unwrap()
    };
    let told = run(None);
    // As plain as it can be.
    assert!(told.contains(" fails: 3 and 2\n"), "{told}");
    assert!(
        told.contains("2 choices, 2 of them not 0: [3, 2]"),
        "{told}"
    );
    let seed = told.split("FOM_SIM_SEED=").nth(1).unwrap();
    let seed = seed.split(' ').next().unwrap();
    let again = run(Some(seed));
    assert!(
        again.contains(&format!("seed {seed} fails: 3 and 2\n")),
        "{again}"
    );
}

/// `FOM_SIM_SEEDS` runs more or fewer seeds than the test says.
#[test]
fn the_number_of_seeds_can_be_set() {
    const CHILD: &str = "FOM_SIM_TEST_COUNTS";
    if std::env::var_os(CHILD).is_some() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        sim::explore(1..1_000_000, move |_| {
            counted.fetch_add(1, Relaxed);
        });
        println!("{} runs", runs.load(Relaxed));
        return;
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_number_of_seeds_can_be_set", "--nocapture"])
        .envs([(CHILD, "1"), ("FOM_SIM_SEEDS", "7")])
        .output()
        .unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(told.contains("7 runs\n"), "{told}");
}
