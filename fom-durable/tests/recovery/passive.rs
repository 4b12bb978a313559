//! Foms that come back only when there is room, or when a caller asks for them.

use std::time::Duration;

use fom_durable::prelude::*;
use fom_runtime::{config::Shutdown, error::RefusedReason};

use crate::{
    kit::{limited, millis, secs},
    parked::{Bench, Job, JobEvent, job},
};

/// With a limit the oldest come back first, the rest when there is room; meanwhile they are counted, and found by key.
#[test]
fn no_more_come_back_at_once_than_the_limit_says() {
    limited(async || {
        const ALL: usize = 20_000;
        const MOST: usize = 1_000;
        let bench = Bench::new();
        let ids = bench.park(ALL, None).await;
        let runtime = bench.builder().resident(MOST).build().unwrap();
        runtime.quiet().await;
        let operations = runtime.operations();
        let back: Vec<_> = operations.foms.iter().map(|fom| fom.id).collect();
        assert_eq!(back, ids[..MOST]);
        assert_eq!(operations.passive, ALL - MOST);
        assert_eq!(runtime.in_flight(), ALL);
        assert!(
            operations
                .to_string()
                .contains("19000 more rest until there is room")
        );
        // A caller that looks for a resting fom finds it.
        let key = 14_000u64;
        let fom = runtime.find::<Job>(key).unwrap();
        assert_eq!((fom.id(), fom.phase()), (ids[14_000], "Park"));
        let refused = runtime.submit(job("x")).key(16_000u64).start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        assert_eq!(refused.live().unwrap().id(), ids[16_000]);
        assert_eq!(runtime.operation(ids[18_000]).unwrap().phase, "Park");
        assert!(runtime.cancel(ids[19_000]));
        assert!(runtime.wake(ids[19_200]));
        runtime.quiet().await;
        assert_eq!(runtime.operations().passive, ALL - MOST - 5);
        // Once there is room, the next come.
        for key in 0..MOST as u64 {
            runtime
                .find::<Job>(key)
                .unwrap()
                .send(JobEvent::Go)
                .unwrap();
        }
        runtime.quiet().await;
        let operations = runtime.operations();
        let oldest: Vec<_> = operations
            .foms
            .iter()
            .take(MOST - 4)
            .map(|fom| fom.id)
            .collect();
        assert_eq!(
            oldest,
            ids[MOST..2 * MOST - 4],
            "four more came by the back door"
        );
        assert_eq!(operations.foms.len(), MOST);
        // They stay where they are when the runtime ends, and all are there after that.
        let report = runtime.shutdown(Shutdown::Drain, Duration::ZERO).await;
        assert!(report.remained.len() <= MOST + 5);
        drop(runtime);
        let runtime = bench.build();
        assert_eq!(runtime.in_flight(), ALL - MOST - 1);
    });
}

/// A deadline passes in time, whether or not the fom rests; an overdue one passes at once.
#[test]
fn deadlines_of_those_that_rest_pass_in_time() {
    limited(async || {
        const ALL: usize = 2_000;
        let bench = Bench::new();
        bench.park(ALL / 2, Some(|| JobEvent::Wait)).await;
        bench.clock.advance(secs(30));
        {
            let runtime = bench.build();
            for key in ALL / 2..ALL {
                let key = key as u64;
                runtime.submit(job(key)).key(key).detach().unwrap();
                runtime
                    .find::<Job>(key)
                    .unwrap()
                    .send(JobEvent::Wait)
                    .unwrap();
            }
            runtime.quiet().await;
        }
        let runtime = bench.builder().resident(10).build().unwrap();
        runtime.quiet().await;
        assert_eq!(runtime.operations().passive, ALL - 10);
        bench.clock.advance(millis(29_999));
        runtime.quiet().await;
        assert_eq!(bench.log.take().len(), 0);
        assert_eq!(runtime.operations().passive, ALL - 10);
        bench.clock.advance(millis(1));
        runtime.quiet().await;
        assert_eq!(bench.log.take().len(), ALL / 2);
        assert_eq!(runtime.operations().passive, ALL / 2 - 10);
        drop(runtime);
        bench.clock.advance(secs(30));
        let runtime = bench.builder().resident(10).build().unwrap();
        runtime.idle().await;
        assert_eq!(bench.log.take().len(), ALL / 2);
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// An operation id brings back its fom.
#[test]
fn an_operation_id_finds_one_that_rests() {
    limited(async || {
        let bench = Bench::new();
        let id;
        {
            let runtime = bench.build();
            for key in 0..10u64 {
                runtime.submit(job(key)).detach().unwrap();
            }
            id = runtime.submit(job("once")).once("x").detach().unwrap();
            runtime.quiet().await;
        }
        let runtime = bench.builder().resident(1).build().unwrap();
        assert_eq!(runtime.operations().passive, 10);
        let handle = runtime.submit(job("again")).once("x").start().unwrap();
        assert_eq!(handle.id(), id);
        assert_eq!(runtime.operations().passive, 9);
        handle.send(JobEvent::Go).unwrap();
        assert_eq!(handle.await.unwrap().operation.name, "once");
    });
}

/// Many threads look for the same fom and for others at once: each fom is made once.
#[test]
fn one_that_rests_is_made_once_however_many_look_for_it() {
    limited(async || {
        const ALL: u64 = 500;
        let bench = Bench::new();
        let ids = bench.park(ALL as usize, None).await;
        let runtime = bench.builder().resident(1).build().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let runtime = runtime.clone();
                std::thread::spawn(move || {
                    let find = |key| runtime.find::<Job>(key).expect("it is parked").id();
                    (0..ALL).map(find).collect::<Vec<_>>()
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), ids);
        }
        assert_eq!(runtime.operations().passive, 0);
        assert_eq!(runtime.operations().foms.len(), ALL as usize);
        assert!(runtime.quarantine().list().is_empty());
    });
}

/// A limit of zero resident foms is an error of `build`, and the error names the setting.
#[test]
fn a_limit_of_none_is_a_mistake() {
    let error = Runtime::builder().resident(0).build().unwrap_err();
    assert!(error.to_string().contains("resident"), "{error}");
}
