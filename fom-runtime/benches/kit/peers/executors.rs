//! Executors with `workers` threads. All run in threads of their own and forever: the process exits after the
//! measurement. `work` makes the future or function that runs in each worker.

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::pin;

/// Tokio's multi-threaded runtime; `work` is spawned once for each worker.
pub fn tokio_mt<F>(workers: usize, work: impl Fn(usize) -> F) -> tokio::runtime::Handle
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = AtomicUsize::new(0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .on_thread_start(move || {
            // The workers come first; the threads for blocking work may go anywhere.
            let n = started.fetch_add(1, Ordering::Relaxed);
            if n < workers {
                pin(n);
            }
        })
        .enable_all()
        .build()
        .expect("a tokio runtime");
    for n in 0..workers {
        runtime.spawn(work(n));
    }
    let handle = runtime.handle().clone();
    std::mem::forget(runtime);
    handle
}

/// Runs `work` in a pinned thread for each worker.
fn threads(workers: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = std::sync::Arc::new(work);
    for n in 0..workers {
        let work = std::sync::Arc::clone(&work);
        thread::spawn(move || {
            pin(n);
            work(n);
        });
    }
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a tokio runtime")
}

/// A single-threaded tokio runtime in each worker; tasks are `Send`.
pub fn tokio_ct<F: Future<Output = ()>>(
    workers: usize,
    work: impl Fn(usize) -> F + Send + Sync + 'static,
) {
    threads(workers, move |n| current_thread().block_on(work(n)));
}

/// The same with a `LocalSet`. Its tasks need not be `Send`.
pub fn tokio_local<F: Future<Output = ()>>(
    workers: usize,
    work: impl Fn(usize) -> F + Send + Sync + 'static,
) {
    threads(workers, move |n| {
        let set = tokio::task::LocalSet::new();
        set.block_on(&current_thread(), work(n));
    });
}

/// One `async_executor::Executor` that all workers run, as in `smol`.
pub fn smol<F>(
    workers: usize,
    work: impl Fn(usize, &'static async_executor::Executor<'static>) -> F,
) -> &'static async_executor::Executor<'static>
where
    F: Future<Output = ()> + Send + 'static,
{
    let executor: &'static _ = Box::leak(Box::new(async_executor::Executor::new()));
    for n in 0..workers {
        executor.spawn(work(n, executor)).detach();
    }
    threads(workers, move |_| {
        futures_lite::future::block_on(executor.run(std::future::pending::<()>()))
    });
    executor
}

/// As [`smol`], and the workers run async-io's reactor, as the smol crate's own `block_on` does.
pub fn smol_io<F>(
    workers: usize,
    work: impl Fn(usize, &'static async_executor::Executor<'static>) -> F,
) -> &'static async_executor::Executor<'static>
where
    F: Future<Output = ()> + Send + 'static,
{
    let executor: &'static _ = Box::leak(Box::new(async_executor::Executor::new()));
    for n in 0..workers {
        executor.spawn(work(n, executor)).detach();
    }
    threads(workers, move |_| {
        async_io::block_on(executor.run(std::future::pending::<()>()))
    });
    executor
}

/// A `LocalExecutor` in each worker.
pub fn smol_local<F: Future<Output = ()>>(
    workers: usize,
    work: impl Fn(usize, &'static async_executor::LocalExecutor<'static>) -> F + Send + Sync + 'static,
) {
    threads(workers, move |n| {
        let executor: &'static _ = Box::leak(Box::new(async_executor::LocalExecutor::new()));
        futures_lite::future::block_on(executor.run(work(n, executor)));
    });
}

/// A glommio executor in each worker. It needs io_uring.
pub fn glommio<F: Future<Output = ()> + 'static>(
    workers: usize,
    work: impl Fn(usize) -> F + Send + Sync + 'static,
) {
    threads(workers, move |n| {
        glommio::LocalExecutor::default().run(work(n));
    });
}

/// A monoio runtime in each worker, on io_uring where there is one.
pub fn monoio<F: Future<Output = ()> + 'static>(
    workers: usize,
    work: impl Fn(usize) -> F + Send + Sync + 'static,
) {
    threads(workers, move |n| {
        let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
            .enable_timer()
            .build()
            .expect("a monoio runtime");
        runtime.block_on(work(n));
    });
}
