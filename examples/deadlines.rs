//! Deadlines and retries, on a clock that the example moves by hand: a parcel waits for 30 days in microseconds.
//!
//! `cargo run --example deadlines`

use std::time::Duration;

use fom_runtime::{prelude::*, time::TestClock};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Parcel {
    reminders: u32,
}

enum Counter {
    Fetched,
}

#[fom(operation(Parcel), event(Counter))]
#[derive(Debug)]
enum Pickup {
    /// The text message fails now and then: three more attempts, after 1, 2 and 4 seconds.
    #[phase(start, to(Shelf), retry = "3, 1s..10s")]
    Announce,
    /// A reminder after a week. The 30 days begin here and continue in `Reminded`; then `late` decides.
    #[phase(
        to(Taken, Reminded, SentBack),
        on(Fetched),
        within = "30d",
        keep(Reminded),
        late
    )]
    Shelf,
    #[phase(to(Taken, SentBack), on(Fetched), late)]
    Reminded,
    #[phase(end)]
    Taken,
    #[phase(end, failure)]
    SentBack,
}

type Context<'a> = Cx<'a, Counter>;

impl PickupTransitions for Parcel {
    async fn announce(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        println!("{:>8?}  attempt {}", cx.now(), cx.attempt());
        if cx.attempt() < 2 {
            return Err("no network".into());
        }
        Ok(())
    }

    async fn shelf(&mut self, cx: &mut Context<'_>) -> Result<PickupAfterShelf, BoxError> {
        // A wait of its own, apart from the phase's deadline.
        let week = Duration::from_secs(7 * 24 * 3600);
        Ok(match cx.event_within(week).await {
            Some(Counter::Fetched) => PickupAfterShelf::Taken,
            None => PickupAfterShelf::Reminded,
        })
    }

    async fn shelf_late(&mut self, _: &mut Context<'_>) -> Result<PickupAfterShelf, BoxError> {
        Ok(PickupAfterShelf::SentBack)
    }

    async fn reminded(&mut self, cx: &mut Context<'_>) -> Result<PickupAfterReminded, BoxError> {
        self.reminders += 1;
        let left = cx.deadline().map(|at| at - cx.now());
        println!("{:>8?}  reminded; {left:?} left", cx.now());
        cx.event().await;
        Ok(PickupAfterReminded::Taken)
    }

    async fn reminded_late(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<PickupAfterReminded, BoxError> {
        println!("{:>8?}  sent back", cx.now());
        Ok(PickupAfterReminded::SentBack)
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    let clock = TestClock::new();
    let runtime = Runtime::builder().clock(&clock).build()?;
    let parcel = runtime.submit(Parcel { reminders: 0 }).start()?;
    let day = Duration::from_secs(24 * 3600);
    for step in [Duration::from_secs(1), Duration::from_secs(2)] {
        runtime.quiet().await;
        clock.advance(step);
    }
    for _ in 0..30 {
        // Waits until no fom can run: then the next day comes.
        runtime.quiet().await;
        clock.advance(day);
    }
    let ended = parcel.await?;
    println!(
        "{:?} after {} reminder",
        ended.end, ended.operation.reminders
    );
    assert!(matches!(ended.end, PickupEnd::SentBack));

    // The customer comes on the tenth day.
    let parcel = runtime.submit(Parcel { reminders: 0 }).start()?;
    for _ in 0..10 {
        runtime.quiet().await;
        clock.advance(day);
    }
    parcel.send(Counter::Fetched)?;
    assert!(matches!(parcel.await?.end, PickupEnd::Taken));
    Ok(())
}
