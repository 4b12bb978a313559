//! Tasks of the peers.

use std::{future::Future, hint::black_box};

use kit::{
    mix,
    peers::{
        self, DeferredYield, Load, LocalWindow, SharedWindow, generate, generate_shared, self_wake,
    },
};

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
    match (peer, how) {
        ("tokio-mt", How::Yield) => tokio_mt(load, tokio::task::yield_now),
        ("tokio-mt", How::SelfWake) => tokio_mt(load, self_wake),
        ("tokio-mt", How::Straight) => tokio_mt(load, nothing),
        ("tokio-ct", How::Straight) => tokio_ct(load, nothing),
        ("tokio-ct", _) => tokio_ct(load, tokio::task::yield_now),
        ("tokio-ct:local", How::Straight) => tokio_local(load, nothing),
        ("tokio-ct:local", _) => tokio_local(load, tokio::task::yield_now),
        ("smol", How::Straight) => smol(load, nothing),
        ("smol", _) => smol(load, futures_lite::future::yield_now),
        ("smol:local", How::Straight) => smol_local(load, nothing),
        ("smol:local", _) => smol_local(load, futures_lite::future::yield_now),
        ("glommio", How::Straight) => glommio(load, nothing),
        // Glommio's own yield acts only after a long run.
        ("glommio", _) => glommio(load, self_wake),
        ("monoio", How::Straight) => monoio(load, |_| nothing()),
        ("monoio", _) => monoio(load, DeferredYield::yields),
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

fn tokio_mt<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + Send + 'static,
{
    peers::tokio_mt(load.workers, move |n| async move {
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            tokio::spawn(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
        })
        .await;
    });
}

fn tokio_ct<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + Send + 'static,
{
    peers::tokio_ct(load.workers, move |n| async move {
        // Spawned tasks must be `Send`, so their shared data must be, too.
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            tokio::spawn(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
        })
        .await;
    });
}

fn tokio_local<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + 'static,
{
    peers::tokio_local(load.workers, move |n| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            tokio::task::spawn_local(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
        })
        .await;
    });
}

fn smol<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + Send + 'static,
{
    peers::smol(load.workers, move |n, executor| async move {
        let window = SharedWindow::new();
        generate_shared(load, n, window, |x| {
            let task = executor.spawn(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn smol_local<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + 'static,
{
    peers::smol_local(load.workers, move |n, executor| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            let task = executor.spawn(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn glommio<Y>(load: Load, between: impl Fn() -> Y + Copy + Send + Sync + 'static)
where
    Y: Future<Output = ()> + 'static,
{
    peers::glommio(load.workers, move |n| async move {
        let window = LocalWindow::new();
        generate(load, n, window, |x| {
            let task = glommio::spawn_local(async move {
                black_box(op(x, load.phases, between).await);
                window.done();
            });
            task.detach();
        })
        .await;
    });
}

fn monoio<Y>(
    load: Load,
    between: impl Fn(&'static DeferredYield) -> Y + Copy + Send + Sync + 'static,
) where
    Y: Future<Output = ()> + 'static,
{
    peers::monoio(load.workers, move |n| async move {
        let (window, later) = (LocalWindow::new(), DeferredYield::new());
        monoio::spawn(later.help());
        generate(load, n, window, |x| {
            monoio::spawn(async move {
                black_box(op(x, load.phases, || between(later)).await);
                window.done();
            });
        })
        .await;
    });
}
