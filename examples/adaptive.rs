//! A time-out that follows the measured times: a directory is fast, then slow, then lets one request in five wait for
//! ever.
//!
//! `cargo run --example adaptive`

use std::time::Duration;

use fom_runtime::{prelude::*, time::TestClock};

/// Looks a name up in a directory, which answers after `answer_after`.
struct Lookup {
    answer_after: Duration,
}

#[fom(operation(Lookup), transient)]
#[derive(Debug)]
enum Looking {
    /// The runtime measures the right limit, between 20 ms and 2 s: twice the worst time of the last seconds.
    #[phase(start, to(Found, Unavailable), within = "adaptive, 20ms..2s", late)]
    Ask,
    #[phase(end)]
    Found,
    #[phase(end, failure)]
    Unavailable,
}

impl LookingTransitions for Lookup {
    async fn ask(&mut self, cx: &mut Cx<'_>) -> Result<LookingAfterAsk, BoxError> {
        cx.sleep(self.answer_after).await;
        Ok(LookingAfterAsk::Found)
    }

    async fn ask_late(&mut self, _: &mut Cx<'_>) -> Result<LookingAfterAsk, BoxError> {
        Ok(LookingAfterAsk::Unavailable)
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    // The example moves the clock by hand: minutes pass at once, and always in the same way.
    let clock = TestClock::new();
    let runtime = Runtime::builder().localities(1).clock(&clock).build()?;
    let never = Duration::MAX;
    let (fast, slow) = (Duration::from_millis(15), Duration::from_millis(400));

    println!("{:<24} {:>8} {:>8}   the listing says", "", "found", "late");
    for (what, answers) in [
        ("the first ones", [fast; 5]),
        ("fast", [fast; 5]),
        ("slow", [slow; 5]),
        ("fast again", [fast; 5]),
        ("one in five is lost", [fast, fast, never, fast, fast]),
    ] {
        let (mut found, mut late) = (0, 0);
        let times = if what == "the first ones" { 6 } else { 40 };
        for answer_after in answers.into_iter().cycle().take(5 * times) {
            let lookup = runtime.submit(Lookup { answer_after }).start()?;
            runtime.quiet().await;
            let listed = runtime.operation(lookup.id());
            let allowed = listed.and_then(|info| info.times.deadline_in);
            clock.advance(answer_after.min(allowed.unwrap_or(never)));
            match lookup.await?.end {
                LookingEnd::Found => found += 1,
                _ => late += 1,
            }
        }
        let ask = &runtime.operations().types[0].adaptive[0];
        println!("{what:<24} {found:>8} {late:>8}   {ask}");
    }

    let ask = &runtime.operations().types[0].adaptive[0];
    assert_eq!(ask.most, Duration::from_millis(30));
    Ok(())
}
