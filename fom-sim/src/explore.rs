//! Runs a program under many seeds.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
    panic,
    process::{self, Command},
    sync::{Arc, Once},
    time::{Duration, Instant},
};

use fom_protocol::schedule::schedule;

use crate::{
    choices::{Choices, shrunk, successor, trimmed},
    report::{CAUSES, assert_same, file, keep, read, test, told},
    run::{Program, Ran, run},
    sim::Sim,
};

/// The real time that the search for plainer choices may take.
const SHRINKING: Duration = Duration::from_secs(10);
/// Each seed with a number that this divides runs twice.
const TWICE: u64 = 50;
/// The real time between two reports.
const REPORT: Duration = Duration::from_secs(10);

/// Runs a program under each of the seeds, and ends at the first one with which it fails: with which `program`, a task or an
/// [invariant](Sim::always) panics, or all threads wait for each other.
///
/// The failure is made plainer, and reported with its seed, its choices and a timeline. The environment variable
/// `FOM_SIM_SEED` repeats one seed, and `FOM_SIM_SEEDS` sets how many seeds run. A failure is kept in
/// `target/fom-sim/NAME-SEED.choices`, where NAME is the name of the test, and `FOM_SIM_SEED` first repeats these choices.
/// `NAME-SEED.json` beside it is the timeline as a trace for [Perfetto](https://ui.perfetto.dev).
///
/// An even seed draws each thread that runs next. An odd seed gives the threads priorities and changes two of them, at
/// drawn steps. Burckhardt and others (2010) call this PCT: it finds bugs that need few switches at the right places.
///
/// Each fiftieth seed runs twice, because a program that is not deterministic cannot be repeated. A run fails that takes more
/// than 60 s of real time, and a run in which a thread computes or blocks for more than 10 s. Its threads are left behind.
///
/// # Panics
///
/// Panics if the program fails, and if two runs of one seed differ.
pub fn explore(seeds: Range<u64>, program: impl Fn(&mut Sim) + Send + Sync + 'static) -> Explored {
    let mut explorer = Explorer::new(program);
    if let Some(seed) = number("FOM_SIM_SEED") {
        // The kept choices may be those of an earlier program.
        let kept = explorer.kept(seed).into_iter();
        return explorer.repeat(seed, kept.chain([Choices::of_seed(seed)]));
    }
    let seeds = with_count(seeds);
    let mut progress = Progress::default();
    for seed in seeds.clone() {
        progress.tell(|| format!("{}: seed {seed} of {seeds:?}", explorer.name));
        let ran = explorer.run(seed, Choices::of_seed(seed));
        if seed % TWICE == 0 {
            let again = run(&explorer.program, Choices::of_seed(seed));
            assert_same(seed, &ran, &again);
        }
    }
    explorer.explored()
}

/// Runs a tiny program with each sequence of choices in which at most `most` are not the plainest one, and ends at the first
/// failure. So it finds each bug that needs at most so many switches, faults and drawn numbers. Emmi and others (2011) call a
/// bound of this kind a delay bound.
///
/// The number of runs grows fast: with 20 choices of 2, there are 21 runs with `most` 1, 211 with 2, and 1,351 with 3.
/// A failure is reported and kept as with [`explore`], with the number of the run in the place of a seed.
///
/// ```
/// use fom_sim as sim;
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
///
/// let runs = Arc::new(AtomicU32::new(0));
/// let counted = Arc::clone(&runs);
/// sim::explore_all(1, move |_| {
///     let drawn = (sim::draw(3), sim::draw(3));
///     assert_ne!(drawn, (2, 2), "it takes two choices");
///     counted.fetch_add(1, Relaxed);
/// });
/// // Twice (0, 0), to see that both runs are equal; then (0, 1), (0, 2), (1, 0) and (2, 0).
/// assert_eq!(runs.load(Relaxed), 6);
/// ```
///
/// # Panics
///
/// As [`explore`].
pub fn explore_all(most: usize, program: impl Fn(&mut Sim) + Send + Sync + 'static) -> Explored {
    let mut explorer = Explorer::new(program);
    if let Some(number) = number("FOM_SIM_SEED") {
        let kept = explorer.kept(number);
        return explorer.repeat(number, kept);
    }
    let mut progress = Progress::default();
    let mut list = Some(Vec::new());
    for number in 0.. {
        let Some(next) = list else { break };
        progress.tell(|| format!("{}: run {number}, {next:?}", explorer.name));
        let ran = explorer.run(number, Choices::of_list(next));
        if number == 0 {
            let again = run(&explorer.program, Choices::of_list(Vec::new()));
            assert_same(number, &ran, &again);
        }
        list = successor(&ran.choices, &ran.below, most);
    }
    explorer.explored()
}

/// What has run without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// The number of runs, without second ones of the same seed.
    pub runs: u64,
    /// A hash of all choices and of all that happened on the nodes. It is equal in each process.
    pub trace: u64,
}

/// As [`explore`], with each seed in a process of its own: for programs whose statics keep what an earlier run has left there.
///
/// Each process is the test binary, which runs this test alone. So a seed takes longer. A failure is made plainer
/// in one process.
///
/// # Panics
///
/// As [`explore`]. Also panics if this thread has not the name of the test, as with `--test-threads 1`, and if no process can
/// be started.
pub fn explore_isolated(
    seeds: Range<u64>,
    program: impl Fn(&mut Sim) + Send + Sync + 'static,
) -> Explored {
    /// Has the seed of such a process.
    const SEED: &str = "FOM_SIM_ISOLATED_SEED";
    if env::var_os("FOM_SIM_SEED").is_some() {
        return explore(seeds, program);
    }
    let mut explorer = Explorer::new(program);
    if let Some(seed) = number(SEED) {
        explorer.run(seed, Choices::of_seed(seed));
        // What the test does with the result is done in the first process.
        println!("{:?}", explorer.explored());
        process::exit(0);
    }
    let test =
        test().expect("the thread of a test has its name; run it without `--test-threads 1`");
    let this = env::current_exe().expect("the path of the test binary");
    let run = |seed: u64| {
        let mut child = Command::new(&this);
        child.args(["--exact", &test, "--nocapture"]);
        let ran = child.env(SEED, seed.to_string()).output();
        let ran = ran.expect("a process for a seed");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let told = String::from_utf8_lossy(&ran.stdout);
        // The harness has begun the line.
        let at = told.find("Explored {").expect("a test that runs");
        told[at..].lines().next().unwrap_or_default().to_owned()
    };
    let mut progress = Progress::default();
    for seed in with_count(seeds) {
        progress.tell(|| format!("{}: seed {seed}", explorer.name));
        let told = run(seed);
        if seed % TWICE == 0 {
            assert_eq!(
                told,
                run(seed),
                "seed {seed} is not deterministic. {CAUSES}"
            );
        }
        explorer.runs += 1;
        told.hash(&mut explorer.trace);
    }
    explorer.explored()
}

/// Returns the seeds, as many as `FOM_SIM_SEEDS` says.
fn with_count(seeds: Range<u64>) -> Range<u64> {
    match number("FOM_SIM_SEEDS") {
        Some(count) => seeds.start..seeds.start.saturating_add(count),
        None => seeds,
    }
}

struct Explorer {
    name: String,
    program: Arc<Program>,
    runs: u64,
    trace: DefaultHasher,
}

impl Explorer {
    fn new(program: impl Fn(&mut Sim) + Send + Sync + 'static) -> Self {
        be_silent();
        Self {
            name: test().map_or_else(|| "sim".to_owned(), |test| test.replace("::", "-")),
            program: Arc::new(program),
            runs: 0,
            trace: DefaultHasher::new(),
        }
    }

    /// Returns the choices of a failure that were kept.
    fn kept(&self, number: u64) -> Option<Choices> {
        let kept = fs::read_to_string(file(&self.name, number)).ok()?;
        read(&kept).map(Choices::of_list)
    }

    fn repeat(&mut self, number: u64, choices: impl IntoIterator<Item = Choices>) -> Explored {
        for choices in choices {
            let ran = run(&self.program, choices);
            assert!(ran.failure.is_none(), "{}", told(&self.name, number, &ran));
            self.count(&ran);
        }
        self.explored()
    }

    fn count(&mut self, ran: &Ran) {
        self.runs += 1;
        ran.hash(&mut self.trace);
    }

    fn explored(&self) -> Explored {
        Explored {
            runs: self.runs,
            trace: self.trace.finish(),
        }
    }

    /// Runs the program once. A failure is made plainer, kept and told.
    fn run(&mut self, number: u64, choices: Choices) -> Ran {
        let ran = run(&self.program, choices);
        if ran.failure.is_some() {
            // A run that took too long is not tried again: it would take as long.
            let best = match ran.is_late {
                true => ran,
                false => plainest(&self.program, &ran).unwrap_or(ran),
            };
            keep(&self.name, number, &best);
            panic!("{}", told(&self.name, number, &best));
        }
        self.count(&ran);
        ran
    }
}

/// Tells how far a long search has come.
struct Progress(Instant);

impl Default for Progress {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Progress {
    fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.0.elapsed() >= REPORT {
            self.0 = Instant::now();
            eprintln!("{}", text());
        }
    }
}

/// Makes panics in simulations silent: the report has their messages.
fn be_silent() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if schedule().is_none() {
                usual(info);
            }
        }));
    });
}

/// Returns the run of the plainest choices that fail, too, as far as they are found in time. `None` if no choice is left to
/// change, or if the program is not deterministic and does not fail again.
fn plainest(program: &Arc<Program>, ran: &Ran) -> Option<Ran> {
    if trimmed(&ran.choices).is_empty() {
        return None;
    }
    let by = Instant::now() + SHRINKING;
    let list = shrunk(&ran.choices, |list| {
        Instant::now() < by
            && run(program, Choices::of_list(list.to_vec()))
                .failure
                .is_some()
    });
    Some(run(program, Choices::of_list(list))).filter(|ran| ran.failure.is_some())
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is {text:?}, and must be a number")))
}
