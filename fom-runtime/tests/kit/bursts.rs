//! Two bursts, each in its own process, whose resident memory is compared.

use std::{
    env,
    fmt::Debug,
    fs,
    path::Path,
    process::Stdio,
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use fom_runtime::{Builder, Runtime};

use super::alone::{again, assert_passed};

/// The variables that a test sets for the process of a burst: the number of foms, and the limit in KiB.
const FOMS: &str = "FOM_BURST_FOMS";
const LIMIT: &str = "FOM_BURST_LIMIT";

const SMALL: usize = 1_000;
const LARGE: usize = 150_000;
/// The time until the memory must be low again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the resident memory of the process in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1));
    kb.and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

/// Waits until no fom is in flight.
pub(crate) fn idle(runtime: &Runtime) {
    while runtime.in_flight() > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A variable of the process of a burst; `None` in the process that starts it.
fn given<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    Some(env::var(name).ok()?.parse().unwrap())
}

/// The process of one burst. It prints the resident memory at the end, and the time until then.
fn one_burst(
    foms: usize,
    limit: u64,
    build: impl FnOnce(Builder, &Path) -> Builder,
    burst: impl FnOnce(&Runtime, usize),
) {
    let place = env::temp_dir().join(format!("fom-memory-{}", std::process::id()));
    let runtime = Runtime::builder().localities(2).pin(false);
    let runtime = build(runtime, &place).build().unwrap();
    burst(&runtime, foms);
    idle(&runtime);
    let peak = resident();
    let began = Instant::now();
    // The small burst measures what is left when the runtime rests.
    if limit == u64::MAX {
        thread::sleep(Duration::from_secs(1));
    }
    while resident() > limit && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    println!(
        "resident {} peak {peak} after {}",
        resident(),
        began.elapsed().as_millis()
    );
    drop(runtime);
    let _ = fs::remove_dir_all(place);
}

struct Burst {
    resident: u64,
    peak: u64,
    millis: u64,
}

/// Runs `test` again in its own process, which runs one burst.
fn run(test: &str, foms: usize, limit: u64) -> Burst {
    let ran = again(test)
        .env(FOMS, foms.to_string())
        .env(LIMIT, limit.to_string())
        // One heap: glibc keeps the end of each other heap, and the test measures what the runtime keeps.
        .env("MALLOC_ARENA_MAX", "1")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert_passed(&ran);
    let text = String::from_utf8(ran.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("resident "));
    let numbers: Vec<u64> = line
        .unwrap()
        .1
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Burst {
        resident: numbers[0],
        peak: numbers[1],
        millis: numbers[2],
    }
}

/// Starts both bursts, and compares the resident memory after them. In a process that `test` started it runs one burst.
/// `test` is the path of the test that calls this. `build` completes the runtime, which may use the given folder.
pub(crate) fn returns(
    test: &str,
    build: impl FnOnce(Builder, &Path) -> Builder,
    burst: impl FnOnce(&Runtime, usize),
) {
    if let Some(foms) = given(FOMS) {
        return one_burst(foms, given(LIMIT).unwrap(), build, burst);
    }
    let small = run(test, SMALL, u64::MAX).resident;
    let limit = small + small * 3 / 10;
    let large = run(test, LARGE, limit);
    println!(
        "{test}: {small} KiB without, {} KiB at the end of the burst, {} KiB {} ms later",
        large.peak, large.resident, large.millis
    );
    assert!(
        large.resident <= limit,
        "{test}: {} KiB are left, {small} KiB without the burst",
        large.resident
    );
}
