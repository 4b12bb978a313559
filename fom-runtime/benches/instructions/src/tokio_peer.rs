//! The same operation as a task of tokio's multi-thread runtime, with one worker.

use std::hint::black_box;

use tokio::{runtime::Builder, task};

use crate::machines::mix;

const WINDOW: u64 = 512;

/// Runs `operations` tasks, `WINDOW` at a time, spawned by a task. Each yields between its phases.
pub(crate) fn tasks(operations: u64, phases: u64) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("there is a thread for one worker");
    let generator = runtime.spawn(async move {
        let mut all = Vec::with_capacity(WINDOW as usize);
        for _ in 0..operations / WINDOW {
            all.extend((0..WINDOW).map(|_| task::spawn(chain(phases))));
            for task in all.drain(..) {
                assert!(task.await.is_ok());
            }
        }
    });
    assert!(runtime.block_on(generator).is_ok());
    std::mem::forget(runtime);
}

async fn chain(phases: u64) {
    let mut word = 1;
    for phase in 0..phases {
        if phase > 0 {
            task::yield_now().await;
        }
        word = mix(word);
    }
    black_box(word);
}
