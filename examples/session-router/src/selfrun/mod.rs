//! The self-run: a router, two endpoints and a caller, that talk over loopback UDP as strangers would.

mod caller;
mod endpoint;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use caller::{Caller, Plan, Summary};
use endpoint::{Endpoint, Manner};

use crate::report::{self, count};
use crate::router::{Router, Settings};

/// Runs the self-run, and prints the measurements. Returns false if a call went wrong.
///
/// # Errors
///
/// Fails if the router or the endpoints could not start.
pub async fn run(
    mut settings: Settings,
    calls: usize,
    in_flight: usize,
) -> Result<bool, Box<dyn std::error::Error>> {
    settings.listen = ([127, 0, 0, 1], 0).into();
    settings.limits.rate = u32::MAX; // the caller and the endpoints are one source without a limit
    let records = settings.records.get_or_insert_with(|| {
        std::env::temp_dir().join(format!("session-router-{}.cdr", std::process::id()))
    });
    let records = records.clone();
    let t1 = settings.timers.t1;
    let router = Router::start(settings)?;
    let address = router.local();

    let (first, second) = endpoints(address, t1)?;
    println!(
        "router on {address}, {} localities; endpoints on {} and {}; {} calls, {in_flight} at a time",
        router.runtime().localities(),
        first.address(),
        second.address(),
        count(calls as u64),
    );

    let began = Instant::now();
    let caller = Caller::start(address, t1, calls, in_flight, None, plan)?;
    let live = io::stdout().is_terminal();
    let mut ticker = tokio::time::interval(Duration::from_millis(if live { 100 } else { 1000 }));
    ticker.tick().await;
    let mut last = (0, Instant::now());
    while !caller.is_finished() {
        ticker.tick().await;
        let (done, failed) = caller.progress();
        let rate = (done - last.0) as f64 / last.1.elapsed().as_secs_f64();
        last = (done, Instant::now());
        let line = format!(
            "{:>5.1} s  {:>9} of {} calls  {:>7} calls/s  {failed} failed  {} foms",
            began.elapsed().as_secs_f64(),
            count(done),
            count(calls as u64),
            count(rate as u64),
            count(router.times().live()),
        );
        if live {
            print!("\r\x1b[K{line}");
            io::stdout().flush()?;
        } else {
            println!("{line}");
        }
    }
    let summary = caller.finish();
    if live {
        print!("\r\x1b[K");
    }
    print_summary(&summary);
    println!("\ntime in each phase");
    print!("{}", router.times()); // before draining, which cuts Linger short
    drop((first, second));
    let remained = router.drain(Duration::from_secs(10)).await.len();
    println!("\nthe router counted");
    print!("{}", router.counters());
    println!("call detail records: {}", records.display());
    if remained > 0 {
        println!("{remained} calls had not ended");
    }
    Ok(summary.failed == 0 && remained == 0)
}

/// Runs the endpoints and the caller only, and prints what they saw. The caller begins at most `rate` calls a second,
/// and has at most `in_flight` at a time. Returns false if a call went wrong.
///
/// # Errors
///
/// Fails if the endpoints could not start, or if the router at `router` does not answer them.
pub fn drive(
    router: SocketAddr,
    t1: Duration,
    calls: usize,
    in_flight: usize,
    rate: Option<u32>,
) -> Result<bool, Box<dyn std::error::Error>> {
    let endpoints = endpoints(router, t1)?;
    let summary = Caller::start(router, t1, calls, in_flight, rate, plan)?.finish();
    print_summary(&summary);
    drop(endpoints);
    Ok(summary.failed == 0)
}

/// Starts the endpoints: alice and bob have one place each, team rings in two of which one answers, carol never
/// answers.
fn endpoints(router: SocketAddr, t1: Duration) -> io::Result<(Endpoint, Endpoint)> {
    let first = Endpoint::start(
        router,
        t1,
        &[
            ("alice", Manner::Answers),
            ("team", Manner::Answers),
            ("carol", Manner::Rings),
        ],
    )?;
    let second = Endpoint::start(
        router,
        t1,
        &[("bob", Manner::Answers), ("team", Manner::Rings)],
    )?;
    Ok((first, second))
}

/// Returns the plan of a call. Of twenty calls, sixteen are plain, two are forked, one is cancelled and one goes to an
/// unknown user.
fn plan(number: usize) -> (Plan, &'static str) {
    match number % 20 {
        0 => (Plan::Refused(404), "nobody"),
        1 => (Plan::Cancel, "carol"),
        2 | 3 => (Plan::Talk, "team"),
        even if even % 2 == 0 => (Plan::Talk, "alice"),
        _ => (Plan::Talk, "bob"),
    }
}

fn print_summary(summary: &Summary) {
    let seconds = summary.took.as_secs_f64();
    let all = summary.talked + summary.cancelled + summary.refused + summary.failed;
    println!(
        "{} calls in {seconds:.2} s: {} calls/s, everything on this machine of {} processors\n",
        count(all),
        count((all as f64 / seconds) as u64),
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    println!(
        "  {:<34} {:>10} {:>9} {:>9} {:>9}",
        "what the caller saw", "calls", "p50", "p99", "max"
    );
    println!(
        "  {:<34} {}",
        "answered, from INVITE to 200",
        report::figures(&summary.setup)
    );
    println!(
        "  {:<34} {}",
        "cancelled, from CANCEL to 487",
        report::figures(&summary.cancel)
    );
    println!(
        "  {:<34} {}",
        "unknown user, from INVITE to 404",
        report::figures(&summary.refusal)
    );
    println!("  {:<34} {:>10}", "not as planned", count(summary.failed));
    println!(
        "  {:<34} {:>10}",
        "put off by 503, and tried again",
        count(summary.put_off)
    );
    println!("  {:<34} {:>10}", "sent again", count(summary.repeated));
}
