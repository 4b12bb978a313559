//! Runs a program under many seeds.

use std::{
    env,
    fmt::Write as _,
    fs,
    ops::Range,
    panic,
    path::PathBuf,
    sync::{Arc, Once},
    thread,
    time::{Duration, Instant},
};

use fom_protocol::schedule::schedule;

use crate::{
    Sim,
    choices::{Choices, shrunk, trimmed},
    run::{Program, Ran, run},
    timeline::{diagram, lines},
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
///
/// Each fiftieth seed runs twice, because a program that is not deterministic cannot be repeated. A run that takes more than 10 s
/// of real time has failed, and its threads are left behind.
///
/// # Panics
///
/// Panics if the program fails, and if two runs of one seed differ.
pub fn explore(seeds: Range<u64>, program: impl Fn(&mut Sim) + Send + Sync + 'static) {
    be_silent();
    let program: Arc<Program> = Arc::new(program);
    let name = test().map_or_else(|| "sim".to_owned(), |test| test.replace("::", "-"));
    if let Some(seed) = number("FOM_SIM_SEED") {
        let kept = fs::read_to_string(file(&name, seed)).ok();
        let kept = kept.as_deref().and_then(read).map(Choices::of_list);
        // The kept choices may be those of an earlier program.
        for choices in kept.into_iter().chain([Choices::of_seed(seed)]) {
            let ran = run(&program, choices);
            assert!(ran.failure.is_none(), "{}", told(seed, &ran));
        }
        return;
    }
    let seeds = match number("FOM_SIM_SEEDS") {
        Some(count) => seeds.start..seeds.start.saturating_add(count),
        None => seeds,
    };
    let mut reported = Instant::now();
    for seed in seeds.clone() {
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            eprintln!("{name}: seed {seed} of {seeds:?}");
        }
        let ran = run(&program, Choices::of_seed(seed));
        if ran.failure.is_some() {
            let best = plainest(&program, &ran).unwrap_or(ran);
            keep(&name, seed, &best.choices);
            panic!("{}", told(seed, &best));
        }
        if seed % TWICE == 0 {
            let again = run(&program, Choices::of_seed(seed));
            assert_same(seed, &ran, &again);
        }
    }
}

/// Returns the name of the test that runs on this thread. With `--test-threads 1`, tests run on the main thread.
fn test() -> Option<String> {
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main");
    name.map(str::to_owned)
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

fn assert_same(seed: u64, one: &Ran, other: &Ran) {
    let differs = one
        .events
        .iter()
        .zip(&other.events)
        .position(|(a, b)| a != b);
    if let Some(at) = differs {
        let lines = |ran: &Ran| lines(&ran.events[at..=at]);
        panic!(
            "seed {seed} is not deterministic: transition {at} is\n{}and in a second run\n{}{CAUSES}",
            lines(one),
            lines(other)
        );
    }
    assert!(
        one.events.len() == other.events.len()
            && one.choices == other.choices
            && other.failure.is_none(),
        "seed {seed} is not deterministic: {} transitions with {} choices, and in a second run {} with {}{}.\n{CAUSES}",
        one.events.len(),
        one.choices.len(),
        other.events.len(),
        other.choices.len(),
        match &other.failure {
            Some(failure) => format!(", which fails: {failure}"),
            None => String::new(),
        },
    );
}

const CAUSES: &str = "Common causes: the order of a HashMap and the home of a key, which `fom_sim::interpose!()` at the top of \
    the test makes equal; `Instant::now`; a thread, a socket or a file of your own; a static that an earlier run has changed.";

/// Returns what to tell of a run that has failed.
fn told(seed: u64, ran: &Ran) -> String {
    let failure = ran.failure.as_deref().unwrap_or_default();
    let mut text = format!("seed {seed} fails: {failure}\n\n");
    let choices = trimmed(&ran.choices);
    let set = choices.iter().filter(|choice| **choice != 0).count();
    // Writing to a string never fails.
    let _ = writeln!(
        text,
        "{} choices, {set} of them not 0: {choices:?}\n",
        choices.len()
    );
    if !ran.events.is_empty() {
        let _ = writeln!(text, "{}\n{}", lines(&ran.events), diagram(&ran.events));
    }
    let test = test().unwrap_or_default();
    let _ = write!(text, "Again: FOM_SIM_SEED={seed} cargo test {test}");
    text
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is {text:?}, and must be a number")))
}

/// Returns the file of a failure.
fn file(name: &str, seed: u64) -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    // A test runs in the folder of its package, which may be in a workspace.
    let above = here.ancestors().map(|folder| folder.join("target"));
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.or_else(|| above.into_iter().find(|target| target.is_dir()));
    let folder = target.unwrap_or_else(|| "target".into()).join("fom-sim");
    folder.join(format!("{name}-{seed}.choices"))
}

/// Keeps the choices of a failure. The report has them, too, so a full disk loses nothing.
fn keep(name: &str, seed: u64, choices: &[u32]) {
    let file = file(name, seed);
    let texts: Vec<_> = trimmed(choices).iter().map(u32::to_string).collect();
    if let Some(folder) = file.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(file, texts.join(" "));
}

fn read(text: &str) -> Option<Vec<u32>> {
    text.split_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}
