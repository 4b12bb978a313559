//! Tasks of the peers, and their ways to block.

use std::{future::Future, thread};

use kit::{now, peers::self_wake};

use super::{FLOWS, WORKERS, block, ended, work};

/// Runs operations one after the other, forever.
async fn flow<Y: Future<Output = ()>>(flow: usize, yields: impl Fn() -> Y) {
    let mut x = 1;
    loop {
        let begun = now();
        x = work(x);
        for _ in 0..3 {
            yields().await;
            x = work(x);
        }
        ended(flow, begun);
    }
}

pub(crate) fn start(peer: &str, blockers: usize) -> bool {
    match peer {
        "tokio-mt" | "tokio-mt:in-place" | "tokio-mt:spawn-blocking" => {
            tokio_mt(blockers, peer == "tokio-mt:in-place");
        }
        "tokio-ct" => (0..WORKERS).for_each(|n| tokio_ct(n, blockers)),
        "smol" => smol(blockers),
        _ => return false,
    }
    true
}

async fn block_by_spawn() {
    loop {
        assert!(tokio::task::spawn_blocking(block).await.is_ok());
    }
}

async fn block_in_place() {
    loop {
        tokio::task::block_in_place(block);
        // Without this, the task would be one poll forever.
        tokio::task::yield_now().await;
    }
}

fn tokio_mt(blockers: usize, in_place: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .build()
        .expect("a tokio runtime");
    for n in 0..FLOWS {
        runtime.spawn(flow(n, tokio::task::yield_now));
    }
    for _ in 0..blockers {
        match in_place {
            true => runtime.spawn(block_in_place()),
            false => runtime.spawn(block_by_spawn()),
        };
    }
    std::mem::forget(runtime);
}

/// One worker with its half of the flows. `spawn_blocking` is its only way to block.
fn tokio_ct(n: usize, blockers: usize) {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a tokio runtime");
        let set = tokio::task::LocalSet::new();
        for n in (n..FLOWS).step_by(WORKERS) {
            set.spawn_local(flow(n, tokio::task::yield_now));
        }
        for _ in (n..blockers).step_by(WORKERS) {
            set.spawn_local(block_by_spawn());
        }
        runtime.block_on(set);
    });
}

fn smol(blockers: usize) {
    let executor: &'static _ = Box::leak(Box::new(async_executor::Executor::new()));
    for n in 0..FLOWS {
        executor.spawn(flow(n, self_wake)).detach();
    }
    for _ in 0..blockers {
        let blocker = async {
            loop {
                blocking::unblock(block).await;
            }
        };
        executor.spawn(blocker).detach();
    }
    for _ in 0..WORKERS {
        thread::spawn(|| {
            futures_lite::future::block_on(executor.run(std::future::pending::<()>()))
        });
    }
}
