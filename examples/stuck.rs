//! Operations hang in seven ways, and the warnings name the culprits.
//!
//! `cargo run --example stuck` prints the warnings. `cargo run --example stuck -- --inspect 127.0.0.1:7070` also shows them on
//! the page of the inspector, until its input ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_inspect::Inspector;
use fom_patterns::lock::LongLock;
use fom_runtime::{
    FomId,
    config::Shutdown,
    observe::{Filter, Page},
    submission::Placement,
    time::TestClock,
};
use fom_watch::{Warned, WarningKind, Warnings, Watch, WatchExt};
use serde::{Deserialize, Serialize};

/// Hangs in one of six ways.
struct Visit {
    how: How,
    over: Arc<AtomicBool>,
}

enum How {
    /// No caller rings.
    Event,
    /// Each of two visits has one door, and waits for the other one.
    Doors(LongLock, LongLock),
    Spin,
    Block,
    /// The line is always engaged.
    Dial,
}

enum Bell {
    Ring,
}

#[fom(operation(Visit), event(Bell), transient)]
enum Visiting {
    #[phase(start, sync, to(Wait, Enter, Count, Read, Call), hung = "1m")]
    Arrive,
    #[phase(to(Left), on(Ring), hung = "1m")]
    Wait,
    #[phase(to(Left), hung = "1m")]
    Enter,
    #[phase(sync, to(Left), hung = "1m")]
    Count,
    #[phase(blocking, to(Left), hung = "1m")]
    Read,
    #[phase(to(Left), retry = "90, 10s..10s", hung = "1m")]
    Call,
    #[phase(end)]
    Left,
}

impl VisitingTransitions for Visit {
    fn arrive(&mut self, _: &mut Cx<'_, Bell>) -> Result<VisitingAfterArrive, BoxError> {
        Ok(match self.how {
            How::Event => VisitingAfterArrive::Wait,
            How::Doors(..) => VisitingAfterArrive::Enter,
            How::Spin => VisitingAfterArrive::Count,
            How::Block => VisitingAfterArrive::Read,
            How::Dial => VisitingAfterArrive::Call,
        })
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        let Bell::Ring = cx.event().await;
        Ok(())
    }

    async fn enter(&mut self, cx: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        if let How::Doors(mine, other) = &self.how {
            let _mine = mine.write(cx).await?;
            cx.sleep(Duration::from_secs(1)).await;
            let _other = other.write(cx).await?;
        }
        Ok(())
    }

    fn count(&mut self, _: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        while !self.over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn read(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    async fn call(&mut self, _: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        Err("the line is engaged".into())
    }
}

/// Fails, and stays in quarantine.
#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

#[fom(operation(Payment))]
enum Paying {
    #[phase(start, sync, to(Paid), hung = "1m")]
    Charge,
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Payment {
    fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err(format!("the bank refuses {} cents", self.cents).into())
    }
}

/// A program of which each operation hangs.
pub(crate) struct Stuck {
    pub(crate) runtime: Runtime,
    over: Arc<AtomicBool>,
    guest: Handle<Visit>,
    /// Waits for an event.
    pub(crate) event: FomId,
    /// Waits for the key of the one before.
    pub(crate) key: FomId,
    /// Each of both waits for a lock of the other one.
    pub(crate) in_front: FomId,
    pub(crate) behind: FomId,
    /// Fails, and tries again.
    pub(crate) dials: FomId,
    /// Is in a call that blocks.
    pub(crate) blocks: FomId,
    /// Never gives the thread back.
    pub(crate) spins: FomId,
    /// Is in quarantine.
    pub(crate) failed: FomId,
}

impl Stuck {
    /// Starts the operations, and waits until all limits have passed.
    pub(crate) fn start() -> Result<Self, BoxError> {
        // The example moves the clock. A program does without, and the watcher looks each second.
        let clock = TestClock::new();
        let runtime = Runtime::builder()
            .localities(2)
            .pin(false)
            .clock(&clock)
            .journal_with(MemoryJournal::default())
            .watch(Watch::default())
            .build()?;
        let over = Arc::new(AtomicBool::new(false));
        let visit = |how, locality| {
            let over = Arc::clone(&over);
            let visit = runtime.submit(Visit { how, over });
            visit.place(Placement::Locality(locality))
        };
        let (front, back) = (LongLock::new("front door"), LongLock::new("back door"));

        let guest = visit(How::Event, 0).key("guest").start()?;
        let event = guest.id();
        let key = visit(How::Event, 0).key("guest").queue().start()?.id();
        let in_front = visit(How::Doors(front.clone(), back.clone()), 0)
            .start()?
            .id();
        let behind = visit(How::Doors(back, front), 0).start()?.id();
        let dials = visit(How::Dial, 0).start()?.id();
        let blocks = visit(How::Block, 0).start()?.id();
        let spins = visit(How::Spin, 1).start()?.id();
        let payment = runtime.submit(Payment { cents: 500 }).key("invoice 7");
        let failed = payment.place(Placement::Locality(0)).start()?.id();

        // After one second the visitors want the other door. After two minutes all limits have passed.
        let in_phase = |phase: &str| Filter::default().phase(phase);
        until(&runtime, in_phase("Wait").waits_for("event"), 1)?;
        until(&runtime, in_phase("Enter").waits_for("timer"), 2)?;
        until(&runtime, in_phase("Call").waits_for("next attempt"), 1)?;
        until(&runtime, in_phase("Read").waits_for("blocking"), 1)?;
        until(&runtime, in_phase("Count"), 1)?;
        until(&runtime, in_phase("Charge"), 0)?;
        clock.advance(Duration::from_secs(1));
        until(&runtime, in_phase("Enter").waits_for("a lock"), 2)?;
        for _ in 0..12 {
            clock.advance(Duration::from_secs(10));
            runtime.inspect().warnings();
        }
        Ok(Self {
            runtime,
            over,
            guest,
            event,
            key,
            in_front,
            behind,
            dials,
            blocks,
            spins,
            failed,
        })
    }

    /// Lets the operations end that only this program holds up, and stops the others.
    pub(crate) fn end(&self) -> Result<(), BoxError> {
        self.over.store(true, Ordering::Relaxed);
        self.guest.send(Bell::Ring)?;
        self.runtime
            .shutdown_blocking(Shutdown::Now, Duration::from_secs(5));
        Ok(())
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // The runtime waits for the threads of its foms.
        self.over.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn main() -> Result<(), BoxError> {
    let stuck = Stuck::start()?;
    let mut arguments = std::env::args().skip_while(|argument| argument != "--inspect");
    if let (Some(_), Some(address)) = (arguments.next(), arguments.next()) {
        inspect(&stuck.runtime, &address)?;
        return stuck.end();
    }
    let found = stuck.runtime.inspect().warnings();
    println!("{found}");

    let (event, behind) = (stuck.event, stuck.behind);
    let holder = format!("the holder Visit {event} (key guest)");
    for (kind, fom, text) in [
        (WarningKind::Hung, event, "an event: Ring"),
        (WarningKind::Hung, stuck.key, &*holder),
        (
            WarningKind::WaitCycle,
            stuck.in_front,
            &format!("Visit {behind}"),
        ),
        (WarningKind::Hung, stuck.dials, "the line is engaged"),
        (WarningKind::Hung, stuck.blocks, "a blocking call"),
        (WarningKind::LongRun, stuck.spins, "Count"),
        (
            WarningKind::Quarantine,
            stuck.failed,
            "the bank refuses 500 cents",
        ),
    ] {
        named(&found, kind, fom, text)?;
    }
    stuck.end()
}

/// Serves the page of the inspector until the input ends.
fn inspect(runtime: &Runtime, address: &str) -> Result<(), BoxError> {
    let of = runtime.detached();
    let inspector = Inspector::new(runtime)
        .bind(address)
        .warnings(move || of.inspect().warnings())
        .start()?;
    println!("inspector at {}", inspector.url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// Waits until the filter covers so many foms.
fn until(runtime: &Runtime, filter: Filter, foms: usize) -> Result<(), BoxError> {
    for _ in 0..60_000 {
        if runtime.inspect().survey(&filter, &Page::default()).foms == foms {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let all = runtime.operations();
    Err(format!("there are no {foms} foms as {filter:?}: {all}").into())
}

/// Checks that a warning of this kind names the fom, and says this of it.
fn named(found: &Warnings, kind: WarningKind, fom: FomId, text: &str) -> Result<(), BoxError> {
    let is_it = |warning: &&fom_watch::Warning| {
        warning.kind == kind && warning.ids.contains(&fom) && warning.to_string().contains(text)
    };
    match found.warnings.iter().find(is_it) {
        Some(_) => Ok(()),
        None => Err(format!("no warning says {text:?} of fom {fom}:\n{found}").into()),
    }
}
