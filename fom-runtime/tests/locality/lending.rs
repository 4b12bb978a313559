//! Processors lent to a locality with threads that wait for a processor. A machine with one core has no processor to
//! lend.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use fom_runtime::{Cx, Runtime, balance::Balance, prelude::*, topology::Machine};

use crate::kit::alone::alone;
use crate::kit::task::{self, limit, pause, quick, task, until};

/// The processors that each thread of locality 0 may run on. The names tell the threads apart, so the process has only
/// one runtime.
fn allowed() -> Vec<BTreeSet<usize>> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter(|thread| {
            let name = fs::read_to_string(thread.path().join("comm"));
            name.is_ok_and(|name| name.starts_with("fom-0-"))
        })
        // A thread may end meanwhile.
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .filter_map(|status| {
            let list = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(numbers(list.trim()))
        })
        .collect()
}

/// The numbers in a list such as `0-2,5`.
fn numbers(list: &str) -> BTreeSet<usize> {
    list.split(',')
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse().unwrap()..=last.parse::<usize>().unwrap()
        })
        .collect()
}

fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Two localities, if there are two cores, and the processors of locality 0.
fn two(balance: Balance) -> Option<(Runtime, BTreeSet<usize>)> {
    if Machine::detect().cores() < 2 {
        return None;
    }
    let builder = Runtime::builder().localities(2).balance(balance);
    let runtime = builder.build().unwrap();
    let own = task::locality(&runtime, 0).cpus.into_iter().collect();
    until("it is bound", || !has_borrowed(&own));
    Some((runtime, own))
}

/// Whether all threads of locality 0 run on more processors than its own. A new thread may run anywhere until it is
/// bound.
fn has_borrowed(own: &BTreeSet<usize>) -> bool {
    allowed().iter().all(|cpus| cpus != own)
}

/// Work for locality 0 that blocks and computes there, beside work for its handler, until it is told to stop.
fn keep_busy(runtime: &Runtime, stop: &Arc<AtomicBool>) -> Vec<fom_runtime::Handle<task::Task>> {
    let run = |blocks: bool| {
        let stop = Arc::clone(stop);
        let fom = task(move |cx: &mut Cx<'_>| {
            Box::pin(async move {
                while !stop.load(Ordering::Relaxed) {
                    if blocks {
                        let section = cx.enter_block().unwrap();
                        compute(Duration::from_millis(2));
                        drop(section);
                    } else {
                        compute(Duration::from_micros(100));
                    }
                    pause().await;
                }
            })
        });
        let submission = runtime.submit(fom).place(Placement::Locality(0));
        submission.start().unwrap()
    };
    [false, true, true].map(run).into()
}

fn stop(foms: Vec<fom_runtime::Handle<task::Task>>, stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
    for fom in foms {
        fom.wait().unwrap();
    }
}

/// LO-13: a locality with computing blocking sections borrows the processor of an idle locality. The idle locality has
/// it back as soon as it has work itself, and lends it again after that.
#[test]
fn an_idle_processor_is_lent_and_taken_back() {
    alone(|| {
        let _limit = limit();
        let Some((runtime, own)) = two(Balance::Processors) else {
            return;
        };
        let told = Arc::new(AtomicBool::new(false));
        let foms = keep_busy(&runtime, &told);
        for _ in 0..2 {
            until("it is lent", || has_borrowed(&own));
            // While locality 1 is busy with this job, it has lent nothing.
            let (stand, stands) = mpsc::channel();
            let (open, opened) = mpsc::channel::<()>();
            runtime
                .post(1, move |_| {
                    stand.send(()).unwrap();
                    let _ = opened.recv();
                })
                .unwrap();
            stands.recv().unwrap();
            assert!(!has_borrowed(&own));
            drop(open);
        }
        stop(foms, &told);
        assert_eq!(runtime.operations().incidents, []);
        runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    });
}

/// Nothing is lent without a request, or if only foms are moved.
#[test]
fn nothing_is_lent_by_itself() {
    alone(|| {
        let _limit = limit();
        for balance in [Balance::Off, Balance::Foms] {
            let Some((runtime, own)) = two(balance) else {
                return;
            };
            let told = Arc::new(AtomicBool::new(false));
            let foms = keep_busy(&runtime, &told);
            // More than enough rounds for a loan.
            for _ in 0..20 {
                let works = quick(|_| compute(Duration::from_millis(1)));
                let works = runtime.submit(works).place(Placement::Locality(0));
                works.start().unwrap().wait().unwrap();
                assert!(!has_borrowed(&own));
            }
            stop(foms, &told);
            runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
        }
    });
}
