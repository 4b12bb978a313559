//! The same as tasks on tokio's multi-threaded runtime.

use std::{hint::black_box, thread};

use kit::{
    mix,
    peers::{self, SharedWindow, generate_shared},
};

use crate::{BLOCK, Shape};

async fn op<const WORDS: usize>(x: u64, phases: u32, blocks: bool, in_place: bool) {
    let mut state = [x; WORDS];
    for left in (1..=phases).rev() {
        let word = &mut state[left as usize % WORDS];
        *word = mix(*word);
        if left == phases && blocks {
            if in_place {
                tokio::task::block_in_place(|| thread::sleep(BLOCK));
            } else {
                let blocked = tokio::task::spawn_blocking(|| thread::sleep(BLOCK));
                blocked.await.expect("sleeping cannot fail");
            }
        }
        if left > 1 {
            tokio::task::yield_now().await;
        }
    }
    black_box(state);
}

pub(crate) fn start(shape: Shape, in_place: bool) {
    match shape.state_bytes {
        8 => tokio_mt::<1>(shape, in_place),
        64 => tokio_mt::<8>(shape, in_place),
        256 => tokio_mt::<32>(shape, in_place),
        1024 => tokio_mt::<128>(shape, in_place),
        4096 => tokio_mt::<512>(shape, in_place),
        other => panic!("there is no task with {other} bytes of state"),
    }
}

fn tokio_mt<const WORDS: usize>(shape: Shape, in_place: bool) {
    let load = shape.load;
    peers::tokio_mt(load.workers, move |n| async move {
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            let blocks = x % 100 < shape.blocking_percent;
            tokio::spawn(async move {
                op::<WORDS>(x, load.phases, blocks, in_place).await;
                window.done();
            });
        })
        .await;
    });
}
