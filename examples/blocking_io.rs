//! Blocking without stopping other foms: a `blocking` phase, and a blocking section inside an async phase.
//!
//! `cargo run --example blocking_io`

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use fom_runtime::prelude::*;

/// Writes a report and reads it back.
struct Report {
    path: PathBuf,
    lines: usize,
}

#[fom(operation(Report), transient)]
#[derive(Debug)]
enum Reporting {
    /// The whole phase blocks: its function is a plain `fn`, between enter-block and leave-block.
    #[phase(start, to(Check), blocking)]
    Write,
    /// Blocks only for a moment.
    #[phase(to(Done))]
    Check,
    #[phase(end)]
    Done { bytes: usize },
}

impl ReportingTransitions for Report {
    fn write(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        // A slow disk.
        std::thread::sleep(Duration::from_millis(50));
        std::fs::write(&self.path, "all is well\n".repeat(self.lines))?;
        Ok(())
    }

    async fn check(&mut self, cx: &mut Cx<'_>) -> Result<ReportingAfterCheck, BoxError> {
        let bytes = {
            // Until the guard is dropped, another thread runs the locality. The guard cannot be held over an `.await`.
            let _block = cx.enter_block()?;
            std::fs::read(&self.path)?.len()
        };
        cx.sleep(Duration::from_millis(1)).await;
        std::fs::remove_file(&self.path)?;
        Ok(ReportingAfterCheck::Done { bytes })
    }
}

/// A fom that only waits, to show that the locality continues.
struct Heartbeat {
    beats: u32,
}

#[fom(operation(Heartbeat), transient)]
enum Beating {
    #[phase(start, to(Stopped))]
    Beat,
    #[phase(end)]
    Stopped,
}

impl BeatingTransitions for Heartbeat {
    async fn beat(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        while self.beats < 20 {
            cx.sleep(Duration::from_millis(2)).await;
            self.beats += 1;
        }
        Ok(())
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    // One locality, which all foms share.
    let runtime = Runtime::builder().localities(1).build()?;
    let begun = Instant::now();
    let heart = runtime.submit(Heartbeat { beats: 0 }).start()?;
    let mut reports = Vec::new();
    for number in 0..16 {
        let path = std::env::temp_dir().join(format!("fom-report-{}-{number}", std::process::id()));
        reports.push(runtime.submit(Report { path, lines: 10 }).start()?);
    }
    let heart = heart.await?;
    println!(
        "{} heartbeats in {:?}, while 16 reports were written",
        heart.operation.beats,
        begun.elapsed()
    );
    println!("{}", runtime.operations());
    for report in reports {
        let ended = report.await?;
        assert!(matches!(ended.end, ReportingEnd::Done { bytes: 120 }));
    }
    let threads: usize = runtime
        .operations()
        .localities
        .iter()
        .map(|l| l.threads)
        .sum();
    println!(
        "16 reports of 50 ms each in {:?}, by {threads} threads",
        begun.elapsed()
    );
    assert!(begun.elapsed() < Duration::from_millis(16 * 50));
    Ok(())
}
