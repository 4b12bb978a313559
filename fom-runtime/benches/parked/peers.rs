//! Tasks of the peers. Each waits for a `oneshot`, and its sender wakes the task.

use std::{future::Future, hint::black_box};

use kit::{
    Figures, One, Tally,
    peers::{self, LocalWindow, SharedWindow},
};
use tokio::sync::oneshot;

use crate::{BATCH, Load, Message, State, WORKERS, measure, state};

type Handle<M> = oneshot::Sender<M>;

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
fn op<W: Window, M: Message>(
    state: State,
    event: oneshot::Receiver<M>,
    of: &'static Of<W>,
) -> impl Future<Output = ()> {
    async move {
        of.window.done();
        let event = event.await.expect("each is woken");
        black_box(state.iter().sum::<u64>() + event.value());
        W::end(of.ended);
    }
}

struct Of<W: 'static> {
    window: &'static W,
    ended: &'static Tally,
}

/// Returns the size of an operation's future.
fn size<M: Message>() -> usize {
    let (_, event) = oneshot::channel::<M>();
    let of = Box::leak(Box::new(Of {
        window: LocalWindow::new(),
        ended: &Tally::of(1)[0],
    }));
    size_of_val(&op(state(0), event, of))
}

/// Starts all operations of one worker.
async fn park<W: Window, M: Message>(
    n: usize,
    load: Load<Handle<M>>,
    of: &'static Of<W>,
    mut spawn: impl FnMut(State, oneshot::Receiver<M>),
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

fn local<M>(n: usize, load: &Load<Handle<M>>) -> &'static Of<LocalWindow> {
    Box::leak(Box::new(Of {
        window: LocalWindow::new(),
        ended: &load.ended[n],
    }))
}

fn shared<M>(n: usize, load: &Load<Handle<M>>) -> &'static Of<SharedWindow> {
    Box::leak(Box::new(Of {
        window: SharedWindow::new(),
        ended: &load.ended[n],
    }))
}

pub(crate) fn run<M: Message>(one: &One) -> Figures {
    let start: fn(Load<Handle<M>>) = match &*one.peer {
        "tokio-mt" => tokio_mt::<M>,
        "tokio-ct" => tokio_ct::<M>,
        "tokio-ct:local" => tokio_local::<M>,
        "smol" => smol::<M>,
        "smol:local" => smol_local::<M>,
        "glommio" => glommio::<M>,
        "monoio" => monoio::<M>,
        _ => one.unknown(),
    };
    measure(one, start, |handle| {
        assert!(handle.send(M::default()).is_ok(), "it waits");
    })
    .with("future_bytes", size::<M>() as f64)
}

fn tokio_mt<M: Message>(load: Load<Handle<M>>) {
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

fn tokio_ct<M: Message>(load: Load<Handle<M>>) {
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

fn tokio_local<M: Message>(load: Load<Handle<M>>) {
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

fn smol<M: Message>(load: Load<Handle<M>>) {
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

fn smol_local<M: Message>(load: Load<Handle<M>>) {
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

fn glommio<M: Message>(load: Load<Handle<M>>) {
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

fn monoio<M: Message>(load: Load<Handle<M>>) {
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
