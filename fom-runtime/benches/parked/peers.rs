//! Tasks of the peers. Each waits for a `oneshot`, and its sender wakes the task.

use std::{future::Future, hint::black_box};

use kit::{
    Figures, One, Tally,
    peers::{self, LocalWindow, SharedWindow},
};
use tokio::sync::oneshot;

use crate::{BATCH, Load, State, WORKERS, measure, state};

type Handle = oneshot::Sender<()>;

/// Notes that an operation waits.
trait Window: 'static {
    fn done(&self);
    fn add(&self, n: usize);
    fn empty(&self) -> impl Future<Output = ()>;
    /// Counts an operation that ended.
    fn end(ended: &Tally);
}

impl Window for LocalWindow {
    fn done(&self) {
        self.done();
    }

    fn add(&self, n: usize) {
        self.add(n);
    }

    async fn empty(&self) {
        self.at_most(0).await;
    }

    fn end(ended: &Tally) {
        ended.add_alone();
    }
}

impl Window for SharedWindow {
    fn done(&self) {
        self.done();
    }

    fn add(&self, n: usize) {
        self.add(n);
    }

    async fn empty(&self) {
        self.at_most(0).await;
    }

    fn end(ended: &Tally) {
        ended.add();
    }
}

/// One operation. The data for the measurement is in `of`, so that it is one pointer. It is a block, since an `async
/// fn` would keep its arguments twice.
#[expect(clippy::manual_async_fn, reason = "168 bytes instead of 96")]
fn op<W: Window>(
    state: State,
    event: oneshot::Receiver<()>,
    of: &'static Of<W>,
) -> impl Future<Output = ()> {
    async move {
        of.window.done();
        event.await.expect("each is woken");
        black_box(state.iter().sum::<u64>());
        W::end(of.ended);
    }
}

struct Of<W: 'static> {
    window: &'static W,
    ended: &'static Tally,
}

/// Returns the size of an operation's future.
fn size() -> usize {
    let (_, event) = oneshot::channel();
    let of = Box::leak(Box::new(Of {
        window: LocalWindow::new(),
        ended: &Tally::of(1)[0],
    }));
    size_of_val(&op(state(0), event, of))
}

/// Starts all operations of one worker.
async fn park<W: Window>(
    n: usize,
    load: Load<Handle>,
    of: &'static Of<W>,
    mut spawn: impl FnMut(State, oneshot::Receiver<()>),
) {
    let mut handles = Vec::with_capacity(load.each);
    while handles.len() < load.each {
        let batch = BATCH.min(load.each - handles.len());
        of.window.add(batch);
        for _ in 0..batch {
            let (handle, event) = oneshot::channel();
            spawn(state(handles.len() as u64), event);
            handles.push(handle);
        }
        of.window.empty().await;
    }
    load.parked
        .send((n, handles))
        .unwrap_or_else(|_| unreachable!("main waits"));
}

fn local(n: usize, load: &Load<Handle>) -> &'static Of<LocalWindow> {
    Box::leak(Box::new(Of {
        window: LocalWindow::new(),
        ended: &load.ended[n],
    }))
}

fn shared(n: usize, load: &Load<Handle>) -> &'static Of<SharedWindow> {
    Box::leak(Box::new(Of {
        window: SharedWindow::new(),
        ended: &load.ended[n],
    }))
}

pub(crate) fn run(one: &One) -> Figures {
    let start: fn(Load<Handle>) = match &*one.peer {
        "tokio-mt" => tokio_mt,
        "tokio-ct" => tokio_ct,
        "tokio-ct:local" => tokio_local,
        "smol" => smol,
        "smol:local" => smol_local,
        "glommio" => glommio,
        "monoio" => monoio,
        _ => one.unknown(),
    };
    measure(one, start, |handle| handle.send(()).expect("it waits"))
        .with("future_bytes", size() as f64)
}

fn tokio_mt(load: Load<Handle>) {
    peers::tokio_mt(WORKERS, move |n| {
        let (of, load) = (shared(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                drop(tokio::spawn(op(state, event, of)))
            })
            .await;
        }
    });
}

fn tokio_ct(load: Load<Handle>) {
    peers::tokio_ct(WORKERS, move |n| {
        let (of, load) = (shared(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                drop(tokio::spawn(op(state, event, of)))
            })
            .await;
            std::future::pending().await
        }
    });
}

fn tokio_local(load: Load<Handle>) {
    peers::tokio_local(WORKERS, move |n| {
        let (of, load) = (local(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                drop(tokio::task::spawn_local(op(state, event, of)))
            })
            .await;
            std::future::pending().await
        }
    });
}

fn smol(load: Load<Handle>) {
    peers::smol(WORKERS, move |n, executor| {
        let (of, load) = (shared(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                executor.spawn(op(state, event, of)).detach()
            })
            .await;
        }
    });
}

fn smol_local(load: Load<Handle>) {
    peers::smol_local(WORKERS, move |n, executor| {
        let (of, load) = (local(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                executor.spawn(op(state, event, of)).detach()
            })
            .await;
            std::future::pending().await
        }
    });
}

fn glommio(load: Load<Handle>) {
    peers::glommio(WORKERS, move |n| {
        let (of, load) = (local(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                drop(glommio::spawn_local(op(state, event, of)).detach())
            })
            .await;
            std::future::pending().await
        }
    });
}

fn monoio(load: Load<Handle>) {
    peers::monoio(WORKERS, move |n| {
        let (of, load) = (local(n, &load), load.clone());
        async move {
            park(n, load, of, |state, event| {
                drop(monoio::spawn(op(state, event, of)))
            })
            .await;
            std::future::pending().await
        }
    });
}
