//! Tasks of the peers.

use std::{future::Future, hint::black_box};

use kit::{
    mix,
    peers::{
        self, DeferredYield, Load, LocalWindow, SharedWindow, generate, generate_shared, self_wake,
    },
};

use crate::words::{touch, words};

/// What happens between two phases.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum How {
    /// The executor's own yield.
    Yield,
    /// The task wakes itself instead.
    SelfWake,
    /// Nothing.
    Straight,
}

pub(crate) fn start(load: Load, peer: &str, how: How) {
    let phases = load.phases;
    let straight = move |x| op(x, phases, nothing);
    let tokio = move |x| op(x, phases, tokio::task::yield_now);
    let smol_yields = move |x| op(x, phases, futures_lite::future::yield_now);
    let wakes = move |x| op(x, phases, self_wake);
    match (peer, how) {
        ("tokio-mt", How::Yield) => tokio_mt(load, tokio),
        ("tokio-mt", How::SelfWake) => tokio_mt(load, wakes),
        ("tokio-mt", How::Straight) => tokio_mt(load, straight),
        ("tokio-ct", How::Straight) => tokio_ct(load, straight),
        ("tokio-ct", _) => tokio_ct(load, tokio),
        ("tokio-ct:local", How::Straight) => tokio_local(load, straight),
        ("tokio-ct:local", _) => tokio_local(load, tokio),
        ("smol", How::Straight) => smol(load, straight),
        ("smol", _) => smol(load, smol_yields),
        ("smol:local", How::Straight) => smol_local(load, straight),
        ("smol:local", _) => smol_local(load, smol_yields),
        ("glommio", How::Straight) => glommio(load, straight),
        // Glommio's own yield acts only after a long run.
        ("glommio", _) => glommio(load, wakes),
        ("monoio", How::Straight) => monoio(load, move |x, _| straight(x)),
        ("monoio", _) => monoio(load, move |x, later| op(x, phases, || later.yields())),
        _ => panic!("no such peer: {peer}"),
    }
}

/// Starts tasks with 4 KiB of state. Each yields after each phase.
pub(crate) fn start_large(load: Load, peer: &str) {
    let tokio = |x| large_op(x, tokio::task::yield_now);
    match peer {
        "tokio-mt" => tokio_mt(load, tokio),
        "tokio-ct:local" => tokio_local(load, tokio),
        "smol:local" => smol_local(load, |x| large_op(x, futures_lite::future::yield_now)),
        "monoio" => monoio(load, |x, later| large_op(x, || later.yields())),
        _ => panic!("no such peer: {peer}"),
    }
}

fn nothing() -> std::future::Ready<()> {
    std::future::ready(())
}

/// One operation.
async fn op<Y: Future<Output = ()>>(mut x: u64, phases: u32, between: impl Fn() -> Y) -> u64 {
    for phase in 1..=phases {
        x = mix(x ^ u64::from(phase & 3));
        if phase < phases {
            between().await;
        }
    }
    x
}

/// One operation with its state.
async fn large_op<Y: Future<Output = ()>>(mut x: u64, between: impl Fn() -> Y) -> u64 {
    let mut words = words(x);
    for phase in 0..4 {
        x = touch(&mut words, phase, mix(x ^ phase));
        if phase < 3 {
            between().await;
        }
    }
    x
}

fn tokio_mt<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + Send + 'static,
{
    peers::tokio_mt(load.workers, move |n| async move {
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            tokio::spawn(async move {
                black_box(op(x).await);
                window.done();
            });
        })
        .await;
    });
}

fn tokio_ct<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + Send + 'static,
{
    peers::tokio_ct(load.workers, move |n| async move {
        // Spawned tasks must be `Send`, so their shared data must be, too.
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            tokio::spawn(async move {
                black_box(op(x).await);
                window.done();
            });
        })
        .await;
    });
}

fn tokio_local<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + 'static,
{
    peers::tokio_local(load.workers, move |n| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            tokio::task::spawn_local(async move {
                black_box(op(x).await);
                window.done();
            });
        })
        .await;
    });
}

fn smol<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + Send + 'static,
{
    peers::smol(load.workers, move |n, executor| async move {
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            let task = executor.spawn(async move {
                black_box(op(x).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn smol_local<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + 'static,
{
    peers::smol_local(load.workers, move |n, executor| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            let task = executor.spawn(async move {
                black_box(op(x).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn glommio<F>(load: Load, op: impl Fn(u64) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = u64> + 'static,
{
    peers::glommio(load.workers, move |n| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            let task = glommio::spawn_local(async move {
                black_box(op(x).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn monoio<F>(
    load: Load,
    op: impl Fn(u64, &'static DeferredYield) -> F + Copy + Send + Sync + 'static,
) where
    F: Future<Output = u64> + 'static,
{
    peers::monoio(load.workers, move |n| async move {
        let (window, later) = (LocalWindow::new(), DeferredYield::new());
        monoio::spawn(later.help());
        generate(load, n, window, |x| {
            monoio::spawn(async move {
                black_box(op(x, later).await);
                window.done();
            });
        })
        .await;
    });
}
